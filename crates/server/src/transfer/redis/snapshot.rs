//! A snapshot of Redis (RDB), read as it comes: each key's value becomes what RESTORE takes.
//!
//! Invariant: memory grows with the bytes of one value that were read, never with lengths that are announced.

use super::TransferError;
use crate::rdb::reader::{Malformed, Reader};
use crate::rdb::{self, form};
use std::io::{ErrorKind, Read};

/// The latest version of the file that is read: of Redis 7.4.
const VERSION_MAX: u32 = 12;
/// Versions from this one on have a checksum.
const CHECKED_FROM: u32 = 5;
/// Bytes that are read at a time, at least.
const PIECE: usize = 256 << 10;
/// Bytes of a value, a library or a note.
const BYTES_MAX: usize = 512 << 20;

/// One thing in a snapshot.
pub(crate) enum Item {
    Database(u64),
    Key {
        name: Vec<u8>,
        expires: Option<u64>,
        payload: Vec<u8>,
    },
    Library(Vec<u8>),
    /// A note about the snapshot, and its text.
    Note(Vec<u8>, Vec<u8>),
    Other,
    End,
}

/// Bytes of an input, of which some are looked at before they are taken.
pub(super) struct Input<R> {
    input: R,
    bytes: Vec<u8>,
    /// Bytes that were taken of these.
    taken: usize,
    /// Bytes that were taken of all.
    at: u64,
    crc: u64,
    ended: bool,
}

impl<R: Read> Input<R> {
    pub(super) fn new(input: R) -> Self {
        Input { input, bytes: Vec::new(), taken: 0, at: 0, crc: 0, ended: false }
    }

    /// Bytes that were taken so far.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Reads more. Returns whether there was more. An input that has nothing more for the moment says so by `WouldBlock` or
    /// `TimedOut`: then what has come is looked at.
    fn fill(&mut self, lacks: usize) -> Result<bool, TransferError> {
        if self.ended {
            return Ok(false);
        }
        self.bytes.drain(..self.taken);
        self.taken = 0;
        let before = self.bytes.len();
        // As much as there is already: a value that is looked at again and again is read in few steps.
        let wanted = PIECE.max(before).max(lacks);
        let mut filled = before;
        while filled - before < wanted {
            self.bytes.resize(filled + PIECE.min(wanted - (filled - before)), 0);
            let read = self.input.read(&mut self.bytes[filled..]);
            self.bytes.truncate(filled + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(read) => filled += read,
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    // What has come is looked at first.
                    _ if filled > before => break,
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => {}
                    _ => return Err(error.into()),
                },
            }
        }
        Ok(filled > before)
    }

    fn take(&mut self, len: usize) {
        self.crc = rdb::crc64_after(self.crc, &self.bytes[self.taken..self.taken + len]);
        self.taken += len;
        self.at += len as u64;
    }

    /// The bytes that `parse` takes, and its result: it is called again with more bytes if it needs these.
    fn parse<T>(
        &mut self,
        parse: impl Fn(&mut Reader<'_>) -> Result<T, Malformed>,
    ) -> Result<T, TransferError> {
        loop {
            let mut reader = Reader::new(self.rest());
            if let Ok(parsed) = parse(&mut reader) {
                let len = self.rest().len() - reader.left();
                self.take(len);
                return Ok(parsed);
            }
            let lacks = reader.lacks();
            if lacks == 0 {
                return Err(self.bad("the snapshot is damaged here"));
            }
            if self.rest().len().saturating_add(lacks) > BYTES_MAX {
                return Err(self.bad("a value has more than 512 MiB, or its length is wrong"));
            }
            if !self.fill(lacks)? {
                let what = "the snapshot is not whole, or damaged here".to_owned();
                return Err(TransferError::Cut { at: self.at, what });
            }
        }
    }

    pub(super) fn bad(&self, what: &str) -> TransferError {
        TransferError::Bad { at: self.at, what: what.to_owned() }
    }

    /// The bytes that were read and not taken, and what comes after them.
    fn rest_and_input(self) -> (Vec<u8>, R) {
        (self.bytes[self.taken..].to_vec(), self.input)
    }
}

/// Reads a snapshot.
pub(crate) struct Snapshot<R> {
    input: Input<R>,
    version: u32,
}

impl<R: Read> Snapshot<R> {
    /// Reads the beginning.
    pub(crate) fn begin(input: R) -> Result<Self, TransferError> {
        let mut input = Input::new(input);
        let head: [u8; 9] = input.parse(|reader| reader.array())?;
        let version = head
            .strip_prefix(b"REDIS")
            .and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u32>().ok());
        match version {
            None => Err(input.bad("this is no snapshot of Redis")),
            Some(version) if version > VERSION_MAX => Err(TransferError::Foreign {
                at: 0,
                what: format!(
                    "this snapshot has version {version}; those of Redis up to 7.4, version {VERSION_MAX}, are read"
                ),
            }),
            Some(version) => Ok(Snapshot { input, version }),
        }
    }

    pub(crate) fn at(&self) -> u64 {
        self.input.at()
    }

    /// The next thing.
    pub(crate) fn next(&mut self) -> Result<Item, TransferError> {
        let mut expires = None;
        loop {
            let code = self.input.parse(|reader| reader.byte())?;
            match code {
                0xFA => {
                    let (name, text) =
                        self.input.parse(|reader| Ok((reader.string()?, reader.string()?)))?;
                    return Ok(Item::Note(name, text));
                }
                0xFB => {
                    self.input.parse(|reader| Ok((reader.len()?, reader.len()?)))?;
                    return Ok(Item::Other);
                }
                0xFE => return Ok(Item::Database(self.input.parse(|reader| reader.len())?)),
                0xFC => {
                    expires = Some(u64::from_le_bytes(self.input.parse(|reader| reader.array())?))
                }
                0xFD => {
                    let seconds = u32::from_le_bytes(self.input.parse(|reader| reader.array())?);
                    expires = Some(u64::from(seconds) * 1000);
                }
                // How long it was unused, and how often it was used.
                0xF8 => drop(self.input.parse(|reader| reader.len())?),
                0xF9 => drop(self.input.parse(|reader| reader.byte())?),
                0xF5 => return Ok(Item::Library(self.input.parse(|reader| reader.string())?)),
                0xFF => return self.end(),
                0xF6 | 0xF7 => {
                    let what = if code == 0xF6 {
                        "functions of a preview of Redis 7"
                    } else {
                        "data of a module"
                    };
                    let what = format!("the snapshot has {what}, which cannot be read here");
                    return Err(TransferError::Foreign { at: self.input.at, what });
                }
                _ => return self.key(code, expires),
            }
        }
    }

    fn end(&mut self) -> Result<Item, TransferError> {
        if self.version >= CHECKED_FROM {
            let expected = self.input.crc;
            let sum = u64::from_le_bytes(self.input.parse(|reader| reader.array())?);
            // Without one, if it was written so.
            if sum != 0 && sum != expected {
                return Err(self.input.bad("the snapshot's checksum is wrong: it is damaged"));
            }
        }
        Ok(Item::End)
    }

    fn key(&mut self, kind: u8, expires: Option<u64>) -> Result<Item, TransferError> {
        let refused = match kind {
            6 | 7 => Some("a value of a module"),
            22..=25 => Some("a hash whose fields expire (Redis 7.4)"),
            26.. => Some("a value of an unknown kind, or is damaged"),
            _ => None,
        };
        let name = self.input.parse(|reader| reader.string())?;
        if let Some(what) = refused {
            let key = String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned();
            let text = format!("the key '{key}' holds {what}, which cannot be read here");
            return Err(TransferError::Foreign { at: self.input.at, what: text });
        }
        let payload = self.input.parse(|reader| {
            let before = reader.bytes();
            skip(reader, kind)?;
            let len = before.len() - reader.left();
            let mut payload = Vec::with_capacity(len + 16);
            payload.push(kind);
            payload.extend_from_slice(&before[..len]);
            Ok(payload)
        })?;
        let mut payload = payload;
        rdb::finish_as(&mut payload, rdb::VERSION_MAX);
        Ok(Item::Key { name, expires, payload })
    }

    /// What comes after it.
    pub(super) fn remainder(self) -> (impl Read, u64) {
        let at = self.at();
        let (rest, input) = self.rest_and_input();
        (std::io::Cursor::new(rest).chain(input), at)
    }

    /// The bytes after it that were read already, and what comes after them.
    pub(crate) fn rest_and_input(self) -> (Vec<u8>, R) {
        self.input.rest_and_input()
    }
}

/// Passes a value.
fn skip(reader: &mut Reader<'_>, kind: u8) -> Result<(), Malformed> {
    let strings = |reader: &mut Reader<'_>, each: u64| {
        let count = reader.len()?.checked_mul(each).ok_or(Malformed)?;
        (0..count).try_for_each(|_| reader.skip_string())
    };
    match kind {
        form::STRING
        | form::HASH_ZIPMAP..=form::HASH_ZIPLIST
        | form::HASH_LISTPACK
        | form::SORTED_SET_LISTPACK
        | form::SET_LISTPACK => reader.skip_string(),
        form::LIST | form::SET | form::LIST_OF_ZIPLISTS => strings(reader, 1),
        form::HASH => strings(reader, 2),
        form::SORTED_SET | form::SORTED_SET_TEXT => {
            for _ in 0..reader.len()? {
                reader.skip_string()?;
                match kind {
                    form::SORTED_SET => drop(reader.take(8)?),
                    _ => drop(reader.score_in_digits()?),
                }
            }
            Ok(())
        }
        form::LIST_OF_LISTPACKS => {
            for _ in 0..reader.len()? {
                reader.len()?;
                reader.skip_string()?;
            }
            Ok(())
        }
        form::STREAM_FIRST | form::STREAM | form::STREAM_LAST => skip_stream(reader, kind),
        _ => Err(Malformed),
    }
}

fn skip_stream(reader: &mut Reader<'_>, kind: u8) -> Result<(), Malformed> {
    let lens =
        |reader: &mut Reader<'_>, count: u32| (0..count).try_for_each(|_| reader.len().map(drop));
    let is_new = kind >= form::STREAM;
    let nodes = reader.len()?.checked_mul(2).ok_or(Malformed)?;
    (0..nodes).try_for_each(|_| reader.skip_string())?;
    lens(reader, if is_new { 8 } else { 3 })?;
    for _ in 0..reader.len()? {
        reader.skip_string()?;
        lens(reader, if is_new { 3 } else { 2 })?;
        for _ in 0..reader.len()? {
            reader.take(16 + 8)?;
            reader.len()?;
        }
        for _ in 0..reader.len()? {
            reader.skip_string()?;
            reader.take(if kind == form::STREAM_LAST { 16 } else { 8 })?;
            for _ in 0..reader.len()? {
                reader.take(16)?;
            }
        }
    }
    Ok(())
}
