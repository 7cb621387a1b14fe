//! Where logs live: an area of equal segments behind one header page.
//!
//! ```text
//! page 0, line 0   header: magic, engine, segment bytes, segment count, check
//!         line 1,2 checkpoint slots, written in turn: sequence, ticket, salt, check
//!         line 3   commit record, of engines that have one: ticket, parts, check
//! page 1 ...       segments
//! a page           what has been acknowledged, of pools whose pages have checksums
//! the end          checksums, of engines that have any (groups::deferred)
//! ```
//!
//! A session takes a segment, fills it with records and takes the next; the owner of a segment is not recorded, since
//! every record carries its transaction's ticket. What always holds:
//! - records of tickets up to the checkpoint are dead, in whatever segment;
//! - records with another salt than the checkpoint's are dead: recovery ends with a new salt, so that a record which it
//!   did not see, or discarded, cannot be taken up by a later recovery;
//! - a segment is taken again only when all its records are dead;
//! - records that were durable are alive or dead as the checkpoint says: if a later record, or the note of what has been
//!   acknowledged, shows that a record was durable, its absence (or its not being void) is damage, not the effect of a
//!   crash.

use super::record::{self, FoundRecord};
use crate::{Error, Result};
use perdura_memory::keyed::mix::mix;
use perdura_memory::{LINE, Memory, PAGE, line_of};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const MAGIC: u64 = u64::from_le_bytes(*b"PERDLOG1");
/// How far beyond a checkpoint's ticket a commit's may be.
const COUNTED: u64 = 1 << 32;
/// The version of the checksums' layout, where there are any.
const CHECKSUM_LAYOUT: u64 = 3;
const LARGEST_SEGMENT: u64 = 1 << 20;
/// The smallest area that [`Geometry::format`] accepts, in bytes.
pub const SMALLEST: u64 = PAGE * 18;

/// The fixed properties of an area, as stored in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Offset of the area.
    pub start: u64,
    /// Bytes in a segment.
    pub segment_bytes: u64,
    /// Number of segments.
    pub segments: u32,
    /// Offset of the checksums, behind the segments, and their bytes: 0 if there are none.
    pub checksums: (u64, u64),
}

/// The contents of a checkpoint slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Checkpoint {
    /// Counts checkpoints; the slot with the higher number is valid.
    pub sequence: u64,
    /// Everything up to this ticket is durable in place.
    pub ticket: u64,
    /// Seed of the checks of the valid records.
    pub salt: u64,
}

impl Geometry {
    /// Bytes of the segment with this number.
    pub fn segment(&self, index: u32) -> Range<u64> {
        let start = self.start + PAGE + u64::from(index) * self.segment_bytes;
        start..start + self.segment_bytes
    }

    /// Writes an empty log for `engine` into `area`, durably; the last `checksums` bytes are for checksums, or half of
    /// the area if there is less room: another engine had the area.
    ///
    /// # Panics
    /// When the area is smaller than [`SMALLEST`] or reaches beyond the memory.
    pub fn format<M: Memory>(memory: &M, area: Range<u64>, engine: &str, checksums: u64) {
        let len = area.end - area.start;
        assert!(len >= SMALLEST, "a log area of {len} bytes is too small");
        let most = len - SMALLEST;
        let checksums = line_of(if checksums <= most { checksums } else { most.min(len / 2) });
        let len = len - checksums;
        let wanted = ((len - 2 * PAGE) / 64).max(PAGE);
        let segment_bytes = (1 << wanted.ilog2()).min(LARGEST_SEGMENT);
        let segments = ((len - 2 * PAGE) / segment_bytes).min(u64::from(u16::MAX));
        let layout = checksum_layout(checksums);
        let mut header =
            [MAGIC, engine_tag(engine), segment_bytes, segments, checksums, layout, 0, 0];
        header[7] = check(&header[..7]);
        // Records of an earlier life of this area must not be taken for ours.
        let salt = new_salt(memory, memory.load(slot_at(area.start, 0) + 16));
        for (index, word) in header.into_iter().enumerate() {
            memory.store(area.start + index as u64 * 8, word);
        }
        for slot in 0..2 {
            let words = slot_words(Checkpoint { sequence: slot, ticket: 0, salt });
            store_slot(memory, slot_at(area.start, slot), words);
        }
        memory.write_back(area.start, 3 * LINE);
        memory.fence();
    }

    /// Reads the header of `area`.
    ///
    /// # Errors
    /// `Corrupt` if it is not a log of `engine`, or not a possible one.
    pub fn read<M: Memory>(memory: &M, area: Range<u64>, engine: &str) -> Result<Self> {
        let start = area.start;
        let bad = |what| Err(Error::corrupt(what, start));
        if !memory.contains(start, area.end - start) || area.end - start < SMALLEST {
            return bad("log area beyond the end of the pool");
        }
        let header: [u64; 8] = std::array::from_fn(|word| memory.load(start + word as u64 * 8));
        if header[0] != MAGIC || header[7] != check(&header[..7]) {
            return bad("log header with a wrong check");
        }
        if header[1] != engine_tag(engine) {
            return bad("log of another engine than the pool's header says");
        }
        let (segment_bytes, segments, checksums) = (header[2], header[3], header[4]);
        if header[5] != checksum_layout(checksums) {
            return bad("checksums of another layout: open the pool with the version that made it");
        }
        let room = area.end - start - 2 * PAGE;
        let fits = checksums <= room
            && checksums.is_multiple_of(LINE)
            && segment_bytes.is_multiple_of(LINE)
            && segment_bytes >= PAGE
            && segments > 0
            && segments <= u64::from(u16::MAX)
            && segments.checked_mul(segment_bytes).is_some_and(|bytes| bytes <= room - checksums);
        if !fits {
            return bad("log header with impossible segments");
        }
        let checksums = (area.end - checksums, checksums);
        Ok(Geometry { start, segment_bytes, segments: segments as u32, checksums })
    }

    /// The valid checkpoint.
    ///
    /// # Errors
    /// `Corrupt` if neither slot is whole: at most one is written at a time; or for counts that cannot have been
    /// reached.
    pub fn checkpoint<M: Memory>(&self, memory: &M) -> Result<Checkpoint> {
        let best = newest_checkpoint(memory, self.start)
            .ok_or(Error::corrupt("log without a whole checkpoint", self.start))?;
        if best.sequence.max(best.ticket) > u64::MAX / 2 {
            return Err(Error::corrupt("checkpoint that cannot be", self.start));
        }
        Ok(best)
    }

    /// Notes that everything up to `ticket` has been acknowledged: one word, whose durability is not urgent, in another
    /// page than the checkpoints. Ticket 0 says nothing.
    #[inline]
    pub fn acknowledge<M: Memory>(&self, memory: &M, salt: u64, ticket: u64) {
        let word = if ticket == 0 { 0 } else { acknowledged_word(salt, ticket) };
        memory.store(self.segment(self.segments).start, word);
    }

    /// The last ticket noted as acknowledged, if after the checkpoint, and where that is noted.
    fn acknowledged<M: Memory>(&self, memory: &M, checkpoint: Checkpoint) -> KnownDurable {
        let Checkpoint { ticket, salt, .. } = checkpoint;
        let at = self.segment(self.segments).start;
        let word = memory.load(at);
        let after = u64::from(((word >> 32) as u32).wrapping_sub(ticket as u32));
        let ticket = ticket.saturating_add(after);
        (if word == acknowledged_word(salt, ticket) { ticket } else { 0 }, at)
    }

    /// Durably replaces the checkpoint; the previous one stays whole meanwhile.
    #[track_caller]
    pub fn set_checkpoint<M: Memory>(&self, memory: &M, checkpoint: Checkpoint) {
        let at = slot_at(self.start, checkpoint.sequence % 2);
        store_slot(memory, at, slot_words(checkpoint));
        memory.write_back(at, 32);
        memory.fence();
    }

    /// Stores the commit record of the transaction with this ticket, and asks for it to become durable: the
    /// transaction's record, of `parts` parts, is durable already.
    #[inline]
    #[track_caller]
    pub fn store_commit<M: Memory>(&self, memory: &M, salt: u64, ticket: u64, parts: u16) {
        let at = commit_at(self.start);
        for (index, word) in commit_words(salt, ticket, parts).into_iter().enumerate() {
            memory.store(at + index as u64 * 8, word);
        }
        memory.write_back(at, LINE);
    }

    /// The ticket and number of parts of the commit record, if there is one.
    pub fn commit<M: Memory>(&self, memory: &M, salt: u64) -> Option<(u64, u16)> {
        let at = commit_at(self.start);
        let words: [u64; 3] = std::array::from_fn(|word| memory.load(at + word as u64 * 8));
        let (ticket, parts) = (words[0], words[1] as u16);
        (words == commit_words(salt, ticket, parts)).then_some((ticket, parts))
    }

    /// Asks for the header, the checkpoint slots and the commit record to become durable, as they are.
    #[track_caller]
    pub(crate) fn write_back_front<M: Memory>(&self, memory: &M) {
        memory.write_back(self.start, commit_at(LINE));
    }

    /// Every whole record in the area, in the order of tickets and parts.
    pub fn records<M: Memory>(&self, memory: &M, salt: u64) -> Vec<FoundRecord> {
        let mut found = Vec::new();
        for index in 0..self.segments {
            self.records_in(memory, salt, index, &mut found);
        }
        found.sort_by_key(|record| record.part);
        found
    }

    /// The whole records of a segment up to the first invalid one, and that one's offset.
    fn records_in<M: Memory>(
        &self,
        memory: &M,
        salt: u64,
        index: u32,
        found: &mut Vec<FoundRecord>,
    ) -> u64 {
        let segment = self.segment(index);
        let mut at = segment.start;
        while let Some((record, next)) = record::read(memory, salt, at, segment.end) {
            found.push(record);
            at = next;
        }
        at
    }

    /// As [`records`](Self::records), together with the last ticket known to have been durable: from the records
    /// themselves, from records behind an incomplete one, from what has been acknowledged.
    pub fn records_and_known_durable<M: Memory>(
        &self,
        memory: &M,
        checkpoint: Checkpoint,
    ) -> (Vec<FoundRecord>, KnownDurable) {
        let (found, behind) = self.records_with_gaps(memory, checkpoint, COUNTED);
        let records = found.iter().chain(&behind);
        let known_durable = records.map(|record| (record.durable_before(), record.at));
        let known_durable = known_durable.fold(self.acknowledged(memory, checkpoint), Ord::max);
        (found, known_durable)
    }

    /// As [`records`](Self::records), and where a valid record lies behind an incomplete one, if any does.
    pub(crate) fn records_and_behind_gaps<M: Memory>(
        &self,
        memory: &M,
        checkpoint: Checkpoint,
    ) -> (Vec<FoundRecord>, Option<u64>) {
        let (found, behind) = self.records_with_gaps(memory, checkpoint, u64::MAX / 2);
        let counts = behind.iter().find(|record| record.part.ticket > checkpoint.ticket);
        (found, counts.map(|record| record.at))
    }

    /// The records in the order of tickets and parts, and those behind an incomplete one, with tickets up to `reach`
    /// after the checkpoint's.
    pub(crate) fn records_with_gaps<M: Memory>(
        &self,
        memory: &M,
        checkpoint: Checkpoint,
        reach: u64,
    ) -> (Vec<FoundRecord>, Vec<FoundRecord>) {
        let (mut found, mut behind) = (Vec::new(), Vec::new());
        for index in 0..self.segments {
            let end = self.segment(index).end;
            let gap = self.records_in(memory, checkpoint.salt, index, &mut found);
            for at in (gap..end).step_by(LINE as usize) {
                if record::may_be(memory, at, checkpoint.ticket, reach)
                    && let Some((record, _)) = record::read(memory, checkpoint.salt, at, end)
                {
                    behind.push(record);
                }
            }
        }
        found.sort_by_key(|record| record.part);
        (found, behind)
    }
}

/// The last ticket known to have been durable, and where that is noted.
pub type KnownDurable = (u64, u64);

/// The two checkpoints in the log at `start`, if whole.
fn checkpoints<M: Memory + ?Sized>(memory: &M, start: u64) -> [Option<Checkpoint>; 2] {
    [0, 1].map(|slot| {
        let at = slot_at(start, slot);
        let words: [u64; 4] = std::array::from_fn(|word| memory.load(at + word as u64 * 8));
        let [sequence, ticket, salt, _] = words;
        let checkpoint = Checkpoint { sequence, ticket, salt };
        (words == slot_words(checkpoint) && sequence % 2 == slot).then_some(checkpoint)
    })
}

/// The valid checkpoint in the log at `start`, if there is one.
fn newest_checkpoint<M: Memory + ?Sized>(memory: &M, start: u64) -> Option<Checkpoint> {
    checkpoints(memory, start).into_iter().max().flatten()
}

/// Whether both checkpoints of the log at `start` are whole and have one salt: formatting was completed.
pub fn is_formatted<M: Memory + ?Sized>(memory: &M, start: u64) -> bool {
    let [first, second] = checkpoints(memory, start);
    first.zip(second).is_some_and(|(first, second)| first.salt == second.salt)
}

/// Sequence number of the valid checkpoint in the log at `start`; 0 if there is none. In a log that is in use it only
/// grows.
pub fn newest_sequence<M: Memory + ?Sized>(memory: &M, start: u64) -> u64 {
    newest_checkpoint(memory, start).map_or(0, |checkpoint| checkpoint.sequence)
}

/// A ticket's lower half, and a check of all of it.
#[inline]
fn acknowledged_word(salt: u64, ticket: u64) -> u64 {
    ticket << 32 | mix(ticket ^ salt) >> 32
}

fn slot_at(start: u64, slot: u64) -> u64 {
    start + (1 + slot) * LINE
}

fn slot_words(checkpoint: Checkpoint) -> [u64; 4] {
    let Checkpoint { sequence, ticket, salt } = checkpoint;
    [sequence, ticket, salt, check(&[sequence, ticket, salt])]
}

fn store_slot<M: Memory>(memory: &M, at: u64, words: [u64; 4]) {
    for (index, word) in words.into_iter().enumerate() {
        memory.store(at + index as u64 * 8, word);
    }
}

fn commit_at(start: u64) -> u64 {
    start + 3 * LINE
}

fn commit_words(salt: u64, ticket: u64, parts: u16) -> [u64; 3] {
    let parts = u64::from(parts);
    [ticket, parts, check(&[ticket, parts, salt])]
}

/// A salt that no record in the area has been written with.
pub fn new_salt<M: Memory>(memory: &M, old: u64) -> u64 {
    xxh3_64_with_seed(&memory.now().to_le_bytes(), old)
}

/// The header's word for the layout of this many bytes of checksums.
fn checksum_layout(bytes: u64) -> u64 {
    if bytes > 0 { CHECKSUM_LAYOUT } else { 0 }
}

fn engine_tag(engine: &str) -> u64 {
    xxh3_64_with_seed(engine.as_bytes(), MAGIC)
}

fn check(words: &[u64]) -> u64 {
    xxh3_64_with_seed(bytemuck::cast_slice(words), MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::Ram;

    #[test]
    fn header_and_checkpoint_survive_and_damage_is_seen() {
        let ram = Ram::new(1 << 20);
        let area = 8192..1 << 20;
        Geometry::format(&ram, area.clone(), "redo", 0);
        let geometry = Geometry::read(&ram, area.clone(), "redo").unwrap();
        assert_eq!(geometry.segment_bytes, 8192);
        let first = geometry.checkpoint(&ram).unwrap();
        assert_eq!(first.ticket, 0);
        let second = Checkpoint { sequence: 2, ticket: 5, salt: 1 };
        let third = Checkpoint { sequence: 3, ticket: 6, salt: 1 };
        geometry.set_checkpoint(&ram, second);
        geometry.set_checkpoint(&ram, third);
        assert_eq!(geometry.checkpoint(&ram).unwrap(), third);
        ram.store(slot_at(area.start, 1), 99);
        assert_eq!(geometry.checkpoint(&ram).unwrap(), second);
        ram.store(slot_at(area.start, 0), 99);
        assert!(geometry.checkpoint(&ram).is_err());
        assert!(Geometry::read(&ram, area.clone(), "undo").is_err());
        ram.store(area.start + 16, 64);
        assert!(Geometry::read(&ram, area, "redo").is_err());
    }

    #[test]
    fn formatting_again_voids_old_records() {
        let ram = Ram::new(1 << 20);
        Geometry::format(&ram, 0..1 << 20, "redo", 0);
        let geometry = Geometry::read(&ram, 0..1 << 20, "redo").unwrap();
        let first = geometry.checkpoint(&ram).unwrap();
        Geometry::format(&ram, 0..1 << 20, "redo", 0);
        assert_ne!(first.salt, geometry.checkpoint(&ram).unwrap().salt);
    }
}
