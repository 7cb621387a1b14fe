//! What a Redis leaves, or is writing: its snapshot (RDB), its append-only file, with a snapshot before it or not, and the
//! folder of files of Redis 7.
//!
//! Every command of the file is performed, by a server of its own on the pool: RESTORE for the keys of a snapshot. As in
//! Redis, nothing expires meanwhile: a key's time may be over, and a later command may have prolonged it.
//!
//! - `manifest`: which files there are. `snapshot`: keys from a snapshot. `feed`: commands to the server, and its replies.
//! - The end of the last file may be missing, in the middle of a command or of a transaction, since Redis was writing it:
//!   what is not whole is left out, as Redis does (`aof-load-truncated`).

mod feed;
mod manifest;
mod pieces;
pub(crate) mod snapshot;

use super::{Going, Loaded, TransferError};
use crate::command::{Command, PER_ARGUMENT, PER_COMMAND, Run, find_whole};
use crate::protocol::args::OwnedArgs;
use crate::protocol::{Limits, RequestReader};
use feed::{Feed, REQUEST_MAX};
use perdura::Pool;
pub(crate) use pieces::commands_of;
use snapshot::{Item, Snapshot};
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

/// The beginning of a snapshot.
pub const SNAPSHOT: &[u8] = b"REDIS";

/// Reads a snapshot, an append-only file, or a folder of these, of Redis, into the keyspace of `pool`, which is made if
/// there is none.
///
/// # Errors
/// See [`TransferError`]. All that was read until then may be in the pool.
pub fn import_redis(
    path: &Path,
    pool: &Pool,
    going: &mut Going<'_>,
) -> Result<Loaded, TransferError> {
    import_within(path, pool, going, REQUEST_MAX)
}

/// The same, with transactions that take at most so many bytes.
fn import_within(
    path: &Path,
    pool: &Pool,
    going: &mut Going<'_>,
    open_max: usize,
) -> Result<Loaded, TransferError> {
    let files = match std::fs::metadata(path)?.is_dir() {
        true => manifest::open(path)?.files,
        false => vec![(path.display().to_string(), File::open(path)?)],
    };
    let several = files.len() > 1;
    let count = files.len();
    let mut feed = Feed::start(pool)?;
    let mut reading =
        Reading { feed: &mut feed, before: 0, going, left_out: 0, empty: 0, open_max };
    let mut read = Ok(());
    for (index, (name, file)) in files.into_iter().enumerate() {
        if several {
            reading.feed.begin_file(&name);
        }
        read = reading.file(file, index + 1 == count).map_err(|error| match several {
            true => error.in_file(&name),
            false => error,
        });
        if read.is_err() {
            break;
        }
    }
    let (left_out, empty) = (reading.left_out, reading.empty);
    let fed = feed.end();
    // An error of a command is the cause of one that follows from it.
    let commands = match (fed, read) {
        (Ok(commands), Ok(())) => commands,
        (Err(error), _) | (Ok(_), Err(error)) => return Err(error),
    };
    let mut handle = pool.session()?;
    let keys = super::load::count(&mut handle)?;
    Ok(Loaded { keys, commands, has_end: left_out == 0, gone: 0, left_out, empty })
}

/// Files on their way into the pool.
struct Reading<'a, 'g, 'h> {
    feed: &'a mut Feed,
    /// Bytes of the files before.
    before: u64,
    going: &'g mut Going<'h>,
    /// Bytes at the end that are no whole command, or no whole transaction.
    left_out: u64,
    /// Keys of snapshots that have nothing in them.
    empty: u64,
    /// Bytes of the commands of one transaction.
    open_max: usize,
}

impl Reading<'_, '_, '_> {
    fn file(&mut self, file: File, is_last: bool) -> Result<(), TransferError> {
        let mut file = BufReader::new(file);
        let mut begin = Vec::new();
        (&mut file).take(SNAPSHOT.len() as u64).read_to_end(&mut begin)?;
        let is_snapshot = begin == SNAPSHOT;
        if !is_snapshot && begin.first().is_some_and(|first| !b"*#".contains(first)) {
            let what = "this is neither a snapshot of Redis nor its append-only file".to_owned();
            return Err(TransferError::Bad { at: 0, what });
        }
        let input = std::io::Cursor::new(begin).chain(file);
        self.before += match is_snapshot {
            true => self.snapshot(input, is_last)?,
            false => self.commands(input, 0, is_last)?,
        };
        Ok(())
    }

    fn go_on(&mut self, at: u64) -> Result<(), TransferError> {
        match (self.going)(self.before + at) {
            true => Ok(()),
            false => Err(TransferError::Stopped),
        }
    }

    /// Reads a snapshot, and the commands that follow it. Returns the file's bytes.
    fn snapshot(&mut self, input: impl Read, is_last: bool) -> Result<u64, TransferError> {
        let mut snapshot = Snapshot::begin(input)?;
        loop {
            let at = snapshot.at();
            match snapshot.next()? {
                Item::Database(index) => {
                    self.feed.send(&[b"SELECT", index.to_string().as_bytes()], at)?;
                }
                Item::Key { name, expires, payload } => {
                    let feed = &mut *self.feed;
                    let mut send = |args: &[&[u8]]| feed.send(args, at);
                    let is_made = commands_of(&name, expires, &payload, at, &mut send)?;
                    self.empty += u64::from(!is_made);
                }
                Item::Library(code) => {
                    self.feed.send(&[b"FUNCTION", b"LOAD", b"REPLACE", &code], at)?;
                }
                Item::Note(..) | Item::Other => {}
                Item::End => break,
            }
            self.go_on(at)?;
        }
        let (rest, at) = snapshot.remainder();
        // The commands' first database is not the snapshot's last one.
        self.feed.send(&[b"SELECT", b"0"], at)?;
        self.commands(rest, at, is_last)
    }

    /// Reads commands; `start` bytes of the file are before them. Returns the file's bytes.
    fn commands(
        &mut self,
        mut input: impl Read,
        start: u64,
        is_last: bool,
    ) -> Result<u64, TransferError> {
        let mut reader = RequestReader::default();
        let mut total = start;
        // The commands of a transaction whose end has not come, with their places.
        let mut open: Vec<(OwnedArgs, u64)> = Vec::new();
        let mut open_bytes = 0;
        loop {
            let at = total - reader.unread() as u64;
            let bad = |what: String| TransferError::Bad { at, what };
            let request = reader.next(Limits::USUAL).map_err(|error| {
                let what = error.0.trim_start_matches("Protocol error: ").to_owned();
                bad(format!("this is not an append-only file of Redis, or it is damaged ({what})"))
            })?;
            let Some(request) = request else {
                reader.release();
                self.go_on(total)?;
                match reader.fill(&mut input) {
                    Ok(0) => break,
                    Ok(read) => total += read as u64,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                }
                continue;
            };
            let args = reader.args(request);
            // A line about the time. (No command's name begins so.)
            if args.len() == 0 || args.at(0).starts_with(b"#") {
                continue;
            }
            if !args.is_framed() {
                let what = "this is not an append-only file of Redis, or it is damaged";
                return Err(bad(what.to_owned()));
            }
            if let Some(command) = find_whole(args)
                && !is_of_data(command)
            {
                return Err(bad(format!(
                    "{} is no command that changes data: this is not an append-only file of Redis, or it is damaged",
                    command.name.to_uppercase()
                )));
            }
            let is_end = args.is(0, "exec");
            if args.is(0, "multi") || !open.is_empty() {
                open_bytes += args.bytes() + args.len() * PER_ARGUMENT + PER_COMMAND;
                if open_bytes > self.open_max {
                    let at = open.first().map_or(at, |(_, at)| *at);
                    let most = self.open_max;
                    let what = format!(
                        "the transaction that begins here takes more than {most} bytes, or its EXEC is missing: the file \
                         is damaged"
                    );
                    return Err(TransferError::Bad { at, what });
                }
                open.push((OwnedArgs::from(args), at));
            } else {
                self.feed.send(&args.iter().collect::<Vec<_>>(), at)?;
            }
            if is_end {
                open_bytes = 0;
                for (args, at) in open.drain(..) {
                    self.feed.send(&args.as_args().iter().collect::<Vec<_>>(), at)?;
                }
            }
        }
        let whole = open.first().map_or(total - reader.unread() as u64, |(_, at)| *at);
        if whole < total {
            if !is_last {
                let what = "the last command, or transaction, is not whole".to_owned();
                return Err(TransferError::Cut { at: whole, what });
            }
            self.left_out = total - whole;
        }
        Ok(total)
    }
}

/// Whether a file of commands may have this one: one on data, which does not wait, or what goes with such.
fn is_of_data(command: &Command) -> bool {
    match command.run {
        Run::Read(_) | Run::Write(_) => !command.blocks,
        Run::Client(_) => {
            let whole = command.name.split('|').next();
            matches!(whole, Some("select" | "multi" | "exec" | "ping" | "function" | "script"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::resp;

    /// A transaction that does not end is not collected without end.
    #[test]
    fn a_transaction_has_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let options = perdura::Options::new().size(32 << 20).domain(Some(perdura::Domain::Process));
        let pool = options.create(folder.path().join("pool")).unwrap();
        let path = folder.path().join("commands.aof");
        let (mut bytes, value) = (Vec::new(), [b'x'; 1000]);
        resp::command(&mut bytes, &[b"SET", b"key", b"value"]);
        let begin = bytes.len();
        resp::command(&mut bytes, &[b"MULTI"]);
        (0..100).for_each(|_| resp::command(&mut bytes, &[b"RPUSH", b"list", &value]));
        std::fs::write(&path, &bytes).unwrap();
        let import = |most| import_within(&path, &pool, &mut |_| true, most);
        assert_eq!(import(1 << 20).unwrap().left_out, (bytes.len() - begin) as u64);
        let error = import(50_000).unwrap_err().to_string();
        let wanted =
            format!("at byte {begin}: the transaction that begins here takes more than 50000");
        assert!(error.starts_with(&wanted), "{error}");
    }
}
