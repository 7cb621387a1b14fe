//! Write-ahead logging in hardware: LOC's *H-WAL* (LOC 5.2). The hardware logs and writes in place, so that the caches
//! have one copy of each line; the order is that of software logging, without any relaxation.
//!
//! At a commit the transaction's lines are logged; when they are durable, its commit record is written; when that is
//! durable, the lines are written in place; when these are home, the log is dead. Each step begins when the one before
//! is over. The core waits until the commit record is durable (LOC 2: that acknowledges it), or, as configured, for the
//! steps behind it too.

use super::mutant::Mutant;
use super::transactions::{
    APPLY, Commits, EVICTED, HEAD, LOGGED, LogArea, LogConfig, PersistOrder, RECORD, Tracked,
    Tracking, Waits, recover,
};
use super::{Design, Home, Mechanism, Promise};
use crate::Ps;
use crate::hardware::Hardware;
use std::ops::Range;

pub(super) const MUTANTS: &[Mutant] = &[EVICTED, LOGGED, HEAD, RECORD, APPLY];

/// The design.
#[derive(Clone, Debug, Default)]
pub struct HardwareWal {
    config: LogConfig,
    left_out: Option<Mutant>,
}

/// The order of write-ahead logging.
struct StrictOrder {
    left_out: Option<Mutant>,
    /// When the last transaction is over.
    over: Ps,
    waited: Ps,
}

impl HardwareWal {
    /// With these figures, and perhaps as a mutant.
    ///
    /// # Errors
    /// A log that is too small or too large.
    pub fn new(config: LogConfig, left_out: Option<&Mutant>) -> Result<Self, String> {
        config.validate()?;
        Ok(HardwareWal { config, left_out: left_out.copied() })
    }
}

impl Design for HardwareWal {
    fn name(&self) -> &'static str {
        "h-wal"
    }

    fn reserves(&self, _: u64) -> u64 {
        LogArea::lines(self.config.area_bytes)
    }

    fn promises(&self) -> Promise {
        Promise::Transactions
    }

    fn build(&self, hardware: &mut Hardware, own: Range<u64>) -> Box<dyn Mechanism> {
        let tracked = Tracked::new(self.config.clone(), self.left_out, hardware, &own);
        let order =
            StrictOrder { left_out: self.left_out, over: Ps::default(), waited: Ps::default() };
        Box::new(Tracking { tracked, order })
    }

    fn recover(&self, home: &mut Home<'_>) {
        recover(home, Commits::Recorded, self.left_out);
    }
}

impl PersistOrder for StrictOrder {
    fn committed(&mut self, tracked: &mut Tracked, hardware: &mut Hardware, core: usize) {
        let now = hardware.now();
        let logged = tracked.persist(hardware);
        let logged = if self.left_out == Some(RECORD) { now } else { logged };
        let recorded = tracked.record(hardware, tracked.next(), logged);
        tracked.announce(recorded);
        self.over = tracked.finish(hardware, recorded);
        if tracked.config.waits == Waits::Commit {
            self.waited += self.over.since(now);
            hardware.wait_until(core, self.over);
        }
    }

    fn begins(&mut self, tracked: &mut Tracked, hardware: &mut Hardware, core: usize) {
        // Another core's transaction may not be over yet.
        self.waited += self.over.since(hardware.now());
        hardware.wait_until(core, self.over);
        tracked.wait_for_room(hardware, core, 1);
    }

    fn refused(&mut self, tracked: &mut Tracked, hardware: &mut Hardware) {
        tracked.retire_all(hardware);
    }

    fn stalls(&mut self, time: Ps) {
        self.over = self.over.max(time);
    }

    fn start_measuring(&mut self) {
        self.waited = Ps::default();
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![("waited_ns", self.waited.as_ns() as u64)]
    }
}
