//! What a command on the client works with.

use super::{Command, Exec, Failure, Outcome, Run};
use crate::client::Client;
use crate::protocol::{Args, Reply};
use crate::server::Server;
use crate::stats::Stats;

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
        let done = run(self);
        self.stats.called(command, done.is_ok());
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
