//! A replica: a thread that sends it a snapshot and then the stream, and one that hears how far it is.

use super::feed::{GoOn, Lack};
use super::lock;
use super::snapshot::Snapshot;
use super::wire::{Wire, WireReader, WireWriter};
use crate::listing::Listing;
use crate::protocol::number::parse_i64;
use crate::protocol::{Args, Limits, RequestReader};
use crate::server::Server;
use crate::walk::Contents;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Bytes sent at a time.
const CHUNK: usize = 256 << 10;
/// How soon an end is noticed.
const TICK: Duration = Duration::from_millis(200);
/// A replica that takes nothing for so long, or says nothing, is given up.
const SILENCE: Duration = Duration::from_secs(60);
/// How often a replica that waits for its snapshot is told that it is being made.
const BEAT: Duration = Duration::from_secs(1);
/// How long a replica that has more of a master's stream than this server, which was restarted, waits for it; and how often
/// it looks.
const CATCH_UP: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_millis(5);

/// What a replica asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ask {
    /// The stream that it knows, and the first byte that it lacks; `None` for SYNC, which has no words for either.
    pub(crate) known: Option<(Vec<u8>, i64)>,
    /// Where it listens, as it says.
    pub(crate) port: u16,
    pub(crate) address: Option<String>,
    /// What it wants of the snapshot, and whether it wants nothing after that.
    pub(crate) contents: Contents,
    pub(crate) snapshot_only: bool,
}

/// How far a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    Waits,
    Receives,
    Follows,
}

/// The facts about a replica.
#[derive(Clone, Debug)]
pub(crate) struct ReplicaFacts {
    pub(crate) address: String,
    pub(crate) port: u16,
    /// In Redis's words.
    pub(crate) state: &'static str,
    /// The name of the stream that it gets, once that is known.
    pub(crate) id: Option<String>,
    /// Up to where it has the stream.
    pub(crate) place: u64,
    /// Seconds since it said so.
    pub(crate) lag: u64,
}

/// A replica that is connected.
pub(super) struct Replica {
    stream: TcpStream,
    address: String,
    port: u16,
    state: AtomicU8,
    /// The name of the stream that it gets, once that is known.
    id: OnceLock<String>,
    place: AtomicU64,
    /// It has said so on this connection.
    acknowledged: AtomicBool,
    since: Instant,
    /// Milliseconds after `since` at which it was last heard of.
    heard: AtomicU64,
    closed: AtomicBool,
    /// It gets what there is, and no more.
    ending: AtomicBool,
}

impl Replica {
    fn new(stream: TcpStream, address: IpAddr, ask: &Ask) -> Self {
        Replica {
            stream,
            address: ask.address.clone().unwrap_or_else(|| address.to_canonical().to_string()),
            port: ask.port,
            state: AtomicU8::new(State::Waits as u8),
            id: OnceLock::new(),
            place: AtomicU64::new(0),
            acknowledged: AtomicBool::new(false),
            since: Instant::now(),
            heard: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            ending: AtomicBool::new(false),
        }
    }

    /// One that has said that it has this stream up to `place`.
    #[cfg(test)]
    pub(super) fn at(stream: TcpStream, id: &str, place: u64) -> Self {
        let replica = Replica::new(stream, std::net::Ipv4Addr::LOCALHOST.into(), &Ask::default());
        replica.place.store(place, Ordering::Relaxed);
        replica.acknowledged.store(true, Ordering::Relaxed);
        Replica { id: OnceLock::from(id.to_owned()), ..replica }
    }

    fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// Whether it has said that it has the stream `id` up to `place`.
    pub(super) fn has(&self, id: &str, place: u64) -> bool {
        self.acknowledged.load(Ordering::Acquire)
            && self.id.get().is_some_and(|own| own == id)
            && self.place.load(Ordering::Acquire) >= place
    }

    /// Ends it once it has got what there is.
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::Release);
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Ends it.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // One that is closed already is as good.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn hear(&self) {
        let millis = self.since.elapsed().as_millis() as u64;
        self.heard.store(millis, Ordering::Relaxed);
    }

    fn silence(&self) -> Duration {
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        self.since.elapsed().saturating_sub(heard)
    }

    pub(super) fn facts(&self) -> ReplicaFacts {
        let state = match self.state.load(Ordering::Relaxed) {
            state if state == State::Waits as u8 => "wait_bgsave",
            state if state == State::Receives as u8 => "send_bulk",
            _ => "online",
        };
        ReplicaFacts {
            address: self.address.clone(),
            port: self.port,
            state,
            id: self.id.get().cloned(),
            place: self.place.load(Ordering::Acquire),
            lag: self.silence().as_secs(),
        }
    }
}

/// Serves a replica until it is gone, or the server ends.
pub(super) fn follow(server: &Arc<Server>, stream: Wire, listing: &Listing, ask: &Ask) {
    let done = serve(server, stream, listing, ask);
    let reason = match &done {
        Ok(()) => "it has gone, or the server ends".to_owned(),
        Err(error) => error.clone(),
    };
    info!(replica = listing.id, address = %listing.address, reason, "replica disconnected");
    server.dismiss(listing.id, &reason);
}

fn serve(server: &Arc<Server>, wire: Wire, listing: &Listing, ask: &Ask) -> Result<(), String> {
    let told = |error: io::Error| error.to_string();
    let stream = wire.socket().try_clone().map_err(told)?;
    stream.set_nonblocking(false).map_err(told)?;
    stream.set_write_timeout(Some(BEAT)).map_err(told)?;
    stream.set_read_timeout(Some(TICK)).map_err(told)?;
    let (hears, sends) = wire.split().map_err(told)?;
    let replica = Arc::new(Replica::new(stream, listing.address.ip(), ask));
    lock(&server.replication.replicas).insert(listing.id, Arc::clone(&replica));
    // It may have begun to stop before this replica was on the list.
    if server.stopping() {
        replica.end();
    }
    let (own, heard) = (Arc::clone(server), Arc::clone(&replica));
    let hearing = thread::Builder::new()
        .name(format!("replica-{}-acks", listing.id))
        .spawn(move || hear(&own, hears, &heard));
    let done = match &hearing {
        Ok(_) => send(server, sends, &replica, listing, ask),
        Err(error) => Err(error.to_string()),
    };
    replica.close();
    lock(&server.replication.replicas).remove(&listing.id);
    if let Ok(thread) = hearing {
        // It only hears.
        let _ = thread.join();
    }
    done
}

/// Hears how far a replica is, until it is closed.
fn hear(server: &Server, mut stream: WireReader, replica: &Replica) {
    let mut reader = RequestReader::default();
    while !replica.is_closed() {
        reader.prepare();
        match reader.fill(&mut (&mut stream).take(CHUNK as u64)) {
            Ok(0) => break,
            // One that loads a snapshot sends empty lines.
            Ok(_) => replica.hear(),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => continue,
                _ => break,
            },
        }
        loop {
            match reader.next(Limits::UNAUTHENTICATED) {
                Ok(Some(request)) => acknowledge(server, replica, reader.args(request)),
                Ok(None) => break,
                Err(_) => return replica.close(),
            }
        }
        reader.release();
    }
    replica.close();
    server.replication.feed.wake();
}

fn acknowledge(server: &Server, replica: &Replica, args: Args<'_>) {
    if args.is(0, "replconf")
        && args.is(1, "ack")
        && let Some(place) = args.get(2).and_then(parse_i64)
    {
        replica.place.fetch_max(place.max(0) as u64, Ordering::AcqRel);
        replica.acknowledged.store(true, Ordering::Release);
        server.replication.look_at_waits(server);
    }
}

/// Sends what the replica lacks, until it is closed.
fn send(
    server: &Arc<Server>,
    mut stream: WireWriter,
    replica: &Replica,
    listing: &Listing,
    ask: &Ask,
) -> Result<(), String> {
    let feed = &server.replication.feed;
    let going_on = going_on(server, replica, ask);
    let (id, mut place) = match going_on {
        Some((id, place)) => {
            server.replication.counts.part.fetch_add(1, Ordering::Relaxed);
            // Before it can say how far it is.
            let _ = replica.id.set(id.clone());
            replica.write(&mut stream, format!("+CONTINUE {id}\r\n").as_bytes())?;
            info!(replica = listing.id, place, "a replica goes on");
            (id, place)
        }
        None => {
            let asked = ask.known.as_ref().is_some_and(|(id, _)| id != b"?");
            server.replication.counts.failed.fetch_add(u64::from(asked), Ordering::Relaxed);
            server.replication.counts.whole.fetch_add(1, Ordering::Relaxed);
            let (id, place) = send_all(server, &mut stream, (replica, listing), ask)?;
            info!(replica = listing.id, place, "a replica has a snapshot");
            if ask.snapshot_only {
                return Ok(());
            }
            (id, place)
        }
    };
    replica.hear();
    replica.set_state(State::Follows);
    // One that asks by SYNC says nothing.
    let speaks = ask.known.is_some();
    let mut bytes = Vec::new();
    while !replica.is_closed() && !listing.is_killed() {
        let is_ending = replica.is_ending();
        match feed.read(&id, place, CHUNK, TICK, &mut bytes) {
            Ok(len) => {
                replica.write(&mut stream, &bytes)?;
                place += len as u64;
            }
            Err(Lack::Nothing) if is_ending => return Ok(()),
            // What the session has to say, if there is one.
            Err(Lack::Nothing) => replica.write(&mut stream, b"")?,
            Err(Lack::Renamed) => {
                return Err(
                    "the stream goes on by another name, or another one is followed".to_owned()
                );
            }
            Err(Lack::Lost) => {
                return Err(format!(
                    "it was too slow: what it lacks is not in the backlog of {} bytes any more, see --repl-backlog-size",
                    feed.most()
                ));
            }
        }
        if speaks && replica.silence() > SILENCE {
            return Err("it has said nothing for a minute".to_owned());
        }
    }
    Ok(())
}

/// Where the replica can go on, in the stream of this name, if it can.
fn going_on(server: &Server, replica: &Replica, ask: &Ask) -> Option<(String, u64)> {
    let (id, next) = ask.known.as_ref()?;
    // Its offset is that of the first byte that it lacks, counted from 1.
    let place = next.wrapping_sub(1) as u64;
    let until = Instant::now() + CATCH_UP;
    loop {
        match server.replication.feed.go_on(id, place) {
            GoOn::Yes(id) => return Some((id, place)),
            GoOn::No => return None,
            GoOn::Ahead if replica.is_closed() || replica.is_ending() => return None,
            GoOn::Ahead if Instant::now() >= until => return None,
            GoOn::Ahead => thread::sleep(SOON),
        }
    }
}

impl Replica {
    /// Sends all of these bytes. One that is heard of may take its time: while it loads a snapshot, it takes nothing.
    fn write(&self, stream: &mut WireWriter, bytes: &[u8]) -> Result<(), String> {
        let (mut left, began) = (bytes, Instant::now());
        loop {
            let sent = match left {
                [] => stream.flush().map(|()| None),
                _ => stream.write(left).map(Some),
            };
            match sent {
                Ok(None) => return Ok(()),
                Ok(Some(0)) => return Err("it takes nothing".to_owned()),
                Ok(Some(sent)) => left = &left[sent..],
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                        let silence = self.silence().min(began.elapsed());
                        if self.is_ending() || self.is_closed() || silence > SILENCE {
                            return Err("it takes nothing".to_owned());
                        }
                    }
                    _ => return Err(error.to_string()),
                },
            }
        }
    }
}

/// Sends a snapshot. Returns the stream's name, and where in it the snapshot was taken.
fn send_all(
    server: &Arc<Server>,
    stream: &mut WireWriter,
    (replica, listing): (&Replica, &Listing),
    ask: &Ask,
) -> Result<(String, u64), String> {
    let told = |error: io::Error| format!("the snapshot for a replica: {error}");
    let make = server.replication.make.as_ref().ok_or("there is no pool")?;
    let mut beat = Instant::now();
    let made = make(server, ask.contents, &mut || {
        if beat.elapsed() >= BEAT {
            beat = Instant::now();
            if replica.write(stream, b"\n").is_err() {
                replica.close();
            }
        }
        !replica.is_closed() && !replica.is_ending() && !listing.is_killed() && !server.stopping()
    });
    let Snapshot { mut file, id, place } = made.map_err(|error| {
        let text = format!("no snapshot for a replica: {error}");
        warn!("{text}");
        text
    })?;
    let len = file.stream_position().map_err(told)?;
    file.rewind().map_err(told)?;
    replica.set_state(State::Receives);
    let _ = replica.id.set(id.clone());
    if ask.known.is_some() {
        replica.write(stream, format!("+FULLRESYNC {id} {place}\r\n").as_bytes())?;
    }
    replica.write(stream, format!("${len}\r\n").as_bytes())?;
    let mut bytes = vec![0; CHUNK];
    let mut left = len;
    while left > 0 {
        let most = (CHUNK as u64).min(left) as usize;
        let read = file.read(&mut bytes[..most]).map_err(told)?;
        if read == 0 {
            return Err("the snapshot for a replica was cut short".to_owned());
        }
        replica.write(stream, &bytes[..read])?;
        left -= read as u64;
    }
    Ok((id, place))
}
