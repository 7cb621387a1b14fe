//! One writer, and readers until it stores, with nothing shared among readers.
//!
//! A transaction that writes has two phases. At first it only reads, and keeps what it wants to
//! store to itself: other writers wait, readers do not. Before it stores anything that a reader may
//! look at, it is alone: no reader comes in, and those that are there are waited for.
//!
//! Each session has a slot on a line of its own. A reader raises its slot and looks whether
//! somebody is alone; who will be alone says so and waits for the raised slots. Readers
//! on different cores therefore never pass a line between them. Waiting goes through the memory's
//! `pause`, so that it is a scheduling point in a simulator.

use crate::sync::{AtomicBool, AtomicUsize, Ordering, fence, pause, raise};
use perdura_memory::Memory;

/// A value on cache lines of its own (two, since the hardware fetches lines in pairs).
#[derive(Default)]
#[repr(align(128))]
pub struct Apart<T>(pub T);

/// The lock, with a fixed number of slots for readers.
pub struct SharedLock {
    writer: Apart<AtomicBool>,
    /// The writer is alone. Only the writer changes it.
    alone: Apart<AtomicBool>,
    readers: Box<[Apart<AtomicBool>]>,
    taken: Box<[AtomicBool]>,
    /// Slots from here on have never been taken.
    used: AtomicUsize,
}

impl SharedLock {
    /// A lock for at most `slots` sessions.
    pub fn new(slots: usize) -> Self {
        SharedLock {
            writer: Apart::default(),
            alone: Apart::default(),
            readers: (0..slots).map(|_| Apart::default()).collect(),
            taken: (0..slots).map(|_| AtomicBool::new(false)).collect(),
            used: AtomicUsize::new(0),
        }
    }

    /// How many sessions there can be.
    pub fn slots(&self) -> usize {
        self.readers.len()
    }

    /// Takes a slot for a session, if one is left.
    pub fn register(&self) -> Option<usize> {
        let slot = self.taken.iter().position(|taken| {
            taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })?;
        self.used.fetch_max(slot + 1, Ordering::SeqCst);
        Some(slot)
    }

    /// Gives a slot back.
    pub fn unregister(&self, slot: usize) {
        self.taken[slot].store(false, Ordering::Release);
    }

    /// Enters as the reader of `slot`.
    #[inline]
    pub fn read<M: Memory>(&self, slot: usize, memory: &M) {
        let mine = &self.readers[slot].0;
        let mut turn = 0;
        loop {
            mine.store(true, Ordering::Relaxed);
            // The slot must be seen raised before it is looked whether somebody is alone.
            fence(Ordering::SeqCst);
            if !self.alone.0.load(Ordering::Acquire) {
                return;
            }
            mine.store(false, Ordering::Release);
            while self.alone.0.load(Ordering::Relaxed) {
                pause(memory, turn);
                turn += 1;
            }
        }
    }

    /// Leaves as a reader.
    #[inline]
    pub fn done_reading(&self, slot: usize) {
        self.readers[slot].0.store(false, Ordering::Release);
    }

    /// Whether a reader is there that [`be_alone`](Self::be_alone) would wait for.
    #[inline]
    pub fn has_readers(&self) -> bool {
        self.readers[..self.used.load(Ordering::Relaxed)]
            .iter()
            .any(|reader| reader.0.load(Ordering::Relaxed))
    }

    /// Enters as the only writer, beside readers.
    #[inline]
    pub fn write<M: Memory>(&self, memory: &M) {
        let mut turn = 0;
        while self
            .writer
            .0
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            while self.writer.0.load(Ordering::Relaxed) {
                pause(memory, turn);
                turn += 1;
            }
        }
    }

    /// Waits until no reader is there, and lets none in: for the writer, until it leaves. Once is
    /// enough, more does no harm.
    #[inline]
    pub fn be_alone<M: Memory>(&self, memory: &M) {
        if self.alone.0.load(Ordering::Relaxed) {
            return;
        }
        // Sequentially consistent with the reader's fence: whoever raised a slot before this
        // point is waited for, whoever does after sees that it must wait.
        raise(&self.alone.0);
        for reader in &self.readers[..self.used.load(Ordering::SeqCst)] {
            let mut turn = 0;
            while reader.0.load(Ordering::SeqCst) {
                pause(memory, turn);
                turn += 1;
            }
        }
    }

    /// Readers may come in again, though the writer stays.
    #[inline]
    pub fn let_readers_in(&self) {
        self.alone.0.store(false, Ordering::Release);
    }

    /// Runs `body` as the only writer, beside readers, and leaves even if it panics.
    pub fn writing<M: Memory, R>(&self, memory: &M, body: impl FnOnce() -> R) -> R {
        struct Leave<'a>(&'a SharedLock);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.done_writing();
            }
        }
        self.write(memory);
        let _leave = Leave(self);
        body()
    }

    /// Leaves as the writer. A plain store: a locked instruction would wait for write-backs.
    #[inline]
    pub fn done_writing(&self) {
        self.alone.0.store(false, Ordering::Release);
        self.writer.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::Ram;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn readers_and_writers_exclude_one_another() {
        let (lock, ram) = (SharedLock::new(4), Ram::new(64));
        let (a, b) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (lock, ram, a, b) = (&lock, &ram, &a, &b);
                scope.spawn(move || {
                    let slot = lock.register().unwrap();
                    for round in 0..20_000 {
                        if (round + thread) % 3 == 0 {
                            lock.write(ram);
                            let value = a.load(Ordering::Relaxed) + 1;
                            lock.be_alone(ram);
                            a.store(value, Ordering::Relaxed);
                            b.store(value, Ordering::Relaxed);
                            lock.done_writing();
                        } else {
                            lock.read(slot, ram);
                            assert_eq!(a.load(Ordering::Relaxed), b.load(Ordering::Relaxed));
                            lock.done_reading(slot);
                        }
                    }
                    lock.unregister(slot);
                });
            }
        });
        assert_eq!(a.load(Ordering::Relaxed), 4 * 20_000 / 3 + 1);
        assert!(lock.register().is_some());
    }
}
