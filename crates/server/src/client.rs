//! What the server knows of one client: the state that commands on the client change.

use crate::command::Queue;
use crate::protocol::{Limits, Protocol};
use crate::server::Server;
use crate::watch::WatchList;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What the server knows of one client.
pub(crate) struct Client {
    pub(crate) listing: Arc<Listing>,
    pub(crate) protocol: Protocol,
    pub(crate) db: u8,
    pub(crate) authenticated: bool,
    /// Since MULTI, until EXEC or DISCARD.
    pub(crate) queue: Option<Queue>,
    pub(crate) watched: WatchList,
    pub(crate) replies: Replies,
    /// Bytes of a request.
    most_request: usize,
}

/// Whether a client wants to be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Replies {
    #[default]
    On,
    Off,
    /// The next reply is not sent.
    Skip,
}

impl Client {
    pub(crate) fn new(server: &Server, listing: Arc<Listing>) -> Self {
        Client {
            listing,
            protocol: Protocol::default(),
            db: 0,
            authenticated: server.options.password.is_none(),
            queue: None,
            watched: WatchList::default(),
            replies: Replies::default(),
            most_request: server.options.max_request,
        }
    }

    /// What its requests may be.
    pub(crate) fn limits(&self) -> Limits {
        let limits = if self.authenticated { Limits::USUAL } else { Limits::UNAUTHENTICATED };
        Limits { request: limits.request.min(self.most_request), ..limits }
    }

    /// Chooses a database.
    pub(crate) fn select(&mut self, db: u8) {
        self.db = db;
        self.listing.set_db(db);
    }

    /// As it was when it connected.
    pub(crate) fn reset(&mut self, server: &Server) {
        *self = Client::new(server, Arc::clone(&self.listing));
        self.listing.set_db(0);
        self.listing.set_protocol(Protocol::Resp2);
        self.listing.set_label(Label::Name, "");
    }
}

/// What CLIENT LIST shows of a client, to any thread.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) id: u64,
    pub(crate) address: SocketAddr,
    since: Instant,
    db: AtomicU8,
    protocol: AtomicU8,
    /// Seconds after `since` at which the last command came.
    active: AtomicU64,
    labels: Mutex<[String; 3]>,
}

/// What clients say of themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Label {
    Name,
    Library,
    Version,
}

impl Listing {
    pub(crate) fn new(id: u64, address: SocketAddr) -> Self {
        Listing {
            id,
            address,
            since: Instant::now(),
            db: AtomicU8::new(0),
            protocol: AtomicU8::new(2),
            active: AtomicU64::new(0),
            labels: Mutex::default(),
        }
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

    /// Its line in CLIENT LIST; `command` is what it does now, or NULL.
    pub(crate) fn line(&self, server: &Server, command: &str) -> String {
        let labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let [name, library, version] = labels;
        let age = self.since.elapsed().as_secs();
        format!(
            "id={} addr={} laddr={} fd=0 name={name} age={age} idle={} flags=N db={} sub=0 \
             psub=0 ssub=0 multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 obl=0 oll=0 \
             omem=0 tot-mem=0 events=r cmd={command} user=default redir=-1 resp={} \
             lib-name={library} lib-ver={version}\n",
            self.id,
            self.address,
            server.address,
            age.saturating_sub(self.active.load(Ordering::Relaxed)),
            self.db.load(Ordering::Relaxed),
            self.protocol.load(Ordering::Relaxed),
        )
    }
}
