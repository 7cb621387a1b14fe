//! Where the three versions of each line are, and where the next one goes.
//!
//! A page is at its home or at one of two places in a pool; a block, which is a line with an entry in the table of blocks,
//! is in its page or at one of the entry's two places. A page whose blocks have entries is at home.

use super::tables::{Layout, Place};
use crate::by_number::ByNumber;

const PLACES: [Place; 3] = [Place::Home, Place::First, Place::Second];

/// How a page's dirty lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// Line by line.
    Lines,
    /// All lines of the page.
    Page,
}

/// Where the versions are: of the last durable checkpoint, of the one being made, and the newest.
#[derive(Clone, Copy, Debug)]
struct Versions {
    last: Place,
    made: Place,
    working: Place,
}

const AT_HOME: Versions = Versions { last: Place::Home, made: Place::Home, working: Place::Home };

/// A page. `taken` is the last epoch whose working version has got a place.
#[derive(Clone, Copy, Debug)]
struct PageState {
    versions: Versions,
    scheme: Scheme,
    taken: u64,
    /// Lines that have become dirty in this epoch.
    dirty: u64,
}

/// An entry of the table of blocks.
#[derive(Clone, Copy, Debug)]
struct BlockEntry {
    line: u64,
    versions: Versions,
    taken: u64,
}

/// What decides about places.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) epoch: u64,
    pub(super) two_versions: bool,
    pub(super) forgets: bool,
}

/// A line to be copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineCopy {
    pub(super) line: u64,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// A place for a dirty line.
#[derive(Debug, Default)]
pub(super) struct Assigned {
    pub(super) to: u64,
    /// The other lines of its page, which is written as a whole, without those that are still to come.
    pub(super) copies: Vec<LineCopy>,
    /// Whether a block has got a place, or a page; and whether the page only because the table is full.
    pub(super) block: bool,
    pub(super) page: bool,
    pub(super) full: bool,
}

/// Entries and pages whose places an epoch has changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Changed {
    pub(super) entries: Vec<u64>,
    pub(super) pages: Vec<u64>,
}

/// All places.
pub(super) struct Places {
    layout: Layout,
    pages: Vec<PageState>,
    entries: Vec<BlockEntry>,
    by_line: ByNumber<u32>,
    free: Vec<u32>,
    /// Where the search for blocks to move home goes on.
    hand: usize,
    dirty_pages: Vec<u64>,
    changed: Changed,
}

impl Places {
    pub(super) fn new(layout: Layout) -> Self {
        let page = PageState { versions: AT_HOME, scheme: Scheme::Lines, taken: 0, dirty: 0 };
        let entry = BlockEntry { line: 0, versions: AT_HOME, taken: 0 };
        Places {
            layout,
            pages: vec![page; layout.pages() as usize],
            entries: vec![entry; layout.entries as usize],
            by_line: ByNumber::default(),
            free: (0..layout.entries as u32).rev().collect(),
            hand: 0,
            dirty_pages: Vec::new(),
            changed: Changed::default(),
        }
    }

    /// Entries in use.
    pub(super) fn used(&self) -> u64 {
        self.layout.entries - self.free.len() as u64
    }

    pub(super) fn free(&self) -> u64 {
        self.free.len() as u64
    }

    fn location(&self, line: u64, version: impl Fn(&Versions) -> Place) -> u64 {
        let block = self.by_line.get(&line).and_then(|entry| {
            let place = version(&self.entries[*entry as usize].versions);
            self.layout.in_block(place, u64::from(*entry))
        });
        let page = &self.pages[self.layout.page_of(line)].versions;
        block.unwrap_or_else(|| self.layout.in_page(version(page), line))
    }

    /// Where the newest version of a program's line is.
    pub(super) fn working(&self, line: u64) -> u64 {
        self.location(line, |versions| versions.working)
    }

    /// Where the last checkpoint has a program's line.
    pub(super) fn last(&self, line: u64) -> u64 {
        self.location(line, |versions| versions.last)
    }

    /// The line has become dirty in this epoch.
    pub(super) fn note_dirty(&mut self, line: u64) {
        let page = self.layout.page_of(line);
        if self.pages[page].dirty == 0 {
            self.dirty_pages.push(page as u64);
        }
        self.pages[page].dirty |= 1 << self.layout.index(line);
    }

    /// The epoch has ended: each page that it has dirtied gets a scheme, by the one that it has and its dirty lines.
    pub(super) fn end_counting(&mut self, mut scheme: impl FnMut(Scheme, u32) -> Scheme) {
        for page in self.dirty_pages.drain(..) {
            let page = &mut self.pages[page as usize];
            page.scheme = scheme(page.scheme, page.dirty.count_ones());
            page.dirty = 0;
        }
    }

    /// The place of the next version of a dirty line. `still`: other lines of its page that are dirty and will come
    /// before the epoch has ended.
    pub(super) fn assign(
        &mut self,
        line: u64,
        rules: Rules,
        still: &dyn Fn(u64) -> bool,
    ) -> Assigned {
        let number = self.layout.page_of(line);
        let page = self.pages[number];
        let taken = |epoch: u64| epoch == rules.epoch || rules.forgets && epoch > 0;
        if taken(page.taken) {
            return Assigned { to: self.working(line), ..Assigned::default() };
        }
        let known = self.by_line.get(&line).copied();
        if page.scheme == Scheme::Lines && page.versions.working == Place::Home {
            if self.has_entries_for(line, still) {
                let entry = known.unwrap_or_else(|| self.enter(line));
                let first = !taken(self.entries[entry as usize].taken);
                if first {
                    self.place_block(entry, &page.versions, rules);
                }
                return Assigned { to: self.working(line), block: first, ..Assigned::default() };
            }
            return Assigned { full: true, ..self.place_page(line, rules, still) };
        }
        self.place_page(line, rules, still)
    }

    /// Whether the table has entries for a dirty line and those of its page that are still to come.
    fn has_entries_for(&self, line: u64, still: &dyn Fn(u64) -> bool) -> bool {
        if self.free.len() as u64 >= self.layout.page {
            return true;
        }
        let others = self.layout.lines(self.layout.page_of(line)).filter(|other| still(*other));
        let needed = others.chain([line]).filter(|line| !self.by_line.contains_key(line));
        needed.count() <= self.free.len()
    }

    fn enter(&mut self, line: u64) -> u32 {
        let entry = self.free.pop().expect("it was looked for");
        self.entries[entry as usize] = BlockEntry { line, versions: AT_HOME, taken: 0 };
        self.by_line.insert(line, entry);
        entry
    }

    /// A block goes where neither checkpoint has one: home if it can, which gives the entry back.
    fn place_block(&mut self, number: u32, page: &Versions, rules: Rules) {
        let entry = &mut self.entries[number as usize];
        let Versions { last, made, .. } = entry.versions;
        let made = if rules.two_versions { last } else { made };
        let free = |place: &Place| match place {
            // A block in its page is at home only if the page is.
            Place::Home => {
                let home = |block: Place, page: Place| [block, page] == [Place::Home; 2];
                !home(last, page.last) && !home(made, page.made)
            }
            place => ![last, made].contains(place),
        };
        entry.versions.working =
            PLACES.into_iter().find(free).expect("two versions have two places at most");
        entry.taken = rules.epoch;
        self.changed.entries.push(u64::from(number));
    }

    /// A page goes where neither checkpoint has it, and its blocks with it.
    fn place_page(&mut self, line: u64, rules: Rules, still: &dyn Fn(u64) -> bool) -> Assigned {
        let number = self.layout.page_of(line);
        let lines = self.layout.lines(number);
        let others = lines.clone().filter(|other| *other != line && !still(*other));
        let mut copies: Vec<LineCopy> =
            others.map(|line| LineCopy { line, from: self.working(line), to: 0 }).collect();
        for line in lines {
            let Some(&entry) = self.by_line.get(&line) else { continue };
            let block = &mut self.entries[entry as usize];
            block.versions.working = Place::Home;
            if block.taken != rules.epoch {
                block.taken = rules.epoch;
                self.changed.entries.push(u64::from(entry));
            }
        }
        let page = &mut self.pages[number];
        let Versions { last, made, .. } = page.versions;
        let used = [last, if rules.two_versions { last } else { made }];
        page.versions.working = PLACES
            .into_iter()
            .find(|place| !used.contains(place))
            .expect("two versions have two places at most");
        page.taken = rules.epoch;
        self.changed.pages.push(number as u64);
        copies.iter_mut().for_each(|copy| copy.to = self.working(copy.line));
        Assigned { to: self.working(line), copies, page: true, ..Assigned::default() }
    }

    /// Blocks that this epoch has not written go home, `most` of them, and their entries are given back when the
    /// checkpoint being made is durable.
    pub(super) fn move_home(&mut self, epoch: u64, most: u64) -> Vec<LineCopy> {
        let mut copies = Vec::new();
        for _ in 0..self.entries.len() {
            if copies.len() as u64 >= most {
                break;
            }
            let number = self.hand;
            self.hand = (number + 1) % self.entries.len();
            let entry = self.entries[number];
            let used = self.by_line.get(&entry.line) == Some(&(number as u32));
            if !used || entry.taken == epoch || entry.versions.working == Place::Home {
                continue;
            }
            let from = self.working(entry.line);
            let entry = &mut self.entries[number];
            (entry.versions.working, entry.taken) = (Place::Home, epoch);
            copies.push(LineCopy { line: entry.line, from, to: entry.line });
            self.changed.entries.push(number as u64);
        }
        copies
    }

    /// A checkpoint of the working versions is begun. Returns what has changed since the last one.
    pub(super) fn begin(&mut self) -> Changed {
        let changed = std::mem::take(&mut self.changed);
        self.each(&changed, |versions| versions.made = versions.working);
        changed
    }

    /// The checkpoint counts, or in a mutant will count.
    pub(super) fn replace_last(&mut self, changed: &Changed) {
        self.each(changed, |versions| versions.last = versions.made);
    }

    /// The checkpoint counts: entries of blocks that are in their pages are free.
    pub(super) fn commit(&mut self, changed: &Changed) {
        self.replace_last(changed);
        for &number in &changed.entries {
            let BlockEntry { line, versions: Versions { last, made, working }, .. } =
                self.entries[number as usize];
            let in_page = [last, made, working] == [Place::Home; 3];
            if in_page && self.by_line.get(&line) == Some(&(number as u32)) {
                self.by_line.remove(&line);
                self.free.push(number as u32);
            }
        }
    }

    fn each(&mut self, changed: &Changed, step: impl Fn(&mut Versions)) {
        changed.entries.iter().for_each(|it| step(&mut self.entries[*it as usize].versions));
        changed.pages.iter().for_each(|it| step(&mut self.pages[*it as usize].versions));
    }

    /// What the checkpoint being made has in an entry: the block's line, and its place.
    pub(super) fn made_block(&self, entry: u64) -> (u64, Place) {
        let entry = &self.entries[entry as usize];
        (entry.line, entry.versions.made)
    }

    /// Where it has a page.
    pub(super) fn made_page(&self, page: u64) -> Place {
        self.pages[page as usize].versions.made
    }
}
