//! Log records: what one transaction stores (redo) or the values before it (undo).
//!
//! A record is a run of whole lines, in words:
//!
//! | word | holds |
//! |---|---|
//! | 0 | check: a 64-bit hash of the words that follow, keyed by the area's salt and the record's place |
//! | 1 | ticket of the transaction, from 1 |
//! | 2 | words in use (20 bits), how far behind it was durable (12), part number (16), number of parts (16) |
//! | 3.. | for each line: `zeros << 56 or line number << 8 or mask`, then the masked words that are not among the zeros; or for a word: `word number << 8`, then the word |
//!
//! A durable record that is damaged later looks like one that was never complete. So each record says how far behind
//! its ticket everything was durable when it was written: later records prove that earlier ones existed.
//!
//! The entry of the line `NOTES` has words that are stored nowhere: notes, of logs whose records say more about
//! themselves.
//!
//! Words that hold 0 are not stored but marked in `zeros`: typically fields and slots that were unused before.
//!
//! There is no commit record: a record is whole exactly when its check is right, so that one fence makes it count. A
//! transaction that needs more than one run of lines writes several parts with the same ticket, and counts when all of
//! them are whole.

use crate::planted::{self, Bug};
use crate::writes::{HEADER_WORDS, LineWrite, number_and_mask};
use crate::{Error, Result};
use perdura_memory::{LINE, Memory, WORD};
use std::ops::Range;

const LINE_WORDS: usize = (LINE / 8) as usize;
/// Words of the largest entry.
const ENTRY_WORDS: usize = 1 + LINE_WORDS;
/// Lines that a record can name.
const LINES: u64 = 1 << 48;
/// The line, beyond every memory, whose words are notes.
pub(crate) const NOTES: u64 = (LINES - 1) * LINE;
/// The first bit of an entry's zeros.
const ZEROS: u32 = 56;

/// Words of a record that stores `words` words in `lines` lines, padding to whole lines included, if none of them is 0;
/// fewer otherwise.
#[inline]
pub fn words_for(lines: usize, words: usize) -> usize {
    (HEADER_WORDS + lines + words).next_multiple_of(LINE_WORDS)
}

/// An upper bound of the words of a record of this many lines, and of the buffer in which it is encoded.
#[inline(always)]
pub(crate) const fn most_words_for(lines: usize) -> usize {
    HEADER_WORDS + lines * ENTRY_WORDS + LINE_WORDS
}

/// Words of a record of these lines, padding to whole lines included.
pub(crate) fn words_of<'a>(entries: impl Iterator<Item = &'a LineWrite>) -> usize {
    let stored = |entry: &LineWrite| {
        let there = |word: &usize| entry.mask & 1 << word != 0 && entry.words[*word] != 0;
        1 + (0..LINE_WORDS).filter(there).count()
    };
    let words: usize = entries.filter(|entry| entry.mask != 0).map(stored).sum();
    (HEADER_WORDS + words).next_multiple_of(LINE_WORDS)
}

/// Bits of the field for the words in use.
const USED_BITS: u32 = 20;
/// A distance of this many tickets or more is too large for a record to say how far behind it was durable.
const FAR: u64 = 1 << (32 - USED_BITS);

/// Which part of which transaction a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// The transaction.
    pub ticket: u64,
    /// From 0.
    pub part: u16,
    /// How many there are.
    pub parts: u16,
    /// The distance from the record's ticket back to the ticket up to which everything was durable when it was written;
    /// 0 if unknown.
    pub behind: u16,
}

/// The distance from `ticket` to `durable`, as a record stores it.
#[inline]
pub fn behind(ticket: u64, durable: u64) -> u16 {
    let behind = ticket.saturating_sub(durable);
    if behind < FAR { behind as u16 } else { 0 }
}

/// Encodes a record for the offset `at` into `out`, which grows as necessary; returns the record, padding to whole
/// lines included. `word_of` gives each masked word's value.
#[inline(always)]
pub fn encode<'a>(
    out: &'a mut Vec<u64>,
    salt: u64,
    at: u64,
    part: Part,
    entries: &[LineWrite],
    mut word_of: impl FnMut(&LineWrite, usize) -> u64,
) -> &'a [u64] {
    let most = most_words_for(entries.len());
    if out.len() < most {
        grow(out, most);
    }
    // From here on a slice: its place and length stay in registers.
    let out = &mut out[..most];
    let mut used = HEADER_WORDS;
    for entry in entries {
        if entry.mask == 0 {
            continue;
        }
        debug_assert!(entry.line / LINE < LINES, "a line number of 48 bits");
        let room = out[used..].first_chunk_mut().expect("room for every entry");
        used += encode_entry(room, entry, &mut word_of);
    }
    // Zeros a whole line, of which the record's padding is a part: a fixed size is faster.
    *out[used..].first_chunk_mut().expect("room for a line") = [0; LINE_WORDS];
    fill_header(out, used, (salt, at), part);
    &out[..used.next_multiple_of(LINE_WORDS)]
}

/// Fills in the header of a record, which has `used` words in use, for the offset `at`.
#[inline(always)]
pub(crate) fn fill_header(record: &mut [u64], used: usize, (salt, at): (u64, u64), part: Part) {
    debug_assert!(used < 1 << USED_BITS && u64::from(part.behind) < FAR, "they have their bits");
    record[1] = part.ticket;
    record[2] = used as u64
        | u64::from(part.behind) << USED_BITS
        | u64::from(part.part) << 32
        | u64::from(part.parts) << 48;
    record[0] = check(key(salt, at), record[..used.next_multiple_of(LINE_WORDS)].as_chunks().0);
}

#[cold]
fn grow(out: &mut Vec<u64>, most: usize) {
    out.resize(most, 0);
}

/// Encodes an entry at the start of `room`; returns how many words it takes.
#[inline(always)]
fn encode_entry(
    room: &mut [u64; ENTRY_WORDS],
    entry: &LineWrite,
    word_of: &mut impl FnMut(&LineWrite, usize) -> u64,
) -> usize {
    if !entry.mask.is_power_of_two() {
        return encode_words(room, entry, word_of);
    }
    let word = entry.mask.trailing_zeros() as usize;
    let value = word_of(entry, word);
    let zero = u64::from(value == 0);
    // Stored in any case, and kept unless it is 0: avoids a branch.
    (room[0], room[1]) = (zero << (ZEROS + word as u32) | head(entry), value);
    2 - zero as usize
}

/// The same for several words. Out of line, so that the loop over lines keeps its registers.
#[inline(never)]
fn encode_words(
    room: &mut [u64; ENTRY_WORDS],
    entry: &LineWrite,
    word_of: &mut impl FnMut(&LineWrite, usize) -> u64,
) -> usize {
    let (mut zeros, mut used, mut mask) = (0, 1, entry.mask);
    while mask != 0 {
        let word = mask.trailing_zeros() as usize % LINE_WORDS;
        mask &= mask - 1;
        let value = word_of(entry, word);
        room[used] = value;
        used += usize::from(value != 0);
        zeros |= u64::from(value == 0) << word;
    }
    room[0] = zeros << ZEROS | head(entry);
    used
}

/// The first word of an entry, if none of its words is 0.
#[inline(always)]
fn head(entry: &LineWrite) -> u64 {
    (entry.line / LINE) << 8 | u64::from(entry.mask)
}

/// What a record at `at` has for its check while that is computed. Records that are the same otherwise have different
/// checks in different places, and under different salts.
#[inline(always)]
fn key(salt: u64, at: u64) -> u64 {
    fold(salt ^ at, KEYS[3])
}

/// The check of a record in whole lines, with `key` as its first word: wyhash's multiplications, two rows of them at a
/// time.
#[inline(always)]
fn check(key: u64, lines: &[[u64; LINE_WORDS]]) -> u64 {
    let keys = [key ^ KEYS[0], key ^ KEYS[1]];
    let fold_line = |word: u64, line: &[u64; LINE_WORDS], (first, second): (u64, u64)| {
        let first = fold(word ^ keys[0], line[1] ^ first);
        let second = fold(line[2] ^ keys[1], line[3] ^ second);
        (fold(line[4] ^ keys[0], line[5] ^ first), fold(line[6] ^ keys[1], line[7] ^ second))
    };
    let Some((line, more)) = lines.split_first() else { return 0 };
    let mut rows = fold_line(key, line, (key, KEYS[2]));
    for line in more {
        rows = fold_line(line[0], line, rows);
    }
    let (first, second) = rows;
    // Never 0, so that zeroing word 0 always invalidates.
    fold(first ^ KEYS[2], second ^ key) | 1
}

/// Odd constants with as many ones as zeros: wyhash's.
const KEYS: [u64; 4] =
    [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

/// The halves of a product, exclusive or.
#[inline(always)]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> u64::BITS) as u64
}

/// A record found in a log.
#[derive(Clone, Debug)]
pub struct FoundRecord {
    /// The part that it is.
    pub part: Part,
    /// Its offset.
    pub at: u64,
    /// Its entries, still encoded.
    words: Vec<u64>,
}

/// Reads the record at `at`, if a whole one is there that ends before `end`. Returns it and the
/// offset after it.
pub fn read<M: Memory>(memory: &M, salt: u64, at: u64, end: u64) -> Option<(FoundRecord, u64)> {
    if end.saturating_sub(at) < LINE {
        return None;
    }
    let (ticket, shape) = (memory.load(at + 8), memory.load(at + 16));
    let used = shape % (1 << USED_BITS);
    let behind = (shape >> USED_BITS & (FAR - 1)) as u16;
    let (part, parts) = ((shape >> 32) as u16, (shape >> 48) as u16);
    if used < HEADER_WORDS as u64 || used > (end - at) / 8 || part >= parts {
        return None;
    }
    let used = used as usize;
    // Padding counts as zeros, whatever it is.
    let mut words = vec![0; used.next_multiple_of(LINE_WORDS)];
    memory.copy_out(at, bytemuck::cast_slice_mut(&mut words[..used]));
    let key = key(salt, at);
    let found = std::mem::replace(&mut words[0], key);
    let torn = found != check(key, words.as_chunks().0);
    if torn && !planted::has(Bug::TornRecordTaken) {
        return None;
    }
    let next = at + words.len() as u64 * WORD;
    words.truncate(used);
    words.drain(..HEADER_WORDS);
    Some((FoundRecord { part: Part { ticket, part, parts, behind }, at, words }, next))
}

/// Whether a record with a ticket up to `reach` after `ticket` may begin at `at`: a quick test with few false
/// positives.
#[inline]
pub(crate) fn may_be<M: Memory>(memory: &M, at: u64, ticket: u64, reach: u64) -> bool {
    let after = memory.load(at + 8).wrapping_sub(ticket);
    memory.load(at) & 1 != 0 && (1..reach).contains(&after)
}

impl FoundRecord {
    /// Its range, padding to whole lines included.
    pub fn range(&self) -> Range<u64> {
        let bytes = (HEADER_WORDS + self.words.len()) as u64 * 8;
        self.at..self.at + bytes.next_multiple_of(LINE)
    }

    /// The ticket up to which everything was durable when it was written, as far as it says.
    pub fn durable_before(&self) -> u64 {
        match self.part.behind {
            0 => 0,
            behind => self.part.ticket.saturating_sub(u64::from(behind)),
        }
    }

    /// Calls `word` with the offset and value of each word of the record, except notes.
    ///
    /// # Errors
    /// `Corrupt` where the entries are inconsistent, although the check is right.
    pub fn for_each_word(&self, mut word: impl FnMut(u64, u64) -> Result<()>) -> Result<()> {
        self.for_each(|at, value| if at < NOTES { word(at, value) } else { Ok(()) })
    }

    /// The record's notes.
    ///
    /// # Errors
    /// As [`for_each_word`](Self::for_each_word).
    pub(crate) fn notes(&self) -> Result<Vec<u64>> {
        let mut notes = Vec::new();
        self.for_each(|at, value| {
            if at >= NOTES {
                notes.push(value);
            }
            Ok(())
        })?;
        Ok(notes)
    }

    /// Calls `word` with the offset and value of each word.
    fn for_each(&self, mut word: impl FnMut(u64, u64) -> Result<()>) -> Result<()> {
        let mut rest = self.words.as_slice();
        while let Some((header, after)) = rest.split_first() {
            let ((number, mut mask), zeros) = (number_and_mask(*header), (header >> ZEROS) as u8);
            if mask == 0
                && zeros == 0
                && let Some((value, after)) = after.split_first()
            {
                word(number * WORD, *value)?;
                rest = after;
                continue;
            }
            let line = number * LINE;
            let stored = (mask & !zeros).count_ones() as usize;
            if mask == 0 || zeros & !mask != 0 || after.len() < stored {
                return Err(Error::corrupt("log record with an unfinished entry", self.at));
            }
            let (values, after) = after.split_at(stored);
            let mut values = values.iter();
            while mask != 0 {
                let at = line + u64::from(mask.trailing_zeros()) * 8;
                let zero = zeros & mask & mask.wrapping_neg() != 0;
                let value = if zero { 0 } else { *values.next().expect("as many as are stored") };
                word(at, value)?;
                mask &= mask - 1;
            }
            rest = after;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::Ram;

    fn entries() -> Vec<LineWrite> {
        vec![
            LineWrite { line: 640, mask: 0b1000_0001, words: [1, 0, 0, 0, 0, 0, 0, 8] },
            LineWrite { line: 64, mask: 0, words: [0; 8] },
            LineWrite { line: 1 << 40, mask: 0xFF, words: [9; 8] },
            LineWrite { line: 128, mask: 0b110, words: [5, 0, 0, 0, 0, 0, 0, 5] },
            LineWrite { line: 192, mask: 0xFF, words: [1, 0, 2, 3, 4, 5, 6, 7] },
        ]
    }

    #[test]
    fn reads_back_what_was_written_and_nothing_torn() {
        let part = Part { ticket: 7, part: 0, parts: 1, behind: 4095 };
        let (ram, mut room) = (Ram::new(4096), Vec::new());
        let words = encode(&mut room, 3, 128, part, &entries(), |entry, word| entry.words[word]);
        assert_eq!(words.len(), words_for(4, 17), "three words are zeros");
        assert_eq!(words.len(), words_of(entries().iter()));
        for (index, &word) in words.iter().enumerate() {
            ram.store(128 + index as u64 * 8, word);
        }
        let (found, next) = read(&ram, 3, 128, 4096).expect("a record");
        assert_eq!((found.part, next), (part, 128 + words.len() as u64 * 8));
        let mut seen = Vec::new();
        found
            .for_each_word(|at, value| {
                seen.push((at, value));
                Ok(())
            })
            .unwrap();
        let stored: Vec<(u64, u64)> = entries()
            .iter()
            .flat_map(|entry| (0..8).map(move |word| (word, entry)))
            .filter(|(word, entry)| entry.mask & 1 << word != 0)
            .map(|(word, entry)| (entry.line + word * 8, entry.words[word as usize]))
            .collect();
        assert_eq!(seen, stored);

        assert!(read(&ram, 4, 128, 4096).is_none(), "another salt");
        assert!(read(&ram, 3, 128, next - 64).is_none(), "beyond the end");
        for index in 0..14 {
            let at = 128 + index * 8;
            let old = ram.load(at);
            ram.store(at, old ^ 1 << 13);
            assert!(read(&ram, 3, 128, 4096).is_none(), "torn at word {index}");
            ram.store(at, old);
        }
    }
}
