//! Draws operations: kind, record and inputs.

use super::Options;
use super::acknowledged::Acknowledged;
use super::keys::Chooser;
use super::mix::Kind;
use super::operation::Operation;
use crate::random::Random;

/// One thread's stream of operations.
#[derive(Clone)]
pub(super) struct Generator<'a> {
    options: Options,
    chooser: Chooser,
    inserts: &'a Acknowledged,
}

impl Options {
    /// A chooser for a run that begins with `existing` records.
    pub(super) fn chooser(&self, existing: u64) -> Chooser {
        let inserts = (self.operations as f64 * self.letter.mix().insert) as u64;
        Chooser::new(self.distribution, existing, inserts)
    }
}

impl<'a> Generator<'a> {
    /// Draws from `chooser`, among the records that `inserts` knows to exist.
    pub(super) fn new(options: Options, chooser: Chooser, inserts: &'a Acknowledged) -> Self {
        Generator { options, chooser, inserts }
    }

    /// Makes it the next operation.
    pub(super) fn prepare(&mut self, operation: &mut Operation, random: &mut Random) {
        let kind = self.options.letter.mix().draw(random);
        let record = match kind {
            Kind::Insert => self.inserts.take_next(),
            _ => self.chooser.draw(random, self.inserts.existing()),
        };
        operation.prepare(kind, record, self.options.order, self.options.shape, random);
    }
}
