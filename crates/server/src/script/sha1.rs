//! SHA-1, by which clients name scripts.

/// A digest in hexadecimal digits, in lower case.
pub(crate) type Digest = [u8; 40];

/// The SHA-1 of `bytes`.
pub(crate) fn sha1_hex(bytes: &[u8]) -> Digest {
    let mut state = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0];
    let (blocks, rest) = bytes.as_chunks::<64>();
    blocks.iter().for_each(|block| add_block(&mut state, block));
    // The rest, a set bit, and the length in bits at the end of a block.
    let mut last = [0; 128];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    let end = if rest.len() < 56 { 64 } else { 128 };
    last[end - 8..end].copy_from_slice(&(8 * bytes.len() as u64).to_be_bytes());
    last[..end].as_chunks().0.iter().for_each(|block| add_block(&mut state, block));
    let mut digest = [0; 40];
    for (at, digit) in digest.iter_mut().enumerate() {
        let nibble = state[at / 8] >> (28 - 4 * (at % 8)) & 0xF;
        *digit = b"0123456789abcdef"[nibble as usize];
    }
    digest
}

fn add_block(state: &mut [u32; 5], block: &[u8; 64]) {
    let mut words = [0_u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for at in 16..80 {
        let mixed = words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16];
        words[at] = mixed.rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (at, word) in words.into_iter().enumerate() {
        let (chosen, constant) = match at {
            0..20 => (b & c | !b & d, 0x5A82_7999),
            20..40 => (b ^ c ^ d, 0x6ED9_EBA1),
            40..60 => (b & c | b & d | c & d, 0x8F1B_BCDC),
            _ => (b ^ c ^ d, 0xCA62_C1D6_u32),
        };
        let next = (a.rotate_left(5))
            .wrapping_add(chosen)
            .wrapping_add(e)
            .wrapping_add(constant)
            .wrapping_add(word);
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
    }
    for (sum, part) in state.iter_mut().zip([a, b, c, d, e]) {
        *sum = sum.wrapping_add(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digests that `sha1sum` prints, of lengths around the end of a block.
    #[test]
    fn digests_are_those_of_the_standard() {
        for (len, digest) in [
            (0, "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            (1, "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
            (55, "c1c8bbdc22796e28c0e15163d20899b65621d65a"),
            (56, "c2db330f6083854c99d4b5bfb6e8f29f201be699"),
            (64, "0098ba824b5c16427bd7a1122a5a442a25ec644d"),
            (119, "ee971065aaa017e0632a8ca6c77bb3bf8b1dfc56"),
            (120, "f34c1488385346a55709ba056ddd08280dd4c6d6"),
            (1000, "291e9a6c66994949b57ba5e650361e98fc36b1ba"),
        ] {
            let found = sha1_hex(&vec![b'a'; len]);
            assert_eq!(String::from_utf8_lossy(&found), digest, "{len} bytes");
        }
    }
}
