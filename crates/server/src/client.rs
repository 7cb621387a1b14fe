//! One client's state: commands on the client change it.

use crate::command::Queue;
use crate::listing::{Label, Listing};
use crate::protocol::{Limits, Protocol};
use crate::pubsub::{Listener, Subscriptions};
use crate::replication::Ask;
use crate::server::Server;
use crate::watch::WatchList;
use std::sync::Arc;

/// One client's state.
pub(crate) struct Client {
    pub(crate) listing: Arc<Listing>,
    pub(crate) protocol: Protocol,
    pub(crate) db: u8,
    pub(crate) authenticated: bool,
    /// Since MULTI, until EXEC or DISCARD.
    pub(crate) queue: Option<Queue>,
    pub(crate) watched: WatchList,
    pub(crate) replies: Replies,
    /// The channels that it listens to.
    pub(crate) subscriptions: Option<Box<Subscriptions>>,
    /// Whether it may send few commands only, since its replies may be messages.
    pub(crate) restricted: bool,
    /// What it has said about itself, should it become a replica.
    pub(crate) announced: Option<Box<Ask>>,
    /// What it asks for, once it has become one.
    pub(crate) ask: Option<Box<Ask>>,
    pub(crate) home: Home,
    /// Bytes of a request.
    most_request: usize,
}

/// Where a client is: its thread, and its place there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Home {
    pub(crate) worker: usize,
    pub(crate) slot: usize,
}

impl Home {
    /// The client that is there, for messages.
    pub(crate) fn listener(self, client: &Arc<Listing>) -> Listener {
        Listener { worker: self.worker, slot: self.slot, client: Arc::clone(client) }
    }
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

impl Replies {
    /// A reply was sent, or left out.
    pub(crate) fn skip(&mut self) {
        if *self == Replies::Skip {
            *self = Replies::On;
        }
    }
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
            subscriptions: None,
            restricted: false,
            announced: None,
            ask: None,
            home: Home::default(),
            most_request: server.options.max_request,
        }
    }

    /// The client of a script that `listing`'s runs: it changes nothing of that one.
    pub(crate) fn of_script(
        server: &Server,
        listing: &Listing,
        db: u8,
        protocol: Protocol,
    ) -> Self {
        let Listing { id, address, local, .. } = *listing;
        let client = Client::new(server, Arc::new(Listing::new(id, address, local)));
        Client { db, protocol, authenticated: true, ..client }
    }

    /// The limits of its requests.
    pub(crate) fn limits(&self) -> Limits {
        let limits = if self.authenticated { Limits::USUAL } else { Limits::UNAUTHENTICATED };
        Limits { request: limits.request.min(self.most_request), ..limits }
    }

    /// Chooses a database.
    pub(crate) fn select(&mut self, db: u8) {
        self.db = db;
        self.listing.set_db(db);
    }

    /// It listens to nothing any longer.
    pub(crate) fn leave(&mut self, server: &Server) {
        if let Some(mut own) = self.subscriptions.take() {
            server.pubsub.leave(&mut own, &self.listing);
        }
    }

    /// As it was when it connected.
    pub(crate) fn reset(&mut self, server: &Server) {
        self.leave(server);
        *self = Client { home: self.home, ..Client::new(server, Arc::clone(&self.listing)) };
        self.listing.set_db(0);
        self.listing.set_no_touch(false);
        self.listing.set_protocol(Protocol::Resp2);
        self.listing.set_label(Label::Name, "");
    }
}
