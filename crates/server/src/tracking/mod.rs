//! CLIENT TRACKING: clients that keep what they have read are told when it changes.
//!
//! A client tracks the keys that it reads ([`Table`]), or all that begin with its prefixes ([`Prefixes`]). What a transaction
//! reads and writes is noted by its thread ([`Tracked`]), and comes into the table once the transaction is committed; the
//! messages that follow from it go on their way when it is durable.
//!
//! Invariant: a client whose reply may be older than a write gets the write's message after its reply.
//! - A write counts in its key's slot of [`Watch`] before it is done, and looks into the table after its commit.
//! - Before the transaction of a read begins, its thread notes the versions of the slots of its keys
//!   ([`Tracked::plan`]). After it, the keys come into the table, and then the versions are compared. So the writer finds the
//!   client in the table, or the reader finds another version: then the client is told at once that the key is invalid.
//!   (That may be in vain: keys share slots, and the read may have seen the write.)
//! - The thread of a client writes both its replies and its messages, those of a transaction after all its replies.

mod notes;
mod prefixes;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use notes::{Tracked, limits};
pub(crate) use prefixes::{Collision, OwnPrefixes};

use crate::command::Random;
use crate::listing::Listing;
use crate::pubsub::{Listener, Parcel};
use crate::server::Server;
use crate::watch::Watch;
use notes::Event;
use prefixes::Prefixes;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use table::Table;

type Name = Arc<[u8]>;

/// How a client tracks: a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modes(pub(crate) u8);

impl Modes {
    pub(crate) const ON: Modes = Modes(1);
    /// By prefixes, whatever it reads.
    pub(crate) const BROADCAST: Modes = Modes(2);
    /// Only what it reads after CLIENT CACHING YES.
    pub(crate) const OPT_IN: Modes = Modes(4);
    /// Not what it reads after CLIENT CACHING NO.
    pub(crate) const OPT_OUT: Modes = Modes(8);
    /// It is not told of what it writes itself.
    pub(crate) const NO_LOOP: Modes = Modes(16);
    /// The client that is to get its messages is gone.
    pub(crate) const BROKEN: Modes = Modes(32);

    pub(crate) fn has(self, mode: Modes) -> bool {
        self.0 & mode.0 != 0
    }

    pub(crate) fn and(self, mode: Modes) -> Modes {
        Modes(self.0 | mode.0)
    }
}

/// What is not valid any longer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// All keys.
    All,
    Keys(Vec<Name>),
}

/// A message to a client that tracks.
pub(crate) struct Message {
    to: Arc<Listing>,
    what: Arc<Invalid>,
}

/// Bytes of messages of one transaction to a client: with more, all keys are invalid for it.
const TOLD_MAX: usize = 4 << 20;
/// Bytes that a key takes in a message besides its name.
const PER_KEY: usize = 32;

impl Invalid {
    fn bytes(&self) -> usize {
        match self {
            Invalid::All => 0,
            Invalid::Keys(keys) => keys.iter().map(|key| key.len() + PER_KEY).sum(),
        }
    }
}

/// Tells those clients that all keys are invalid to which too much is to be told.
fn shorten(messages: &mut Vec<Message>) {
    let mut told: HashMap<u64, usize> = HashMap::new();
    for Message { to, what } in &*messages {
        *told.entry(to.id).or_default() += what.bytes();
    }
    told.retain(|_, bytes| *bytes > TOLD_MAX);
    if told.is_empty() {
        return;
    }
    let all = Arc::new(Invalid::All);
    messages.retain_mut(|Message { to, what }| match told.get_mut(&to.id) {
        None => true,
        // Its first message says it.
        Some(bytes) if *bytes > 0 => {
            (*bytes, *what) = (0, Arc::clone(&all));
            true
        }
        Some(_) => false,
    });
}

/// How much the table may hold.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Keys; 0 is any number.
    pub(crate) keys: usize,
    /// Bytes of memory.
    pub(crate) bytes: usize,
}

/// The figures of INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrackingFacts {
    pub(crate) clients: usize,
    pub(crate) keys: usize,
    /// Clients of all keys.
    pub(crate) items: usize,
    pub(crate) prefixes: usize,
}

/// The clients that track, and what.
#[derive(Default)]
pub(crate) struct Tracking {
    count: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    clients: HashMap<u64, Arc<Listing>>,
    table: Table,
    prefixes: Prefixes,
}

impl Tracking {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any client tracks.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn facts(&self) -> TrackingFacts {
        let State { clients, table, prefixes } = &*self.state();
        let (keys, items) = (table.len(), table.items());
        TrackingFacts { clients: clients.len(), keys, items, prefixes: prefixes.len() }
    }

    /// A client tracks from now on, or in another way. Its messages go to the client with the number `redirect`, if that is
    /// not 0.
    pub(crate) fn begin(
        &self,
        client: &Arc<Listing>,
        modes: Modes,
        redirect: u64,
        prefixes: &[Name],
    ) {
        let mut state = self.state();
        client.set_tracking(modes.and(Modes::ON), redirect);
        if state.clients.insert(client.id, Arc::clone(client)).is_none() {
            self.count.fetch_add(1, Ordering::SeqCst);
        }
        prefixes.iter().for_each(|prefix| state.prefixes.add(prefix, client.id));
    }

    /// A client does not track any longer. Its number stays in the table until its keys are written.
    pub(crate) fn end(&self, client: &Listing, prefixes: Option<&OwnPrefixes>) {
        let state = &mut *self.state();
        client.set_tracking(Modes::default(), 0);
        if state.clients.remove(&client.id).is_some() {
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
        for prefix in prefixes.into_iter().flat_map(|own| own.iter()) {
            state.prefixes.remove(prefix, client.id);
        }
        if state.clients.is_empty() {
            state.table = Table::default();
        }
    }

    /// A transaction is committed that has read and written these keys. `expected` says which version a slot has if nobody
    /// else has written its keys since the transaction was planned. Returns the messages that follow.
    fn apply(
        &self,
        events: Vec<Event>,
        watch: &Watch,
        expected: impl Fn(usize) -> Option<u64>,
        limits: Limits,
    ) -> Vec<Message> {
        let state = &mut *self.state();
        let mut messages = Vec::new();
        let mut reads = Vec::new();
        // The keys of each prefix, with the clients that have written them last.
        let mut broadcasts: BTreeMap<Name, BTreeMap<Name, u64>> = BTreeMap::new();
        for event in events {
            match event {
                Event::Written { key, by } => {
                    for prefix in state.prefixes.of(&key) {
                        broadcasts.entry(prefix).or_default().insert(Arc::clone(&key), by);
                    }
                    state.invalidate(key, by, &mut messages);
                }
                Event::AllWritten => state.invalidate_all(&mut messages),
                Event::Read { client, place, key } => {
                    if state.clients.contains_key(&client) {
                        state.table.insert(&key, client);
                        reads.push((client, place, key));
                    }
                }
            }
        }
        for (prefix, keys) in broadcasts {
            state.broadcast(&prefix, &keys, &mut messages);
        }
        for (client, place, key) in reads {
            let is_old = expected(place) != Some(watch.begun_at(place));
            if is_old && state.table.remove(&key, client) {
                state.tell(client, &Arc::new(Invalid::Keys(vec![key])), &mut messages);
            }
        }
        state.trim(limits, usize::MAX, &mut messages);
        shorten(&mut messages);
        messages
    }

    /// All data is gone, by a transaction that no client's command is. Returns the messages that follow.
    pub(crate) fn invalidate_all(&self) -> Vec<Message> {
        let (mut messages, state) = (Vec::new(), &mut *self.state());
        state.invalidate_all(&mut messages);
        messages
    }

    /// Makes the table smaller that has grown too large, by at most `most` keys. Returns the messages to their clients.
    pub(crate) fn trim(&self, limits: Limits, most: usize) -> Vec<Message> {
        let mut messages = Vec::new();
        self.state().trim(limits, most, &mut messages);
        shorten(&mut messages);
        messages
    }

    /// The messages for each thread's clients.
    pub(crate) fn address(server: &Server, messages: Vec<Message>) -> BTreeMap<usize, Vec<Parcel>> {
        let mut parcels: BTreeMap<usize, Vec<Parcel>> = BTreeMap::new();
        for Message { to, what } in messages {
            let Some(redirect) = to.tracking_redirect() else { continue };
            let target = match redirect {
                0 => Some(Arc::clone(&to)),
                id => server.clients().get(&id).cloned(),
            };
            let (client, is_broken) = match target {
                Some(target) => (target, false),
                None => {
                    to.break_tracking();
                    (to, true)
                }
            };
            let Some((worker, slot)) = client.home() else { continue };
            let to = Listener { worker, slot, client };
            let parcel = match is_broken {
                true => Parcel::broken(to, redirect),
                false => Parcel::invalid(to, what, redirect != 0),
            };
            parcels.entry(worker).or_default().push(parcel);
        }
        parcels
    }
}

impl State {
    /// Tells a client that a key is invalid, if it tracks by keys.
    fn tell(&self, client: u64, what: &Arc<Invalid>, messages: &mut Vec<Message>) {
        let Some(to) = self.clients.get(&client) else { return };
        if !to.tracking().has(Modes::BROADCAST) {
            messages.push(Message { to: Arc::clone(to), what: Arc::clone(what) });
        }
    }

    /// All keys are written: nobody has any.
    fn invalidate_all(&mut self, messages: &mut Vec<Message>) {
        self.table = Table::default();
        let all = Arc::new(Invalid::All);
        let message = |to| Message { to: Arc::clone(to), what: Arc::clone(&all) };
        messages.extend(self.clients.values().map(message));
    }

    /// A key is written by a client: nobody has it any longer.
    fn invalidate(&mut self, key: Name, by: u64, messages: &mut Vec<Message>) {
        let clients = self.table.take(&key);
        if clients.is_empty() {
            return;
        }
        let what = Arc::new(Invalid::Keys(vec![key]));
        for client in clients {
            let is_loop = |to: &Arc<Listing>| to.tracking().has(Modes::NO_LOOP) && to.id == by;
            if !self.clients.get(&client).is_some_and(is_loop) {
                self.tell(client, &what, messages);
            }
        }
    }

    /// Tells the clients of a prefix which of its keys were written.
    fn broadcast(&self, prefix: &[u8], keys: &BTreeMap<Name, u64>, messages: &mut Vec<Message>) {
        let all = || Arc::new(Invalid::Keys(keys.keys().cloned().collect()));
        let mut shared = None;
        for client in self.prefixes.clients(prefix) {
            let Some(to) = self.clients.get(&client) else { continue };
            let is_own = |by: &u64| to.tracking().has(Modes::NO_LOOP) && *by == client;
            let what = if keys.values().any(is_own) {
                let others = keys.iter().filter(|(_, by)| !is_own(by));
                let others: Vec<_> = others.map(|(key, _)| Arc::clone(key)).collect();
                if others.is_empty() {
                    continue;
                }
                Arc::new(Invalid::Keys(others))
            } else {
                Arc::clone(shared.get_or_insert_with(all))
            };
            messages.push(Message { to: Arc::clone(to), what });
        }
    }

    fn trim(&mut self, limits: Limits, most: usize, messages: &mut Vec<Message>) {
        let mut random = None;
        for _ in 0..most {
            let is_over = limits.keys > 0 && self.table.len() > limits.keys;
            if !is_over && self.table.bytes() <= limits.bytes {
                break;
            }
            let random = random.get_or_insert_with(Random::new);
            let Some(key) = self.table.draw(random) else { break };
            self.invalidate(key, 0, messages);
        }
    }
}
