//! Child processes that are killed when their handle is dropped.

use crate::{Error, Result};
use std::io;
use std::process::{Child, Command, Output};

/// A running process, killed and reaped when dropped.
pub struct Guard(Child);

impl Guard {
    /// Starts `command`; `name` is for messages, and `advice` says how to install it.
    ///
    /// # Errors
    /// `Unavailable` when there is no such program.
    pub fn spawn(command: &mut Command, name: &str, advice: &str) -> Result<Self> {
        command.spawn().map(Guard).map_err(|error| not_started(error, name, advice))
    }

    /// Its process identifier.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<String> {
        self.0.try_wait().ok().flatten().map(|status| status.to_string())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // It may have ended by itself; a failure to reap it cannot be reported.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `command` to its end.
///
/// # Errors
/// `Unavailable` when there is no such program.
pub fn output(command: &mut Command, name: &str, advice: &str) -> Result<Output> {
    command.output().map_err(|error| not_started(error, name, advice))
}

fn not_started(error: io::Error, name: &str, advice: &str) -> Error {
    if error.kind() == io::ErrorKind::NotFound {
        return Error::Unavailable(format!("there is no {name} here; {advice}"));
    }
    Error::io(format!("cannot start {name}"))(error)
}

/// The last line that a program printed to its standard error: usually the reason.
pub fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.map_or_else(|| output.status.to_string(), |line| line.trim().to_owned())
}
