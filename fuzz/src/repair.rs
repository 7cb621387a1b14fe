//! Corrects the checksums of a pool, as in docs/pool-format.md: so that code behind them is reached by bytes that no
//! crash leaves.

use perdura_memory::{LINE, Memory, PAGE};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The most records that are corrected in a segment.
const MOST_RECORDS: usize = 1000;

fn hash(words: &[u64], seed: u64) -> u64 {
    xxh3_64_with_seed(bytemuck::cast_slice(words), seed)
}

fn words<M: Memory>(memory: &M, at: u64, count: u64) -> Option<Vec<u64>> {
    (0..count).map(|word| memory.try_load(at.checked_add(word * 8)?)).collect()
}

fn set<M: Memory>(memory: &M, at: u64, word: u64) {
    if memory.contains(at, 8) {
        memory.store(at, word);
    }
}

/// Both copies of a pool's header.
pub fn header<M: Memory>(memory: &M) {
    for at in [0, PAGE] {
        if let Some(words) = words(memory, at, 31) {
            set(memory, at + 31 * 8, hash(&words, words[0]));
        }
    }
}

/// A log's header, checkpoints, commit record, and the records in its segments.
pub fn log<M: Memory>(memory: &M, area: Range<u64>) {
    let Some(header) = words(memory, area.start, 32) else { return };
    let magic = header[0];
    set(memory, area.start + 7 * 8, hash(&header[..7], magic));
    for slot in [8, 16] {
        set(memory, area.start + slot * 8 + 24, hash(&header[slot as usize..][..3], magic));
    }
    // The slot with the higher number is valid.
    let salt = if header[8] > header[16] { header[10] } else { header[18] };
    let commit = [header[24], header[25], salt];
    set(memory, area.start + 26 * 8, hash(&commit, magic));
    let (segment_bytes, segments) = (header[2], header[3].min(u64::from(u16::MAX)));
    for index in 0..segments {
        let start =
            segment_bytes.checked_mul(index).and_then(|at| at.checked_add(area.start + PAGE));
        let Some(start) = start.filter(|start| start.is_multiple_of(LINE) && *start < area.end)
        else {
            return;
        };
        records(memory, salt, start..start.saturating_add(segment_bytes).min(area.end));
    }
}

/// The records of a segment, as long as each begins where the one before it ends.
pub fn records<M: Memory>(memory: &M, salt: u64, segment: Range<u64>) {
    let mut at = segment.start;
    for _ in 0..MOST_RECORDS {
        let Some(shape) = memory.try_load(at + 16) else { return };
        let used = shape & 0xFFFF_FFFF;
        if used < 3 || at + used * 8 > segment.end {
            return;
        }
        let Some(words) = words(memory, at + 8, used - 1) else { return };
        set(memory, at, hash(&words, salt ^ at) | 1);
        at += (used * 8).next_multiple_of(LINE);
    }
}
