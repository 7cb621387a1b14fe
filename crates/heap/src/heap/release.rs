//! When the space of free pages goes back to the file system.
//!
//! Invariant: space is not given back if checksums include the contents of free pages, that is, in a pool with
//! checksums of all pages, and with an engine that has checksums of lines.

use super::Heap;
use perdura_engine::{Engine, Result};
use perdura_memory::{Memory, PAGE};
use std::sync::atomic::Ordering;

/// Free bytes left to the pool as a reserve, and the share of its space that they may be.
const SPARE: u64 = 16 << 20;
const SHARE: u64 = 4;
/// Bytes of the smallest run of pages that is worth a hole.
const HOLE: u64 = 64 << 10;

impl<M: Memory + 'static, E: Engine<M>> Heap<M, E> {
    fn releases(&self) -> bool {
        let superblock = self.shared.superblock();
        !superblock.checksums && E::beside_log(superblock.limit) == 0
    }

    /// Gives a part of the free space back to the file system, if more than a quarter of the pool's space, and more
    /// than 16 MiB, is free; to be called now and then. Once begun, it goes on until no run of 64 KiB is left,
    /// skipping calls between which the program needed space again. Returns the bytes given back.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn release_some(&self) -> Result<u64> {
        self.check_owner()?;
        let (space, begun) = (&self.shared.space, &self.shared.releasing);
        if !self.releases() {
            return Ok(0);
        }
        let (free, limbo) = space.unreleased();
        let needed = space.has_secured();
        if begun.load(Ordering::Relaxed) {
            // A program that fills the pool would soon need the space again.
            if needed {
                return Ok(0);
            }
        } else {
            let held = self.memory.len().saturating_sub(space.usage().released_bytes);
            if free + limbo < SPARE.max(held / SHARE) {
                return Ok(0);
            }
            begun.store(true, Ordering::Relaxed);
        }
        let mut released = self.release_run()?;
        if released == 0 && limbo > 0 {
            // A few bytes in limbo may keep many pages from being free.
            self.checkpoint()?;
            released = self.release_run()?;
        }
        if released == 0 {
            begun.store(false, Ordering::Relaxed);
        }
        Ok(released)
    }

    /// Gives all free runs of 64 KiB back to the file system. Returns the bytes given back: 0 if the pool has
    /// checksums of all pages, or its engine has checksums of lines, or the file system takes nothing back.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn release_all(&self) -> Result<u64> {
        self.check_owner()?;
        let mut released = 0;
        if self.releases() {
            self.checkpoint()?;
            loop {
                match self.release_run()? {
                    0 => break,
                    more => released += more,
                }
            }
        }
        Ok(released)
    }

    /// Releases one run, or a part of it.
    fn release_run(&self) -> Result<u64> {
        match self.shared.space.release(&*self.memory, HOLE / PAGE) {
            Ok(released) => Ok(released),
            // If the file system refuses, the space is just not given back; but a failure of the medium is an error.
            Err(_) => Ok(self.memory.check_fence().map(|()| 0)?),
        }
    }

    /// Gives back one free page that has been used, if there is one: for crash tests.
    ///
    /// # Errors
    /// `Io` when the memory fails.
    pub fn release_one(&self) -> Result<u64> {
        if self.releases() { Ok(self.shared.space.release_one(&*self.memory)?) } else { Ok(0) }
    }
}
