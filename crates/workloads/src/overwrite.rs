//! Overwrites whole values (1 KiB unless told otherwise) at random among many.
//!
//! This is what a key-value store does to its own pages, and favours neither small records nor
//! clever logs. Each value counts its updates in its first word, so that at the end the sum of all
//! counts is the number of updates.

use crate::list::{self, Given, Listed, OnWorkload, Parameter, Row, Usual};
use crate::payload;
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use perdura::collections::Visit;
use perdura::{Access, Error, Purpose, Result, Root, Tx};
use std::sync::atomic::{AtomicU64, Ordering};

const ROOT: &str = "bench.overwrite";
/// The kind of this workload's root: a directory, of a count and as many pointers.
pub(crate) const KIND: u32 = 2_001;
const WORD: u64 = 8;

/// The workload.
#[derive(Debug)]
pub struct Overwrite {
    values: u64,
    bytes: usize,
    disjoint: bool,
    updates: AtomicU64,
}

impl Overwrite {
    /// `values` values of `bytes` bytes each (8 or more); `disjoint`: each thread has its own
    /// part of them.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(values: u64, bytes: usize, disjoint: bool) -> Outcome<Self> {
        if values == 0 || bytes < payload::VERSION || !bytes.is_multiple_of(8) {
            let what = "overwriting needs at least one value, of a multiple of 8 bytes";
            return Err(Failure::Parameters(what.to_owned()));
        }
        Ok(Overwrite { values, bytes, disjoint, updates: AtomicU64::new(0) })
    }

    /// Where each value is: the directory, read once.
    fn places<S: Session>(&self, session: &mut S) -> Outcome<Vec<u64>> {
        let root = session.read(|tx| tx.root(ROOT))?;
        let directory = root.ok_or_else(|| Failure::wrong("the directory's root is gone"))?.at;
        let mut bytes = vec![0; (self.values * WORD) as usize];
        session.read(|tx| tx.read_bytes(directory + WORD, &mut bytes))?;
        let words = bytes.chunks_exact(WORD as usize);
        Ok(words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect())
    }
}

/// Reports the directory and every value to `visit`.
pub(crate) fn check_blocks(tx: &mut dyn Tx, directory: u64, visit: &mut Visit<'_>) -> Result<()> {
    visit(directory)?;
    let values = tx.read_word(directory)?;
    if values >= tx.usable(directory)? / WORD {
        return Err(Error::corrupt("a directory of more values than it has room for", directory));
    }
    for index in 1..=values {
        visit(tx.read_word(directory + index * WORD)?)?;
    }
    Ok(())
}

impl Listed for Overwrite {
    const ROW: Row = Row {
        name: "overwrite",
        line: "whole values overwritten at random",
        parameters: &[
            list::entries("values", 100_000),
            Parameter {
                name: "bytes",
                line: "bytes of a value, a multiple of 8",
                usual: Usual::Bytes(1024),
            },
            list::disjoint("each thread overwrites its own part of the values"),
        ],
        operations: |_| 500_000,
        rolls_back: |_| false,
        roots: &[(KIND, check_blocks)],
    };

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let (values, bytes) = (given.entries(), given.values.number("bytes"));
        if values < given.parts() as u64 {
            let what = "overwriting needs a value for each thread that has its own part";
            return Err(Failure::Parameters(what.to_owned()));
        }
        let workload = Overwrite::new(values, bytes as usize, given.values.is_on(list::DISJOINT))?;
        Ok(code.run(workload, values.saturating_mul(bytes.saturating_add(64))))
    }
}

impl Workload for Overwrite {
    const KINDS: &'static [&'static str] = &["overwrite"];

    const STATIC: bool = true;

    fn load_size(&self) -> u64 {
        self.values
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let directory = session.transaction(|tx| {
            let at = tx.allocate(Purpose::General, (1 + self.values) * WORD)?.at();
            tx.write_word(at, 0)?;
            tx.set_root(ROOT, Root { at, kind: KIND })?;
            Ok(at)
        })?;
        let mut value = vec![0; self.bytes];
        for index in 0..self.values {
            payload::fill(index, 0, &mut value);
            session.transaction(|tx| {
                let new = tx.allocate(Purpose::Value, self.bytes as u64)?;
                tx.write_fresh(new, 0, &value)?;
                tx.write_word(directory, index + 1)?;
                tx.write_word(directory + (1 + index) * WORD, new.at())
            })?;
            progress.loaded(1)?;
        }
        Ok(())
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let places = self.places(session)?;
        let part = if self.disjoint { share.part_of(self.values) } else { 0..self.values };
        let mut value = vec![0; self.bytes];
        let before = recorder.done();
        for _ in 0..share.operations {
            if !recorder.go_on() {
                break;
            }
            let index = part.start + share.random.below(part.end - part.start);
            let at = places[index as usize];
            recorder.operation(0, || {
                session.transaction(|tx| {
                    let version = tx.read_word(at)?;
                    payload::fill(index, version + 1, &mut value);
                    tx.write_bytes(at, &value)
                })
            })?;
        }
        self.updates.fetch_add(recorder.done() - before, Ordering::Relaxed);
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let places = self.places(session)?;
        let mut value = vec![0; self.bytes];
        let mut counted = 0;
        for (index, &at) in places.iter().enumerate() {
            session.read(|tx| tx.read_bytes(at, &mut value))?;
            counted += payload::verify(index as u64, &value)
                .ok_or_else(|| Failure::Wrong(format!("value {index} is not what was written")))?;
        }
        let done = self.updates.load(Ordering::Relaxed);
        if counted != done {
            let what = format!("the values count {counted} updates, {done} were committed");
            return Err(Failure::Wrong(what));
        }
        Ok(())
    }
}
