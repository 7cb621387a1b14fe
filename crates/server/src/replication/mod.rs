//! Replicas of Redis's kind follow the server: a snapshot, then the effects of every transaction since.
//!
//! Reading order: `effects` (what a transaction has done), `translate` (a command's effect as commands), `feed` (all
//! effects in the order of commits, or a master's stream that is passed on), `snapshot` (the keyspace of one moment), `wire`
//! (a connection), `replica` (one that follows). WAIT's clients are here. `following`: the server follows another one.
//!
//! As long as nobody follows, a transaction that writes reads a word more, and that is all.

mod effects;
mod feed;
pub(crate) mod following;
mod replica;
mod snapshot;
mod translate;
mod value;
mod wire;

pub(crate) use effects::Effects;
pub(crate) use feed::{FeedFacts, fresh_id};
pub(crate) use replica::{Ask, ReplicaFacts};
pub(crate) use translate::tell;
pub(crate) use wire::Wire;

use crate::listing::Listing;
use crate::protocol::{Protocol, Reply};
use crate::server::Server;
use crate::store::Store;
use crate::waiting::{Address, Delivery, ReplicaWish};
use crate::walk::{Contents, Walking};
use feed::{Feed, Sealed};
use replica::Replica;
use snapshot::{Snapshot, SnapshotError};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// How often replicas are told that the server is there.
const PING: Duration = Duration::from_secs(10);
/// The feed ends when nobody has followed it for so long.
const TTL: Duration = Duration::from_secs(3600);

type Maker = dyn Fn(&Server, Contents, &mut dyn FnMut() -> bool) -> Result<Snapshot, SnapshotError>
    + Send
    + Sync;

/// All about replicas.
pub(crate) struct Replication {
    pub(crate) feed: Feed,
    /// The walk of the snapshot that is being made; one at a time.
    pub(crate) walking: Walking,
    making: Mutex<()>,
    make: Option<Box<Maker>>,
    replicas: Mutex<BTreeMap<u64, Arc<Replica>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    waits: Mutex<Vec<ReplicaWait>>,
    pub(crate) counts: ReplicaCounts,
    ticked: Mutex<Ticked>,
}

/// What replicas were given, for INFO.
#[derive(Default)]
pub(crate) struct ReplicaCounts {
    /// Snapshots, and those for replicas that wanted to go on.
    pub(crate) whole: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// How often one went on where it was.
    pub(crate) part: AtomicU64,
}

/// When replicas were last told that the server is there, and last were any.
struct Ticked {
    pinged: Instant,
    followed: Instant,
}

/// A client that waits for replicas.
struct ReplicaWait {
    to: Address,
    /// Its last transaction with effects, if it has any.
    number: Option<u64>,
    /// As many replicas are to have them.
    wanted: usize,
    /// As many have them.
    count: Arc<AtomicUsize>,
    /// Whether replicas were asked, since its effects are in the stream.
    asked: bool,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Replication {
    /// Without a pool: nobody can follow.
    pub(crate) fn none(backlog: usize) -> Self {
        let now = Instant::now();
        Replication {
            feed: Feed::new(backlog),
            walking: Walking::default(),
            making: Mutex::default(),
            make: None,
            replicas: Mutex::default(),
            threads: Mutex::default(),
            waits: Mutex::default(),
            counts: ReplicaCounts::default(),
            ticked: Mutex::new(Ticked { pinged: now, followed: now }),
        }
    }

    /// Of the keyspace at `header` in a pool.
    pub(crate) fn of<S: Store + Sync>(backlog: usize, store: S, header: u64) -> Self {
        let make = move |server: &Server, contents, going: &mut dyn FnMut() -> bool| {
            snapshot::make(server, &store, (header, contents), going)
        };
        Replication { make: Some(Box::new(make)), ..Replication::none(backlog) }
    }

    /// A client has become a replica: it is served by a thread of its own from here on.
    pub(crate) fn adopt(server: &Arc<Server>, stream: Wire, listing: Arc<Listing>, ask: Ask) {
        let own = Arc::clone(server);
        let id = listing.id;
        let thread = thread::Builder::new()
            .name(format!("replica-{id}"))
            .spawn(move || replica::follow(&own, stream, &listing, &ask));
        let mut threads = lock(&server.replication.threads);
        threads.retain(|thread| !thread.is_finished());
        match thread {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                warn!("no thread for a replica: {error}");
                server.dismiss(id, "no thread could take it");
            }
        }
    }

    /// The server has become the master: its stream is kept for as long as if a replica had been there.
    pub(crate) fn lead(&self) {
        let now = Instant::now();
        *lock(&self.ticked) = Ticked { pinged: now, followed: now };
    }

    /// Whether a client is a replica.
    pub(crate) fn has(&self, id: u64) -> bool {
        lock(&self.replicas).contains_key(&id)
    }

    /// Breaks the connection of a replica.
    pub(crate) fn break_off(&self, id: u64) {
        lock(&self.replicas).get(&id).into_iter().for_each(|replica| replica.close());
    }

    /// Ends all threads of replicas.
    pub(crate) fn stop(&self) {
        lock(&self.replicas).values().for_each(|replica| replica.end());
        self.feed.wake();
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // What it had to say is in the log.
            let _ = thread.join();
        }
    }

    /// Sends effects that are durable on their way.
    pub(crate) fn send(&self, server: &Server, effects: Vec<Sealed>) {
        if !effects.is_empty() {
            self.feed.add(effects);
            self.look_at_waits(server);
        }
    }

    /// How many replicas there are.
    pub(crate) fn count(&self) -> usize {
        lock(&self.replicas).len()
    }

    /// The facts about each, in the order of their numbers.
    pub(crate) fn facts(&self) -> Vec<ReplicaFacts> {
        lock(&self.replicas).values().map(|replica| replica.facts()).collect()
    }

    /// How many replicas have the effects of a transaction.
    pub(crate) fn count_with(&self, number: Option<u64>) -> usize {
        let Some((id, place)) = self.feed.named_place_of(number) else { return 0 };
        lock(&self.replicas).values().filter(|replica| replica.has(&id, place)).count()
    }

    /// A client waits until replicas have its writes, the last of which is the transaction with this number.
    pub(crate) fn wait(
        &self,
        server: &Server,
        to: Address,
        number: Option<u64>,
        ReplicaWish { wanted, count }: ReplicaWish,
    ) {
        lock(&self.waits).push(ReplicaWait { to, number, wanted, count, asked: false });
        self.look_at_waits(server);
    }

    /// Answers clients whose writes enough replicas have.
    fn look_at_waits(&self, server: &Server) {
        let mut done = Vec::new();
        {
            let mut waits = lock(&self.waits);
            if waits.is_empty() {
                return;
            }
            let mut asks = false;
            waits.retain_mut(|wait| {
                let count = self.count_with(wait.number);
                wait.count.store(count, Ordering::Relaxed);
                if count >= wait.wanted {
                    done.push((wait.to, Arc::clone(&wait.count)));
                    return false;
                }
                let is_there = |number| self.feed.place_of(number).is_some();
                if !wait.asked && wait.number.is_none_or(is_there) {
                    (wait.asked, asks) = (true, true);
                }
                server.waiting.has(wait.to.id, &wait.count)
            });
            if asks && self.feed.is_on() {
                self.feed.say(&[b"REPLCONF", b"GETACK", b"*"]);
            }
        }
        for (to, count) in done {
            // Not if its time is over meanwhile.
            if server.waiting.end_wish(to.id, &count)
                && let Some(deliver) = server.deliver.get()
            {
                let mut reply = Vec::new();
                Reply::new(&mut reply, Protocol::Resp2).size(count.load(Ordering::Relaxed) as u64);
                deliver(Delivery { to, reply });
            }
        }
    }

    /// To be called now and then.
    pub(crate) fn tick(&self, server: &Server, now: Instant) {
        self.look_at_waits(server);
        if !self.feed.is_on() {
            return;
        }
        let mut ticked = lock(&self.ticked);
        if self.count() > 0 {
            ticked.followed = now;
            if now.saturating_duration_since(ticked.pinged) >= PING {
                ticked.pinged = now;
                self.feed.say(&[b"PING"]);
            }
        } else if now.saturating_duration_since(ticked.followed) >= TTL {
            info!("no replica for an hour: the backlog is given up");
            self.feed.turn_off();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// Places in a stream of another name mean nothing, also of a replica that is about to be disconnected.
    #[test]
    fn replicas_of_another_stream_have_nothing_of_this_one() {
        let replication = Replication::none(100);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let id = replication.feed.turn_on().unwrap();
        replication.feed.begin(5);
        let replica = Arc::new(Replica::at(stream, &id, 1000));
        lock(&replication.replicas).insert(1, replica);
        assert_eq!(replication.count_with(Some(5)), 1);
        assert_eq!(replication.count_with(None), 1);
        assert_eq!(replication.count_with(Some(6)), 0);
        replication.feed.forget();
        replication.feed.prepare();
        replication.feed.promote(7);
        assert_eq!(replication.count_with(Some(7)), 0);
    }
}
