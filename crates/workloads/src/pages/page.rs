//! Pages as they lie in the file, and a transaction's copies of them in memory.
//!
//! ```text
//! page    number, change that wrote it last, rows in it, checksum of everything else
//! first   of the head: changes so far, 0 rows; then rows, rows ever written, slot where the search for room begins
//! index   28 entries: key, slot of its row + 1
//! table   8 slots: number of the row (0: empty), key, value
//! ```

use perdura::{Error, Result, Tx};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of a page: the default of SQLite 3.7.17, and of LevelDB's benchmark of it.
pub const PAGE: u64 = 1024;
const WORD: usize = 8;
const HEAD: usize = 4 * WORD;
const CHANGE: usize = WORD;
const COUNT: usize = 2 * WORD;
const CHECKSUM: usize = 3 * WORD;

/// Entries of an index page: as full as random inserts leave the leaves of a B-tree, of 41 that fit.
pub(super) const ENTRIES: u64 = 28;
/// Slots of a table page.
pub(super) const SLOTS: u64 = 8;
/// Rows in a table page on the average: SQLite joins pages only when they are less than a third full.
pub(super) const FILL: u64 = 4;

pub(super) const KEY: usize = 16;
pub(super) const VALUE: usize = 100;
const ENTRY: usize = KEY + WORD;
const SLOT: usize = WORD + KEY + VALUE;

/// The bytes of a page.
pub(super) type Bytes = [u8; PAGE as usize];

fn word(bytes: &Bytes, at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + WORD].try_into().expect("eight bytes"))
}

fn put(bytes: &mut Bytes, at: usize, word: u64) {
    bytes[at..at + WORD].copy_from_slice(&word.to_le_bytes());
}

/// A key as LevelDB's benchmarks write it: sixteen digits.
pub(super) fn key_bytes(key: u64) -> [u8; KEY] {
    let (mut digits, mut rest) = ([b'0'; KEY], key);
    for digit in digits.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    digits
}

/// Where pages are: a first one, index pages, table pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) rows: u64,
}

impl Geometry {
    pub(super) fn index_pages(self) -> u64 {
        self.rows.div_ceil(ENTRIES)
    }

    /// At least two, so that there always is an empty slot.
    pub(super) fn table_pages(self) -> u64 {
        self.rows.div_ceil(FILL).max(2)
    }

    pub(super) fn slots(self) -> u64 {
        self.table_pages() * SLOTS
    }

    pub(super) fn pages(self) -> u64 {
        1 + self.index_pages() + self.table_pages()
    }

    pub(super) fn entry(self, key: u64) -> (u64, usize) {
        (1 + key / ENTRIES, HEAD + (key % ENTRIES) as usize * ENTRY)
    }

    pub(super) fn slot(self, slot: u64) -> (u64, usize) {
        (1 + self.index_pages() + slot / SLOTS, HEAD + (slot % SLOTS) as usize * SLOT)
    }
}

/// The contents of a table page's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// From 1 on.
    pub(super) number: u64,
    pub(super) key: [u8; KEY],
    pub(super) value: [u8; VALUE],
}

/// A page in memory.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) number: u64,
    pub(super) bytes: Bytes,
    changed: bool,
}

impl Page {
    /// An empty one.
    pub(super) fn new(number: u64) -> Self {
        let mut bytes = [0; PAGE as usize];
        put(&mut bytes, 0, number);
        Page { number, bytes, changed: true }
    }

    pub(super) fn change(&self) -> u64 {
        word(&self.bytes, CHANGE)
    }

    pub(super) fn count(&self) -> u64 {
        word(&self.bytes, COUNT)
    }

    /// The `index`th word after the head.
    pub(super) fn field(&self, index: usize) -> u64 {
        word(&self.bytes, HEAD + index * WORD)
    }

    pub(super) fn set_field(&mut self, index: usize, value: u64) {
        put(&mut self.bytes, HEAD + index * WORD, value);
        self.changed = true;
    }

    fn set_count(&mut self, count: u64) {
        put(&mut self.bytes, COUNT, count);
        self.changed = true;
    }

    /// The key and slot of the entry there, if it is not empty.
    pub(super) fn entry(&self, at: usize) -> Option<([u8; KEY], u64)> {
        let slot = word(&self.bytes, at + KEY).checked_sub(1)?;
        Some((self.bytes[at..at + KEY].try_into().expect("a key"), slot))
    }

    pub(super) fn set_entry(&mut self, at: usize, key: [u8; KEY], slot: u64) {
        if self.entry(at).is_none() {
            self.set_count(self.count() + 1);
        }
        self.bytes[at..at + KEY].copy_from_slice(&key);
        put(&mut self.bytes, at + KEY, slot + 1);
        self.changed = true;
    }

    pub(super) fn row(&self, at: usize) -> Option<Row> {
        let number = word(&self.bytes, at);
        let (key, value) = self.bytes[at + WORD..at + SLOT].split_at(KEY);
        let row = Row {
            number,
            key: key.try_into().expect("a key"),
            value: value.try_into().expect("a value"),
        };
        (number != 0).then_some(row)
    }

    /// Fills or empties a slot.
    pub(super) fn set_row(&mut self, at: usize, row: Option<Row>) {
        let before = u64::from(self.row(at).is_some());
        self.bytes[at..at + SLOT].fill(0);
        if let Some(Row { number, key, value }) = row {
            put(&mut self.bytes, at, number);
            self.bytes[at + WORD..at + WORD + KEY].copy_from_slice(&key);
            self.bytes[at + WORD + KEY..at + SLOT].copy_from_slice(&value);
        }
        self.set_count((self.count() + u64::from(row.is_some())).wrapping_sub(before));
    }

    fn checksum(&self) -> u64 {
        let mut bytes = self.bytes;
        put(&mut bytes, CHECKSUM, 0);
        xxh3_64_with_seed(&bytes, self.number)
    }

    /// Reads the page of this number of the file at `file`, and checks that it is that and whole.
    pub(super) fn read<T: Tx + ?Sized>(tx: &mut T, file: u64, number: u64) -> Result<Self> {
        let at = file.wrapping_add(number.wrapping_mul(PAGE));
        let mut page = Page { number, bytes: [0; PAGE as usize], changed: false };
        tx.read_bytes(at, &mut page.bytes)?;
        if word(&page.bytes, 0) != number || word(&page.bytes, CHECKSUM) != page.checksum() {
            return Err(Error::corrupt("a page whose checksum is wrong", at));
        }
        Ok(page)
    }

    /// Writes the whole page as part of this change.
    pub(super) fn write<T: Tx + ?Sized>(
        &mut self,
        tx: &mut T,
        file: u64,
        change: u64,
    ) -> Result<()> {
        put(&mut self.bytes, CHANGE, change);
        let checksum = self.checksum();
        put(&mut self.bytes, CHECKSUM, checksum);
        tx.write_bytes(file.wrapping_add(self.number * PAGE), &self.bytes)
    }

    pub(super) fn is_changed(&self) -> bool {
        self.changed
    }
}
