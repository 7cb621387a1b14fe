//! The keyspace of one moment, and where that moment is in the stream of effects.

use super::feed::{GoOn, Lack, Sealed};
use crate::keyspace::followed::{self, Data, Place};
use crate::keyspace::{turn, turns, unguessable};
use crate::server::Server;
use crate::store::{Session, Store};
use crate::walk::{self, Contents, Form, WalkError};
use perdura::{Error, Result, Tx};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::sync::TryLockError;
use std::thread;
use std::time::Duration;

/// How soon an end is noticed.
const TICK: Duration = Duration::from_millis(200);
/// How soon it is looked again whether what a snapshot has is durable.
const SOON: Duration = Duration::from_millis(5);

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotError {
    #[error(transparent)]
    Pool(#[from] Error),
    #[error(transparent)]
    Walk(#[from] WalkError),
    #[error("{0}")]
    File(#[from] io::Error),
    #[error("there is no whole copy of the master's data, or another stream is followed by now")]
    NoCopy,
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

/// Writes a snapshot of the keyspace at a header; `going` says whether it is still wanted. The feed is on from here on, or passes on a master's stream.
///
/// # Errors
/// When the pool or the file fails, a flush comes in between, there is no whole copy of a master's data, or the snapshot is not
/// wanted any more.
pub(super) fn make<S: Store>(
    server: &Server,
    store: &S,
    (header, contents): (u64, Contents),
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
    let Some(id) = replication.feed.turn_on() else {
        return of_copy(server, store, (session, file), (header, contents), going);
    };
    let has_snapshots = store.has_snapshots();
    let (number, place) = (Cell::new(0), Cell::new(None));
    let moment = session.write(&mut |tx| {
        number.set(turn(tx, header)?);
        match has_snapshots {
            true => Ok(()),
            false => replication.walking.begin(tx, header, Form::snapshot(0, contents)),
        }
    })?;
    let made = session.wait(moment).map_err(SnapshotError::from).and_then(|()| {
        replication.feed.begin(number.get());
        replication.feed.add(vec![Sealed { number: number.get(), bytes: Vec::new() }]);
        // Meanwhile: the stream knows the places of its last transactions only.
        let mut going = || {
            if place.get().is_none() {
                place.set(replication.feed.await_place(&id, number.get(), Duration::ZERO).ok());
            }
            going()
        };
        match has_snapshots {
            true => whole(&mut session, (header, contents), &mut file, &mut going, &mut |tx| {
                // Perhaps the body runs once more.
                place.set(None);
                number.set(turns(tx, header)?);
                Ok(Some(0))
            }),
            false => {
                let last = replication.walking.run(&mut session, header, &mut file, &mut going)?;
                // Nobody is told what a power cut could undo.
                session.wait(last)?;
                Ok(())
            }
        }
    });
    replication.walking.end();
    made?;
    loop {
        // Its predecessors are durable soon.
        let found = match place.get() {
            Some(place) => Ok(place),
            None => replication.feed.await_place(&id, number.get(), TICK),
        };
        match found {
            Ok(place) => return Ok(Snapshot { file, id, place }),
            Err(Lack::Nothing) if going() => {}
            Err(_) => return Err(WalkError::GivenUp.into()),
        }
    }
}

/// Where a followed master's stream is, if all of the master's data is here.
fn place_of_copy(tx: &mut dyn Tx, header: u64) -> Result<Option<Place>> {
    Ok(match followed::read(tx, header)?.map(|followed| followed.data) {
        Some(Data::Copy(place)) => Some(place),
        Some(Data::Own | Data::Incomplete) | None => None,
    })
}

/// The same while a master is followed: its stream goes on from the snapshot.
fn of_copy<S: Store>(
    server: &Server,
    store: &S,
    (mut session, mut file): (S::Session, File),
    (header, contents): (u64, Contents),
    going: &mut dyn FnMut() -> bool,
) -> Result<Snapshot, SnapshotError> {
    let replication = &server.replication;
    let mut copy = None;
    let made = if store.has_snapshots() {
        whole(&mut session, (header, contents), &mut file, going, &mut |tx| {
            copy = place_of_copy(tx, header)?;
            Ok(copy.as_ref().map(|place| place.db))
        })
    } else {
        let begun = session.write(&mut |tx| {
            copy = place_of_copy(tx, header)?;
            if let Some(place) = &copy {
                replication.walking.begin(tx, header, Form::snapshot(place.db, contents))?;
            }
            Ok(())
        });
        begun.map_err(SnapshotError::from).and_then(|moment| {
            if copy.is_none() {
                return Ok(());
            }
            session.wait(moment)?;
            let last = replication.walking.run(&mut session, header, &mut file, going)?;
            Ok(session.wait(last)?)
        })
    };
    replication.walking.end();
    made?;
    let Place { id, at: place, .. } = copy.ok_or(SnapshotError::NoCopy)?;
    let id = String::from_utf8_lossy(&id).into_owned();
    loop {
        // The thread that follows tells the feed when it knows that all up to there is durable.
        match replication.feed.go_on(id.as_bytes(), place) {
            GoOn::Yes(now) if now == id => return Ok(Snapshot { file, id, place }),
            GoOn::Ahead if going() => thread::sleep(SOON),
            GoOn::Ahead => return Err(WalkError::GivenUp.into()),
            GoOn::Yes(_) | GoOn::No => return Err(SnapshotError::NoCopy),
        }
    }
}

/// All of it in one transaction, which sees one moment. `begin` is called first: it returns the database that is chosen in
/// the stream, or `None` if there is to be no snapshot.
fn whole<S: Session>(
    session: &mut S,
    (header, contents): (u64, Contents),
    file: &mut File,
    going: &mut dyn FnMut() -> bool,
    begin: &mut dyn FnMut(&mut dyn Tx) -> Result<Option<u8>>,
) -> Result<(), SnapshotError> {
    let mut written = Ok(());
    let ticket = session.read(&mut |tx| {
        let Some(db) = begin(tx)? else { return Ok(()) };
        written = file.set_len(0).and_then(|()| file.rewind()).map_err(SnapshotError::from);
        if written.is_err() {
            return Ok(());
        }
        walk::whole(tx, header, Form::snapshot(db, contents), &mut |bytes| {
            written = match going() {
                true => file.write_all(bytes).map_err(SnapshotError::from),
                false => Err(WalkError::GivenUp.into()),
            };
            written.is_ok()
        })
    })?;
    written?;
    Ok(session.wait(ticket)?)
}
