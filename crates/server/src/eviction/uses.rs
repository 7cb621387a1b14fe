//! When, or how often, keys were used: a word for each hash of a key, in ordinary memory. Keys whose hashes fall on one
//! word are taken for one. After a restart, every key counts as unused.
//!
//! With the order of last use, the word is the time in hundredths of a second, and wraps around after 497 days. With that of
//! frequency, it is Redis's counter: a byte that grows ever more seldom, and falls by one a minute.

use crate::command::random::{self, mix};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of the pool for each word.
const PER_WORD: u64 = 128;
const LEAST: u64 = 1 << 12;
const MOST: u64 = 1 << 24;

/// Milliseconds of the clock's step.
const STEP: u64 = 10;
/// Steps by which another thread's clock may be ahead.
const AHEAD: u32 = 1_000;
/// Milliseconds after which a counter falls by one.
const MINUTE: u64 = 60_000;
/// The counter of a key that is new.
const NEW: u8 = 5;
/// How much more seldom a counter grows with each step.
const FACTOR: u32 = 10;

/// The words.
pub(super) struct Uses {
    words: OnceLock<Box<[AtomicU32]>>,
    seed: u64,
}

/// The place of a key's word.
#[derive(Clone, Copy)]
pub(super) struct Place(u64);

impl Uses {
    /// None yet. Clients must not be able to guess `seed`.
    pub(super) fn new(seed: u64) -> Self {
        Uses { words: OnceLock::new(), seed }
    }

    /// Begins to keep them, for a pool that may have `bytes`, or forgets all.
    pub(super) fn restart(&self, bytes: u64) {
        let count = (bytes / PER_WORD).next_power_of_two().clamp(LEAST, MOST);
        let words = self.words.get_or_init(|| (0..count).map(|_| AtomicU32::new(0)).collect());
        words.iter().for_each(|word| word.store(0, Relaxed));
    }

    pub(super) fn place(&self, db: u8, key: &[u8]) -> Place {
        Place(xxh3_64_with_seed(key, self.seed ^ u64::from(db)))
    }

    fn word(&self, place: Place) -> Option<&AtomicU32> {
        let words = self.words.get()?;
        words.get(place.0 as usize & (words.len() - 1))
    }

    /// The key is used at `now`.
    pub(super) fn use_now(&self, place: Place, now: u64) {
        let time = step(now);
        if let Some(word) = self.word(place)
            // Most keys that are used are used often: their line stays shared between threads.
            && word.load(Relaxed) != time
        {
            word.store(time, Relaxed);
        }
    }

    /// Milliseconds since it was used last, as far as that is known.
    pub(super) fn idle(&self, place: Place, now: u64) -> Option<u64> {
        match self.word(place)?.load(Relaxed) {
            0 => None,
            used => match step(now).wrapping_sub(used) {
                steps if steps > u32::MAX - AHEAD => Some(0),
                steps => Some(u64::from(steps) * STEP),
            },
        }
    }

    /// The key is used once more at `now`.
    pub(super) fn count(&self, place: Place, now: u64) {
        let Some(word) = self.word(place) else { return };
        let old = word.load(Relaxed);
        let counter = match fallen(old, now) {
            0 if old == 0 => NEW,
            counter => {
                let above = u32::from(counter.saturating_sub(NEW));
                let draw = mix(self.seed ^ place.0 ^ next_draw()) >> 32;
                // One time in above * FACTOR + 1.
                let grows = (draw * u64::from(above * FACTOR + 1)) >> 32 == 0;
                counter.saturating_add(u8::from(grows))
            }
        };
        let new = minute(now) << 16 | 1 << 8 | u32::from(counter);
        if new != old {
            word.store(new, Relaxed);
        }
    }

    /// The counter of a key.
    pub(super) fn frequency(&self, place: Place, now: u64) -> u8 {
        self.word(place).map_or(0, |word| fallen(word.load(Relaxed), now))
    }
}

/// A time as a word, which is never 0.
fn step(now: u64) -> u32 {
    ((now / STEP) as u32).max(1)
}

fn minute(now: u64) -> u32 {
    u32::from((now / MINUTE) as u16)
}

/// A counter, less one for each minute since it was stored.
fn fallen(word: u32, now: u64) -> u8 {
    let minutes = match (minute(now) as u16).wrapping_sub((word >> 16) as u16) {
        // Another thread's clock may be ahead.
        minutes if minutes > u16::MAX - 5 => 0,
        minutes => minutes,
    };
    (word as u8).saturating_sub(u8::try_from(minutes).unwrap_or(u8::MAX))
}

/// A number that differs from time to time.
fn next_draw() -> u64 {
    thread_local!(static LAST: Cell<u64> = const { Cell::new(0) });
    LAST.with(|last| {
        last.set(last.get().wrapping_add(random::STEP));
        last.get()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000_000_000;

    fn uses() -> Uses {
        let uses = Uses::new(1);
        uses.restart(1 << 20);
        uses
    }

    #[test]
    fn times_are_kept() {
        let uses = uses();
        let [a, b] = [b"a", b"b"].map(|key| uses.place(0, key));
        uses.use_now(a, NOW);
        assert_eq!((uses.idle(a, NOW + 5_000), uses.idle(b, NOW)), (Some(5_000), None));
        assert_eq!(uses.idle(a, NOW - 300), Some(0), "a clock that is behind");
        assert_eq!(uses.idle(uses.place(1, b"a"), NOW), None, "of another database");
        // The clock's numbers wrap around.
        let last = u64::from(u32::MAX) * STEP;
        uses.use_now(b, last);
        assert_eq!(uses.idle(b, last + 10 * STEP), Some(10 * STEP));
        uses.restart(1 << 20);
        assert_eq!(uses.idle(a, NOW), None);
    }

    /// After a million uses Redis's counter is about 255, after a hundred 10 (its documentation).
    #[test]
    fn counters_grow_ever_more_seldom_and_fall() {
        let uses = uses();
        let place = uses.place(0, b"key");
        assert_eq!(uses.frequency(place, NOW), 0);
        let after = |count: u64| {
            (0..count).for_each(|_| uses.count(place, NOW));
            uses.frequency(place, NOW)
        };
        assert_eq!(after(1), NEW);
        assert!((8..=14).contains(&after(99)), "{}", uses.frequency(place, NOW));
        assert!((15..=27).contains(&after(900)), "{}", uses.frequency(place, NOW));
        let many = after(200_000);
        assert!((150..=255).contains(&many), "{many}");
        assert_eq!(uses.frequency(place, NOW + 3 * MINUTE), many - 3);
        assert_eq!(uses.frequency(place, NOW - 2 * MINUTE), many, "a clock that is behind");
        for minutes in [300, 40_000, 65_000] {
            assert_eq!(uses.frequency(place, NOW + minutes * MINUTE), 0);
        }
        uses.count(place, NOW + 300 * MINUTE);
        assert!(uses.frequency(place, NOW + 300 * MINUTE) <= 1);
    }

    #[test]
    fn nothing_is_kept_before_it_begins() {
        let uses = Uses::new(1);
        let place = uses.place(0, b"a");
        uses.use_now(place, NOW);
        uses.count(place, NOW);
        assert_eq!((uses.idle(place, NOW), uses.frequency(place, NOW)), (None, 0));
    }
}
