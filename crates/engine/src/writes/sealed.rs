//! Several transactions on one write set: each sealed when it commits, and undone by itself if it does not.

use super::WriteSet;
use super::line::entry_at;
use super::many::KEPT;
use super::{extra, few};
use crate::Mark;
use perdura_memory::{Memory, WORD};

impl WriteSet {
    /// The running transaction has committed, and another one may follow on this set.
    #[inline]
    pub fn seal(&mut self) {
        debug_assert!(!self.short.is_open(), "for sets whose words are kept by line");
        self.sealed = self.entries().len();
        (self.unusual, self.marked) = (self.many.is_used(), false);
        self.journal.clear();
        self.journal.shrink_to(KEPT);
    }

    /// Whether the running transaction has left no trace: neither words nor lines nor marks.
    #[inline]
    pub fn is_sealed(&self) -> bool {
        self.entries().len() == self.sealed && self.journal.is_empty() && !self.marked
    }

    /// Whether the running transaction has no writes left in the set.
    #[inline]
    pub fn is_unchanged(&self) -> bool {
        self.journal.is_empty() && self.entries()[self.sealed..].iter().all(|entry| entry.mask == 0)
    }

    /// Whether another transaction that writes to as many lines as the running one fits into the fixed arrays.
    #[inline]
    pub fn has_room_for_another(&self) -> bool {
        let lines = self.entries().len();
        !self.many.is_used() && 2 * lines - self.sealed <= few::ROOM
    }

    /// Undoes what the running transaction has written.
    #[cold]
    pub fn undo<M: Memory>(&mut self, memory: &M) {
        if self.sealed == 0 {
            return self.clear(memory);
        }
        let own = self.traced(memory);
        self.rollback_to(memory, Mark(0));
        for place in self.sealed..self.entries().len() {
            let mask = self.entry(place).mask;
            self.extra -= extra(mask);
            self.empty -= usize::from(mask == 0);
        }
        match self.many.is_used() {
            true => self.many.truncate(self.sealed, own),
            false => self.few.truncate(&mut self.index, self.sealed, own),
        }
        self.seal();
    }

    /// Adds the words written before the running transaction to `before`, an empty set.
    pub fn copy_sealed<M: Memory>(&self, memory: &M, before: &mut WriteSet) {
        let own = self.traced(memory);
        own.read(self.entry_at(0), entry_at(self.sealed));
        let mut lines = self.entries()[..self.sealed].to_vec();
        for previous in self.journal.iter().rev() {
            let Some(entry) = lines.get_mut(previous.entry as usize) else { continue };
            entry.words[previous.word as usize] = previous.value;
            if !previous.present {
                entry.mask &= !(1 << previous.word);
            }
        }
        lines.iter().filter(|entry| entry.mask != 0).for_each(|entry| before.push(memory, entry));
    }

    /// Copies the words of a set in which no transaction is running to `view`, an empty set, and seals them there.
    pub fn copy_to<M: Memory>(&self, memory: &M, view: &mut WriteSet) {
        for entry in self.read(memory) {
            for word in (0..entry.words.len()).filter(|word| entry.mask & 1 << word != 0) {
                view.put(memory, entry.line + word as u64 * WORD, entry.words[word]);
            }
        }
        view.seal();
    }

    /// Forgets the words written before the running transaction: they are in the memory now.
    pub fn forget_sealed<M: Memory>(&mut self, memory: &M) {
        let mut masks = vec![0_u8; self.sealed];
        for previous in &mut self.journal {
            if let Some(mask) = masks.get_mut(previous.entry as usize) {
                *mask |= 1 << previous.word;
            }
        }
        let own = self.traced(memory);
        for (place, kept) in masks.into_iter().enumerate() {
            own.wrote(self.entry_at(place), 8);
            let entry = self.entry(place);
            let (old, new) = (entry.mask, entry.mask & kept);
            entry.mask = new;
            self.extra -= extra(old) - extra(new);
            self.empty += usize::from(old != 0 && new == 0);
        }
    }
}
