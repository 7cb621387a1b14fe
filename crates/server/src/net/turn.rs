//! One turn: everything that the ready connections have sent is done, made durable once, and
//! answered.
//!
//! A turn goes in rounds. A round takes requests from each connection, up to one that does not
//! work on data; those are done while nothing of the same connection waits, so that replies
//! stay in order and a client's state never changes under its waiting requests. Then all
//! requests of the round run in as few transactions as possible: one, unless it gets too large.
//!
//! A transaction's body may run several times: outputs are cut back to where they were.

use super::connection::{Connection, Next as Incoming};
use super::slots::Slots;
use crate::client::Replies;
use crate::command::{
    Call, ClientCall, Command, Env, Exec, Failure, Next, Run, find, is_immediate, perform, shown,
};
use crate::keyspace::Database;
use crate::protocol::args::OwnedArgs;
use crate::protocol::{Args, Reply, Request};
use crate::room;
use crate::store::Session;
use perdura::{Error, Tx};

/// Commands in one transaction.
const MOST_COMMANDS: usize = 512;
/// Bytes of arguments in one transaction (exceeded by no more than one command).
const MOST_BYTES: usize = 1 << 20;
/// Rounds in one turn.
const MOST_ROUNDS: usize = 64;

/// What a round does for one connection.
struct Op {
    slot: usize,
    what: What,
    /// The length of the connection's output before.
    start: usize,
    /// Left for later, since too much output is unsent.
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

/// Room for a round's work, kept from turn to turn.
#[derive(Default)]
pub(super) struct Turn {
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
    ) -> Result<Option<S::Ticket>, Error> {
        let mut last = None;
        for _ in 0..MOST_ROUNDS {
            for &slot in ready {
                if let Some(connection) = slots.get(slot) {
                    self.plan(env, slot, connection);
                }
            }
            if self.ops.is_empty() {
                break;
            }
            env.stats.commands.add(self.ops.len() as u64);
            let ticket = self.execute(session, env, slots);
            self.put_off(slots);
            self.ops.clear();
            self.bytes = 0;
            last = last.max(ticket?);
        }
        Ok(last)
    }

    /// Takes a connection's requests into the round.
    fn plan(&mut self, env: Env<'_>, slot: usize, connection: &mut Connection) {
        let mut waiting = false;
        loop {
            if self.ops.len() >= MOST_COMMANDS || self.bytes >= MOST_BYTES {
                connection.stalled = true;
                return;
            }
            let request = match connection.next_request() {
                Incoming::Request(request) => request,
                Incoming::Nothing => return,
                Incoming::Broken if waiting => {
                    connection.stalled = true;
                    return;
                }
                Incoming::Broken => {
                    env.stats.error("ERR");
                    return connection.refuse();
                }
            };
            match Route::of(connection, request) {
                Route::Data(command) => {
                    self.bytes += connection.args(request).bytes();
                    self.push(slot, What::Request(request, command));
                    waiting = true;
                    if connection.client.replies == Replies::Skip {
                        // Whether the next one is answered is known when this one was.
                        connection.stalled = true;
                        return;
                    }
                }
                _ if waiting => return connection.put_back(request),
                route => match route.answer(env, connection, request) {
                    Next::Go => {}
                    Next::Close => return connection.set_closing(),
                    Next::Exec(exec) => {
                        connection.stalled = true;
                        return self.push(slot, What::Exec(exec));
                    }
                },
            }
        }
    }

    fn push(&mut self, slot: usize, what: What) {
        self.ops.push(Op { slot, what, start: 0, skipped: false });
    }

    /// Gives back what was skipped: the last first, so that each connection's stay in order.
    fn put_off(&mut self, slots: &mut Slots) {
        for op in self.ops.iter().rev().filter(|op| op.skipped) {
            if let (What::Request(request, _), Some(connection)) = (&op.what, slots.get(op.slot)) {
                connection.put_back(*request);
            }
        }
    }

    /// Runs the round's work in transactions.
    fn execute<S: Session>(
        &mut self,
        session: &mut S,
        env: Env<'_>,
        slots: &mut Slots,
    ) -> Result<Option<S::Ticket>, Error> {
        let mut last = None;
        let mut ops = self.ops.as_mut_slice();
        let mut most = ops.len();
        // Attempts to make room for the first of them.
        let (mut attempts, mut env) = (0, env);
        while !ops.is_empty() {
            let count = if env.last_resort { 1 } else { most.min(ops.len()) };
            let mut group = Group { ops: &mut ops[..count], reached: 0, env, slots };
            match group.commit(session) {
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
                if let Some(queue) = &mut call.client.queue {
                    queue.push(command, OwnedArgs::from(args));
                }
                call.reply().simple("QUEUED");
                return Next::Go;
            }
            Route::Client(command) => {
                let Run::Client(run) = command.run else { return Next::Go };
                env.stats.commands.add(1);
                run(&mut call)
            }
            Route::Reject(failure) => {
                if let Some(queue) = &mut call.client.queue {
                    queue.spoil();
                }
                Err(failure)
            }
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
    Failure::say(format!("ERR unknown command '{name}', with args beginning with: {beginning}"))
}

/// Operations that share a transaction.
struct Group<'g> {
    ops: &'g mut [Op],
    /// How many the transaction holds.
    reached: usize,
    env: Env<'g>,
    slots: &'g mut Slots,
}

impl Group<'_> {
    fn commit<S: Session>(&mut self, session: &mut S) -> Result<S::Ticket, Error> {
        if self.ops.iter().any(Op::writes) {
            self.env.stats.transactions.add(1);
            let written = session.write(&mut |tx| self.body(tx));
            self.env.settle();
            written
        } else {
            self.env.stats.read_transactions.add(1);
            session.read(&mut |tx| self.body(tx))
        }
    }

    fn body(&mut self, tx: &mut dyn Tx) -> Result<(), Error> {
        self.retract();
        for index in 0..self.ops.len() {
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
        let db = Database::new(self.env.keyspace, connection.client.db);
        let most = self.env.server.options.max_reply;
        let done = match &mut op.what {
            What::Request(..) if connection.is_full() => {
                op.skipped = true;
                return Ok(true);
            }
            What::Request(request, command) => {
                let (args, out) = connection.split(*request);
                let (out, command) = (out.at_most(most), *command);
                perform::one(Call { tx, env: self.env, db, args, out }, command).map(|_| ())
            }
            What::Exec(exec) => {
                let out = Reply::new(&mut connection.out, connection.client.protocol);
                let out = out.at_most(most);
                perform::all(tx, self.env, exec, out)
            }
        };
        match done {
            Ok(()) => Ok(true),
            Err(Error::TooLarge { .. } | Error::Full { .. } | Error::NoSpace { .. })
                if index > 0 =>
            {
                connection.out.truncate(op.start);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// After the commit: how many operations are done with.
    fn finish(&mut self) -> usize {
        for op in &self.ops[..self.reached] {
            if let Some(connection) = self.slots.get(op.slot) {
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
        let failure = Failure::Pool(error);
        self.env.stats.error(failure.code());
        let op = &mut self.ops[0];
        if let Some(connection) = self.slots.get(op.slot) {
            let start = connection.out.len();
            let mut out = Reply::new(&mut connection.out, connection.client.protocol);
            failure.tell(&mut out);
            connection.hush(start);
        }
    }
}
