//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! EXEC runs the queued commands in one transaction of the heap: after a crash all of it is there
//! or nothing. As in Redis, a command that fails does not keep the others from being done; but
//! when the pool is full, nothing is done.

use super::{ClientCall, Command, Env, Failure, Next, Outcome, Run, find};
use crate::acl::{self, Context};
use crate::pause::OwnPause;
use crate::protocol::args::OwnedArgs;
use crate::protocol::{Args, Reply};
use crate::replication::following::Gate;
use crate::watch::WatchList;

pub(super) const TABLE: &[Command] = &[
    Command::new("multi", 1, (0, 0, 0), Run::Client(multi), "Starts a transaction."),
    Command::new("exec", 1, (0, 0, 0), Run::Client(exec), "Executes a transaction's commands."),
    Command::new("discard", 1, (0, 0, 0), Run::Client(discard), "Discards a transaction."),
    Command::new("watch", -2, (1, -1, 1), Run::Client(watch), "Makes EXEC depend on keys."),
    Command::new("unwatch", 1, (0, 0, 0), Run::Client(unwatch), "Forgets watched keys."),
];

/// The commands of a client since MULTI.
#[derive(Default)]
pub(crate) struct Queue {
    commands: Vec<(&'static Command, OwnedArgs)>,
    /// Bytes that the commands take.
    bytes: usize,
    broken: bool,
}

/// Bytes of memory that a queued command takes besides its arguments, and each of these.
pub(crate) const PER_COMMAND: usize = 160;
pub(crate) const PER_ARGUMENT: usize = 16;

impl Queue {
    /// Whether it has commands that are kept out.
    pub(crate) fn is_kept_out(&self, gate: Gate) -> bool {
        self.commands.iter().any(|(command, _)| gate.refusal(command).is_some())
    }

    /// Its commands.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static Command, Args<'_>)> {
        self.commands.iter().map(|(command, args)| (*command, args.as_args()))
    }

    /// A command could not be queued: EXEC will fail.
    fn spoil(&mut self) {
        self.broken = true;
        self.commands = Vec::new();
    }

    /// Queues a command, unless EXEC will fail anyway. All that are queued take at most `most` bytes
    /// of memory; beyond that this fails, and EXEC will.
    pub(crate) fn push(
        &mut self,
        command: &'static Command,
        args: Args<'_>,
        most: usize,
    ) -> Outcome {
        if self.broken {
            return Ok(());
        }
        self.bytes += args.bytes() + args.len() * PER_ARGUMENT + PER_COMMAND;
        if self.bytes > most {
            self.spoil();
            return Err(Failure::say(format!(
                "ERR the commands since MULTI take more than {most} bytes, see --max-request"
            )));
        }
        self.commands.push((command, OwnedArgs::from(args)));
        Ok(())
    }
}

/// A transaction that was asked for with EXEC.
pub(crate) struct Exec {
    pub(crate) steps: Vec<Step>,
    pub(crate) watched: WatchList,
    /// The database that was selected before: selected again if nothing is done.
    pub(crate) db: u8,
    /// A watched key had been written, or was being, when it was asked for.
    pub(crate) disturbed: bool,
    /// A watched key was written: nothing was done.
    pub(crate) aborted: bool,
    /// The pause that it is let through: that of CLIENT PAUSE in it begins for others, and at its end for this client.
    pub(crate) own_pause: Option<OwnPause>,
}

/// A command of it.
pub(crate) enum Step {
    /// On data, in the database that was selected when its turn came. Whether the client `remembers` what it reads was
    /// decided then, too.
    Data { command: &'static Command, args: OwnedArgs, db: u8, remembers: bool },
    /// On the client: it was done already, and this is its reply.
    Said(Vec<u8>),
}

impl Exec {
    pub(crate) fn writes(&self) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Data { command, .. } => command.writes(),
            Step::Said(_) => false,
        })
    }

    /// Its commands on data.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &'static Command> {
        self.requests().map(|(command, _)| command)
    }

    /// The same, with their arguments.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (&'static Command, Args<'_>)> {
        self.steps.iter().filter_map(|step| match step {
            Step::Data { command, args, .. } => Some((*command, args.as_args())),
            Step::Said(_) => None,
        })
    }

    /// Before its transaction begins: notes what its client is about to read, if that is tracked.
    pub(crate) fn plan_reads(&self, env: Env<'_>) {
        for step in &self.steps {
            if let Step::Data { command, args, db, remembers: true } = step {
                env.tracked.plan(&env.server.watch, command, args.as_args(), *db);
            }
        }
    }

    /// Whether it runs scripts.
    pub(crate) fn nests(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Data { command, .. } if command.nests))
    }
}

/// Whether a command is done at once even after MULTI.
pub(crate) fn is_immediate(command: &Command) -> bool {
    matches!(
        command.name,
        "multi" | "exec" | "discard" | "watch" | "quit" | "reset" | "post" | "host:"
    )
}

/// Whether a command can be no part of a transaction.
pub(crate) fn is_never_queued(command: &Command) -> bool {
    matches!(command.name, "save" | "shutdown" | "psync" | "sync" | "migrate")
}

/// A command was refused before it could be done or queued: the queue will fail. EXEC itself,
/// refused, ends the transaction, as in Redis: it is not left open for later commands.
pub(crate) fn refused(call: &mut ClientCall<'_>, failure: Failure) -> Failure {
    if let Some(command) = find(call.args.at(0)) {
        call.stats.of(command).rejected.add(1);
    }
    if !call.args.is(0, "exec") {
        if let Some(queue) = &mut call.client.queue {
            queue.spoil();
        }
        return failure;
    }
    call.client.queue = None;
    call.client.watched.clear();
    let Failure::Say(text) = failure else { return failure };
    let text = text.strip_prefix("ERR ").unwrap_or(&text);
    Failure::say(format!("EXECABORT Transaction discarded because of: {text}"))
}

fn multi(call: &mut ClientCall<'_>) -> Outcome<Next> {
    if call.client.queue.is_some() {
        return Err(Failure::Say("ERR MULTI calls can not be nested".into()));
    }
    call.client.queue = Some(Queue::default());
    call.ok()
}

fn exec(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let Some(queue) = call.client.queue.take() else {
        return Err(Failure::Say("ERR EXEC without MULTI".into()));
    };
    if queue.broken {
        call.client.watched.clear();
        let text = "EXECABORT Transaction discarded because of previous errors.";
        return Err(Failure::Say(text.into()));
    }
    let watched = std::mem::take(&mut call.client.watched);
    let db = call.client.db;
    if !call.server.watch.unchanged(&watched) {
        // It will be answered with nil: its commands change neither the client nor the server.
        return Ok(Next::Exec(Exec {
            steps: Vec::new(),
            watched,
            db,
            disturbed: true,
            aborted: false,
            own_pause: None,
        }));
    }
    let mut said = 0;
    let steps = queue.commands.into_iter().map(|(command, args)| {
        let step = step(call, command, args);
        if let Step::Said(reply) = &step {
            // The whole reply will be refused: the rest of it need not be kept.
            if said > call.server.options.max_reply {
                return Step::Said(Vec::new());
            }
            said += reply.len();
        }
        step
    });
    let steps = steps.collect();
    let own_pause = call.client.own_pause.take();
    Ok(Next::Exec(Exec { steps, watched, db, disturbed: false, aborted: false, own_pause }))
}

/// Prepares one queued command; one on the client is done now.
fn step(call: &mut ClientCall<'_>, command: &'static Command, args: OwnedArgs) -> Step {
    if !call.client.trusted
        && let Err(denied) = acl::check(&call.client.user, command, args.as_args())
    {
        call.client.denied(call.server, &denied, Context::Multi);
        return said(call, &Failure::say(denied.text_of_exec()));
    }
    if !matches!(command.run, Run::Client(_)) {
        let remembers = call.client.remembers();
        return Step::Data { command, args, db: call.client.db, remembers };
    }
    if command.name == "monitor" {
        let text = "ERR MONITOR isn't allowed for DENY BLOCKING client";
        return said(call, &Failure::Say(text.into()));
    }
    let mut out = Vec::new();
    let mut inner = ClientCall {
        server: call.server,
        stats: call.stats,
        client: call.client,
        args: args.as_args(),
        out: &mut out,
    };
    if let Some(Err(failure)) = inner.run(command) {
        inner.fail(0, &failure);
    }
    Step::Said(out)
}

/// The step of a command that is not performed.
fn said(call: &mut ClientCall<'_>, failure: &Failure) -> Step {
    call.stats.error(failure.code());
    let mut out = Vec::new();
    failure.tell(&mut Reply::new(&mut out, call.client.protocol));
    Step::Said(out)
}

fn discard(call: &mut ClientCall<'_>) -> Outcome<Next> {
    if call.client.queue.take().is_none() {
        return Err(Failure::Say("ERR DISCARD without MULTI".into()));
    }
    call.client.watched.clear();
    call.ok()
}

fn watch(call: &mut ClientCall<'_>) -> Outcome<Next> {
    if call.client.queue.is_some() {
        return Err(Failure::Say("ERR WATCH inside MULTI is not allowed".into()));
    }
    for key in call.args.from(1).iter() {
        let watched = call.server.watch.watch(call.client.db, key);
        let most = call.server.options.max_request;
        if !call.client.watched.add(watched, most) {
            return Err(Failure::say(format!(
                "ERR the watched keys take more than {most} bytes, see --max-request"
            )));
        }
    }
    call.ok()
}

fn unwatch(call: &mut ClientCall<'_>) -> Outcome<Next> {
    call.client.watched.clear();
    call.ok()
}
