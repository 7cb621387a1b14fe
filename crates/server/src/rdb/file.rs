//! A whole snapshot as Redis has it in a file, and sends it to a replica: the version, the keys of each database, a checksum.

use super::{VERSION, crc64_after, push_len, push_string};

const EXPIRES: u8 = 0xFC;
const SELECT: u8 = 0xFE;
const END: u8 = 0xFF;
const LIBRARY: u8 = 0xF5;
const NOTE: u8 = 0xFA;
/// The first version with libraries of functions, and streams of 7.0.
const LEAST: u16 = 10;
const _: () = assert!(VERSION <= LEAST);

/// Writes a snapshot, piece by piece.
#[derive(Default)]
pub(crate) struct FileEncoder {
    db: Option<u8>,
    crc: u64,
    /// The database that is chosen in the stream which goes on from the snapshot.
    stream_db: u8,
}

impl FileEncoder {
    /// For a replica, in whose stream this database is chosen.
    pub(crate) fn for_stream(stream_db: u8) -> Self {
        FileEncoder { stream_db, ..Self::default() }
    }

    /// Appends the beginning.
    pub(crate) fn begin(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(format!("REDIS{LEAST:04}").as_bytes());
        if self.stream_db != 0 {
            to.push(NOTE);
            push_string(to, b"repl-stream-db");
            push_string(to, self.stream_db.to_string().as_bytes());
        }
    }

    /// Appends a library of functions.
    pub(crate) fn library(&self, code: &[u8], to: &mut Vec<u8>) {
        to.push(LIBRARY);
        push_string(to, code);
    }

    /// Appends a key; `value` begins with its form.
    pub(crate) fn key(
        &mut self,
        db: u8,
        key: &[u8],
        expires: Option<u64>,
        value: &[u8],
        to: &mut Vec<u8>,
    ) {
        if self.db != Some(db) {
            self.db = Some(db);
            to.push(SELECT);
            push_len(to, db.into());
        }
        if let Some(time) = expires {
            to.push(EXPIRES);
            to.extend_from_slice(&time.min(i64::MAX as u64).to_le_bytes());
        }
        let Some((form, value)) = value.split_first() else { return };
        to.push(*form);
        push_string(to, key);
        to.extend_from_slice(value);
    }

    /// Appended bytes are on their way: they count in the checksum.
    pub(crate) fn sent(&mut self, bytes: &[u8]) {
        self.crc = crc64_after(self.crc, bytes);
    }

    /// Appends the end, after all else was [sent](Self::sent).
    pub(crate) fn end(&self, to: &mut Vec<u8>) {
        let crc = crc64_after(self.crc, &[END]);
        to.push(END);
        to.extend_from_slice(&crc.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_as_redis_writes_it() {
        let (mut file, mut bytes) = (FileEncoder::default(), Vec::new());
        file.begin(&mut bytes);
        file.key(2, b"k", Some(258), b"\x00\x01v", &mut bytes);
        file.key(2, b"l", None, b"\x00\x01w", &mut bytes);
        let before = bytes.len();
        assert_eq!(bytes, b"REDIS0010\xFE\x02\xFC\x02\x01\0\0\0\0\0\0\x00\x01k\x01v\x00\x01l\x01w");
        file.sent(&bytes[..9]);
        file.sent(&bytes[9..]);
        file.end(&mut bytes);
        assert_eq!(bytes.len(), before + 9);
        let crc = super::super::crc64(&bytes[..=before]);
        assert_eq!(bytes[before + 1..], crc.to_le_bytes());
        let mut bytes = Vec::new();
        FileEncoder::for_stream(12).begin(&mut bytes);
        assert_eq!(bytes, b"REDIS0010\xFA\x0Erepl-stream-db\x0212");
    }
}
