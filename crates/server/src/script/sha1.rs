//! SHA-1, by which clients name scripts.

use sha1::{Digest as _, Sha1};

/// A digest in hexadecimal digits, in lower case.
pub(crate) type Digest = [u8; 40];

/// The SHA-1 of `bytes`.
pub(crate) fn sha1_hex(bytes: &[u8]) -> Digest {
    let digest = Sha1::digest(bytes);
    std::array::from_fn(|at| {
        let nibble = digest[at / 2] >> (4 * (1 - at % 2)) & 0xF;
        b"0123456789abcdef"[usize::from(nibble)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digests that `sha1sum` prints.
    #[test]
    fn digests_are_those_of_the_standard() {
        for (len, digest) in [
            (0, "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            (1, "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
            (1000, "291e9a6c66994949b57ba5e650361e98fc36b1ba"),
        ] {
            let found = sha1_hex(&vec![b'a'; len]);
            assert_eq!(String::from_utf8_lossy(&found), digest, "{len} bytes");
        }
    }
}
