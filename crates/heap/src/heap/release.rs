//! When the space of free pages goes back to the file system.
//!
//! What holds always: it does not where something vouches for what is in free pages, that is, in a pool with
//! checksums of all pages, and with an engine that has checksums of lines.

use super::Heap;
use perdura_engine::{Engine, Result};
use perdura_memory::{Memory, PAGE};
use std::sync::atomic::Ordering;

/// Free bytes that are left to the pool, for what it needs next, and the share of its space that they may be.
const SPARE: u64 = 16 << 20;
const SHARE: u64 = 4;
/// Bytes in a run of pages that is worth a hole.
const HOLE: u64 = 64 << 10;

impl<M: Memory + 'static, E: Engine<M>> Heap<M, E> {
    fn releases(&self) -> bool {
        let superblock = self.shared.superblock();
        !superblock.checksums && E::beside_log(superblock.limit) == 0
    }

    /// Gives space back to the file system if more than a quarter of what the pool has, and more than 16 MiB,
    /// is free: some of it, so that it should be called again, now and then. Once begun, it goes on until there
    /// is none left in runs of 64 KiB, but for calls between which some was needed again. The bytes given back.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn release_some(&self) -> Result<u64> {
        let (space, begun) = (&self.shared.space, &self.shared.releasing);
        if !self.releases() {
            return Ok(0);
        }
        let (free, limbo) = space.unreleased();
        let needed = space.has_secured();
        if begun.load(Ordering::Relaxed) {
            // A program that fills the pool would need again what is given back.
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
            // A little that is in limbo may keep many pages from being free.
            self.checkpoint()?;
            released = self.release_run()?;
        }
        if released == 0 {
            begun.store(false, Ordering::Relaxed);
        }
        Ok(released)
    }

    /// Gives back to the file system what is free in runs of 64 KiB. The bytes given back: none where the pool
    /// has checksums of all pages, or its engine has some of lines, or the file system takes nothing back.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn release_all(&self) -> Result<u64> {
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

    /// One run, or a part of it.
    fn release_run(&self) -> Result<u64> {
        match self.shared.space.release(&*self.memory, HOLE / PAGE) {
            Ok(released) => Ok(released),
            // What the file system does not take back is only not given back; but for a failure of the medium.
            Err(_) => Ok(self.memory.check_fence().map(|()| 0)?),
        }
    }

    /// Gives one free page back that has been used, if there is one: for crash tests.
    ///
    /// # Errors
    /// `Io` when the memory fails.
    pub fn release_one(&self) -> Result<u64> {
        if self.releases() { Ok(self.shared.space.release_one(&*self.memory)?) } else { Ok(0) }
    }
}
