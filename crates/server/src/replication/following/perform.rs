//! A master's commands, performed in transactions of the pool that change the place in its stream, too.

use super::control::Ended;
use super::{Following, lock};
use crate::command::{Call, Command, Env, Notes, blocking, perform};
use crate::keyspace::{Database, Hint, followed, garbage, now};
use crate::listing::Listing;
use crate::net::recheck;
use crate::protocol::args::OwnedArgs;
use crate::protocol::{Protocol, Reply};
use crate::room::{self, Lack};
use crate::server::Server;
use crate::stats::Stats;
use crate::store::Session;
use perdura::{Error, Tx};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::MutexGuard;
use std::thread;
use std::time::Duration;

/// Entries or blocks of the garbage list that a transaction of a load frees.
const FREED: u64 = 64;
/// How soon it is looked again whether a script lets others write.
const SOON: Duration = Duration::from_millis(1);
/// Room for bytes of the stream that is kept.
const KEEP: usize = 1 << 20;

/// A command.
pub(super) struct Step {
    pub(super) command: &'static Command,
    pub(super) args: OwnedArgs,
    pub(super) db: u8,
}

/// Commands that belong together, and where the master's stream is after them.
pub(super) struct Unit {
    pub(super) steps: Vec<Step>,
    pub(super) at: u64,
    pub(super) db: u8,
}

/// A thread's means of performing commands.
pub(super) struct Performer<'a, S: Session> {
    pub(super) server: &'a Server,
    session: &'a mut S,
    header: u64,
    pub(super) life: u64,
    stats: Stats,
    notes: Notes,
    client: Listing,
    count: u64,
    last: Option<S::Ticket>,
    /// Bytes of the master's stream; those up to `passed` were passed on, and the others begin at `from` in the stream.
    raw: Vec<u8>,
    passed: usize,
    from: u64,
}

impl<'a, S: Session> Performer<'a, S> {
    pub(super) fn new(server: &'a Server, session: &'a mut S, header: u64, life: u64) -> Self {
        let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Performer {
            server,
            session,
            header,
            life,
            stats: Stats::default(),
            notes: Notes::default(),
            // No client has this number.
            client: Listing::new(u64::MAX, nobody, nobody),
            count: 0,
            last: None,
            raw: Vec::new(),
            passed: 0,
            from: 0,
        }
    }

    /// The stream is passed on to replicas of this server from here.
    pub(super) fn passes_on_from(&mut self, at: u64) {
        self.from = at;
    }

    /// Where bytes of the stream go when they are read.
    pub(super) fn passes(&mut self) -> &mut Vec<u8> {
        &mut self.raw
    }

    /// How many of them wait.
    pub(super) fn unpassed(&self) -> usize {
        self.raw.len() - self.passed
    }

    /// The stream was performed up to `at`: replicas get it when that is durable. The caller holds the turn.
    pub(super) fn pass(&mut self, at: u64) {
        if self.following().is_current(self.life) {
            let len = (at.wrapping_sub(self.from) as usize).min(self.unpassed());
            let bytes = &self.raw[self.passed..self.passed + len];
            self.server.replication.feed.pass(self.from, bytes);
            self.passed += len;
            self.from = self.from.wrapping_add(len as u64);
        }
    }

    /// The right to perform something, while no script of a client's keeps others from writing: whoever tells this server to
    /// follow another one waits for the turn.
    pub(super) fn turn(&self) -> MutexGuard<'a, ()> {
        let server = self.server;
        loop {
            let turn = lock(&server.following.turn);
            if !server.runs.has_long_beside(server.stats.len()) || server.stopping() {
                return turn;
            }
            drop(turn);
            thread::sleep(SOON);
        }
    }

    fn following(&self) -> &'a Following {
        &self.server.following
    }

    /// Performs units in one transaction, or, if it would be too large, in several; the place in the stream is then after
    /// them, if it `advances`. The caller holds the turn.
    pub(super) fn perform(&mut self, units: &[Unit], advances: bool) -> Result<(), Ended> {
        if units.is_empty() {
            return Ok(());
        }
        if !self.following().is_current(self.life) {
            return Err(Ended::Over);
        }
        match self.transaction(units, advances) {
            Err(Failed::Refused(Refusal { unit, text })) => {
                // Those before it are performed. It is not tried again: a script that was killed would run once more.
                self.perform(&units[..unit], advances)?;
                Err(Ended::ForGood(text))
            }
            Err(Failed::Pool(Error::TooLarge { .. } | Error::Full { .. })) if units.len() > 1 => {
                let (first, rest) = units.split_at(units.len() / 2);
                self.perform(first, advances)?;
                self.perform(rest, advances)
            }
            Err(Failed::Pool(Error::TooLarge { needed, available })) => {
                Err(Ended::ForGood(format!(
                    "a transaction of the master's needs {needed} bytes of the pool's log, which has {available}; move to a \
                 pool made with `perdura pool create --log`"
                )))
            }
            Err(Failed::Pool(error)) => {
                if let Error::Io(_) = error {
                    self.server.fail(&error);
                }
                Err(error.into())
            }
            Ok(()) => Ok(()),
        }
    }

    fn transaction(&mut self, units: &[Unit], advances: bool) -> Result<(), Failed> {
        let worker = self.server.stats.len();
        self.count += 1;
        let Performer { server, session, header, stats, notes, count, .. } = self;
        // When a key is gone, the master says so.
        let mut env = Env { cutoff: 0, ..notes.env(server, worker, stats, *header, now(), *count) };
        let mut tries = 0;
        loop {
            let mut refused = None;
            let writing = env.server.runs.of(worker).write();
            let done = session.write(&mut |tx| {
                refused = None;
                env.begin_writing(tx)?;
                body(tx, env, &self.client, units, &mut refused)?;
                // Nobody is shown a part of a snapshot.
                if advances && env.server.waiting.count() > 0 {
                    blocking::serve(tx, env, None)?;
                }
                if advances && let Some(last) = units.last() {
                    followed::advance(tx, env.keyspace, last.at, last.db)?;
                } else {
                    garbage::sweep(tx, env.keyspace, FREED)?;
                }
                env.tally.end();
                env.end_writing(tx)
            });
            drop(writing);
            env.end(&done);
            env.server.runs.of(worker).settle();
            match done {
                Ok(ticket) => {
                    self.last = self.last.max(Some(ticket));
                    match units.last().filter(|_| advances) {
                        Some(last) => self.pass(last.at),
                        None => {
                            drop(self.notes.posts.take_ready());
                            drop(self.notes.tracked.take_ready());
                        }
                    }
                    return Ok(());
                }
                Err(_) if refused.is_some() => {
                    return Err(refused.map_or(Failed::Pool(Error::ReadOnly), Failed::Refused));
                }
                Err(error @ (Error::Full { .. } | Error::NoSpace { .. })) => {
                    let lack = Lack::of(&error);
                    let made = room::make(&mut **session, env, tries, &lack, &mut self.last);
                    if !made.map_err(Failed::Pool)? {
                        return Err(Failed::Pool(error));
                    }
                    tries += 1;
                    env.seed = env.seed.wrapping_add(1);
                }
                Err(error) => return Err(Failed::Pool(error)),
            }
        }
    }

    /// Replicas get what was passed on, which is durable. If another master is followed by now, what was passed on since may not
    /// be: that is the affair of its thread.
    fn release(&self) {
        let _turn = lock(&self.following().turn);
        if self.following().is_current(self.life) {
            self.server.replication.feed.release();
        }
    }

    /// Waits until all that was performed is durable, and lets clients hear of it.
    pub(super) fn wait(&mut self) -> Result<(), Ended> {
        if let Some(last) = self.last.take() {
            self.session.wait(last).inspect_err(|error| self.server.fail(error))?;
        }
        self.release();
        self.raw.drain(..std::mem::take(&mut self.passed));
        self.raw.shrink_to(KEEP);
        if let Some(deliver) = self.server.deliver.get() {
            self.notes.waits.take_deliveries().into_iter().for_each(deliver);
        }
        if self.notes.posts.are_ready()
            && let Some(post) = self.server.post.get()
        {
            post(self.notes.posts.take_ready());
        }
        self.server.tell_trackers(self.notes.tracked.take_ready());
        drop(self.notes.effects.take_ready());
        if self.notes.waits.has_recheck() {
            self.recheck()?;
        }
        Ok(())
    }

    /// Serves clients whose keys are to be looked at again.
    fn recheck(&mut self) -> Result<(), Ended> {
        let Performer { server, session, header, stats, notes, count, .. } = self;
        let env = notes.env(server, server.stats.len(), stats, *header, now(), *count);
        if let Some(ticket) = recheck(*session, env)? {
            session.wait(ticket)?;
            if let Some(deliver) = self.server.deliver.get() {
                self.notes.waits.take_deliveries().into_iter().for_each(deliver);
            }
        }
        Ok(())
    }
}

/// Why a transaction of commands is not committed.
enum Failed {
    Pool(Error),
    Refused(Refusal),
}

/// A command's reply is an error.
struct Refusal {
    /// Which of the units has the command.
    unit: usize,
    text: String,
}

/// Performs the commands of all units.
fn body(
    tx: &mut dyn Tx,
    env: Env<'_>,
    client: &Listing,
    units: &[Unit],
    refused: &mut Option<Refusal>,
) -> perdura::Result<()> {
    let mut reply = Vec::new();
    let steps = units.iter().enumerate();
    let steps = steps.flat_map(|(at, unit)| unit.steps.iter().map(move |step| (at, step)));
    for (unit, Step { command, args, db }) in steps {
        reply.clear();
        let call = Call {
            tx: &mut *tx,
            env,
            db: Database::new(env.keyspace, *db),
            client,
            args: args.as_args(),
            out: Reply::new(&mut reply, Protocol::Resp2),
            may_wait: false,
            near: Hint::default(),
        };
        perform::one(call, command)?;
        if reply.first() == Some(&b'-') {
            let error = String::from_utf8_lossy(&reply[1..]).trim_end().to_owned();
            let text = format!(
                "the master has sent {}, which fails here: {error}",
                command.name.to_uppercase()
            );
            *refused = Some(Refusal { unit, text });
            return Err(Error::Aborted(error));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace;
    use crate::keyspace::followed::{Data, Followed, Place};
    use crate::options::Options;
    use crate::store::Facts;
    use std::sync::atomic::Ordering;

    fn pool() -> (tempfile::TempDir, perdura::Pool) {
        let folder = tempfile::tempdir().unwrap();
        let options = perdura::Options::new().size(16 << 20).domain(Some(perdura::Domain::Process));
        let pool = options.create(folder.path().join("pool")).unwrap();
        (folder, pool)
    }

    /// A server that follows the first master of its life.
    fn server() -> Server {
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        let server = Server::new(Options::new().threads(1), address, Box::new(Facts::default));
        server.following.life.store(1, Ordering::SeqCst);
        server
    }

    /// What was read of a master's commands before another one was followed is not performed, nor is its place noted.
    #[test]
    fn commands_of_an_earlier_master_are_not_performed() {
        let (_folder, pool) = pool();
        let mut session = pool.session().unwrap();
        let header = session.transaction(|tx| keyspace::open(tx, 1)).unwrap().unwrap();
        let data = Data::Copy(Place { id: [b'x'; 40], at: 50, db: 0 });
        let known = Followed { master: Some(("127.0.0.1".to_owned(), 1)), told: true, data };
        session.transaction(|tx| followed::write(tx, header, &known)).unwrap();
        let place_in = |session: &mut perdura::Handle| {
            let found = session.read(|tx| followed::read(tx, header)).unwrap();
            match found.unwrap().data {
                Data::Copy(place) => place.at,
                other => panic!("{other:?}"),
            }
        };
        let server = server();
        let mut performer = Performer::new(&server, &mut session, header, 1);
        let unit = |at| Unit { steps: Vec::new(), at, db: 0 };
        performer.perform(&[unit(60)], true).unwrap();
        server.following.life.store(3, Ordering::SeqCst);
        assert!(matches!(performer.perform(&[unit(70)], true), Err(Ended::Over)));
        assert_eq!(place_in(&mut session), 60);
    }

    /// What was read of a master's stream before another one was followed is no part of that one's.
    #[test]
    fn a_stream_has_nothing_of_an_earlier_one() {
        let (_folder, pool) = pool();
        let mut session = pool.session().unwrap();
        let server = server();
        let (feed, following) = (&server.replication.feed, &server.following);
        feed.restart("x".repeat(40), 50);
        let mut performer = Performer::new(&server, &mut session, 0, 1);
        performer.passes_on_from(50);
        performer.passes().extend_from_slice(b"abcdef");
        performer.pass(53);
        performer.wait().unwrap();
        assert_eq!(feed.facts().end, 53);
        // Of the next master's stream less is here, or more, or as much.
        for place in [0, 53, 1000] {
            following.life.fetch_add(2, Ordering::SeqCst);
            feed.restart("y".repeat(40), place);
            performer.pass(56);
            performer.wait().unwrap();
            feed.release();
            let facts = feed.facts();
            assert_eq!((facts.start, facts.end), (place, place));
        }
    }
}
