//! The list of clients: each thread shows facts about its clients to all others.

use crate::acl::User;
use crate::protocol::Protocol;
use crate::pubsub::{Kind, Subscriptions};
use crate::tracking::Modes;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// The address of an end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Inet(SocketAddr),
    /// A socket of the Unix domain, at this path.
    Unix(Arc<str>),
}

impl Peer {
    /// Its address in the network; that of this machine for a socket of the Unix domain.
    pub(crate) fn ip(&self) -> IpAddr {
        match self {
            Peer::Inet(address) => address.ip(),
            Peer::Unix(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }

    /// Whether it is on this machine, as its address says.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Peer::Inet(address) => address.ip().to_canonical().is_loopback(),
            Peer::Unix(_) => true,
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Peer::Inet(address)
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Peer::Inet(address) => address.fmt(f),
            Peer::Unix(path) => write!(f, "{path}:0"),
        }
    }
}

/// The facts about a client that CLIENT LIST shows, to any thread.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) id: u64,
    pub(crate) address: Peer,
    /// The server's end of the connection.
    pub(crate) local: Peer,
    /// CLIENT KILL has ended it: nothing more is done for it.
    killed: AtomicBool,
    /// It waits for a key to be filled.
    blocked: AtomicBool,
    /// CLIENT NO-TOUCH: what it does is no use of keys.
    no_touch: AtomicBool,
    /// How many channels, patterns and shards' channels it listens to, and whether to everything.
    subscriptions: [AtomicU32; 4],
    since: Instant,
    db: AtomicU8,
    protocol: AtomicU8,
    /// Seconds after `since` at which the last command came.
    active: AtomicU64,
    labels: Mutex<[String; 3]>,
    user: Mutex<Arc<User>>,
    /// Whether there are requests that its user may not send.
    limited: AtomicBool,
    /// How it tracks keys, and the number of the client that gets its messages, if that is another one.
    tracking: AtomicU8,
    redirect: AtomicU64,
    /// Its thread, and its place there.
    home: OnceLock<(usize, usize)>,
}

/// A user that may do everything.
static ANYBODY: LazyLock<Arc<User>> = LazyLock::new(|| Arc::new(User::anybody()));

/// Facts that clients state about themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Label {
    Name,
    Library,
    Version,
}

impl Listing {
    pub(crate) fn new(id: u64, address: impl Into<Peer>, local: impl Into<Peer>) -> Self {
        Listing {
            id,
            address: address.into(),
            local: local.into(),
            killed: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            subscriptions: Default::default(),
            since: Instant::now(),
            db: AtomicU8::new(0),
            protocol: AtomicU8::new(2),
            active: AtomicU64::new(0),
            labels: Mutex::default(),
            user: Mutex::new(Arc::clone(&ANYBODY)),
            limited: AtomicBool::new(false),
            tracking: AtomicU8::new(0),
            redirect: AtomicU64::new(0),
            home: OnceLock::new(),
        }
    }

    /// Ends the client. Whether it was not ended before.
    pub(crate) fn kill(&self) -> bool {
        !self.killed.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    pub(crate) fn set_blocked(&self, blocked: bool) {
        self.blocked.store(blocked, Ordering::Relaxed);
    }

    pub(crate) fn set_no_touch(&self, on: bool) {
        self.no_touch.store(on, Ordering::Relaxed);
    }

    pub(crate) fn is_no_touch(&self) -> bool {
        self.no_touch.load(Ordering::Relaxed)
    }

    pub(crate) fn set_subscriptions(&self, own: &Subscriptions) {
        for (count, kind) in self.subscriptions.iter().zip(Kind::ALL) {
            count.store(own.of(kind).len() as u32, Ordering::Relaxed);
        }
    }

    /// Whether it listens to channels.
    pub(crate) fn listens(&self) -> bool {
        let monitor = Kind::Monitor as usize;
        self.subscriptions[..monitor].iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    pub(crate) fn set_db(&self, db: u8) {
        self.db.store(db, Ordering::Relaxed);
    }

    pub(crate) fn set_protocol(&self, protocol: Protocol) {
        let number = if protocol == Protocol::Resp3 { 3 } else { 2 };
        self.protocol.store(number, Ordering::Relaxed);
    }

    /// Notes that a command came.
    pub(crate) fn set_active(&self, now: Instant) {
        let seconds = now.saturating_duration_since(self.since).as_secs();
        self.active.store(seconds, Ordering::Relaxed);
    }

    pub(crate) fn set_label(&self, label: Label, text: &str) {
        let mut labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        labels[label as usize] = text.to_owned();
    }

    pub(crate) fn name(&self) -> String {
        self.labels.lock().unwrap_or_else(PoisonError::into_inner)[0].clone()
    }

    /// The user whose password it has given, or the default user.
    pub(crate) fn user(&self) -> Arc<User> {
        Arc::clone(&self.user.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Only under the lock of the list of users: see `acl/mod.rs`.
    pub(crate) fn set_user(&self, user: Arc<User>) {
        self.limited.store(!user.is_unlimited(), Ordering::Relaxed);
        *self.user.lock().unwrap_or_else(PoisonError::into_inner) = user;
    }

    /// Its user, if there are requests that it may not send.
    pub(crate) fn limited_user(&self) -> Option<Arc<User>> {
        self.limited.load(Ordering::Relaxed).then(|| self.user())
    }

    /// Only by the list of those that track.
    pub(crate) fn set_tracking(&self, modes: Modes, redirect: u64) {
        self.redirect.store(redirect, Ordering::Relaxed);
        self.tracking.store(modes.0, Ordering::Release);
    }

    /// How it tracks keys.
    pub(crate) fn tracking(&self) -> Modes {
        Modes(self.tracking.load(Ordering::Acquire))
    }

    /// The number of the client that gets its messages, or 0 for itself; none if it does not track.
    pub(crate) fn tracking_redirect(&self) -> Option<u64> {
        self.tracking().has(Modes::ON).then(|| self.redirect.load(Ordering::Relaxed))
    }

    /// Whether it tracks what it reads without saying so for each command.
    pub(crate) fn remembers(&self) -> bool {
        let modes = self.tracking();
        modes.has(Modes::ON) && !modes.has(Modes::BROADCAST) && !modes.has(Modes::OPT_IN)
    }

    /// The client that is to get its messages is gone.
    pub(crate) fn break_tracking(&self) {
        let broken = |modes: u8| Modes(modes).has(Modes::ON).then_some(modes | Modes::BROKEN.0);
        let _ = self.tracking.fetch_update(Ordering::AcqRel, Ordering::Acquire, broken);
    }

    /// Its thread, and its place there, for as long as it is connected.
    pub(crate) fn set_home(&self, worker: usize, slot: usize) {
        // It has one home in all its life.
        let _ = self.home.set((worker, slot));
    }

    pub(crate) fn home(&self) -> Option<(usize, usize)> {
        self.home.get().copied()
    }

    /// Its line in CLIENT LIST; `command` is the running one, or NULL.
    pub(crate) fn line(&self, command: &str) -> String {
        let labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let [name, library, version] = labels;
        let [sub, psub, ssub] =
            [0, 1, 2].map(|kind: usize| self.subscriptions[kind].load(Ordering::Relaxed));
        let (tracking, redirect) = (self.tracking(), self.tracking_redirect());
        let monitors = self.subscriptions[Kind::Monitor as usize].load(Ordering::Relaxed) > 0;
        let flags = [
            ('O', monitors),
            ('P', self.listens()),
            ('b', self.blocked.load(Ordering::Relaxed)),
            ('t', tracking.has(Modes::ON)),
            ('R', tracking.has(Modes::BROKEN)),
            ('B', tracking.has(Modes::BROADCAST)),
        ];
        let flags: String = flags.into_iter().filter(|(_, on)| *on).map(|(flag, _)| flag).collect();
        let flags = if flags.is_empty() { "N" } else { &flags };
        let age = self.since.elapsed().as_secs();
        let user = self.user();
        let user = String::from_utf8_lossy(&user.name);
        format!(
            "id={} addr={} laddr={} fd=0 name={name} age={age} idle={} flags={flags} db={} sub={sub} \
             psub={psub} ssub={ssub} multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 obl=0 oll=0 \
             omem=0 tot-mem=0 events=r cmd={command} user={user} redir={} resp={} \
             lib-name={library} lib-ver={version}\n",
            self.id,
            self.address,
            self.local,
            age.saturating_sub(self.active.load(Ordering::Relaxed)),
            self.db.load(Ordering::Relaxed),
            redirect.map_or(-1, |id| id as i64),
            self.protocol.load(Ordering::Relaxed),
        )
    }
}
