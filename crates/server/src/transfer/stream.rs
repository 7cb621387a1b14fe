//! Records from a stream of commands, which may be anybody's.
//!
//! Invariants: no memory is reserved for lengths that the stream announces, and every command is checked: one that is
//! unknown or malformed ends the import with an error that says where it is.

use super::TransferError;
use super::record::{Change, PendingEntry, Record, StreamEnd};
use super::resp::{BEGIN, END};
use crate::command::{shown, stream_ids as ids};
use crate::keyspace::DATABASES;
use crate::keyspace::stream::Id;
use crate::protocol::{Args, Limits, RequestReader, number};
use std::io::{ErrorKind, Read};

const KNOWN: &str = "SELECT, SET, HSET, HMSET, SADD, RPUSH, ZADD, XADD, XSETID, XGROUP, XCLAIM, FUNCTION LOAD, PEXPIREAT, EXPIREAT, DEL, UNLINK, MULTI, EXEC, PING and ECHO";

/// Reads commands.
pub(super) struct Stream<R> {
    input: R,
    reader: RequestReader,
    /// Bytes that were read.
    total: u64,
    commands: u64,
    db: u8,
    ends: Ends,
}

/// The first command of our exports, about themselves.
#[derive(Default)]
struct Ends {
    begun: bool,
    /// Keys that there should be.
    keys: Option<u64>,
}

/// The kind of a command.
enum Meaning {
    Records(Vec<Change>, Vec<u8>),
    Removals(Vec<Vec<u8>>),
    Nothing,
}

impl<R: Read> Stream<R> {
    pub(super) fn new(input: R) -> Self {
        let (reader, ends) = (RequestReader::default(), Ends::default());
        Stream { input, reader, total: 0, commands: 0, db: 0, ends }
    }

    /// Bytes that were read so far.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Commands that were read so far.
    pub(super) fn commands(&self) -> u64 {
        self.commands
    }

    /// The next records, of whole commands, each with the place of its command; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Vec<(Record, u64)>>, TransferError> {
        let mut records = Vec::new();
        loop {
            while self.command(&mut records)? {}
            self.reader.release();
            if !records.is_empty() {
                return Ok(Some(records));
            }
            match self.reader.fill(&mut self.input) {
                Ok(0) => return self.end().map(|()| None),
                Ok(read) => self.total += read as u64,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Keys that the export's last command announces; `None` if there is no such command.
    pub(super) fn announced(&self) -> Option<u64> {
        self.ends.keys
    }

    fn at(&self) -> u64 {
        self.total - self.reader.unread() as u64
    }

    /// Takes the next command, if it is all there.
    fn command(&mut self, records: &mut Vec<(Record, u64)>) -> Result<bool, TransferError> {
        let at = self.at();
        let bad = |what: String| TransferError::Bad { at, what };
        let request = self.reader.next(Limits::USUAL).map_err(|error| {
            let what = error.0.trim_start_matches("Protocol error: ").to_owned();
            bad(format!("this is not a stream of Redis's commands ({what})"))
        })?;
        let Some(request) = request else { return Ok(false) };
        let args = self.reader.args(request);
        if !args.is_framed() {
            return Err(bad(
                "this is not a stream of Redis's commands (a length is wrong, or something else stands here)".to_owned(),
            ));
        }
        if self.ends.keys.is_some() {
            return Err(bad("something follows the export's end; give one export".to_owned()));
        }
        self.commands += 1;
        let (db, ends) = (&mut self.db, &mut self.ends);
        let db_before = *db;
        match understand(args, db, ends).map_err(bad)? {
            Meaning::Nothing => {}
            Meaning::Records(changes, key) => records.extend(
                changes
                    .into_iter()
                    .map(|change| (Record { db: db_before, key: key.clone(), change }, at)),
            ),
            Meaning::Removals(keys) => records.extend(
                keys.into_iter()
                    .map(|key| (Record { db: db_before, key, change: Change::Removal }, at)),
            ),
        }
        Ok(true)
    }

    fn end(&self) -> Result<(), TransferError> {
        let cut = |what: &str| Err(TransferError::Cut { at: self.at(), what: what.to_owned() });
        if self.reader.unread() > 0 {
            return cut("the last command is not whole");
        }
        if self.ends.begun && self.ends.keys.is_none() {
            return cut("the export's last line is missing");
        }
        Ok(())
    }
}

/// The meaning of a command, or its fault.
fn understand(args: Args<'_>, db: &mut u8, ends: &mut Ends) -> Result<Meaning, String> {
    let name = args.at(0).to_ascii_uppercase();
    let key = || args.at(1).to_vec();
    let one = |change| Ok(Meaning::Records(vec![change], key()));
    let lacks = |least: usize| {
        let name = shown(args.at(0), 32);
        if args.len() < least { Err(format!("{name} lacks arguments")) } else { Ok(()) }
    };
    match name.as_slice() {
        b"SELECT" => {
            lacks(2)?;
            let index = number::parse_i64(args.at(1)).and_then(|index| u8::try_from(index).ok());
            *db = index.filter(|index| *index < DATABASES).ok_or_else(|| {
                format!("there is no database {}, only 0 to {}", shown(args.at(1), 32), DATABASES - 1)
            })?;
            Ok(Meaning::Nothing)
        }
        b"SET" => {
            lacks(3)?;
            let mut changes = vec![Change::Text(args.at(2).to_vec())];
            changes.extend(set_option(args)?);
            Ok(Meaning::Records(changes, key()))
        }
        b"HSET" | b"HMSET" => {
            lacks(4)?;
            let rest = pairs(args)?;
            one(Change::Fields(rest.map(|(field, value)| (field.to_vec(), value.to_vec())).collect()))
        }
        b"SADD" | b"RPUSH" => {
            lacks(3)?;
            let items = args.from(2).iter().map(<[u8]>::to_vec).collect();
            let is_set = name.as_slice() == b"SADD";
            one(if is_set { Change::Set(items) } else { Change::Elements(items) })
        }
        b"ZADD" => {
            lacks(4)?;
            let members = pairs(args)?.map(|(score, member)| {
                let score = number::parse_f64(score)
                    .ok_or_else(|| format!("a score is not a number: {}", shown(score, 32)))?;
                Ok((score, member.to_vec()))
            });
            one(Change::Members(members.collect::<Result<_, String>>()?))
        }
        b"XADD" | b"XSETID" | b"XGROUP" | b"XCLAIM" => {
            lacks(3)?;
            let name = shown(args.at(0), 32);
            let key = if args.is(0, "xgroup") { args.at(2) } else { args.at(1) }.to_vec();
            let wrong = || {
                format!("{name} with options that neither an export nor a file that Redis has rewritten has")
            };
            stream(args).map(|change| Meaning::Records(vec![change], key)).ok_or_else(wrong)
        }
        b"FUNCTION" if args.is(1, "load") => {
            lacks(3)?;
            let code = args.at(args.len() - 1).to_vec();
            Ok(Meaning::Records(vec![Change::Library(code)], Vec::new()))
        }
        b"PEXPIREAT" | b"EXPIREAT" => {
            lacks(3)?;
            one(expiry(args.at(2), name.as_slice() == b"EXPIREAT")?)
        }
        b"DEL" | b"UNLINK" => {
            lacks(2)?;
            Ok(Meaning::Removals(args.from(1).iter().map(<[u8]>::to_vec).collect()))
        }
        b"ECHO" => {
            lacks(2)?;
            note(args.at(1), ends)?;
            Ok(Meaning::Nothing)
        }
        // All of it becomes one pool, or none.
        b"MULTI" | b"EXEC" | b"PING" => Ok(Meaning::Nothing),
        _ if name.starts_with(b"REDIS0") => Err(
            "this is a snapshot of Redis (RDB), not a stream of commands; have Redis write one without it: `CONFIG SET aof-use-rdb-preamble no`, then BGREWRITEAOF".to_owned(),
        ),
        _ => Err(format!(
            "unknown command '{}'; an import knows {KNOWN}",
            shown(args.at(0), 64)
        )),
    }
}

/// The change of a stream's command, in the forms that exports have, and the files that Redis has rewritten.
fn stream(args: Args<'_>) -> Option<Change> {
    let id = |at: usize| ids::strict(args.get(at)?).ok();
    let count = |at: usize| number::parse_i64(args.get(at)?);
    let text = |at: usize| args.get(at).map(<[u8]>::to_vec);
    match (args.at(0).to_ascii_uppercase().as_slice(), args.len()) {
        (b"XADD", 7) if args.is(2, "maxlen") && args.is(3, "0") => {
            Some(Change::EmptyStream).filter(|_| id(4).is_some())
        }
        (b"XADD", 5..) if !args.len().is_multiple_of(2) => {
            let texts = args.from(3).iter().map(<[u8]>::to_vec).collect();
            id(2).filter(|id| *id > Id::MIN).map(|id| Change::Entry(id, texts))
        }
        (b"XSETID", 3) => {
            Some(Change::StreamEnd(StreamEnd { last: id(2)?, added: None, deleted: Id::MIN }))
        }
        (b"XSETID", 7) if args.is(3, "entriesadded") && args.is(5, "maxdeletedid") => {
            let (last, deleted) = (id(2)?, id(6)?);
            let added = Some(u64::try_from(count(4)?).ok()?);
            Some(Change::StreamEnd(StreamEnd { last, added, deleted }))
        }
        (b"XGROUP", 5) if args.is(1, "create") => Some(Change::Group(text(3)?, id(4)?, None)),
        (b"XGROUP", 7) if args.is(1, "create") && args.is(5, "entriesread") => {
            let read = match count(6)? {
                -1 => None,
                read => Some(u64::try_from(read).ok()?),
            };
            Some(Change::Group(text(3)?, id(4)?, read))
        }
        (b"XGROUP", 5) if args.is(1, "createconsumer") => {
            Some(Change::Consumer(text(3)?, text(4)?, None))
        }
        (b"XCLAIM", 12) if args.is(6, "time") && args.is(8, "retrycount") => {
            let count = u64::try_from(count(9)?).ok()?;
            let time = number::parse_i64(args.at(7)).filter(|time| *time >= 0)?;
            let (group, consumer, id) = (text(2)?, text(3)?, id(5)?);
            Some(Change::Pending(PendingEntry { group, consumer, id, time, count }))
        }
        _ => None,
    }
}

/// The arguments behind the key, two by two.
fn pairs(args: Args<'_>) -> Result<impl Iterator<Item = (&[u8], &[u8])>, String> {
    if !args.len().is_multiple_of(2) {
        let name = shown(args.at(0), 32);
        return Err(format!("{name} has an argument without another one"));
    }
    Ok((2..args.len()).step_by(2).map(move |index| (args.at(index), args.at(index + 1))))
}

/// The key's expiry in the options of SET.
fn set_option(args: Args<'_>) -> Result<Option<Change>, String> {
    match args.len() {
        3 => Ok(None),
        5 if args.is(3, "pxat") => expiry(args.at(4), false).map(Some),
        5 if args.is(3, "exat") => expiry(args.at(4), true).map(Some),
        _ => {
            Err("SET has options other than PXAT and EXAT, which depend on when it is done"
                .to_owned())
        }
    }
}

/// A time, in milliseconds or seconds since 1970.
fn expiry(text: &[u8], seconds: bool) -> Result<Change, String> {
    let time = number::parse_i64(text);
    let time = if seconds { time.and_then(|time| time.checked_mul(1000)) } else { time };
    match time {
        Some(time) if time > 0 => Ok(Change::Expiry(time as u64)),
        // It was over before anything was.
        Some(_) => Ok(Change::Removal),
        None => Err(format!("a time is not a whole number: {}", shown(text, 32))),
    }
}

/// Takes note of an export's first and last line.
fn note(text: &[u8], ends: &mut Ends) -> Result<(), String> {
    if text == BEGIN.as_bytes() {
        ends.begun = true;
    } else if let Some(keys) = text.strip_prefix(END.as_bytes()) {
        let keys = number::parse_i64(keys).and_then(|keys| u64::try_from(keys).ok());
        let keys = keys.ok_or("the export's last line has no number of keys")?;
        if !ends.begun {
            return Err("the export's first line is missing".to_owned());
        }
        ends.keys = Some(keys);
    }
    Ok(())
}
