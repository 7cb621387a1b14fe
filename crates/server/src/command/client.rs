//! Commands, and the context of those on the client.

use super::flags;
use super::table::part;
use super::{Call, Exec, Failure, Outcome};
use crate::client::Client;
use crate::protocol::{Args, Reply};
use crate::server::Server;
use crate::slow_log::SlowCommand;
use crate::stats::{Called, Stats};
use std::time::Instant;

/// How a command runs, and the function that runs it.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// On data, only reading.
    Read(fn(&mut Call<'_>) -> Outcome),
    /// On data, writing.
    Write(fn(&mut Call<'_>) -> Outcome),
    /// On the client.
    Client(fn(&mut ClientCall<'_>) -> Outcome<Next>),
}

/// Where a command's arguments have keys: first, last (from the end, if negative) and step;
/// zeros for none.
pub(crate) type Keys = (i32, i32, i32);

/// A command, in the sense of Redis's COMMAND INFO.
#[derive(Clone, Copy)]
pub(crate) struct Command {
    /// Its place among all of them.
    pub(crate) number: usize,
    /// Its name, in lower case.
    pub(crate) name: &'static str,
    /// Arguments with the name; negative for a minimum.
    pub(crate) arity: i32,
    /// Where its keys are.
    pub(crate) keys: Keys,
    /// The function that runs it.
    pub(crate) run: Run,
    /// One line for COMMAND DOCS.
    pub(crate) summary: &'static str,
    /// Whether it takes about the same time whatever is stored, if its arguments and its reply are short.
    pub(super) brief: bool,
    /// Where its first member or field of a key is, from the end, if negative; 0 if there is none.
    pub(super) member: i32,
    /// Whether its client may wait for a key to be filled.
    pub(crate) blocks: bool,
    /// Whether it performs other commands.
    pub(crate) nests: bool,
    /// Whether some of its subcommands are commands of their own.
    pub(crate) has_parts: bool,
}

/// Two commands are the same if they are at one place in the table.
impl PartialEq for Command {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Command {}

/// Whether a request of `len` arguments, names included, has as many as an arity says.
pub(super) fn fits(arity: i32, len: usize) -> bool {
    let wanted = arity.unsigned_abs() as usize;
    if arity < 0 { len >= wanted } else { len == wanted }
}

/// Bytes of short arguments, and of a short reply.
pub(super) const BRIEF: usize = 1024;

impl Command {
    pub(crate) const fn new(
        name: &'static str,
        arity: i32,
        keys: Keys,
        run: Run,
        summary: &'static str,
    ) -> Self {
        let (brief, blocks, nests, has_parts) = (false, false, false, false);
        Command {
            number: 0,
            name,
            arity,
            keys,
            run,
            summary,
            brief,
            member: 0,
            blocks,
            nests,
            has_parts,
        }
    }

    /// A command that takes about the same time whatever is stored, if its arguments and its reply are short.
    pub(super) const fn brief(
        name: &'static str,
        arity: i32,
        keys: Keys,
        run: Run,
        summary: &'static str,
    ) -> Self {
        Command { brief: true, ..Command::new(name, arity, keys, run, summary) }
    }

    /// The same for one that looks for a member or field of its key, which is the argument at `at`.
    pub(super) const fn with_member(self, at: i32) -> Self {
        Command { member: at, ..self }
    }

    /// The member or field that a request looks for in its key.
    pub(crate) fn member<'a>(&self, args: &Args<'a>) -> Option<&'a [u8]> {
        match self.member {
            0 => None,
            at if at < 0 => args.get(args.len().checked_sub(at.unsigned_abs() as usize)?),
            at => args.get(at as usize),
        }
    }

    /// A command that writes, and whose client may wait for a key to be filled.
    pub(super) const fn blocking(
        name: &'static str,
        arity: i32,
        keys: Keys,
        run: fn(&mut Call<'_>) -> Outcome,
        summary: &'static str,
    ) -> Self {
        Command { blocks: true, ..Command::new(name, arity, keys, Run::Write(run), summary) }
    }

    /// A command whose client may wait for a key to be filled.
    pub(super) const fn waiting(
        name: &'static str,
        arity: i32,
        keys: Keys,
        run: Run,
        summary: &'static str,
    ) -> Self {
        Command { blocks: true, ..Command::new(name, arity, keys, run, summary) }
    }

    /// Whether a request for it is followed while a script keeps the server busy.
    pub(crate) fn goes_while_busy(&self, args: Args<'_>) -> bool {
        match self.name {
            "auth" | "hello" | "reset" | "quit" | "multi" | "discard" | "watch" | "unwatch"
            | "shutdown" | "post" | "host:" => true,
            "script" => args.is(1, "kill"),
            "function" => args.is(1, "kill"),
            "function|stats" => true,
            _ => false,
        }
    }

    /// The same, with subcommands that are commands of their own: their names are its name, `|`, and theirs.
    pub(super) const fn with_parts(self) -> Self {
        Command { has_parts: true, ..self }
    }

    /// A command that performs others.
    pub(super) const fn nesting(
        name: &'static str,
        arity: i32,
        run: Run,
        summary: &'static str,
    ) -> Self {
        Command { nests: true, ..Command::new(name, arity, (0, 0, 0), run, summary) }
    }

    /// Whether it takes about the same time whatever is stored, if its reply is short.
    pub(super) fn is_brief(&self, args: &Args<'_>) -> bool {
        self.brief && args.bytes() <= BRIEF
    }

    /// Whether a request of `len` arguments, name included, has as many as it should.
    pub(crate) fn takes(&self, len: usize) -> bool {
        fits(self.arity, len)
    }

    /// The command that a subcommand of this one is, if that is one of its own.
    pub(crate) fn part(&'static self, args: Args<'_>) -> Option<&'static Command> {
        if !self.has_parts {
            return None;
        }
        part(self.name, args.get(1)?).filter(|part| part.takes(args.len()))
    }

    /// Whether it keeps its arguments, most of them, if it does anything.
    pub(crate) fn stores(&self) -> bool {
        // A sketch keeps none of what it has seen.
        flags::of(self).contains(&"denyoom") && self.name != "pfadd"
    }

    pub(crate) fn writes(&self) -> bool {
        matches!(self.run, Run::Write(_))
    }
}

/// A command on the client, on its way.
pub(crate) struct ClientCall<'a> {
    pub(crate) server: &'a Server,
    pub(crate) stats: &'a Stats,
    pub(crate) client: &'a mut Client,
    pub(crate) args: Args<'a>,
    pub(crate) out: &'a mut Vec<u8>,
}

/// The next step after a command.
pub(crate) enum Next {
    /// The client's next command.
    Go,
    /// The connection is closed once the reply is sent.
    Close,
    /// Queued commands are run.
    Exec(Exec),
    /// The client has become a replica.
    Leave,
    /// The client waits for a reply that is handed over later ([`Delivery`](crate::waiting::Delivery)).
    Wait,
}

impl ClientCall<'_> {
    /// Runs a command; `None` if it is not one on the client.
    pub(crate) fn run(&mut self, command: &'static Command) -> Option<Outcome<Next>> {
        let Run::Client(run) = command.run else { return None };
        let began = Instant::now();
        let done = run(self);
        let took = began.elapsed();
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.stats.called(Called { command, done: done.is_ok(), nanos }, 1);
        // EXEC's commands are looked at one by one.
        if self.server.tuning.is_notable(took) && command.name != "exec" {
            let listing = &self.client.listing;
            self.server.note_slow(SlowCommand::new(command, self.args, listing, took));
        }
        Some(done)
    }

    /// Where to write the reply, in the protocol that the client speaks now.
    pub(crate) fn reply(&mut self) -> Reply<'_> {
        Reply::new(self.out, self.client.protocol)
    }

    /// Answers with an error, in place of the bytes written since `start`.
    pub(crate) fn fail(&mut self, start: usize, failure: &Failure) {
        self.out.truncate(start);
        self.stats.error(failure.code());
        failure.tell(&mut self.reply());
    }

    /// Answers +OK.
    pub(crate) fn ok(&mut self) -> Outcome<Next> {
        self.reply().ok();
        Ok(Next::Go)
    }
}
