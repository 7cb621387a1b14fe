//! A table of tuples in one of three storages.
//!
//! ```text
//! root    storage, tuples, fields, bytes of a field, children of a page, index
//! index   in-place, log: an ordered map from keys; copy-on-write: the top page
//! page    children: pages, or tuples in the lowest pages; a key's digits lead to its tuple
//! tuple   in-place, copy-on-write: key, its fields, each a block of its own
//! entry   log: the entry before or 0, entries up to this one, key, the fields' bytes
//! ```
//!
//! An update gives all fields of a tuple new values. *In-place* puts new blocks into the tuple. *Copy-on-write* makes a
//! new tuple, and a copy of each page on the way to it; the root's word then leads to the new ones. *Log* appends an
//! entry, and frees those before when there are [`MERGE`]. Atomicity and durability are those of the transaction.

use crate::payload;
use crate::{Failure, Outcome};
use perdura::collections::{OrderedMap, Visit};
use perdura::{Error, Purpose, Result, Root, Tx};

/// The kind of this workload's roots.
pub(crate) const KIND: u32 = 2_024;
const WORD: u64 = 8;
/// Words of the root.
const WORDS: usize = 6;
/// Offset of the index's word.
const INDEX: u64 = 5 * WORD;
/// Bytes of an entry before its fields.
const ENTRY: u64 = 3 * WORD;
/// Entries of a tuple that are merged into the newest one.
pub const MERGE: u64 = 4;
/// The maximum number of fields, and of children of a page.
const MOST: u64 = 512;

type Index = OrderedMap<u64, u64>;

/// How tuples are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Fields are replaced in the tuple.
    InPlace,
    /// A new tuple, and new pages above it.
    CopyOnWrite,
    /// A new entry before those of earlier updates.
    Log,
}

impl Storage {
    /// All of them.
    pub const ALL: [Storage; 3] = [Storage::InPlace, Storage::CopyOnWrite, Storage::Log];

    /// Their names.
    pub const NAMES: [&str; 3] = ["in-place", "copy-on-write", "log"];

    /// Its name.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The sizes of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How tuples are stored.
    pub storage: Storage,
    /// Tuples, with keys from 0 on.
    pub tuples: u64,
    /// Fields of a tuple.
    pub fields: u64,
    /// Bytes of a field, 8 or more.
    pub field_bytes: u64,
    /// Children of a page.
    pub fanout: u64,
}

impl Layout {
    fn is_sound(&self) -> bool {
        (1..=1 << 40).contains(&self.tuples)
            && (1..=MOST).contains(&self.fields)
            && (8..=1 << 16).contains(&self.field_bytes)
            && (2..=MOST).contains(&self.fanout)
    }

    /// Whether there can be such a table.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn validate(&self) -> Outcome {
        if self.is_sound() {
            return Ok(());
        }
        let what = "N-Store needs a tuple, 1 to 512 fields, and 8 to 65,536 bytes in each";
        Err(Failure::Parameters(what.to_owned()))
    }

    /// The height of the pages: 0 if one page has all tuples.
    fn height(&self) -> u32 {
        let (mut height, mut tuples) = (0, self.fanout);
        while tuples < self.tuples {
            (height, tuples) = (height + 1, tuples.saturating_mul(self.fanout));
        }
        height
    }

    /// The child of a page of this height that leads to the key.
    const fn digit(&self, key: u64, height: u32) -> u64 {
        key / self.fanout.pow(height) % self.fanout
    }
}

/// A table.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    at: u64,
    layout: Layout,
}

fn root_name(storage: Storage) -> String {
    format!("bench.n-store.{}", storage.name())
}

#[cold]
fn missing(key: u64) -> Error {
    Error::corrupt("a tuple of N-Store that is missing", key)
}

#[cold]
fn torn(at: u64) -> Error {
    Error::corrupt("a tuple of N-Store with other bytes than were written", at)
}

fn read_words<T: Tx + ?Sized>(tx: &mut T, at: u64, words: &mut [u64]) -> Result<()> {
    tx.read_bytes(at, bytemuck::cast_slice_mut(words))
}

fn new_words<T: Tx + ?Sized>(tx: &mut T, words: &[u64]) -> Result<u64> {
    let new = tx.allocate(Purpose::General, words.len() as u64 * WORD)?;
    tx.write_fresh(new, 0, bytemuck::cast_slice(words))?;
    Ok(new.at())
}

impl Table {
    /// Makes a table whose tuples are still to be [inserted](Table::insert).
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    pub fn create<T: Tx + ?Sized>(tx: &mut T, layout: Layout) -> Result<Self> {
        let Layout { storage, tuples, fields, field_bytes, fanout } = layout;
        let index = match storage {
            Storage::InPlace | Storage::Log => Index::create(tx)?.at(),
            Storage::CopyOnWrite => Self::create_pages(tx, layout, tuples, layout.height())?,
        };
        let words: [u64; WORDS] = [storage as u64, tuples, fields, field_bytes, fanout, index];
        let at = new_words(tx, &words)?;
        tx.set_root(&root_name(storage), Root { at, kind: KIND })?;
        Ok(Table { at, layout })
    }

    fn create_pages<T: Tx + ?Sized>(
        tx: &mut T,
        layout: Layout,
        tuples: u64,
        height: u32,
    ) -> Result<u64> {
        let mut children = vec![0; layout.fanout as usize];
        if height > 0 {
            let full = layout.fanout.pow(height);
            for (child, first) in children.iter_mut().zip((0..tuples).step_by(full as usize)) {
                *child = Self::create_pages(tx, layout, full.min(tuples - first), height - 1)?;
            }
        }
        new_words(tx, &children)
    }

    /// The pool's table in this storage, if it has one.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged; as the transaction.
    pub fn find<T: Tx + ?Sized>(tx: &mut T, storage: Storage) -> Result<Option<Self>> {
        match tx.root(&root_name(storage))? {
            Some(root) => Self::at(tx, root.at).map(Some),
            None => Ok(None),
        }
    }

    fn at<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<Self> {
        let mut words = [0; WORDS];
        read_words(tx, at, &mut words)?;
        let [storage, tuples, fields, field_bytes, fanout, _] = words;
        let storage = Storage::ALL.into_iter().find(|own| *own as u64 == storage);
        let layout = storage.map(|storage| Layout { storage, tuples, fields, field_bytes, fanout });
        match layout.filter(Layout::is_sound) {
            Some(layout) => Ok(Table { at, layout }),
            None => Err(Error::corrupt("a table of N-Store with impossible sizes", at)),
        }
    }

    /// Its sizes.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    fn index<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<Index> {
        Ok(Index::new(tx.read_word(self.at + INDEX)?))
    }

    /// Inserts a tuple that is not there, of version 0.
    ///
    /// # Errors
    /// As the transaction.
    pub fn insert<T: Tx + ?Sized>(&self, tx: &mut T, key: u64) -> Result<()> {
        match self.layout.storage {
            Storage::InPlace => {
                let new = self.new_tuple(tx, key, 0)?;
                self.index(tx)?.set(tx, key, new).map(drop)
            }
            Storage::Log => {
                let new = self.new_entry(tx, key, 0, [0, 1])?;
                self.index(tx)?.set(tx, key, new).map(drop)
            }
            Storage::CopyOnWrite => {
                let new = self.new_tuple(tx, key, 0)?;
                let place = self.place(tx, key)?;
                tx.write_word(place, new)
            }
        }
    }

    /// Where the lowest page has the key's tuple.
    fn place<T: Tx + ?Sized>(&self, tx: &mut T, key: u64) -> Result<u64> {
        let mut place = self.at + INDEX;
        for height in (0..=self.layout.height()).rev() {
            place = tx.read_word(place)?.wrapping_add(self.layout.digit(key, height) * WORD);
        }
        Ok(place)
    }

    /// The key's tuple or newest entry.
    fn tuple<T: Tx + ?Sized>(&self, tx: &mut T, key: u64) -> Result<u64> {
        let at = match self.layout.storage {
            Storage::InPlace | Storage::Log => self.index(tx)?.get(tx, key)?.unwrap_or(0),
            Storage::CopyOnWrite => {
                let place = self.place(tx, key)?;
                tx.read_word(place)?
            }
        };
        if at == 0 { Err(missing(key)) } else { Ok(at) }
    }

    /// What tells apart the fields of all tuples.
    const fn identity(key: u64, field: u64) -> u64 {
        key << 10 | field
    }

    fn new_field<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        (key, field): (u64, u64),
        version: u64,
    ) -> Result<u64> {
        let mut bytes = vec![0; self.layout.field_bytes as usize];
        payload::fill(Self::identity(key, field), version, &mut bytes);
        let new = tx.allocate(Purpose::Value, self.layout.field_bytes)?;
        tx.write_fresh(new, 0, &bytes)?;
        Ok(new.at())
    }

    fn new_tuple<T: Tx + ?Sized>(&self, tx: &mut T, key: u64, version: u64) -> Result<u64> {
        let mut words = vec![key];
        for field in 0..self.layout.fields {
            words.push(self.new_field(tx, (key, field), version)?);
        }
        new_words(tx, &words)
    }

    /// `before`: the entry before this one, and the number of entries with it.
    fn new_entry<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        key: u64,
        version: u64,
        [previous, entries]: [u64; 2],
    ) -> Result<u64> {
        let Layout { fields, field_bytes, .. } = self.layout;
        let mut bytes = [previous, entries, key].map(u64::to_ne_bytes).as_flattened().to_vec();
        for field in 0..fields {
            let first = bytes.len();
            bytes.resize(first + field_bytes as usize, 0);
            payload::fill(Self::identity(key, field), version, &mut bytes[first..]);
        }
        let new = tx.allocate(Purpose::Log, bytes.len() as u64)?;
        tx.write_fresh(new, 0, &bytes)?;
        Ok(new.at())
    }

    /// Reads a tuple. Returns its version, which every byte of its fields must have.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged or missing; as the transaction.
    pub fn read<T: Tx + ?Sized>(&self, tx: &mut T, key: u64) -> Result<u64> {
        let at = self.tuple(tx, key)?;
        let Layout { storage, fields, field_bytes, .. } = self.layout;
        let (mut bytes, mut found) = (vec![0; field_bytes as usize], None);
        let stored = match storage {
            Storage::InPlace | Storage::CopyOnWrite => tx.read_word(at)?,
            Storage::Log => tx.read_word(at + 2 * WORD)?,
        };
        if stored != key {
            return Err(torn(at));
        }
        for field in 0..fields {
            let place = match storage {
                Storage::InPlace | Storage::CopyOnWrite => tx.read_word(at + (1 + field) * WORD)?,
                Storage::Log => at + ENTRY + field * field_bytes,
            };
            tx.read_bytes(place, &mut bytes)?;
            let version = payload::verify(Self::identity(key, field), &bytes);
            if version.is_none() || found.is_some_and(|found| Some(found) != version) {
                return Err(torn(at));
            }
            found = version;
        }
        found.ok_or_else(|| torn(at))
    }

    /// Gives all fields of a tuple the values of its next version.
    ///
    /// # Errors
    /// `Corrupt` if it is missing; as the transaction.
    pub fn update<T: Tx + ?Sized>(&self, tx: &mut T, key: u64) -> Result<()> {
        match self.layout.storage {
            Storage::InPlace => self.update_in_place(tx, key),
            Storage::CopyOnWrite => {
                let top = tx.read_word(self.at + INDEX)?;
                let new = self.copy_page(tx, top, self.layout.height(), key)?;
                tx.write_word(self.at + INDEX, new)
            }
            Storage::Log => self.append(tx, key),
        }
    }

    fn update_in_place<T: Tx + ?Sized>(&self, tx: &mut T, key: u64) -> Result<()> {
        let at = self.tuple(tx, key)?;
        let first = tx.read_word(at + WORD)?;
        let version = Self::version(tx, first)?.wrapping_add(1);
        for field in 0..self.layout.fields {
            let place = at + (1 + field) * WORD;
            let old = tx.read_word(place)?;
            let new = self.new_field(tx, (key, field), version)?;
            tx.write_word(place, new)?;
            tx.free(old)?;
        }
        Ok(())
    }

    /// The version of the field at `at`.
    fn version<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        tx.read_bytes(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Copies a page, with a copy of the child that leads to the key, and frees the old ones. Returns the new page.
    fn copy_page<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        page: u64,
        height: u32,
        key: u64,
    ) -> Result<u64> {
        let mut children = vec![0; self.layout.fanout as usize];
        read_words(tx, page, &mut children)?;
        let child = &mut children[self.layout.digit(key, height) as usize];
        *child = match (*child, height) {
            (0, _) => return Err(missing(key)),
            (old, 0) => self.copy_tuple(tx, old, key)?,
            (old, _) => self.copy_page(tx, old, height - 1, key)?,
        };
        let new = new_words(tx, &children)?;
        tx.free(page)?;
        Ok(new)
    }

    fn copy_tuple<T: Tx + ?Sized>(&self, tx: &mut T, old: u64, key: u64) -> Result<u64> {
        let mut words = vec![0; 1 + self.layout.fields as usize];
        read_words(tx, old, &mut words)?;
        let version = Self::version(tx, words[1])?.wrapping_add(1);
        let new = self.new_tuple(tx, key, version)?;
        for field in &words[1..] {
            tx.free(*field)?;
        }
        tx.free(old)?;
        Ok(new)
    }

    fn append<T: Tx + ?Sized>(&self, tx: &mut T, key: u64) -> Result<()> {
        let newest = self.tuple(tx, key)?;
        let version = Self::version(tx, newest + ENTRY)?.wrapping_add(1);
        let entries = tx.read_word(newest + WORD)?;
        let before = if entries < MERGE { [newest, entries + 1] } else { [0, 1] };
        let new = self.new_entry(tx, key, version, before)?;
        self.index(tx)?.set(tx, key, new)?;
        if entries >= MERGE {
            self.entries(tx, newest)?.into_iter().try_for_each(|entry| tx.free(entry))?;
        }
        Ok(())
    }

    /// The entry at `at` and those before it.
    fn entries<T: Tx + ?Sized>(&self, tx: &mut T, at: u64) -> Result<Vec<u64>> {
        let (mut entries, mut at) = (Vec::new(), at);
        while at != 0 {
            if entries.len() as u64 >= MERGE {
                return Err(Error::corrupt("more entries of N-Store than are merged", at));
            }
            entries.push(at);
            at = tx.read_word(at)?;
        }
        let newest = entries.first().map_or(Ok(0), |newest| tx.read_word(newest + WORD))?;
        if newest != entries.len() as u64 {
            return Err(Error::corrupt("an entry of N-Store that lacks some before it", newest));
        }
        Ok(entries)
    }

    /// Tuples that its index leads to.
    ///
    /// # Errors
    /// As the transaction.
    pub(super) fn len<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<u64> {
        match self.layout.storage {
            Storage::InPlace | Storage::Log => {
                let index = self.index(tx)?;
                index.len(tx)
            }
            Storage::CopyOnWrite => Ok(self.layout.tuples),
        }
    }

    /// Reports all blocks below the root to `visit`.
    fn visit(&self, tx: &mut dyn Tx, visit: &mut Visit<'_>) -> Result<()> {
        visit(self.at)?;
        let mut tuples = Vec::new();
        if self.layout.storage == Storage::CopyOnWrite {
            let top = tx.read_word(self.at + INDEX)?;
            self.visit_pages(tx, top, self.layout.height(), &mut tuples, visit)?;
        } else {
            let index = self.index(tx)?;
            index.check(tx, visit)?;
            index.for_each(tx, &mut |_, tuple| {
                tuples.push(tuple);
                Ok(())
            })?;
        }
        for tuple in tuples {
            if self.layout.storage == Storage::Log {
                self.entries(tx, tuple)?.into_iter().try_for_each(&mut *visit)?;
                continue;
            }
            visit(tuple)?;
            let mut words = vec![0; 1 + self.layout.fields as usize];
            read_words(tx, tuple, &mut words)?;
            words[1..].iter().try_for_each(|field| visit(*field))?;
        }
        Ok(())
    }

    fn visit_pages(
        &self,
        tx: &mut dyn Tx,
        page: u64,
        height: u32,
        tuples: &mut Vec<u64>,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        visit(page)?;
        let mut children = vec![0; self.layout.fanout as usize];
        read_words(tx, page, &mut children)?;
        children.retain(|child| *child != 0);
        if height == 0 {
            tuples.append(&mut children);
            return Ok(());
        }
        children
            .into_iter()
            .try_for_each(|child| self.visit_pages(tx, child, height - 1, tuples, visit))
    }
}

/// Reports a table's blocks to `visit`.
pub(crate) fn check_blocks(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    Table::at(tx, at)?.visit(tx, visit)
}
