//! The way of a request that works on no data: answered at once, queued after MULTI, or refused.

use super::connection::Connection;
use crate::acl::{self, Context, Denied};
use crate::command::Queue;
use crate::command::{
    ClientCall, Command, Failure, Next, Run, find, find_whole, goes_while_subscribed, is_immediate,
    is_never_queued, parts, refused, shown,
};
use crate::pause::{self, Paused};
use crate::protocol::Args;
use crate::protocol::Request;
use crate::replication::following::{Gate, READONLY};
use crate::script::Busy;
use crate::server::Server;
use crate::stats::Stats;

/// The way of a request that does not go into the round's transaction.
pub(super) enum Route {
    /// Answered at once.
    Client(&'static Command),
    /// Into the queue of commands after MULTI.
    Queue(&'static Command),
    Reject(Failure),
    /// The client's user may not do it.
    Deny(Denied),
}

impl Route {
    pub(super) fn of(
        connection: &Connection,
        request: Request,
        busy: Option<Busy>,
        gate: Gate,
    ) -> Route {
        let args = connection.args(request);
        let client = &connection.client;
        let Some(command) = find_whole(args) else {
            return Route::Reject(unknown(args));
        };
        if !command.takes(args.len()) {
            return Route::Reject(Failure::arity(command.name));
        }
        if client.queue.is_some()
            && let Some(failure) = parts::refusal(command, args)
        {
            return Route::Reject(failure);
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
        if client.monitors() {
            if matches!(command.run, Run::Read(_) | Run::Write(_)) {
                let text = "ERR Replica can't interact with the keyspace";
                return Route::Reject(Failure::Say(text.into()));
            }
        } else if client.restricted && !goes_while_subscribed(command) {
            return Route::Reject(Failure::say(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
                 are allowed in this context",
                command.name
            )));
        }
        let writes = |queue: &Queue| gate == Gate::ReadOnly && queue.is_kept_out(gate);
        if command.name == "exec" && client.queue.as_ref().is_some_and(writes) {
            return Route::Reject(Failure::Say(READONLY.into()));
        }
        if let Some(text) = gate.refusal(command) {
            return Route::Reject(Failure::Say(text.into()));
        }
        if let Some(busy) = busy {
            return match command.goes_while_busy(args) {
                true if command.name == "function|stats" => find("function".as_bytes())
                    .map_or(Route::Reject(Failure::SYNTAX), Route::Client),
                true => Route::Client(command),
                false => Route::Reject(Failure::Say(busy.text().into())),
            };
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

    /// The command that is answered at once.
    pub(super) fn command(&self) -> Option<&'static Command> {
        match self {
            Route::Client(command) => Some(command),
            _ => None,
        }
    }

    /// Whether it waits until all that was written is told to replicas: nothing that this thread has done may be untold.
    pub(super) fn keeps(&self) -> bool {
        let keeps = |command: &Command| matches!(command.name, "replicaof" | "slaveof");
        matches!(self, Route::Client(command) if keeps(command))
    }

    /// Follows a route without a transaction, and keeps the reply if the client wants replies.
    pub(super) fn answer(
        self,
        to: (&Server, &Stats),
        connection: &mut Connection,
        request: Request,
    ) -> Next {
        let start = connection.out.len();
        let is_told =
            matches!(&self, Route::Client(command) if command.name.ends_with("subscribe"));
        let next = self.follow(to, connection, request);
        match is_told {
            // As a message it goes even to a client that wants no replies.
            true => connection.client.replies.skip(),
            false => connection.hush(start),
        }
        next
    }

    /// Follows a route without a transaction.
    fn follow(
        self,
        (server, stats): (&Server, &Stats),
        connection: &mut Connection,
        request: Request,
    ) -> Next {
        let (args, client, out) = connection.split_client(request);
        let start = out.len();
        let mut call = ClientCall { server, stats, client, args, out };
        let outcome = match self {
            Route::Queue(command) => {
                let bytes_max = server.options.max_request;
                let queue = call.client.queue.as_mut();
                queue.map_or(Ok(()), |queue| queue.push(command, args, bytes_max)).map(|()| {
                    call.reply().simple("QUEUED");
                    Next::Go
                })
            }
            Route::Client(command) => {
                stats.commands.add(1);
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

/// Whether a request waits for the end of a pause: not if it is refused.
#[cold]
pub(super) fn waits(
    server: &Server,
    connection: &Connection,
    request: Request,
    (busy, gate): (Option<Busy>, Gate),
    paused: Paused,
) -> bool {
    let writes = |command: &Command| match command.name {
        "exec" => {
            let queue = connection.client.queue.as_ref();
            queue.is_some_and(|queue| pause::queue_writes(server, queue))
        }
        _ => pause::writes(server, command, connection.args(request)),
    };
    match Route::of(connection, request, busy, gate) {
        Route::Client(command) | Route::Queue(command) => paused == Paused::All || writes(command),
        Route::Reject(_) | Route::Deny(_) => false,
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
