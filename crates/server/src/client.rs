//! One client's state: commands on the client change it.

use crate::acl::{self, Context, DEFAULT, Denied, User};
use crate::command::{Command, Failure, Queue};
use crate::listing::{Label, Listing};
use crate::pause::OwnPause;
use crate::protocol::{Args, Limits, Protocol};
use crate::pubsub::{Listener, Subscriptions};
use crate::replication::Ask;
use crate::server::Server;
use crate::tracking::{Modes, OwnPrefixes};
use crate::watch::WatchList;
use std::sync::Arc;

/// One client's state.
pub(crate) struct Client {
    pub(crate) listing: Arc<Listing>,
    pub(crate) protocol: Protocol,
    pub(crate) db: u8,
    pub(crate) authenticated: bool,
    /// Whether it may send every request, without a look at its user.
    pub(crate) trusted: bool,
    /// Its user, as its thread knows it.
    pub(crate) user: Arc<User>,
    /// Since MULTI, until EXEC or DISCARD.
    pub(crate) queue: Option<Queue>,
    pub(crate) watched: WatchList,
    pub(crate) replies: Replies,
    /// The channels that it listens to.
    pub(crate) subscriptions: Option<Box<Subscriptions>>,
    /// Whether it tracks the keys that it reads, unless it says otherwise.
    pub(crate) tracks_keys: bool,
    /// It has said so, by CLIENT CACHING, for its next command.
    pub(crate) caching: bool,
    /// The pause that its EXEC is let through.
    pub(crate) own_pause: Option<OwnPause>,
    /// The prefixes that it tracks.
    pub(crate) prefixes: Option<Box<OwnPrefixes>>,
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
    /// Whether it is connected by TCP, with TLS or without.
    pub(crate) is_remote: bool,
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
        let user = listing.user();
        Client {
            listing,
            protocol: Protocol::default(),
            db: 0,
            authenticated: user.is_free(),
            trusted: user.is_free() && user.is_unlimited(),
            user,
            queue: None,
            watched: WatchList::default(),
            replies: Replies::default(),
            subscriptions: None,
            tracks_keys: false,
            caching: false,
            own_pause: None,
            prefixes: None,
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
        let Listing { id, address, local, .. } = listing;
        let own = Listing::new(*id, address.clone(), local.clone());
        let client = Client::new(server, Arc::new(own));
        Client { db, protocol, ..client }
    }

    /// The limits of its requests.
    pub(crate) fn limits(&self) -> Limits {
        let limits = if self.authenticated { Limits::USUAL } else { Limits::UNAUTHENTICATED };
        Limits { request: limits.request.min(self.most_request), ..limits }
    }

    /// Its user may be another one, or may have been changed.
    pub(crate) fn renew(&mut self) {
        self.user = self.listing.user();
        // It needs no password any more.
        self.authenticated |= self.user.name == DEFAULT && self.user.is_free();
        self.trusted = self.authenticated && self.user.is_unlimited();
    }

    /// Whether it may send a request, unless it is [trusted](Self::trusted).
    #[cold]
    pub(crate) fn may(&self, command: &Command, args: Args<'_>) -> bool {
        self.authenticated && acl::check(&self.user, command, args).is_ok()
    }

    /// Notes that its request is denied. Returns the error.
    pub(crate) fn denied(&self, server: &Server, denied: &Denied, context: Context) -> Failure {
        server.acl.note(&self.listing, denied, context, None, server.tuning.acl_log_len());
        Failure::say(format!("NOPERM {}", denied.text(&self.user, false)))
    }

    /// Chooses a database.
    pub(crate) fn select(&mut self, db: u8) {
        self.db = db;
        self.listing.set_db(db);
    }

    /// Whether it tracks what its next command reads.
    #[inline]
    pub(crate) fn remembers(&self) -> bool {
        self.tracks_keys && self.chooses_to_remember()
    }

    #[cold]
    fn chooses_to_remember(&self) -> bool {
        let modes = self.listing.tracking();
        !(modes.has(Modes::OPT_IN) && !self.caching || modes.has(Modes::OPT_OUT) && self.caching)
    }

    /// It tracks nothing any longer.
    pub(crate) fn stop_tracking(&mut self, server: &Server) {
        if self.listing.tracking().has(Modes::ON) {
            server.tracking.end(&self.listing, self.prefixes.take().as_deref());
        }
        (self.tracks_keys, self.caching) = (false, false);
    }

    /// It listens to nothing any longer, and tracks nothing.
    pub(crate) fn leave(&mut self, server: &Server) {
        self.stop_tracking(server);
        if let Some(mut own) = self.subscriptions.take() {
            server.pubsub.leave(&mut own, &self.listing);
        }
    }

    /// As it was when it connected.
    pub(crate) fn reset(&mut self, server: &Server) {
        self.leave(server);
        server.make_default(&self.listing);
        *self = Client { home: self.home, ..Client::new(server, Arc::clone(&self.listing)) };
        self.listing.set_db(0);
        self.listing.set_no_touch(false);
        self.listing.set_protocol(Protocol::Resp2);
        self.listing.set_label(Label::Name, "");
    }
}
