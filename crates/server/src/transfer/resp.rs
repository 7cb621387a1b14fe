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
    /// With this database chosen.
    pub(crate) fn of(db: u8) -> Self {
        Encoder { db: Some(db) }
    }

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
        if let Change::Library(code) = &record.change {
            return command(to, &[b"FUNCTION", b"LOAD", b"REPLACE", code]);
        }
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
            Change::Library(_) => {}
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
            Change::Entry(id, texts) => {
                array(to, 3 + texts.len());
                bulk(to, b"XADD");
                bulk(to, key);
                bulk(to, id.text().as_bytes());
                texts.iter().for_each(|text| bulk(to, text));
            }
            // As Redis's own files have it.
            Change::EmptyStream => {
                command(to, &[b"XADD", key, b"MAXLEN", b"0", b"0-1", b"x", b"y"]);
            }
            Change::StreamEnd(end) => {
                let (last, added) = (end.last.text(), end.added.unwrap_or(0).to_string());
                let deleted = end.deleted.text();
                let counts: [&[u8]; 4] =
                    [b"ENTRIESADDED", added.as_bytes(), b"MAXDELETEDID", deleted.as_bytes()];
                command(to, &[&[b"XSETID", key, last.as_bytes()], counts.as_slice()].concat());
            }
            Change::Group(name, last, read) => {
                let last = last.text();
                let read = read.map_or("-1".to_owned(), |read| read.to_string());
                let group: [&[u8]; 5] = [b"XGROUP", b"CREATE", key, name, last.as_bytes()];
                command(to, &[group.as_slice(), &[b"ENTRIESREAD", read.as_bytes()]].concat());
            }
            Change::Consumer(group, name, _) => {
                command(to, &[b"XGROUP", b"CREATECONSUMER", key, group, name]);
            }
            Change::Pending(one) => {
                let (id, time, count) =
                    (one.id.text(), one.time.to_string(), (one.count as i64).to_string());
                let of: [&[u8]; 6] =
                    [b"XCLAIM", key, &one.group, &one.consumer, b"0", id.as_bytes()];
                let state: [&[u8]; 6] = [
                    b"TIME",
                    time.as_bytes(),
                    b"RETRYCOUNT",
                    count.as_bytes(),
                    b"JUSTID",
                    b"FORCE",
                ];
                command(to, &[of, state].concat());
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

/// Appends a command.
pub(crate) fn command(to: &mut Vec<u8>, parts: &[&[u8]]) {
    command_of(to, parts.iter().copied());
}

/// Appends a command of these arguments, its name first.
pub(crate) fn command_of<'a>(to: &mut Vec<u8>, parts: impl ExactSizeIterator<Item = &'a [u8]>) {
    array(to, parts.len());
    parts.for_each(|part| bulk(to, part));
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
