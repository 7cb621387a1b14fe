//! The keyspace of one moment, and where that moment is in the stream of effects.

use super::feed::Sealed;
use crate::keyspace::{turn, turns, unguessable};
use crate::server::Server;
use crate::store::{Session, Store};
use crate::walk::{self, Form, WalkError};
use perdura::{Error, Result};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::sync::TryLockError;
use std::thread;
use std::time::Duration;

/// How soon an end is noticed.
const TICK: Duration = Duration::from_millis(200);

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotError {
    #[error(transparent)]
    Pool(#[from] Error),
    #[error(transparent)]
    Walk(#[from] WalkError),
    #[error("{0}")]
    File(#[from] io::Error),
}

/// A snapshot that was written to a file.
pub(crate) struct Snapshot {
    /// The file, which has no name.
    pub(crate) file: File,
    /// The stream's name, and where it goes on from the snapshot.
    pub(crate) id: String,
    pub(crate) place: u64,
}

/// A file beside the pool, without a name.
fn scratch<S: Store>(store: &S) -> io::Result<File> {
    let beside = store.export_path().unwrap_or_else(|| std::env::temp_dir().join("perdura"));
    let mut name = beside.into_os_string();
    name.push(format!(".replica-{:016x}", unguessable()));
    let file = File::options().read(true).write(true).create_new(true).open(&name)?;
    std::fs::remove_file(&name)?;
    Ok(file)
}

/// Writes a snapshot; `going` says whether it is still wanted. The feed is on from here on.
///
/// # Errors
/// When the pool or the file fails, a flush comes in between, or it is not wanted any more.
pub(super) fn make<S: Store>(
    server: &Server,
    store: &S,
    header: u64,
    going: &mut dyn FnMut() -> bool,
) -> Result<Snapshot, SnapshotError> {
    let replication = &server.replication;
    let _alone = loop {
        match replication.making.try_lock() {
            Ok(alone) => break alone,
            Err(TryLockError::Poisoned(alone)) => break alone.into_inner(),
            // Another replica's is being made.
            Err(TryLockError::WouldBlock) => thread::sleep(TICK),
        }
        if !going() {
            return Err(WalkError::GivenUp.into());
        }
    };
    let (mut session, mut file) = (store.session()?, scratch(store)?);
    replication.feed.turn_on();
    let has_snapshots = store.has_snapshots();
    let mut number = 0;
    let moment = session.write(&mut |tx| {
        number = turn(tx, header)?;
        match has_snapshots {
            true => Ok(()),
            false => replication.walking.begin(tx, header, Form::snapshot()),
        }
    })?;
    let made = session.wait(moment).map_err(SnapshotError::from).and_then(|()| {
        replication.feed.begin(number);
        replication.feed.add(vec![Sealed { number, bytes: Vec::new() }]);
        match has_snapshots {
            true => whole(&mut session, header, &mut file, going),
            false => {
                let last = replication.walking.run(&mut session, header, &mut file, going)?;
                // Nobody is told what a power cut could undo.
                session.wait(last)?;
                Ok(number)
            }
        }
    });
    replication.walking.end();
    let number = made?;
    loop {
        // Its predecessors are durable soon.
        if let Some((id, place)) = replication.feed.await_place(number, TICK) {
            return Ok(Snapshot { file, id, place });
        }
        if !replication.feed.is_on() || !going() {
            return Err(WalkError::GivenUp.into());
        }
    }
}

/// All of it in one transaction, which sees one moment; returns the number of the last one before.
fn whole<S: Session>(
    session: &mut S,
    header: u64,
    file: &mut File,
    going: &mut dyn FnMut() -> bool,
) -> Result<u64, SnapshotError> {
    let (mut number, mut written) = (0, Ok(()));
    let ticket = session.read(&mut |tx| {
        number = turns(tx, header)?;
        written = file.set_len(0).and_then(|()| file.rewind()).map_err(SnapshotError::from);
        if written.is_err() {
            return Ok(());
        }
        walk::whole(tx, header, Form::snapshot(), &mut |bytes| {
            written = match going() {
                true => file.write_all(bytes).map_err(SnapshotError::from),
                false => Err(WalkError::GivenUp.into()),
            };
            written.is_ok()
        })
    })?;
    written?;
    session.wait(ticket)?;
    Ok(number)
}
