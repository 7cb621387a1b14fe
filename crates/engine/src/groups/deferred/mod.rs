//! Persistence management (Archapt III-C): lines whose write-back is skipped (*deferred* lines), and the checksums that
//! protect them.
//!
//! Lines that leave the queue together form a `batch`: the cells of a matrix, at any addresses, with their numbers,
//! tags and three sums each, written in one piece behind the log. A batch takes 15 lines of checksums for a hundred
//! deferred lines; a write-back would take one line for each, and sums at a fixed place, as in the paper, several,
//! unless a line's neighbours leave with it.
//!
//! A batch is never changed. A line that is stored to again no longer belongs to its batch: before the storing group
//! stores anything, the line's contents go into the `images`, since the sums are over these. When a batch has few lines
//! left, these leave again, with others.
//!
//! A batch counts after a power cut if the groups up to its ticket do; an image, if its group does. A line is
//! *deferred* if a batch has it and no image of it is newer. What always holds:
//! - a deferred line does not wait in the history, and no record of a group after the batch has a word of it;
//! - while a batch counts, each of its lines that is not deferred by it any more has an image of the moment when it was
//!   first stored to; or a later batch has that line, as it was then.

mod batch;
mod examine;
mod images;
mod pages;
mod place;
mod restore;

pub use examine::{Examination, examine};
pub use place::Layout;

pub(crate) use images::read_all as images;

use crate::planted::{self, Bug};
use crate::tuning::Skip;
use crate::writes::{ALL, LineWrite, WriteSet};
use crate::{Counters, Result};
use batch::{BEYOND, block_at};
use images::{Batch, Images, stream};
use pages::PageStats;
use perdura_memory::{LINE, Memory, Object, Traced, WORD, line_of};
use place::{Parts, WORDS};

/// The deferred lines of a pool. Memory: four bytes for each line of the pool and three for each page, resident only
/// where lines have been deferred, and eight for each before-image.
pub struct Deferred {
    layout: Layout,
    pub(super) skip: Skip,
    /// For each line of the memory, 1 plus the slot of the batch that defers it; or 0.
    slot_of: Vec<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    pages: PageStats,
    images: Images,
    /// The deferred lines that the current group stores to, ascending, with their contents before.
    stored_to: Vec<LineWrite>,
    /// The batches that they were deferred by.
    deferred_by: Vec<Batch>,
    words: Vec<u64>,
    own: Objects,
}

/// The memory's handles for its parts.
struct Objects {
    slot_of: Object,
    slots: Object,
    words: Object,
}

/// One in this many slots is kept free, by moving lines from other batches into new ones.
const SPARE_SLOTS: usize = 8;
/// The most batches whose lines are moved at a time.
const RENEWED: usize = 8;
/// The most chunks of images that are cleaned at a time.
const CLEANED: usize = 4;

/// A place for a batch.
#[derive(Clone, Copy, Default)]
struct Slot {
    used: bool,
    /// The number of lines that it defers.
    lines: usize,
    /// The group whose durability frees the batch, once it defers no line: with that group, no line needs the batch.
    until: u64,
    /// Before-images of lines that it deferred.
    images: usize,
    /// The number of batches that were here before.
    turn: u32,
}

const SLOT: u64 = size_of::<Slot>() as u64;
const SLOT_NUMBER: u64 = size_of::<u32>() as u64;

impl Deferred {
    /// For all that a memory can grow to.
    pub(super) fn new<M: Memory>(memory: &M, layout: Layout) -> Self {
        let limit = memory.limit();
        let lines = if layout.slots() > 0 { limit.min(BEYOND) / LINE } else { 0 };
        Deferred {
            layout,
            skip: Skip::default(),
            slot_of: vec![0; lines as usize],
            slots: (0..layout.slots()).map(|_| Slot::default()).collect(),
            free: (0..layout.slots()).rev().collect(),
            pages: PageStats::new(memory, lines * LINE),
            images: Images::new(memory, layout),
            stored_to: Vec::new(),
            deferred_by: Vec::new(),
            words: Vec::new(),
            own: Objects {
                slot_of: memory.object(lines * SLOT_NUMBER),
                slots: memory.object(u64::from(layout.slots()) * SLOT),
                words: memory.object(Parts::of(layout.capacity()).words as u64 * WORD),
            },
        }
    }

    /// Whether a line is deferred, as of the last closed group.
    #[inline]
    pub(super) fn is_deferred<M: Memory>(&self, memory: &M, line: u64) -> bool {
        self.slot_of_in(memory).read(line / LINE * SLOT_NUMBER, SLOT_NUMBER);
        self.slot_of.get((line / LINE) as usize).is_some_and(|slot| *slot != 0)
    }

    /// Whether any line of `[at, at + len)` is.
    pub(super) fn any(&self, at: u64, len: u64) -> bool {
        let is_deferred =
            |line: u64| self.slot_of.get((line / LINE) as usize).is_some_and(|slot| *slot != 0);
        (line_of(at)..at + len).step_by(LINE as usize).any(is_deferred)
    }

    /// Whether there is room for the images of the deferred lines that `writes` store to.
    pub(super) fn has_room_for<M: Memory>(&self, memory: &M, writes: &WriteSet) -> bool {
        let stored = writes.read(memory).iter().filter(|entry| entry.mask != 0);
        self.images.has_room(stored.filter(|entry| self.is_deferred(memory, entry.line)).count())
    }

    /// Whether chunks should be [cleaned](Self::clean) ahead of need.
    pub(super) fn has_few_chunks(&self) -> bool {
        self.images.has_few_chunks()
    }

    /// How many chunks are free.
    pub(super) fn free_chunks(&self) -> usize {
        self.images.free_chunks()
    }

    /// Ends the deferral of the lines that `writes` of the group `ticket` store to: writes their contents as the first
    /// parts of that group; returns how many parts these are. The caller fences before anything is stored there, and
    /// has checked that the log has room for the rest of the group: this cannot be undone.
    pub(super) fn end_deferral<M: Memory>(
        &mut self,
        memory: &M,
        counters: &mut Counters,
        writes: &WriteSet,
        ticket: u64,
    ) -> u16 {
        self.stored_to.clear();
        self.deferred_by.clear();
        let stored = writes.read(memory).iter().filter(|entry| entry.mask != 0);
        let lines = stored.map(|entry| entry.line).filter(|line| self.is_deferred(memory, *line));
        let mut lines: Vec<u64> = lines.collect();
        lines.sort_unstable();
        for line in lines {
            let slot = self.take(memory, line).expect("it is deferred");
            let its = &mut self.slots[slot as usize];
            its.until = ticket;
            its.images += 1;
            self.deferred_by.push(Batch { slot, turn: its.turn });
            self.stored_to.push(LineWrite { line, mask: ALL, words: block_at(memory, line) });
            self.pages.stored_to_again(memory, line);
        }
        self.images.append(memory, counters, ticket, 0, &self.stored_to, &self.deferred_by)
    }

    /// Whether the last group has stored to a line that was deferred.
    pub(super) fn was_stored_to(&self, line: u64) -> bool {
        self.stored_to.binary_search_by_key(&line, |entry| entry.line).is_ok()
    }

    /// Ends a line's deferral; returns the slot of its batch.
    fn take<M: Memory>(&mut self, memory: &M, line: u64) -> Option<u32> {
        let at = line / LINE * SLOT_NUMBER;
        self.slot_of_in(memory).read(at, SLOT_NUMBER);
        let slot = std::mem::take(self.slot_of.get_mut((line / LINE) as usize)?).checked_sub(1)?;
        self.slots[slot as usize].lines -= 1;
        self.slot_of_in(memory).wrote(at, SLOT_NUMBER);
        self.slots_in(memory).wrote(u64::from(slot) * SLOT, SLOT);
        Some(slot)
    }

    #[inline(always)]
    fn slot_of_in<'m, M: Memory>(&self, memory: &'m M) -> Traced<'m, M> {
        Traced::new(memory, self.own.slot_of)
    }

    fn slots_in<'m, M: Memory>(&self, memory: &'m M) -> Traced<'m, M> {
        Traced::new(memory, self.own.slots)
    }

    /// Makes batches void that defer no line any more, if groups up to `durable` are durable. The caller fences before
    /// the images of their lines are given up; if one of those is overwritten, its check shows that it is void.
    pub(super) fn make_void<M: Memory>(
        &mut self,
        memory: &M,
        counters: &mut Counters,
        durable: u64,
    ) {
        self.slots_in(memory).read(0, self.slots.len() as u64 * SLOT);
        for (number, slot) in self.slots.iter_mut().enumerate() {
            if slot.used && slot.lines == 0 && slot.until <= durable {
                *slot = Slot { turn: slot.turn.wrapping_add(1), ..Slot::default() };
                stream(memory, counters, self.layout.slot(number as u32), &[0; WORDS]);
                self.free.push(number as u32);
            }
        }
    }

    /// The lines that a batch defers.
    fn lines_of<M: Memory>(&self, memory: &M, slot: u32) -> Vec<u64> {
        let mut lines = batch::lines_in(memory, &self.layout, slot);
        lines.retain(|line| {
            self.slot_of_in(memory).read(line / LINE * SLOT_NUMBER, SLOT_NUMBER);
            self.slot_of[(*line / LINE) as usize] == slot + 1
        });
        lines
    }

    /// Every deferred line.
    pub(super) fn all_lines<M: Memory>(&self, memory: &M) -> Vec<u64> {
        let used = (0..self.layout.slots()).filter(|slot| self.slots[*slot as usize].lines > 0);
        used.flat_map(|slot| self.lines_of(memory, slot)).collect()
    }

    /// Ends all deferral: all deferred lines are durable, and the log is empty. The caller fences before anything else.
    pub(super) fn give_up<M: Memory>(
        &mut self,
        memory: &M,
        counters: &mut Counters,
        lines: &[u64],
    ) {
        lines.iter().for_each(|line| {
            self.take(memory, *line);
        });
        self.make_void(memory, counters, u64::MAX);
        self.images.clear();
    }

    /// Defers `lines` as left by the groups up to `last`, in as many batches as it takes; the caller fences. Returns
    /// the lines that are not deferred, which must be written back.
    pub(super) fn defer<M: Memory>(
        &mut self,
        memory: &M,
        counters: &mut Counters,
        lines: Vec<u64>,
        last: u64,
    ) -> Vec<u64> {
        let choose = self.skip == Skip::WhereFewer;
        let (mut lines, mut rest): (Vec<u64>, Vec<u64>) = lines.into_iter().partition(|line| {
            line / LINE < self.slot_of.len() as u64 && (!choose || self.pages.keep(memory, *line))
        });
        let capacity = self.layout.capacity();
        let renewed = self.take_back(memory, lines.len().div_ceil(capacity), last);
        // One is kept for the lines that are taken back the next time.
        let slots = self.free.len().saturating_sub(usize::from(renewed.is_empty()));
        rest.extend(lines.drain(lines.len().min(slots * capacity - renewed.len())..));
        let batches = (lines.len() + renewed.len()).div_ceil(capacity);
        if batches == 0 || renewed.is_empty() && !self.is_worth_it(lines.len() / batches) {
            rest.append(&mut lines);
            return rest;
        }
        lines.iter().for_each(|line| self.pages.deferred(memory, *line));
        lines.extend(renewed);
        lines.sort_unstable();
        for batch in 0..batches {
            let its: Vec<u64> = lines.iter().copied().skip(batch).step_by(batches).collect();
            self.write_batch(memory, counters, &its, last);
        }
        rest
    }

    /// Takes lines back from batches that are better rewritten, if slots are short for `batches` more or there are many
    /// images: from the batches that defer the fewest, which have the most images. The lines must be in a batch again
    /// after the group `last`, since their present batches count until that is durable.
    fn take_back<M: Memory>(&mut self, memory: &M, batches: usize, last: u64) -> Vec<u64> {
        if self.free.is_empty() || self.skip == Skip::Never {
            return Vec::new();
        }
        let mut slots: Vec<u32> =
            (0..self.layout.slots()).filter(|slot| self.slots[*slot as usize].lines > 0).collect();
        let images: usize = slots.iter().map(|slot| self.slots[*slot as usize].images).sum();
        let wanted = batches + self.slots.len() / SPARE_SLOTS;
        let mut slots_short = wanted.saturating_sub(self.free.len());
        let mut images_over = images.saturating_sub(self.images.capacity() / 2);
        let (many, most) = (images_over > 0, self.free.len().min(RENEWED) * self.layout.capacity());
        let mut lines = 0;
        slots.sort_unstable_by_key(|slot| self.slots[*slot as usize].lines);
        slots.retain(|slot| {
            let slot = &self.slots[*slot as usize];
            if slots_short == 0 && images_over == 0 || lines + slot.lines > most {
                return false;
            }
            lines += slot.lines;
            slots_short = slots_short.saturating_sub(1);
            images_over = images_over.saturating_sub(slot.images);
            true
        });
        // The lines may need as many slots as they leave.
        if !many && slots.len() <= lines.div_ceil(self.layout.capacity()) {
            slots.clear();
        }
        slots.into_iter().flat_map(|slot| self.take_back_from(memory, slot, last)).collect()
    }

    fn take_back_from<M: Memory>(&mut self, memory: &M, slot: u32, last: u64) -> Vec<u64> {
        let lines = self.lines_of(memory, slot);
        for line in &lines {
            self.take(memory, *line);
        }
        if !planted::has(Bug::TakenBackTooEarly) {
            let slot = &mut self.slots[slot as usize];
            slot.until = slot.until.max(last);
        }
        lines
    }

    /// Whether a batch of this many lines is worth it.
    fn is_worth_it(&self, lines: usize) -> bool {
        match self.skip {
            Skip::Never => false,
            Skip::WhereFewer => Parts::of(lines).lines() * 2 < lines,
            Skip::Always => true,
        }
    }

    fn write_batch<M: Memory>(
        &mut self,
        memory: &M,
        counters: &mut Counters,
        lines: &[u64],
        last: u64,
    ) {
        let slot = self.free.pop().expect("as many lines as there are slots for");
        let own = Traced::new(memory, self.own.words);
        batch::write(memory, &self.layout, (slot, last), lines, (&mut self.words, own));
        own.read(0, self.words.len() as u64 * WORD);
        stream(memory, counters, self.layout.slot(slot), &self.words);
        self.slots[slot as usize] = Slot {
            used: true,
            lines: lines.len(),
            until: last,
            images: 0,
            ..self.slots[slot as usize]
        };
        for line in lines {
            debug_assert_eq!(
                self.slot_of[(*line / LINE) as usize],
                0,
                "a deferred line does not wait"
            );
            self.slot_of[(*line / LINE) as usize] = slot + 1;
            self.slot_of_in(memory).wrote(line / LINE * SLOT_NUMBER, SLOT_NUMBER);
        }
    }

    /// Makes room for images, if there is little; see [`Images::clean_first`].
    ///
    /// # Errors
    /// `Corrupt` where an image is not what was written.
    pub(super) fn clean<M: Memory>(
        &mut self,
        memory: &M,
        counters: &mut Counters,
        cut: u64,
    ) -> Result<()> {
        let Deferred { images, slots, .. } = self;
        let is_there = |batch: Batch| {
            let slot = &slots[batch.slot as usize];
            slot.used && slot.turn == batch.turn
        };
        for _ in 0..CLEANED {
            if !images.may_clean(cut) || !images.clean_first(memory, counters, is_there)? {
                break;
            }
        }
        Ok(())
    }

    /// The copied images are durable.
    pub(super) fn cleaned(&mut self) {
        self.images.cleaned();
    }
}
