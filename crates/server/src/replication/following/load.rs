//! A master's snapshot, read as it arrives: each key is made by commands, in transactions of a bounded size.
//!
//! Memory: one value at a time, and what has come of the next ones.

use super::control::Ended;
use super::master::Master;
use super::perform::{Performer, Step, Unit};
use crate::command::find_whole;
use crate::keyspace::DATABASES;
use crate::protocol::args::OwnedArgs;
use crate::server::Server;
use crate::store::Session;
use crate::transfer::TransferError;
use crate::transfer::redis::commands_of;
use crate::transfer::redis::snapshot::{Item, Snapshot};
use std::io::{ErrorKind, Read};
use tracing::info;

/// Bytes of commands, and their number, in one transaction.
const BYTES_MAX: usize = 128 << 10;
const COUNT_MAX: usize = 64;
/// Digits of the mark at the end of a snapshot whose length is not known.
const MARK: usize = 40;

impl From<TransferError> for Ended {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Foreign { what, .. } => {
                Ended::ForGood(format!("the master has what this server cannot keep: {what}"))
            }
            TransferError::Pool(error) => error.into(),
            other => Ended::Broken(format!("the master's snapshot: {other}")),
        }
    }
}

/// Loads the snapshot that the master sends, in the place of what is here, which `clear` deletes. Returns the database that is chosen in the stream after it.
pub(super) fn load<S: Session>(
    server: &Server,
    session: &mut S,
    header: u64,
    master: &mut Master<'_>,
    clear: &mut dyn FnMut() -> Result<(), Ended>,
) -> Result<u8, Ended> {
    master.set_beats(true);
    let line = master.line()?;
    let size =
        line.strip_prefix('$').ok_or_else(|| Ended::Broken(format!("no snapshot: {line:?}")))?;
    let mut loader = Loader {
        performer: Performer::new(server, session, header, master.life),
        units: Vec::new(),
        bytes: 0,
        db: 0,
        stream_db: 0,
    };
    match size.strip_prefix("EOF:") {
        None => {
            let len: u64 =
                size.parse().map_err(|_| Ended::Broken(format!("no snapshot: {line:?}")))?;
            server.following.note(master.life, |facts| facts.sync = (Some(len), 0));
            let mut snapshot = Snapshot::begin(master.take(len))?;
            clear()?;
            loader.read(server, &mut snapshot)?;
            let (rest, input) = snapshot.rest_and_input();
            if !rest.is_empty() || input.limit() > 0 {
                return Err(Ended::broken("the master's snapshot is shorter than it should be"));
            }
        }
        Some(mark) => {
            server.following.note(master.life, |facts| facts.sync = (None, 0));
            let mut snapshot = Snapshot::begin(&mut *master)?;
            clear()?;
            loader.read(server, &mut snapshot)?;
            let (rest, _) = snapshot.rest_and_input();
            master.put_back(rest);
            let mut found = Vec::new();
            while found.len() < MARK {
                let mut more = vec![0; MARK - found.len()];
                match master.read(&mut more) {
                    Ok(read) => found.extend_from_slice(&more[..read]),
                    Err(error) if error.kind() == ErrorKind::TimedOut => {}
                    Err(error) => return Err(Ended::broken(error)),
                }
            }
            if found != mark.as_bytes() {
                return Err(Ended::broken("the mark at the snapshot's end is wrong"));
            }
        }
    }
    master.set_beats(false);
    loader.performer.wait()?;
    Ok(loader.stream_db)
}

struct Loader<'a, S: Session> {
    performer: Performer<'a, S>,
    units: Vec<Unit>,
    bytes: usize,
    db: u8,
    /// The database that is chosen in the stream.
    stream_db: u8,
}

impl<S: Session> Loader<'_, S> {
    fn read(&mut self, server: &Server, snapshot: &mut Snapshot<impl Read>) -> Result<(), Ended> {
        loop {
            match snapshot.next()? {
                Item::Database(index) => self.db = database(index)?,
                Item::Key { name, expires, payload } => {
                    let (mut failed, at) = (None, snapshot.at());
                    let done = commands_of(&name, expires, &payload, at, &mut |args| {
                        self.add(args).map_err(|ended| {
                            failed = Some(ended);
                            TransferError::Stopped
                        })
                    });
                    if let Some(ended) = failed {
                        return Err(ended);
                    }
                    if !done? {
                        info!(
                            "the master's snapshot has a key with nothing in it, which is left out"
                        );
                    }
                }
                Item::Library(code) => self.add(&[b"FUNCTION", b"LOAD", b"REPLACE", &code])?,
                Item::Note(name, text) if name == b"repl-stream-db" => {
                    let index = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
                    self.stream_db = database(index.unwrap_or(u64::MAX))?;
                }
                Item::Note(..) | Item::Other => {}
                Item::End => return self.flush(),
            }
            let life = self.performer.life;
            server.following.note(life, |facts| facts.sync.1 = snapshot.at());
        }
    }

    fn add(&mut self, args: &[&[u8]]) -> Result<(), Ended> {
        let args: OwnedArgs = args.iter().copied().collect();
        let Some(command) = find_whole(args.as_args()) else { return Ok(()) };
        self.bytes += args.as_args().bytes();
        let step = Step { command, args, db: self.db };
        self.units.push(Unit { steps: vec![step], at: 0, db: 0 });
        let is_full = self.bytes >= BYTES_MAX || self.units.len() >= COUNT_MAX;
        if is_full { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Ended> {
        let units = std::mem::take(&mut self.units);
        self.bytes = 0;
        let _turn = self.performer.turn();
        self.performer.perform(&units, false)?;
        Ok(())
    }
}

fn database(index: u64) -> Result<u8, Ended> {
    let fits = u8::try_from(index).ok().filter(|index| *index < DATABASES);
    fits.ok_or_else(|| {
        Ended::ForGood(format!(
            "the master uses database {index}, and this server has only 0 to {}",
            DATABASES - 1
        ))
    })
}
