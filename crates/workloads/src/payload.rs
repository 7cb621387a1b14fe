//! Values that identify themselves: every byte follows from an identity and a version, so that
//! every read can be checked.
//!
//! The first eight bytes are the version, little-endian; the rest is printable.

use crate::random::splitmix64;

/// Bytes that the version takes at the start.
pub const VERSION: usize = 8;

/// Fills `value` (at least 8 bytes) for `identity` at `version`.
pub fn fill(identity: u64, version: u64, value: &mut [u8]) {
    let (head, body) = value.split_at_mut(VERSION);
    head.copy_from_slice(&version.to_le_bytes());
    let base = base(identity, version);
    let (words, rest) = body.as_chunks_mut::<8>();
    let mut index = 0;
    for chunk in words {
        *chunk = word(base, index).to_le_bytes();
        index += 1;
    }
    rest.copy_from_slice(&word(base, index).to_le_bytes()[..rest.len()]);
}

/// The version that `value` holds.
///
/// # Panics
/// If it has less than 8 bytes.
#[inline]
pub fn version_of(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..VERSION].try_into().expect("eight bytes"))
}

/// The version of `value`, if every byte of it is what [`fill`] wrote for `identity`.
pub fn verify(identity: u64, value: &[u8]) -> Option<u64> {
    let version = version_of(value);
    let base = base(identity, version);
    let (words, rest) = value[VERSION..].as_chunks::<8>();
    // All differences at once: there is nothing to gain from stopping early.
    let (mut index, mut difference) = (0, 0);
    for chunk in words {
        difference |= u64::from_le_bytes(*chunk) ^ word(base, index);
        index += 1;
    }
    let whole = difference == 0 && *rest == word(base, index).to_le_bytes()[..rest.len()];
    whole.then_some(version)
}

#[inline]
fn base(identity: u64, version: u64) -> u64 {
    splitmix64(identity ^ splitmix64(version))
}

/// Eight printable bytes: six bits of a hash in each, from the space on.
#[inline]
fn word(base: u64, index: u64) -> u64 {
    let mixed = (base ^ index).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = mixed ^ (mixed >> 29);
    (mixed & 0x3F3F_3F3F_3F3F_3F3F) + 0x2020_2020_2020_2020
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_is_noticed() {
        for len in [8, 9, 100, 1024] {
            let mut value = vec![0; len];
            fill(42, 7, &mut value);
            assert_eq!(verify(42, &value), Some(7));
            for at in VERSION..len {
                value[at] ^= 1;
                assert_eq!(verify(42, &value), None, "byte {at} of {len}");
                value[at] ^= 1;
            }
        }
    }

    #[test]
    fn other_identities_and_versions_differ() {
        let mut value = [0; 100];
        fill(1, 0, &mut value);
        assert_eq!(verify(2, &value), None);
        value[0] = 1;
        assert_eq!(verify(1, &value), None);
        assert!(value[VERSION..].iter().all(|byte| (b' '..0x60).contains(byte)));
    }
}
