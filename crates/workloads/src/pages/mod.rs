//! SQLite's transactions as the pages that they write: LevelDB's benchmark `overwrite` of it, whole page images at
//! commit, without SQL and without the inner pages of its trees.
//!
//! The benchmark's table has a key of 16 bytes and a value of 100, and an index on the key. To replace a
//! row is to delete it and to insert another one with a new number, which goes elsewhere. So three pages change: the
//! old row's, one with room for a new row, and the key's in the index; and in each transaction also the first page,
//! which counts changes. The pager reads each page once, changes it in memory, and writes all of it when the
//! transaction commits.
//!
//! - Table pages are half full, and stay so: a new row goes into the next free slot after the last one. SQLite
//!   fills a last page instead, and joins those that deletes have emptied.
//! - Index pages have the same keys for ever, since each key stays. An entry says where the row is, while
//!   SQLite's has its number and finds it through inner pages, which no replacement changes.
//!
//! Each page has a checksum and the number of the change that wrote it; a value follows from its key and from how
//! often the key has been written.

mod page;
#[cfg(test)]
mod tests;

use crate::list::{self, Given, Listed, OnWorkload};
use crate::random::Random;
use crate::toggle::shuffled;
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload, payload, zeroed};
use page::{FILL, Geometry, Page, Row, SLOTS, VALUE, key_bytes};
use perdura::collections::Visit;
use perdura::{Error, Result, Root, Tx};
use std::sync::atomic::{AtomicU64, Ordering};

pub use page::PAGE;

const ROOT: &str = "bench.sqlite-pages";
/// The kind of this workload's root.
pub(crate) const KIND: u32 = 2_009;
/// Pages written by one transaction of the load.
const LOAD_PAGES: usize = 16;
/// Fields of the first page: rows, rows ever written, slot where the search for room begins.
const ROWS: usize = 0;
const EVER: usize = 1;
const NEXT: usize = 2;

/// Bytes of the pages of `rows` rows.
pub fn bytes(rows: u64) -> u64 {
    Geometry { rows: rows.min(1 << 40) }.pages() * PAGE
}

/// The pages that a transaction uses.
struct Pager {
    file: u64,
    geometry: Geometry,
    pages: Vec<Page>,
}

impl Pager {
    fn open<T: Tx + ?Sized>(tx: &mut T, file: u64) -> Result<Self> {
        let first = Page::read(tx, file, 0)?;
        let geometry = Geometry { rows: first.field(ROWS) };
        let room = tx.usable(file)? / PAGE;
        // Checked before the pages are counted, which could overflow.
        if geometry.rows == 0 || geometry.rows > room * SLOTS || geometry.pages() > room {
            return Err(Error::corrupt("a file of fewer pages than its rows need", file));
        }
        Ok(Pager { file, geometry, pages: vec![first] })
    }

    fn page<T: Tx + ?Sized>(&mut self, tx: &mut T, number: u64) -> Result<&mut Page> {
        let known = self.pages.iter().position(|page| page.number == number);
        let index = match known {
            Some(index) => index,
            None => {
                self.pages.push(Page::read(tx, self.file, number)?);
                self.pages.len() - 1
            }
        };
        Ok(&mut self.pages[index])
    }

    fn corrupt(&self, what: &'static str, page: u64) -> Error {
        Error::corrupt(what, self.file.wrapping_add(page.wrapping_mul(PAGE)))
    }

    /// Where the key's row is, and the row.
    fn find<T: Tx + ?Sized>(&mut self, tx: &mut T, key: u64) -> Result<(u64, Row)> {
        let (number, at) = self.geometry.entry(key);
        let entry = self.page(tx, number)?.entry(at);
        let slot =
            entry.filter(|(name, slot)| *name == key_bytes(key) && *slot < self.geometry.slots());
        let Some((_, slot)) = slot else {
            return Err(self.corrupt("an index without a key", number));
        };
        let (number, at) = self.geometry.slot(slot);
        let row = self.page(tx, number)?.row(at).filter(|row| row.key == key_bytes(key));
        let row = row.filter(|row| payload::verify(key, &row.value).is_some());
        row.map(|row| (slot, row)).ok_or_else(|| self.corrupt("a row that is another's", number))
    }

    /// The first empty slot from `slot` on, round the end.
    fn free_slot<T: Tx + ?Sized>(&mut self, tx: &mut T, slot: u64) -> Result<u64> {
        let slots = self.geometry.slots();
        for slot in (slot..slots).chain(0..slot.min(slots)) {
            let (number, at) = self.geometry.slot(slot);
            if self.page(tx, number)?.row(at).is_none() {
                return Ok(slot);
            }
        }
        Err(self.corrupt("a table without an empty slot", 0))
    }

    fn replace<T: Tx + ?Sized>(&mut self, tx: &mut T, key: u64) -> Result<()> {
        let (old, row) = self.find(tx, key)?;
        let (number, at) = self.geometry.slot(old);
        self.page(tx, number)?.set_row(at, None);
        let begin = self.pages[0].field(NEXT);
        let slot = self.free_slot(tx, begin)?;
        let ever = self.pages[0].field(EVER).wrapping_add(1);
        let mut new = Row { number: ever.max(1), key: key_bytes(key), value: [0; VALUE] };
        payload::fill(key, payload::version_of(&row.value).wrapping_add(1), &mut new.value);
        let (number, at) = self.geometry.slot(slot);
        self.page(tx, number)?.set_row(at, Some(new));
        let (number, at) = self.geometry.entry(key);
        self.page(tx, number)?.set_entry(at, new.key, slot);
        self.pages[0].set_field(EVER, ever);
        self.pages[0].set_field(NEXT, slot + 1);
        Ok(())
    }

    /// Writes the changed pages, in the order of their numbers.
    fn commit<T: Tx + ?Sized>(&mut self, tx: &mut T) -> Result<()> {
        let change = self.pages[0].change().wrapping_add(1);
        self.pages.sort_unstable_by_key(|page| page.number);
        let mut changed = self.pages.iter_mut().filter(|page| page.is_changed());
        changed.try_for_each(|page| page.write(tx, self.file, change))
    }
}

/// Replaces each key's row in turn, in one change.
///
/// # Errors
/// As the transaction's reads and writes; `Corrupt` where a page is damaged.
pub fn replace<T: Tx + ?Sized>(tx: &mut T, file: u64, keys: &[u64]) -> Result<()> {
    let mut pager = Pager::open(tx, file)?;
    keys.iter().try_for_each(|key| pager.replace(tx, *key))?;
    pager.commit(tx)
}

/// Allocates the file of `rows` rows, with pages that are all zero, and sets its root.
///
/// # Errors
/// As [`Tx::allocate`].
pub fn create<T: Tx + ?Sized>(tx: &mut T, rows: u64) -> Result<u64> {
    let at = zeroed::allocate(tx, Geometry { rows }.pages() * PAGE)?;
    tx.set_root(ROOT, Root { at, kind: KIND })?;
    Ok(at)
}

/// The pages of `rows` rows as they are loaded, the first page last, so that an incomplete load has no first page.
/// Rows lie in random order, in every second slot.
pub fn initial(rows: u64) -> impl Iterator<Item = InitialPage> {
    let (geometry, order) = (Geometry { rows }, shuffled(rows));
    let mut slots = vec![0; rows as usize];
    for (place, key) in (0..).zip(&order) {
        slots[*key as usize] = slot_of(place);
    }
    let (index, table) = (geometry.index_pages(), geometry.table_pages());
    let index = (1..=index).map(move |number| {
        let mut page = Page::new(number);
        let keys = (0..rows).skip(((number - 1) * page::ENTRIES) as usize);
        for key in keys.take(page::ENTRIES as usize) {
            page.set_entry(geometry.entry(key).1, key_bytes(key), slots[key as usize]);
        }
        page
    });
    let first_table = 1 + geometry.index_pages();
    let table = (0..table).map(move |table| {
        let mut page = Page::new(first_table + table);
        let places = table * FILL..((table + 1) * FILL).min(rows);
        for place in places {
            let key = order[place as usize];
            let mut value = [0; VALUE];
            payload::fill(key, 0, &mut value);
            let row = Row { number: place + 1, key: key_bytes(key), value };
            page.set_row(geometry.slot(slot_of(place)).1, Some(row));
        }
        page
    });
    let mut first = Page::new(0);
    first.set_field(ROWS, rows);
    first.set_field(EVER, rows);
    index.chain(table).chain(std::iter::once(first)).map(InitialPage)
}

/// The slot of the row at this place of the loaded order.
fn slot_of(place: u64) -> u64 {
    place * (SLOTS / FILL)
}

/// A page of the first change.
#[derive(Debug)]
pub struct InitialPage(Page);

impl InitialPage {
    /// Writes it into the file.
    ///
    /// # Errors
    /// As the transaction's writes.
    pub fn write<T: Tx + ?Sized>(&mut self, tx: &mut T, file: u64) -> Result<()> {
        self.0.write(tx, file, 1)
    }
}

/// Checks all pages, and calls `row` with each key and version. Returns how many changes there have been; 0 if
/// not all of it has been loaded.
///
/// # Errors
/// `Corrupt` where pages do not agree; the errors of `row`.
pub fn check<T: Tx + ?Sized>(
    tx: &mut T,
    file: u64,
    row: &mut dyn FnMut(u64, u64) -> Result<()>,
) -> Result<u64> {
    let mut first = [0; PAGE as usize];
    tx.read_bytes(file, &mut first)?;
    if first == [0; PAGE as usize] {
        return Ok(0);
    }
    let mut pager = Pager::open(tx, file)?;
    let (geometry, changes) = (pager.geometry, pager.pages[0].change());
    let (mut keys, mut rows) = (0, 0);
    for number in 1..geometry.pages() {
        pager.pages.truncate(1);
        let page = pager.page(tx, number)?;
        if page.change() == 0 || page.change() > changes {
            return Err(pager.corrupt("a page of a change that has not been", number));
        }
        let (is_index, count) = (number <= geometry.index_pages(), page.count());
        let found = match is_index {
            true => (0..page::ENTRIES)
                .filter(|entry| page.entry(geometry.entry(*entry).1).is_some())
                .count(),
            false => (0..SLOTS).filter(|slot| page.row(geometry.slot(*slot).1).is_some()).count(),
        };
        if found as u64 != count {
            return Err(pager.corrupt("a page of more or fewer rows than it counts", number));
        }
        *if is_index { &mut keys } else { &mut rows } += count;
    }
    if (keys, rows) != (geometry.rows, geometry.rows) {
        return Err(pager.corrupt("a table of more or fewer rows than its first page says", 0));
    }
    // As many rows as keys, and each key leads to one of its own: so there are no others.
    for key in 0..geometry.rows {
        pager.pages.truncate(1);
        let (_, found) = pager.find(tx, key)?;
        row(key, payload::version_of(&found.value))?;
    }
    Ok(changes)
}

/// Checks all pages, and reports the file to `visit`.
pub(crate) fn check_blocks(tx: &mut dyn Tx, file: u64, visit: &mut Visit<'_>) -> Result<()> {
    visit(file)?;
    check(tx, file, &mut |_, _| Ok(())).map(drop)
}

/// The workload.
#[derive(Debug)]
pub struct Pages {
    rows: u64,
    per_transaction: usize,
    /// How often each key has been written since the load.
    versions: Vec<AtomicU64>,
    committed: AtomicU64,
}

impl Pages {
    /// `rows` rows, of which a transaction replaces `per_transaction`.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(rows: u64, per_transaction: usize) -> Outcome<Self> {
        if rows == 0 || rows > 1 << 32 || per_transaction == 0 {
            let what =
                "writing pages needs a row at least (and 2^32 at most), and one in a transaction";
            return Err(Failure::Parameters(what.to_owned()));
        }
        let versions = (0..rows).map(|_| AtomicU64::new(0)).collect();
        Ok(Pages { rows, per_transaction, versions, committed: AtomicU64::new(0) })
    }

    fn file<S: Session>(session: &mut S) -> Outcome<u64> {
        let root = session.read(|tx| tx.root(ROOT))?;
        root.map(|root| root.at).ok_or_else(|| Failure::wrong("the pages' root is gone"))
    }

    /// Draws keys into `keys`.
    fn draw(&self, random: &mut Random, keys: &mut [u64]) {
        keys.fill_with(|| random.below(self.rows));
    }
}

impl Listed for Pages {
    const ROW: list::Row = list::Row {
        name: "sqlite-pages",
        line: "rows replaced in pages of 1 KiB, as SQLite writes them",
        parameters: &[
            list::entries("rows, of a key of 16 bytes and a value of 100", 65_536),
            list::ops_per_tx("rows replaced in a transaction", 8),
        ],
        operations: |_| 200_000,
        rolls_back: |_| false,
        roots: &[(KIND, check_blocks)],
    };

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let rows = given.entries();
        Ok(code.run(Pages::new(rows, given.ops_per_tx())?, bytes(rows)))
    }
}

impl Workload for Pages {
    const KINDS: &'static [&'static str] = &["replace"];

    fn load_size(&self) -> u64 {
        Geometry { rows: self.rows }.pages()
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let file = session.transaction(|tx| create(tx, self.rows))?;
        let mut pages = initial(self.rows).peekable();
        while pages.peek().is_some() {
            let mut some: Vec<_> = pages.by_ref().take(LOAD_PAGES).collect();
            session.transaction(|tx| some.iter_mut().try_for_each(|page| page.write(tx, file)))?;
            progress.loaded(some.len() as u64)?;
        }
        Ok(())
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let file = Self::file(session)?;
        let mut keys = vec![0; self.per_transaction];
        for _ in 0..share.operations {
            if !recorder.go_on() {
                break;
            }
            // Drawn outside: the body may run more than once.
            self.draw(&mut share.random, &mut keys);
            recorder.operation(0, || session.transaction(|tx| replace(tx, file, &keys)))?;
            self.committed.fetch_add(1, Ordering::Relaxed);
            for key in &keys {
                self.versions[*key as usize].fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let file = Self::file(session)?;
        let (changes, versions) = session.read(|tx| {
            let mut versions = vec![0; self.rows as usize];
            let changes = check(tx, file, &mut |key, version| {
                if let Some(place) = versions.get_mut(key as usize) {
                    *place = version;
                }
                Ok(())
            })?;
            Ok((changes, versions))
        })?;
        let committed = 1 + self.committed.load(Ordering::Relaxed);
        if changes != committed {
            let what = format!("the pages count {changes} changes, {committed} were committed");
            return Err(Failure::Wrong(what));
        }
        for (key, (found, expected)) in versions.iter().zip(&self.versions).enumerate() {
            let expected = expected.load(Ordering::Relaxed);
            if *found != expected {
                let what = format!("key {key} has version {found}, and should have {expected}");
                return Err(Failure::Wrong(what));
            }
        }
        Ok(())
    }
}
