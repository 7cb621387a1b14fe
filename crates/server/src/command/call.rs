//! The context of a command on data.

use super::{Failure, Outcome, events};
use crate::keyspace::{Database, Entry, Found, Hint, Kind};
use crate::listing::Listing;
use crate::protocol::{Args, Reply, number};
use crate::pubsub::Posts;
use crate::replication::Effects;
use crate::server::Server;
use crate::stats::{Stats, Tally, TallyMark};
use crate::tracking::Tracked;
use crate::waiting::{PER_KEY, Waits, Wish};
use crate::watch::Touched;
use perdura::{Error, Result, Tx};

/// The part of the context that all commands of a transaction share.
#[derive(Clone, Copy)]
pub(crate) struct Env<'a> {
    pub(crate) server: &'a Server,
    /// The thread's number.
    pub(crate) worker: usize,
    pub(crate) stats: &'a Stats,
    /// The keys that the transaction has written.
    pub(crate) touched: &'a Touched,
    /// Its counts.
    pub(crate) tally: &'a Tally,
    /// What it does for clients that wait.
    pub(crate) waits: &'a Waits,
    /// The messages that it publishes.
    pub(crate) posts: &'a Posts,
    /// What replicas are told of it.
    pub(crate) effects: &'a Effects,
    /// What clients that track keys are told of it.
    pub(crate) tracked: &'a Tracked,
    /// The keyspace's header.
    pub(crate) keyspace: u64,
    /// Milliseconds since 1970, the same in the whole turn.
    pub(crate) now: u64,
    /// Keys whose time is not after this have expired: `now`; or 0 for commands of a master, which says itself when a key
    /// is gone, and for those of the past.
    pub(crate) cutoff: u64,
    /// A number that differs from turn to turn.
    pub(crate) seed: u64,
    /// Nothing more can be freed: a write for which there is no room is refused.
    pub(crate) last_resort: bool,
    /// A command that fails after it has written is undone by itself. That costs every command of the transaction, and is
    /// seldom needed: otherwise the transaction is run again, with it ([`Tally::needs_care`]).
    pub(crate) careful: bool,
    /// The commands of an EXEC whose client watches keys: see [`Env::touch`].
    pub(crate) watches: bool,
}

/// What a thread notes of its transaction under way, until that is over, and of those that are yet to be durable.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) touched: Touched,
    pub(crate) tally: Tally,
    pub(crate) waits: Waits,
    pub(crate) posts: Posts,
    pub(crate) effects: Effects,
    pub(crate) tracked: Tracked,
}

impl Notes {
    /// Whether somebody is to hear of transactions once they are durable.
    pub(crate) fn are_ready(&self) -> bool {
        self.posts.are_ready() || self.effects.are_ready() || self.tracked.are_ready()
    }

    /// The context of the thread's next transaction, with care, in the keyspace whose header is at `keyspace`.
    pub(crate) fn env<'a>(
        &'a self,
        server: &'a Server,
        worker: usize,
        stats: &'a Stats,
        keyspace: u64,
        now: u64,
        seed: u64,
    ) -> Env<'a> {
        let Notes { touched, tally, waits, posts, effects, tracked } = self;
        Env {
            server,
            worker,
            stats,
            touched,
            tally,
            waits,
            posts,
            effects,
            tracked,
            keyspace,
            now,
            cutoff: now,
            seed,
            last_resort: false,
            careful: true,
            watches: false,
        }
    }
}

impl Env<'_> {
    /// Whether its commands are a master's, or of the past: they are performed whatever this server is.
    pub(crate) fn obeys(&self) -> bool {
        self.cutoff == 0
    }

    /// Whether there may be somebody who wants to hear of written keys.
    #[inline]
    fn tells_events(&self) -> bool {
        self.server.events.are_wanted() && self.server.pubsub.is_used()
    }

    /// Whether to note for clients that track what is written.
    #[inline]
    fn tells_trackers(&self) -> bool {
        let is_used = self.server.tracking.is_used();
        if !is_used {
            self.tracked.note_unheard();
        }
        is_used
    }

    /// Tells watchers that a key is written by the transaction under way. If there are any, the key's entry is
    /// stored to, so that an EXEC which has read it is in conflict. So it is by an EXEC that itself watches keys: if all of
    /// its values were there before, it would store nothing, and a transaction that stores nothing is never in conflict.
    pub(crate) fn touch(&self, tx: &mut dyn Tx, db: &Database, key: &[u8]) -> Result<()> {
        self.touch_for_watchers(tx, db, key)?;
        // After it is counted as written: see `tracking/mod.rs`.
        if self.tells_trackers() {
            self.tracked.note_written(key);
        }
        if self.tells_events() {
            self.posts.note_written(db.index(), key, false);
        }
        // After it is counted as written: see `waiting.rs`.
        self.note_for_waiters(db, key);
        Ok(())
    }

    /// The same for watchers alone.
    fn touch_for_watchers(&self, tx: &mut dyn Tx, db: &Database, key: &[u8]) -> Result<()> {
        match self.server.watch.touch(db.index(), key, self.touched) || self.watches {
            true => db.rewrite(tx, key),
            false => Ok(()),
        }
    }

    /// Clients that wait for a key are to look at it again.
    #[inline]
    pub(crate) fn note_for_waiters(&self, db: &Database, key: &[u8]) {
        if self.server.waiting.wants(db.index(), key) {
            self.waits.note(db.index(), key);
        }
    }

    /// A key is about to be written, or deleted, by the transaction under way: an export that was begun before gets it
    /// as it is.
    pub(crate) fn keep(&self, tx: &mut dyn Tx, db: Database, key: &[u8]) {
        self.server.save.walking.keep(tx, db, key);
        self.server.replication.walking.keep(tx, db, key);
    }

    /// Tells clients that watched a key before it expired, at `time`, that it is removed.
    pub(crate) fn touch_expired(&self, db: &Database, key: &[u8], time: u64) {
        self.effects.note_removal(db.index(), key);
        self.server.watch.touch_expired(db.index(), key, time, self.touched);
        if self.tells_trackers() {
            self.tracked.note_removed(key);
        }
        self.note_for_waiters(db, key);
        if self.server.events.are_wanted() {
            events::expired(*self, db.index(), key);
        }
    }

    /// Tells watchers of a key that it is about to be removed to make room.
    pub(crate) fn touch_evicted(&self, tx: &mut dyn Tx, db: &Database, key: &[u8]) -> Result<()> {
        self.effects.note_removal(db.index(), key);
        let watched = self.server.watch.touch(db.index(), key, self.touched);
        if self.tells_trackers() {
            self.tracked.note_removed(key);
        }
        self.note_for_waiters(db, key);
        if self.server.events.are_wanted() {
            events::evicted(*self, db.index(), key);
        }
        match watched {
            true => db.rewrite(tx, key),
            false => Ok(()),
        }
    }

    /// All keys of a database are about to be deleted: exports and snapshots that read some keys at a time end.
    pub(crate) fn end_walks(&self) {
        self.server.save.walking.flush();
        self.server.replication.walking.flush();
    }

    /// Tells watchers of the keys that are in `db`: it is about to be cleared, or to get another number. A key that had
    /// expired before it was watched is not in it.
    pub(crate) fn touch_all(&self, tx: &mut dyn Tx, db: &Database) -> Result<()> {
        if self.server.waiting.count() > 0 {
            let keys = self.server.waiting.keys_of(db.index());
            keys.iter().for_each(|key| self.waits.note(db.index(), key));
        }
        for (key, since) in self.server.watch.flush(db.index(), self.touched) {
            let found = db.find(tx, &key)?;
            if found.is_some_and(|found| found.entry.expires().is_none_or(|time| time > since)) {
                // Those who wait, and those who track, are told of all keys at once.
                self.touch_for_watchers(tx, db, &key)?;
            }
        }
        if self.tells_trackers() {
            self.tracked.note_all();
        }
        Ok(())
    }

    /// A transaction's body begins, perhaps once more: nothing was touched or counted.
    pub(crate) fn begin(&self) {
        self.server.watch.retract(self.touched);
        self.waits.retract(&self.server.waiting);
        self.posts.back_to(0);
        self.effects.retract();
        self.tracked.retract();
        self.tally.begin(self.server.tuning.allows_shared_times());
    }

    /// The same, of a transaction that writes.
    ///
    /// # Errors
    /// As a read.
    pub(crate) fn begin_writing(&self, tx: &mut dyn Tx) -> Result<()> {
        self.begin();
        self.effects.begin(tx, self.keyspace, &self.server.replication.feed)
    }

    /// The body of a transaction that writes is done.
    ///
    /// # Errors
    /// As a write.
    pub(crate) fn end_writing(&self, tx: &mut dyn Tx) -> Result<()> {
        self.effects.seal(tx, self.keyspace)
    }

    /// The transaction is over: to be said after each one.
    pub(crate) fn end<T>(&self, done: &Result<T>) {
        match done {
            // A commit that fails may have been seen, and may be durable.
            Ok(_) | Err(Error::Io(_)) => {
                self.tracked.settle(self.server, self.touched);
                self.server.watch.settle(self.touched);
                self.waits.settle(&self.server.waiting);
                self.posts.settle();
                self.effects.settle();
                self.tally.settle(self.stats, |command| self.server.note_slow(command));
            }
            Err(_) => {
                self.server.watch.retract(self.touched);
                self.waits.retract(&self.server.waiting);
                self.posts.back_to(0);
                self.effects.retract();
                self.tracked.retract();
                self.tally.back_to(TallyMark::default());
            }
        }
    }
}

/// One command on its way.
pub(crate) struct Call<'a> {
    pub(crate) tx: &'a mut dyn Tx,
    pub(crate) env: Env<'a>,
    pub(crate) db: Database,
    /// Whose it is.
    pub(crate) client: &'a Listing,
    pub(crate) args: Args<'a>,
    pub(crate) out: Reply<'a>,
    /// Whether its client may wait: not inside of EXEC.
    pub(crate) may_wait: bool,
    /// Hints where its key is.
    pub(crate) near: Hint,
}

impl<'a> Call<'a> {
    /// The entry of `key`, whatever it holds, unless it has expired. That is a use of it.
    pub(crate) fn look(&mut self, key: &[u8]) -> Outcome<Option<Entry>> {
        self.note_use(key);
        self.peek(key)
    }

    #[inline]
    fn tells_events(&self) -> bool {
        self.env.tells_events()
    }

    /// The command uses `key`, which may matter to what is evicted.
    #[inline]
    fn note_use(&self, key: &[u8]) {
        let eviction = &self.env.server.eviction;
        if eviction.notes_uses() && !self.client.is_no_touch() {
            eviction.note_use(self.db.index(), key, self.env.now);
        }
    }

    /// As [`look`](Call::look), for a command that asks about the key, which is no use of it.
    pub(crate) fn peek(&mut self, key: &[u8]) -> Outcome<Option<Entry>> {
        let found = self.inspect(key)?;
        if found.is_none() {
            self.miss(key)?;
        }
        Ok(found)
    }

    /// A command that reads has not found its key: an event, for those who want it.
    #[inline]
    pub(crate) fn miss(&self, key: &[u8]) -> Outcome {
        match self.tells_events() {
            true => events::missed(self.env, self.db.index(), key),
            false => Ok(()),
        }
    }

    /// As [`peek`](Call::peek), for a command that asks how the key is kept: if it is not there, that is no event.
    pub(crate) fn inspect(&mut self, key: &[u8]) -> Outcome<Option<Entry>> {
        let found = self.db.find_near(self.tx, key, self.near)?.map(|found| found.entry);
        if self.env.effects.tell_of_expired()
            && found.is_some_and(|entry| entry.expired(self.env.cutoff))
        {
            // Replicas go by the key, and not by its time: what follows from its being gone is to hold for them, too.
            self.claim(key)?;
        }
        let found = found.filter(|entry| !entry.expired(self.env.cutoff));
        self.env.tally.looked_for(found.is_some());
        Ok(found)
    }

    /// The entry of `key`, which must be of this kind if it is there.
    pub(crate) fn look_for(&mut self, key: &[u8], kind: Kind) -> Outcome<Option<Entry>> {
        match self.look(key)? {
            Some(entry) if entry.kind() != kind => Err(Failure::WRONG_TYPE),
            found => Ok(found),
        }
    }

    /// As [`look`](Call::look), for a command that will write: an expired key is removed.
    pub(crate) fn claim(&mut self, key: &[u8]) -> Outcome<Option<Found>> {
        self.note_use(key);
        self.env.keep(self.tx, self.db, key);
        match self.db.find_near(self.tx, key, self.near)? {
            Some(found) if found.entry.expired(self.env.cutoff) => {
                self.db.remove(self.tx, key)?;
                if let Some(time) = found.entry.expires() {
                    self.env.touch_expired(&self.db, key, time);
                }
                self.env.tally.expired();
                Ok(None)
            }
            found => Ok(found),
        }
    }

    /// As [`look_for`](Call::look_for), for a command that will write.
    pub(crate) fn claim_for(&mut self, key: &[u8], kind: Kind) -> Outcome<Option<Found>> {
        match self.claim(key)? {
            Some(found) if found.entry.kind() != kind => Err(Failure::WRONG_TYPE),
            found => Ok(found),
        }
    }

    /// Sets the entry of a key that was just claimed; the old entry's value is already freed or reused.
    pub(crate) fn put(&mut self, key: &[u8], old: Option<Found>, new: Entry) -> Outcome {
        self.db.put(self.tx, key, old, new)?;
        if old.is_none() && self.tells_events() {
            self.env.posts.note_written(self.db.index(), key, true);
        }
        self.touch(key)
    }

    /// Removes a key and its value. Returns whether it was there.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Outcome<bool> {
        if self.claim(key)?.is_none() {
            return Ok(false);
        }
        self.touch(key)?;
        Ok(self.db.remove(self.tx, key)?)
    }

    /// Tells watchers that `key` was written.
    pub(crate) fn touch(&mut self, key: &[u8]) -> Outcome {
        Ok(self.env.touch(self.tx, &self.db, key)?)
    }

    /// An event of a key that does not follow from the command's name is to be published.
    pub(crate) fn tell(&self, key: &[u8], event: &'static str) {
        if self.tells_events() {
            self.env.posts.note_event(self.db.index(), key, event);
        }
    }

    /// A blocking command has found nothing: its client waits, or gets what a time-out answers.
    pub(crate) fn wait(&mut self, wish: Wish) -> Outcome {
        if !self.may_wait {
            self.out.null_array();
            return Ok(());
        }
        let (first, count) = wish.keys;
        let keys = self.args.first(first, count);
        let (bytes, most) =
            (keys.bytes() + keys.len() * PER_KEY, self.env.server.options.max_request);
        if bytes > most {
            let text = "ERR the keys that are waited for take more than";
            return Err(Failure::say(format!("{text} {most} bytes, see --max-request")));
        }
        self.env.waits.wish(wish);
        Ok(())
    }

    /// The argument at `index`, an integer.
    pub(crate) fn integer(&self, index: usize) -> Outcome<i64> {
        self.args.get(index).and_then(number::parse_i64).ok_or(Failure::NOT_INTEGER)
    }

    /// The argument at `index`, a number.
    pub(crate) fn float(&self, index: usize) -> Outcome<f64> {
        self.args.get(index).and_then(number::parse_f64).ok_or(Failure::NOT_FLOAT)
    }
}
