//! FAILOVER: a replica of this server takes its place, and this server becomes its replica.
//!
//! Clients go on while a replica catches up. When one has all that was there a moment ago, clients may not write any more
//! ([`Following::change`]), the replica gets the rest, and is asked to become the master. Until it is asked, this server can
//! become the master again; afterwards only if the replica refuses, or a client says so.

use super::{Following, TakeOver, lock};
use crate::server::Server;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::{error, info, warn};

/// A replica that has all, but for what was written within this time, has caught up.
const FRESH: Duration = Duration::from_millis(500);
/// How long clients may not write while the replica gets the rest.
const REST: Duration = Duration::from_secs(5);
/// How long it is tried to reach the replica, at least.
const REACH: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_millis(5);

/// What a client wants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The replica's address and port; any one without.
    pub(crate) target: Option<(String, u16)>,
    /// Whether the replica takes over when the time is over, whatever it lacks.
    pub(crate) force: bool,
    pub(crate) timeout: Option<Duration>,
}

/// How far it is, in Redis's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    No,
    Waits,
    Asks,
}

impl Phase {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::No => "no-failover",
            Phase::Waits => "waiting-for-sync",
            Phase::Asks => "failover-in-progress",
        }
    }
}

/// The failover under way, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Failover {
    /// A [`Phase`].
    phase: AtomicU8,
    aborted: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Failover {
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::SeqCst) {
            0 => Phase::No,
            1 => Phase::Waits,
            _ => Phase::Asks,
        }
    }

    fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    /// Ends it. Returns whether there was one.
    pub(crate) fn abort(&self) -> bool {
        let is_there = self.phase() != Phase::No;
        self.aborted.store(is_there, Ordering::SeqCst);
        is_there
    }

    /// Ends with the server.
    pub(super) fn stop(&self) {
        let thread = lock(&self.thread).take();
        // What it had to say is in the log.
        let _ = thread.map(JoinHandle::join);
    }
}

/// Why it comes to nothing.
enum GivenUp {
    /// It is tried again.
    Late,
    Over(&'static str),
}

impl Following {
    /// Begins a failover. Returns false if one is under way.
    pub(crate) fn fail_over(&self, plan: Plan) -> bool {
        let Some(server) = self.server.get().and_then(std::sync::Weak::upgrade) else {
            return false;
        };
        let failover = &server.following.failover;
        let mut thread = lock(&failover.thread);
        let (no, waits) = (Phase::No as u8, Phase::Waits as u8);
        if failover.phase.compare_exchange(no, waits, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return false;
        }
        failover.aborted.store(false, Ordering::SeqCst);
        let own = Arc::clone(&server);
        let body = move || {
            if let Err(why) = run(&own, &plan) {
                warn!("the failover has come to nothing: {why}");
            }
            own.following.end_failover();
        };
        match thread::Builder::new().name("failover".to_owned()).spawn(body) {
            Ok(new) => {
                let old = thread.replace(new);
                // It has ended.
                let _ = old.map(JoinHandle::join);
            }
            Err(error) => {
                error!("no thread for a failover: {error}");
                failover.set_phase(Phase::No);
            }
        }
        true
    }

    /// It is over: what clients may do is as the options say.
    fn end_failover(&self) {
        let facts = lock(&self.facts);
        self.failover.set_phase(Phase::No);
        self.set_gate(&facts);
    }
}

fn run(server: &Arc<Server>, plan: &Plan) -> Result<(), &'static str> {
    let following = &server.following;
    let until = plan.timeout.map(|timeout| Instant::now() + timeout);
    loop {
        following.failover.set_phase(Phase::Waits);
        let (address, port) = catch_up(server, plan, until)?;
        let has_rest = |end: u64| {
            let rest = Instant::now() + REST;
            loop {
                match step(server, plan, until) {
                    Ok(()) if has(server, Some((&address, port)), end).is_some() => return true,
                    Ok(()) if Instant::now() < rest => thread::sleep(SOON),
                    Ok(()) | Err(GivenUp::Over(_)) => return false,
                    Err(GivenUp::Late) => return true,
                }
            }
        };
        info!(address, port, "clients may not write until a replica has taken over");
        following.set_take_over(TakeOver::Wanted);
        following.failover.set_phase(Phase::Asks);
        match following.change(server, Some((address.clone(), port)), Some(&has_rest)) {
            Ok(_) => return ask(server, until),
            Err(_) => following.set_take_over(TakeOver::No),
        }
        if let Err(GivenUp::Over(why)) = step(server, plan, until) {
            return Err(why);
        }
        thread::sleep(SOON);
    }
}

/// Whether it goes on; `Late` says that the time is over, and the replica is to take over as it is.
fn step(server: &Server, plan: &Plan, until: Option<Instant>) -> Result<(), GivenUp> {
    if server.stopping() {
        return Err(GivenUp::Over("the server ends"));
    }
    if server.following.failover.aborted.load(Ordering::SeqCst) {
        return Err(GivenUp::Over("a client has said so"));
    }
    match until {
        Some(until) if Instant::now() >= until && plan.force => Err(GivenUp::Late),
        Some(until) if Instant::now() >= until => {
            Err(GivenUp::Over("no replica has caught up within the time"))
        }
        Some(_) | None => Ok(()),
    }
}

/// A replica, this one if it is given, that has the stream up to `place`.
fn has(server: &Server, target: Option<(&str, u16)>, place: u64) -> Option<(String, u16)> {
    let is_it = |address: &str, port| target.is_none_or(|target| target == (address, port));
    let all = server.replication.facts();
    let id = server.replication.feed.facts().id;
    let found = all.into_iter().filter(|one| one.id.as_ref() == Some(&id)).find(|one| {
        one.state == "online" && one.port > 0 && one.place >= place && is_it(&one.address, one.port)
    });
    found.map(|one| (one.address, one.port))
}

/// Waits for a replica that has all that was there a moment ago.
fn catch_up(
    server: &Server,
    plan: &Plan,
    until: Option<Instant>,
) -> Result<(String, u16), &'static str> {
    let target = plan.target.as_ref().map(|(address, port)| (address.as_str(), *port));
    let feed = &server.replication.feed;
    loop {
        let (goal, fresh) = (feed.facts().end, Instant::now() + FRESH);
        feed.say(&[b"REPLCONF", b"GETACK", b"*"]);
        while Instant::now() < fresh {
            if let Some(found) = has(server, target, goal) {
                return Ok(found);
            }
            match (step(server, plan, until), &plan.target) {
                (Ok(()), _) => thread::sleep(SOON),
                (Err(GivenUp::Over(why)), _) => return Err(why),
                (Err(GivenUp::Late), Some(target)) => return Ok(target.clone()),
                (Err(GivenUp::Late), None) => return Err("there is no replica to be forced"),
            }
        }
    }
}

/// Waits for the answer of the replica that is to become the master.
fn ask(server: &Server, until: Option<Instant>) -> Result<(), &'static str> {
    let following = &server.following;
    let reach = Instant::now() + REACH;
    let reach = until.map_or(reach, |until| until.max(reach));
    let why = loop {
        let is_aborted = following.failover.aborted.load(Ordering::SeqCst);
        match following.take_over() {
            TakeOver::No => {
                info!("the replica has taken over");
                return Ok(());
            }
            TakeOver::Refused => break "the replica refuses",
            TakeOver::Wanted if is_aborted || Instant::now() >= reach => {
                if following.move_take_over(TakeOver::Wanted, TakeOver::No) {
                    break "the replica was not reached";
                }
            }
            // Perhaps it is the master by now, but the client wants it so.
            TakeOver::Asked if is_aborted => break "a client has said so",
            TakeOver::Wanted | TakeOver::Asked if server.stopping() => {
                return Err("the server ends");
            }
            TakeOver::Wanted | TakeOver::Asked => thread::sleep(SOON),
        }
    };
    following.set_take_over(TakeOver::No);
    match following.change(server, None, None) {
        Ok(_) => Err(why),
        Err(_) => Err("and this server cannot become the master again: say REPLICAOF NO ONE"),
    }
}
