//! The memory of durable operations outside of the process that may be killed.

use super::layout::MOST_WRITERS;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// Told of durable operations, as soon as a thread knows of them.
pub trait Witness: Sync {
    /// So many operations of a writer are durable.
    fn durable(&self, writer: usize, operations: u64);

    /// So many reading transactions have checked the state that they saw.
    fn reads(&self, so_far: u64);
}

/// Writes to a pipe that another process reads.
pub struct PipeWitness<W>(Mutex<W>);

impl<W: Write> PipeWitness<W> {
    /// A witness behind this pipe.
    pub fn new(pipe: W) -> Self {
        PipeWitness(Mutex::new(pipe))
    }

    fn tell(&self, line: &str) {
        let mut pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The other process is gone: nobody is left to tell.
        let _ = pipe.write_all(line.as_bytes());
    }
}

impl<W: Write + Send> Witness for PipeWitness<W> {
    fn durable(&self, writer: usize, operations: u64) {
        self.tell(&format!("d {writer} {operations}\n"));
    }

    fn reads(&self, so_far: u64) {
        self.tell(&format!("r {so_far}\n"));
    }
}

/// The knowledge of the reader of such a pipe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// For each writer, its operations that are durable.
    pub(super) durable: [u64; MOST_WRITERS],
    /// How many times that was told.
    pub(super) times: u64,
    pub(super) reads: u64,
}

impl Told {
    /// Takes a line; one that was cut short by the process's end is left out.
    pub(super) fn take(&mut self, line: &str) {
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("d"), Some(writer), Some(operations)) => {
                let (Ok(writer), Ok(operations)) =
                    (writer.parse::<usize>(), operations.parse::<u64>())
                else {
                    return;
                };
                if let Some(durable) = self.durable.get_mut(writer) {
                    *durable = operations.max(*durable);
                    self.times += 1;
                }
            }
            (Some("r"), Some(reads), None) => self.reads = reads.parse().unwrap_or(self.reads),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive() {
        let witness = PipeWitness::new(Vec::new());
        witness.durable(2, 17);
        witness.durable(2, 5);
        witness.reads(40);
        let text = String::from_utf8(witness.0.into_inner().unwrap()).unwrap();
        let mut told = Told::default();
        text.lines().for_each(|line| told.take(line));
        told.take("d 2");
        told.take("d 99 1");
        assert_eq!((told.durable[2], told.times, told.reads), (17, 2, 40));
    }
}
