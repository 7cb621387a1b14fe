//! Where two images differ.

/// The first word that differs; missing words count as 0, as memory that has grown is.
pub(super) fn difference(expected: &[u64], left: &[u64]) -> Option<usize> {
    (0..left.len()).find(|word| expected.get(*word).copied().unwrap_or(0) != left[*word])
}
