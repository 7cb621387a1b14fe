//! Contents of columns that follow from what they belong to, so that a reader knows whether they are right.

use crate::random::splitmix64;

/// Words in a row.
struct Words(u64);

impl Words {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        splitmix64(self.0)
    }
}

/// A name of the contents: of what, in which version.
pub(super) fn name(words: &[u64]) -> u64 {
    words.iter().fold(0x5017_E51E_u64, |name, word| splitmix64(name ^ *word).rotate_left(17))
}

/// `len` letters and digits, of six bits each.
pub(super) fn text(name: u64, len: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut words = Words(name);
    let mut text = String::with_capacity(len);
    while text.len() < len {
        let mut bits = words.next();
        for _ in 0..10.min(len - text.len()) {
            text.push(char::from(LETTERS[(bits % 64) as usize]));
            bits >>= 6;
        }
    }
    text
}

/// Bytes whose number is log-normal with this median and a deviation of 1, `most` at most.
pub(super) fn bytes(name: u64, median: f64, most: usize) -> Vec<u8> {
    let mut words = Words(name);
    let unit = |word: u64| (word >> 11) as f64 / (1_u64 << 53) as f64;
    // Box and Muller.
    let (radius, angle) = (1.0 - unit(words.next()), unit(words.next()));
    let normal = (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
    let len = ((median * normal.exp()) as usize).min(most);
    let mut bytes = Vec::with_capacity(len + 7);
    while bytes.len() < len {
        bytes.extend_from_slice(&words.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_follow_from_their_names() {
        assert_eq!(text(name(&[1, 2]), 100), text(name(&[1, 2]), 100));
        assert_ne!(text(name(&[1, 2]), 100), text(name(&[2, 1]), 100));
        assert_eq!(text(7, 23).len(), 23);
    }

    #[test]
    fn lengths_have_the_median_of_the_benchmark() {
        let mut lengths: Vec<usize> =
            (0..20_001).map(|of| bytes(name(&[of]), 128.0, 4096).len()).collect();
        lengths.sort_unstable();
        assert!((120..=136).contains(&lengths[10_000]), "{}", lengths[10_000]);
        assert!(lengths[20_000] <= 4096 && lengths[19_900] > 900);
    }
}
