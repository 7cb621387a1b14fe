//! The ways in which a medium damages what it holds.

use super::sample::Sample;
use perdura::superblock::CATALOGUE;
use perdura_memory::PAGE;
use perdura_memory::random::SplitMix64;
use serde::Serialize;
use std::fmt;
use std::ops::Range;

const SECTOR: u64 = 512;
/// Places that are tried before a damage is given up that changes nothing.
const TRIES: u64 = 200;

/// A way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One bit is another.
    Flip,
    /// 512 bytes are zero.
    ZeroSector,
    /// 4,096 bytes are zero.
    ZeroPage,
    /// 512 bytes are those of another place.
    OtherSector,
    /// Two sectors have changed places.
    SwappedSectors,
    /// 512 bytes are what they were some transactions ago: a write that was lost.
    OlderSector,
    /// The same of 4,096 bytes.
    OlderPage,
    /// 1 to 64 bytes are random.
    Random,
    /// The end of the file is gone.
    Truncated,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 9] = [
        Kind::Flip,
        Kind::ZeroSector,
        Kind::ZeroPage,
        Kind::OtherSector,
        Kind::SwappedSectors,
        Kind::OlderSector,
        Kind::OlderPage,
        Kind::Random,
        Kind::Truncated,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Flip => "a flipped bit",
            Kind::ZeroSector => "a zeroed sector",
            Kind::ZeroPage => "a zeroed page",
            Kind::OtherSector => "a sector from elsewhere",
            Kind::SwappedSectors => "two sectors swapped",
            Kind::OlderSector => "an older sector",
            Kind::OlderPage => "an older page",
            Kind::Random => "random bytes",
            Kind::Truncated => "a truncated file",
        })
    }
}

/// A damaged copy, and what was done to it; `None` if no place is found where that changes anything.
pub(super) fn damage(
    sample: &Sample,
    kind: Kind,
    random: &mut SplitMix64,
) -> Option<(Vec<u8>, String)> {
    let good = &sample.bytes;
    for _ in 0..TRIES {
        let (part, at) = place(sample, random);
        let (sector, page) = (at - at % SECTOR, at - at % PAGE);
        let (mut bytes, mut where_else) = (good.clone(), String::new());
        match kind {
            Kind::Flip => bytes[at as usize] ^= 1 << random.below(8),
            Kind::ZeroSector => bytes[span(sector, SECTOR)].fill(0),
            Kind::ZeroPage => bytes[span(page, PAGE)].fill(0),
            Kind::OtherSector | Kind::SwappedSectors => {
                let (other_part, other) = place(sample, random);
                let other = other - other % SECTOR;
                where_else = format!(", of {other:#x} in {other_part}");
                bytes.copy_within(span(other, SECTOR), sector as usize);
                if kind == Kind::SwappedSectors {
                    bytes[span(other, SECTOR)].copy_from_slice(&good[span(sector, SECTOR)]);
                }
            }
            Kind::OlderSector => make_older(&mut bytes, &sample.older, sector, SECTOR),
            Kind::OlderPage => make_older(&mut bytes, &sample.older, page, PAGE),
            Kind::Random => {
                let end = (at + 1 + random.below(64)).min(good.len() as u64);
                bytes[at as usize..end as usize].fill_with(|| random.next() as u8);
            }
            Kind::Truncated => bytes.truncate(at as usize),
        }
        if bytes != *good {
            return Some((bytes, format!("{kind} at {at:#x} in {part}{where_else}")));
        }
    }
    None
}

fn span(at: u64, len: u64) -> Range<usize> {
    at as usize..(at + len) as usize
}

fn make_older(bytes: &mut [u8], older: &[u8], at: u64, len: u64) {
    match older.get(span(at, len)) {
        Some(older) => bytes[span(at, len)].copy_from_slice(older),
        // The file was shorter.
        None => bytes[span(at, len)].fill(0),
    }
}

/// A part of the pool, each as often as the others, and a byte in it: three times of four one that is
/// in use.
fn place(sample: &Sample, random: &mut SplitMix64) -> (&'static str, u64) {
    let Sample { bytes, superblock, .. } = sample;
    let (log, layout) = (superblock.log.clone(), superblock.layout);
    let parts = [
        ("the header", 0..2 * PAGE),
        ("the named roots' page", CATALOGUE..CATALOGUE + PAGE),
        ("the log's header", log.start..log.start + PAGE),
        ("the log", log.start + PAGE..log.end),
        ("the page table", layout.table..superblock.sums),
        ("the checksums", superblock.sums..layout.pages),
        ("the objects", layout.pages..bytes.len() as u64),
        // As often again: it is what there is most of.
        ("the objects", layout.pages..bytes.len() as u64),
        ("the file", 0..bytes.len() as u64),
    ];
    let (name, part) = parts[random.below(parts.len() as u64) as usize].clone();
    let any = |random: &mut SplitMix64| part.start + random.below(part.end - part.start);
    let used = |at: &u64| {
        let line = (at - at % 64) as usize;
        bytes[line..line + 64].iter().any(|byte| *byte != 0)
    };
    let in_use = random.below(4) != 0;
    let tried = (0..TRIES).map(|_| any(random)).find(|at| !in_use || used(at));
    (name, tried.unwrap_or_else(|| any(random)))
}
