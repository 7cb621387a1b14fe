//! Group commit, for memories where nothing becomes durable without a fence
//! ([`Domain::evicts`](perdura_memory::Domain::evicts) is false: a block device): one sync serves many commits, and no
//! lock is held over one.
//!
//! There a commit that has its locks, and whose reads hold, takes its *turn*: it numbers itself, writes its record,
//! stores in place, unlocks. None of that waits for the device. A sync makes everything written before it durable, for
//! all that wait for a ticket.
//!
//! What always holds:
//! - Tickets are numbers without gaps, and a commit that has seen something of another has the later one. So recovery
//!   takes the whole records up to the first missing ticket.
//! - No word is durable in place before the record that holds it: a checkpoint syncs the log, and captures the dirty
//!   lines, in a turn of its own.

use perdura_memory::atomics::pause;
use perdura_memory::lock::Apart;
use perdura_memory::{Memory, Object, Traced, WORD};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Tickets from here on are numbers; lower ones are [`Stamp`](crate::sync::stm::Stamp)s.
const FIRST: u64 = 1 << 62;
/// Tickets after which numbering restarts when a pool is opened, long before a checkpoint could not hold them.
const MOST: u64 = 1 << 61;
/// The most checkpoints that are told apart for transactions that run on and on.
const MOST_ENDS: usize = 64;

/// Whether tickets of this kind are numbers.
pub(super) const fn is_numbered(ticket: u64) -> bool {
    ticket >= FIRST
}

/// The ticket of an empty log whose commits will be numbered, after an earlier life that reached `highest`.
pub(super) const fn first(highest: u64) -> u64 {
    if highest < FIRST || highest > FIRST + MOST { FIRST } else { highest }
}

/// A checkpoint has reached `ticket`; all commits up to it have clock numbers up to `number`.
#[derive(Clone, Copy)]
struct CheckpointEnd {
    number: u64,
    ticket: u64,
}

/// Whose turn it is, and which checkpoints wait for running transactions.
pub(super) struct Group {
    is_taken: Apart<AtomicBool>,
    ends: Mutex<VecDeque<CheckpointEnd>>,
    own: Object,
}

/// A turn, until it is dropped.
pub(super) struct Turn<'a, M: Memory> {
    group: &'a Group,
    memory: &'a M,
}

impl Group {
    pub(super) fn new<M: Memory>(memory: &M) -> Self {
        Group { is_taken: Apart::default(), ends: Mutex::default(), own: memory.object(WORD) }
    }

    /// Waits for a turn, and takes it.
    pub(super) fn take<'a, M: Memory>(&'a self, memory: &'a M) -> Turn<'a, M> {
        let (own, mut turn) = (Traced::new(memory, self.own), 0);
        loop {
            own.exchange(0, WORD);
            if !self.is_taken.0.swap(true, Ordering::Acquire) {
                return Turn { group: self, memory };
            }
            while self.is_taken.0.load(Ordering::Relaxed) {
                pause(memory, turn);
                turn += 1;
                own.read(0, WORD);
            }
        }
    }

    /// A checkpoint has reached `ticket`. Commits up to it had read the clock before it reached `number`.
    pub(super) fn checkpointed(&self, number: u64, ticket: u64) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if ends.len() == MOST_ENDS {
            ends.pop_back();
        }
        ends.push_back(CheckpointEnd { number, ticket });
    }

    /// The last ticket reached by checkpoints that lie before the moments of all running transactions, whose `oldest`
    /// is given; `None` if there is no further one.
    pub(super) fn reached(&self, oldest: u64) -> Option<u64> {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reached = None;
        while let Some(end) = ends.pop_front_if(|end| end.number <= oldest) {
            reached = Some(end.ticket);
        }
        reached
    }
}

impl Group {
    /// A ticket reached by checkpoints that lie before the moment `number`; 0 if none is known.
    pub(super) fn reached_by(&self, number: u64) -> u64 {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.iter().rev().find(|end| end.number <= number).map_or(0, |end| end.ticket)
    }
}

impl<M: Memory> Drop for Turn<'_, M> {
    fn drop(&mut self) {
        self.group.is_taken.0.store(false, Ordering::Release);
        Traced::new(self.memory, self.group.own).wrote(0, WORD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::Ram;

    #[test]
    fn checkpoints_wait_for_transactions_that_began_before() {
        let group = Group::new(&Ram::new(4096));
        (1..=4).for_each(|number| group.checkpointed(10 * number, FIRST + number));
        assert_eq!(group.reached(9), None);
        assert_eq!(group.reached(30), Some(FIRST + 3));
        assert_eq!(group.reached(39), None);
        // The latest one is dropped for a later one, which says more.
        (5..=4 + MOST_ENDS as u64)
            .for_each(|number| group.checkpointed(10 * number, FIRST + number));
        assert_eq!(group.reached(u64::MAX), Some(FIRST + 4 + MOST_ENDS as u64));
        assert_eq!(group.reached(u64::MAX), None);
    }

    #[test]
    fn tickets_are_of_one_kind() {
        use crate::sync::stm::Stamp;
        assert!(!is_numbered(Stamp::up_to((1 << 42) - 1).0));
        assert_eq!(first(Stamp::up_to(7).0), FIRST);
        assert_eq!(first(FIRST + 7), FIRST + 7);
        assert_eq!(first(u64::MAX / 2), FIRST);
        assert!(is_numbered(first(0)));
    }
}
