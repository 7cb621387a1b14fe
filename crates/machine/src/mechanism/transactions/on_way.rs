//! Lines that are on their way home.
//!
//! A window's lines are handed over at its end, to be written in place once the log is durable. Until then a line that
//! no cache has is in the log alone, and is fetched from there. The home device has nothing to answer from before it
//! takes the line, which may be long after: a fetch from home would wait for the whole window to be logged.

use crate::Ps;
use crate::by_number::ByNumber;

/// The lines, with their place in the log, and when the home device takes them.
#[derive(Default)]
pub(super) struct OnWay(ByNumber<(u64, Ps)>);

impl OnWay {
    /// A line that the log has at `at` is handed over, to be taken at `from`.
    pub(super) fn add(&mut self, line: u64, at: u64, from: Ps) {
        self.0.insert(line, (at, from));
    }

    /// The line of the log to fetch it from at `now`, unless home has it.
    pub(super) fn place(&self, line: u64, now: Ps) -> Option<u64> {
        self.0.get(&line).filter(|(_, from)| *from > now).map(|(at, _)| *at)
    }

    /// Forgets the lines that home has taken by `now`.
    pub(super) fn forget(&mut self, now: Ps) {
        self.0.retain(|_, (_, from)| *from > now);
    }
}
