//! Which records the operations are for, without doing them.

use super::Ycsb;
use super::keys::Name;
use super::mix::Kind;
use super::operation::Operation;
use crate::random::Random;
use crate::reuse::{Reuse, Uses};
use crate::{Failure, Outcome, Progress};
use std::collections::BTreeMap;

/// Operations between two reports of progress.
const REPORT_EVERY: u64 = 1024;

impl Ycsb {
    /// How often each record is operated on by the workload's operations, drawn as one thread
    /// with this seed draws them. A scan is an operation on each record that it covers, and an
    /// insert one on its own.
    ///
    /// # Errors
    /// `Stopped`.
    pub fn reuse(&self, seed: u64, progress: &Progress) -> Outcome<Reuse> {
        let operations = self.options.operations;
        let mut uses = Uses::of(self.options.records);
        let mut keys = Keys::of(self);
        let mut generator = self.generator();
        let mut random = Random::new(seed, 0);
        let mut operation = Operation::new();
        progress.restart();
        for done in 0..operations {
            if done.is_multiple_of(REPORT_EVERY) {
                progress.advance(REPORT_EVERY);
                if progress.is_stopped() {
                    return Err(Failure::Stopped);
                }
            }
            generator.prepare(&mut operation, &mut random);
            match operation.kind {
                Kind::Scan => keys.scan(&operation, &mut uses),
                Kind::Insert => {
                    keys.insert(operation.name, operation.record);
                    uses.note(operation.record);
                }
                _ => uses.note(operation.record),
            }
            self.acknowledge(std::slice::from_ref(&operation));
        }
        Ok(uses.reuse())
    }
}

/// Records in the order of their keys, for scans.
struct Keys(Option<BTreeMap<Vec<u8>, u64>>);

impl Keys {
    fn of(ycsb: &Ycsb) -> Self {
        let scans = ycsb.options.letter.mix().scan > 0.0;
        let name = |record| Name::new(ycsb.options.order.identity(record)).as_bytes().to_vec();
        Keys(
            scans.then(|| (0..ycsb.options.records).map(|record| (name(record), record)).collect()),
        )
    }

    fn insert(&mut self, name: Name, record: u64) {
        if let Some(keys) = &mut self.0 {
            keys.insert(name.as_bytes().to_vec(), record);
        }
    }

    fn scan(&self, operation: &Operation, uses: &mut Uses) {
        let Some(keys) = &self.0 else { return };
        let from = keys.range(operation.name.as_bytes().to_vec()..);
        from.take(operation.scan).for_each(|(_, record)| uses.note(*record));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Letter, Options};
    use super::*;

    fn reuse(letter: Letter, records: u64, operations: u64) -> Reuse {
        let ycsb = Ycsb::new(Options::new(letter, records, operations)).expect("a workload");
        ycsb.reuse(3, &Progress::default()).expect("a distribution")
    }

    #[test]
    fn every_record_is_counted_once_and_inserted_ones_are_used() {
        for letter in Letter::ALL {
            let found = reuse(letter, 1_000, 1_000);
            assert!(found.objects() >= 1_000 && found.once > 0, "{letter}: {found:?}");
            assert_eq!(found.objects() > 1_000, letter.mix().insert > 0.0, "{letter}");
            assert_eq!(found, reuse(letter, 1_000, 1_000), "{letter}");
        }
    }

    #[test]
    fn scans_use_many_records() {
        let (reads, scans) = (reuse(Letter::C, 2_000, 1_000), reuse(Letter::E, 2_000, 1_000));
        assert!(scans.more > 5 * reads.more, "{reads:?} {scans:?}");
    }

    #[test]
    fn it_ends_when_asked_to() {
        let progress = Progress::default();
        progress.stop();
        let ycsb = Ycsb::new(Options::new(Letter::A, 10, 10)).expect("a workload");
        assert!(matches!(ycsb.reuse(1, &progress), Err(Failure::Stopped)));
    }
}
