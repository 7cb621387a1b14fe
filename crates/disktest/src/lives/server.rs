//! The server as a child process, killed when its handle is dropped.

use super::{Fate, Setting, TRACE};
use crate::{Outcome, Trouble};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The time within which whatever ends a life should happen.
const LONGEST: Duration = Duration::from_secs(2);
/// The time within which closing should end.
const CLOSING: Duration = Duration::from_secs(20);

/// How a life ended.
pub(super) enum Ended {
    /// As planned.
    Killed,
    /// Something was lost.
    Lost(String),
}

pub(super) struct Server {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    complaints: PathBuf,
}

impl Server {
    pub(super) fn start(setting: &Setting, folder: &Path, fate: Fate) -> Outcome<Self> {
        let complaints = folder.join("stderr");
        let stderr = std::fs::File::create(&complaints).map_err(Trouble::at(&complaints))?;
        let mut command = Command::new(&setting.program);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--size", "4M", "--threads", "2"])
            .args(["--domain", "media", "--accept-weaker", "--engine", &setting.engine, "--pool"])
            .arg(folder.join("pool"))
            .arg("--record-writes")
            .arg(folder.join(TRACE));
        match fate {
            Fate::StopAfter(records) => command.args(["--stop-after", &records.to_string()]),
            Fate::FailSync(sync) => command.args(["--fail-sync", &sync.to_string()]),
            Fate::KillAfter(_) | Fate::Close => &mut command,
        };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().map_err(Trouble::at(&setting.program))?;
        let lines = match child.stdout.take() {
            Some(stdout) => BufReader::new(stdout).lines(),
            None => return Err(Trouble::new("the server has no output")),
        };
        Ok(Server { child, lines, complaints })
    }

    /// Its address, once it listens; `None` if it ended before.
    pub(super) fn ready(&mut self) -> Outcome<Option<String>> {
        for line in &mut self.lines {
            let line =
                line.map_err(|error| Trouble::new(format!("the server's output: {error}")))?;
            if let Some(rest) = line.strip_prefix("ready at ") {
                return Ok(rest.split(';').next().map(str::to_owned));
            }
        }
        Ok(None)
    }

    pub(super) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it ends by itself or `idle` holds, within a limit.
    pub(super) fn wait_while_busy(&mut self, idle: &dyn Fn() -> bool) {
        self.wait(LONGEST, idle);
    }

    /// Waits; returns whether it has ended within `most` and before it is `idle`.
    fn wait(&mut self, most: Duration, idle: &dyn Fn() -> bool) -> bool {
        let start = Instant::now();
        while start.elapsed() < most && !idle() {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }

    /// Ends it as planned, if it has not ended.
    pub(super) fn end(&mut self, fate: Fate) -> Ended {
        if let Fate::Close = fate {
            if let Ok(pid) = i32::try_from(self.child.id())
                && let Some(pid) = Pid::from_raw(pid)
            {
                // If it has ended by itself, that is noticed below.
                let _ = kill_process(pid, Signal::TERM);
            }
            if !self.wait(CLOSING, &|| false) {
                self.kill();
                return Ended::Lost("it does not end when it is told to".to_owned());
            }
        } else if self.child.try_wait().ok().flatten().is_none() {
            // It has refused everything that it could refuse.
            self.kill();
        }
        let by_itself = self.child.try_wait().ok().flatten().and_then(|status| status.code());
        let may_fail = matches!(fate, Fate::FailSync(_));
        match by_itself {
            // Killed.
            None | Some(0) => Ended::Killed,
            Some(_) if may_fail => Ended::Killed,
            Some(_) => Ended::Lost(format!("the server ended by itself: {}", self.last_words())),
        }
    }

    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.complaints).unwrap_or_default();
        text.lines().next_back().unwrap_or("it does not say why").to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
