//! The module's work in a transaction of the pool.

use perdura::collections::{Bytes, HashMap};
use perdura::{Result, Tx, TxExt};
use perdura_server::{Commands, Performed, Request};

/// The root of what the node keeps besides keys.
const STATE: &str = "redis-state";

type State = HashMap<Bytes, Bytes>;

/// Something to do in a transaction.
#[derive(Debug)]
pub(crate) enum Job {
    /// A client's command, or one that makes a value.
    Command(Request),
    /// The host has deleted a key.
    Remove { db: u8, key: Vec<u8> },
    /// The host has deleted all keys of a database, or of all.
    Clear(Option<u8>),
    /// The host has exchanged two databases.
    Swap(u8, u8),
    /// Says what a key is.
    Look { db: u8, key: Vec<u8> },
    /// Replies with the key's value as DUMP does, and says what the key is.
    Read { db: u8, key: Vec<u8> },
    /// Does another job, and undoes it: only the reply is left.
    Try(Box<Job>),
    /// Keeps a part of the node's state, or, without a value, drops it.
    Keep { name: &'static [u8], value: Option<Vec<u8>> },
    /// Replies with a part of the node's state, if it is there (`changed`).
    Kept(&'static [u8]),
}

impl Job {
    /// Does it, in a transaction that may do other work as well.
    pub(crate) fn run(&self, commands: &Commands, tx: &mut dyn Tx) -> Result<Performed> {
        match self {
            Job::Command(request) => return commands.run(tx, request),
            Job::Remove { db, key } => commands.remove(tx, *db, key).map(drop)?,
            Job::Clear(db) => commands.clear(tx, *db)?,
            Job::Swap(one, other) => commands.swap(tx, *one, *other)?,
            Job::Look { db, key } => {
                let keys = vec![commands.state(tx, *db, key)?];
                return Ok(Performed { keys, ..Performed::default() });
            }
            Job::Read { db, key } => {
                let request = Request::new([b"dump".as_slice(), key]).in_database(*db);
                let reply = commands.run(tx, &request)?.reply;
                let keys = vec![commands.state(tx, *db, key)?];
                return Ok(Performed { reply, keys, ..Performed::default() });
            }
            Job::Try(job) => {
                let point = tx.point();
                let reply = job.run(commands, tx)?.reply;
                tx.undo_to(point)?;
                return Ok(Performed { reply, ..Performed::default() });
            }
            Job::Keep { name, value } => {
                let state = tx.open_or_create::<State>(STATE)?;
                match value {
                    Some(value) => state.insert(tx, *name, value.as_slice()).map(drop)?,
                    None => state.remove(tx, *name).map(drop)?,
                }
            }
            Job::Kept(name) => {
                let value = tx.open_or_create::<State>(STATE)?.get(tx, *name)?;
                let changed = value.is_some();
                let reply = value.unwrap_or_default();
                return Ok(Performed { reply, changed, ..Performed::default() });
            }
        }
        Ok(Performed::default())
    }
}

/// A key's contents, as they travel to other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// The value in Redis's form, as DUMP answers it; empty if there is no such key.
    pub(crate) payload: Vec<u8>,
    /// When it expires, in milliseconds since 1970; 0 for never.
    pub(crate) expires: u64,
}

impl Contents {
    /// Reads a key's.
    pub(crate) fn read(commands: &Commands, tx: &mut dyn Tx, db: u8, key: &[u8]) -> Result<Self> {
        Ok(Self::of(&Job::Read { db, key: key.to_vec() }.run(commands, tx)?))
    }

    /// Those that [`Job::Read`] has found.
    pub(crate) fn of(done: &Performed) -> Self {
        let payload = match crate::resp::Items::new(&done.reply).next() {
            Some(crate::resp::Item::Bulk(payload)) => payload.to_vec(),
            _ => Vec::new(),
        };
        let expires = done.keys.first().and_then(|state| state.expires).unwrap_or(0);
        Contents { payload, expires }
    }

    /// The job that gives a key these contents.
    pub(crate) fn restore(&self, db: u8, key: &[u8]) -> Job {
        let expires = self.expires.to_string();
        let args: [&[u8]; 6] =
            [b"restore", key, expires.as_bytes(), &self.payload, b"absttl", b"replace"];
        // At time 0 nothing has expired: the host decides what has.
        Job::Command(Request::new(args).in_database(db).with_known_version())
    }
}
