//! Accesses on the hardware path: loads and stores in place. After each the session asks whether the speculation is lost;
//! the hardware has undone its stores then.
//!
//! Old words are kept only from the transaction's first mark on, to go back to a mark; the hardware undoes whole
//! transactions. The sums of pages change with their words, as ordinary words of the transaction.

use super::fallback::Fallback;
use super::session::{ElidedSession, OLD, OLD_BYTES, OLD_WORDS, Way};
use super::shared::HardwareState;
use crate::access::put_bytes;
use crate::sums;
use crate::{Error, Mode, Result};
use perdura_memory::elision::ElidedLock;
use perdura_memory::{LINE, Memory, Touch, WORD};

/// Bytes from which on a write is one copy, and not word by word.
const COPIED: usize = LINE as usize;

impl<M: Memory + 'static, C: Fallback<S>, S: 'static> ElidedSession<M, C, S> {
    /// Fails if the speculation is lost, by then if not before.
    #[inline]
    fn still_runs(&mut self) -> Result<()> {
        if ElidedLock::is_lost(&*self.engine.memory, &mut self.elision) {
            self.way = Way::Failed;
            return Err(Error::Conflict);
        }
        Ok(())
    }

    pub(super) fn load_word(&mut self, at: u64) -> Result<u64> {
        let value = self.engine.memory.try_load(at).ok_or_else(|| Error::outside(at))?;
        self.still_runs()?;
        Ok(value)
    }

    pub(super) fn load_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        if !self.engine.memory.try_copy_out(at, to) {
            return Err(Error::outside(at));
        }
        self.still_runs()
    }

    fn check_write(&self, at: u64, len: u64) -> Result<()> {
        match self.mode {
            Some(Mode::Write) if self.engine.memory.contains(at, len) => Ok(()),
            Some(Mode::Write) => Err(Error::outside(at)),
            _ => Err(Error::ReadOnly),
        }
    }

    /// The place of the sum of the page of `at`, if it has one.
    #[inline]
    fn sum_of(&self, at: u64) -> Option<u64> {
        let HardwareState { sums, .. } = self.engine.hardware.as_ref()?;
        sums.as_ref()?.of(at)
    }

    pub(super) fn store_word(&mut self, at: u64, value: u64) -> Result<()> {
        self.check_write(at, WORD)?;
        if !at.is_multiple_of(WORD) {
            return Err(Error::outside(at));
        }
        if let Some(place) = self.sum_of(at) {
            let before = self.load_word(at)?;
            let sum = self.load_word(place)?;
            self.put(place, sum.wrapping_add(sums::change(at, before, value)))?;
        }
        self.put(at, value)
    }

    /// Stores a word.
    fn put(&mut self, at: u64, value: u64) -> Result<()> {
        if self.keeps_old {
            let before = self.load_word(at)?;
            self.touch_old(self.old.len(), Touch::Write);
            self.old.push((at, before));
        }
        self.engine.memory.store(at, value);
        self.wrote = true;
        self.stored_bytes += WORD;
        self.still_runs()
    }

    pub(super) fn store_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.check_write(at, from.len() as u64)?;
        // Pages with sums lie before those without.
        if from.len() < COPIED || self.keeps_old || self.sum_of(at).is_some() {
            return put_bytes(self, at, from);
        }
        self.store_fresh(at, from)
    }

    /// Stores bytes of memory that a rollback need not restore.
    pub(super) fn store_fresh(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.check_write(at, from.len() as u64)?;
        self.engine.memory.copy_in(at, from);
        self.wrote |= !from.is_empty();
        self.stored_bytes += from.len() as u64;
        self.still_runs()
    }

    /// Puts back what was stored since there were `kept` old words.
    pub(super) fn put_back(&mut self, kept: usize) {
        while self.old.len() > kept {
            self.touch_old(self.old.len() - 1, Touch::Read);
            if let Some((at, before)) = self.old.pop() {
                self.engine.memory.store(at, before);
            }
        }
        // If the speculation is lost meanwhile, the next access says so.
    }

    fn touch_old(&self, index: usize, access: Touch) {
        let at = OLD + index as u64 % OLD_WORDS * OLD_BYTES;
        self.engine.memory.touch(self.own, at, OLD_BYTES, access);
    }
}
