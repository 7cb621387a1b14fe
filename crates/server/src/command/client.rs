//! What a command on the client works with.

use super::{Command, Exec, Failure, Outcome, Run};
use crate::client::Client;
use crate::protocol::{Args, Reply};
use crate::server::Server;
use crate::slow_log::SlowCommand;
use crate::stats::{Called, Stats};
use std::time::Instant;

/// One command on its way.
pub(crate) struct ClientCall<'a> {
    pub(crate) server: &'a Server,
    pub(crate) stats: &'a Stats,
    pub(crate) client: &'a mut Client,
    pub(crate) args: Args<'a>,
    pub(crate) out: &'a mut Vec<u8>,
}

/// What happens after it.
pub(crate) enum Next {
    /// The client's next command.
    Go,
    /// The connection is closed once the reply is sent.
    Close,
    /// Queued commands are run.
    Exec(Exec),
}

impl ClientCall<'_> {
    /// Runs a command; `None` if it is not one on the client.
    pub(crate) fn run(&mut self, command: &'static Command) -> Option<Outcome<Next>> {
        let Run::Client(run) = command.run else { return None };
        let began = Instant::now();
        let done = run(self);
        let took = began.elapsed();
        self.stats.called(Called { command, done: done.is_ok(), took });
        // What EXEC runs is looked at by itself.
        if self.server.tuning.is_slow(took) && command.name != "exec" {
            let listing = &self.client.listing;
            self.server.note_slow(SlowCommand::new(command.name, self.args, listing, took));
        }
        Some(done)
    }

    /// Where to write the reply, in the protocol that the client speaks now.
    pub(crate) fn reply(&mut self) -> Reply<'_> {
        Reply::new(self.out, self.client.protocol)
    }

    /// Answers with an error, in place of what was written since `start`.
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
