//! The commands that make a key of its value in a snapshot: RESTORE, or several, so that the transaction of each is small.
//! None for a collection that has nothing in it: Redis before 6.2.6 may have written such, and later ones leave them out.

use super::TransferError;
use crate::rdb::form;
use crate::rdb::packs::{self, Packing};
use crate::rdb::reader::{Malformed, Reader};

/// Bytes of a value that is restored by one command.
const WHOLE_MAX: usize = 128 << 10;
/// Bytes of values, and their number, in one command of several.
const BYTES_MAX: usize = 32 << 10;
const COUNT_MAX: usize = 128;
/// Bytes of a value that may have nothing in it: more than an empty list has in any form.
const EMPTY_MAX: usize = 128;

/// Called with a command's arguments.
type Send<'a> = dyn FnMut(&[&[u8]]) -> Result<(), TransferError> + 'a;

/// Sends the commands that make a key; `payload` is as DUMP answers, of a value `at` this place. Returns false if there are
/// none, since nothing is in it.
///
/// # Errors
/// Those of `send`; when the value is malformed.
pub(crate) fn commands_of(
    name: &[u8],
    expires: Option<u64>,
    payload: &[u8],
    at: u64,
    send: &mut Send<'_>,
) -> Result<bool, TransferError> {
    let time = expires.unwrap_or(0).to_string();
    let large = Large::of(payload[0]);
    if payload.len() <= EMPTY_MAX && large.as_ref().is_some_and(|large| large.is_empty(payload)) {
        return Ok(false);
    }
    let Some(large) = large.filter(|_| payload.len() > WHOLE_MAX) else {
        let args = [b"RESTORE", name, time.as_bytes(), payload, b"REPLACE", b"ABSTTL"];
        return send(&args).map(|()| true);
    };
    send(&[b"DEL", name])?;
    let mut pieces = Pieces { name, command: large.command, parts: Vec::new(), bytes: 0, send };
    let mut reader = Reader::new(&payload[1..]);
    let walked = large.walk(&mut reader, &mut |part, is_last| pieces.add(part, is_last));
    walked.map_err(|failed| match failed {
        Failed::Malformed => TransferError::Bad { at, what: "a value is damaged".to_owned() },
        Failed::Transfer(error) => error,
    })?;
    pieces.flush()?;
    if expires.is_some() {
        send(&[b"PEXPIREAT", name, time.as_bytes()])?;
    }
    Ok(true)
}

/// Called with a string of a value, and whether it is its item's last.
type Each<'a> = dyn FnMut(&[u8], bool) -> Result<(), Failed> + 'a;

/// The failure of a walk.
enum Failed {
    Malformed,
    Transfer(TransferError),
}

impl From<Malformed> for Failed {
    fn from(_: Malformed) -> Self {
        Failed::Malformed
    }
}

/// A command's arguments, which are sent when they are many.
struct Pieces<'a, 's> {
    name: &'a [u8],
    command: &'static [u8],
    parts: Vec<Vec<u8>>,
    bytes: usize,
    send: &'a mut Send<'s>,
}

impl Pieces<'_, '_> {
    fn add(&mut self, part: &[u8], is_last: bool) -> Result<(), Failed> {
        self.bytes += part.len();
        self.parts.push(part.to_vec());
        let is_full = self.bytes >= BYTES_MAX || self.parts.len() >= COUNT_MAX;
        if is_full && is_last { self.flush().map_err(Failed::Transfer) } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), TransferError> {
        if self.parts.is_empty() {
            return Ok(());
        }
        let mut args = vec![self.command, self.name];
        if self.command == b"ZADD" {
            // The score comes first.
            args.extend(self.parts.chunks(2).flat_map(|pair| pair.iter().rev()).map(Vec::as_slice));
        } else {
            args.extend(self.parts.iter().map(Vec::as_slice));
        }
        (self.send)(&args)?;
        (self.parts, self.bytes) = (Vec::new(), 0);
        Ok(())
    }
}

/// A value that can be made piece by piece.
struct Large {
    command: &'static [u8],
    kind: u8,
    /// How many strings are one item.
    each: u64,
    packing: Option<Packing>,
}

impl Large {
    fn of(kind: u8) -> Option<Self> {
        let (command, packing): (&[u8], _) = match kind {
            form::LIST => (b"RPUSH", None),
            form::SET => (b"SADD", None),
            form::HASH => (b"HSET", None),
            form::SORTED_SET | form::SORTED_SET_TEXT => (b"ZADD", None),
            form::LIST_ZIPLIST | form::LIST_OF_ZIPLISTS => (b"RPUSH", Some(Packing::Ziplist)),
            form::LIST_OF_LISTPACKS => (b"RPUSH", Some(Packing::Listpack)),
            form::SET_INTEGERS => (b"SADD", Some(Packing::Integers)),
            form::SET_LISTPACK => (b"SADD", Some(Packing::Listpack)),
            form::HASH_ZIPMAP => (b"HSET", Some(Packing::Zipmap)),
            form::HASH_ZIPLIST => (b"HSET", Some(Packing::Ziplist)),
            form::HASH_LISTPACK => (b"HSET", Some(Packing::Listpack)),
            form::SORTED_SET_ZIPLIST => (b"ZADD", Some(Packing::Ziplist)),
            form::SORTED_SET_LISTPACK => (b"ZADD", Some(Packing::Listpack)),
            _ => return None,
        };
        let each = if command == b"HSET" || command == b"ZADD" { 2 } else { 1 };
        Some(Large { command, kind, each, packing })
    }

    /// Whether a value has nothing in it, and no fault.
    fn is_empty(&self, payload: &[u8]) -> bool {
        let mut reader = Reader::new(&payload[1..]);
        // The first string is enough.
        self.walk(&mut reader, &mut |_, _| Err(Failed::Malformed)).is_ok()
    }

    /// Calls `each` with every string, and whether it is its item's last.
    fn walk(&self, reader: &mut Reader<'_>, each: &mut Each<'_>) -> Result<(), Failed> {
        let is_chain = matches!(self.kind, form::LIST_OF_ZIPLISTS | form::LIST_OF_LISTPACKS);
        let mut count = 0;
        let mut add = |part: &[u8]| {
            count += 1;
            each(part, count % self.each == 0)
        };
        let times = if is_chain || self.packing.is_none() { reader.len()? } else { 1 };
        for _ in 0..times {
            // A string by itself in a list of packed ones.
            let is_plain = self.kind == form::LIST_OF_LISTPACKS && reader.len()? == 1;
            let string = reader.string()?;
            match (self.packing, self.kind) {
                (Some(packing), _) if !is_plain => packs::elements(packing, &string, &mut add)?,
                (_, form::SORTED_SET | form::SORTED_SET_TEXT) => {
                    add(&string)?;
                    let score = match self.kind {
                        form::SORTED_SET => reader.score()?,
                        _ => reader.score_in_digits()?,
                    };
                    add(format!("{score:?}").as_bytes())?;
                }
                (_, form::HASH) => {
                    add(&string)?;
                    add(&reader.string()?)?;
                }
                _ => add(&string)?,
            }
        }
        match count % self.each {
            0 => Ok(()),
            _ => Err(Failed::Malformed),
        }
    }
}
