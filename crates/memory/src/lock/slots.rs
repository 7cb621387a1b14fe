//! Slots for sessions: a great many are possible, few are mostly in use.
//!
//! What is in a slot is made when the slot is taken for the first time. It never moves, and stays for those who take the
//! slot later. The lowest free slot is taken, and whoever looks at all slots in use finds them by their bits, 64 at a
//! time: so memory and time grow with the sessions that there are, not with those that there may be.
//!
//! What always holds: a slot that is in use is found by everybody for whom something that its owner did after taking it
//! has happened before.

use crate::atomics::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Slots that have their bits in one word.
const WORD: usize = 64;

/// Slots together, made when the first of them is.
type Chunk<T> = Box<[OnceLock<Arc<T>>]>;

/// The slots.
pub struct Slots<T> {
    limit: usize,
    /// A bit for each: whether it is taken.
    taken: Box<[AtomicU64]>,
    /// Those from here on have never been taken.
    used: AtomicUsize,
    chunks: Box<[OnceLock<Chunk<T>>]>,
}

impl<T> Slots<T> {
    /// At most `limit` slots, none of them taken.
    pub fn new(limit: usize) -> Self {
        let words = limit.div_ceil(WORD);
        Slots {
            limit,
            taken: (0..words).map(|_| AtomicU64::new(0)).collect(),
            used: AtomicUsize::new(0),
            chunks: (0..words).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The most slots.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Takes the lowest free slot, if there is one: its number, and what is in it, made by `new` if nothing is yet.
    pub fn take(&self, new: impl FnOnce() -> T) -> Option<(usize, Arc<T>)> {
        let slot = (0..self.taken.len()).find_map(|word| self.claim(word))?;
        let chunk = self.chunks[slot / WORD]
            .get_or_init(|| (0..WORD).map(|_| OnceLock::new()).collect::<Chunk<T>>());
        let content = chunk[slot % WORD].get_or_init(|| Arc::new(new())).clone();
        // Only now: whoever sees this finds the bit, and the content.
        self.used.fetch_max(slot + 1, Ordering::SeqCst);
        Some((slot, content))
    }

    /// Takes a free slot whose bit is in this word.
    fn claim(&self, word: usize) -> Option<usize> {
        let (bits, first) = (&self.taken[word], word * WORD);
        let most = (self.limit - first).min(WORD);
        let mut taken = bits.load(Ordering::Relaxed);
        loop {
            let slot = taken.trailing_ones() as usize;
            if slot >= most {
                return None;
            }
            let with = taken | 1 << slot;
            match bits.compare_exchange(taken, with, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return Some(first + slot),
                Err(now) => taken = now,
            }
        }
    }

    /// Gives a slot back that the caller has taken.
    pub fn give_back(&self, slot: usize) {
        self.taken[slot / WORD].fetch_and(!(1 << (slot % WORD)), Ordering::SeqCst);
    }

    /// What is in a slot, if it was ever taken.
    #[inline]
    pub fn get(&self, slot: usize) -> Option<&Arc<T>> {
        self.chunks.get(slot / WORD)?.get()?[slot % WORD].get()
    }

    /// The slots in use, in ascending order. Those that are taken or given back meanwhile may be among them or not.
    #[inline]
    pub fn in_use(&self) -> impl Iterator<Item = (usize, &Arc<T>)> {
        let words = self.used.load(Ordering::SeqCst).div_ceil(WORD);
        let slots = self.taken[..words].iter().enumerate().flat_map(|(word, bits)| {
            let mut bits = bits.load(Ordering::SeqCst);
            std::iter::from_fn(move || {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits.wrapping_sub(1);
                (bit < WORD).then_some(word * WORD + bit)
            })
        });
        slots.filter_map(|slot| Some((slot, self.get(slot)?)))
    }

    /// What is in all slots that were ever taken.
    pub fn ever_used(&self) -> impl Iterator<Item = &Arc<T>> {
        (0..self.used.load(Ordering::SeqCst)).filter_map(|slot| self.get(slot))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn numbers(slots: &Slots<usize>) -> Vec<(usize, usize)> {
        slots.in_use().map(|(slot, content)| (slot, **content)).collect()
    }

    #[test]
    fn the_lowest_is_taken_and_contents_stay() {
        let slots = Slots::new(130);
        for slot in 0..130 {
            assert_eq!(slots.take(|| slot * 10).map(|(slot, _)| slot), Some(slot));
        }
        assert!(slots.take(|| 0).is_none());
        for slot in [129, 64, 3] {
            slots.give_back(slot);
        }
        let all = (0..129).filter(|slot| ![64, 3].contains(slot));
        assert_eq!(numbers(&slots), all.map(|slot| (slot, slot * 10)).collect::<Vec<_>>());
        for slot in [3, 64, 129] {
            let taken = slots.take(|| unreachable!("it is there")).expect("a slot");
            assert_eq!((taken.0, *taken.1), (slot, slot * 10));
        }
        assert!(slots.take(|| 0).is_none());
    }

    #[test]
    fn nothing_is_made_before_it_is_taken() {
        let slots: Slots<usize> = Slots::new(4096);
        assert!(numbers(&slots).is_empty() && slots.get(0).is_none() && slots.get(9999).is_none());
        let (slot, content) = slots.take(|| 7).expect("a slot");
        slots.give_back(slot);
        assert!(numbers(&slots).is_empty());
        let left: Vec<_> = slots.ever_used().collect();
        assert!(left.len() == 1 && Arc::ptr_eq(left[0], &content));
        assert_eq!(slots.chunks.iter().filter(|chunk| chunk.get().is_some()).count(), 1);
    }

    /// Threads that take and give back: no slot is taken twice.
    #[test]
    fn each_slot_has_one_owner() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let slots: Slots<AtomicBool> = Slots::new(70);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let slots = &slots;
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    for round in 0..20_000 {
                        if (round + thread) % 100 < 50 {
                            let Some((slot, owned)) = slots.take(AtomicBool::default) else {
                                continue;
                            };
                            assert!(!owned.swap(true, Ordering::Relaxed), "{slot} is taken");
                            assert!(slots.in_use().any(|(other, _)| other == slot));
                            mine.push((slot, owned));
                        } else if let Some((slot, owned)) = mine.pop() {
                            owned.store(false, Ordering::Relaxed);
                            slots.give_back(slot);
                        }
                    }
                });
            }
        });
    }
}
