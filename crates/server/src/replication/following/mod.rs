//! Following a master: a Redis, a Valkey, or another server of this kind.
//!
//! Reading order: `master` (the connection), `load` (the master's snapshot into the keyspace), `stream` (the commands that
//! follow it), `perform` (commands in transactions of the pool), `control` (who is followed, and the thread that does),
//! `failover` (a replica of this server takes its place).
//!
//! Invariants:
//! - The place in the master's stream is in the pool (`keyspace/followed.rs`), and is changed by the transaction that
//!   performs what comes before it. A transaction of the master is performed whole. So a server that was killed goes on
//!   exactly where it was.
//! - Before the first key of a snapshot is there, the pool says that its data is a part of something. That data is shown to
//!   nobody: clients are told LOADING until it is whole.
//! - While a master is followed, clients write nothing: whoever begins a transaction after the pool has the master's name
//!   sees the closed [`Gate`].

mod control;
mod failover;
mod load;
mod master;
mod perform;
mod reach;
mod stream;

pub(crate) use control::{Hands, Own};
pub(crate) use failover::{Failover, Phase, Plan};

use crate::command::Command;
use crate::keyspace::followed::{Data, Followed, Place};
use crate::options::Options;
use crate::server::Server;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

/// What clients may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Gate {
    /// All.
    Open,
    /// Read.
    ReadOnly,
    /// Hear that the data is not whole.
    Loading,
}

impl Gate {
    /// Redis's error for a command that is kept out, if it is.
    pub(crate) fn refusal(self, command: &Command) -> Option<&'static str> {
        match self {
            Gate::Open => None,
            // A script may do without writing.
            // PFCOUNT writes nothing then.
            Gate::ReadOnly if command.name == "pfcount" => None,
            Gate::ReadOnly if command.writes() && !command.nests => Some(READONLY),
            Gate::ReadOnly => None,
            Gate::Loading if goes_while_loading(command.name) => None,
            Gate::Loading => Some(LOADING),
        }
    }
}

pub(crate) const LOADING: &str = "LOADING Redis is loading the dataset in memory";
pub(crate) const READONLY: &str = "READONLY You can't write against a read only replica.";

/// As Redis's flag has it: commands that go while data is loaded.
fn goes_while_loading(name: &str) -> bool {
    matches!(
        name.split('|').next(),
        Some(
            "info"
                | "config"
                | "auth"
                | "hello"
                | "client"
                | "command"
                | "role"
                | "replicaof"
                | "slaveof"
                | "failover"
                | "replconf"
                | "psync"
                | "sync"
                | "publish"
                | "spublish"
                | "subscribe"
                | "psubscribe"
                | "ssubscribe"
                | "unsubscribe"
                | "punsubscribe"
                | "sunsubscribe"
                | "pubsub"
                | "multi"
                | "exec"
                | "discard"
                | "watch"
                | "unwatch"
                | "select"
                | "reset"
                | "quit"
                | "echo"
                | "time"
                | "shutdown"
                | "slowlog"
                | "lastsave"
                | "acl"
                | "debug"
                | "post"
                | "host:"
        )
    )
}

/// How far following is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Link {
    /// Between two attempts.
    #[default]
    Pause,
    Connecting,
    /// The snapshot is read.
    Loads,
    Follows,
}

/// The facts about the master and its data.
#[derive(Clone, Debug, Default)]
pub(crate) struct FollowFacts {
    /// What the pool says, but for the place.
    pub(crate) followed: Option<Followed>,
    pub(crate) link: Link,
    /// When the link broke, or was first tried.
    pub(crate) down_since: Option<Instant>,
    /// When the master was last heard of.
    pub(crate) heard: Option<Instant>,
    /// Of the snapshot that is read: its bytes, if they are known, and those that were read.
    pub(crate) sync: (Option<u64>, u64),
    /// Why the link is broken; whether it is for good.
    pub(crate) failure: Option<(String, bool)>,
    /// Bytes of the stream that were read and performed, and are durable, and the database that is chosen there.
    pub(crate) place: u64,
    pub(crate) db: u8,
}

impl FollowFacts {
    /// The master, if there is one.
    pub(crate) fn master(&self) -> Option<&(String, u16)> {
        self.followed.as_ref().and_then(|followed| followed.master.as_ref())
    }

    /// The name of the stream that the data comes from.
    pub(crate) fn id(&self) -> Option<String> {
        match &self.followed.as_ref()?.data {
            Data::Copy(place) => Some(String::from_utf8_lossy(&place.id).into_owned()),
            Data::Own | Data::Incomplete => None,
        }
    }

    /// A copy's place, which the pool has, or a later one, up to where the stream has changed nothing: the pool is told of that
    /// now and then only. Replicas have it already.
    fn latest(&self, place: Place) -> Place {
        let is_same = self.id().is_some_and(|id| id.as_bytes() == place.id);
        match is_same && self.place > place.at {
            true => Place { at: self.place, db: self.db, ..place },
            false => place,
        }
    }

    pub(crate) fn is_incomplete(&self) -> bool {
        self.followed.as_ref().is_some_and(|followed| followed.data == Data::Incomplete)
    }
}

/// What a master asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// How far the wish is that the new master becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum TakeOver {
    /// There is none.
    No,
    /// It is to be asked.
    Wanted,
    /// It was asked, and may have become the master.
    Asked,
    /// It has refused.
    Refused,
}

/// Where this server can be reached, as it tells a master; what is not said is what the server knows itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announced {
    pub(crate) address: String,
    pub(crate) port: u16,
}

/// All about following.
pub(crate) struct Following {
    gate: AtomicU8,
    /// Whether clients may not write meanwhile.
    read_only: AtomicBool,
    /// The number of the present master among all that were followed; a thread whose number has passed does nothing more.
    life: AtomicU64,
    /// Held while something of a master's is performed.
    turn: Mutex<()>,
    /// Held while the master is changed.
    changing: Mutex<()>,
    facts: Mutex<FollowFacts>,
    credentials: Mutex<Credentials>,
    announcement: Mutex<Announced>,
    /// Whether masters are spoken to by TLS.
    by_tls: AtomicBool,
    /// A [`TakeOver`].
    take_over: AtomicU8,
    pub(crate) failover: Failover,
    /// The connection.
    link: Mutex<Option<(u64, TcpStream)>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    hands: OnceLock<Box<dyn Hands>>,
    server: OnceLock<Weak<Server>>,
    /// Of INFO, for Sentinel.
    priority: AtomicU64,
    announced: AtomicBool,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Following {
    /// Nobody is followed.
    pub(crate) fn none(options: &Options) -> Self {
        let credentials = Credentials {
            user: options.master_user.clone().unwrap_or_default(),
            password: options.master_password.clone().unwrap_or_default(),
        };
        let announcement = Announced {
            address: options.announced_ip.clone().unwrap_or_default(),
            port: options.announced_port.unwrap_or_default(),
        };
        Following {
            gate: AtomicU8::new(Gate::Open as u8),
            read_only: AtomicBool::new(options.replica_read_only),
            life: AtomicU64::new(0),
            turn: Mutex::default(),
            changing: Mutex::default(),
            facts: Mutex::default(),
            credentials: Mutex::new(credentials),
            announcement: Mutex::new(announcement),
            by_tls: AtomicBool::new(options.tls_replication),
            take_over: AtomicU8::new(TakeOver::No as u8),
            failover: Failover::default(),
            link: Mutex::default(),
            threads: Mutex::default(),
            hands: OnceLock::new(),
            server: OnceLock::new(),
            priority: AtomicU64::new(100),
            announced: AtomicBool::new(true),
        }
    }

    /// What clients may do.
    #[inline]
    pub(crate) fn gate(&self) -> Gate {
        match self.gate.load(Ordering::SeqCst) {
            0 => Gate::Open,
            1 => Gate::ReadOnly,
            _ => Gate::Loading,
        }
    }

    /// Whether another server's data is followed: then its keys expire, and go, when that one says so.
    #[inline]
    pub(crate) fn is_replica(&self) -> bool {
        self.life.load(Ordering::SeqCst) % 2 == 1
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::SeqCst)
    }

    /// Lets clients write though a master is followed, or not.
    pub(crate) fn set_read_only(&self, on: bool) {
        self.read_only.store(on, Ordering::SeqCst);
        self.set_gate(&lock(&self.facts));
    }

    /// Sets the gate by the facts. While a replica takes over, clients may not write whatever the option says: no replica
    /// would be told of it.
    fn set_gate(&self, facts: &FollowFacts) {
        let is_closed = self.is_read_only() || self.failover.phase() == Phase::Asks;
        let gate = match () {
            () if facts.is_incomplete() => Gate::Loading,
            () if facts.master().is_some() && is_closed => Gate::ReadOnly,
            () => Gate::Open,
        };
        self.gate.store(gate as u8, Ordering::SeqCst);
    }

    /// Lets clients read only, or do all.
    #[cfg(test)]
    pub(crate) fn set_gate_of(&self, follows: bool) {
        let gate = if follows { Gate::ReadOnly } else { Gate::Open };
        self.gate.store(gate as u8, Ordering::SeqCst);
    }

    pub(crate) fn facts(&self) -> FollowFacts {
        lock(&self.facts).clone()
    }

    pub(crate) fn credentials(&self) -> Credentials {
        lock(&self.credentials).clone()
    }

    pub(crate) fn set_credentials(&self, change: impl FnOnce(&mut Credentials)) {
        change(&mut lock(&self.credentials));
    }

    pub(crate) fn announcement(&self) -> Announced {
        lock(&self.announcement).clone()
    }

    /// Where this server can be reached from the next connection to a master on.
    pub(crate) fn set_announcement(&self, change: impl FnOnce(&mut Announced)) {
        change(&mut lock(&self.announcement));
    }

    /// Whether masters are spoken to by TLS.
    pub(crate) fn speaks_tls(&self) -> bool {
        self.by_tls.load(Ordering::Relaxed)
    }

    pub(crate) fn set_speaks_tls(&self, on: bool) {
        self.by_tls.store(on, Ordering::Relaxed);
    }

    pub(crate) fn take_over(&self) -> TakeOver {
        let all = [TakeOver::No, TakeOver::Wanted, TakeOver::Asked, TakeOver::Refused];
        all[usize::from(self.take_over.load(Ordering::SeqCst)) % all.len()]
    }

    pub(crate) fn set_take_over(&self, take_over: TakeOver) {
        self.take_over.store(take_over as u8, Ordering::SeqCst);
    }

    /// Goes from one state to the next; false if it is another one by now.
    pub(crate) fn move_take_over(&self, from: TakeOver, to: TakeOver) -> bool {
        let (from, to) = (from as u8, to as u8);
        self.take_over.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Sentinel's preference for this replica: 0 for never, as for one whose data is not whole.
    pub(crate) fn priority(&self) -> u64 {
        self.priority.load(Ordering::Relaxed)
    }

    pub(crate) fn set_priority(&self, priority: u64) {
        self.priority.store(priority, Ordering::Relaxed);
    }

    pub(crate) fn is_announced(&self) -> bool {
        self.announced.load(Ordering::Relaxed)
    }

    pub(crate) fn set_announced(&self, on: bool) {
        self.announced.store(on, Ordering::Relaxed);
    }

    /// Breaks the connection to the master, which is made again. Whether there was one.
    pub(crate) fn break_link(&self) -> bool {
        let link = lock(&self.link).take();
        // One that is closed already is as good.
        link.is_some_and(|(_, link)| link.shutdown(Shutdown::Both).is_ok())
    }

    /// The same, unless it is the connection of another life.
    fn break_link_of(&self, life: u64) {
        let link = lock(&self.link).take_if(|(of, _)| *of == life);
        // As above.
        link.map(|(_, link)| link.shutdown(Shutdown::Both));
    }

    /// Keeps the connection, so that it can be broken. Whether it is that of the present life.
    fn keep_link(&self, life: u64, stream: TcpStream) -> bool {
        let mut link = lock(&self.link);
        let is_current = self.is_current(life);
        if is_current {
            *link = Some((life, stream));
        }
        is_current
    }

    fn is_current(&self, life: u64) -> bool {
        self.life.load(Ordering::SeqCst) == life
    }

    /// Changes the facts, unless another master is followed by now.
    fn note(&self, life: u64, change: impl FnOnce(&mut FollowFacts)) {
        let mut facts = lock(&self.facts);
        if self.is_current(life) {
            change(&mut facts);
        }
    }
}
