//! Connections that write until the server is gone, and record its replies.

use crate::history::Attempt;
use crate::redis::{Client, Reply};
use crate::work::{CONNECTIONS, Step, place_key};
use crate::{Outcome, Trouble};
use perdura_memory::random::SplitMix64;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The most transactions that a connection sends in one life, which keeps the trace small.
const MOST: u64 = 300;
/// Transactions that a connection sends before it waits for replies.
const WINDOW: u64 = 3;

/// The current length of the trace.
pub(super) fn position(trace: &Path) -> Outcome<u64> {
    Ok(std::fs::metadata(trace).map_err(Trouble::at(trace))?.len())
}

/// The traffic of one life.
pub(super) struct Traffic<'a> {
    pub(super) address: &'a str,
    pub(super) trace: &'a Path,
    pub(super) life: u32,
    pub(super) seed: u64,
}

/// What ends a connection's work.
enum Stop {
    /// The server is gone, or refuses.
    Gone,
    /// Its reply shows a loss.
    Lost(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // It hangs.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                Stop::Lost("the server does not answer".to_owned())
            }
            io::ErrorKind::Other => Stop::Lost(error.to_string()),
            _ => Stop::Gone,
        }
    }
}

impl Traffic<'_> {
    /// Writes on all connections until the server is gone or `until` returns, which can ask whether they all have
    /// ended. Returns what the server lost, if anything.
    pub(super) fn run(
        &self,
        connections: &mut [Vec<Attempt>; CONNECTIONS],
        until: impl FnOnce(&dyn Fn() -> bool),
    ) -> Outcome<Option<String>> {
        let (over, working) = (AtomicBool::new(false), AtomicUsize::new(CONNECTIONS));
        let mut lost = None;
        std::thread::scope(|scope| {
            let work: Vec<_> = connections
                .iter_mut()
                .enumerate()
                .map(|(connection, attempts)| {
                    let (over, working) = (&over, &working);
                    scope.spawn(move || {
                        let ended = self.work(connection, attempts, over);
                        working.fetch_sub(1, Ordering::Relaxed);
                        ended
                    })
                })
                .collect();
            until(&|| working.load(Ordering::Relaxed) == 0);
            over.store(true, Ordering::Relaxed);
            for work in work {
                match work.join() {
                    Ok(Ok(()) | Err(Stop::Gone)) => {}
                    Ok(Err(Stop::Lost(what))) => lost = Some(what),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        Ok(lost)
    }

    fn position(&self) -> Result<u64, Stop> {
        position(self.trace).map_err(|error| Stop::Lost(error.to_string()))
    }

    fn work(
        &self,
        connection: usize,
        attempts: &mut Vec<Attempt>,
        over: &AtomicBool,
    ) -> Result<(), Stop> {
        let mut client = Client::connect(self.address)?;
        let mut number = self.catch_up(&mut client, connection, attempts)?;
        let mut random = SplitMix64::new(self.seed ^ (connection as u64) << 32);
        let most = number + MOST;
        while number < most && !over.load(Ordering::Relaxed) {
            let window = 1 + random.below(WINDOW);
            let sent = self.position()?;
            let mut commands = Vec::new();
            let first = attempts.len();
            for _ in 0..window {
                number += 1;
                let step = Step { connection, life: self.life, number };
                commands.push(vec!["MULTI".to_owned()]);
                commands.extend(step.commands());
                commands.push(vec!["EXEC".to_owned()]);
                let (answered, place, void) = Default::default();
                attempts.push(Attempt { life: self.life, number, sent, answered, place, void });
            }
            client.send(&commands)?;
            for attempt in &mut attempts[first..] {
                attempt.place = Some(executed(&mut client)?);
                attempt.answered = Some(self.position()?);
            }
        }
        Ok(())
    }

    /// Asks for the connection's last transaction before the previous server ended. Returns its number.
    fn catch_up(
        &self,
        client: &mut Client,
        connection: usize,
        attempts: &mut [Attempt],
    ) -> Result<u64, Stop> {
        let key = place_key(connection);
        client.send(&[["HGET", &key, "last"].map(str::to_owned).into()])?;
        let last = match client.receive()? {
            Reply::Null => None,
            Reply::Text(text) => Some(text),
            Reply::Error(_) => return Err(Stop::Gone),
            reply @ Reply::Many(_) => return Err(Stop::Lost(format!("it answered {reply:?}"))),
        };
        let position = self.position()?;
        let stamp = |attempt: &Attempt| format!("{}.{}", attempt.life, attempt.number);
        let known = attempts
            .iter()
            .rposition(|attempt| attempt.void.is_none() && Some(stamp(attempt)) == last);
        let least = attempts.iter().rposition(|attempt| attempt.answered.is_some());
        if known < least || (known.is_none() && last.is_some()) {
            return Err(Stop::Lost(format!(
                "connection {connection}: acknowledged was {:?}, and what the server has is {last:?}",
                least.map(|least| stamp(&attempts[least]))
            )));
        }
        let done = known.map_or(0, |known| known + 1);
        for attempt in &mut attempts[done..] {
            attempt.void.get_or_insert(position);
        }
        let Some(known) = known else { return Ok(0) };
        for attempt in &mut attempts[..=known] {
            // Earlier ones that are not void were executed as well.
            if attempt.void.is_none() {
                attempt.answered.get_or_insert(position);
            }
        }
        Ok(attempts[known].number)
    }
}

/// Reads the replies to one transaction: its place among all of them.
fn executed(client: &mut Client) -> Result<u64, Stop> {
    loop {
        match client.receive()? {
            Reply::Text(_) => {}
            Reply::Many(replies) => {
                return match replies.last() {
                    Some(Reply::Text(place)) => {
                        place.parse().map_err(|_| Stop::Lost(format!("it counted up to '{place}'")))
                    }
                    // Refused inside the transaction: the medium failed.
                    _ => Err(Stop::Gone),
                };
            }
            Reply::Null | Reply::Error(_) => return Err(Stop::Gone),
        }
    }
}
