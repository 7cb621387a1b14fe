//! EVAL, EVALSHA, their forms that only read, and SCRIPT.
//!
//! A script is a command as others are: if it fails, all that it has written is undone.

use super::monitor::{self, By};
use super::perform::Answer;
use super::{Call, ClientCall, Command, Failure, Next, Outcome, Run, find, perform};
use crate::acl::{self, User};
use crate::client::Client;
use crate::keyspace::{Database, Hint};
use crate::protocol::args::OwnedArgs;
use crate::protocol::{Args, Protocol, Reply};
use crate::script::interpreter::{self, Code, Task, Thread};
use crate::script::{Digest, Ended, Killing, Ran, Running, Script, Sort, digest_of, sha1_hex};
use crate::server::Server;
use perdura::{Error, Tx};
use std::cell::Cell;
use std::sync::Arc;

const NONE: (i32, i32, i32) = (0, 0, 0);

pub(super) const TABLE: &[Command] = &[
    Command::nesting("eval", -3, Run::Write(eval), "Runs a script in Lua."),
    Command::nesting("evalsha", -3, Run::Write(evalsha), "Runs a script that the server knows."),
    Command::nesting("eval_ro", -3, Run::Read(eval_ro), "EVAL of a script that only reads."),
    Command::nesting("evalsha_ro", -3, Run::Read(evalsha_ro), "EVALSHA of one that only reads."),
    Command::new("script", -2, NONE, Run::Client(script), "The scripts that the server knows."),
];

const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

/// What a script is and may do.
#[derive(Clone, Copy)]
struct Kind {
    by_digest: bool,
    read_only: bool,
}

fn eval(call: &mut Call<'_>) -> Outcome {
    run(call, Kind { by_digest: false, read_only: false })
}

fn evalsha(call: &mut Call<'_>) -> Outcome {
    run(call, Kind { by_digest: true, read_only: false })
}

fn eval_ro(call: &mut Call<'_>) -> Outcome {
    run(call, Kind { by_digest: false, read_only: true })
}

fn evalsha_ro(call: &mut Call<'_>) -> Outcome {
    run(call, Kind { by_digest: true, read_only: true })
}

fn run(call: &mut Call<'_>, kind: Kind) -> Outcome {
    let count = key_count(call.integer(2)?, call.args.len() - 3)?;
    let script = find_script(call, kind.by_digest)?;
    let flags = script.flags;
    if kind.read_only && flags.declared && !flags.no_writes {
        let text = "ERR Can not execute a script with write flag using *_ro command.";
        return Err(Failure::Say(text.into()));
    }
    run_code(call, (Code::Script(&script), None), count, kind.read_only || flags.no_writes)
}

/// How many of a call's arguments are keys, as it says.
pub(super) fn key_count(count: i64, most: usize) -> Outcome<usize> {
    match usize::try_from(count) {
        Ok(count) if count <= most => Ok(count),
        Ok(_) => {
            let text = "ERR Number of keys can't be greater than number of args";
            Err(Failure::Say(text.into()))
        }
        Err(_) => Err(Failure::Say("ERR Number of keys can't be negative".into())),
    }
}

/// Runs a script or a function, with so many keys.
pub(super) fn run_code(
    call: &mut Call<'_>,
    (code, running): (Code<'_>, Option<Running>),
    count: usize,
    read_only: bool,
) -> Outcome {
    let env = call.env;
    let task = Task {
        code,
        keys: call.args.first(3, count),
        arguments: call.args.from(3 + count),
        most: env.server.tuning.script_time(),
        running: Cell::new(running),
        seed: env.now ^ env.seed << 20,
        client: call.client.id,
        user: call.client.limited_user(),
    };
    let mut inner = Inner {
        tx: &mut *call.tx,
        call_of: Context { env, client: call.client, read_only },
        db: call.db.index(),
        user: task.user.clone(),
        full: None,
        error: None,
    };
    let mut perform = |args: &OwnedArgs, protocol: Protocol, reply: &mut Vec<u8>| {
        inner.perform(args.as_args(), protocol, reply)
    };
    let mut on_error = |text: &str| env.tally.error(text.split(' ').next().unwrap_or_default());
    let thread = Thread { runs: Arc::clone(&env.server.runs), worker: env.worker };
    let ran = interpreter::run(&task, &thread, &mut perform, &mut call.out, &mut on_error);
    let (full, error) = (inner.full, inner.error);
    if let Some(error) = error {
        return Err(Failure::Pool(error));
    }
    let text = match ran? {
        Ran::Well => return Ok(()),
        Ran::Wrong(text) if full.is_some_and(|code| text.starts_with(&code)) => {
            return Err(Failure::NoRoom(text));
        }
        Ran::Wrong(text) => text,
        // As one that is too large for what else is in its transaction: the turn knows better.
        Ran::Ended(Ended::Again) => {
            return Err(Failure::Pool(Error::TooLarge { needed: 0, available: 0 }));
        }
        Ran::Ended(Ended::Stopping) => {
            "ERR the server is shutting down and has ended the script; nothing of it was done"
                .into()
        }
        Ran::Ended(Ended::Killed | Ended::TimedOut | Ended::Failed) => {
            let by = match task.code {
                Code::Script(_) => "SCRIPT",
                Code::Function { .. } => "FUNCTION",
            };
            format!(
                "ERR Error running script: Script killed by user with {by} KILL. Nothing of it was done"
            )
        }
    };
    Err(Failure::say(text))
}

/// The script that a call names, or has in it: the server then knows it.
fn find_script(call: &Call<'_>, by_digest: bool) -> Outcome<Arc<Script>> {
    let (scripts, text) = (&call.env.server.scripts, call.args.at(1));
    if by_digest {
        let found = digest_of(text).and_then(|digest| scripts.find(&digest));
        return found.ok_or(Failure::Say(NO_SCRIPT.into()));
    }
    let digest = sha1_hex(text);
    if let Some(found) = scripts.find(&digest) {
        return Ok(found);
    }
    let script = made(text, digest)?;
    // A master, or a file of its commands, may name it by its digest for as long as Redis would know it.
    let most = call.env.server.options.max_request;
    let is_loaded = call.env.obeys() && scripts.load(&script, most).is_ok();
    if !is_loaded {
        scripts.note(&script);
    }
    Ok(script)
}

/// A script that can be compiled.
fn made(text: &[u8], digest: Digest) -> Outcome<Arc<Script>> {
    let script = Script::new(text, digest)?;
    interpreter::check(&script)?;
    Ok(Arc::new(script))
}

/// What a script's commands have in common.
struct Context<'a> {
    env: super::Env<'a>,
    client: &'a crate::listing::Listing,
    read_only: bool,
}

/// The commands of a script.
struct Inner<'a, 't> {
    tx: &'t mut dyn Tx,
    call_of: Context<'a>,
    /// The database that the script has selected.
    db: u8,
    /// The user who runs the script, if there are commands that it may not run.
    user: Option<Arc<User>>,
    /// The code of the error of a command for whose writes there was no room.
    full: Option<String>,
    /// The error that ends the transaction.
    error: Option<Error>,
}

impl Inner<'_, '_> {
    /// Performs a command of the script. An error ends the script.
    fn perform(
        &mut self,
        args: Args<'_>,
        protocol: Protocol,
        reply: &mut Vec<u8>,
    ) -> Result<(), ()> {
        let Context { env, client, read_only } = self.call_of;
        let command = allowed(args, read_only).and_then(|command| {
            if let Some(text) = env.server.following.gate().refusal(command)
                && !env.obeys()
            {
                return Err(Failure::Say(text.into()));
            }
            self.check_user(command, args)?;
            Ok(command)
        });
        let command = match command {
            Ok(command) => command,
            Err(failure) => {
                env.tally.error(failure.code());
                failure.tell(&mut Reply::new(reply, protocol));
                return Ok(());
            }
        };
        if matches!(command.run, Run::Client(_)) {
            self.perform_on_client(command, args, protocol, reply);
            return Ok(());
        }
        monitor::tell(env, self.db, By::Script, command, args);
        let call = Call {
            tx: &mut *self.tx,
            env,
            db: Database::new(env.keyspace, self.db),
            client,
            args,
            out: Reply::new(reply, protocol).at_most(env.server.options.max_reply),
            may_wait: false,
            near: Hint::default(),
        };
        match perform::one(call, command) {
            Ok(Answer::Done) => Ok(()),
            Ok(Answer::Full(failure)) => {
                self.full = Some(failure.code().to_owned());
                Ok(())
            }
            Err(error) => {
                self.error = Some(error);
                Err(())
            }
        }
    }

    /// Checks that the user who runs the script may run a command.
    fn check_user(&self, command: &Command, args: Args<'_>) -> Outcome {
        let Some(user) = &self.user else { return Ok(()) };
        acl::check(user, command, args).map_err(|denied| {
            let Context { env, client, .. } = self.call_of;
            let len = env.server.tuning.acl_log_len();
            env.server.acl.note(client, &denied, acl::Context::Script, None, len);
            let text = denied.text(user, false);
            Failure::say(format!("NOPERM ACL failure in script: {text}"))
        })
    }

    /// A command on the client is one on the script's own: SELECT is for the rest of the script.
    fn perform_on_client(
        &mut self,
        command: &'static Command,
        args: Args<'_>,
        protocol: Protocol,
        reply: &mut Vec<u8>,
    ) {
        let Context { env, client, .. } = self.call_of;
        let mut client = Client::of_script(env.server, client, self.db, protocol);
        let mut call = ClientCall {
            server: env.server,
            stats: env.stats,
            client: &mut client,
            args,
            out: reply,
        };
        if let Some(Err(failure)) = call.run(command) {
            call.fail(0, &failure);
        }
        self.db = client.db;
    }
}

/// The command of a script, if scripts may call it.
fn allowed(args: Args<'_>, read_only: bool) -> Outcome<&'static Command> {
    let say = |text: &'static str| Err(Failure::Say(text.into()));
    let Some(command) = find(args.at(0)) else {
        return say("ERR Unknown Redis command called from script");
    };
    if !command.takes(args.len()) {
        return say("ERR Wrong number of args calling Redis command from script");
    }
    let may_be_called = match command.run {
        Run::Client(_) => {
            matches!(
                command.name,
                "ping" | "echo" | "select" | "time" | "lastsave" | "command" | "pubsub" | "info"
            )
        }
        Run::Read(_) | Run::Write(_) => !command.nests,
    };
    if !may_be_called {
        return say("ERR This Redis command is not allowed from script");
    }
    if read_only && (command.writes() || matches!(command.name, "publish" | "spublish")) {
        return say("ERR Write commands are not allowed from read-only scripts.");
    }
    Ok(command)
}

/// Keeps the script of a SCRIPT LOAD that a master sends. Other parts of SCRIPT change nothing: scripts are kept at most for
/// too long.
pub(crate) fn note_script(server: &Server, args: Args<'_>) -> Outcome {
    if !args.is(1, "load") || args.len() != 3 {
        return Ok(());
    }
    let script = made(args.at(2), sha1_hex(args.at(2)))?;
    server.scripts.load(&script, server.options.max_request)
}

fn script(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let (args, server) = (call.args, call.server);
    match (args.at(1).to_ascii_lowercase().as_slice(), args.len()) {
        (b"load", 3) => {
            let digest = sha1_hex(args.at(2));
            let script = match server.scripts.find(&digest) {
                Some(script) => script,
                None => made(args.at(2), digest)?,
            };
            server.scripts.load(&script, server.options.max_request)?;
            call.reply().bulk(&digest);
        }
        (b"exists", 3..) => {
            let mut out = call.reply();
            out.array(args.len() - 2);
            for text in args.from(2).iter() {
                let found = digest_of(text).and_then(|digest| server.scripts.find(&digest));
                out.flag(found.is_some());
            }
        }
        (b"flush", 2) => return flush(call),
        (b"flush", 3) if args.is(2, "sync") || args.is(2, "async") => return flush(call),
        (b"flush", _) => {
            return Err(Failure::Say("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into()));
        }
        (b"kill", 2) => return kill(call, Sort::Script),
        (b"help", 2) => call.reply().help(
            "SCRIPT",
            &[
                "EXISTS <sha1> [<sha1> ...]",
                "    Return information about the existence of the scripts in the script cache.",
                "FLUSH [ASYNC|SYNC]",
                "    Flush the Lua scripts cache.",
                "KILL",
                "    Kill the currently executing Lua scripts.",
                "LOAD <script>",
                "    Load a script into the scripts cache without executing it.",
            ],
        ),
        (b"load" | b"exists" | b"kill" | b"help", _) => {
            return Err(Failure::subcommand_arity(args, "script"));
        }
        _ => return Err(Failure::unknown_subcommand(args, "SCRIPT")),
    }
    Ok(Next::Go)
}

/// Ends the scripts, or the functions, that are running.
pub(super) fn kill(call: &mut ClientCall<'_>, sort: Sort) -> Outcome<Next> {
    match call.server.runs.kill(sort) {
        Killing::Done => call.ok(),
        Killing::Not(other) => Err(Failure::Say(other.text().into())),
        Killing::Idle => Err(Failure::Say("NOTBUSY No scripts in execution right now.".into())),
    }
}

fn flush(call: &mut ClientCall<'_>) -> Outcome<Next> {
    call.server.scripts.flush();
    call.ok()
}
