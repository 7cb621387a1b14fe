//! A thread's notes of what its transaction under way reads and writes, for clients that track.

use super::{Limits, Message, Name};
use crate::command::{Call, Command, Run, key_positions};
use crate::protocol::Args;
use crate::server::Server;
use crate::watch::{Touched, Watch};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Bytes of memory that the notes of one transaction take at most: with more, all keys are invalid.
const BYTES_MAX: usize = 64 << 20;
/// Bytes of a note besides its key.
const PER_EVENT: usize = 80;

/// What a transaction has done.
pub(super) enum Event {
    /// A key was written, by the client with this number, or by none.
    Written { key: Name, by: u64 },
    /// All keys of a database were.
    AllWritten,
    /// A client has read a key, which has this place in [`Watch`].
    Read { client: u64, place: usize, key: Name },
}

/// The notes.
#[derive(Default)]
pub(crate) struct Tracked {
    /// Whose command is under way.
    acting: Cell<u64>,
    /// Whether what it reads is remembered.
    remembers: Cell<bool>,
    events: RefCell<Vec<Event>>,
    bytes: Cell<usize>,
    /// Whether something was written while nobody tracked.
    is_unheard: Cell<bool>,
    /// The versions of places in [`Watch`] before the transactions of this round; none of those that were being written.
    versions: RefCell<HashMap<usize, Option<u64>>>,
    /// Messages that go on their way when all that was committed is durable.
    ready: RefCell<Vec<Message>>,
}

/// Whether clients may keep what a command answers.
fn reads(command: &Command) -> bool {
    // PFCOUNT writes down what it has counted.
    matches!(command.run, Run::Read(_)) && command.name != "spublish" || command.name == "pfcount"
}

impl Tracked {
    /// A client is about to read the keys of a request, in a transaction that has not begun.
    #[cold]
    pub(crate) fn plan(&self, watch: &Watch, command: &Command, args: Args<'_>, db: u8) {
        if !reads(command) && !command.nests {
            return;
        }
        let mut versions = self.versions.borrow_mut();
        for at in key_positions(command, args).unwrap_or_default() {
            let place = watch.place(db, args.at(at));
            versions.entry(place).or_insert_with(|| watch.version_at(place));
        }
    }

    /// All that was planned is done.
    pub(crate) fn end_round(&self) {
        let mut versions = self.versions.borrow_mut();
        if !versions.is_empty() {
            *versions = HashMap::new();
        }
    }

    /// The next commands are a client's, and what they read is remembered or not. Returns whose they were before.
    pub(crate) fn act_as(&self, client: u64, remembers: bool) -> (u64, bool) {
        (self.acting.replace(client), self.remembers.replace(remembers))
    }

    fn note(&self, event: Event, bytes: usize) {
        let so_far = self.bytes.get();
        if so_far > BYTES_MAX {
            return;
        }
        let mut events = self.events.borrow_mut();
        if so_far + bytes + PER_EVENT > BYTES_MAX {
            // After all that was read.
            *events = vec![Event::AllWritten];
        } else {
            events.push(event);
        }
        self.bytes.set(so_far + bytes + PER_EVENT);
    }

    /// A key is written by the client whose command is under way.
    #[cold]
    pub(crate) fn note_written(&self, key: &[u8]) {
        self.note(Event::Written { key: key.into(), by: self.acting.get() }, key.len());
    }

    /// A key is removed, since it has expired or to make room: by nobody.
    #[cold]
    pub(crate) fn note_removed(&self, key: &[u8]) {
        self.note(Event::Written { key: key.into(), by: 0 }, key.len());
    }

    /// A database is cleared, or changes its place.
    #[cold]
    pub(crate) fn note_all(&self) {
        if !matches!(self.events.borrow().last(), Some(Event::AllWritten)) {
            self.note(Event::AllWritten, 0);
        }
    }

    /// Something is written, and nobody tracks.
    #[inline]
    pub(crate) fn note_unheard(&self) {
        self.is_unheard.set(true);
    }

    /// A command is done, perhaps in a script. Its keys may be kept by the client.
    #[cold]
    pub(crate) fn note_read(&self, call: &Call<'_>, command: &Command) {
        let client = self.acting.get();
        if !self.remembers.get() || command.nests || !reads(command) || call.client.id != client {
            return;
        }
        for at in key_positions(command, call.args).unwrap_or_default() {
            let key = call.args.at(at);
            let place = call.env.server.watch.place(call.db.index(), key);
            self.note(Event::Read { client, place, key: key.into() }, key.len());
        }
    }

    /// A transaction's body begins, perhaps once more, or the transaction was not committed.
    pub(crate) fn retract(&self) {
        self.act_as(0, false);
        self.is_unheard.set(false);
        if self.bytes.take() > 0 {
            self.events.take();
        }
    }

    /// The transaction was committed, and its keys are not settled yet.
    pub(crate) fn settle(&self, server: &Server, touched: &Touched) {
        let mut versions = self.versions.borrow_mut();
        if !versions.is_empty() {
            // What it has written itself is not in the way of what it has read.
            touched.each(|slot| Watch::add_to_versions(&mut versions, slot));
        }
        if self.is_unheard.take() && server.tracking.is_used() {
            // A client that has begun to track since may have read an old value. After all that was read.
            self.note(Event::AllWritten, 0);
        }
        if self.bytes.take() == 0 {
            return;
        }
        let (events, limits) = (self.events.take(), limits(server));
        let expected = |place: usize| versions.get(&place).copied().flatten();
        let mut messages = server.tracking.apply(events, &server.watch, expected, limits);
        self.ready.borrow_mut().append(&mut messages);
    }

    /// Whether messages wait for durability.
    pub(crate) fn are_ready(&self) -> bool {
        !self.ready.borrow().is_empty()
    }

    /// Takes the messages that can go when all that was committed is durable.
    pub(crate) fn take_ready(&self) -> Vec<Message> {
        self.ready.take()
    }
}

/// How much the table of a server may hold.
pub(crate) fn limits(server: &Server) -> Limits {
    Limits { keys: server.tuning.tracked_keys_max(), bytes: server.options.max_request }
}
