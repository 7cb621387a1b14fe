//! An array in the pool that grows without moving: segments double in size up to 1 MiB, and keep that size from there
//! on.
//!
//! Its owner's header is one line, the last four words of which belong to the array: the first three segments, and a
//! block `more` with the pointers of the next thirteen. The last word of `more` leads to a directory of 512 pages of
//! 512 pointers each, for the segments of 1 MiB. An array is thus small when it has few elements, and never needs a
//! large contiguous run.
//!
//! Elements are not initialised. One segment more than needed may be kept, so that a length that varies around a
//! segment's edge does not allocate and free repeatedly.

use super::Visit;
use super::compact::move_block;
use crate::{Error, Fresh, Purpose, Result, Tx};

/// Offset of the segments' words in the owner's header.
const WORDS: u64 = 32;
/// Segments whose pointers are in the header.
const INLINE: u64 = 3;
/// Offset in the header of the pointer to `more`.
const MORE: u64 = WORDS + 8 * INLINE;
/// Words in `more`.
const MORE_WORDS: u64 = 16;
/// Pointers in a page of the directory.
const FANOUT: u64 = 512;
const LARGE: u64 = 1 << 20;

/// The geometry of one array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segments {
    header: u64,
    /// Bytes from one element to the next.
    pitch: u64,
    /// Logarithm of the elements in the first segment, which is about a line.
    base: u32,
    /// Logarithm of the elements in a large segment.
    large: u32,
}

impl Segments {
    /// The array whose owner's header is at `header`; `pitch` is between 1 and 1 MiB.
    #[inline]
    pub(super) const fn new(header: u64, pitch: u64) -> Self {
        // Without a division: this is part of each look for an element.
        let log = pitch.next_power_of_two().trailing_zeros();
        Segments { header, pitch, base: 6u32.saturating_sub(log), large: LARGE.ilog2() - log }
    }

    /// Bytes from one element to the next.
    pub(super) const fn pitch(self) -> u64 {
        self.pitch
    }

    /// The elements of `len` that are left without the last `count` segments.
    pub(super) const fn without_last(self, len: u64, count: u64) -> u64 {
        let (segment, first) = self.locate(len);
        let used = if len == first { segment } else { segment + 1 };
        if count >= used { 0 } else { self.first(used - count) }
    }

    /// The first element of a segment.
    const fn first(self, segment: u64) -> u64 {
        if segment == 0 {
            0
        } else if segment < self.small() {
            1 << (self.base as u64 + segment - 1)
        } else {
            (segment - self.small() + 2) << self.large
        }
    }

    /// The greatest number of elements.
    pub(super) const fn capacity(self) -> u64 {
        (FANOUT * FANOUT + 2) << self.large
    }

    /// Number of segments smaller than 1 MiB.
    const fn small(self) -> u64 {
        (self.large - self.base + 2) as u64
    }

    /// The segment that holds an element, and its first element.
    #[inline(always)]
    const fn locate(self, index: u64) -> (u64, u64) {
        if index >> self.base == 0 {
            (0, 0)
        } else if index >> (self.large + 1) == 0 {
            let doubling = (index >> self.base).ilog2();
            (doubling as u64 + 1, 1 << (self.base + doubling))
        } else {
            let large = (index >> self.large) - 2;
            (self.small() + large, (large + 2) << self.large)
        }
    }

    /// Elements in a segment.
    const fn elements(self, segment: u64) -> u64 {
        if segment == 0 {
            1 << self.base
        } else if segment < self.small() {
            1 << (self.base as u64 + segment - 1)
        } else {
            1 << self.large
        }
    }

    /// The address of the pointer to a segment; 0 if the directory does not reach so far.
    #[inline(always)]
    fn slot<T: Tx + ?Sized>(self, tx: &mut T, segment: u64) -> Result<u64> {
        if segment < INLINE {
            return Ok(self.header + WORDS + segment * 8);
        }
        let more = tx.read_word(self.header + MORE)?;
        if segment < self.small() || more == 0 {
            return Ok(if more == 0 { 0 } else { more + (segment - INLINE) * 8 });
        }
        let (page, entry) = self.in_directory(segment)?;
        let root = tx.read_word(more + (MORE_WORDS - 1) * 8).map_err(Error::in_pool)?;
        let page =
            if root == 0 { 0 } else { tx.read_word(root + page * 8).map_err(Error::in_pool)? };
        Ok(if page == 0 { 0 } else { page + entry * 8 })
    }

    fn in_directory(self, segment: u64) -> Result<(u64, u64)> {
        let large = segment - self.small();
        if large >= FANOUT * FANOUT {
            return Err(Error::Invalid("a collection of more than 256 GiB"));
        }
        Ok((large / FANOUT, large % FANOUT))
    }

    /// The address of an element.
    ///
    /// # Errors
    /// `Corrupt` if it has no segment.
    #[inline(always)]
    pub(super) fn address<T: Tx + ?Sized>(self, tx: &mut T, index: u64) -> Result<u64> {
        let (segment, first) = self.locate(index);
        let slot = self.slot(tx, segment)?;
        let at = if slot == 0 { 0 } else { tx.read_word(slot).map_err(Error::in_pool)? };
        if at == 0 {
            return Err(Error::corrupt("a missing segment", self.header));
        }
        Ok(at + (index - first) * self.pitch)
    }

    /// Ensures that there is room for an element; all elements before it have theirs.
    pub(super) fn reserve<T: Tx + ?Sized>(self, tx: &mut T, index: u64) -> Result<()> {
        self.reserve_by(tx, index, |tx, len| tx.allocate(Purpose::General, len).map(Some)).map(drop)
    }

    /// As [`reserve`](Self::reserve), but returns false if there is no room at once, in one place.
    pub(super) fn reserve_now<T: Tx + ?Sized>(self, tx: &mut T, index: u64) -> Result<bool> {
        self.reserve_by(tx, index, |tx, len| tx.allocate_now(Purpose::General, len))
    }

    fn reserve_by<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        index: u64,
        allocate: impl FnOnce(&mut T, u64) -> Result<Option<Fresh>>,
    ) -> Result<bool> {
        let (segment, first) = self.locate(index);
        if index != first {
            return Ok(true);
        }
        let slot = match self.slot(tx, segment)? {
            0 => self.extend_directory(tx, segment)?,
            slot => slot,
        };
        if tx.read_word(slot)? == 0 {
            let Some(new) = allocate(tx, self.elements(segment) * self.pitch)? else {
                return Ok(false);
            };
            tx.write_word(slot, new.at())?;
        }
        Ok(true)
    }

    /// Extends the directory to a segment. Returns the address of the segment's pointer.
    fn extend_directory<T: Tx + ?Sized>(self, tx: &mut T, segment: u64) -> Result<u64> {
        let more = pointed_or_new(tx, self.header + MORE, MORE_WORDS)?;
        if segment < self.small() {
            return Ok(more + (segment - INLINE) * 8);
        }
        let (page, entry) = self.in_directory(segment)?;
        let root = pointed_or_new(tx, more + (MORE_WORDS - 1) * 8, FANOUT)?;
        let page = pointed_or_new(tx, root + page * 8, FANOUT)?;
        Ok(page + entry * 8)
    }

    /// Frees the segment that is no longer needed, if there is one, when the array shrinks to `len` elements from one
    /// more.
    pub(super) fn shrunk<T: Tx + ?Sized>(self, tx: &mut T, len: u64) -> Result<()> {
        let (segment, first) = self.locate(len);
        if len != first {
            return Ok(());
        }
        self.free_segment(tx, segment + 1)
    }

    /// Frees every segment that `len` elements do not need; the array had `old_len`.
    pub(super) fn free_from<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        old_len: u64,
        len: u64,
    ) -> Result<()> {
        let keep = if len == 0 { 0 } else { self.locate(len - 1).0 + 1 };
        let mut segment = self.locate(old_len).0 + 1;
        while segment >= keep {
            self.free_segment(tx, segment)?;
            if segment == 0 {
                break;
            }
            segment -= 1;
        }
        Ok(())
    }

    /// Frees a segment, and the parts of the directory that only it needed.
    fn free_segment<T: Tx + ?Sized>(self, tx: &mut T, segment: u64) -> Result<()> {
        let slot = self.slot(tx, segment)?;
        if slot == 0 {
            return Ok(());
        }
        free_pointed(tx, slot)?;
        if segment == INLINE {
            free_pointed(tx, self.header + MORE)?;
        }
        if segment < self.small() {
            return Ok(());
        }
        let (page, entry) = self.in_directory(segment)?;
        let more = tx.read_word(self.header + MORE)?;
        let root = more + (MORE_WORDS - 1) * 8;
        if entry == 0 {
            let page_slot = tx.read_word(root)? + page * 8;
            free_pointed(tx, page_slot)?;
        }
        if page == 0 && entry == 0 {
            free_pointed(tx, root)?;
        }
        Ok(())
    }

    /// Calls `each` with the address of the pointer to each segment of an array of `len` elements, and with the pointer.
    pub(super) fn each_segment<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        len: u64,
        each: &mut dyn FnMut(&mut T, u64, u64) -> Result<()>,
    ) -> Result<()> {
        let used = if len == 0 { 0 } else { self.locate(len - 1).0 + 1 };
        for segment in 0..=used {
            let slot = self.slot(tx, segment)?;
            let at = if slot == 0 { 0 } else { tx.read_word(slot).map_err(Error::in_pool)? };
            if at != 0 {
                each(tx, slot, at)?;
            }
        }
        Ok(())
    }

    /// Moves the directory out of pages that are to be emptied, and with `segments` the segments of an array of `len`
    /// elements too, up to one that is too large for the log.
    pub(super) fn compact<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        len: u64,
        segments: bool,
    ) -> Result<()> {
        let more = compact_pointed(tx, self.header + MORE)?;
        if more != 0 {
            let root = compact_pointed(tx, more + (MORE_WORDS - 1) * 8)?;
            for page in 0..if root == 0 { 0 } else { FANOUT } {
                compact_pointed(tx, root + page * 8)?;
            }
        }
        if !segments {
            return Ok(());
        }
        let before = tx.point();
        let moved =
            self.each_segment(tx, len, &mut |tx, slot, _| compact_pointed(tx, slot).map(drop));
        match moved {
            Err(Error::TooLarge { .. }) => tx.undo_to(before),
            moved => moved,
        }
    }

    /// Checks the directory of an array of `len` elements, and reports its blocks.
    pub(super) fn check<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        len: u64,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let used = if len == 0 { 0 } else { self.locate(len - 1).0 + 1 };
        for segment in 0..=used {
            let slot = self.slot(tx, segment)?;
            let at = if slot == 0 { 0 } else { tx.read_word(slot).map_err(Error::in_pool)? };
            if at == 0 && segment < used {
                return Err(Error::corrupt("a missing segment", self.header));
            }
            if at != 0 {
                if tx.usable(at).map_err(Error::in_pool)? < self.elements(segment) * self.pitch {
                    return Err(Error::corrupt("a segment that is too small", at));
                }
                visit(at)?;
            }
        }
        self.check_directory(tx, visit)
    }

    fn check_directory<T: Tx + ?Sized>(self, tx: &mut T, visit: &mut Visit<'_>) -> Result<()> {
        let more = tx.read_word(self.header + MORE)?;
        if more == 0 {
            return Ok(());
        }
        visit(more)?;
        let root = tx.read_word(more + (MORE_WORDS - 1) * 8).map_err(Error::in_pool)?;
        if root == 0 {
            return Ok(());
        }
        visit(root)?;
        for page in 0..FANOUT {
            let page = tx.read_word(root + page * 8).map_err(Error::in_pool)?;
            if page != 0 {
                visit(page)?;
            }
        }
        Ok(())
    }
}

/// The target of the pointer at `slot`; if that is null, a new block of `words` zeros.
fn pointed_or_new<T: Tx + ?Sized>(tx: &mut T, slot: u64, words: u64) -> Result<u64> {
    let at = tx.read_word(slot).map_err(Error::in_pool)?;
    if at != 0 {
        return Ok(at);
    }
    let new = tx.allocate(Purpose::General, words * 8)?;
    tx.write_fresh(new, 0, &[0; 4096][..words as usize * 8])?;
    tx.write_word(slot, new.at())?;
    Ok(new.at())
}

/// Moves the target of the pointer at `slot` out of a page that is to be emptied. Returns where it is; 0 if the pointer
/// is null.
fn compact_pointed<T: Tx + ?Sized>(tx: &mut T, slot: u64) -> Result<u64> {
    let at = tx.read_word(slot).map_err(Error::in_pool)?;
    if at == 0 {
        return Ok(0);
    }
    let moved = move_block(tx, at).map_err(Error::in_pool)?;
    if moved != at {
        tx.write_word(slot, moved)?;
    }
    Ok(moved)
}

/// Frees the target of the pointer at `slot`, and sets the pointer to null.
fn free_pointed<T: Tx + ?Sized>(tx: &mut T, slot: u64) -> Result<()> {
    let at = tx.read_word(slot).map_err(Error::in_pool)?;
    if at == 0 {
        return Ok(());
    }
    tx.free(at).map_err(Error::in_pool)?;
    tx.write_word(slot, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_in_one_segment() {
        for pitch in [1, 4, 8, 24, 40, 64, 128, 192, 4096, 1 << 20] {
            let segments = Segments::new(0, pitch);
            assert!(segments.small() < INLINE + MORE_WORDS, "pitch {pitch}");
            let mut first = 0;
            for segment in 0..segments.small() + 3 {
                let elements = segments.elements(segment);
                assert_eq!(segments.first(segment), first, "pitch {pitch}");
                for index in [first, first + elements - 1] {
                    assert_eq!(segments.locate(index), (segment, first), "pitch {pitch}");
                }
                assert!(elements * pitch <= LARGE.max(64), "pitch {pitch}");
                first += elements;
                assert_eq!(segments.without_last(first, 1), first - elements);
            }
            let last = segments.capacity() - 1;
            assert!(segments.in_directory(segments.locate(last).0).is_ok());
            assert!(segments.in_directory(segments.locate(last + 1).0).is_err());
        }
    }
}
