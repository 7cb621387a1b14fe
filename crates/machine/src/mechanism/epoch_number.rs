//! The number of the last finished epoch, in the first word of a line of the home device, of mechanisms whose tables have
//! the numbers of their epochs: which of these are valid follows from it. The second word is the epoch up to which entries
//! are dead.

use super::Home;
use crate::Ps;
use crate::hardware::Hardware;

/// Stores the number of an epoch from `from` on, whose promise begins when that is durable. Returns when. A mutant
/// `skips` every fourth.
pub(super) fn store(hardware: &mut Hardware, line: u64, epoch: u64, from: Ps, skips: bool) -> Ps {
    let mut header = hardware.home_line(line);
    header[0] = epoch;
    let done = match skips && epoch.is_multiple_of(4) {
        true => from,
        false => hardware.write_home("epoch", line, header, from),
    };
    hardware.promise(done);
    done
}

/// Makes all entries up to epoch `last` dead, those of the unfinished one too: the next epoch to finish has a higher number.
pub(super) fn make_dead(home: &mut Home<'_>, line: u64, last: u64) {
    let mut header = home.line(line);
    if last > header[1] {
        (header[0], header[1]) = (last, last);
        home.put(line, &header);
    }
}

/// Work in the background of which the next step is scheduled: only the step that was scheduled last takes place.
#[derive(Debug, Default)]
pub(super) struct NextStep {
    scheduled: u64,
}

impl NextStep {
    /// Schedules the next step, at once if its time is over.
    pub(super) fn schedule(&mut self, hardware: &mut Hardware, at: Ps) {
        self.scheduled += 1;
        let now = hardware.now();
        hardware.schedule(at.max(now), self.scheduled);
    }

    /// Whether a step that is due was scheduled last.
    pub(super) fn is(&self, number: u64) -> bool {
        number == self.scheduled
    }
}
