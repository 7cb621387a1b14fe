//! Where a program's database is: in a pool, or where stock SQLite has it; and what was written to the medium.

use super::sql;
use crate::bench::knobs::Knobs;
use crate::failure::{Failure, Outcome};
use perdura::{Domain, EngineKind, Options, Pool};
use perdura_memory::Backing;
use perdura_sqlite::Served;
use rusqlite::Connection;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In a pool, by the VFS.
    Pool { engine: EngineKind, exclusive: bool },
    /// A file with a write-ahead log.
    Wal { exclusive: bool },
    /// A file with a rollback journal.
    Journal,
    /// In ordinary memory: nothing is durable.
    Memory,
}

/// The one that ratios are to.
pub(crate) const BASELINE: Kind = Kind::Wal { exclusive: false };
/// Stock SQLite's.
pub(crate) const STOCK: [Kind; 4] =
    [BASELINE, Kind::Wal { exclusive: true }, Kind::Journal, Kind::Memory];

/// A kind, for reports.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entrant {
    pub(crate) name: String,
    pub(crate) settings: String,
    /// Whether it is in a pool.
    pub(crate) ours: bool,
}

impl Kind {
    pub(crate) fn entrant(self) -> Entrant {
        let (name, settings) = match self {
            Kind::Pool { engine, exclusive } => {
                let locks = if exclusive { ", exclusive" } else { "" };
                (format!("pool, {engine}{locks}"), "the VFS; synchronous=FULL")
            }
            Kind::Wal { exclusive: false } => {
                ("WAL".to_owned(), "journal_mode=WAL, synchronous=FULL")
            }
            Kind::Wal { exclusive: true } => (
                "WAL, exclusive".to_owned(),
                "journal_mode=WAL, synchronous=FULL, locking_mode=EXCLUSIVE",
            ),
            Kind::Journal => {
                ("rollback journal".to_owned(), "journal_mode=DELETE, synchronous=FULL")
            }
            Kind::Memory => (":memory:".to_owned(), "in ordinary memory, lost with the connection"),
        };
        let ours = matches!(self, Kind::Pool { .. });
        Entrant { name, settings: settings.to_owned(), ours }
    }

    /// Whether a second connection can have the same database meanwhile.
    pub(crate) fn is_shared(self) -> bool {
        match self {
            Kind::Pool { exclusive, .. } | Kind::Wal { exclusive } => !exclusive,
            Kind::Journal => true,
            Kind::Memory => false,
        }
    }
}

/// How pools are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolSetting {
    pub(crate) limit: u64,
    pub(crate) domain: Option<Domain>,
    pub(crate) knobs: Knobs,
}

/// A database of a run, in a folder of its own.
pub(crate) struct Database {
    kind: Kind,
    path: PathBuf,
    served: Option<(Served, Pool)>,
}

impl Database {
    /// A new one in the folder, which is empty.
    pub(crate) fn create(kind: Kind, folder: &Path, setting: PoolSetting) -> Outcome<Self> {
        let path = folder.join("bench.db");
        let served = match kind {
            Kind::Pool { engine, .. } => {
                perdura_sqlite::register()
                    .map_err(|code| Failure::new(format!("SQLite refuses the VFS ({code})")))?;
                let PoolSetting { limit, domain, knobs } = setting;
                let options = Options::new().engine(engine).domain(domain).size(limit);
                let mut options = options.tuning(knobs.tuning()).checksums(knobs.checksums);
                if let Some(log) = knobs.log {
                    options = options.log(log);
                }
                let pool = options.create(&path).map_err(|error| Failure::at(&path, error))?;
                Some((perdura_sqlite::serve(pool.clone()), pool))
            }
            Kind::Wal { .. } | Kind::Journal | Kind::Memory => None,
        };
        Ok(Database { kind, path, served })
    }

    /// A connection, set up as the kind says.
    pub(crate) fn connect(&self) -> Outcome<Connection> {
        let path = self.path.display();
        let (uri, pragmas) = match self.kind {
            Kind::Pool { exclusive: false, .. } => (format!("file:{path}?vfs=perdura"), ""),
            Kind::Pool { exclusive: true, .. } => {
                (format!("file:{path}?vfs=perdura"), "PRAGMA locking_mode = EXCLUSIVE")
            }
            Kind::Wal { exclusive: false } => (format!("file:{path}"), "PRAGMA journal_mode = WAL"),
            Kind::Wal { exclusive: true } => (
                format!("file:{path}"),
                "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL",
            ),
            Kind::Journal => (format!("file:{path}"), "PRAGMA journal_mode = DELETE"),
            Kind::Memory => (":memory:".to_owned(), ""),
        };
        let db = sql(Connection::open(uri))?;
        perdura_workloads::sql::prepare(&db)?;
        sql(db.execute_batch(pragmas))?;
        sql(db.execute_batch("PRAGMA synchronous = FULL"))?;
        self.expect_mode(&db)?;
        Ok(db)
    }

    /// A file system without shared memory would silently give another journal.
    fn expect_mode(&self, db: &Connection) -> Outcome {
        let expected = match self.kind {
            Kind::Wal { .. } => "wal",
            Kind::Journal => "delete",
            Kind::Pool { .. } | Kind::Memory => "memory",
        };
        let mode: String = sql(db.query_row("PRAGMA journal_mode", (), |row| row.get(0)))?;
        if mode == expected {
            return Ok(());
        }
        Err(Failure::new(format!("the journal's mode is {mode}, and not {expected}")))
    }

    /// Bytes written to the medium so far, by this process: in a pool in memory those of the lines written back, else
    /// those of the calls that write. `None` for a database without a medium.
    fn written(&self) -> Outcome<Option<u64>> {
        if self.kind == Kind::Memory {
            return Ok(None);
        }
        let in_memory =
            self.served.as_ref().filter(|(_, pool)| pool.memory().backing() != Backing::Block);
        match in_memory {
            Some((_, pool)) => {
                let counters = pool.counters();
                Ok(Some(LINE * counters.write_backs()))
            }
            None => written_by_calls().map(Some),
        }
    }

    /// Empties the log, as closing does: what was committed is in its place then.
    pub(crate) fn checkpoint(&self, db: &Connection) -> Outcome {
        match (&self.served, self.kind) {
            (Some((_, pool)), _) => Ok(pool.checkpoint()?),
            (None, Kind::Wal { .. }) => {
                let busy: i64 =
                    sql(db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0)))?;
                if busy == 0 { Ok(()) } else { Err(Failure::new("the checkpoint found readers")) }
            }
            _ => Ok(()),
        }
    }

    /// Bytes that readers' old versions take: of pages kept in memory, and of the write-ahead log.
    pub(crate) fn kept(&self, db: &Connection) -> Outcome<u64> {
        match self.kind {
            Kind::Pool { .. } => {
                let kept: String =
                    sql(db.query_row("PRAGMA perdura_kept_bytes", (), |row| row.get(0)))?;
                kept.parse().map_err(|_| Failure::new("the VFS's pragma answers no number"))
            }
            _ => {
                let log = format!("{}-wal", self.path.display());
                Ok(std::fs::metadata(log).map_or(0, |log| log.len()))
            }
        }
    }

    /// Empties the log, and opens the connection anew: the session of a pool counts what it has written when it ends.
    /// Returns what was written by then, too.
    pub(crate) fn renew(&self, used: Connection) -> Outcome<(Option<u64>, Connection)> {
        if self.kind == Kind::Memory {
            return Ok((None, used));
        }
        self.checkpoint(&used)?;
        sql(used.close().map_err(|(_, error)| error))?;
        Ok((self.written()?, self.connect()?))
    }

    /// Closes the database, and opens it again, with what was written, and a connection that checks it; `used` is the last one of a database
    /// that would be lost.
    pub(crate) fn reopen(
        self,
        used: Connection,
    ) -> Outcome<(Option<u64>, Option<Self>, Connection)> {
        if self.kind == Kind::Memory {
            return Ok((None, None, used));
        }
        sql(used.close().map_err(|(_, error)| error))?;
        let written = self.written()?;
        let Database { kind, path, served } = self;
        if let Some((served, pool)) = served {
            drop(served);
            pool.close()?;
        }
        let again = Database { kind, path, served: None };
        let db = again.connect()?;
        Ok((written, Some(again), db))
    }
}

const LINE: u64 = 64;

/// Bytes of all calls of this process that write.
fn written_by_calls() -> Outcome<u64> {
    const FILE: &str = "/proc/self/io";
    let text = std::fs::read_to_string(FILE)?;
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|bytes| bytes.parse().ok())
        .ok_or_else(|| Failure::new(format!("{FILE} does not say how many bytes were written")))
}
