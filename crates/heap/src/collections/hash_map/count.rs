//! Counts a map's entries. A small map keeps one count, in its header. The count of a large one is a sum, so that
//! sessions do not all write one word: a *base*, and a count for each *lane*, which the sessions of that lane change.
//! When a lane's count comes to 16, it is moved to the base, and only then the base is compared with the number of
//! buckets. So most insertions and removals write only their lane's line, which operations of other lanes do not read.
//!
//! The lanes are a block of [`LINES`] lines, to which the header's word for the count then points: the base's line
//! first, then the lanes'. A line holds its count, and `0x6C << 56 | line`.
//!
//! Invariants: the number of entries is the sum of all counts, which wraps: a lane in which more is removed than
//! inserted is below 0. The tag has [`LANED`] if and only if there are lanes: a program that does not know lanes takes
//! the map for one of another type, and leaves it alone.

use super::table::{COUNT, Counting, LANED, Table};
use crate::collections::compact::move_block;
use crate::collections::tag::Tag;
use crate::{Error, Purpose, Result, Tx};

const LINE: u64 = 64;
/// Lines of the block; a slot of the allocator has as many.
const LINES: u64 = 32;
const LANES: u64 = LINES - 1;
/// Entries from which on there are lanes: their block costs half a byte an entry.
const MANY: u64 = 4096;
/// Entries below which the lanes are given up.
const FEW: u64 = MANY / 4;
/// The magnitude at which a lane's count is moved to the base. All lanes together may keep an eighth of the fewest
/// entries from it.
pub(super) const STEP: u64 = 16;
/// Insertions between attempts to allocate lanes.
const ATTEMPTS: u64 = 64;
const MARK: u64 = 0x6C << 56;

impl Table {
    /// Adds `change` to the count, wrapping. Returns the count if it is to be compared with the number of buckets.
    #[inline]
    pub(super) fn count<T: Tx + ?Sized>(&mut self, tx: &mut T, change: u64) -> Result<Option<u64>> {
        match self.counting {
            Counting::No => Ok(None),
            Counting::One => self.count_in_header(tx, change).map(Some),
            Counting::Lanes => self.count_in_lane(tx, change),
        }
    }

    fn count_in_header<T: Tx + ?Sized>(&mut self, tx: &mut T, change: u64) -> Result<u64> {
        let count = tx.read_word(self.at + COUNT)?.wrapping_add(change);
        if count > i64::MAX as u64 {
            return Err(self.wrong_count());
        }
        tx.write_word(self.at + COUNT, count)?;
        if change == 1 && count >= MANY && count.is_multiple_of(ATTEMPTS) {
            self.make_lanes(tx)?;
        }
        Ok(count)
    }

    fn count_in_lane<T: Tx + ?Sized>(&mut self, tx: &mut T, change: u64) -> Result<Option<u64>> {
        let (lane, own) = self.line(tx, 1 + u64::from(tx.lane()) % LANES)?;
        let own = own.wrapping_add(change);
        if (own as i64).unsigned_abs() < STEP {
            tx.write_word(lane, own)?;
            return Ok(None);
        }
        let (base, count) = self.line(tx, 0)?;
        let count = count.wrapping_add(own);
        tx.write_word(base, count)?;
        tx.write_word(lane, 0)?;
        // The other lanes may hold more than the base lacks.
        let count = (count as i64).max(0) as u64;
        if count < FEW && own > i64::MAX as u64 {
            self.end_lanes(tx)?;
        }
        Ok(Some(count))
    }

    /// The address of a lane's line, and its count.
    #[inline]
    fn line<T: Tx + ?Sized>(&self, tx: &mut T, line: u64) -> Result<(u64, u64)> {
        let at = tx.read_word(self.at + COUNT)?.wrapping_add(line * LINE);
        if tx.read_word(at + 8).map_err(Error::in_pool)? != MARK | line {
            return Err(Error::corrupt("the lanes of a hash map's count", self.at));
        }
        Ok((at, tx.read_word(at)?))
    }

    fn wrong_count(&self) -> Error {
        Error::corrupt("an entry's count", self.at)
    }

    /// The number of entries; `None` if they are not counted.
    pub(super) fn counted<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<Option<u64>> {
        match self.counting {
            Counting::No => Ok(None),
            Counting::One => tx.read_word(self.at + COUNT).map(Some),
            Counting::Lanes => self.sum(tx).map(Some),
        }
    }

    fn sum<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<u64> {
        let mut sum = 0u64;
        for line in 0..LINES {
            sum = sum.wrapping_add(self.line(tx, line)?.1);
        }
        if sum > i64::MAX as u64 { Err(self.wrong_count()) } else { Ok(sum) }
    }

    /// Gives a map with one count lanes, if there is room for them at once.
    pub(super) fn make_lanes<T: Tx + ?Sized>(&mut self, tx: &mut T) -> Result<()> {
        let Some(new) = tx.allocate_now(Purpose::General, LINES * LINE)? else { return Ok(()) };
        let mut words = [0; (LINES * LINE / 8) as usize];
        for line in 0..LINES {
            words[line as usize * 8 + 1] = MARK | line;
        }
        words[0] = tx.read_word(self.at + COUNT)?;
        tx.write_fresh(new, 0, bytemuck::bytes_of(&words))?;
        self.set_counting(tx, Counting::Lanes, new.at())
    }

    /// Gives a map with lanes one count instead.
    pub(super) fn end_lanes<T: Tx + ?Sized>(&mut self, tx: &mut T) -> Result<()> {
        let count = self.sum(tx)?;
        self.free_lanes(tx)?;
        self.set_counting(tx, Counting::One, count)
    }

    /// Frees the lanes, when the map is freed.
    pub(super) fn free_lanes<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<()> {
        if self.counting != Counting::Lanes {
            return Ok(());
        }
        let lanes = tx.read_word(self.at + COUNT)?;
        tx.free(lanes).map_err(Error::in_pool)
    }

    fn set_counting<T: Tx + ?Sized>(
        &mut self,
        tx: &mut T,
        counting: Counting,
        word: u64,
    ) -> Result<()> {
        let tag = Tag::read(tx, self.at)?;
        let laned = if counting == Counting::Lanes { LANED } else { 0 };
        tx.write_word(self.at, Tag { flags: tag.flags & !LANED | laned, ..tag }.word())?;
        tx.write_word(self.at + COUNT, word)?;
        self.counting = counting;
        Ok(())
    }

    /// Moves the lanes out of a page that is to be emptied.
    pub(super) fn compact_lanes<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<()> {
        if self.counting != Counting::Lanes {
            return Ok(());
        }
        let lanes = tx.read_word(self.at + COUNT)?;
        let moved = move_block(tx, lanes).map_err(Error::in_pool)?;
        if moved != lanes {
            tx.write_word(self.at + COUNT, moved)?;
        }
        Ok(())
    }

    /// The block of lanes, if there is one.
    pub(super) fn lanes<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<Option<u64>> {
        match self.counting {
            Counting::Lanes => tx.read_word(self.at + COUNT).map(Some),
            Counting::No | Counting::One => Ok(None),
        }
    }
}
