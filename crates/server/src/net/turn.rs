//! One turn: what the ready connections have sent is done, as far as the turn's time allows, made
//! durable once, and answered.
//!
//! A turn consists of rounds. A round takes requests from the connections one after the other, a few
//! from each, until it is full or nothing is left to take; each round goes on where the one before
//! it ended, so no connection takes the places of all rounds. It takes a connection's requests up
//! to one that does not work on data; those are done while nothing of the same connection waits,
//! so that replies stay in order and a client's state never changes under its waiting requests.
//! Then all requests of the round run in as few transactions as possible: one, unless it gets too
//! large.
//!
//! Of each connection at least one request is done in each turn; see [`Budget`] for the rest.
//!
//! A transaction's body may run several times: outputs are cut back to where they were. A transaction with conflict
//! after conflict gets smaller ([`Group::most`]).

use super::budget::{Budget, Claim};
use super::connection::{Connection, Incoming};
use super::slots::Slots;
use super::worker::KILLED;
use crate::client::Replies;
use crate::command::{
    Call, ClientCall, Command, Env, Exec, Failure, Next, Run, find, is_immediate, is_never_queued,
    perform, refused, shown,
};
use crate::keyspace::Database;
use crate::protocol::{Args, Reply, Request};
use crate::room;
use crate::stats::Called;
use crate::store::Session;
use perdura::{Error, Tx};
use std::collections::VecDeque;
use std::time::Duration;

/// Commands in one transaction.
const MOST_COMMANDS: usize = 512;
/// Bytes of arguments in one transaction (exceeded by no more than one command).
const MOST_BYTES: usize = 1 << 20;
/// Runs of a transaction with all that it was to do. Conflicts are found before anything is waited for, and so are
/// cheap compared with one more commit.
const PATIENCE: u32 = 2;
/// Requests taken from one connection before it is another's turn in the same round.
const AT_ONCE: usize = 64;

/// What a round does for one connection.
struct Op {
    slot: usize,
    what: What,
    /// The length of the connection's output before.
    start: usize,
    claim: Claim,
    /// Left for later, since too much output is unsent, or time is short.
    skipped: bool,
}

enum What {
    Request(Request, &'static Command),
    Exec(Exec),
}

impl Op {
    fn writes(&self) -> bool {
        match &self.what {
            What::Request(_, command) => command.writes(),
            What::Exec(exec) => exec.writes(),
        }
    }
}

/// What is left of a connection after it was planned.
enum Left {
    /// Nothing, or nothing that this turn will do.
    Nothing,
    /// More, once others were planned.
    More,
    /// More, once what the round holds of it is done.
    Blocked,
}

/// Room for a round's work, kept from turn to turn.
#[derive(Default)]
pub(super) struct Turn {
    /// Connections to be planned, in their order.
    queue: VecDeque<usize>,
    /// Those to be planned from the next round on.
    blocked: Vec<usize>,
    ops: Vec<Op>,
    bytes: usize,
}

impl Turn {
    /// Does what the `ready` connections ask for. The ticket is that of the last commit.
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
            let left = self.plan(env, slot, connection, budget);
            connection.stalled |= !matches!(left, Left::Nothing);
            match left {
                Left::Nothing => {}
                Left::More => self.queue.push_back(slot),
                Left::Blocked => self.blocked.push(slot),
            }
        }
    }

    fn has_room(&self) -> bool {
        self.ops.len() < MOST_COMMANDS && self.bytes < MOST_BYTES
    }

    /// Takes some of a connection's requests into the round.
    fn plan(
        &mut self,
        env: Env<'_>,
        slot: usize,
        connection: &mut Connection,
        budget: &mut Budget,
    ) -> Left {
        for _ in 0..AT_ONCE {
            if !self.has_room() {
                return Left::More;
            }
            let claim = Claim::after(connection.taken);
            if budget.is_short_for(claim) {
                connection.stalled = true;
                return Left::Nothing;
            }
            let request = match connection.next_request() {
                Incoming::Request(request) => request,
                Incoming::Nothing => return Left::Nothing,
                Incoming::Broken if connection.waits => return Left::Blocked,
                Incoming::Broken => {
                    env.stats.error("ERR");
                    connection.refuse();
                    return Left::Nothing;
                }
            };
            let route = Route::of(connection, request);
            if connection.waits && !matches!(route, Route::Data(_)) {
                connection.put_back(request);
                return Left::Blocked;
            }
            connection.taken += 1;
            match route {
                Route::Data(command) => {
                    self.bytes += connection.args(request).bytes();
                    self.push(slot, connection, claim, What::Request(request, command));
                    if connection.client.replies == Replies::Skip {
                        // Whether the next one is answered is known when this one was.
                        return Left::Blocked;
                    }
                }
                route => match route.answer(env, connection, request) {
                    Next::Go => {}
                    Next::Close => {
                        connection.set_closing(
                            "QUIT, SHUTDOWN, CLIENT KILL, or a request of HTTP ended it",
                        );
                        return Left::Nothing;
                    }
                    Next::Exec(exec) => {
                        self.push(slot, connection, claim, What::Exec(exec));
                        return Left::Blocked;
                    }
                },
            }
        }
        Left::More
    }

    fn push(&mut self, slot: usize, connection: &mut Connection, claim: Claim, what: What) {
        connection.waits = true;
        self.ops.push(Op { slot, what, start: 0, claim, skipped: false });
    }

    /// Gives back what was skipped: the last first, so that each connection's stay in order.
    fn end_round(&mut self, env: Env<'_>, slots: &mut Slots) {
        let mut done = 0;
        for op in self.ops.drain(..).rev() {
            let Some(connection) = slots.get(op.slot) else { continue };
            (connection.waits, connection.skips) = (false, false);
            if connection.client.listing.is_killed() {
                // By a CLIENT KILL of its own, inside of EXEC: it gets that reply.
                connection.set_closing(KILLED);
            }
            match op.what {
                What::Request(request, _) if op.skipped => connection.put_back(request),
                _ => done += 1,
            }
        }
        env.stats.commands.add(done);
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
        let mut most = ops.len();
        // Attempts to make room for the first of them.
        let (mut attempts, mut env) = (0, env);
        while !ops.is_empty() {
            let count = if env.last_resort { 1 } else { most.min(ops.len()) };
            let mut group =
                Group { ops: &mut ops[..count], reached: 0, runs: 0, env, slots, budget };
            let committed = group.commit(session);
            if group.runs > PATIENCE {
                // What follows is as likely to be in conflict.
                most = group.reached.max(1);
            }
            match committed {
                Ok(ticket) => {
                    last = last.max(Some(ticket));
                    let done = group.finish();
                    ops = &mut ops[done..];
                    (attempts, env.last_resort) = (0, false);
                }
                Err(Error::Full { .. } | Error::NoSpace { .. }) if !env.last_resort => {
                    group.retract();
                    env.last_resort = !room::make(session, env, attempts)?;
                    attempts += 1;
                }
                Err(error @ Error::Io(_)) => return Err(error),
                Err(error) => {
                    group.retract();
                    if count > 1 {
                        most = count / 2;
                        continue;
                    }
                    group.fail(error);
                    ops = &mut ops[1..];
                    (attempts, env.last_resort) = (0, false);
                }
            }
        }
        Ok(last)
    }
}

/// What is done with a request.
enum Route {
    Data(&'static Command),
    Client(&'static Command),
    Queue(&'static Command),
    Reject(Failure),
}

impl Route {
    fn of(connection: &Connection, request: Request) -> Route {
        let args = connection.args(request);
        let client = &connection.client;
        let Some(command) = find(args.at(0)) else {
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
        if client.queue.is_some() && !is_immediate(command) {
            if is_never_queued(command) {
                let text = "ERR Command not allowed inside a transaction";
                return Route::Reject(Failure::Say(text.into()));
            }
            return Route::Queue(command);
        }
        match command.run {
            Run::Client(_) => Route::Client(command),
            Run::Read(_) | Run::Write(_) => Route::Data(command),
        }
    }

    /// Does what needs no transaction, and answers it if the client wants that.
    fn answer(self, env: Env<'_>, connection: &mut Connection, request: Request) -> Next {
        let start = connection.out.len();
        let next = self.follow(env, connection, request);
        connection.hush(start);
        next
    }

    /// Does what needs no transaction.
    fn follow(self, env: Env<'_>, connection: &mut Connection, request: Request) -> Next {
        let (args, client, out) = connection.split_client(request);
        let start = out.len();
        let mut call = ClientCall { server: env.server, stats: env.stats, client, args, out };
        let done = match self {
            Route::Data(_) => return Next::Go,
            Route::Queue(command) => {
                let most = env.server.options.max_request;
                let queue = call.client.queue.as_mut();
                queue.map_or(Ok(()), |queue| queue.push(command, args, most)).map(|()| {
                    call.reply().simple("QUEUED");
                    Next::Go
                })
            }
            Route::Client(command) => {
                env.stats.commands.add(1);
                call.run(command).unwrap_or(Ok(Next::Go))
            }
            Route::Reject(failure) => Err(refused(&mut call, failure)),
        };
        done.unwrap_or_else(|failure| {
            call.fail(start, &failure);
            Next::Go
        })
    }
}

/// The error for a command that does not exist, with some of its arguments.
fn unknown(args: Args<'_>) -> Failure {
    const MOST: usize = 128;
    let name = shown(args.at(0), MOST);
    let mut beginning = String::new();
    for arg in args.from(1).iter() {
        if beginning.len() >= MOST {
            break;
        }
        beginning.push_str(&format!("'{}' ", shown(arg, MOST - beginning.len())));
    }
    let mut text = format!("ERR unknown command '{name}', with args beginning with: {beginning}");
    if SCRIPTS.iter().any(|script| script.eq_ignore_ascii_case(&name)) {
        text.push_str(
            "(there are no scripts here; a lock is released by DELIFEQ key token, and prolonged by \
             SET key token IFEQ token PX milliseconds)",
        );
    }
    Failure::say(text)
}

/// Redis's commands that run scripts. Clients' locks find out when they are to be released: then the error says how.
const SCRIPTS: [&str; 7] =
    ["eval", "evalsha", "eval_ro", "evalsha_ro", "script", "fcall", "fcall_ro"];

/// Operations that share a transaction.
struct Group<'g> {
    ops: &'g mut [Op],
    /// How many the transaction holds.
    reached: usize,
    /// How often its body was run.
    runs: u32,
    env: Env<'g>,
    slots: &'g mut Slots,
    budget: &'g mut Budget,
}

impl Group<'_> {
    fn commit<S: Session>(&mut self, session: &mut S) -> Result<S::Ticket, Error> {
        let done = if self.ops.iter().any(Op::writes) {
            self.env.stats.transactions.add(1);
            let done = session.write(&mut |tx| self.body(tx));
            self.env.stats.conflicts.add(u64::from(self.runs.saturating_sub(1)));
            done
        } else {
            self.env.stats.read_transactions.add(1);
            session.read(&mut |tx| self.body(tx))
        };
        self.env.end(&done);
        done
    }

    /// How many operations this run of the body does: half as many as the run before, once the transaction has had
    /// enough conflicts. One that only reads has no conflicts when it is run again.
    fn most(&self) -> usize {
        let halvings = self.runs.saturating_sub(PATIENCE).min(usize::BITS - 1);
        (self.ops.len() >> halvings).max(1)
    }

    fn body(&mut self, tx: &mut dyn Tx) -> Result<(), Error> {
        self.retract();
        self.env.begin();
        self.runs += 1;
        for index in 0..self.most() {
            if !self.perform(tx, index)? {
                break;
            }
            self.reached = index + 1;
        }
        Ok(())
    }

    /// Takes back all replies.
    fn retract(&mut self) {
        for op in self.ops[..self.reached].iter_mut().rev() {
            if let Some(connection) = self.slots.get(op.slot) {
                connection.out.truncate(op.start);
            }
            op.skipped = false;
        }
        self.reached = 0;
    }

    /// Does one operation. False if it needs a transaction of its own.
    fn perform(&mut self, tx: &mut dyn Tx, index: usize) -> Result<bool, Error> {
        let op = &mut self.ops[index];
        let Some(connection) = self.slots.get(op.slot) else { return Ok(true) };
        op.start = connection.out.len();
        let counted = self.env.tally.mark();
        let db = Database::new(self.env.keyspace, connection.client.db);
        let most = self.env.server.options.max_reply;
        let done = match &mut op.what {
            What::Request(..)
                if connection.skips
                    || connection.is_full()
                    || self.budget.is_short_for(op.claim) =>
            {
                op.skipped = true;
                return Ok(true);
            }
            What::Request(request, command) => {
                let (args, client, out) = connection.split(*request);
                let (out, command) = (out.at_most(most), *command);
                perform::one(Call { tx, env: self.env, db, client, args, out }, command).map(|_| ())
            }
            What::Exec(exec) => {
                let out = Reply::new(&mut connection.out, connection.client.protocol);
                let out = out.at_most(most);
                perform::all(tx, self.env, &connection.client.listing, exec, out)
            }
        };
        match done {
            Ok(()) => Ok(true),
            Err(Error::TooLarge { .. } | Error::Full { .. } | Error::NoSpace { .. })
                if index > 0 =>
            {
                connection.out.truncate(op.start);
                self.env.tally.back_to(counted);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// After the commit: how many operations are done with.
    fn finish(&mut self) -> usize {
        for op in &self.ops[..self.reached] {
            if let Some(connection) = self.slots.get(op.slot) {
                connection.skips |= op.skipped;
                connection.hush(op.start);
            }
            let What::Exec(exec) = &op.what else { continue };
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
        if let What::Request(_, command) = op.what {
            self.env.stats.called(Called { command, done: false, took: Duration::ZERO });
        }
        if let Some(connection) = self.slots.get(op.slot) {
            let start = connection.out.len();
            let mut out = Reply::new(&mut connection.out, connection.client.protocol);
            failure.tell(&mut out);
            connection.hush(start);
        }
    }
}
