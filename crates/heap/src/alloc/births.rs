//! Which commits have allocated memory, noted while transactions keep freed memory from being reused: memory allocated
//! after such a transaction began is out of its reach, and can be reused beside it.
//!
//! Invariant: the commit noted of an allocation is no later than its own. A note that its owner makes too late,
//! when the memory has been freed already, stays until the memory's next note: too early for it, never too late.

use perdura_engine::Ticket;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Parts with a lock of their own.
const PARTS: usize = 16;

/// The notes, by the place of the memory.
#[derive(Debug, Default)]
pub struct Births {
    noted: AtomicBool,
    parts: [Mutex<HashMap<(u64, u32), Ticket>>; PARTS],
}

impl Births {
    fn part(&self, place: (u64, u32)) -> MutexGuard<'_, HashMap<(u64, u32), Ticket>> {
        let part = &self.parts[place.0 as usize % PARTS];
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether allocations are to be noted.
    #[inline(always)]
    pub fn are_noted(&self) -> bool {
        self.noted.load(Ordering::Relaxed)
    }

    /// Notes them from now on, or no more.
    pub fn note_all(&self, noted: bool) {
        if self.noted.swap(noted, Ordering::Relaxed) && !noted {
            for part in &self.parts {
                *part.lock().unwrap_or_else(PoisonError::into_inner) = HashMap::new();
            }
        }
    }

    /// Notes that the commit `born` has allocated the slot of a page, or the run that begins there.
    pub fn note(&self, page: u64, slot: u32, born: Ticket) {
        self.part((page, slot)).insert((page, slot), born);
    }

    /// Takes the note of freed memory; zero if there is none.
    pub fn take(&self, page: u64, slot: u32) -> Ticket {
        match self.are_noted() {
            true => self.part((page, slot)).remove(&(page, slot)).unwrap_or_default(),
            false => Ticket(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_taken_once() {
        let births = Births::default();
        births.note_all(true);
        births.note(3, 1, Ticket(7));
        assert_eq!(
            (births.take(3, 0), births.take(3, 1), births.take(3, 1)),
            (Ticket(0), Ticket(7), Ticket(0))
        );
        births.note(3, 1, Ticket(8));
        births.note_all(false);
        births.note_all(true);
        assert_eq!(births.take(3, 1), Ticket(0), "nothing is known of what was freed meanwhile");
    }
}
