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
//! After several conflicts it runs a part of its requests only ([`Group::attempted`]).

use super::budget::{Budget, Claim};
use super::connection::{Connection, Incoming};
use super::slots::Slots;
use super::worker::KILLED;
use crate::acl::{self, Context, Denied};
use crate::client::{Client, Replies};
use crate::command::{
    Call, ClientCall, Command, Env, Exec, Failure, Next, Run, blocking, find, find_whole,
    goes_while_subscribed, is_immediate, is_never_queued, perform, refused, shown,
};
use crate::keyspace::{Ahead, Database, Near, Reached, reach_field};
use crate::protocol::args::OwnedArgs;
use crate::protocol::{Args, Reply, Request};
use crate::room;
use crate::stats::Called;
use crate::store::Session;
use crate::waiting::{Address, Waiter, Wish};
use perdura::{Error, Savepoint, Tx};
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
/// Attempts at a transaction that run its whole body; later ones run a part. An attempt that ends in a conflict is
/// cheap compared with one more commit, since conflicts are found before anything is waited for.
const WHOLE_ATTEMPTS: u32 = 2;
/// Requests taken from one connection before it is another's turn in the same round.
const AT_ONCE: usize = 64;

/// How many operations before its own an operation's key is announced, what its entry leads to is, and what a field's
/// value leads to.
const AHEAD: [usize; 3] = [8, 4, 2];
/// Transactions that are run with care after one that had to be.
const CAREFUL: u32 = 64;

/// A planned request of one connection, or a whole transaction of it.
struct Op {
    slot: usize,
    work: Work,
    /// The length of the connection's output before the operation.
    start: usize,
    claim: Claim,
    /// Whether it is left for later, since too much output is unsent, or time is short.
    skipped: bool,
    /// What its client waits for.
    wish: Option<Wish>,
    /// The large hash in which it looks for a field, once that is known.
    hash: u64,
    near: Near,
}

enum Work {
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

    /// How much it writes, about: 1 for most.
    fn weight(&self) -> usize {
        match &self.work {
            Work::Request(request, command) if command.writes() => 1 + request.count() / 8,
            Work::Exec(exec) if exec.writes() => 1,
            _ => 0,
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
        self.queue.extend(ready);
        while !self.queue.is_empty() {
            self.fill(env, slots, budget);
            let ticket = self.execute(session, env, slots, budget);
            self.end_round(env, slots);
            last = last.max(ticket?);
        }
        Ok(last)
    }

    /// Takes connections' requests into the round, until it is full.
    fn fill(&mut self, env: Env<'_>, slots: &mut Slots, budget: &mut Budget) {
        while self.has_room() {
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
                Incoming::Nothing => return Planned::All,
                Incoming::Broken if connection.waits => return Planned::Blocked,
                Incoming::Broken => {
                    env.stats.error("ERR");
                    connection.refuse();
                    return Planned::All;
                }
            };
            if let Some(command) = on_data(connection, request) {
                connection.taken += 1;
                self.bytes += connection.args(request).bytes();
                self.push(slot, connection, claim, Work::Request(request, command));
                if connection.client.replies == Replies::Skip || command.blocks {
                    // Only when this request is done is it known whether the next one gets a reply, or is done now.
                    return Planned::Blocked;
                }
                continue;
            }
            let route = Route::of(connection, request);
            if connection.waits {
                connection.put_back(request);
                return Planned::Blocked;
            }
            connection.taken += 1;
            let next = route.answer(env, connection, request);
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
                Next::Exec(exec) => {
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
            hash: 0,
            near: Near::default(),
        });
    }

    /// Gives skipped requests back to their connections: the last one first, so that each connection's stay in order.
    fn end_round(&mut self, env: Env<'_>, slots: &mut Slots) {
        let mut commands = 0;
        for op in self.ops.iter().rev() {
            let Some(connection) = slots.get(op.slot) else { continue };
            (connection.waits, connection.skips) = (false, false);
            if connection.client.listing.is_killed() {
                // The connection has killed itself by CLIENT KILL inside of EXEC: it still gets the reply.
                connection.set_closing(KILLED);
            }
            match &op.work {
                Work::Request(request, _) if op.skipped => connection.put_back(*request),
                _ => commands += 1,
            }
        }
        env.stats.commands.add(commands);
        self.ops.clear();
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
            let committed = group.commit(session);
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
                }
                Err(error @ (Error::Full { .. } | Error::NoSpace { .. })) if !env.last_resort => {
                    group.retract();
                    env.last_resort = !room::make(session, env, tries, &error)?;
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

/// The way of a request that does not go into the round's transaction.
enum Route {
    /// Answered at once.
    Client(&'static Command),
    /// Into the queue of commands after MULTI.
    Queue(&'static Command),
    Reject(Failure),
    /// The client's user may not do it.
    Deny(Denied),
}

impl Route {
    fn of(connection: &Connection, request: Request) -> Route {
        let args = connection.args(request);
        let client = &connection.client;
        let Some(command) = find_whole(args) else {
            return Route::Reject(unknown(args));
        };
        if !command.takes(args.len()) {
            return Route::Reject(Failure::arity(command.name));
        }
        if !client.authenticated
            && !matches!(command.name, "auth" | "hello" | "quit" | "reset" | "post" | "host:")
        {
            return Route::Reject(Failure::Say("NOAUTH Authentication required.".into()));
        }
        if !client.trusted
            && let Err(denied) = acl::check(&client.user, command, args)
        {
            return Route::Deny(denied);
        }
        if client.restricted && !goes_while_subscribed(command) {
            return Route::Reject(Failure::say(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
                 are allowed in this context",
                command.name
            )));
        }
        if client.queue.is_some() && !is_immediate(command) {
            if is_never_queued(command) {
                let text = "ERR Command not allowed inside a transaction";
                return Route::Reject(Failure::Say(text.into()));
            }
            return Route::Queue(command);
        }
        Route::Client(command)
    }

    /// Follows a route without a transaction, and keeps the reply if the client wants replies.
    fn answer(self, env: Env<'_>, connection: &mut Connection, request: Request) -> Next {
        let start = connection.out.len();
        let is_told =
            matches!(&self, Route::Client(command) if command.name.ends_with("subscribe"));
        let next = self.follow(env, connection, request);
        match is_told {
            // As a message it goes even to a client that wants no replies.
            true => connection.client.replies.skip(),
            false => connection.hush(start),
        }
        next
    }

    /// Follows a route without a transaction.
    fn follow(self, env: Env<'_>, connection: &mut Connection, request: Request) -> Next {
        let (args, client, out) = connection.split_client(request);
        let start = out.len();
        let mut call = ClientCall { server: env.server, stats: env.stats, client, args, out };
        let outcome = match self {
            Route::Queue(command) => {
                let bytes_max = env.server.options.max_request;
                let queue = call.client.queue.as_mut();
                queue.map_or(Ok(()), |queue| queue.push(command, args, bytes_max)).map(|()| {
                    call.reply().simple("QUEUED");
                    Next::Go
                })
            }
            Route::Client(command) => {
                env.stats.commands.add(1);
                call.run(command).unwrap_or(Ok(Next::Go))
            }
            Route::Reject(failure) => Err(refused(&mut call, failure)),
            Route::Deny(denied) => {
                let in_multi = call.client.queue.is_some();
                let context = if in_multi { Context::Multi } else { Context::TopLevel };
                Err(deny(&mut call, &denied, context))
            }
        };
        outcome.unwrap_or_else(|failure| {
            call.fail(start, &failure);
            Next::Go
        })
    }
}

/// Notes that a request is denied. Returns the error.
fn deny(call: &mut ClientCall<'_>, denied: &Denied, context: Context) -> Failure {
    let failure = call.client.denied(call.server, denied, context);
    refused(call, failure)
}

/// The error for a command that does not exist, with some of its arguments.
fn unknown(args: Args<'_>) -> Failure {
    const LEN_MAX: usize = 128;
    let name = shown(args.at(0), LEN_MAX);
    let mut beginning = String::new();
    for arg in args.from(1).iter() {
        if beginning.len() >= LEN_MAX {
            break;
        }
        beginning.push_str(&format!("'{}' ", shown(arg, LEN_MAX - beginning.len())));
    }
    Failure::say(format!("ERR unknown command '{name}', with args beginning with: {beginning}"))
}

/// What is fetched ahead, for operations of one database.
#[derive(Default)]
struct LookAhead {
    db: Option<Database>,
    /// What announces its keys, if it is large.
    keys: Option<Ahead>,
    /// How many operations in a row lead to nothing more than their key.
    vain: u32,
    /// Whether one has led to a large hash.
    hashes: bool,
}

impl LookAhead {
    /// Whether this step is worth it.
    #[inline]
    fn does(&self, step: usize) -> bool {
        match step {
            0 => self.keys.is_some(),
            1 => self.db.is_some() && self.vain < VAIN,
            _ => self.hashes,
        }
    }
}

/// After so many operations that lead to nothing more than their key, those that follow in the transaction are believed
/// not to either.
const VAIN: u32 = 2;

/// Operations that share a transaction.
struct Group<'g> {
    ops: &'g mut [Op],
    /// How many operations the last attempt has done.
    reached: usize,
    /// How often the transaction's body was run.
    attempts: u32,
    /// Whether it may write.
    writes: bool,
    env: Env<'g>,
    slots: &'g mut Slots,
    budget: &'g mut Budget,
}

impl Group<'_> {
    fn commit<S: Session>(&mut self, session: &mut S) -> Result<S::Ticket, Error> {
        let outcome = self.run(session);
        if outcome.is_ok() || self.env.careful || !self.env.tally.needs_care() {
            return outcome;
        }
        self.attempts = 0;
        self.run(session)
    }

    fn run<S: Session>(&mut self, session: &mut S) -> Result<S::Ticket, Error> {
        self.writes = self.ops.iter().any(Op::writes);
        let outcome = if self.writes {
            self.env.stats.transactions.add(1);
            let outcome = session.write(&mut |tx| self.body(tx));
            self.env.stats.conflicts.add(u64::from(self.attempts.saturating_sub(1)));
            outcome
        } else {
            self.env.stats.read_transactions.add(1);
            session.read(&mut |tx| self.body(tx))
        };
        self.env.end(&outcome);
        outcome
    }

    /// How many operations this attempt does: all of them at first, then half as many as the attempt before. (A
    /// transaction that only reads has no conflict a second time.)
    fn attempted(&self) -> usize {
        let halvings = self.attempts.saturating_sub(WHOLE_ATTEMPTS).min(usize::BITS - 1);
        (self.ops.len() >> halvings).max(1)
    }

    fn body(&mut self, tx: &mut dyn Tx) -> Result<(), Error> {
        self.retract();
        match self.writes {
            true => self.env.begin_writing(tx)?,
            false => self.env.begin(),
        }
        self.env.careful |= self.env.tally.needs_care();
        self.attempts += 1;
        let count = self.attempted();
        let mut ahead = self.begin_ahead(tx, count)?;
        // The first ones are fetched all at a time.
        for (step, most) in AHEAD.into_iter().enumerate() {
            for index in 1..count.min(most) {
                self.look_ahead(tx, &mut ahead, step, index)?;
            }
        }
        for index in 0..count {
            for (step, before) in AHEAD.into_iter().enumerate() {
                if index + before < count {
                    self.look_ahead(tx, &mut ahead, step, index + before)?;
                }
            }
            if index + 1 == count {
                self.env.tally.begin_last();
            }
            if !self.perform(tx, index)? {
                break;
            }
            self.reached = index + 1;
        }
        self.env.tally.end();
        if self.writes { self.env.end_writing(tx) } else { Ok(()) }
    }

    /// Begins to fetch ahead: for operations on the first one's database.
    fn begin_ahead(&mut self, tx: &mut dyn Tx, count: usize) -> Result<LookAhead, Error> {
        let first = self.ops.first().map_or(0, |op| op.slot);
        let Some(connection) = self.slots.get(first).filter(|_| count > 1) else {
            return Ok(LookAhead::default());
        };
        let db = Database::new(self.env.keyspace, connection.client.db);
        Ok(LookAhead { db: Some(db), keys: db.ahead(tx)?, vain: 0, hashes: false })
    }

    /// Has fetched what an operation that is performed soon will read: then many places are fetched at a time, and not each
    /// of them waited for. First its key's bucket, then what the key's entry leads to, then what a field's value leads to.
    #[inline]
    fn look_ahead(
        &mut self,
        tx: &mut dyn Tx,
        ahead: &mut LookAhead,
        step: usize,
        index: usize,
    ) -> Result<(), Error> {
        match ahead.does(step) {
            true => self.fetch(tx, ahead, step, index),
            false => Ok(()),
        }
    }

    #[inline(never)]
    fn fetch(
        &mut self,
        tx: &mut dyn Tx,
        ahead: &mut LookAhead,
        step: usize,
        index: usize,
    ) -> Result<(), Error> {
        let Op { slot, work: Work::Request(request, command), hash, near, .. } =
            &mut self.ops[index]
        else {
            return Ok(());
        };
        if command.keys.0 <= 0 || step == 2 && *hash == 0 {
            return Ok(());
        }
        let Some(connection) = self.slots.get(*slot) else { return Ok(()) };
        let args = connection.args(*request);
        let (Some(db), Some(key)) = (ahead.db, args.get(command.keys.0 as usize)) else {
            return Ok(());
        };
        if db.index() != connection.client.db {
            return Ok(());
        }
        match step {
            0 => ahead.keys.as_ref().map_or(Ok(()), |keys| keys.announce(tx, key)),
            1 => {
                let member = command.member(&args);
                // In a small database everything else is near.
                if ahead.keys.is_none() && member.is_none() {
                    ahead.vain += 1;
                    return Ok(());
                }
                let (reached, hint) = db.reach(tx, key, member)?;
                near.key = hint;
                ahead.vain = if reached == Reached::Nothing { ahead.vain + 1 } else { 0 };
                if let Reached::Field(at) = reached {
                    (*hash, ahead.hashes) = (at, true);
                }
                Ok(())
            }
            _ => {
                let at = std::mem::take(hash);
                if let Some(field) = command.member(&args) {
                    near.field = reach_field(tx, at, field)?;
                }
                Ok(())
            }
        }
    }

    /// Takes back all replies.
    fn retract(&mut self) {
        for op in self.ops[..self.reached].iter_mut().rev() {
            if let Some(connection) = self.slots.get(op.slot) {
                connection.out.truncate(op.start);
            }
            (op.skipped, op.wish) = (false, None);
        }
        self.reached = 0;
    }

    /// Does one operation. Returns false if it needs a transaction of its own.
    fn perform(&mut self, tx: &mut dyn Tx, index: usize) -> Result<bool, Error> {
        let op = &mut self.ops[index];
        let Some(connection) = self.slots.get(op.slot) else { return Ok(true) };
        op.start = connection.out.len();
        let (counted, posted) = (self.env.tally.mark(), self.env.posts.mark());
        let told = self.env.effects.mark();
        let db = Database::new(self.env.keyspace, connection.client.db);
        let bytes_max = self.env.server.options.max_reply;
        // Clients may wait for a key that this operation fills.
        let serves = self.env.server.waiting.count() > 0 && !self.env.waits.are_left();
        let before = (op.writes() && serves).then(|| (tx.point(), self.env.waits.mark(), told));
        let outcome = match &mut op.work {
            Work::Request(..)
                if connection.skips
                    || connection.is_full()
                    || self.budget.is_short_for(op.claim) =>
            {
                op.skipped = true;
                return Ok(true);
            }
            Work::Request(request, command) => {
                let (args, client, out) = connection.split(*request);
                let (out, command) = (out.at_most(bytes_max), *command);
                let may_wait = true;
                let near = op.near;
                let call = Call { tx, env: self.env, db, client, args, out, may_wait, near };
                let done = perform::one(call, command);
                op.wish = self.env.waits.take_wish();
                done.map(|_| ())
            }
            Work::Exec(exec) => {
                let out = Reply::new(&mut connection.out, connection.client.protocol);
                let out = out.at_most(bytes_max);
                perform::all(tx, self.env, &connection.client.listing, exec, out)
            }
        };
        let outcome = match (outcome, before) {
            (Ok(()), Some(before)) => {
                let served = serve(tx, self.env, before);
                if served.is_err() {
                    // Its own reply is there already, and it is run again.
                    connection.out.truncate(op.start);
                }
                served
            }
            (outcome, _) => outcome,
        };
        match outcome {
            Ok(()) => Ok(true),
            Err(Error::TooLarge { .. } | Error::Full { .. } | Error::NoSpace { .. })
                if index > 0 =>
            {
                op.wish = None;
                connection.out.truncate(op.start);
                self.env.tally.back_to(counted);
                self.env.posts.back_to(posted);
                self.env.effects.back_to(told);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Ends the operations after the commit. Returns their number.
    fn finish(&mut self) -> usize {
        for op in &mut self.ops[..self.reached] {
            if let Some(connection) = self.slots.get(op.slot) {
                connection.skips |= op.skipped;
                match op.wish.take() {
                    Some(wish) => wait(self.env, connection, op, wish),
                    None => connection.hush(op.start),
                }
            }
            let Work::Exec(exec) = &op.work else { continue };
            if exec.aborted
                && let Some(connection) = self.slots.get(op.slot)
            {
                connection.client.select(exec.db);
            }
        }
        self.reached
    }

    /// Answers the only operation with an error.
    fn fail(&mut self, error: Error) {
        if let Error::Full { requested, .. } = error {
            self.env.server.warn_of_full(requested);
        }
        let failure = Failure::Pool(error);
        self.env.stats.error(failure.code());
        let op = &mut self.ops[0];
        if let Work::Request(_, command) = op.work {
            self.env.stats.called(Called { command, done: false, nanos: 0 }, 1);
        }
        if let Some(connection) = self.slots.get(op.slot) {
            let start = connection.out.len();
            let mut out = Reply::new(&mut connection.out, connection.client.protocol);
            failure.tell(&mut out);
            connection.hush(start);
        }
    }
}
