//! One turn: the requests of the ready connections are done, as far as the turn's time allows, made
//! durable once, and answered.
//!
//! A turn consists of rounds, and a round of two steps:
//!
//! 1. Planning takes requests from the connections one after the other, a few from each, until the round is full or
//!    no connection has more. The next round begins with the connection at which this one ended, so that no connection
//!    fills all rounds. A request that works on no data (AUTH, MULTI, a malformed one) is answered at once, but only
//!    while no request of the same connection is in the round: otherwise replies would change places, or the client's
//!    state would change before its earlier requests have run. The connection is then blocked until the next round.
//! 2. Execution runs the round's requests in a few transactions: one for all that only read, unless it gets too large, and
//!    one for some that write. All of them are durable after one wait.
//!
//! At least one request of each connection is done in each turn; [`Budget`] decides about the others.
//!
//! A client whose command waits for a key to be filled is put on the list of such clients after the round's transaction
//! (`waiting.rs`); none of its later requests is done before it is answered.
//!
//! A transaction's body may run several times: each run first cuts the connections' outputs back to their old lengths.
//! After several conflicts it runs a part of its requests only ([`Group`]).

mod group;

pub(super) use self::group::Group;
use self::group::WHOLE_ATTEMPTS;
use super::budget::{Budget, Claim};
use super::busy;
use super::connection::{Connection, Incoming};
use super::route::{Route, waits};
use super::slots::Slots;
use super::worker::KILLED;
use crate::client::{Client, Replies};
use crate::command::monitor::{self, By};
use crate::command::{
    Call, Command, Env, Exec, Failure, Next, Run, blocking, find, functions, perform,
};
use crate::keyspace::{Database, Hint};
use crate::pause::{self, OwnPause, Paused};
use crate::protocol::args::OwnedArgs;
use crate::protocol::{Reply, Request};
use crate::replication::following::Gate;
use crate::room::{self, Lack};
use crate::script::Busy;
use crate::server::Server;
use crate::stats::Stats;
use crate::store::Session;
use crate::waiting::{Address, Waiter, Wish};
use perdura::{Error, Savepoint, Tx};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// The number of commands in one round is limited to this.
const COMMANDS_MAX: usize = 512;
/// Commands in one transaction that write are limited to this: a larger write set is no longer in the arrays of a fixed
/// size in which it is fastest, so that each word read costs a lookup. One commit more costs less.
const WRITES_MAX: usize = 16;
/// Bytes of arguments in one transaction (exceeded by no more than one command).
const BYTES_MAX: usize = 1 << 20;
/// Requests taken from one connection before it is another's turn in the same round.
const AT_ONCE: usize = 64;

/// Transactions that are run with care after one that had to be.
const CAREFUL: u32 = 64;

/// A planned request of one connection, or a whole transaction of it.
pub(super) struct Op {
    pub(super) slot: usize,
    pub(super) work: Work,
    /// The length of the connection's output before the operation.
    start: usize,
    claim: Claim,
    /// Whether it is left for later, since too much output is unsent, or time is short.
    skipped: bool,
    /// What its client waits for.
    wish: Option<Box<Wish>>,
    pub(super) near: Hint,
}

pub(super) enum Work {
    Request(Request, &'static Command),
    /// The commands that were queued since MULTI.
    Exec(Box<Exec>),
}

impl Op {
    fn writes(&self) -> bool {
        match &self.work {
            Work::Request(_, command) => command.writes(),
            Work::Exec(exec) => exec.writes(),
        }
    }

    /// Whether it runs scripts.
    fn nests(&self) -> bool {
        match &self.work {
            Work::Request(_, command) => command.nests,
            Work::Exec(exec) => exec.nests(),
        }
    }

    /// How much it writes, about: 1 for most.
    fn weight(&self) -> usize {
        match &self.work {
            Work::Request(request, command) if command.writes() => 1 + request.count() / 8,
            Work::Exec(exec) if exec.writes() => 1,
            _ => 0,
        }
    }

    /// Whether it is an EXEC that writes, and goes on under a pause, if there is one, that is all its own.
    fn writes_in_own_pause(&self) -> bool {
        let Work::Exec(exec) = &self.work else { return false };
        exec.own_pause.is_some_and(OwnPause::is_alone) && exec.writes()
    }

    /// Whether it waits for the end of a pause that has begun since it was planned. Whether FCALL does is not known yet.
    #[cold]
    fn is_paused(&self, server: &Server, connection: &Connection) -> bool {
        if let Work::Exec(exec) = &self.work
            && exec.own_pause.is_some_and(|own| server.pause.is_last(own))
        {
            return false;
        }
        server.pause.now() == Paused::All
            || match &self.work {
                Work::Request(request, command) => {
                    pause::writes(server, command, connection.args(*request))
                }
                Work::Exec(exec) => exec.requests().any(|(command, args)| {
                    command.name == "fcall" || pause::writes(server, command, args)
                }),
            }
    }

    /// Does it. Returns false if it is a later one of its transaction, and needs one of its own.
    #[inline(always)]
    fn perform(
        &mut self,
        tx: &mut dyn Tx,
        connection: &mut Connection,
        (env, budget): (&Env<'_>, &mut Budget),
        is_later: bool,
    ) -> Result<bool, Error> {
        self.start = connection.out.len();
        let (counted, posted, told) = (env.tally.mark(), env.posts.mark(), env.effects.mark());
        let db = Database::new(env.keyspace, connection.client.db);
        let bytes_max = env.server.options.max_reply;
        if env.server.tracking.is_used() {
            let remembers = match &self.work {
                Work::Request(..) => connection.client.remembers(),
                // Each of its commands by itself.
                Work::Exec(_) => false,
            };
            env.tracked.act_as(connection.client.listing.id, remembers);
        }
        // Clients may wait for a key that this operation fills.
        let serves = self.writes() && env.server.waiting.count() > 0 && !env.waits.are_left();
        let before = serves.then(|| (tx.point(), env.waits.mark(), told));
        let is_pause = env.server.pause.now() != Paused::None;
        env.effects.pause(is_pause && !self.writes_in_own_pause());
        if is_pause && self.is_paused(env.server, connection) {
            connection.hold(env.server);
            // Nor is what comes after it done.
            (self.skipped, connection.skips) = (true, true);
            return Ok(true);
        }
        let outcome = match &mut self.work {
            Work::Request(..)
                if connection.skips || connection.is_full() || budget.is_short_for(self.claim) =>
            {
                self.skipped = true;
                return Ok(true);
            }
            Work::Request(request, command)
                if command.name == "fcall"
                    && env.server.pause.now() != Paused::None
                    && functions::writes(tx, env.keyspace, connection.args(*request))? =>
            {
                connection.hold(env.server);
                // Nor is what comes after it done.
                (self.skipped, connection.skips) = (true, true);
                return Ok(true);
            }
            Work::Request(request, command) => {
                let (args, client, out) = connection.split(*request);
                let (out, command) = (out.at_most(bytes_max), *command);
                monitor::tell(*env, db.index(), By::Client(client), command, args);
                let may_wait = true;
                let near = self.near;
                let call = Call { tx, env: *env, db, client, args, out, may_wait, near };
                let done = perform::one(call, command);
                self.wish = env.waits.take_wish().map(Box::new);
                done.map(|_| ())
            }
            Work::Exec(exec) => {
                let out = Reply::new(&mut connection.out, connection.client.protocol);
                let out = out.at_most(bytes_max);
                perform::all(tx, *env, &connection.client.listing, exec, out)
            }
        };
        let outcome = match (outcome, before) {
            (Ok(()), Some(before)) => {
                let served = serve(tx, *env, before);
                if served.is_err() {
                    // Its own reply is there already, and it is run again.
                    connection.out.truncate(self.start);
                }
                served
            }
            (outcome, _) => outcome,
        };
        match outcome {
            Ok(()) => Ok(true),
            Err(Error::TooLarge { .. } | Error::Full { .. } | Error::NoSpace { .. })
                if is_later =>
            {
                self.wish = None;
                connection.out.truncate(self.start);
                env.tally.back_to(counted);
                env.posts.back_to(posted);
                env.effects.back_to(told);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether a connection has more requests after some of them were planned.
enum Planned {
    /// It has none, or none that this turn will do.
    All,
    /// It has more, and the other connections come first.
    Part,
    /// It has more, which wait for the next round: they must not run before those in this one.
    Blocked,
}

/// Room for a round's work, kept from turn to turn.
#[derive(Default)]
pub(super) struct Turn {
    /// Connections whose requests are to be planned, in this order.
    queue: VecDeque<usize>,
    /// Connections that wait for the next round.
    blocked: Vec<usize>,
    ops: Vec<Op>,
    bytes: usize,
    /// Transactions that are yet to be run with care ([`Env::careful`]).
    careful: u32,
    /// The only connection that the next turn is for: a script of its runs for long (`script/runs.rs`), or a command that
    /// keeps the thread ([`Route::keeps`]).
    alone: Option<usize>,
    /// Whether connections may be held by a pause.
    holds: bool,
    /// Whether this turn is for one connection only, and nothing was performed in it so far.
    is_free: bool,
}

impl Turn {
    /// Does the requests of the `ready` connections. Returns the ticket of the last commit.
    pub(super) fn run<S: Session>(
        &mut self,
        session: &mut S,
        env: Env<'_>,
        slots: &mut Slots,
        ready: &[usize],
        budget: &mut Budget,
    ) -> Result<Option<S::Ticket>, Error> {
        let mut last = None;
        self.queue.clear();
        let alone = self.alone.take();
        self.is_free = alone.is_some();
        match alone {
            None => self.queue.extend(ready),
            Some(slot) => {
                leave(slots, ready.iter().copied());
                self.queue.push_back(slot);
                env.server.runs.let_in(env.worker);
            }
        }
        while !self.queue.is_empty() {
            self.fill(env, slots, budget);
            self.is_free &= self.ops.is_empty();
            let ticket = self.execute(session, env, slots, budget);
            self.end_round(env, slots);
            last = last.max(ticket?);
            if self.alone.is_some() {
                leave(slots, self.queue.drain(..));
                return Ok(last);
            }
        }
        if alone.is_some() {
            // Perhaps its client has gone.
            env.server.runs.of(env.worker).settle();
        }
        Ok(last)
    }

    /// Whether the next turn has one connection's requests only.
    pub(super) fn is_alone(&self) -> bool {
        self.alone.is_some()
    }

    /// Whether connections may be held by a pause.
    pub(super) fn holds(&self) -> bool {
        self.holds
    }

    /// All that were held go on.
    pub(super) fn hold_none(&mut self) {
        self.holds = false;
    }

    /// Takes connections' requests into the round, until it is full.
    fn fill(&mut self, env: Env<'_>, slots: &mut Slots, budget: &mut Budget) {
        while self.has_room() && self.alone.is_none() {
            let Some(slot) = self.queue.pop_front() else { return };
            let Some(connection) = slots.get(slot) else { continue };
            let planned = self.plan(env, slot, connection, budget);
            connection.stalled |= !matches!(planned, Planned::All);
            match planned {
                Planned::All => {}
                Planned::Part => self.queue.push_back(slot),
                Planned::Blocked => self.blocked.push(slot),
            }
        }
    }

    fn has_room(&self) -> bool {
        self.ops.len() < COMMANDS_MAX && self.bytes < BYTES_MAX
    }

    /// Takes some of a connection's requests into the round.
    fn plan(
        &mut self,
        env: Env<'_>,
        slot: usize,
        connection: &mut Connection,
        budget: &mut Budget,
    ) -> Planned {
        // Once for all of them: to plan them takes little time.
        budget.pass();
        let busy = env.server.runs.busy();
        let gate = env.server.following.gate();
        // In this order: it is let through the pause that is seen, and no later one.
        let let_through = env.server.pause.let_through();
        let paused = env.server.pause.now();
        for _ in 0..AT_ONCE {
            if !self.has_room() {
                return Planned::Part;
            }
            let claim = Claim::after(connection.taken);
            if budget.was_short_for(claim) {
                connection.stalled = true;
                return Planned::All;
            }
            let request = match connection.next_request() {
                Incoming::Request(request) => request,
                Incoming::Exec(exec) => {
                    connection.taken += 1;
                    exec.plan_reads(env);
                    self.push(slot, connection, claim, Work::Exec(exec));
                    return Planned::Blocked;
                }
                Incoming::Nothing => return Planned::All,
                Incoming::Broken if connection.waits => return Planned::Blocked,
                Incoming::Broken => {
                    env.stats.error("ERR");
                    connection.refuse();
                    return Planned::All;
                }
            };
            if paused != Paused::None
                && waits(env.server, connection, request, (busy, gate), paused)
            {
                connection.put_back(request);
                connection.hold(env.server);
                self.holds = true;
                return Planned::All;
            }
            if busy.is_none()
                && let Some(command) = on_data(connection, request)
                && (gate == Gate::Open || gate.refusal(command).is_none())
            {
                connection.taken += 1;
                self.bytes += connection.args(request).bytes();
                if connection.client.remembers() {
                    let (args, db) = (connection.args(request), connection.client.db);
                    env.tracked.plan(&env.server.watch, command, args, db);
                }
                self.push(slot, connection, claim, Work::Request(request, command));
                let once = connection.client.replies == Replies::Skip || connection.client.caching;
                if once || command.blocks {
                    // Only when this request is done is it known whether the next one gets a reply, or is done now.
                    return Planned::Blocked;
                }
                continue;
            }
            let route = Route::of(connection, request, busy, gate);
            if connection.waits {
                connection.put_back(request);
                return Planned::Blocked;
            }
            if route.keeps() && !(self.is_free && self.ops.is_empty()) {
                // What this turn has done is answered first, and told to replicas.
                connection.put_back(request);
                self.alone = Some(slot);
                return Planned::All;
            }
            connection.taken += 1;
            let is_own = route.command().is_some_and(|command| command.name == "client");
            let command = route.command().filter(|_| env.server.pubsub.is_monitored());
            connection.client.own_pause = Some(let_through);
            let next = route.answer((env.server, env.stats), connection, request);
            let is_done = !is_own && !matches!(next, Next::Exec(_));
            if connection.client.caching && is_done && connection.client.queue.is_none() {
                connection.client.caching = false;
            }
            if let Some(command) = command
                && !matches!(next, Next::Exec(_))
            {
                let (args, client) = (connection.args(request), &connection.client);
                monitor::tell_done(env, client, command, args);
            }
            // This may have taken long: it is not only planning.
            budget.pass();
            match next {
                Next::Go => {}
                Next::Close => {
                    connection
                        .set_closing("QUIT, SHUTDOWN, CLIENT KILL, or a request of HTTP ended it");
                    return Planned::All;
                }
                Next::Leave => return Planned::All,
                Next::Wait => {
                    connection.wait_to_the_end();
                    return Planned::All;
                }
                Next::Exec(exec) => {
                    exec.plan_reads(env);
                    self.push(slot, connection, claim, Work::Exec(Box::new(exec)));
                    return Planned::Blocked;
                }
            }
        }
        Planned::Part
    }

    fn push(&mut self, slot: usize, connection: &mut Connection, claim: Claim, work: Work) {
        connection.waits = true;
        self.ops.push(Op {
            slot,
            work,
            start: 0,
            claim,
            skipped: false,
            wish: None,
            near: Hint::default(),
        });
    }

    /// Gives skipped requests back to their connections: the last one first, so that each connection's stay in order.
    fn end_round(&mut self, env: Env<'_>, slots: &mut Slots) {
        let mut commands = 0;
        while let Some(op) = self.ops.pop() {
            let Some(connection) = slots.get(op.slot) else { continue };
            (connection.waits, connection.skips) = (false, false);
            self.holds |= connection.is_held();
            if connection.client.listing.is_killed() {
                // The connection has killed itself by CLIENT KILL inside of EXEC: it still gets the reply.
                connection.set_closing(KILLED);
            }
            match op.work {
                Work::Request(request, _) if op.skipped => connection.put_back(request),
                Work::Exec(exec) if op.skipped => connection.put_back_exec(exec),
                _ => {
                    commands += 1;
                    connection.client.caching = false;
                }
            }
        }
        env.tracked.end_round();
        env.stats.commands.add(commands);
        self.bytes = 0;
        self.queue.extend(self.blocked.drain(..));
    }

    /// Runs the round's work in transactions.
    fn execute<S: Session>(
        &mut self,
        session: &mut S,
        env: Env<'_>,
        slots: &mut Slots,
        budget: &mut Budget,
    ) -> Result<Option<S::Ticket>, Error> {
        let mut last = None;
        let mut ops = self.ops.as_mut_slice();
        // Operations of the next transaction, at most.
        let mut limit = ops.len();
        // Attempts to make room for the first operation.
        let (mut tries, mut env) = (0, env);
        while !ops.is_empty() {
            let most = if env.last_resort { 1 } else { limit.min(ops.len()) };
            let count = together(&ops[..most]);
            let mut group = Group {
                ops: &mut ops[..count],
                reached: 0,
                attempts: 0,
                writes: false,
                env: Env { careful: self.careful > 0, ..env },
                slots,
                budget,
            };
            if let Err(busy) = busy::await_long(env, || group.ops.iter().any(Op::writes)) {
                // It was not begun: the script would have kept it waiting.
                group.refuse(busy);
                ops = &mut ops[count..];
                continue;
            }
            let committed = group.commit(session);
            let is_given_up = env.server.runs.of(env.worker).takes_again();
            self.careful = match env.tally.takes_care() {
                true => CAREFUL,
                false => self.careful.saturating_sub(1),
            };
            if group.attempts > WHOLE_ATTEMPTS {
                // The operations that follow are as likely to be in conflict.
                limit = group.reached.max(1);
            }
            match committed {
                Ok(ticket) => {
                    last = last.max(Some(ticket));
                    let finished = group.finish();
                    env.server.runs.of(env.worker).settle();
                    ops = &mut ops[finished..];
                    (tries, env.last_resort) = (0, false);
                    env.waits.leave(false);
                    if is_given_up {
                        self.alone = put_off(ops);
                        return Ok(last);
                    }
                }
                Err(Error::TooLarge { .. }) if is_given_up => {
                    group.retract();
                    self.alone = put_off(ops);
                    return Ok(last);
                }
                Err(error @ (Error::Full { .. } | Error::NoSpace { .. })) if !env.last_resort => {
                    let lack = Lack { error: &error, least: group.least_bytes() };
                    group.retract();
                    if count > 1 && lack.is_too_much(env) {
                        // Fewer of its operations may have room.
                        limit = count / 2;
                        continue;
                    }
                    let _writing = env.server.runs.of(env.worker).write();
                    env.last_resort = !room::make(session, env, tries, &lack, &mut last)?;
                    tries += 1;
                }
                Err(error @ Error::Io(_)) => return Err(error),
                Err(error) => {
                    group.retract();
                    if count > 1 {
                        limit = count / 2;
                        continue;
                    }
                    // Perhaps it is not too large by itself, without the clients that it serves.
                    let is_too_large = matches!(error, Error::TooLarge { .. });
                    let waiting = env.server.waiting.count() > 0;
                    if is_too_large && waiting && !env.waits.are_left() {
                        env.waits.leave(true);
                        continue;
                    }
                    group.fail(error);
                    env.server.runs.of(env.worker).settle();
                    ops = &mut ops[1..];
                    (tries, env.last_resort) = (0, false);
                    env.waits.leave(false);
                }
            }
        }
        Ok(last)
    }
}

/// Answers an EXEC with the error that a script keeps the server busy.
pub(super) fn refuse_exec(stats: &Stats, connection: &mut Connection, exec: &Exec, busy: Busy) {
    connection.client.select(exec.db);
    let text = format!("EXECABORT Transaction discarded because of: {}", busy.text());
    refuse(stats, connection, text.into());
}

fn refuse(stats: &Stats, connection: &mut Connection, text: Cow<'static, str>) {
    let (failure, start) = (Failure::Say(text), connection.out.len());
    stats.error(failure.code());
    failure.tell(&mut Reply::new(&mut connection.out, connection.client.protocol));
    connection.hush(start);
}

/// Leaves these operations to the next turn. Returns the number of the first one's connection.
fn put_off(ops: &mut [Op]) -> Option<usize> {
    ops.iter_mut().for_each(|op| op.skipped = true);
    ops.first().map(|op| op.slot)
}

/// Leaves these connections' requests to another turn.
fn leave(slots: &mut Slots, all: impl Iterator<Item = usize>) {
    for slot in all {
        if let Some(connection) = slots.get(slot) {
            connection.stalled = true;
        }
    }
}

/// Serves clients that wait for the keys that an operation has filled. If that fails, all since `point` is undone.
fn serve(
    tx: &mut dyn Tx,
    env: Env<'_>,
    (point, mark, told): (Savepoint, usize, usize),
) -> Result<(), Error> {
    blocking::serve(tx, env, None).or_else(|error| {
        if !matches!(error, Error::Conflict) {
            env.waits.back_to(&env.server.waiting, mark);
            env.effects.back_to(told);
            tx.undo_to(point)?;
        }
        Err(error)
    })
}

/// Puts a client on the list of those that wait.
fn wait(env: Env<'_>, connection: &mut Connection, op: &Op, mut wish: Wish) {
    let Work::Request(request, command) = op.work else { return };
    let sent = || OwnedArgs::from(connection.args(request));
    let args = wish.args.take().unwrap_or_else(sent);
    let Client { listing, protocol, db, .. } = &connection.client;
    let to = Address { worker: env.worker, slot: op.slot, id: listing.id };
    let (client, protocol, db) = (Arc::clone(listing), *protocol, *db);
    let until = wish.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let waiter = Waiter { to, client, protocol, db, command, args, wish };
    // Its keys may have been filled meanwhile.
    env.waits.recheck_for(&waiter);
    env.waits.note_new(to, until);
    let replicas = waiter.wish.replicas.clone();
    env.server.waiting.add(waiter);
    connection.blocked = Some(until);
    if let Some(replicas) = replicas {
        let number = env.effects.last_number();
        env.server.replication.wait(env.server, to, number, replicas);
    }
}

/// How many of these operations share a transaction.
fn together(ops: &[Op]) -> usize {
    let mut writes = 0;
    let is_too_many = |op: &Op| {
        writes += op.weight();
        writes > WRITES_MAX
    };
    // One that writes too much by itself is alone.
    ops.iter().position(is_too_many).map_or(ops.len(), |count| count.max(1))
}

/// The command of a request that goes into the round's transaction; `None` if it takes another way.
fn on_data(connection: &Connection, request: Request) -> Option<&'static Command> {
    let (args, client) = (connection.args(request), &connection.client);
    let command = find(args.at(0))?;
    let command = match command.run {
        Run::Read(_) | Run::Write(_) => command,
        Run::Client(_) => command.part(args)?,
    };
    let is_on_data = matches!(command.run, Run::Read(_) | Run::Write(_));
    let takes = is_on_data && command.takes(args.len());
    let goes = takes && (client.trusted || client.may(command, args));
    (goes && client.queue.is_none() && !client.restricted).then_some(command)
}
