//! One client's state: commands on the client change it.

use crate::command::Queue;
use crate::listing::{Label, Listing};
use crate::protocol::{Limits, Protocol};
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

    /// As it was when it connected.
    pub(crate) fn reset(&mut self, server: &Server) {
        *self = Client::new(server, Arc::clone(&self.listing));
        self.listing.set_db(0);
        self.listing.set_protocol(Protocol::Resp2);
        self.listing.set_label(Label::Name, "");
    }
}
