//! Speculations that are lost when another core accesses a line that they have accessed: the smallest mechanism for
//! the place for transactions. It tracks nothing else, so what a test of it shows is done by the machine.

use perdura_machine::mechanism::{Accessed, Effect, Moments};
use perdura_machine::{Design, Hardware, Mechanism};
use perdura_memory::{HardwareAbort, HardwareTicket, Speculation};
use std::collections::{BTreeMap, BTreeSet};

/// The design.
pub(crate) fn conflicts() -> Box<dyn Design> {
    super::mechanisms::small(Conflicts::default)
}

#[derive(Default)]
struct Conflicts {
    /// For each core that speculates, the lines that it has accessed.
    running: BTreeMap<usize, BTreeSet<u64>>,
    conflicts: u64,
    committed: u64,
}

impl Mechanism for Conflicts {
    fn moments(&self) -> Moments {
        Moments::ACCESS | Moments::OWN | Moments::REQUEST
    }

    fn accessed(&mut self, hardware: &mut Hardware, access: &Accessed<'_>) -> Effect {
        let others = self.running.iter().filter(|(core, _)| **core != access.core);
        let lost = others.filter(|(_, lines)| lines.contains(&access.line)).map(|(core, _)| *core);
        for core in lost.collect::<Vec<_>>() {
            self.running.remove(&core);
            self.conflicts += u64::from(hardware.lose(core, HardwareAbort::Conflict));
        }
        if let Some(lines) = self.running.get_mut(&access.core) {
            lines.insert(access.line);
        }
        Effect::Happens
    }

    fn speculation(&self) -> Speculation {
        Speculation::Isolated
    }

    fn speculate(&mut self, hardware: &mut Hardware, core: usize) -> Result<(), HardwareAbort> {
        self.running.insert(core, BTreeSet::new());
        hardware.hold_stores(core);
        Ok(())
    }

    fn is_lost(&mut self, _: &mut Hardware, core: usize, _: HardwareAbort) {
        self.running.remove(&core);
    }

    fn commit(&mut self, _: &mut Hardware, core: usize) -> Result<HardwareTicket, HardwareAbort> {
        self.running.remove(&core);
        self.committed += 1;
        Ok(HardwareTicket(self.committed))
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![("conflicts", self.conflicts)]
    }
}
