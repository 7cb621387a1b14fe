//! History management (Archapt III-B): which lines wait for their write-back, the one that was
//! written longest ago first.
//!
//! An LRU queue on a circular buffer, and *ObjHT*, a hash table from lines to what is known of
//! them. A line that is written again moves to the front by being entered once more; its older
//! place in the queue is stale and passed over. Only the writer works on it, with what a whole
//! group of transactions has written: the local buffers and the bulk update of section IV.
//!
//! What always holds: a line is in the table exactly when it has been stored to in place and not
//! been written back since, and then it has exactly one live place in the queue; live places are
//! in the order of their tickets.

use perdura_memory::LINE;
use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// What is known of a line that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// The words stored since `ticket`, that one included.
    mask: u8,
    /// The first transaction whose words may be durable in the log alone.
    ticket: u64,
}

/// A place in the queue; stale unless the table has the line with this ticket.
#[derive(Clone, Copy, Debug)]
struct Place {
    line: u64,
    ticket: u64,
}

/// The lines that wait.
pub struct History {
    queue: VecDeque<Place>,
    table: HashMap<u64, Waiting, BuildHasherDefault<LineHasher>>,
    /// Lines that may wait.
    capacity: usize,
}

impl History {
    /// A queue of at most `capacity` lines. Memory: up to 80 bytes for each of them.
    pub(crate) fn new(capacity: usize) -> Self {
        History { queue: VecDeque::new(), table: HashMap::default(), capacity: capacity.max(1) }
    }

    /// Changes how many lines may wait; [`overflow`](Self::overflow) then gives those that must
    /// leave.
    pub(crate) fn resize(&mut self, capacity: usize) {
        self.capacity = capacity.max(1);
    }

    /// Lines that wait.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.table.len()
    }

    /// The words of a line that were stored since it began to wait.
    pub(crate) fn stored(&self, line: u64) -> u8 {
        self.table.get(&line).map_or(0, |waiting| waiting.mask)
    }

    /// Notes that the transaction with this ticket has stored the words in `mask`. Whether the
    /// line was waiting already: one write-back will serve both.
    ///
    /// Where the new words cover all that the line waited with, the log from `ticket` on has
    /// them all: the line moves to the front, and what it waited with is forgotten.
    pub(crate) fn note(&mut self, line: u64, mask: u8, ticket: u64) -> bool {
        let again = match self.table.entry(line) {
            Entry::Occupied(mut entry) => {
                let waiting = entry.get_mut();
                if waiting.ticket == ticket || waiting.mask & !mask != 0 {
                    waiting.mask |= mask;
                    return true;
                }
                *waiting = Waiting { mask, ticket };
                true
            }
            Entry::Vacant(entry) => {
                entry.insert(Waiting { mask, ticket });
                false
            }
        };
        self.queue.push_back(Place { line, ticket });
        if self.queue.len() > 2 * self.table.len().max(1024) {
            self.drop_stale();
        }
        again
    }

    /// Takes the line that has waited longest, if it waits since `ticket` or an earlier one.
    pub(crate) fn leave_up_to(&mut self, ticket: u64) -> Option<u64> {
        while self.queue.front()?.ticket <= ticket {
            let place = self.queue.pop_front()?;
            if self.take(place) {
                return Some(place.line);
            }
        }
        None
    }

    /// Takes the line that has waited longest, if there are more than may wait.
    pub(crate) fn overflow(&mut self) -> Option<u64> {
        self.overflows().then(|| self.leave_up_to(u64::MAX)).flatten()
    }

    /// Whether there are more lines than may wait.
    pub(crate) fn overflows(&self) -> bool {
        self.table.len() > self.capacity
    }

    /// Takes the line that has waited longest, if there are more than half of those that may wait.
    pub(crate) fn leave_half(&mut self) -> Option<u64> {
        (self.table.len() > self.capacity / 2).then(|| self.leave_up_to(u64::MAX)).flatten()
    }

    /// Removes the line of a place from the table, if the place is live.
    fn take(&mut self, place: Place) -> bool {
        match self.table.entry(place.line) {
            Entry::Occupied(entry) if entry.get().ticket == place.ticket => {
                entry.remove();
                true
            }
            _ => false,
        }
    }

    fn drop_stale(&mut self) {
        let table = &self.table;
        self.queue.retain(|place| {
            table.get(&place.line).is_some_and(|waiting| waiting.ticket == place.ticket)
        });
    }
}

/// Lines are multiples of 64 and otherwise arbitrary: a multiplication spreads them.
#[derive(Default)]
struct LineHasher(u64);

impl Hasher for LineHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, line: u64) {
        let spread = (line / LINE).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        // The table takes its bucket from the low bits and a tag from the high ones.
        self.0 = spread ^ spread >> 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_leave_in_the_order_of_their_last_whole_write() {
        let mut history = History::new(8);
        assert!(!history.note(64, 1, 1));
        assert!(!history.note(128, 1, 2));
        assert!(history.note(64, 3, 3), "all it waited with is covered: to the front");
        assert_eq!(history.leave_up_to(2), Some(128));
        assert_eq!(history.leave_up_to(2), None);
        assert_eq!(history.leave_up_to(3), Some(64));
        assert_eq!(history.len(), 0);
    }

    #[test]
    fn a_line_stays_where_it_is_while_an_older_word_waits() {
        let mut history = History::new(8);
        history.note(64, 1, 1);
        history.note(64, 2, 5);
        assert_eq!(history.stored(64), 3);
        assert_eq!(history.leave_up_to(1), Some(64), "word 0 is in the record of 1 alone");
        assert_eq!(history.leave_up_to(u64::MAX), None);
    }

    #[test]
    fn more_than_may_wait_leave() {
        let mut history = History::new(2);
        (1..=4).for_each(|ticket| {
            history.note(ticket * 64, 1, ticket);
        });
        assert_eq!((history.overflow(), history.overflow()), (Some(64), Some(128)));
        assert_eq!(history.overflow(), None);
        assert_eq!((history.leave_half(), history.leave_half()), (Some(192), None));
    }

    proptest! {
        /// Against a list of (line, word, last ticket): the ticket at which a line leaves is
        /// never later than the oldest of its words' last writes, and every line leaves once.
        #[test]
        fn nothing_is_kept_beyond_its_log(
            steps in proptest::collection::vec((0u64..12, 1u8..=255, any::<bool>()), 1..200)
        ) {
            let mut history = History::new(1000);
            let mut words: HashMap<(u64, u32), u64> = HashMap::new();
            let mut dropped = 0;
            for (index, &(line, mask, expire)) in steps.iter().enumerate() {
                let ticket = index as u64 + 1;
                history.note(line * 64, mask, ticket);
                (0..8).filter(|word| mask & 1 << word != 0).for_each(|word| {
                    words.insert((line, word), ticket);
                });
                if expire {
                    dropped = ticket / 2;
                    while let Some(line) = history.leave_up_to(dropped) {
                        prop_assert!(words.keys().any(|word| word.0 == line / 64));
                        words.retain(|word, _| word.0 != line / 64);
                    }
                }
                for (&(line, _), &last) in &words {
                    prop_assert!(last > dropped, "line {line} waits without a log");
                    prop_assert!(history.stored(line * 64) != 0);
                }
                let lines: std::collections::HashSet<u64> =
                    words.keys().map(|word| word.0).collect();
                prop_assert_eq!(history.len(), lines.len());
            }
        }
    }
}
