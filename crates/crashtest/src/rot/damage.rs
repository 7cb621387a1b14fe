//! The ways in which a medium damages its contents.

use super::sample::Sample;
use perdura::superblock::CATALOGUE;
use perdura_memory::PAGE;
use perdura_memory::random::SplitMix64;
use serde::Serialize;
use std::fmt;
use std::ops::Range;

const SECTOR: u64 = 512;
/// The maximum number of places tried for a damage that changes nothing so far.
const TRIES: u64 = 200;

/// A kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DamageKind {
    /// One bit is flipped.
    Flip,
    /// 512 bytes are zero.
    ZeroSector,
    /// 4,096 bytes are zero.
    ZeroPage,
    /// 512 bytes are replaced by those of another place.
    OtherSector,
    /// Two sectors have changed places.
    SwappedSectors,
    /// 512 bytes have the contents of some transactions ago: a lost write.
    OlderSector,
    /// 4,096 bytes have the contents of some transactions ago.
    OlderPage,
    /// 1 to 64 bytes are random.
    Random,
    /// The end of the file is gone.
    Truncated,
}

impl DamageKind {
    /// All of them.
    pub const ALL: [DamageKind; 9] = [
        DamageKind::Flip,
        DamageKind::ZeroSector,
        DamageKind::ZeroPage,
        DamageKind::OtherSector,
        DamageKind::SwappedSectors,
        DamageKind::OlderSector,
        DamageKind::OlderPage,
        DamageKind::Random,
        DamageKind::Truncated,
    ];
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DamageKind::Flip => "a flipped bit",
            DamageKind::ZeroSector => "a zeroed sector",
            DamageKind::ZeroPage => "a zeroed page",
            DamageKind::OtherSector => "a sector from elsewhere",
            DamageKind::SwappedSectors => "two sectors swapped",
            DamageKind::OlderSector => "an older sector",
            DamageKind::OlderPage => "an older page",
            DamageKind::Random => "random bytes",
            DamageKind::Truncated => "a truncated file",
        })
    }
}

/// A damaged copy, and a description; `None` if no place is found where the damage changes anything.
pub(super) fn damage(
    sample: &Sample,
    kind: DamageKind,
    random: &mut SplitMix64,
) -> Option<(Vec<u8>, String)> {
    let good = &sample.bytes;
    for _ in 0..TRIES {
        let (part, at) = place(sample, random);
        let (sector, page) = (at - at % SECTOR, at - at % PAGE);
        let (mut bytes, mut where_else) = (good.clone(), String::new());
        match kind {
            DamageKind::Flip => bytes[at as usize] ^= 1 << random.below(8),
            DamageKind::ZeroSector => bytes[span(sector, SECTOR)].fill(0),
            DamageKind::ZeroPage => bytes[span(page, PAGE)].fill(0),
            DamageKind::OtherSector | DamageKind::SwappedSectors => {
                let (other_part, other) = place(sample, random);
                let other = other - other % SECTOR;
                where_else = format!(", of {other:#x} in {other_part}");
                bytes.copy_within(span(other, SECTOR), sector as usize);
                if kind == DamageKind::SwappedSectors {
                    bytes[span(other, SECTOR)].copy_from_slice(&good[span(sector, SECTOR)]);
                }
            }
            DamageKind::OlderSector => make_older(&mut bytes, &sample.older, sector, SECTOR),
            DamageKind::OlderPage => make_older(&mut bytes, &sample.older, page, PAGE),
            DamageKind::Random => {
                let end = (at + 1 + random.below(64)).min(good.len() as u64);
                bytes[at as usize..end as usize].fill_with(|| random.next() as u8);
            }
            DamageKind::Truncated => bytes.truncate(at as usize),
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

/// A part of the pool, each with equal probability, and a byte in it: in use in three of four cases.
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
        // Listed twice: it is the largest part.
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
