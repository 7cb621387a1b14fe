//! The pool's header: its format, where its parts are, and how it was left.
//!
//! It has two copies, at the beginnings of pages 0 and 1, written in turn; the intact one with the higher sequence
//! number is valid. If the other one is damaged, it may have been the newer: then a pool whose header says that it was
//! closed is treated as not closed. docs/pool-format.md has the whole format.

use crate::alloc::Layout;
use crate::alloc::layout::ENTRY;
use crate::alloc::space::Space;
use crate::error::OpenError;
use perdura_engine::sums::{self, Places};
use perdura_engine::{EngineKind, Sums, area};
use perdura_memory::{Memory, PAGE, Survives};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const MAGIC: u64 = u64::from_le_bytes(*b"PERDURA\0");
/// Version of the format that this code reads and writes.
pub const VERSION: u64 = 7;
const WORDS: usize = 32;
/// Offset of the head of the list of named roots.
pub const CATALOGUE: u64 = 2 * PAGE;
const LOG: u64 = 3 * PAGE;
/// The flag of a pool whose object pages have checksums.
const CHECKSUMS: u64 = 1;
/// The smallest pool, in bytes.
pub const SMALLEST: u64 = 1 << 20;

/// How a pool was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u64)]
pub enum State {
    /// Closed: its log is empty.
    Closed = 1,
    /// In use, or crashed while it was.
    Open = 2,
    /// Its log is to be formatted; it was closed before.
    Formatting = 3,
}

/// The header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Sequence number: headers written so far.
    pub sequence: u64,
    /// How the pool was left.
    pub state: State,
    /// Identifies the pool; a copy has the same.
    pub id: u64,
    /// Name of the engine that wrote it.
    pub engine: String,
    /// The failures that transactions on it must outlive, at least.
    pub requires: Survives,
    /// Where the log is.
    pub log: Range<u64>,
    /// Where the pages are.
    pub layout: Layout,
    /// Limit to which it grows, in bytes, unless opened with another one.
    pub limit: u64,
    /// Where the checksums of pages begin.
    pub sums: u64,
    /// Whether the pages of objects have checksums.
    pub checksums: bool,
    /// Sequence number of the log's checkpoint when the header was written.
    pub checkpoint: u64,
}

impl Superblock {
    /// The header of a new pool of at most `limit` bytes, with a log area of `log` bytes, and with `checksums` of all
    /// its pages or only of the page table and the named roots.
    pub fn new(
        limit: u64,
        log: u64,
        id: u64,
        engine: &str,
        requires: Survives,
        checksums: bool,
    ) -> Self {
        let log = LOG..LOG + log.max(area::SMALLEST).next_multiple_of(PAGE);
        // The page table has room for a larger limit at a later opening.
        let capacity = limit * 4 / PAGE;
        let table = log.end;
        let sums = (table + capacity * ENTRY).next_multiple_of(PAGE);
        let pages = sums + sums_bytes(capacity, checksums);
        Superblock {
            sequence: 0,
            state: State::Formatting,
            id,
            engine: engine.to_owned(),
            requires,
            log,
            layout: Layout { table, capacity, pages },
            limit,
            sums,
            checksums,
            checkpoint: 0,
        }
    }

    /// Which pages have a checksum, and where it is.
    pub const fn places(&self) -> Places {
        let Layout { table, capacity, pages } = self.layout;
        let end = if self.checksums { pages + capacity * PAGE } else { pages };
        Places { catalogue: CATALOGUE, table, sums: self.sums, pages, end }
    }

    /// The default log of a pool of `limit` bytes: an eighth, at most 64 MiB.
    pub fn default_log(limit: u64) -> u64 {
        (limit / 8).min(64 << 20)
    }

    /// Bytes of a pool that has no pages yet.
    pub fn smallest_len(&self) -> u64 {
        self.layout.pages
    }

    /// Whole pages of the page table that have only entries of pages from this one on.
    pub fn spare_table(&self, pages: u64) -> Option<Range<u64>> {
        let spare = self.layout.entry(pages).next_multiple_of(PAGE)..self.sums / PAGE * PAGE;
        (spare.start < spare.end).then_some(spare)
    }

    /// Writes the header over the older of the two copies, durably. The log is at rest.
    ///
    /// # Panics
    /// When the memory is too small to be a pool, or the engine's name too long.
    #[track_caller]
    pub fn write<M: Memory + ?Sized>(&mut self, memory: &M) {
        self.sequence += 1;
        self.checkpoint = area::newest_sequence(memory, self.log.start);
        let at = self.sequence % 2 * PAGE;
        for (index, word) in self.words().into_iter().enumerate() {
            memory.store(at + index as u64 * 8, word);
        }
        memory.write_back(at, WORDS as u64 * 8);
        memory.fence();
    }

    /// Makes both copies durable as they are. The copies read may only be visible, left by a process that died before
    /// its sync, or whose sync failed; and the next header overwrites one of them.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    pub fn make_durable<M: Memory + ?Sized>(memory: &M) -> perdura_engine::Result<()> {
        for at in [0, PAGE] {
            memory.write_back(at, WORDS as u64 * 8);
        }
        memory.fence();
        Ok(memory.check_fence()?)
    }

    fn words(&self) -> [u64; WORDS] {
        let mut name = [0; 16];
        name[..self.engine.len()].copy_from_slice(self.engine.as_bytes());
        let mut words = [0; WORDS];
        words[..18].copy_from_slice(&[
            MAGIC,
            VERSION,
            self.sequence,
            self.state as u64,
            self.id,
            u64::from_le_bytes(name[..8].try_into().expect("eight bytes")),
            u64::from_le_bytes(name[8..].try_into().expect("eight bytes")),
            self.requires as u64,
            self.log.start,
            self.log.end,
            self.layout.table,
            self.layout.capacity,
            self.layout.pages,
            self.limit,
            PAGE,
            u64::from(self.checksums) * CHECKSUMS,
            self.sums,
            self.checkpoint,
        ]);
        words[WORDS - 1] = check(&words[..WORDS - 1]);
        words
    }

    /// Reads the valid header.
    ///
    /// # Errors
    /// When this is no pool, or has another version, or is damaged.
    pub fn read<M: Memory + ?Sized>(memory: &M) -> Result<Self, OpenError> {
        if memory.len() < CATALOGUE + PAGE {
            return Err(OpenError::NotAPool { path: None, why: "it is too short" });
        }
        let copies = [0, 1].map(|copy| HeaderCopy::read(memory, copy));
        let best = copies.iter().filter(|copy| copy.whole).max_by_key(|copy| copy.words[2]);
        let Some(best) = best else {
            return Err(match copies.iter().find(|copy| copy.words[0] == MAGIC) {
                // If the check is wrong, a version is believed only if it is a possible one.
                Some(copy) if copy.words[1] != VERSION && (1..1 << 16).contains(&copy.words[1]) => {
                    OpenError::Version { path: None, found: copy.words[1], known: VERSION }
                }
                Some(_) if copies.iter().any(|copy| copy.words[0] == 0) => OpenError::NotAPool {
                    path: None,
                    why: "its creation was cut short, or its header lost",
                },
                Some(_) => {
                    OpenError::Damaged { path: None, what: "both copies of the header", at: 0 }
                }
                None => OpenError::NotAPool { path: None, why: "it does not begin as one" },
            });
        };
        if best.words[1] != VERSION {
            return Err(OpenError::Version { path: None, found: best.words[1], known: VERSION });
        }
        let mut superblock = Self::decode(&best.words).ok_or(OpenError::Damaged {
            path: None,
            what: "header with impossible values",
            at: 0,
        })?;
        superblock.check_layout(memory.len())?;
        let sequence = area::newest_sequence(memory, superblock.log.start);
        if superblock.state != State::Formatting && sequence < superblock.checkpoint {
            let what = "the log has an older checkpoint than the header: the newer is lost";
            return Err(OpenError::Damaged { path: None, what, at: superblock.log.start });
        }
        let was_written = superblock.sequence > 1 || copies.iter().all(|copy| copy.words[0] != 0);
        let one_is_damaged = was_written && copies.iter().any(|copy| !copy.whole);
        // Without a log, a header torn by a power cut could not be told from a damaged one.
        if one_is_damaged && superblock.recovers() && superblock.state == State::Closed {
            superblock.state = State::Open;
        }
        Ok(superblock)
    }

    /// Which of the two copies are intact.
    pub fn whole_copies<M: Memory + ?Sized>(memory: &M) -> [bool; 2] {
        [0, 1].map(|copy| HeaderCopy::read(memory, copy).whole)
    }

    /// Whether its engine recovers from a crash; also `true` if the engine is not known here.
    pub(crate) fn recovers(&self) -> bool {
        self.engine.parse().map_or(true, EngineKind::is_crash_consistent)
    }

    fn decode(words: &[u64; WORDS]) -> Option<Self> {
        // No pool has been opened and closed so often; the count must not overflow.
        if words[2] > u64::MAX / 2 {
            return None;
        }
        let state = match words[3] {
            1 => State::Closed,
            2 => State::Open,
            3 => State::Formatting,
            _ => return None,
        };
        if words[15] & !CHECKSUMS != 0 || words[14] != PAGE {
            return None;
        }
        let name = [words[5].to_le_bytes(), words[6].to_le_bytes()].concat();
        let name = std::str::from_utf8(&name).ok()?.trim_end_matches('\0').to_owned();
        Some(Superblock {
            sequence: words[2],
            state,
            id: words[4],
            engine: name,
            requires: Survives::from_number(words[7])?,
            log: words[8]..words[9],
            layout: Layout { table: words[10], capacity: words[11], pages: words[12] },
            limit: words[13],
            sums: words[16],
            checksums: words[15] & CHECKSUMS != 0,
            checkpoint: words[17],
        })
    }

    /// Parts must follow one another, and lie within the file.
    fn check_layout(&self, len: u64) -> Result<(), OpenError> {
        let Layout { table, capacity, pages } = self.layout;
        let in_order = self.log.start == LOG
            && self.log.end >= LOG + area::SMALLEST
            && self.log.end == table
            && capacity < 1 << 40
            && table.checked_add(capacity * ENTRY).is_some_and(|end| end <= self.sums)
            && self
                .sums
                .checked_add(sums_bytes(capacity, self.checksums))
                .is_some_and(|end| end <= pages)
            && [self.log.end, self.sums, pages].iter().all(|at| at.is_multiple_of(PAGE));
        if !in_order {
            return Err(OpenError::Damaged {
                path: None,
                what: "header with an impossible layout",
                at: 0,
            });
        }
        if len < pages {
            return Err(OpenError::Truncated { path: None, len, needed: pages });
        }
        Ok(())
    }

    /// Derives the free space, after comparing the page table and the page of the named roots with their checksums.
    ///
    /// # Errors
    /// When one of these is damaged, or the file is shorter than the page table requires.
    pub fn scan<M: Memory + ?Sized>(&self, memory: &M) -> Result<Space, OpenError> {
        let places = self.places();
        let used = self.layout.entry(self.layout.pages_in(memory.len()));
        let [catalogue, table, _] = places.ranges(memory.len());
        let beyond = used.next_multiple_of(PAGE)..table.end;
        let looked_at = [catalogue, table.start..beyond.start];
        if let Some(page) = sums::wrong_pages(memory, &places, looked_at).first() {
            return Err(sums::wrong(*page).into());
        }
        // Unused bytes are zero, and so is their sum: the file was longer once.
        let in_last = (used..beyond.start).step_by(8).find(|at| memory.load(*at) != 0);
        let in_others = || {
            let mut pages = beyond.step_by(PAGE as usize);
            pages.find(|page| places.of(*page).is_some_and(|sum| memory.load(sum) != 0))
        };
        if let Some(at) = in_last.or_else(in_others) {
            let needed = self.layout.page((at - self.layout.table) / ENTRY + 1);
            return Err(OpenError::Truncated { path: None, len: memory.len(), needed });
        }
        Ok(Space::scan(memory, self.layout)?)
    }

    /// The pages whose contents do not match their checksums, of all that have one. Nothing else may be running.
    pub fn wrong_pages<M: Memory + ?Sized>(&self, memory: &M) -> Vec<u64> {
        let places = self.places();
        sums::wrong_pages(memory, &places, places.ranges(memory.len()))
    }

    /// The checksums, for an engine that is to maintain them.
    pub fn sums<M: Memory + ?Sized>(&self, memory: &M) -> Sums {
        Sums::new(memory, self.places())
    }
}

/// Bytes of checksums, in whole pages, for a page table of `capacity` entries.
const fn sums_bytes(capacity: u64, all: bool) -> u64 {
    Places::bytes(capacity * ENTRY, if all { capacity } else { 0 }).next_multiple_of(PAGE)
}

struct HeaderCopy {
    words: [u64; WORDS],
    whole: bool,
}

impl HeaderCopy {
    fn read<M: Memory + ?Sized>(memory: &M, copy: u64) -> Self {
        let at = copy * PAGE;
        let words: [u64; WORDS] = std::array::from_fn(|index| memory.load(at + index as u64 * 8));
        let whole = words[0] == MAGIC
            && words[WORDS - 1] == check(&words[..WORDS - 1])
            && (words[1] != VERSION || words[2] % 2 == copy);
        HeaderCopy { words, whole }
    }
}

fn check(words: &[u64]) -> u64 {
    xxh3_64_with_seed(bytemuck::cast_slice(words), MAGIC)
}
