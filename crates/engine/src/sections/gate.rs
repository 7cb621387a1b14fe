//! The gate that sections pass when they begin, so that a memory can give copies of pages back while no section runs:
//! a store in place meanwhile would be lost.
//!
//! Giving back is optional. A caller that finds sections running waits for a while, and then does without: a section may
//! itself wait for another thread of the program.

use perdura_memory::Memory;
use perdura_memory::own::OwnWords;

/// The word: sections inside, and above them whether the gate is closed.
const CLOSED: u64 = 1 << 32;
/// Turns after which the caller does without.
const PATIENCE: u32 = 1000;

/// The gate.
pub(crate) struct Gate(OwnWords);

impl Gate {
    pub(super) fn new<M: Memory>(memory: &M) -> Self {
        Gate(OwnWords::new(memory, 1))
    }

    /// Passes, once it is open.
    pub(crate) fn enter<M: Memory>(&self, memory: &M) {
        let mut turn = 0;
        loop {
            let word = self.0.load(memory, 0);
            if word < CLOSED {
                if self.0.compare_exchange(memory, 0, word, word + 1).is_ok() {
                    return;
                }
            } else {
                memory.pause(turn);
            }
            turn += 1;
        }
    }

    /// Leaves.
    pub(crate) fn leave<M: Memory>(&self, memory: &M) {
        self.change(memory, |word| word - 1);
    }

    /// Runs `body` while no section runs, unless one does not end.
    pub(crate) fn closed<M: Memory, R>(&self, memory: &M, body: impl FnOnce() -> R) -> Option<R> {
        let word = self.0.load(memory, 0);
        if word >= CLOSED || self.0.compare_exchange(memory, 0, word, word | CLOSED).is_err() {
            // Another thread has it closed, or a section begins.
            return None;
        }
        let _open = Open(self, memory);
        for turn in 0..PATIENCE {
            if self.0.load(memory, 0) == CLOSED {
                return Some(body());
            }
            memory.pause(turn);
        }
        None
    }

    fn change<M: Memory>(&self, memory: &M, change: impl Fn(u64) -> u64) {
        loop {
            let word = self.0.load(memory, 0);
            if self.0.compare_exchange(memory, 0, word, change(word)).is_ok() {
                return;
            }
        }
    }
}

/// Opens the gate again when dropped.
struct Open<'a, M: Memory>(&'a Gate, &'a M);

impl<M: Memory> Drop for Open<'_, M> {
    fn drop(&mut self) {
        self.0.change(self.1, |word| word & !CLOSED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::Ram;

    #[test]
    fn nothing_runs_while_it_is_closed() {
        let ram = Ram::new(64);
        let gate = Gate::new(&ram);
        gate.enter(&ram);
        assert_eq!(gate.closed(&ram, || 1), None, "one runs");
        gate.leave(&ram);
        assert_eq!(gate.closed(&ram, || gate.closed(&ram, || 2)), Some(None));
        gate.enter(&ram);
        gate.leave(&ram);
        assert_eq!(gate.closed(&ram, || 3), Some(3));
    }
}
