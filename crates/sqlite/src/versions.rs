//! The versions of a database: which page is where in which version, who reads an old one, and what is kept for it.
//!
//! The newest version is a table of offsets. An older one is the newest with the pages put back that were changed
//! since: of a page that was overwritten in place its bytes are kept here, one that was replaced stays in the pool.
//!
//! Invariants: `kept` has for each page its old states in the order of the last version that each belongs to, no two of
//! which are the same; `overwritten` has those that the last commit has overwritten in place, which are newer. A page that
//! was replaced is freed only when no version is pinned in which it is. Versions count from 1 in each opening.

use crate::page::Page;
use crate::pages::Header;
use perdura::Ticket;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A page's bytes, kept without being copied.
pub(crate) type Bytes = Arc<Page>;

/// Pages of the last commit that are known without being read.
const KNOWN: usize = 16;
/// Room for pages' states that is too much for a few of them.
const MANY: usize = 4096;

/// Where the bytes of a page are.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In the pool; 0 for a page of zeros.
    At(u64),
    /// Here.
    Copy(Bytes),
}

/// A page that was replaced, and is in the pool's list of such pages.
#[derive(Clone, Debug)]
pub(crate) struct Replaced {
    pub(crate) at: u64,
    /// The versions that it belongs to.
    versions: RangeInclusive<u64>,
}

/// A block of the list of replaced pages.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) at: u64,
    /// Its entries that are not freed yet, by their places.
    entries: BTreeMap<usize, Replaced>,
    /// The version that was the oldest pinned one when all entries were found to belong to it; 0 if unknown.
    held_by: u64,
}

/// A version's shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) version: u64,
    pub(crate) length: u64,
    pub(crate) page_size: u64,
}

/// The pinned versions, oldest first, with the number of those who have pinned each: few.
#[derive(Default)]
struct Pins(Vec<(u64, u32)>);

impl Pins {
    /// The newest version's.
    fn add(&mut self, newest: u64) {
        match self.0.last_mut() {
            Some((version, count)) if *version == newest => *count += 1,
            _ => self.0.push((newest, 1)),
        }
    }

    /// Whether the version is not pinned any more, and was the oldest.
    fn remove(&mut self, version: u64) -> bool {
        let Ok(index) = self.0.binary_search_by_key(&version, |(version, _)| *version) else {
            return false;
        };
        self.0[index].1 -= 1;
        let is_gone = self.0[index].1 == 0;
        if is_gone {
            self.0.remove(index);
        }
        is_gone && index == 0
    }

    fn oldest(&self) -> Option<u64> {
        self.0.first().map(|(version, _)| *version)
    }

    fn has(&self, version: u64) -> bool {
        self.has_any(&(version..=version))
    }

    fn has_any(&self, versions: &RangeInclusive<u64>) -> bool {
        let first = self.0.partition_point(|(version, _)| version < versions.start());
        self.0.get(first).is_some_and(|(version, _)| version <= versions.end())
    }
}

/// What a commit has changed.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) header: Header,
    /// Pages that are elsewhere now.
    pub(crate) moved: Vec<(u64, u64)>,
    pub(crate) leaves: Vec<(u64, u64)>,
    /// New blocks of the list of replaced pages, oldest first, each with its pages' numbers and offsets.
    pub(crate) replaced: Vec<(u64, Vec<(u64, u64)>)>,
    pub(crate) freed: Freed,
    /// Blocks of pages that were made before the commit, and are the database's now.
    pub(crate) prepared: Vec<u64>,
}

/// Entries of the list of replaced pages that a transaction has freed, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Freed {
    /// Blocks' offsets and the places in them.
    pub(crate) entries: Vec<(u64, usize, u64)>,
    /// Blocks that have no entries left, with the block before each in the list (0 for the header).
    pub(crate) blocks: Vec<(u64, u64, u64)>,
}

/// All versions.
#[derive(Default)]
pub(crate) struct Versions {
    pub(crate) header: Header,
    version: u64,
    /// Of the newest version: the pages' offsets.
    pages: Vec<u64>,
    /// Offsets of the tree's leaves; 0 for one that does not exist.
    leaves: Vec<u64>,
    /// The versions since which pages are where they are; for pages without an entry, since before any pinned one.
    born: HashMap<u64, u64>,
    kept: HashMap<u64, Vec<(u64, Place)>>,
    /// Old states that are not in `kept` yet, of pages in their order, all of one version: mostly nobody needs them any more when
    /// the commit that overwrites them is over.
    overwritten: Vec<(u64, Bytes)>,
    overwritten_in: u64,
    /// Pages of the newest version that its commit has written, if they are few: the next one changes some of them again.
    known: Vec<(u64, Bytes)>,
    shapes: Vec<Shape>,
    pins: Pins,
    /// Oldest first.
    blocks: Vec<Block>,
    /// The newest commit's.
    pub(crate) ticket: Ticket,
}

impl Versions {
    /// Of a database that was just opened.
    pub(crate) fn new(
        header: Header,
        pages: Vec<u64>,
        leaves: Vec<u64>,
        replaced: Vec<(u64, Vec<u64>)>,
    ) -> Self {
        let entry = |at| Replaced { at, versions: 0..=0 };
        let block = |(at, entries): (u64, Vec<u64>)| {
            let entries = entries.into_iter().map(entry).enumerate();
            let entries = entries.filter(|(_, entry)| entry.at != 0).collect();
            Block { at, entries, held_by: 0 }
        };
        let blocks = replaced.into_iter().rev().map(block).collect();
        Versions { header, version: 1, pages, leaves, blocks, ..Versions::default() }
    }

    /// The newest version.
    pub(crate) fn newest(&self) -> Shape {
        let Header { length, page_size, .. } = self.header;
        let page_size = if page_size == 0 { crate::stage::DEFAULT_PAGE_SIZE } else { page_size };
        Shape { version: self.version, length, page_size }
    }

    /// A pinned version.
    pub(crate) fn shape(&self, version: u64) -> Shape {
        let old = self.shapes.iter().find(|shape| shape.version >= version);
        old.copied().unwrap_or_else(|| self.newest())
    }

    /// Pins the newest version.
    pub(crate) fn pin(&mut self) -> Shape {
        let newest = self.newest();
        self.pins.add(newest.version);
        newest
    }

    /// Lets go of a pinned version, and of what was kept for it alone.
    pub(crate) fn unpin(&mut self, version: u64) {
        if self.pins.remove(version) {
            self.forget();
        }
    }

    /// Forgets what no pinned version needs.
    fn forget(&mut self) {
        let oldest = self.pins.oldest().unwrap_or(self.version);
        if oldest > self.overwritten_in {
            self.overwritten.clear();
        }
        self.shapes.retain(|shape| shape.version >= oldest);
        if !self.born.is_empty() {
            self.born.retain(|_, born| *born > oldest);
        }
        if !self.kept.is_empty() {
            let (pins, version) = (&self.pins, self.version);
            self.kept.retain(|_, states| {
                prune(pins, version, states);
                !states.is_empty()
            });
        }
        // What a large commit has left is not gone through in each small one.
        if self.born.capacity() > MANY && self.born.len() < MANY / 8 {
            self.born.shrink_to_fit();
        }
        if self.kept.capacity() > MANY && self.kept.len() < MANY / 8 {
            self.kept.shrink_to_fit();
        }
    }

    /// Bytes of pages that are kept here for old versions.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let all = self.kept.values().flatten();
        let copies = all.filter_map(|(_, place)| match place {
            Place::Copy(bytes) => Some(bytes),
            Place::At(_) => None,
        });
        let overwritten = self.overwritten.iter().map(|(_, bytes)| bytes);
        copies.chain(overwritten).map(|bytes| bytes.len() as u64).sum()
    }

    /// Where the page is in a pinned version.
    pub(crate) fn find(&self, version: u64, page: u64) -> Place {
        let old = self.kept.get(&page).and_then(|states| {
            states.iter().find(|(last, _)| *last >= version).map(|(_, place)| place.clone())
        });
        if let Some(old) = old {
            return old;
        }
        if version <= self.overwritten_in
            && let Ok(index) = self.overwritten.binary_search_by_key(&page, |(page, _)| *page)
        {
            return Place::Copy(self.overwritten[index].1.clone());
        }
        self.known(page).map_or_else(|| Place::At(self.at(page)), Place::Copy)
    }

    /// The page's bytes in the newest version, if they are known.
    pub(crate) fn known(&self, page: u64) -> Option<Bytes> {
        let known = self.known.iter().find(|(known, _)| *known == page);
        known.map(|(_, bytes)| bytes.clone())
    }

    /// Takes note of the pages that the newest version's commit has written. The caller is the writer still.
    pub(crate) fn know(&mut self, pages: BTreeMap<u64, Page>) {
        self.known.clear();
        if pages.len() <= KNOWN {
            let pages = pages.into_iter().map(|(page, bytes)| (page, Arc::new(bytes)));
            self.known.extend(pages);
        }
    }

    /// The page's offset in the newest version.
    pub(crate) fn at(&self, page: u64) -> u64 {
        self.pages.get(page as usize).copied().unwrap_or(0)
    }

    /// The offset of a leaf.
    pub(crate) fn leaf(&self, leaf: u64) -> u64 {
        self.leaves.get(leaf as usize).copied().unwrap_or(0)
    }

    /// Whether a pinned version before the newest has the page where the newest has it.
    pub(crate) fn is_in_older(&self, page: u64) -> bool {
        let born = self.born.get(&page).copied().unwrap_or(0);
        born < self.version && self.pins.has_any(&(born..=self.version - 1))
    }

    /// Takes note of pages that are zeros now, in the newest version too.
    pub(crate) fn trimmed(&mut self, pages: &[(u64, u64)]) {
        for (page, _) in pages {
            self.pages[*page as usize] = 0;
            self.born.remove(page);
            self.known.retain(|(known, _)| known != page);
        }
    }

    /// Begins to keep old states of pages for a commit. Those that a commit that failed has kept are in the pool too.
    pub(crate) fn begin_to_keep(&mut self) {
        if self.overwritten_in == self.version {
            self.overwritten.clear();
        }
        for (page, bytes) in self.overwritten.drain(..) {
            let states = self.kept.entry(page).or_default();
            prune(&self.pins, self.overwritten_in, states);
            let first = states.last().map_or(0, |(last, _)| last + 1);
            if self.pins.has_any(&(first..=self.overwritten_in)) {
                states.push((self.overwritten_in, Place::Copy(bytes)));
            }
        }
        self.overwritten_in = self.version;
    }

    /// Keeps the bytes of a page that a commit is about to overwrite in place. Pages come in the order of their numbers.
    pub(crate) fn keep(&mut self, page: u64, bytes: &Bytes) {
        debug_assert!(self.overwritten.last().is_none_or(|(last, _)| *last < page));
        self.overwritten.push((page, bytes.clone()));
    }

    /// Takes note of pages that were made for a commit to come: the list of replaced pages has them in a first block.
    pub(crate) fn prepared(&mut self, header: Header, made: &[u64]) {
        self.header = header;
        // No version has them: the writer's pin alone keeps them.
        let entry = |at: &u64| Replaced { at: *at, versions: 0..=u64::MAX };
        let entries = made.iter().map(entry).enumerate().collect();
        self.blocks.push(Block { at: header.first_replaced, entries, held_by: 0 });
    }

    /// The commit has failed: they can be freed.
    pub(crate) fn abandon(&mut self, blocks: &[u64]) {
        let blocks: HashSet<u64> = blocks.iter().copied().collect();
        for block in self.blocks.iter_mut().filter(|block| blocks.contains(&block.at)) {
            block.held_by = 0;
            block.entries.values_mut().for_each(|entry| entry.versions = 0..=0);
        }
    }

    /// Makes what a commit has changed the newest version.
    pub(crate) fn publish(&mut self, changes: Changes, ticket: Ticket) {
        let last = self.version;
        let Changes { header, moved, leaves, replaced, freed, prepared } = changes;
        if !prepared.is_empty() {
            let prepared: HashSet<u64> = prepared.into_iter().collect();
            self.blocks.retain(|block| !prepared.contains(&block.at));
        }
        // An old version's shape is needed while the version is pinned, this one's for now by its writer.
        if self.shapes.last().is_some_and(|shape| !self.pins.has(shape.version)) {
            self.shapes.pop();
        }
        self.shapes.push(self.newest());
        self.remove_freed(&freed);
        for (block, pages) in replaced {
            let mut entries = BTreeMap::new();
            for (place, (page, at)) in pages.into_iter().enumerate() {
                let born = self.born.remove(&page).unwrap_or(0);
                entries.insert(place, Replaced { at, versions: born..=last });
                let states = self.kept.entry(page).or_default();
                prune(&self.pins, last, states);
                states.push((last, Place::At(at)));
            }
            self.blocks.push(Block { at: block, entries, held_by: 0 });
        }
        self.version += 1;
        self.known.clear();
        self.header = header;
        let count = header.pages();
        for page in count..self.pages.len() as u64 {
            self.born.remove(&page);
        }
        let holes = self.pages.len() as u64..count;
        self.pages.resize(count as usize, 0);
        for (page, at) in moved {
            // A page that was zero, or did not exist, is so in the versions before.
            if self.at(page) == 0 || holes.contains(&page) {
                let states = self.kept.entry(page).or_default();
                if states.last().is_none_or(|(newest, _)| *newest < last) {
                    states.push((last, Place::At(0)));
                }
            }
            self.pages[page as usize] = at;
            self.born.insert(page, self.version);
        }
        for (leaf, at) in leaves {
            if self.leaves.len() as u64 <= leaf {
                self.leaves.resize(leaf as usize + 1, 0);
            }
            self.leaves[leaf as usize] = at;
        }
        self.ticket = self.ticket.max(ticket);
    }

    /// After a commit of a database that no connection reads: nothing old is needed.
    pub(crate) fn settle(&mut self) {
        self.forget();
    }

    /// Moves the pin of a writer that has committed to the version that it made.
    pub(crate) fn move_pin(&mut self, version: u64) -> u64 {
        self.pins.add(self.version);
        let newest = self.version;
        self.unpin(version);
        newest
    }

    /// Replaced pages that can be freed: at most about `most`.
    pub(crate) fn freeable(&mut self, most: usize) -> Freed {
        let oldest = self.pins.oldest().unwrap_or(0);
        let pins = &self.pins;
        let is_free = |entry: &Replaced| !pins.has_any(&entry.versions);
        let mut freed = Freed::default();
        let mut whole = vec![false; self.blocks.len()];
        for (index, block) in self.blocks.iter_mut().enumerate() {
            if block.held_by != 0 && block.held_by == oldest {
                continue;
            }
            if freed.entries.len() >= most {
                break;
            }
            let free: Vec<usize> = block
                .entries
                .iter()
                .filter(|(_, entry)| is_free(entry))
                .map(|(place, _)| *place)
                .collect();
            let is_held = |entry: &Replaced| entry.versions.contains(&oldest);
            if free.is_empty() && block.entries.values().all(is_held) {
                block.held_by = oldest;
            }
            freed
                .entries
                .extend(free.iter().map(|place| (block.at, *place, block.entries[place].at)));
            whole[index] = free.len() == block.entries.len();
        }
        // The list runs from the newest to the oldest: the nearest newer block that stays leads to the next older one.
        let mut older = 0;
        let mut gone = Vec::new();
        for (block, is_whole) in self.blocks.iter().zip(&whole) {
            match is_whole {
                true => gone.push((block.at, older)),
                false => older = block.at,
            }
        }
        let mut newer = 0;
        for (block, is_whole) in self.blocks.iter().zip(&whole).rev() {
            match is_whole {
                true => freed.blocks.extend(gone.pop().map(|(at, older)| (at, newer, older))),
                false => newer = block.at,
            }
        }
        freed.blocks.reverse();
        freed
    }

    /// Replaced pages, freeable or not.
    pub(crate) fn replaced_count(&self) -> usize {
        self.blocks.iter().map(|block| block.entries.len()).sum()
    }

    /// Takes note of freed entries.
    pub(crate) fn remove_freed(&mut self, freed: &Freed) {
        if freed.entries.is_empty() && freed.blocks.is_empty() {
            return;
        }
        // Both lists are in the order of the blocks, of which there may be many.
        let (mut entries, mut gone) =
            (freed.entries.iter().peekable(), freed.blocks.iter().peekable());
        self.blocks.retain_mut(|block| {
            while let Some((_, place, _)) = entries.next_if(|(at, ..)| *at == block.at) {
                block.entries.remove(place);
            }
            gone.next_if(|(at, ..)| *at == block.at).is_none()
        });
        debug_assert!(entries.next().is_none() && gone.next().is_none(), "all are there");
    }
}

/// Removes the states that no pinned version has. Those from `newest` on stay: a commit may be about to make them old,
/// and others may pin the version yet.
fn prune(pins: &Pins, newest: u64, states: &mut Vec<(u64, Place)>) {
    let mut first = 0;
    states.retain(|(last, _)| {
        let is_needed = *last >= newest || pins.has_any(&(first..=*last));
        first = last + 1;
        is_needed
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Versions with blocks of one replaced page each: the first, oldest one is at 1.
    fn with_blocks(count: u64) -> Versions {
        let replaced = (1..=count).rev().map(|at| (at, vec![1000 + at])).collect();
        Versions::new(Header::default(), Vec::new(), Vec::new(), replaced)
    }

    #[test]
    fn blocks_that_stay_are_linked_over_those_that_go() {
        let mut versions = with_blocks(7);
        for stays in [3, 6] {
            for entry in versions.blocks[stays - 1].entries.values_mut() {
                entry.versions = 1..=1;
            }
        }
        versions.pin();
        let freed = versions.freeable(100);
        assert_eq!(freed.blocks, [(1, 3, 0), (2, 3, 0), (4, 6, 3), (5, 6, 3), (7, 0, 6)]);
        assert_eq!(freed.entries.len(), 5);
        versions.remove_freed(&freed);
        assert_eq!(versions.blocks.iter().map(|block| block.at).collect::<Vec<_>>(), [3, 6]);
        assert_eq!(versions.replaced_count(), 2);
    }

    /// After a cursor was open for long, each commit meanwhile has left a block: a cubic time would not end.
    #[test]
    fn many_small_blocks_are_freed_at_once() {
        let mut versions = with_blocks(50_000);
        let freed = versions.freeable(usize::MAX);
        assert_eq!(freed.blocks.len(), 50_000);
        assert!(freed.blocks.iter().all(|(_, newer, older)| (*newer, *older) == (0, 0)));
        versions.remove_freed(&freed);
        assert_eq!(versions.replaced_count(), 0);
    }

    #[test]
    fn a_page_that_was_kept_for_nothing_can_be_replaced() {
        let mut versions = Versions { version: 5, pages: vec![80], ..Versions::default() };
        (versions.header.length, versions.header.page_size) = (4096, 4096);
        let reader = versions.pin();
        versions.begin_to_keep();
        versions.keep(0, &Arc::new(Page::copy(&[7; 8]).unwrap()));
        // That commit failed; the next one replaces the page.
        versions.begin_to_keep();
        let changes = |at, header| Changes {
            header,
            moved: vec![(0, at)],
            replaced: vec![(1, vec![(0, at - 10)])],
            ..Changes::default()
        };
        versions.publish(changes(90, versions.header), Ticket::default());
        versions.publish(changes(100, versions.header), Ticket::default());
        assert!(matches!(versions.find(reader.version, 0), Place::At(80)));
        versions.unpin(reader.version);
        assert!(matches!(versions.find(7, 0), Place::At(100)));
    }

    #[test]
    fn readers_have_the_pages_that_commits_overwrite() {
        let mut versions = Versions { version: 5, pages: vec![80, 90], ..Versions::default() };
        (versions.header.length, versions.header.page_size) = (8192, 4096);
        let byte = |versions: &Versions, version, page| match versions.find(version, page) {
            Place::Copy(bytes) => bytes[0],
            Place::At(_) => 0,
        };
        let mut writer = versions.pin().version;
        let mut commit = |versions: &mut Versions, page, byte| {
            versions.begin_to_keep();
            versions.keep(page, &Arc::new(Page::copy(&[byte; 8]).unwrap()));
            versions.publish(
                Changes { header: versions.header, ..Changes::default() },
                Ticket::default(),
            );
            writer = versions.move_pin(writer);
        };
        commit(&mut versions, 0, 1);
        assert_eq!((byte(&versions, 5, 0), byte(&versions, 6, 0)), (0, 0), "nobody needs it");
        let reader = versions.pin().version;
        commit(&mut versions, 0, 2);
        assert_eq!((byte(&versions, reader, 0), byte(&versions, 7, 0)), (2, 0));
        commit(&mut versions, 1, 3);
        commit(&mut versions, 0, 4);
        let of_reader = [0, 1].map(|page| byte(&versions, reader, page));
        let of_writer = [0, 1].map(|page| byte(&versions, 9, page));
        assert_eq!((of_reader, of_writer), ([2, 3], [0, 0]));
        versions.unpin(reader);
        assert_eq!(versions.kept_bytes(), 0);
    }
}
