//! The machines and settings that mechanisms are tried with: each combination in turn.

use crate::{Case, Start};
use perdura_machine::cache::Policy;
use perdura_machine::{MachineConfig, Ps, Schedule, presets};

/// The settings that cases take in turn.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Machines, whose domain is replaced.
    pub machines: Vec<MachineConfig>,
    /// How cores take turns.
    pub schedules: Vec<Schedule>,
    /// Initial states of runs.
    pub starts: Vec<Start>,
    /// Lengths of epochs.
    pub epochs: Vec<Ps>,
    /// Replacement policies of all caches.
    pub policies: Vec<Policy>,
}

/// The default machines for mechanisms: one without and one with a DRAM cache.
pub const MACHINES: [&str; 2] = ["tiny", "tiny-dram"];
/// The default lengths of epochs, in microseconds: several in a transaction, one in a few, one in a run.
pub const EPOCHS_US: [u64; 3] = [2, 10, 100];
/// Both kinds of schedules.
pub const SCHEDULES: [Schedule; 2] = [Schedule::Clock, Schedule::Seeded { every: 6 }];
/// The default initial states.
pub const STARTS: [Start; 2] = [Start::Closed, Start::New];

impl Default for Settings {
    fn default() -> Self {
        let machine = |name| presets::load(name).expect("a preset");
        Settings {
            machines: MACHINES.map(machine).to_vec(),
            schedules: SCHEDULES.to_vec(),
            starts: STARTS.to_vec(),
            epochs: EPOCHS_US.map(|us| Ps(us * 1_000_000)).to_vec(),
            policies: Policy::NAMED.map(|own| own.policy).to_vec(),
        }
    }
}

impl Settings {
    /// How many combinations there are.
    pub fn count(&self) -> usize {
        self.machines.len()
            * self.schedules.len()
            * self.starts.len()
            * self.epochs.len()
            * self.policies.len()
    }

    /// A case with combination number `number`; consecutive numbers differ in as many settings as possible.
    pub fn set(&self, mut number: usize, case: &Case) -> Case {
        number %= self.count();
        let mut take = |choices: usize| {
            let chosen = number % choices;
            number /= choices;
            chosen
        };
        Case {
            machine: self.machines[take(self.machines.len())].clone(),
            schedule: self.schedules[take(self.schedules.len())],
            epoch: Some(self.epochs[take(self.epochs.len())]),
            start: self.starts[take(self.starts.len())],
            policy: self.policies[take(self.policies.len())],
            ..case.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_combination_has_its_turn() {
        let settings = Settings::default();
        let names = (0..settings.count()).map(|number| {
            let case = settings.set(number, &Case::default());
            let Case { machine, schedule, epoch, start, policy, .. } = case;
            format!("{} {schedule:?} {epoch:?} {start:?} {policy}", machine.name)
        });
        assert_eq!(names.collect::<BTreeSet<_>>().len(), 2 * 2 * 3 * 2 * 5);
    }
}
