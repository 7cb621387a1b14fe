//! The operations of code inside a transaction: reads, writes, allocation, typed pointers.
//!
//! [`Tx`] is object-safe; [`TxExt`] adds the typed methods to everything that is a `Tx`,
//! `dyn Tx` included. Collections and workloads are written against these two, once, and run on
//! every engine and memory.

use crate::collections::Collection;
pub use crate::fresh::Fresh;
use crate::persist::{Persist, size};
use crate::pool::PoolTx;
pub use crate::savepoint::{Moment, Savepoint};
use bytemuck::Zeroable;
use perdura_engine::{Access, Error, Result};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

/// The purpose of an allocation. Objects of one purpose share pages, so that those written together are flushed
/// together (Archapt, III-D).
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::{Purpose, TxExt};
///
/// let name = tx.new_bytes(Purpose::Key, b"ada")?;
/// let letter = tx.new_bytes(Purpose::Value, b"Dear Mr. Babbage")?;
/// # let _ = (name, letter);
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// Nodes and directories of collections, and anything else.
    General = 0,
    /// Keys.
    Key = 1,
    /// Values, and field-value pairs.
    Value = 2,
    /// A program's own log records.
    Log = 3,
}

impl Purpose {
    /// All of them, in the order of their numbers.
    pub const ALL: [Purpose; 4] = [Purpose::General, Purpose::Key, Purpose::Value, Purpose::Log];
}

/// A transaction on a heap.
///
/// **An operation that fails with `Full`, `NoSpace` or `TooLarge` may be half done.** The transaction cannot commit then:
/// return the error, or go back to a savepoint made before the operation ([`point`](Tx::point), [`undo_to`](Tx::undo_to)).
///
/// It reads and writes the pool's pages only: a read before them, through a null pointer for instance, is refused as
/// `Misuse`, a write to the header, the log or the page table as `Invalid`. **Within the pages it may write to any offset**, including other objects and free space: keeping offsets
/// right is up to the program.
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::{Access, Purpose, Root, Tx};
///
/// /// Works in every transaction.
/// fn add_note(tx: &mut dyn Tx, text: &[u8]) -> perdura::Result<u64> {
///     let new = tx.allocate(Purpose::Value, text.len() as u64)?;
///     tx.write_fresh(new, 0, text)?;
///     tx.set_root("note", Root { at: new.at(), kind: 1000 })?;
///     Ok(new.at())
/// }
///
/// let at = add_note(tx, b"hello")?;
/// let mut text = [0; 5];
/// tx.read_bytes(at, &mut text)?;
/// assert_eq!(&text, b"hello");
/// # Ok(())
/// # }).unwrap();
/// ```
pub trait Tx: Access {
    /// Allocates at least `len` bytes, aligned to 8 (to a line, from 33 bytes on; never over
    /// more lines than needed). The contents are undefined: fill it with
    /// [`write_fresh`](Tx::write_fresh), or with writes, before anything refers to it. If
    /// the transaction does not commit, it was never allocated.
    ///
    /// # Errors
    /// `Full`, `NoSpace`, `ReadOnly`, `Invalid` for 0 bytes.
    fn allocate(&mut self, purpose: Purpose, len: u64) -> Result<Fresh>;

    /// Writes `bytes` into memory that this very transaction has allocated, from its byte `from` on, a multiple of 8:
    /// an engine may skip the log for it, which is faster for large objects. The bytes up to the next multiple of 8
    /// after the end may be overwritten too.
    ///
    /// Only the result of [`allocate`](Tx::allocate) can be passed, so nothing committed can be overwritten without
    /// the log's protection:
    ///
    /// ```compile_fail,E0308
    /// # fn body(tx: &mut dyn perdura::Tx, at: u64) -> perdura::Result<()> {
    /// tx.write_fresh(at, 0, b"an offset is not enough")
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` if the memory was allocated by another transaction, or by this one before a savepoint to which it was
    /// undone; or if the bytes run over its end, or begin in the middle of a word. As
    /// [`write_word`](Access::write_word) otherwise.
    fn write_fresh(&mut self, fresh: Fresh, from: u64, bytes: &[u8]) -> Result<()>;

    /// As [`allocate`](Tx::allocate), but returns `None` if there is no room at once: it waits for nothing, and leaves
    /// the log as it is. For optional allocations.
    ///
    /// # Errors
    /// As [`allocate`](Tx::allocate), except `Full` and `NoSpace`.
    fn allocate_now(&mut self, purpose: Purpose, len: u64) -> Result<Option<Fresh>> {
        match self.allocate(purpose, len) {
            Ok(fresh) => Ok(Some(fresh)),
            Err(Error::Full { .. } | Error::NoSpace { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Allocates a piece of an object that may lie in several: `len` bytes if as many are free in one place, otherwise
    /// as many whole pages as are. [`Fresh::bytes`] says how many bytes it has.
    ///
    /// # Errors
    /// As [`allocate`](Tx::allocate).
    fn allocate_some(&mut self, purpose: Purpose, len: u64) -> Result<Fresh> {
        self.allocate(purpose, len)
    }

    /// Whether the block at `at` lies in a page that is being emptied because most of it is free: then the block
    /// should be moved ([`move_block`](crate::collections::compact::move_block)). True only while a
    /// [`Compaction`](crate::Compaction) is under way.
    fn is_sparse(&mut self, at: u64) -> bool {
        let _ = at;
        false
    }

    /// Frees memory that [`allocate`](Tx::allocate) returned. It can be read until the transaction
    /// commits.
    ///
    /// # Errors
    /// `Misuse` if nothing is allocated there.
    fn free(&mut self, at: u64) -> Result<()>;

    /// The usable bytes of the allocation at `at`: the size asked for, rounded up.
    ///
    /// # Errors
    /// `Misuse` if nothing is allocated there.
    fn usable(&mut self, at: u64) -> Result<u64>;

    /// The allocation that the byte at `at` belongs to, if there is one. Memory freed by this transaction no longer
    /// counts as allocated. For code that checks offsets it did not make: the search takes longer the further `at` is
    /// from the start of an object of many pages.
    ///
    /// # Errors
    /// `Corrupt` where the pool's page table is damaged.
    fn extent(&mut self, at: u64) -> Result<Option<Extent>>;

    /// Undoes everything since the savepoint, including allocations and frees. Savepoints that were made after it
    /// become void; it stays valid itself.
    ///
    /// This is the only way to undo a part of a transaction; none leaves out allocations:
    ///
    /// ```compile_fail,E0599
    /// # fn body(tx: &mut dyn perdura::Tx) {
    /// let mark = perdura::Tx::mark(tx);
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` if the savepoint is void, or another transaction's. Nothing is undone then.
    fn undo_to(&mut self, savepoint: Savepoint) -> Result<()>;

    /// A savepoint, for [`undo_to`](Tx::undo_to).
    fn point(&mut self) -> Savepoint;

    /// The transaction's present state: between two equal moments nothing was written.
    fn moment(&self) -> Moment;

    /// The named root's pointer and kind.
    ///
    /// # Errors
    /// `Corrupt` where the catalogue is damaged.
    fn root(&mut self, name: &str) -> Result<Option<Root>>;

    /// Sets, replaces or (with a pointer of 0) removes the named root. The caller must free the old target.
    ///
    /// # Errors
    /// `Invalid` for an empty name or one of more than 255 bytes, or a kind that is neither a collection's nor from 1000
    /// on; as `allocate` otherwise.
    fn set_root(&mut self, name: &str, root: Root) -> Result<()>;

    /// The transaction with its own type, if it is one on a [`Pool`](crate::Pool): code that gets a `dyn Tx` and accesses
    /// many words asks once, and then needs no virtual call for each word. It has to be compiled for both types.
    fn on_pool(&mut self) -> Option<PoolTx<'_>> {
        None
    }

    /// In a section ([`Handle::section`](crate::Handle::section)), takes the lock with this number, which the program
    /// chooses, after waiting for the section that has it. A section keeps its locks until it is over, unless it
    /// [releases](Self::unlock) them.
    ///
    /// # Errors
    /// `Deadlock` if the section would wait for itself, also by way of others: return the error, and run the section
    /// again if it waited for others. `TooLarge` if the log is full. `Invalid` outside of a section.
    fn lock(&mut self, id: u64) -> Result<Locked> {
        let _ = id;
        Err(NO_SECTION)
    }

    /// Releases a lock before the section is over. **From then on others may see what the section has stored, so that it
    /// cannot be rolled back any more**: if it fails, nothing is committed to the pool until it is opened again, which
    /// undoes this section and all that have taken a lock after it.
    ///
    /// # Errors
    /// `Invalid` if the running section does not hold it.
    fn unlock(&mut self, lock: Locked) -> Result<()> {
        let _ = lock;
        Err(NO_SECTION)
    }
}

const NO_SECTION: Error = Error::Invalid("locks are taken and released in sections only");

/// A lock that a section holds: [`Tx::lock`].
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("a.pool");
/// # let pool = perdura::Options::new().engine(perdura::EngineKind::Atlas).size(8 << 20).create(&path)?;
/// use perdura::{Locked, Result, Tx};
///
/// /// Goes on to the next lock before it releases the one that it has.
/// fn pass(tx: &mut dyn Tx, held: Locked) -> Result<Locked> {
///     let next = tx.lock(held.id() + 1)?;
///     tx.unlock(held)?;
///     Ok(next)
/// }
///
/// pool.session()?.section(|tx| {
///     let first = tx.lock(7)?;
///     assert_eq!(pass(tx, first)?.id(), 8);
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Locked(pub(crate) u64);

impl Locked {
    /// Its number.
    pub const fn id(&self) -> u64 {
        self.0
    }
}

/// An allocation: see [`Tx::extent`].
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::{Purpose, Tx, TxExt};
///
/// let at = tx.new_bytes(Purpose::General, &[7; 20])?;
/// let extent = tx.extent(at + 5)?.expect("it is allocated");
/// assert_eq!(extent.at, at);
/// assert!(extent.contains(at, 20));
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins: the result of [`Tx::allocate`].
    pub at: u64,
    /// Usable bytes.
    pub bytes: u64,
    /// Its purpose. Objects of whole pages do not record it.
    pub purpose: Option<Purpose>,
}

impl Extent {
    /// The offset after its last byte.
    pub const fn end(&self) -> u64 {
        self.at + self.bytes
    }

    /// Whether the `len` bytes at `at` lie in it.
    pub fn contains(&self, at: u64, len: u64) -> bool {
        at >= self.at && at.checked_add(len).is_some_and(|end| end <= self.end())
    }
}

/// A named entry point into the heap.
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::{Purpose, Root, Tx, TxExt};
///
/// let at = tx.new_object(Purpose::General, 42_u64)?.at();
/// tx.set_root("answer", Root { at, kind: 1000 })?;
/// assert_eq!(tx.root("answer")?, Some(Root { at, kind: 1000 }));
/// tx.set_root("answer", Root { at: 0, kind: 1000 })?;
/// assert_eq!(tx.root("answer")?, None);
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The offset of its target.
    pub at: u64,
    /// The target's kind: a collection's (`collections::kind`), or a number of the program's own from 1000 on. Those
    /// between are reserved, and refused.
    pub kind: u32,
}

/// A pointer into a pool: an offset, valid in every process that opens the pool. Zero is null.
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::{Persist, Ptr, Purpose, TxExt};
///
/// #[derive(Clone, Copy, Persist)]
/// #[persist(fields)]
/// struct Node {
///     value: u64,
///     next: Ptr<Node>,
/// }
///
/// let last = tx.new_object(Purpose::General, Node { value: 2, next: Ptr::NULL })?;
/// let first = tx.new_object(Purpose::General, Node { value: 1, next: last })?;
/// tx.write(first.member(Node::VALUE), 10)?;
/// let (mut node, mut sum) = (first, 0);
/// while !node.is_null() {
///     let Node { value, next } = tx.read(node)?;
///     (sum, node) = (sum + value, next);
/// }
/// assert_eq!(sum, 12);
/// # Ok(())
/// # }).unwrap();
/// ```
#[repr(transparent)]
pub struct Ptr<T> {
    at: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Ptr<T> {
    /// The null pointer.
    pub const NULL: Self = Ptr { at: 0, of: PhantomData };

    /// The pointer to offset `at`.
    pub const fn new(at: u64) -> Self {
        Ptr { at, of: PhantomData }
    }

    /// The offset, in bytes from the pool's start.
    pub const fn at(self) -> u64 {
        self.at
    }

    /// Whether it is null.
    pub const fn is_null(self) -> bool {
        self.at == 0
    }

    /// The pointer `bytes` further, to a `U`.
    pub const fn field<U>(self, bytes: u64) -> Ptr<U> {
        Ptr::new(self.at + bytes)
    }
}

impl<T> Default for Ptr<T> {
    /// The null pointer.
    fn default() -> Self {
        Ptr::NULL
    }
}

impl<T> Clone for Ptr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Ptr<T> {}
impl<T> PartialEq for Ptr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}
impl<T> Eq for Ptr<T> {}
impl<T> Hash for Ptr<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.at.hash(state);
    }
}
impl<T> fmt::Debug for Ptr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ptr({:#x})", self.at)
    }
}

/// Typed reads, writes and allocations, for every [`Tx`].
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::{Purpose, TxExt};
///
/// let pair = tx.new_object(Purpose::General, (1_u32, true))?;
/// tx.write(pair, (2, false))?;
/// assert_eq!(tx.read(pair)?, (2, false));
/// # Ok(())
/// # }).unwrap();
/// ```
pub trait TxExt: Tx {
    /// Reads a value.
    ///
    /// # Errors
    /// `Misuse` if it is out of bounds, or the bytes there are no value of the type.
    #[inline]
    fn read<T: Persist>(&mut self, ptr: Ptr<T>) -> Result<T> {
        let at = ptr.at();
        let mut bytes = T::Bytes::zeroed();
        if size::<T>() == 8 && at.is_multiple_of(8) {
            let word = self.read_word(at)?;
            bytes = bytemuck::pod_read_unaligned(&word.to_le_bytes());
        } else {
            self.read_bytes(at, bytemuck::bytes_of_mut(&mut bytes))?;
        }
        T::from_stored(&bytes).ok_or_else(|| Error::misuse("no value of the expected type is", at))
    }

    /// Writes a value.
    ///
    /// # Errors
    /// `Misuse` if it is out of bounds; `ReadOnly`, `TooLarge`.
    #[inline]
    fn write<T: Persist>(&mut self, ptr: Ptr<T>, value: T) -> Result<()> {
        let bytes = value.to_stored();
        if size::<T>() == 8 && ptr.at().is_multiple_of(8) {
            let word = bytemuck::pod_read_unaligned(bytemuck::bytes_of(&bytes));
            return self.write_word(ptr.at(), u64::from_le_bytes(word));
        }
        self.write_bytes(ptr.at(), bytemuck::bytes_of(&bytes))
    }

    /// Allocates and fills an object.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    fn new_object<T: Persist>(&mut self, purpose: Purpose, value: T) -> Result<Ptr<T>> {
        let new = self.allocate(purpose, (size::<T>() as u64).max(1))?;
        self.write_fresh(new, 0, bytemuck::bytes_of(&value.to_stored()))?;
        Ok(Ptr::new(new.at()))
    }

    /// Allocates and fills a block of bytes.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    fn new_bytes(&mut self, purpose: Purpose, bytes: &[u8]) -> Result<u64> {
        let new = self.allocate(purpose, (bytes.len() as u64).max(1))?;
        self.write_fresh(new, 0, bytes)?;
        Ok(new.at())
    }

    /// The collection with this name, if there is one.
    ///
    /// # Errors
    /// `WrongType` if it is another collection, or one of other types; `Corrupt` where the catalogue is damaged.
    fn open<C: Collection>(&mut self, name: &str) -> Result<Option<C>> {
        match self.root(name)? {
            Some(root) => match C::open(self, root.at) {
                Ok(found) => Ok(Some(found)),
                Err(error) => Err(error.of_root(name)),
            },
            None => Ok(None),
        }
    }

    /// The collection with this name; a new, empty one if there is none.
    ///
    /// ```
    /// use perdura::TxExt;
    /// use perdura::collections::{Bytes, HashMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let pool = perdura::Options::new().open_or_create(folder.path().join("a.pool"))?;
    /// pool.session()?.transaction(|tx| {
    ///     let words = tx.open_or_create::<HashMap<Bytes, u64>>("words")?;
    ///     words.insert(tx, b"hello", 1)
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](TxExt::open); if it is created, as [`Tx::allocate`] and [`Tx::set_root`].
    fn open_or_create<C: Collection>(&mut self, name: &str) -> Result<C> {
        if let Some(found) = self.open(name)? {
            return Ok(found);
        }
        let made = C::create(self)?;
        self.set_root(name, Root { at: made.at(), kind: C::KIND })?;
        Ok(made)
    }

    /// Frees the collection with this name, and its contents; `false` if there is none. A large one should be freed in
    /// several transactions ([`Collection::destroy_some`]), and its root removed with the last of them.
    ///
    /// # Errors
    /// As [`open`](TxExt::open); `ReadOnly`, `TooLarge`.
    fn delete<C: Collection>(&mut self, name: &str) -> Result<bool> {
        let Some(found) = self.open::<C>(name)? else { return Ok(false) };
        while !found.destroy_some(self, u64::MAX)? {}
        self.set_root(name, Root { at: 0, kind: C::KIND })?;
        Ok(true)
    }

    /// Rolls the transaction back: the error to return from its body.
    ///
    /// # Errors
    /// Always.
    fn abort<T>(&mut self, why: &str) -> Result<T> {
        Err(Error::Aborted(why.to_owned()))
    }
}

impl<X: Tx + ?Sized> TxExt for X {}
