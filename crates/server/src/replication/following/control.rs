//! Who is followed: REPLICAOF and the server's options, what the pool says of it, and the thread that follows.

use super::{Data, Followed, Following, Link, lock};
use super::{load, master, stream};
use crate::keyspace::followed::{self, Place};
use crate::keyspace::functions::Functions;
use crate::keyspace::{DATABASES, Database, turn};
use crate::server::Server;
use crate::store::{Session, Store};
use crate::waiting::{Delivery, Doom};
use crate::watch::Touched;
use perdura::{Error, Result};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};
use tracing::{error, info, warn};

/// From one attempt to the next.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How soon an end is noticed.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// The part of following that knows the pool.
pub(crate) trait Hands: Send + Sync {
    /// What the pool says.
    ///
    /// # Errors
    /// As a read.
    fn read(&self) -> Result<Option<Followed>>;

    /// Has the pool say it, durably. `clears` all data before.
    ///
    /// # Errors
    /// As a write.
    fn write(&self, followed: &Followed, clears: bool) -> Result<()>;

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

    fn write(&self, followed: &Followed, clears: bool) -> Result<()> {
        let mut session = self.store.session()?;
        let ticket = session.write(&mut |tx| {
            // Whoever writes at the same time is in conflict: it sees the gate as it is now.
            turn(tx, self.header)?;
            if clears {
                (0..DATABASES).try_for_each(|db| Database::new(self.header, db).clear(tx))?;
                if let Some(functions) = Functions::find(tx, self.header)? {
                    functions.clear(tx)?;
                }
            }
            followed::write(tx, self.header, followed)
        })?;
        session.wait(ticket)
    }

    fn follow(&self, server: &Arc<Server>, life: u64) {
        let following = &server.following;
        let mut pause = PAUSE;
        let mut last = String::new();
        while following.is_current(life) && !server.stopping() {
            let began = Instant::now();
            let ended = self.attempt(server, life);
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
            // One that has worked for a while is tried again at once.
            pause = if began.elapsed() > LONGEST_PAUSE { PAUSE } else { pause };
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
        let mut session = self.store.session()?;
        let Some(followed) = self.read()? else { return Ok(Ended::Over) };
        let Some((host, port)) = &followed.master else { return Ok(Ended::Over) };
        let mut master = master::connect(server, life, host, *port)?;
        let known = match &followed.data {
            Data::Copy(place) => Some(place.clone()),
            Data::Own | Data::Incomplete => None,
        };
        let place = match master.ask(known.as_ref())? {
            master::Answer::Continue(id) => {
                let known = known.ok_or_else(|| Ended::broken("an answer to no question"))?;
                let place = Place { id: id.unwrap_or(known.id), ..known.clone() };
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
                info!(place = place.at, "the master's data is here");
                place
            }
        };
        following.note(life, |facts| {
            (facts.link, facts.place) = (Link::Follows, place.at);
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
        }
        let flushed = clears.then(|| Flushed::begin(server));
        self.write(&followed, clears)?;
        drop(flushed);
        following.note(life, |facts| {
            if let Data::Copy(place) = &followed.data {
                facts.place = place.at;
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
        let mut facts = lock(&self.facts);
        if let Some(Followed { data: Data::Copy(place), .. }) = &found {
            facts.place = place.at;
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
        self.break_link();
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            // What it had to say is in the log.
            let _ = thread.join();
        }
    }

    /// Follows this master from now on, or nobody, as a client says. Returns false if that is so already.
    ///
    /// # Errors
    /// As writes of the pool: then nothing has changed.
    pub(crate) fn change(&self, server: &Server, master: Option<(String, u16)>) -> Result<bool> {
        let _alone = lock(&self.changing);
        let old = self.facts();
        let is_given_up = old.failure.as_ref().is_some_and(|(_, is_for_good)| *is_for_good);
        if old.master() == master.as_ref() && !(is_given_up && master.is_some()) {
            return Ok(false);
        }
        let Some(hands) = self.hands.get() else {
            return Err(Error::Invalid("there is no pool"));
        };
        // What the old thread does meanwhile is over, and it does no more.
        let turn = lock(&self.turn);
        let follows = master.is_some();
        let life = (self.life.load(Ordering::SeqCst) / 2 + 1) * 2 + u64::from(follows);
        let data = match (&old.followed, follows) {
            // What is written from here on is in no master's stream.
            (_, false) | (None, _) => Data::Own,
            (Some(_), true) => match hands.read()? {
                Some(followed) => followed.data,
                None => Data::Own,
            },
        };
        if follows {
            self.begin_life(life);
        }
        let new = Followed { master, told: true, data };
        let clears = !follows && old.is_incomplete();
        if follows {
            server.replication.leave();
            self.show(&new);
        }
        if clears {
            warn!("the master's data was not whole: all of it is deleted");
        }
        let flushed = clears.then(|| Flushed::begin(server));
        let written = hands.write(&new, clears);
        drop(flushed);
        if let Err(error) = written {
            // It is as it was.
            if follows {
                let followed = old.followed.unwrap_or_default();
                self.begin_life(life + 1 + u64::from(followed.master.is_some()));
                self.show(&followed);
                drop(turn);
                self.start();
            }
            return Err(error);
        }
        if follows {
            end_waits(server);
        } else {
            // Not before: a replica that comes now begins behind the transaction that has deleted what was not whole.
            self.begin_life(life);
            self.show(&new);
        }
        match &new.master {
            Some((host, port)) => {
                info!(host, port, "a client has told this server to follow a master")
            }
            None => info!("a client has told this server to follow no master"),
        }
        drop(turn);
        self.start();
        Ok(true)
    }

    /// What was followed before is over.
    fn begin_life(&self, life: u64) {
        self.life.store(life, Ordering::SeqCst);
        self.break_link();
    }

    fn show(&self, new: &Followed) {
        let mut facts = lock(&self.facts);
        let place = facts.place;
        *facts = super::FollowFacts { followed: Some(new.clone()), place, ..Default::default() };
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
