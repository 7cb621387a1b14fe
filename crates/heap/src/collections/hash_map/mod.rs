//! A hash map that grows and shrinks one bucket at a time, with its entries inside cache-line sized buckets.

mod ahead;
mod count;
mod iter;
mod resize;
mod table;
mod untyped;
mod walk;

use self::table::{BlockHead, COUNTED as COUNTED_FLAG, Counting, LANED, SEED};
use super::codec::Item;
use super::form::{Form, mix};
use super::tag::{Expected, Tag};
use super::{Visit, kind};
use crate::{Error, Ptr, Purpose, Result, Tx};
pub use ahead::{Announcer, Hint};
pub use iter::Iter;
use std::fmt;
use std::marker::PhantomData;
pub(super) use table::{Shape, Table};
pub(super) use untyped::{create_untyped, flags, flags_of, is_counted, is_known};

/// A hash map: a handle to it.
///
/// `K` and `V` say how keys and values are stored ([`Item`]): `HashMap<u64, u64>`,
/// `HashMap<Bytes, Bytes>`, `HashMap<Bytes<3>, MyPod>`; `HashMap<K, ()>` is a set.
///
/// In addition to the errors listed for each operation, all fail with `WrongType` if the header is that of another
/// collection, or of one with other types, and with `Misuse` if there is no header.
///
/// Without `COUNTED`, insertions and removals write one line less, and [`len`](HashMap::len) walks the map. A large
/// map counts its entries in several places, so that different sessions do not all write the same line.
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::TxExt;
/// use perdura::collections::{Bytes, HashMap};
///
/// let ages = tx.open_or_create::<HashMap<Bytes, u64>>("ages")?;
/// assert_eq!(ages.insert(tx, b"ada", 35)?, None);
/// assert_eq!(ages.insert(tx, b"ada", 36)?, Some(35));
/// assert_eq!(ages.get(tx, b"ada")?, Some(36));
/// assert_eq!(ages.remove(tx, b"grace")?, None);
/// assert_eq!(ages.len(tx)?, 1);
/// # Ok(())
/// # }).unwrap();
/// ```
pub struct HashMap<K, V, const COUNTED: bool = true> {
    at: u64,
    /// The identifier of the pool that the handle was made in; 0 if unknown.
    pool: u64,
    of: PhantomData<fn() -> (K, V)>,
}

impl<K, V, const COUNTED: bool> Clone for HashMap<K, V, COUNTED> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V, const COUNTED: bool> Copy for HashMap<K, V, COUNTED> {}
impl<K, V, const COUNTED: bool> fmt::Debug for HashMap<K, V, COUNTED> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashMap({:#x})", self.at)
    }
}

/// Where a key is, or would be inserted.
struct KeyPlace {
    bucket: u64,
    /// The last block read, and its first word: the block with the key, or else the chain's last.
    block: u64,
    meta: BlockHead,
    /// The slot that holds the key.
    slot: Option<u64>,
    /// Whether the block is the bucket's first.
    is_first: bool,
}

impl<K: Item, V: Item, const COUNTED: bool> HashMap<K, V, COUNTED> {
    const SHAPE: Shape = Shape::of(K::FORM, V::FORM);
    const VALUE: u64 = K::FORM.bytes();
    const TAG: u64 = Self::tag(if COUNTED { COUNTED_FLAG } else { 0 });
    /// The tag of a map that counts in lanes.
    const LANED_TAG: u64 = Self::tag(COUNTED_FLAG | LANED);

    const fn tag(flags: u64) -> u64 {
        Tag::of(kind::HASH_MAP, (K::FORM, V::FORM), &[K::TYPE, V::TYPE], flags).word()
    }

    /// The map whose header is at `at`.
    pub const fn new(at: u64) -> Self {
        HashMap { at, pool: 0, of: PhantomData }
    }

    /// The map whose header is at `at`, after a check of its types.
    ///
    /// # Errors
    /// `WrongType` if it is another collection; `Misuse` if there is none.
    pub fn open<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<Self> {
        let map = HashMap { pool: tx.moment().pool, ..Self::new(at) };
        map.table(tx).map(|_| map)
    }

    /// The offset of its header, which a root keeps. Kept elsewhere it is a number to the pool: a check then reports
    /// the collection as reached by an offset, and a copy must keep all offsets (docs/collections.md).
    pub const fn at(self) -> u64 {
        self.at
    }

    /// A new, empty one, whose hashes depend on its place. If keys may come from an attacker, use
    /// [`create_seeded`](HashMap::create_seeded).
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    pub fn create<T: Tx + ?Sized>(tx: &mut T) -> Result<Self> {
        let map = Self::create_seeded(tx, 0)?;
        tx.write_word(map.at + SEED, mix(map.at, 0))?;
        Ok(map)
    }

    /// A new, empty one, whose hashes depend on `seed`.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    pub fn create_seeded<T: Tx + ?Sized>(tx: &mut T, seed: u64) -> Result<Self> {
        let at = Table::create(tx, Self::TAG, seed, Self::SHAPE)?;
        Ok(HashMap { at, pool: tx.moment().pool, of: PhantomData })
    }

    #[inline]
    fn table<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Table> {
        Ok(self.table_and_seed(tx)?.0)
    }

    /// The table, and the seed of its hashes.
    #[inline(always)]
    fn table_and_seed<T: Tx + ?Sized>(self, tx: &mut T) -> Result<(Table, u64)> {
        if Expected::is_elsewhere(self.pool, tx) {
            return Err(self.expected().missing(tx, self.at));
        }
        let mut header = [0; 3];
        tx.read_words(self.at, &mut header)?;
        let [tag, seed, buckets] = header;
        let counting = match tag {
            tag if tag == Self::TAG && COUNTED => Counting::One,
            tag if tag == Self::TAG => Counting::No,
            tag if tag == Self::LANED_TAG && COUNTED => Counting::Lanes,
            _ => return Err(self.expected().missing(tx, self.at)),
        };
        Ok((Table::with(self.at, Self::SHAPE, counting, buckets)?, seed))
    }

    fn expected(self) -> Expected {
        let name = || match COUNTED {
            true => format!("HashMap<{}, {}>", K::TYPE, V::TYPE),
            false => format!("HashMap<{}, {}, false>", K::TYPE, V::TYPE),
        };
        Expected { kind: kind::HASH_MAP, name, pool: self.pool }
    }

    #[inline]
    fn hash<T: Tx + ?Sized>(self, tx: &mut T, key: K::Ref<'_>) -> Result<u64> {
        Ok(K::hash(key, tx.read_word(self.at + SEED)?))
    }

    /// Looks for a key.
    #[inline]
    fn find<T: Tx + ?Sized>(
        tx: &mut T,
        table: &Table,
        hash: u64,
        probe: K::Probe<'_>,
    ) -> Result<KeyPlace> {
        // The same shape, known to the compiler.
        let table = &Table { shape: Self::SHAPE, ..*table };
        let bucket = table.bucket(hash);
        let mut block = table.block(tx, bucket)?;
        table.fetch(tx, block);
        for number in 0..1 << 16 {
            let (meta, is_first) = (table.meta(tx, block)?, number == 0);
            let mut left = meta.used;
            while left != 0 {
                let slot = u64::from(left.trailing_zeros());
                if K::matches(tx, table.slot(block, slot), probe)? {
                    return Ok(KeyPlace { bucket, block, meta, slot: Some(slot), is_first });
                }
                left &= left - 1;
            }
            if meta.next == 0 {
                return Ok(KeyPlace { bucket, block, meta, slot: None, is_first });
            }
            block = meta.next;
        }
        Err(Error::corrupt("a hash map's chain without end", block))
    }

    /// The address of a key's value, if the key is there, to read or write parts of it. It is valid until something is
    /// inserted or removed, or the transaction ends: between transactions the pool may move it.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    #[inline]
    pub fn slot<T: Tx + ?Sized>(self, tx: &mut T, key: K::Ref<'_>) -> Result<Option<Ptr<V>>> {
        let (table, seed) = self.table_and_seed(tx)?;
        let hash = K::hash(key, seed);
        let place = Self::find(tx, &table, hash, K::probe(key, hash))?;
        Ok(place.slot.map(|slot| Ptr::new(table.slot(place.block, slot) + Self::VALUE)))
    }

    /// The value of a key.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    #[inline]
    pub fn get<T: Tx + ?Sized>(self, tx: &mut T, key: K::Ref<'_>) -> Result<Option<V::Owned>> {
        match self.slot(tx, key)? {
            Some(slot) => V::load(tx, slot.at()).map(Some),
            None => Ok(None),
        }
    }

    /// Whether a key is there.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn contains<T: Tx + ?Sized>(self, tx: &mut T, key: K::Ref<'_>) -> Result<bool> {
        Ok(self.slot(tx, key)?.is_some())
    }

    /// Inserts a key, or replaces its value; returns the old value.
    ///
    /// # Errors
    /// As [`Tx::allocate`]; `Corrupt` if the map is damaged.
    pub fn insert<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<Option<V::Owned>> {
        self.put::<T, _, true>(tx, key, value, Hint::default(), V::load)
    }

    /// Inserts a key, unless it is there already; returns whether it was inserted. One look, where
    /// [`contains`](HashMap::contains) and [`set`](HashMap::set) take two.
    ///
    /// ```
    /// # perdura::testing::TestHeap::new().run(&mut |tx| {
    /// use perdura::collections::HashMap;
    ///
    /// let first_seen = HashMap::<u64, u64>::create(tx)?;
    /// assert!(first_seen.insert_if_absent(tx, 7, 100)?);
    /// assert!(!first_seen.insert_if_absent(tx, 7, 200)?);
    /// assert_eq!(first_seen.get(tx, 7)?, Some(100));
    /// # Ok(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Tx::allocate`]; `Corrupt` if the map is damaged.
    pub fn insert_if_absent<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<bool> {
        let there = |_: &mut T, _| Ok(());
        Ok(self.put::<T, _, false>(tx, key, value, Hint::default(), there)?.is_none())
    }

    /// As [`insert`](HashMap::insert), but does not read the old value; `true` if there was none.
    ///
    /// # Errors
    /// As [`Tx::allocate`]; `Corrupt` if the map is damaged.
    pub fn set<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<bool> {
        self.set_near(tx, key, value, Hint::default())
    }

    /// Inserts a key; if it is there, returns what `old` makes of its value's place, and replaces the value if it
    /// `REPLACES`.
    fn put<T: Tx + ?Sized, R, const REPLACES: bool>(
        self,
        tx: &mut T,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
        hint: Hint,
        old: impl FnOnce(&mut T, u64) -> Result<R>,
    ) -> Result<Option<R>> {
        let (mut table, seed) = self.table_and_seed(tx)?;
        if let Some(slot) = hint.recall::<K, T>(tx, &table, key)? {
            let at = slot + Self::VALUE;
            let old = old(tx, at)?;
            if REPLACES {
                V::replace(tx, at, V::probe_value(value), Purpose::Value)?;
            }
            return Ok(Some(old));
        }
        let hash = K::hash(key, seed);
        let (key, value) = (K::probe(key, hash), V::probe_value(value));
        let place = Self::find(tx, &table, hash, key)?;
        if let Some(slot) = place.slot {
            let at = table.slot(place.block, slot) + Self::VALUE;
            let old = old(tx, at)?;
            if REPLACES {
                V::replace(tx, at, value, Purpose::Value)?;
            }
            return Ok(Some(old));
        }
        let at = table.take_slot(tx, place.block, place.meta)?;
        K::store(tx, at, key, Purpose::Key)?;
        V::store(tx, at + Self::VALUE, value, Purpose::Value)?;
        table.inserted(tx, hash, table.full(place.meta.used))?;
        Ok(None)
    }

    /// Removes a key; returns its value.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged; `ReadOnly`, `TooLarge`.
    pub fn remove<T: Tx + ?Sized>(self, tx: &mut T, key: K::Ref<'_>) -> Result<Option<V::Owned>> {
        let (mut table, seed) = self.table_and_seed(tx)?;
        let hash = K::hash(key, seed);
        let place = Self::find(tx, &table, hash, K::probe(key, hash))?;
        let Some(slot) = place.slot else { return Ok(None) };
        let at = table.slot(place.block, slot);
        let old = V::load(tx, at + Self::VALUE)?;
        table.release(tx, at)?;
        let meta = BlockHead { used: place.meta.used & !(1 << slot), ..place.meta };
        tx.write_word(place.block, meta.word())?;
        let chained = meta.next != 0 || !place.is_first;
        if chained {
            table.compact(tx, place.bucket)?;
        }
        table.removed(tx, hash, !chained && meta.used == 0)?;
        Ok(Some(old))
    }

    /// The number of entries; in a map that does not count them, by walking it.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn len<T: Tx + ?Sized>(self, tx: &mut T) -> Result<u64> {
        let table = self.table(tx)?;
        table.counted(tx)?.map_or_else(|| table.walk_len(tx), Ok)
    }

    /// Whether there are no entries.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn is_empty<T: Tx + ?Sized>(self, tx: &mut T) -> Result<bool> {
        let table = self.table(tx)?;
        table.counted(tx)?.map_or_else(|| table.walk_is_empty(tx), |count| Ok(count == 0))
    }

    fn load<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<(K::Owned, V::Owned)> {
        Ok((K::load(tx, at)?, V::load(tx, at + Self::VALUE)?))
    }

    /// Some entries, and the cursor to go on with; begin with 0, and stop when 0 is returned. Entries that are in the
    /// map from the first call to the last are returned at least once, whatever is inserted and removed in between.
    /// Returns at least `count` entries, if the next `16 * count` buckets have as many.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    #[allow(clippy::type_complexity)]
    pub fn scan<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        cursor: u64,
        count: u64,
    ) -> Result<(u64, Vec<(K::Owned, V::Owned)>)> {
        let table = self.table(tx)?;
        let (mut cursor, mut found) = (cursor, Vec::new());
        for _ in 0..count.saturating_mul(16).max(1) {
            let bucket = table.bucket(cursor);
            for at in table.entries(tx, bucket)? {
                found.push(Self::load(tx, at)?);
            }
            cursor = table.after(cursor, bucket);
            if cursor == 0 || found.len() as u64 >= count {
                break;
            }
        }
        Ok((cursor, found))
    }

    /// Whether a key's place in the order of [`scan`](HashMap::scan) is before this cursor, 0 being the beginning. An
    /// entry that the scan has passed stays passed, however the map grows and shrinks.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn is_before<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        key: K::Ref<'_>,
        cursor: u64,
    ) -> Result<bool> {
        Ok(self.hash(tx, key)?.reverse_bits() < cursor.reverse_bits())
    }

    /// Iterates over the entries, in no particular order. While the iterator lives, the transaction can do nothing
    /// else; with [`scan`](HashMap::scan) it can.
    ///
    /// ```
    /// use perdura::TxExt;
    /// use perdura::collections::{Bytes, HashMap};
    ///
    /// # perdura::testing::TestHeap::new().run(&mut |tx| {
    /// let ages = tx.open_or_create::<HashMap<Bytes, u64>>("ages")?;
    /// ages.insert(tx, b"ada", 36)?;
    /// ages.insert(tx, b"grace", 85)?;
    /// let mut sum = 0;
    /// for entry in ages.iter(tx)? {
    ///     let (_name, age) = entry?;
    ///     sum += age;
    /// }
    /// assert_eq!(sum, 121);
    /// # Ok(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn iter<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Iter<'_, K, V, T, COUNTED>> {
        Iter::new(tx, self)
    }

    /// Calls `each` with every entry; an error that it returns ends the walk.
    ///
    /// # Errors
    /// The errors of `each`; `Corrupt` if the map is damaged.
    pub fn for_each<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        each: &mut dyn FnMut(K::Owned, V::Owned) -> Result<()>,
    ) -> Result<()> {
        let table = self.table(tx)?;
        table.walk(tx, &mut |tx, at| {
            let (key, value) = Self::load(tx, at)?;
            each(key, value)
        })
    }

    /// An entry that `seed` chooses, roughly with equal chances; `None` if there is none.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    #[allow(clippy::type_complexity)]
    pub fn random<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        seed: u64,
    ) -> Result<Option<(K::Owned, V::Owned)>> {
        let table = self.table(tx)?;
        match table.random(tx, seed)? {
            Some(at) => Self::load(tx, at).map(Some),
            None => Ok(None),
        }
    }

    /// Removes all entries. Destroy a large map in several transactions instead
    /// ([`destroy_some`](HashMap::destroy_some)).
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged; `ReadOnly`, `TooLarge`.
    pub fn clear<T: Tx + ?Sized>(self, tx: &mut T) -> Result<()> {
        self.table(tx)?.clear(tx)
    }

    /// Frees the map and its contents.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged; `ReadOnly`, `TooLarge`.
    pub fn destroy<T: Tx + ?Sized>(self, tx: &mut T) -> Result<()> {
        self.destroy_some(tx, u64::MAX).map(drop)
    }

    /// Frees about `budget` entries and blocks. Returns `true` when all are freed, including the map itself. In
    /// between it is a smaller map.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged; `ReadOnly`, `TooLarge`.
    pub fn destroy_some<T: Tx + ?Sized>(self, tx: &mut T, budget: u64) -> Result<bool> {
        self.table(tx)?.destroy_some(tx, budget)
    }

    /// Reports the blocks that the entry of a key owns: those of a long key and of a long value. Returns whether the
    /// key is there.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged; the errors of `visit`.
    pub fn blocks_of<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        key: K::Ref<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<bool> {
        let Some(value) = self.slot(tx, key)? else { return Ok(false) };
        K::FORM.check(tx, value.at() - Self::VALUE, visit)?;
        V::FORM.check(tx, value.at(), visit)?;
        Ok(true)
    }

    /// Removes about `budget` entries, without looking for them by their keys, and frees their buckets: for a map
    /// whose values refer to more than the map frees. `each` gets the address of an entry's value and frees what the
    /// value refers to; it returns false to keep the entry and end the call. Returns `true` when the map is empty. In
    /// between it is a smaller map.
    ///
    /// # Errors
    /// The errors of `each`; `Corrupt` if the map is damaged; `ReadOnly`, `TooLarge`.
    pub fn drain_some<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        budget: u64,
        each: &mut dyn FnMut(&mut T, Ptr<V>) -> Result<bool>,
    ) -> Result<bool> {
        self.table(tx)?.drain_some(tx, budget, &mut |tx, at| each(tx, Ptr::new(at)))
    }

    /// Moves overflow blocks, and keys and values with blocks of their own, out of pages that are to be emptied
    /// ([`Tx::is_sparse`]), in `count` buckets from the cursor on, a cursor as that of [`scan`](HashMap::scan). `each`
    /// gets the address of every value, to move the blocks that the value refers to. Returns the cursor to go on with;
    /// 0 at the end.
    ///
    /// # Errors
    /// The errors of `each`; as [`Tx::allocate`]; `Corrupt` if the map is damaged.
    pub fn compact_some<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        cursor: u64,
        count: u64,
        each: &mut dyn FnMut(&mut T, Ptr<V>) -> Result<()>,
    ) -> Result<u64> {
        let (table, mut cursor) = (self.table(tx)?, cursor);
        for _ in 0..count {
            let bucket = table.bucket(cursor);
            table.compact_blocks(tx, bucket, &mut |tx, at| each(tx, Ptr::new(at)))?;
            cursor = table.after(cursor, bucket);
            if cursor == 0 {
                break;
            }
        }
        Ok(cursor)
    }

    /// The key of the entry whose value is at `place`, an address from [`slot`](HashMap::slot) or
    /// [`compact_some`](HashMap::compact_some).
    ///
    /// # Errors
    /// `Corrupt` if it is damaged.
    pub fn key_at<T: Tx + ?Sized>(self, tx: &mut T, place: Ptr<V>) -> Result<K::Owned> {
        K::load(tx, place.at() - Self::VALUE)
    }

    /// Makes the map count its entries in lanes, whatever its size: for tests.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    #[doc(hidden)]
    pub fn use_lanes<T: Tx + ?Sized>(self, tx: &mut T) -> Result<()> {
        let mut table = self.table(tx)?;
        if table.counting == Counting::One { table.make_lanes(tx) } else { Ok(()) }
    }

    /// Whether the map counts its entries in lanes: for tests.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    #[doc(hidden)]
    pub fn has_lanes<T: Tx + ?Sized>(self, tx: &mut T) -> Result<bool> {
        Ok(self.table(tx)?.counting == Counting::Lanes)
    }

    /// Checks the whole map, and reports every block that it owns.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged; the errors of `visit`.
    pub fn check<T: Tx + ?Sized>(self, tx: &mut T, visit: &mut Visit<'_>) -> Result<()> {
        self.table(tx)?.check(tx, visit)
    }
}

/// The table at `at`, whatever its types.
pub(super) fn open<T: Tx + ?Sized>(
    tx: &mut T,
    at: u64,
    key: Form,
    value: Form,
    flags: u64,
) -> Result<Table> {
    Table::open(tx, at, Shape::of(key, value), Counting::of(flags))
}
