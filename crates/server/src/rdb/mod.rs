//! Values in the form of Redis's snapshots, as DUMP and RESTORE move them.
//!
//! What is written is in the oldest of the forms that a type has, which every Redis reads; a stream in that of Redis 7.2,
//! since older ones leave something out, or in that of Redis 7.0 (`dump-version`). What is read may be in any of
//! them ([`reader`], [`packs`]), and comes from clients: none of its lengths is trusted.

pub(crate) mod file;
pub(crate) mod packs;
pub(crate) mod reader;
pub(crate) mod streams;
pub(crate) mod values;

/// The version of the form of what is written: Redis 5 and later read it.
pub(crate) const VERSION: u16 = 9;
/// The greatest version that is read: of Redis 7.2. Streams are written in it.
pub(crate) const VERSION_MAX: u16 = 11;
/// Bytes after a value: the version and the checksum.
const FOOTER: usize = 10;

/// The forms of values, as Redis numbers them.
pub(crate) mod form {
    pub(crate) const STRING: u8 = 0;
    pub(crate) const LIST: u8 = 1;
    pub(crate) const SET: u8 = 2;
    pub(crate) const SORTED_SET_TEXT: u8 = 3;
    pub(crate) const HASH: u8 = 4;
    pub(crate) const SORTED_SET: u8 = 5;
    pub(crate) const HASH_ZIPMAP: u8 = 9;
    pub(crate) const LIST_ZIPLIST: u8 = 10;
    pub(crate) const SET_INTEGERS: u8 = 11;
    pub(crate) const SORTED_SET_ZIPLIST: u8 = 12;
    pub(crate) const HASH_ZIPLIST: u8 = 13;
    pub(crate) const LIST_OF_ZIPLISTS: u8 = 14;
    /// A stream of Redis 5 and 6.
    pub(crate) const STREAM_FIRST: u8 = 15;
    pub(crate) const HASH_LISTPACK: u8 = 16;
    pub(crate) const SORTED_SET_LISTPACK: u8 = 17;
    pub(crate) const LIST_OF_LISTPACKS: u8 = 18;
    /// A stream of Redis 7.0.
    pub(crate) const STREAM: u8 = 19;
    pub(crate) const SET_LISTPACK: u8 = 20;
    /// A stream of Redis 7.2.
    pub(crate) const STREAM_LAST: u8 = 21;
}

/// CRC-64 of Jones, reflected.
const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

static TABLE: [u64; 256] = table();

pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    crc64_after(0, bytes)
}

/// The checksum of bytes that come after others with the checksum `before`.
pub(crate) fn crc64_after(before: u64, bytes: &[u8]) -> u64 {
    let step = |crc: u64, byte: &u8| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8;
    bytes.iter().fold(before, step)
}

/// Appends a length.
pub(crate) fn push_len(to: &mut Vec<u8>, len: u64) {
    match len {
        0..64 => to.push(len as u8),
        64..16384 => to.extend_from_slice(&(0x4000 | len as u16).to_be_bytes()),
        _ => match u32::try_from(len) {
            Ok(len) => {
                to.push(0x80);
                to.extend_from_slice(&len.to_be_bytes());
            }
            Err(_) => {
                to.push(0x81);
                to.extend_from_slice(&len.to_be_bytes());
            }
        },
    }
}

/// Appends a string.
pub(crate) fn push_string(to: &mut Vec<u8>, text: &[u8]) {
    push_len(to, text.len() as u64);
    to.extend_from_slice(text);
}

/// Appends what comes after a value.
pub(crate) fn finish(value: &mut Vec<u8>) {
    let version = if value.first() == Some(&form::STREAM_LAST) { VERSION_MAX } else { VERSION };
    finish_as(value, version);
}

/// The same, for a value that may be in the forms of this version.
pub(crate) fn finish_as(value: &mut Vec<u8>, version: u16) {
    value.extend_from_slice(&version.to_le_bytes());
    let crc = crc64(value);
    value.extend_from_slice(&crc.to_le_bytes());
}

/// The value in what DUMP has answered, if its version is known and its checksum right.
pub(crate) fn checked(payload: &[u8]) -> Option<&[u8]> {
    let (value, footer) = payload.split_at_checked(payload.len().checked_sub(FOOTER)?)?;
    let version = u16::from_le_bytes([footer[0], footer[1]]);
    let sum = u64::from_le_bytes(footer[2..].try_into().ok()?);
    let is_right = sum == crc64(&payload[..payload.len() - 8]);
    (version <= VERSION_MAX && is_right).then_some(value)
}

/// What a newer server's DUMP has answered, with the last version that is known here; `None` if its checksum is wrong.
/// Newer versions have other forms of values, and the same of the old ones.
pub(crate) fn renewed(payload: &[u8]) -> Option<Vec<u8>> {
    let (value, footer) = payload.split_at_checked(payload.len().checked_sub(FOOTER)?)?;
    let sum = u64::from_le_bytes(footer[2..].try_into().ok()?);
    if sum != crc64(&payload[..payload.len() - 8]) {
        return None;
    }
    let mut renewed = value.to_vec();
    renewed.extend_from_slice(&VERSION_MAX.to_le_bytes());
    renewed.extend_from_slice(&crc64(&renewed).to_le_bytes());
    Some(renewed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_redis_s() {
        assert_eq!(crc64(b"123456789"), 0xE9C6_D914_C4B8_D9CA);
        let mut value = vec![form::STRING];
        push_string(&mut value, b"v");
        finish(&mut value);
        assert_eq!(checked(&value), Some(b"\x00\x01v".as_slice()));
        for at in 0..value.len() {
            let mut damaged = value.clone();
            damaged[at] ^= 4;
            assert_eq!(checked(&damaged), None, "byte {at}");
        }
        assert_eq!(checked(b"short"), None);
        // No checksum is a wrong one.
        let end = value.len() - 8;
        value[end..].fill(0);
        assert_eq!(checked(&value), None);
    }
}
