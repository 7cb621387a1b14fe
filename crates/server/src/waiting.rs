//! Clients that wait for a key to be filled: the list of them, and who is served when.
//!
//! A blocking command that finds nothing ends its transaction without a reply, and only then is its client put on the list;
//! it holds no thread. A transaction that fills a key performs the commands of the clients that wait for it, in the order
//! in which they came, before it commits: so nobody sees a key between its being filled and the first client's being
//! served. Each of these clients is *claimed* meanwhile. Its reply goes on its way when the transaction is durable; if
//! the transaction is not committed, or is run again, its clients wait as before.
//!
//! Nobody is forgotten, though a key may be filled while its client is on the way to the list:
//! - A writer counts in the key's slot of [`Watch`](crate::watch::Watch) before it looks whether anybody waits. A client
//!   is on the list before its thread looks whether the key is being written. So the writer sees the client, or the
//!   client's thread sees the writer, and looks at the key again when the writer is done ([`Waits::recheck`]).
//! - A writer that began when nobody waited, and has filled a key meanwhile, has it looked at after its commit.
//! - A client that was claimed in vain, and perhaps passed over meanwhile by others, is treated as a new one.

use crate::command::{Command, Failure};
use crate::keyspace::Kind;
use crate::listing::Listing;
use crate::protocol::Protocol;
use crate::protocol::args::OwnedArgs;
use perdura::Error;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of memory that a key takes that is waited for, besides its name.
pub(crate) const PER_KEY: usize = 400;

/// A database's number and a key.
pub(crate) type Name = (u8, Vec<u8>);

/// What a blocking command waits for, if it has found nothing.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) kind: Kind,
    /// Whether it is performed again, too, when a key is gone or holds another kind of value.
    pub(crate) or_gone: bool,
    /// Its arguments, if it is to be performed with others than it was sent with.
    pub(crate) args: Option<OwnedArgs>,
    /// The first of its arguments that are keys, and their number.
    pub(crate) keys: (usize, usize),
    pub(crate) timeout: Option<Duration>,
    /// It waits for replicas, and not for keys.
    pub(crate) replicas: Option<ReplicaWish>,
}

/// What WAIT waits for.
#[derive(Clone, Debug)]
pub(crate) struct ReplicaWish {
    pub(crate) wanted: usize,
    /// As many replicas have the client's writes by now.
    pub(crate) count: Arc<AtomicUsize>,
}

impl Wish {
    pub(crate) fn new(kind: Kind, keys: (usize, usize), timeout: Option<Duration>) -> Self {
        Wish { kind, or_gone: false, args: None, keys, timeout, replicas: None }
    }

    /// A wish for so many replicas.
    pub(crate) fn for_replicas(wanted: usize, timeout: Option<Duration>) -> Self {
        let replicas = Some(ReplicaWish { wanted, count: Arc::default() });
        Wish { replicas, ..Wish::new(Kind::String, (1, 0), timeout) }
    }

    /// Whether it may be fulfilled by a key with this kind of value, or without any.
    fn takes(&self, found: Option<Kind>) -> bool {
        self.or_gone || found == Some(self.kind)
    }
}

/// Where a client's reply goes: its thread, its place there, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) worker: usize,
    pub(crate) slot: usize,
    pub(crate) id: u64,
}

/// A client that waits, with the command that it has sent.
pub(crate) struct Waiter {
    pub(crate) to: Address,
    pub(crate) client: Arc<Listing>,
    pub(crate) protocol: Protocol,
    pub(crate) db: u8,
    pub(crate) command: &'static Command,
    pub(crate) args: OwnedArgs,
    pub(crate) wish: Wish,
}

impl Waiter {
    /// Its keys, each once.
    fn keys(&self) -> HashSet<&[u8]> {
        let (first, count) = self.wish.keys;
        self.args.as_args().first(first, count).iter().collect()
    }
}

/// Why a client does not wait any longer, though nobody has filled its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Doom {
    /// It has disconnected.
    Gone,
    TimedOut,
    /// CLIENT UNBLOCK with an error.
    Unblocked,
    /// The server follows a master now, and the command would write.
    Demoted,
    /// Its user may not do any more what it waits for; the error.
    Denied(Arc<str>),
    /// What it waits for does not fit into the log, by itself.
    TooLarge {
        needed: u64,
        available: u64,
    },
}

/// A reply to a client that has waited.
pub(crate) struct Delivery {
    pub(crate) to: Address,
    pub(crate) reply: Vec<u8>,
}

impl Delivery {
    /// The reply for a client that is not served.
    pub(crate) fn of(waiter: &Waiter, doom: Doom) -> Option<Self> {
        let mut reply = Vec::new();
        let mut out = crate::protocol::Reply::new(&mut reply, waiter.protocol);
        match doom {
            Doom::Gone => return None,
            Doom::TimedOut => match &waiter.wish.replicas {
                Some(replicas) => out.size(replicas.count.load(Ordering::Relaxed) as u64),
                None => out.null_array(),
            },
            Doom::Unblocked => out.error("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
            Doom::Demoted => out.error(
                "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
            ),
            Doom::Denied(text) => out.error(&text),
            Doom::TooLarge { needed, available } => {
                Failure::Pool(Error::TooLarge { needed, available }).tell(&mut out);
            }
        }
        Some(Delivery { to: waiter.to, reply })
    }
}

/// A client on the list.
struct Listed {
    waiter: Arc<Waiter>,
    /// How many came before it.
    arrival: u64,
    claimed: bool,
    /// What becomes of it when it is not claimed any more.
    doom: Option<Doom>,
}

impl Listed {
    /// Whether it waits for replicas, with this count.
    fn counts(&self, count: &Arc<AtomicUsize>) -> bool {
        let replicas = self.waiter.wish.replicas.as_ref();
        replicas.is_some_and(|replicas| Arc::ptr_eq(&replicas.count, count))
    }
}

#[derive(Default)]
struct Lists {
    /// The clients that wait for a key.
    keys: HashMap<u8, HashMap<Arc<[u8]>, Queue>>,
    clients: HashMap<u64, Listed>,
}

/// Clients' numbers in the order in which they came, by which one of many is found when it leaves.
struct Queue(BTreeMap<u64, u64>);

impl Lists {
    fn remove(&mut self, id: u64) -> Option<Listed> {
        let listed = self.clients.remove(&id)?;
        if let Some(keys) = self.keys.get_mut(&listed.waiter.db) {
            for key in listed.waiter.keys() {
                let Some(queue) = keys.get_mut(key) else { continue };
                queue.0.remove(&listed.arrival);
                if queue.0.is_empty() {
                    keys.remove(key);
                }
            }
            if keys.is_empty() {
                // Room that many keys needed is given back.
                keys.shrink_to(0);
            }
        }
        listed.waiter.client.set_blocked(false);
        Some(listed)
    }
}

/// The clients of all threads that wait.
#[derive(Default)]
pub(crate) struct Waiting {
    count: AtomicUsize,
    /// How many have come so far.
    arrivals: AtomicU64,
    lists: Mutex<Lists>,
}

/// What has become of a client that is not claimed any more.
enum Released {
    /// It waits for these keys.
    Waits(Arc<Waiter>),
    /// It is off the list.
    Ended(Arc<Waiter>, Doom),
}

impl Waiting {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many clients wait.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Whether clients wait for a key.
    #[inline]
    pub(crate) fn wants(&self, db: u8, key: &[u8]) -> bool {
        self.count() > 0 && self.lists().keys.get(&db).is_some_and(|keys| keys.contains_key(key))
    }

    /// Puts a client on the list.
    pub(crate) fn add(&self, waiter: Waiter) {
        let (id, mut lists) = (waiter.to.id, self.lists());
        self.count.fetch_add(1, Ordering::SeqCst);
        // Under the lock: a greater number is in all queues after a smaller one.
        let arrival = self.arrivals.fetch_add(1, Ordering::Relaxed);
        let keys = lists.keys.entry(waiter.db).or_default();
        for key in waiter.keys() {
            match keys.get_mut(key) {
                Some(queue) => drop(queue.0.insert(arrival, id)),
                None => drop(keys.insert(Arc::from(key), Queue(BTreeMap::from([(arrival, id)])))),
            }
        }
        waiter.client.set_blocked(true);
        let listed = Listed { waiter: Arc::new(waiter), arrival, claimed: false, doom: None };
        lists.clients.insert(id, listed);
    }

    /// Whether a client waits for replicas, with this count.
    pub(crate) fn has(&self, id: u64, count: &Arc<AtomicUsize>) -> bool {
        self.lists().clients.get(&id).is_some_and(|listed| listed.counts(count))
    }

    /// Ends such a wait. Whether there was one.
    pub(crate) fn end_wish(&self, id: u64, count: &Arc<AtomicUsize>) -> bool {
        let mut lists = self.lists();
        let is_it = lists.clients.get(&id).is_some_and(|listed| listed.counts(count));
        if is_it {
            self.count.fetch_sub(1, Ordering::SeqCst);
            lists.remove(id);
        }
        is_it
    }

    /// The keys of a database that clients wait for.
    pub(crate) fn keys_of(&self, db: u8) -> Vec<Arc<[u8]>> {
        let lists = self.lists();
        lists.keys.get(&db).map(|keys| keys.keys().cloned().collect()).unwrap_or_default()
    }

    /// Claims the client that has waited longest for a key to hold this kind of value, or none, of those that came after
    /// another one. Returns its place in the order of arrival, too.
    pub(crate) fn claim(
        &self,
        (db, key): &Name,
        kind: Option<Kind>,
        after: Option<u64>,
    ) -> Option<(u64, Arc<Waiter>)> {
        let mut lists = self.lists();
        let Lists { keys, clients } = &mut *lists;
        let queue = keys.get(db)?.get(key.as_slice())?;
        let from = after.map_or(0, |after| after.saturating_add(1));
        for (&arrival, id) in queue.0.range(from..) {
            let Some(listed) = clients.get_mut(id) else { continue };
            // One that CLIENT KILL has ended takes nothing, though its thread has not noticed yet.
            let waits = !listed.claimed && !listed.waiter.client.is_killed();
            if waits && listed.waiter.wish.takes(kind) {
                listed.claimed = true;
                return Some((arrival, Arc::clone(&listed.waiter)));
            }
        }
        None
    }

    /// A client that was claimed is served: it does not wait any longer.
    fn served(&self, id: u64) {
        let mut lists = self.lists();
        if lists.remove(id).is_some() {
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// A client that was claimed is not served after all.
    fn release(&self, id: u64) -> Option<Released> {
        let mut lists = self.lists();
        let listed = lists.clients.get_mut(&id)?;
        listed.claimed = false;
        let Some(doom) = listed.doom.clone() else {
            return Some(Released::Waits(Arc::clone(&listed.waiter)));
        };
        let listed = lists.remove(id)?;
        self.count.fetch_sub(1, Ordering::SeqCst);
        Some(Released::Ended(listed.waiter, doom))
    }

    /// What `look` says of a client on the list.
    pub(crate) fn look<T>(&self, id: u64, look: impl FnOnce(&Waiter) -> Option<T>) -> Option<T> {
        if self.count() == 0 {
            return None;
        }
        let waiter = self.lists().clients.get(&id).map(|listed| Arc::clone(&listed.waiter))?;
        look(&waiter)
    }

    /// Takes a client off the list, unless it is about to be served.
    pub(crate) fn unblock(&self, id: u64) -> Option<Arc<Waiter>> {
        let mut lists = self.lists();
        lists.clients.get(&id).filter(|listed| !listed.claimed)?;
        self.count.fetch_sub(1, Ordering::SeqCst);
        lists.remove(id).map(|listed| listed.waiter)
    }

    /// Takes a client off the list, unless it is about to be served. If that is in vain, it is off the list later.
    pub(crate) fn end(&self, id: u64, doom: Doom) -> Option<Arc<Waiter>> {
        let mut lists = self.lists();
        let listed = lists.clients.get_mut(&id)?;
        if listed.claimed {
            // One that is gone wants no reply.
            if listed.doom != Some(Doom::Gone) {
                listed.doom = Some(doom);
            }
            return None;
        }
        self.count.fetch_sub(1, Ordering::SeqCst);
        lists.remove(id).map(|listed| listed.waiter)
    }
}

/// One thread's part: what its transaction under way does for clients that wait, and what is left to do.
#[derive(Default)]
pub(crate) struct Waits {
    /// What the command under way waits for.
    wish: Cell<Option<Wish>>,
    /// Keys that were written while clients waited, by commands whose clients are not served yet.
    written: RefCell<VecDeque<Name>>,
    served: RefCell<Vec<Delivery>>,
    /// Keys to be looked at in a transaction of their own.
    recheck: RefCell<Vec<Name>>,
    /// Clients of this thread that are new on the list, and until when they wait.
    new: RefCell<Vec<(Address, Option<Instant>)>>,
    /// The client that was claimed last.
    tried: Cell<u64>,
    /// Whether clients are left for a transaction of their own.
    leaves: Cell<bool>,
    /// Replies that go on their way once all that was committed is durable.
    deliveries: RefCell<Vec<Delivery>>,
}

impl Waits {
    /// The command under way has found nothing.
    pub(crate) fn wish(&self, wish: Wish) {
        self.wish.set(Some(wish));
    }

    /// What the command that has just ended waits for.
    pub(crate) fn take_wish(&self) -> Option<Wish> {
        self.wish.take()
    }

    /// A key is written that clients may wait for.
    pub(crate) fn note(&self, db: u8, key: &[u8]) {
        self.written.borrow_mut().push_back((db, key.to_vec()));
    }

    /// The next key that was written.
    pub(crate) fn next_written(&self) -> Option<Name> {
        self.written.borrow_mut().pop_front()
    }

    /// A claimed client is about to be served.
    pub(crate) fn tries(&self, id: u64) {
        self.tried.set(id);
    }

    /// The client that was claimed last does not wait any longer.
    pub(crate) fn give_up(&self, waiting: &Waiting, doom: Doom) {
        if let Some(waiter) = waiting.end(self.tried.get(), doom.clone()) {
            self.deliveries.borrow_mut().extend(Delivery::of(&waiter, doom));
        }
    }

    /// From here on clients are left for a transaction of their own, or not any longer.
    pub(crate) fn leave(&self, leaves: bool) {
        self.leaves.set(leaves);
    }

    /// Whether they are.
    #[inline]
    pub(crate) fn are_left(&self) -> bool {
        self.leaves.get()
    }

    /// A claimed client was served, if the transaction is committed.
    pub(crate) fn serve(&self, waiter: &Waiter, reply: Vec<u8>) {
        self.served.borrow_mut().push(Delivery { to: waiter.to, reply });
    }

    /// How many clients were served so far.
    pub(crate) fn mark(&self) -> usize {
        self.served.borrow().len()
    }

    /// Takes back all since `mark`; the transaction goes on.
    pub(crate) fn back_to(&self, waiting: &Waiting, mark: usize) {
        self.written.borrow_mut().clear();
        if self.mark() <= mark {
            return;
        }
        let undone = self.served.borrow_mut().split_off(mark);
        undone.iter().for_each(|served| self.release(waiting, served.to.id));
    }

    /// A claimed client is not served: its keys are looked at again.
    pub(crate) fn release(&self, waiting: &Waiting, id: u64) {
        match waiting.release(id) {
            Some(Released::Waits(waiter)) => self.recheck_for(&waiter),
            Some(Released::Ended(waiter, doom)) => {
                self.deliveries.borrow_mut().extend(Delivery::of(&waiter, doom));
            }
            None => {}
        }
    }

    /// A claimed client has found nothing that it takes.
    pub(crate) fn release_unserved(&self, waiting: &Waiting, id: u64) {
        if let Some(Released::Ended(waiter, doom)) = waiting.release(id) {
            self.deliveries.borrow_mut().extend(Delivery::of(&waiter, doom));
        }
    }

    /// A client of this thread is new on the list.
    pub(crate) fn note_new(&self, to: Address, until: Option<Instant>) {
        self.new.borrow_mut().push((to, until));
    }

    /// Takes the clients that are new on the list, and until when they wait.
    pub(crate) fn take_new(&self) -> Vec<(Address, Option<Instant>)> {
        self.new.take()
    }

    /// A transaction's body begins, perhaps once more, or the transaction was not committed.
    pub(crate) fn retract(&self, waiting: &Waiting) {
        self.wish.set(None);
        self.back_to(waiting, 0);
    }

    /// The transaction was committed.
    pub(crate) fn settle(&self, waiting: &Waiting) {
        // Of commands that began when nobody waited, or whose clients were left for later.
        self.recheck.borrow_mut().extend(self.written.borrow_mut().drain(..));
        let mut served = self.served.borrow_mut();
        served.iter().for_each(|served| waiting.served(served.to.id));
        self.deliveries.borrow_mut().append(&mut served);
    }

    /// A client's keys are to be looked at again: it is new on the list, or may have been passed over.
    pub(crate) fn recheck_for(&self, waiter: &Waiter) {
        let names = waiter.keys().into_iter().map(|key| (waiter.db, key.to_vec()));
        self.recheck.borrow_mut().extend(names);
    }

    /// Takes those of the keys to be looked at again for which `ready` is true.
    pub(crate) fn take_recheck(&self, ready: impl Fn(&Name) -> bool) -> Vec<Name> {
        let mut recheck = self.recheck.borrow_mut();
        let (now, later) = recheck.drain(..).partition(ready);
        *recheck = later;
        now
    }

    /// Whether keys are to be looked at again.
    pub(crate) fn has_recheck(&self) -> bool {
        !self.recheck.borrow().is_empty()
    }

    /// Takes the replies that can go when all that was committed is durable.
    pub(crate) fn take_deliveries(&self) -> Vec<Delivery> {
        self.deliveries.take()
    }
}
