//! The write-ahead log of an ordinary database file: which pages of the database are newer there.
//!
//! A frame counts if it and all before it have the log's salts and the right checksums; those after the last frame that
//! ends a transaction do not.

use std::collections::BTreeMap;

const HEADER: usize = 32;
const FRAME: usize = 24;

/// The pages that the log has, and the database's length in pages after its last transaction.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Wal {
    /// For each page, counted from 0, where its newest bytes are in the log.
    pub(crate) pages: BTreeMap<u64, usize>,
    /// Pages of the database; `None` if the log has no transaction.
    pub(crate) count: Option<u64>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Continues a checksum over bytes, whose number is a multiple of 8.
fn sum(little: bool, (mut a, mut b): (u32, u32), bytes: &[u8]) -> (u32, u32) {
    let word = |at: usize| match little {
        true => u32::swap_bytes(word(bytes, at)),
        false => word(bytes, at),
    };
    for at in (0..bytes.len()).step_by(8) {
        a = a.wrapping_add(word(at)).wrapping_add(b);
        b = b.wrapping_add(word(at + 4)).wrapping_add(a);
    }
    (a, b)
}

/// Reads the log of a database with pages of this size.
pub(crate) fn read(log: &[u8], page_size: usize) -> Wal {
    let mut wal = Wal::default();
    if log.len() < HEADER || ![0x377f_0682, 0x377f_0683].contains(&word(log, 0)) {
        return wal;
    }
    let little = word(log, 0) == 0x377f_0682;
    let mut sums = sum(little, (0, 0), &log[..24]);
    let logged_unit = match word(log, 8) {
        1 => 65536,
        other => other as usize,
    };
    if sums != (word(log, 24), word(log, 28)) || logged_unit != page_size {
        return wal;
    }
    let mut open = BTreeMap::new();
    let mut at = HEADER;
    while let Some(frame) = log.get(at..at + FRAME + page_size) {
        sums = sum(little, sums, &frame[..8]);
        sums = sum(little, sums, &frame[FRAME..]);
        let is_valid = frame[8..16] == log[16..24] && sums == (word(frame, 16), word(frame, 20));
        let page = word(frame, 0);
        if !is_valid || page == 0 {
            break;
        }
        open.insert(u64::from(page) - 1, at + FRAME);
        let count = word(frame, 4);
        if count != 0 {
            wal.pages.append(&mut open);
            wal.count = Some(count.into());
        }
        at += FRAME + page_size;
    }
    wal
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of frames, each with its page and the length after its transaction, or 0.
    fn log(frames: &[(u32, u32)]) -> Vec<u8> {
        let mut log = Vec::new();
        for word in [0x377f_0682, 3_007_000, 512, 0, 7, 8] {
            log.extend(u32::to_be_bytes(word));
        }
        let mut sums = sum(true, (0, 0), &log);
        log.extend([sums.0, sums.1].map(u32::to_be_bytes).concat());
        for (page, count) in frames {
            let head = [*page, *count].map(u32::to_be_bytes).concat();
            let data = [*page as u8; 512];
            sums = sum(true, sum(true, sums, &head), &data);
            log.extend(&head);
            log.extend([7, 8, sums.0, sums.1].map(u32::to_be_bytes).concat());
            log.extend(data);
        }
        log
    }

    #[test]
    fn frames_count_up_to_the_last_whole_transaction() {
        let whole = log(&[(1, 0), (2, 2), (1, 3), (3, 0)]);
        let wal = read(&whole, 512);
        assert_eq!(wal.count, Some(3));
        let at = |frame: usize| HEADER + frame * (FRAME + 512) + FRAME;
        assert_eq!(wal.pages, BTreeMap::from([(0, at(2)), (1, at(1))]));
        // A torn third frame ends the log after the second.
        let mut torn = whole.clone();
        torn[at(2) + 5] ^= 1;
        let wal = read(&torn, 512);
        assert_eq!((wal.count, wal.pages.get(&0)), (Some(2), Some(&at(0))));
        assert_eq!(read(&whole, 1024), Wal::default());
        assert_eq!(read(&whole[..20], 512), Wal::default());
    }
}
