//! Publishing: which clients listen to which channels, and messages on their way to them.
//!
//! A message goes on its way when the transaction that publishes it is committed and durable ([`Posts`]): nobody hears of
//! a write that a power cut may still undo, or of one that was run again. Each client's thread writes its messages to it;
//! the order of one thread's messages is kept. A client that does not read them is disconnected ([`UNSENT_MAX`]).

use crate::listing::Listing;
use crate::protocol::{Protocol, Reply, glob};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A client with more unsent bytes than this is disconnected when one more message comes for it.
pub(crate) const UNSENT_MAX: usize = 32 << 20;
/// The same, once it has been so for [`UNSENT_SECONDS`].
pub(crate) const UNSENT_SOFT: usize = 8 << 20;
pub(crate) const UNSENT_SECONDS: u64 = 60;
/// Bytes of messages that may be on their way to one thread, and as many of lines for monitors: beyond, those whom they
/// are for are disconnected.
const UNDELIVERED_MAX: usize = 64 << 20;
/// Bytes of messages that one transaction publishes: beyond, its commands that publish fail.
const PENDING_MAX: usize = 64 << 20;
/// Bytes of lines for monitors that a thread has of transactions that are not durable yet: beyond, no more commands are
/// shown. They take no room of messages: no command fails for a monitor.
const LINES_MAX: usize = 32 << 20;
/// Bytes of memory that a message takes besides its own.
const PER_POST: usize = 100;
/// Written keys of one command that are compared with each other.
const FEW: usize = 16;
/// Bytes of memory that a subscription takes, besides its name.
pub(crate) const PER_NAME: usize = 400;

/// The kinds of names that a client listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Channel,
    Pattern,
    /// A channel of SSUBSCRIBE.
    Shard,
    /// Everything that is performed: MONITOR, by no name.
    Monitor,
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [Kind::Channel, Kind::Pattern, Kind::Shard, Kind::Monitor];
}

type Name = Arc<[u8]>;

/// The names that one client listens to.
#[derive(Default)]
pub(crate) struct Subscriptions {
    names: [BTreeSet<Name>; 4],
    bytes: usize,
}

impl Subscriptions {
    pub(crate) fn of(&self, kind: Kind) -> &BTreeSet<Name> {
        &self.names[kind as usize]
    }

    /// How many there are as replies count them: those to shards' channels by themselves.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Shard | Kind::Monitor => self.of(kind).len(),
            Kind::Channel | Kind::Pattern => {
                self.of(Kind::Channel).len() + self.of(Kind::Pattern).len()
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty)
    }

    /// Bytes of memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A client that listens, and where it is.
#[derive(Clone)]
pub(crate) struct Listener {
    pub(crate) worker: usize,
    pub(crate) slot: usize,
    pub(crate) client: Arc<Listing>,
}

/// The clients that listen to a name, by their numbers.
type Listeners = BTreeMap<u64, Listener>;

/// Who listens to what.
#[derive(Default)]
pub(crate) struct PubSub {
    /// Subscriptions of all clients to names.
    count: AtomicUsize,
    /// Clients that monitor.
    monitors: AtomicUsize,
    names: Mutex<[HashMap<Name, Listeners>; 4]>,
}

impl PubSub {
    fn names(&self) -> MutexGuard<'_, [HashMap<Name, Listeners>; 4]> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anybody listens to any name.
    pub(crate) fn is_used(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// The count that a subscription is in.
    fn count_of(&self, kind: Kind) -> &AtomicUsize {
        if kind == Kind::Monitor { &self.monitors } else { &self.count }
    }

    /// Whether a client is told of everything that is performed.
    #[inline]
    pub(crate) fn is_monitored(&self) -> bool {
        self.monitors.load(Ordering::Relaxed) > 0
    }

    /// A client listens to one more name.
    pub(crate) fn subscribe(
        &self,
        own: &mut Subscriptions,
        listener: &Listener,
        kind: Kind,
        name: &[u8],
    ) {
        if own.of(kind).contains(name) {
            return;
        }
        let mut names = self.names();
        let names = &mut names[kind as usize];
        let name = match names.get_key_value(name) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(name),
        };
        own.bytes += name.len() + PER_NAME;
        own.names[kind as usize].insert(Arc::clone(&name));
        names.entry(name).or_default().insert(listener.client.id, listener.clone());
        self.count_of(kind).fetch_add(1, Ordering::Release);
        listener.client.set_subscriptions(own);
    }

    /// A client does not listen to a name any longer.
    pub(crate) fn unsubscribe(
        &self,
        own: &mut Subscriptions,
        client: &Listing,
        kind: Kind,
        name: &[u8],
    ) {
        if !own.names[kind as usize].remove(name) {
            return;
        }
        own.bytes = own.bytes.saturating_sub(name.len() + PER_NAME);
        let mut names = self.names();
        let names = &mut names[kind as usize];
        if let Some(listeners) = names.get_mut(name) {
            listeners.remove(&client.id);
            if listeners.is_empty() {
                names.remove(name);
                if names.is_empty() {
                    names.shrink_to(0);
                }
            }
        }
        self.count_of(kind).fetch_sub(1, Ordering::Release);
        client.set_subscriptions(own);
    }

    /// A client listens to nothing any longer.
    pub(crate) fn leave(&self, own: &mut Subscriptions, client: &Listing) {
        for kind in Kind::ALL {
            for name in std::mem::take(&mut own.names[kind as usize]) {
                own.names[kind as usize].insert(Arc::clone(&name));
                self.unsubscribe(own, client, kind, &name);
            }
        }
    }

    /// How many clients get a message, each as often as it does.
    pub(crate) fn receivers(&self, shard: bool, channel: &[u8]) -> usize {
        if !self.is_used() {
            return 0;
        }
        let mut count = 0;
        let kind = if shard { Kind::Shard } else { Kind::Channel };
        self.each(kind, channel, |_, _, listeners| count += listeners.len());
        count
    }

    /// The clients that listen to a channel, by its name and then by patterns.
    fn each(
        &self,
        kind: Kind,
        channel: &[u8],
        mut visit: impl FnMut(Kind, Option<&Name>, &Listeners),
    ) {
        let names = self.names();
        if let Some(listeners) = names[kind as usize].get(channel) {
            visit(kind, None, listeners);
        }
        if kind == Kind::Channel {
            for (pattern, listeners) in &names[Kind::Pattern as usize] {
                if glob::matches(pattern, channel) {
                    visit(Kind::Pattern, Some(pattern), listeners);
                }
            }
        }
    }

    /// The names of a kind that clients listen to, with the number of these.
    pub(crate) fn listened(&self, kind: Kind, takes: impl Fn(&[u8]) -> bool) -> Vec<(Name, usize)> {
        let names = self.names();
        let taken = names[kind as usize].iter().filter(|(name, _)| takes(name));
        taken.map(|(name, listeners)| (Arc::clone(name), listeners.len())).collect()
    }

    /// The numbers of the clients that listen to a name which `takes` takes.
    pub(crate) fn listening(&self, takes: impl Fn(Kind, &[u8]) -> bool) -> HashSet<u64> {
        let names = self.names();
        let of = |kind: Kind| names[kind as usize].iter().map(move |(name, all)| (kind, name, all));
        let taken = Kind::ALL.into_iter().flat_map(of).filter(|(kind, name, _)| takes(*kind, name));
        taken.flat_map(|(_, _, listeners)| listeners.keys().copied()).collect()
    }

    /// How many clients listen to this very name.
    pub(crate) fn listeners(&self, kind: Kind, name: &[u8]) -> usize {
        self.names()[kind as usize].get(name).map_or(0, BTreeMap::len)
    }

    /// How many names of a kind are listened to.
    pub(crate) fn name_count(&self, kind: Kind) -> usize {
        self.names()[kind as usize].len()
    }

    /// Messages for each thread's clients, but those that are ended already.
    pub(crate) fn address(&self, posts: Vec<Post>) -> BTreeMap<usize, Vec<Parcel>> {
        let mut parcels: BTreeMap<usize, Vec<Parcel>> = BTreeMap::new();
        for post in posts {
            let post = Arc::new(post);
            self.each(post.kind, &post.channel, |kind, pattern, listeners| {
                for listener in listeners.values().filter(|one| !one.client.is_killed()) {
                    let to = parcels.entry(listener.worker).or_default();
                    let post = Arc::clone(&post);
                    let pattern = pattern.cloned();
                    to.push(Parcel { to: listener.clone(), kind, pattern, post });
                }
            });
        }
        parcels
    }
}

/// A message that is published.
pub(crate) struct Post {
    /// Whom it is for: never [`Kind::Pattern`].
    pub(crate) kind: Kind,
    pub(crate) channel: Vec<u8>,
    pub(crate) message: Vec<u8>,
}

/// A message on its way to a client.
pub(crate) struct Parcel {
    pub(crate) to: Listener,
    kind: Kind,
    pattern: Option<Name>,
    post: Arc<Post>,
}

impl Post {
    fn bytes(&self) -> usize {
        self.channel.len() + self.message.len() + PER_POST
    }
}

/// Bytes of memory of messages, and of lines for monitors.
#[derive(Clone, Copy, Default)]
struct Bytes {
    messages: usize,
    lines: usize,
}

impl Bytes {
    fn add(&mut self, kind: Kind, bytes: usize) {
        match kind {
            Kind::Monitor => self.lines += bytes,
            Kind::Channel | Kind::Pattern | Kind::Shard => self.messages += bytes,
        }
    }

    fn of_posts(posts: &[Post]) -> Self {
        let mut bytes = Bytes::default();
        posts.iter().for_each(|post| bytes.add(post.kind, post.bytes()));
        bytes
    }

    /// Those of parcels. Those of one message share it, and follow one another.
    fn of_parcels(parcels: &[Parcel]) -> Self {
        let mut bytes = Bytes::default();
        for same in parcels.chunk_by(|one, next| Arc::ptr_eq(&one.post, &next.post)) {
            bytes.add(same[0].kind, same[0].post.bytes() + size_of_val(same));
        }
        bytes
    }

    fn without(self, other: Bytes) -> Self {
        let Bytes { messages, lines } = other;
        Bytes { messages: self.messages - messages, lines: self.lines - lines }
    }
}

impl Parcel {
    /// Writes it as the client gets it.
    pub(crate) fn write(&self, out: &mut Vec<u8>, protocol: Protocol) {
        let mut out = Reply::new(out, protocol);
        let word: &[u8] = match self.kind {
            Kind::Channel => b"message",
            Kind::Pattern => b"pmessage",
            Kind::Shard => b"smessage",
            Kind::Monitor => return out.raw(&self.post.message),
        };
        out.push(if self.pattern.is_some() { 4 } else { 3 });
        out.bulk(word);
        if let Some(pattern) = &self.pattern {
            out.bulk(pattern);
        }
        out.bulk(&self.post.channel);
        out.bulk(&self.post.message);
    }
}

/// The messages that are on their way to one thread.
#[derive(Default)]
pub(crate) struct Mailbox(Mutex<Undelivered>);

#[derive(Default)]
struct Undelivered {
    parcels: Vec<Parcel>,
    bytes: Bytes,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Undelivered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds messages. Those for which there is no room are returned: nobody is to be left with a part of them. Messages have
    /// room or not whatever monitors leave undelivered, and the other way round.
    pub(crate) fn put(&self, mut parcels: Vec<Parcel>) -> Vec<Parcel> {
        let new = Bytes::of_parcels(&parcels);
        let mut undelivered = self.lock();
        let Undelivered { parcels: known, bytes } = &mut *undelivered;
        let fits = |before: usize, more| before == 0 || before + more <= UNDELIVERED_MAX;
        let messages_fit = fits(bytes.messages, new.messages);
        let lines_fit = fits(bytes.lines, new.lines);
        bytes.messages += if messages_fit { new.messages } else { 0 };
        bytes.lines += if lines_fit { new.lines } else { 0 };
        if messages_fit && lines_fit {
            known.append(&mut parcels);
            return Vec::new();
        }
        let fits = |one: &Parcel| if one.kind == Kind::Monitor { lines_fit } else { messages_fit };
        let (taken, refused): (Vec<_>, _) = parcels.into_iter().partition(fits);
        known.extend(taken);
        refused
    }

    pub(crate) fn take(&self) -> Vec<Parcel> {
        std::mem::take(&mut *self.lock()).parcels
    }
}

/// A key that a command has written.
pub(crate) struct WrittenKey {
    pub(crate) db: u8,
    pub(crate) key: Arc<[u8]>,
    pub(crate) is_new: bool,
}

/// One thread's part: what its transaction under way publishes, and what goes on its way when that is durable.
#[derive(Default)]
pub(crate) struct Posts {
    pending: RefCell<Vec<Post>>,
    /// Bytes of these.
    bytes: Cell<Bytes>,
    ready: RefCell<Vec<Post>>,
    /// Bytes of the lines among these.
    ready_lines: Cell<usize>,
    written: RefCell<Written>,
}

/// Keys that the command under way has written, if clients may be told of them; each once, in their order.
#[derive(Default)]
struct Written {
    keys: Vec<WrittenKey>,
    /// All of them, if they are many.
    known: HashSet<(u8, Arc<[u8]>)>,
    /// Events that the command has told of itself, each of a database's key.
    events: Vec<(u8, Arc<[u8]>, &'static str)>,
}

impl Posts {
    pub(crate) fn add(&self, post: Post) {
        let mut bytes = self.bytes.get();
        bytes.add(post.kind, post.bytes());
        self.bytes.set(bytes);
        self.pending.borrow_mut().push(post);
    }

    /// Adds a line for monitors that is no part of a transaction.
    pub(crate) fn add_ready_line(&self, line: Post) {
        self.ready_lines.set(self.ready_lines.get() + line.bytes());
        self.ready.borrow_mut().push(line);
    }

    /// Bytes of the lines for monitors that are not sent yet.
    fn lines(&self) -> usize {
        self.bytes.get().lines + self.ready_lines.get()
    }

    /// Whether there is room for a line for monitors.
    pub(crate) fn has_room_for_line(&self) -> bool {
        self.lines() <= LINES_MAX
    }

    /// Whether there is no more room after this line.
    pub(crate) fn is_last_line(&self, line: &Post) -> bool {
        self.lines() + line.bytes() > LINES_MAX
    }

    /// Checks that the transaction may publish more.
    pub(crate) fn check_room(&self) -> Result<(), String> {
        if self.bytes.get().messages <= PENDING_MAX {
            return Ok(());
        }
        Err(format!("ERR the messages of a transaction take more than {PENDING_MAX} bytes"))
    }

    /// How many the transaction has so far.
    pub(crate) fn mark(&self) -> usize {
        self.pending.borrow().len()
    }

    /// Takes back all since `mark`.
    pub(crate) fn back_to(&self, mark: usize) {
        let mut pending = self.pending.borrow_mut();
        if mark < pending.len() {
            self.bytes.set(self.bytes.get().without(Bytes::of_posts(&pending[mark..])));
            pending.truncate(mark);
        }
        drop(pending);
        drop(self.take_written());
    }

    /// Takes all since `mark`, which are not sent then.
    pub(crate) fn take_since(&self, mark: usize) -> Vec<Post> {
        let mut pending = self.pending.borrow_mut();
        let mark = mark.min(pending.len());
        let taken = pending.split_off(mark);
        self.bytes.set(self.bytes.get().without(Bytes::of_posts(&taken)));
        taken
    }

    /// The transaction was committed.
    pub(crate) fn settle(&self) {
        let mut pending = self.pending.borrow_mut();
        if !pending.is_empty() {
            self.ready.borrow_mut().append(&mut pending);
            let bytes = self.bytes.take();
            self.ready_lines.set(self.ready_lines.get() + bytes.lines);
        }
    }

    /// Whether messages wait for durability.
    pub(crate) fn are_ready(&self) -> bool {
        !self.ready.borrow().is_empty()
    }

    /// Takes the messages that can go when all that was committed is durable.
    pub(crate) fn take_ready(&self) -> Vec<Post> {
        self.ready_lines.set(0);
        self.ready.take()
    }

    /// The command under way has written a key, which `is_new` if it was not there before.
    pub(crate) fn note_written(&self, db: u8, key: &[u8], is_new: bool) {
        let Written { keys, known, .. } = &mut *self.written.borrow_mut();
        if keys.len() < FEW {
            if !keys.iter().any(|one| one.db == db && *one.key == *key) {
                keys.push(WrittenKey { db, key: key.into(), is_new });
            }
            return;
        }
        if known.is_empty() {
            known.extend(keys.iter().map(|one| (one.db, Arc::clone(&one.key))));
        }
        let key: Arc<[u8]> = key.into();
        if known.insert((db, Arc::clone(&key))) {
            keys.push(WrittenKey { db, key, is_new });
        }
    }

    /// The command under way tells of an event of a key.
    pub(crate) fn note_event(&self, db: u8, key: &[u8], event: &'static str) {
        self.written.borrow_mut().events.push((db, key.into(), event));
    }

    /// Takes the events that the command that has just ended has told of; before its keys are taken.
    pub(crate) fn take_events(&self) -> Vec<(u8, Arc<[u8]>, &'static str)> {
        std::mem::take(&mut self.written.borrow_mut().events)
    }

    /// Takes the keys that the command that has just ended has written.
    pub(crate) fn take_written(&self) -> Vec<WrittenKey> {
        let Written { keys, known, events } = &mut *self.written.borrow_mut();
        events.clear();
        if !known.is_empty() {
            *known = HashSet::new();
        }
        std::mem::take(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(bytes: usize) -> Post {
        Post { kind: Kind::Channel, channel: b"c".to_vec(), message: vec![b'x'; bytes] }
    }

    fn listener(number: u64) -> Listener {
        let address: std::net::SocketAddr = ([127, 0, 0, 1], 0).into();
        let client = Arc::new(Listing::new(number, address, address));
        Listener { worker: 0, slot: number as usize, client }
    }

    fn line(bytes: usize) -> Post {
        Post { kind: Kind::Monitor, channel: Vec::new(), message: vec![b'x'; bytes] }
    }

    /// A message counts once for each thread, however many of its clients get it; what is too much is returned whole.
    #[test]
    fn a_message_for_many_takes_room_once() {
        let pubsub = PubSub::default();
        for number in 0..100 {
            let mut own = Subscriptions::default();
            pubsub.subscribe(&mut own, &listener(number), Kind::Channel, b"c");
        }
        let mailbox = Mailbox::default();
        let put = |count: usize| {
            let posts = (0..count).map(|_| post(1 << 20)).collect();
            let parcels = pubsub.address(posts).remove(&0).expect("there are listeners");
            mailbox.put(parcels).len()
        };
        assert_eq!([put(10), put(40), put(20)], [0, 0, 2_000]);
        assert_eq!(mailbox.take().len(), 5_000);
        assert_eq!(put(20), 0);
    }

    #[test]
    fn a_transaction_has_so_many_bytes_of_messages() {
        let posts = Posts::default();
        for _ in 0..3 {
            assert!(posts.check_room().is_ok());
            posts.add(post(PENDING_MAX));
            assert!(posts.check_room().is_err());
            let mark = posts.mark();
            posts.add(post(5));
            posts.back_to(mark);
            assert!(posts.check_room().is_err());
            posts.back_to(0);
            assert!(posts.check_room().is_ok());
            posts.add(post(PENDING_MAX));
            posts.settle();
            assert!(posts.check_room().is_ok() && posts.take_ready().len() == 1);
        }
    }

    /// Lines for monitors take no room of messages, in a transaction and on their way, and messages none of theirs.
    #[test]
    fn lines_and_messages_have_room_of_their_own() {
        let posts = Posts::default();
        while posts.has_room_for_line() {
            posts.add(line(8 << 20));
        }
        assert!(posts.check_room().is_ok());
        posts.settle();
        assert!(!posts.has_room_for_line(), "they are not sent yet");
        posts.add(post(PENDING_MAX));
        assert!(posts.check_room().is_err());
        posts.back_to(0);
        let ready = posts.take_ready().len();
        assert!(posts.has_room_for_line() && ready == LINES_MAX / (8 << 20));
        posts.add_ready_line(line(LINES_MAX));
        assert!(!posts.has_room_for_line());

        let (pubsub, mailbox) = (PubSub::default(), Mailbox::default());
        let (monitor, listens) = (listener(1), listener(2));
        let (mut own, mut other) = (Subscriptions::default(), Subscriptions::default());
        pubsub.subscribe(&mut own, &monitor, Kind::Monitor, b"");
        assert!(pubsub.is_monitored() && !pubsub.is_used());
        pubsub.subscribe(&mut other, &listens, Kind::Channel, b"c");
        let refused = |posts| -> Vec<u64> {
            let parcels = pubsub.address(posts).remove(&0).unwrap_or_default();
            mailbox.put(parcels).iter().map(|parcel| parcel.to.client.id).collect()
        };
        assert!(refused(vec![line(UNDELIVERED_MAX)]).is_empty());
        assert_eq!(refused(vec![post(1), line(1), post(UNDELIVERED_MAX / 2)]), [1]);
        assert_eq!(refused(vec![post(UNDELIVERED_MAX / 2), line(1)]), [2, 1]);
        // A client that was ended is sent nothing more.
        monitor.client.kill();
        assert!(refused(vec![line(1)]).is_empty());
        assert_eq!(mailbox.take().len(), 3);
        pubsub.leave(&mut own, &monitor.client);
        assert!(!pubsub.is_monitored() && pubsub.is_used());
    }

    /// Each key once, in the order in which they came, without looking through all of them each time.
    #[test]
    fn written_keys_are_noted_once() {
        let posts = Posts::default();
        for _ in 0..2 {
            for number in (0..200_000_u32).chain(0..200_000) {
                posts.note_written(0, &number.to_le_bytes(), false);
            }
            let written = posts.take_written();
            assert_eq!(written.len(), 200_000);
            assert!((0..).zip(&written).all(|(number, one)| *one.key == u32::to_le_bytes(number)));
        }
    }
}
