//! A growable array of plain values.
//!
//! The header is one line: tag, length, bytes per element, a word of zeros, and the directory
//! of segments. Elements never move.

use super::form::Form;
use super::segments::Segments;
use super::tag::{Expected, Tag, end};
use super::{Visit, kind};
use crate::persist::{TypeName, size};
use crate::{Error, Persist, Ptr, Purpose, Result, Tx, TxExt};
use std::fmt;
use std::marker::PhantomData;

const LEN: u64 = 8;
const PITCH: u64 = 16;
const HEADER: usize = 64;

/// A growable array of `T`: a handle to it.
///
/// In addition to the errors listed for each operation, all fail with `WrongType` if the header is that of another
/// collection, or of one of other elements, and with `Misuse` if there is no header.
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::TxExt;
/// use perdura::collections::Vector;
///
/// let samples = tx.open_or_create::<Vector<f64>>("samples")?;
/// samples.push(tx, 1.5)?;
/// samples.push(tx, 2.5)?;
/// samples.set(tx, 0, 1.0)?;
/// assert_eq!(samples.pop(tx)?, Some(2.5));
/// assert_eq!(samples.get(tx, 0)?, Some(1.0));
/// # Ok(())
/// # }).unwrap();
/// ```
pub struct Vector<T> {
    at: u64,
    /// The identifier of the pool that the handle was made in; 0 if unknown.
    pool: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Vector<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Vector<T> {}
impl<T> fmt::Debug for Vector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vector({:#x})", self.at)
    }
}

impl<T: Persist> Vector<T> {
    /// Elements of 1, 2 or 4 bytes are packed; others begin at a word's edge.
    const EACH: u64 = {
        let size = size::<T>() as u64;
        assert!(size > 0 && size <= 1 << 20, "elements have 1 byte to 1 MiB");
        if size <= 4 && size != 3 { size } else { size.next_multiple_of(8) }
    };

    const TAG: u64 = tag(&[T::TYPE_NAME]).word();

    /// The vector whose header is at `at`.
    pub const fn new(at: u64) -> Self {
        Vector { at, pool: 0, of: PhantomData }
    }

    /// The vector whose header is at `at`, after a check of its types.
    ///
    /// # Errors
    /// `WrongType` if it is another collection; `Misuse` if there is none.
    pub fn open<X: Tx + ?Sized>(tx: &mut X, at: u64) -> Result<Self> {
        let vector = Vector { pool: tx.moment().pool, ..Self::new(at) };
        vector.len(tx).map(|_| vector)
    }

    /// The offset of its header, which a root keeps. Kept elsewhere it is a number to the pool: a check then reports
    /// the collection as reached by an offset, and a copy must keep all offsets (docs/collections.md).
    pub const fn at(self) -> u64 {
        self.at
    }

    /// A new, empty one.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    pub fn create<X: Tx + ?Sized>(tx: &mut X) -> Result<Self> {
        let at = create_untyped(tx, Self::TAG, Self::EACH)?;
        Ok(Vector { at, pool: tx.moment().pool, of: PhantomData })
    }

    /// The number of elements.
    ///
    /// # Errors
    /// `Corrupt` if the vector is damaged.
    pub fn len<X: Tx + ?Sized>(self, tx: &mut X) -> Result<u64> {
        if Expected::is_elsewhere(self.pool, tx) || tx.read_word(self.at)? != Self::TAG {
            return Err(self.expected().missing(tx, self.at));
        }
        let (segments, len) = open(tx, self.at)?;
        if segments.pitch() != Self::EACH {
            return Err(Error::corrupt("a vector's size of elements", self.at));
        }
        Ok(len)
    }

    fn expected(self) -> Expected {
        let name = || format!("Vector<{}>", T::TYPE_NAME);
        Expected { kind: kind::VECTOR, name, pool: self.pool }
    }

    /// Whether there are no elements.
    ///
    /// # Errors
    /// `Corrupt` if the vector is damaged.
    pub fn is_empty<X: Tx + ?Sized>(self, tx: &mut X) -> Result<bool> {
        Ok(self.len(tx)? == 0)
    }

    /// The address of the element `index`, if there is one, to read and write parts of it. It is valid until the
    /// vector becomes shorter.
    ///
    /// # Errors
    /// `Corrupt` if the vector is damaged.
    pub fn slot<X: Tx + ?Sized>(self, tx: &mut X, index: u64) -> Result<Option<Ptr<T>>> {
        if index >= self.len(tx)? {
            return Ok(None);
        }
        Ok(Some(Ptr::new(self.segments().address(tx, index)?)))
    }

    /// The element `index`.
    ///
    /// # Errors
    /// `Corrupt` if the vector is damaged.
    pub fn get<X: Tx + ?Sized>(self, tx: &mut X, index: u64) -> Result<Option<T>> {
        match self.slot(tx, index)? {
            Some(slot) => tx.read(slot).map(Some).map_err(Error::in_pool),
            None => Ok(None),
        }
    }

    fn existing<X: Tx + ?Sized>(self, tx: &mut X, index: u64) -> Result<Ptr<T>> {
        self.slot(tx, index)?.ok_or_else(|| Error::Invalid("an index behind a vector's end"))
    }

    /// Replaces the element `index`.
    ///
    /// # Errors
    /// `Invalid` if there is none; `Corrupt`, `ReadOnly`, `TooLarge`.
    pub fn set<X: Tx + ?Sized>(self, tx: &mut X, index: u64, value: T) -> Result<()> {
        let slot = self.existing(tx, index)?;
        tx.write(slot, value).map_err(Error::in_pool)
    }

    /// Swaps two elements.
    ///
    /// # Errors
    /// `Invalid` if there is no such element; `Corrupt`, `ReadOnly`, `TooLarge`.
    pub fn swap<X: Tx + ?Sized>(self, tx: &mut X, a: u64, b: u64) -> Result<()> {
        let (a, b) = (self.existing(tx, a)?, self.existing(tx, b)?);
        let mut read = |at| tx.read(at).map_err(Error::in_pool);
        let (first, second) = (read(a)?, read(b)?);
        tx.write(a, second)?;
        tx.write(b, first)
    }

    /// Appends an element.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    pub fn push<X: Tx + ?Sized>(self, tx: &mut X, value: T) -> Result<()> {
        let len = self.len(tx)?;
        self.segments().reserve(tx, len)?;
        let at = self.segments().address(tx, len)?;
        tx.write(Ptr::new(at), value).map_err(Error::in_pool)?;
        tx.write_word(self.at + LEN, len + 1)
    }

    /// Removes the last element.
    ///
    /// # Errors
    /// `Corrupt` if the vector is damaged; `ReadOnly`, `TooLarge`.
    pub fn pop<X: Tx + ?Sized>(self, tx: &mut X) -> Result<Option<T>> {
        let len = self.len(tx)?;
        if len == 0 {
            return Ok(None);
        }
        let at = self.segments().address(tx, len - 1)?;
        let value = tx.read(Ptr::new(at)).map_err(Error::in_pool)?;
        tx.write_word(self.at + LEN, len - 1)?;
        self.segments().shrunk(tx, len - 1)?;
        Ok(Some(value))
    }

    /// Removes all elements from `len` on.
    ///
    /// # Errors
    /// `Corrupt` if the vector is damaged; `ReadOnly`, `TooLarge`.
    pub fn truncate<X: Tx + ?Sized>(self, tx: &mut X, len: u64) -> Result<()> {
        let old = self.len(tx)?;
        if len >= old {
            return Ok(());
        }
        self.segments().free_from(tx, old, len)?;
        tx.write_word(self.at + LEN, len)
    }

    /// Iterates over the elements, in order. While the iterator lives, the transaction can do nothing else.
    ///
    /// ```
    /// use perdura::TxExt;
    /// use perdura::collections::Vector;
    ///
    /// # perdura::testing::TestHeap::new().run(&mut |tx| {
    /// let samples = tx.open_or_create::<Vector<f64>>("samples")?;
    /// samples.push(tx, 1.5)?;
    /// samples.push(tx, 2.5)?;
    /// let sum: perdura::Result<f64> = samples.iter(tx)?.sum();
    /// assert_eq!(sum?, 4.0);
    /// # Ok(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `Corrupt` if the vector is damaged.
    pub fn iter<X: Tx + ?Sized>(
        self,
        tx: &mut X,
    ) -> Result<impl Iterator<Item = Result<T>> + use<'_, T, X>> {
        let mut rest = 0..self.len(tx)?;
        Ok(std::iter::from_fn(move || {
            let index = rest.next()?;
            let at = self.segments().address(tx, index);
            Some(at.and_then(|at| tx.read(Ptr::new(at)).map_err(Error::in_pool)))
        }))
    }

    /// Calls `each` with every element, in order; an error that it returns ends the walk.
    ///
    /// # Errors
    /// The errors of `each`; `Corrupt` if the vector is damaged.
    pub fn for_each<X: Tx + ?Sized>(
        self,
        tx: &mut X,
        each: &mut dyn FnMut(T) -> Result<()>,
    ) -> Result<()> {
        for index in 0..self.len(tx)? {
            let at = self.segments().address(tx, index)?;
            each(tx.read(Ptr::new(at)).map_err(Error::in_pool)?)?;
        }
        Ok(())
    }

    /// Frees the vector.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged; `ReadOnly`, `TooLarge`.
    pub fn destroy<X: Tx + ?Sized>(self, tx: &mut X) -> Result<()> {
        self.len(tx)?;
        while !destroy_some(tx, self.at, u64::MAX)? {}
        Ok(())
    }

    /// Frees up to about `budget` blocks. Returns `true` when all are freed, including the vector itself. In between
    /// it is a shorter vector.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged; `ReadOnly`, `TooLarge`.
    pub fn destroy_some<X: Tx + ?Sized>(self, tx: &mut X, budget: u64) -> Result<bool> {
        self.len(tx)?;
        destroy_some(tx, self.at, budget)
    }

    /// Checks the whole vector, and reports every block that it owns.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged; the errors of `visit`.
    pub fn check<X: Tx + ?Sized>(self, tx: &mut X, visit: &mut Visit<'_>) -> Result<()> {
        self.len(tx)?;
        check(tx, self.at, visit)
    }

    const fn segments(self) -> Segments {
        Segments::new(self.at, Self::EACH)
    }
}

/// The tag of a vector of such elements.
const fn tag(types: &[TypeName]) -> Tag {
    Tag::of(kind::VECTOR, (Form::plain(0), Form::plain(0)), types, 0)
}

/// A new, empty vector with this tag.
pub(super) fn create_untyped<X: Tx + ?Sized>(tx: &mut X, tag: u64, pitch: u64) -> Result<u64> {
    let header = tx.allocate(Purpose::General, HEADER as u64)?;
    let words = [tag, 0, pitch, 0, 0, 0, 0, 0];
    tx.write_fresh(header, 0, bytemuck::bytes_of(&words))?;
    Ok(header.at())
}

/// [`Vector::push`], of an element's bytes.
pub(super) fn push_untyped<X: Tx + ?Sized>(tx: &mut X, at: u64, bytes: &[u8]) -> Result<()> {
    let (segments, len) = open(tx, at)?;
    segments.reserve(tx, len)?;
    let place = segments.address(tx, len)?;
    tx.write_bytes(place, bytes).map_err(Error::in_pool)?;
    tx.write_word(at + LEN, len + 1)
}

/// The segments and the length of the vector at `at`, whatever its elements.
pub(super) fn open<X: Tx + ?Sized>(tx: &mut X, at: u64) -> Result<(Segments, u64)> {
    let found = Tag::read(tx, at)?;
    let known = found == Tag { types: found.types, ..tag(&[]) };
    let pitch = tx.read_word(at + PITCH)?;
    if !known || pitch == 0 || pitch > 1 << 20 {
        return Err(Error::corrupt("a vector's header", at));
    }
    let segments = Segments::new(at, pitch);
    let len = tx.read_word(at + LEN)?;
    if len > segments.capacity() {
        return Err(Error::corrupt("a vector's length", at));
    }
    Ok((segments, len))
}

/// [`Vector::destroy_some`], whatever the elements.
pub(super) fn destroy_some<X: Tx + ?Sized>(tx: &mut X, at: u64, budget: u64) -> Result<bool> {
    let (segments, len) = open(tx, at)?;
    let kept = segments.without_last(len, budget.max(1));
    segments.free_from(tx, len, kept)?;
    tx.write_word(at + LEN, kept)?;
    if kept == 0 {
        end(tx, at)?;
    }
    Ok(kept == 0)
}

/// [`Vector::check`], whatever the elements.
pub(super) fn check<X: Tx + ?Sized>(tx: &mut X, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    let (segments, len) = open(tx, at)?;
    visit(at)?;
    segments.check(tx, len, visit)
}
