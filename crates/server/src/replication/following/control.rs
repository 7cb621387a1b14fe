//! Who is followed: REPLICAOF and the server's options, what the pool says of it, and the thread that follows.

use super::{Data, FollowFacts, Followed, Following, Link, lock};
use super::{load, master, stream};
use crate::command::{Failure, Outcome};
use crate::keyspace::followed::{self, Place};
use crate::keyspace::functions::Functions;
use crate::keyspace::{DATABASES, Database, turn};
use crate::server::Server;
use crate::store::{Session, Store};
use crate::waiting::{Delivery, Doom};
use crate::watch::Touched;
use perdura::{Error, Result};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, TryLockError, Weak};
use std::thread;
use std::time::{Duration, Instant};
use tracing::{error, info, warn};

/// From one attempt to the next.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How soon an end is noticed.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// How soon it is looked again whether a script lets others write.
const SOON: Duration = Duration::from_millis(1);
/// How long the effects of the last transactions are waited for when a master is followed.
const HOLD: Duration = Duration::from_secs(1);

/// The part of following that knows the pool.
pub(crate) trait Hands: Send + Sync {
    /// What the pool says.
    ///
    /// # Errors
    /// As a read.
    fn read(&self) -> Result<Option<Followed>>;

    /// Has the pool say it, durably. `clears` all data before. Returns the number of the transaction, which is in conflict with
    /// all others that have effects.
    ///
    /// # Errors
    /// As a write.
    fn write(&self, followed: &Followed, clears: bool) -> Result<u64>;

    /// A durable transaction of this kind that does nothing else. Returns its number.
    ///
    /// # Errors
    /// As a write.
    fn turn(&self) -> Result<u64>;

    /// Follows the master until another one is to be followed, or the server ends.
    fn follow(&self, server: &Arc<Server>, life: u64);
}

/// A pool's keyspace.
pub(crate) struct Own<S> {
    pub(crate) store: S,
    pub(crate) header: u64,
}

/// Why an attempt to follow has ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// Another master is to be followed, or none, or the server ends.
    Over,
    /// It is tried again after a while.
    Broken(String),
    /// It would end in the same way again.
    ForGood(String),
}

impl Ended {
    pub(super) fn broken(error: impl std::fmt::Display) -> Self {
        Ended::Broken(error.to_string())
    }
}

/// The pool's error.
impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        match error {
            Error::Full { .. } | Error::NoSpace { .. } => Ended::broken(error),
            error => Ended::ForGood(error.to_string()),
        }
    }
}

impl<S: Store + Sync> Hands for Own<S> {
    fn read(&self) -> Result<Option<Followed>> {
        let mut found = None;
        self.store.session()?.read(&mut |tx| {
            found = followed::read(tx, self.header)?;
            Ok(())
        })?;
        Ok(found)
    }

    fn turn(&self) -> Result<u64> {
        let (mut session, mut number) = (self.store.session()?, 0);
        let ticket = session.write(&mut |tx| {
            number = turn(tx, self.header)?;
            Ok(())
        })?;
        session.wait(ticket)?;
        Ok(number)
    }

    fn write(&self, followed: &Followed, clears: bool) -> Result<u64> {
        let (mut session, mut number) = (self.store.session()?, 0);
        let ticket = session.write(&mut |tx| {
            // Whoever writes at the same time is in conflict: it sees the gate as it is now.
            number = turn(tx, self.header)?;
            if clears {
                (0..DATABASES).try_for_each(|db| Database::new(self.header, db).clear(tx))?;
                if let Some(functions) = Functions::find(tx, self.header)? {
                    functions.clear(tx)?;
                }
            }
            followed::write(tx, self.header, followed)
        })?;
        session.wait(ticket)?;
        Ok(number)
    }

    fn follow(&self, server: &Arc<Server>, life: u64) {
        let following = &server.following;
        let mut pause = PAUSE;
        let mut last = String::new();
        while following.is_current(life) && !server.stopping() {
            let ended = self.attempt(server, life);
            let has_worked = following.facts().link == Link::Follows;
            following.break_link_of(life);
            let (text, is_for_good) = match ended {
                Ended::Over => return,
                Ended::Broken(text) => (text, false),
                Ended::ForGood(text) => (text, true),
            };
            following.note(life, |facts| {
                facts.link = Link::Pause;
                facts.down_since.get_or_insert_with(Instant::now);
                facts.failure = Some((text.clone(), is_for_good));
            });
            if is_for_good {
                error!("the master is not followed any longer: {text}. REPLICAOF begins again");
                return;
            }
            if text != last {
                warn!("the link to the master is broken: {text}");
            }
            last = text;
            pause = if has_worked { PAUSE } else { pause };
            let until = Instant::now() + pause;
            while Instant::now() < until && following.is_current(life) && !server.stopping() {
                thread::sleep(TICK);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl<S: Store + Sync> Own<S> {
    fn attempt(&self, server: &Arc<Server>, life: u64) -> Ended {
        match self.connect(server, life) {
            Ok(ended) | Err(ended) => {
                let is_over = !server.following.is_current(life) || server.stopping();
                if is_over { Ended::Over } else { ended }
            }
        }
    }

    fn connect(&self, server: &Arc<Server>, life: u64) -> std::result::Result<Ended, Ended> {
        let following = &server.following;
        following.note(life, |facts| {
            facts.link = Link::Connecting;
            facts.down_since.get_or_insert_with(Instant::now);
        });
        let (mut session, mut found) = (self.store.session()?, None);
        let ticket = session.read(&mut |tx| {
            found = followed::read(tx, self.header)?;
            Ok(())
        })?;
        // What the thread before this one has performed.
        session.wait(ticket)?;
        let Some(followed) = found else { return Ok(Ended::Over) };
        let Some((host, port)) = &followed.master else { return Ok(Ended::Over) };
        let known = match &followed.data {
            Data::Copy(place) => Some(following.place_to_ask_for(server, place.clone())),
            Data::Own | Data::Incomplete => None,
        };
        let mut master = master::connect(server, life, host, *port)?;
        let feed = &server.replication.feed;
        let text = |id: &[u8]| String::from_utf8_lossy(id).into_owned();
        let place = match master.ask(known.as_ref())? {
            master::Answer::Continue(id) => {
                let known = known.ok_or_else(|| Ended::broken("an answer to no question"))?;
                let place = Place { id: id.unwrap_or(known.id), ..known.clone() };
                following.in_turn(life, || {
                    feed.resume(&text(&known.id), &text(&place.id), place.at);
                })?;
                if place != known {
                    // The same stream, by another name from here on.
                    let data = Data::Copy(place.clone());
                    let told = Followed { data, ..followed.clone() };
                    self.note_data(server, life, told, false)?;
                }
                info!(place = place.at, "the master's stream goes on");
                place
            }
            master::Answer::Whole(place) => {
                info!("the master sends all of its data");
                server.following.note(life, |facts| facts.link = Link::Loads);
                // What is here goes when there is something in its place: a master may need minutes, or fail.
                let mut clear = || {
                    let incomplete = Followed { data: Data::Incomplete, ..followed.clone() };
                    self.note_data(server, life, incomplete, true)
                };
                let db = load::load(server, &mut session, self.header, &mut master, &mut clear)?;
                let place = Place { db, ..place };
                let whole = Followed { data: Data::Copy(place.clone()), ..followed.clone() };
                self.note_data(server, life, whole, false)?;
                following.in_turn(life, || feed.restart(text(&place.id), place.at))?;
                info!(place = place.at, "the master's data is here");
                place
            }
        };
        following.note(life, |facts| {
            (facts.link, facts.place, facts.db) = (Link::Follows, place.at, place.db);
            (facts.down_since, facts.failure) = (None, None);
        });
        stream::follow(server, &mut session, self.header, &mut master, place)
    }

    /// Has the pool say what the data is, and lets clients see it, or not.
    fn note_data(
        &self,
        server: &Server,
        life: u64,
        followed: Followed,
        clears: bool,
    ) -> std::result::Result<(), Ended> {
        let following = &server.following;
        let _turn = lock(&following.turn);
        if !following.is_current(life) {
            return Err(Ended::Over);
        }
        if followed.data == Data::Incomplete {
            // Before it is so.
            following.note(life, |facts| {
                facts.followed = Some(followed.clone());
                following.set_gate(facts);
            });
            end_waits(server);
            server.replication.feed.forget();
        }
        let flushed = clears.then(|| Flushed::begin(server));
        let written = self.write(&followed, clears);
        drop(flushed);
        if let Err(error) = written {
            // What the pool says goes on to be so.
            if let Ok(found) = self.read() {
                following.note(life, |facts| {
                    facts.followed = found;
                    following.set_gate(facts);
                });
            }
            return Err(error.into());
        }
        following.note(life, |facts| {
            if let Data::Copy(place) = &followed.data {
                (facts.place, facts.db) = (place.at, place.db);
            }
            facts.followed = Some(followed);
            following.set_gate(facts);
        });
        Ok(())
    }
}

impl Following {
    /// Takes over the pool, which may say that another server is to be followed; so may the options. The thread begins by
    /// [`start`](Self::start).
    ///
    /// # Errors
    /// As reads and writes of the pool.
    pub(crate) fn open(
        &self,
        server: Weak<Server>,
        hands: Box<dyn Hands>,
        wanted: Option<&(String, u16)>,
    ) -> Result<()> {
        let mut found = hands.read()?;
        if let Some(wanted) = wanted {
            let known = found.as_ref().and_then(|found| found.master.as_ref());
            if found.as_ref().is_some_and(|found| found.told) && known != Some(wanted) {
                let known =
                    known.map_or("nobody".to_owned(), |(host, port)| format!("{host}:{port}"));
                warn!(
                    "a client has told this server to follow {known}: that counts, and not the option replicaof"
                );
            } else if known != Some(wanted) {
                let data = found.map(|found| found.data).unwrap_or_default();
                let new = Followed { master: Some(wanted.clone()), told: false, data };
                hands.write(&new, false)?;
                found = Some(new);
            }
        }
        let follows = found.as_ref().is_some_and(|found| found.master.is_some());
        self.life.store(u64::from(follows), Ordering::SeqCst);
        if let Some(server) = server.upgrade().filter(|_| follows) {
            match found.as_ref().map(|found| &found.data) {
                Some(Data::Copy(Place { id, at, .. })) => {
                    let id = String::from_utf8_lossy(id).into_owned();
                    server.replication.feed.restart(id, *at);
                }
                Some(Data::Own | Data::Incomplete) | None => server.replication.feed.forget(),
            }
        }
        let mut facts = lock(&self.facts);
        if let Some(Followed { data: Data::Copy(place), .. }) = &found {
            (facts.place, facts.db) = (place.at, place.db);
        }
        facts.followed = found;
        facts.down_since = Some(Instant::now());
        self.set_gate(&facts);
        // The only ones that set them.
        let _ = (self.server.set(server), self.hands.set(hands));
        Ok(())
    }

    /// Begins to follow, if there is a master.
    pub(crate) fn start(&self) {
        let life = self.life.load(Ordering::SeqCst);
        if !self.is_replica() {
            return;
        }
        let Some(server) = self.server.get().and_then(Weak::upgrade) else { return };
        server.watch.share();
        let thread = thread::Builder::new().name("following".to_owned()).spawn(move || {
            if let Some(hands) = server.following.hands.get() {
                hands.follow(&server, life);
            }
        });
        match thread {
            Ok(thread) => {
                let mut threads = lock(&self.threads);
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
            }
            Err(error) => error!("no thread that follows the master: {error}"),
        }
    }

    /// Ends with the server.
    pub(crate) fn stop(&self) {
        self.failover.stop();
        self.break_link();
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            // What it had to say is in the log.
            let _ = thread.join();
        }
    }

    /// Follows this master from now on, or nobody, as a client says. Returns false if that is so already. A server that was the
    /// master follows only if `waits`, where it is given, returns true for the end of its stream.
    ///
    /// # Errors
    /// As writes of the pool, or a script runs for too long: then nothing has changed.
    pub(crate) fn change(
        &self,
        server: &Server,
        master: Option<(String, u16)>,
        waits: Option<&dyn Fn(u64) -> bool>,
    ) -> Outcome<bool> {
        let _alone = lock(&self.changing);
        let old = self.facts();
        let is_given_up = old.failure.as_ref().is_some_and(|(_, is_for_good)| *is_for_good);
        if old.master() == master.as_ref() && !(is_given_up && master.is_some()) {
            return Ok(false);
        }
        let Some(hands) = self.hands.get() else {
            return Err(Error::Invalid("there is no pool").into());
        };
        // What the old thread does meanwhile is over, and it does no more.
        let turn = self.await_turn(server)?;
        let life = self.life.load(Ordering::SeqCst);
        let writing = server.runs.of(server.stats.len()).write();
        let done = match master {
            Some(master) => self.begin_following(server, &**hands, &old, master, waits),
            None => self.end_following(server, &**hands, &old),
        };
        drop((writing, turn));
        // Also if it failed: what was followed before is followed again, unless its thread was not disturbed.
        if !self.is_current(life) {
            self.start();
        }
        done.map(|()| true)
    }

    /// The place from which a master is asked to go on, as the pool has it, or the latest one if this server has replicas, which
    /// have all up to there. Without any the pool's is better: a new master may have a PING less than the old one.
    fn place_to_ask_for(&self, server: &Server, place: Place) -> Place {
        match server.replication.count() {
            0 => place,
            _ => lock(&self.facts).latest(place),
        }
    }

    /// Changes the stream that is passed on, unless another master is followed by now, or none.
    fn in_turn(&self, life: u64, change: impl FnOnce()) -> std::result::Result<(), Ended> {
        let _turn = lock(&self.turn);
        if !self.is_current(life) {
            return Err(Ended::Over);
        }
        change();
        Ok(())
    }

    /// The right to change what is followed, and to write, which a script of a client's may have for long.
    ///
    /// # Errors
    /// When the script is overdue.
    fn await_turn(&self, server: &Server) -> Outcome<MutexGuard<'_, ()>> {
        loop {
            if !server.runs.has_long_beside(server.stats.len()) {
                match self.turn.try_lock() {
                    Ok(turn) => return Ok(turn),
                    Err(TryLockError::Poisoned(turn)) => return Ok(turn.into_inner()),
                    Err(TryLockError::WouldBlock) => {}
                }
            }
            if let Some(busy) = server.runs.busy() {
                return Err(Failure::Say(busy.text().into()));
            }
            thread::sleep(SOON);
        }
    }

    fn begin_following(
        &self,
        server: &Server,
        hands: &dyn Hands,
        old: &FollowFacts,
        master: (String, u16),
        waits: Option<&dyn Fn(u64) -> bool>,
    ) -> Outcome {
        let leads = old.master().is_none();
        let data = match &old.followed {
            // What was written is in no master's stream but this server's own.
            Some(_) if !leads => match hands.read()?.map(|followed| followed.data) {
                Some(Data::Copy(place)) => Data::Copy(self.place_to_ask_for(server, place)),
                Some(data @ (Data::Own | Data::Incomplete)) => data,
                None => Data::Own,
            },
            Some(_) | None => Data::Own,
        };
        let mut new = Followed { master: Some(master), told: true, data };
        self.begin_life(true);
        self.show(&new);
        let mut ends_in_data = false;
        let mut hold = |data: &mut Data| {
            if waits.is_some() {
                server.replication.feed.say(&[b"REPLCONF", b"GETACK", b"*"]);
            }
            let held = server.replication.feed.hold(hands.turn()?, HOLD);
            ends_in_data = held.is_some();
            if let Some(waits) = waits
                && !held.as_ref().is_some_and(|(_, end)| waits(*end))
            {
                return Err(Failure::Say("ERR no replica has all".into()));
            }
            if let Some((id, at)) = held
                && let Ok(id) = id.as_bytes().try_into()
            {
                *data = Data::Copy(Place { id, at, db: 0 });
            }
            Ok(())
        };
        let held = if leads { hold(&mut new.data) } else { Ok(()) };
        if let Err(failure) = held.and_then(|()| Ok(hands.write(&new, false)?)) {
            // It is as it was.
            let feed = &server.replication.feed;
            if leads && feed.is_passed_on() {
                feed.prepare();
                match (hands.turn(), ends_in_data) {
                    // Nothing was written meanwhile: replicas stay.
                    (Ok(number), true) => feed.lead_on(number),
                    (Ok(number), false) => feed.promote(number),
                    (Err(_), _) => feed.turn_off(),
                }
            }
            self.begin_life(!leads);
            self.show(&old.followed.clone().unwrap_or_default());
            return Err(failure);
        }
        self.show(&new);
        end_waits(server);
        let (host, port) = new.master.unwrap_or_default();
        info!(host, port, "a client has told this server to follow a master");
        Ok(())
    }

    fn end_following(&self, server: &Server, hands: &dyn Hands, old: &FollowFacts) -> Outcome {
        let feed = &server.replication.feed;
        // The pool knows, and not the facts, which say so before a transaction that may fail.
        let clears = hands.read()?.is_some_and(|followed| followed.data == Data::Incomplete);
        if clears {
            warn!("the master's data was not whole: all of it is deleted");
        }
        // Replicas of the old master go on with this one, as far as they have no more than it has.
        let goes_on = old.id().is_some_and(|id| id == feed.facts().id);
        if goes_on {
            feed.prepare();
        }
        let flushed = clears.then(|| Flushed::begin(server));
        let written = hands.write(&Followed { master: None, told: true, data: Data::Own }, clears);
        drop(flushed);
        match written {
            Ok(number) if goes_on => feed.promote(number),
            Ok(_) => feed.lead_anew(),
            Err(error) => {
                feed.stay();
                return Err(error.into());
            }
        }
        server.replication.lead();
        // Not before: a replica that comes now begins behind the transaction that has deleted what was not whole.
        self.begin_life(false);
        self.show(&Followed { master: None, told: true, data: Data::Own });
        info!("a client has told this server to follow no master");
        Ok(())
    }

    /// What was followed before is over.
    fn begin_life(&self, follows: bool) {
        let life = (self.life.load(Ordering::SeqCst) / 2 + 1) * 2 + u64::from(follows);
        self.life.store(life, Ordering::SeqCst);
        self.break_link();
    }

    fn show(&self, new: &Followed) {
        let mut facts = lock(&self.facts);
        let (place, db) = match &new.data {
            Data::Copy(place) => (place.at, place.db),
            Data::Own | Data::Incomplete => (facts.place, facts.db),
        };
        *facts = FollowFacts { followed: Some(new.clone()), place, db, ..Default::default() };
        facts.down_since = Some(Instant::now());
        self.set_gate(&facts);
    }
}

/// All data is deleted, by a transaction that no client's command is: exports and snapshots end, and watched keys count as
/// written while this lives, and afterwards.
struct Flushed<'a> {
    server: &'a Server,
    touched: Touched,
}

impl<'a> Flushed<'a> {
    fn begin(server: &'a Server) -> Self {
        server.save.walking.flush();
        server.replication.walking.flush();
        let touched = Touched::default();
        for db in 0..DATABASES {
            for (key, _) in server.watch.flush(db, &touched) {
                server.watch.touch(db, &key, &touched);
            }
        }
        Flushed { server, touched }
    }
}

impl Drop for Flushed<'_> {
    fn drop(&mut self) {
        self.server.tell_trackers(self.server.tracking.invalidate_all());
        self.server.watch.settle(&self.touched);
    }
}

/// Ends the waits of all clients, as Redis does.
fn end_waits(server: &Server) {
    let ids: Vec<u64> = server.clients().keys().copied().collect();
    for id in ids {
        if let Some(waiter) = server.waiting.unblock(id)
            && let Some(delivery) = Delivery::of(&waiter, Doom::Demoted)
            && let Some(deliver) = server.deliver.get()
        {
            deliver(delivery);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::store::Facts;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    /// A pool with a master's data, all of it or a `part`, which takes writes only if it `has_room`.
    #[derive(Default)]
    struct Copied {
        part: bool,
        has_room: bool,
        /// Whether all was to be deleted.
        clears: Arc<AtomicBool>,
        threads: Arc<AtomicUsize>,
    }

    impl Hands for Copied {
        fn read(&self) -> Result<Option<Followed>> {
            let place = Place { id: [b'x'; 40], at: 7, db: 0 };
            let master = Some(("127.0.0.1".to_owned(), 1));
            let data = if self.part { Data::Incomplete } else { Data::Copy(place) };
            Ok(Some(Followed { master, told: true, data }))
        }

        fn write(&self, _: &Followed, clears: bool) -> Result<u64> {
            self.clears.store(clears, Ordering::SeqCst);
            if self.has_room { Ok(2) } else { Err(Error::full(8)) }
        }

        fn turn(&self) -> Result<u64> {
            Ok(1)
        }

        fn follow(&self, _: &Arc<Server>, _: u64) {
            self.threads.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn opened(hands: Copied) -> Arc<Server> {
        let address = ([127, 0, 0, 1], 0).into();
        let server = Server::new(Options::new().threads(1), address, Box::new(Facts::default));
        let server = Arc::new(server);
        server.following.open(Arc::downgrade(&server), Box::new(hands), None).unwrap();
        server
    }

    /// From its first moment on, also before its master is reached, whatever it has of that one's data.
    #[test]
    fn a_server_that_follows_makes_no_stream_of_its_own() {
        for part in [false, true] {
            let server = opened(Copied { part, ..Copied::default() });
            let feed = &server.replication.feed;
            assert_eq!(feed.turn_on(), None, "part: {part}");
            let facts = feed.facts();
            assert_eq!((facts.id == "x".repeat(40), facts.end), (!part, if part { 0 } else { 7 }));
        }
    }

    /// Those that followed the old master have an hour to come, however long this server has followed it.
    #[test]
    fn a_promoted_server_keeps_its_stream_for_an_hour() {
        const HOUR: Duration = Duration::from_secs(3600);
        let server = opened(Copied { has_room: true, ..Copied::default() });
        let feed = &server.replication.feed;
        thread::sleep(Duration::from_millis(20));
        let before = Instant::now();
        assert!(matches!(server.following.change(&server, None, None), Ok(true)));
        let after = Instant::now();
        let facts = feed.facts();
        // Those that have all of the old stream go on, behind what chooses the database.
        assert_eq!(facts.before, Some(("x".repeat(40), 7)));
        assert_eq!(
            (facts.start, facts.end),
            (7, 7 + b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n".len() as u64)
        );
        server.replication.tick(&server, before + HOUR - Duration::from_millis(1));
        assert_eq!(feed.facts().id, facts.id);
        assert!(feed.is_on());
        server.replication.tick(&server, after + HOUR);
        assert!(!feed.is_on());
    }

    #[test]
    fn a_promotion_that_fails_leaves_one_that_follows() {
        let hands = Copied::default();
        let (clears, threads) = (Arc::clone(&hands.clears), Arc::clone(&hands.threads));
        let server = opened(hands);
        let following = &server.following;
        following.start();
        // As before a clear that fails: the pool goes on to have all.
        let mut facts = lock(&following.facts);
        facts.followed.as_mut().unwrap().data = Data::Incomplete;
        drop(facts);
        assert!(following.change(&server, None, None).is_err());
        assert!(following.is_replica() && !clears.load(Ordering::SeqCst));
        following.stop();
        // No second thread follows beside the first one.
        assert_eq!(threads.load(Ordering::SeqCst), 1);
    }
}
