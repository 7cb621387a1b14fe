//! Records as commands, as a client would send them.

use super::record::{Change, Record};

/// The beginning of an export, after ECHO.
pub(super) const BEGIN: &str = "perdura export begins";
/// Its end, before the number of its keys.
pub(super) const END: &str = "perdura export ends, keys: ";

/// Appends commands to bytes; it knows which database is chosen.
#[derive(Default)]
pub(crate) struct Encoder {
    db: Option<u8>,
}

impl Encoder {
    /// Appends the beginning of an export.
    pub(crate) fn begin(&mut self, to: &mut Vec<u8>) {
        command(to, &[b"ECHO", BEGIN.as_bytes()]);
    }

    /// Appends the stream's last command.
    pub(crate) fn end(&mut self, keys: u64, to: &mut Vec<u8>) {
        command(to, &[b"ECHO", format!("{END}{keys}").as_bytes()]);
    }

    /// Appends a record.
    pub(crate) fn record(&mut self, record: &Record, to: &mut Vec<u8>) {
        if self.db != Some(record.db) {
            command(to, &[b"SELECT", record.db.to_string().as_bytes()]);
            self.db = Some(record.db);
        }
        let key = record.key.as_slice();
        match &record.change {
            Change::Text(value) => command(to, &[b"SET", key, value]),
            Change::Fields(pairs) => {
                array(to, 2 + 2 * pairs.len());
                bulk(to, b"HSET");
                bulk(to, key);
                for (field, value) in pairs {
                    bulk(to, field);
                    bulk(to, value);
                }
            }
            Change::Set(members) => items(to, b"SADD", key, members),
            Change::Elements(elements) => items(to, b"RPUSH", key, elements),
            Change::Members(members) => {
                array(to, 2 + 2 * members.len());
                bulk(to, b"ZADD");
                bulk(to, key);
                for (score, member) in members {
                    bulk(to, shown(*score).as_bytes());
                    bulk(to, member);
                }
            }
            Change::Expiry(time) => {
                // A greater one is refused by all that read it.
                let time = (*time).min(i64::MAX as u64);
                command(to, &[b"PEXPIREAT", key, time.to_string().as_bytes()]);
            }
            Change::Removal => command(to, &[b"DEL", key]),
        }
    }
}

/// A score with as many digits as tell it from all others.
fn shown(score: f64) -> String {
    let plain = score == 0.0 || score.is_infinite() || (1e-5..1e17).contains(&score.abs());
    if plain { format!("{score}") } else { format!("{score:e}") }
}

/// A command on a key with any number of items.
fn items(to: &mut Vec<u8>, name: &[u8], key: &[u8], items: &[Vec<u8>]) {
    array(to, 2 + items.len());
    bulk(to, name);
    bulk(to, key);
    items.iter().for_each(|item| bulk(to, item));
}

fn command(to: &mut Vec<u8>, parts: &[&[u8]]) {
    array(to, parts.len());
    parts.iter().for_each(|part| bulk(to, part));
}

fn array(to: &mut Vec<u8>, len: usize) {
    to.push(b'*');
    to.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
    to.extend_from_slice(b"\r\n");
}

fn bulk(to: &mut Vec<u8>, bytes: &[u8]) {
    to.push(b'$');
    to.extend_from_slice(itoa::Buffer::new().format(bytes.len()).as_bytes());
    to.extend_from_slice(b"\r\n");
    to.extend_from_slice(bytes);
    to.extend_from_slice(b"\r\n");
}
