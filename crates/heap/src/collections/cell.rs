//! A single value with a name.

use super::Vector;
use crate::{Error, Persist, Ptr, Result, Tx, TxExt};
use std::fmt;

/// A single value: a counter, a format's version, an entry point to a program's own structures. In the pool it is a
/// [`Vector`] with one element.
///
/// ```
/// use perdura::TxExt;
/// use perdura::collections::Cell;
///
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// let visits = tx.open_or_create::<Cell<u64>>("visits")?;
/// assert_eq!(visits.get(tx)?, 0);
/// visits.set(tx, 1)?;
/// assert_eq!(tx.open::<Cell<u64>>("visits")?.expect("it is there").get(tx)?, 1);
/// # Ok(())
/// # }).unwrap();
/// ```
pub struct Cell<T>(Vector<T>);

impl<T> Clone for Cell<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Cell<T> {}
impl<T> fmt::Debug for Cell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cell({:?})", self.0)
    }
}

impl<T: Persist> Cell<T> {
    /// A new one, with this value.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    pub fn with<X: Tx + ?Sized>(tx: &mut X, value: T) -> Result<Self> {
        let one = Vector::create(tx)?;
        one.push(tx, value)?;
        Ok(Cell(one))
    }

    /// A new one, with the type's default value.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    pub fn create<X: Tx + ?Sized>(tx: &mut X) -> Result<Self>
    where
        T: Default,
    {
        Self::with(tx, T::default())
    }

    /// The one whose header is at `at`.
    ///
    /// # Errors
    /// As [`Vector::open`].
    pub fn open<X: Tx + ?Sized>(tx: &mut X, at: u64) -> Result<Self> {
        let cell = Cell(Vector::open(tx, at)?);
        cell.place(tx).map(|_| cell)
    }

    /// The offset of its header, which a root keeps. Kept elsewhere it is a number to the pool: a check then reports
    /// the collection as reached by an offset, and a copy must keep all offsets (docs/collections.md).
    pub const fn at(self) -> u64 {
        self.0.at()
    }

    /// The address of the value, to read or write parts of it.
    ///
    /// # Errors
    /// `Corrupt` if the cell is damaged.
    pub fn place<X: Tx + ?Sized>(self, tx: &mut X) -> Result<Ptr<T>> {
        self.0.slot(tx, 0)?.ok_or_else(|| Error::misuse("no cell begins", self.at()))
    }

    /// The value.
    ///
    /// # Errors
    /// `Corrupt` if the cell is damaged.
    pub fn get<X: Tx + ?Sized>(self, tx: &mut X) -> Result<T> {
        let place = self.place(tx)?;
        tx.read(place).map_err(Error::in_pool)
    }

    /// Replaces the value.
    ///
    /// # Errors
    /// `Corrupt` if the cell is damaged; `ReadOnly`, `TooLarge`.
    pub fn set<X: Tx + ?Sized>(self, tx: &mut X, value: T) -> Result<()> {
        let place = self.place(tx)?;
        tx.write(place, value).map_err(Error::in_pool)
    }

    /// Frees the cell.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged; `ReadOnly`, `TooLarge`.
    pub fn destroy<X: Tx + ?Sized>(self, tx: &mut X) -> Result<()> {
        self.0.destroy(tx)
    }

    /// As [`destroy`](Cell::destroy): always all at once.
    ///
    /// # Errors
    /// As [`destroy`](Cell::destroy).
    pub fn destroy_some<X: Tx + ?Sized>(self, tx: &mut X, _budget: u64) -> Result<bool> {
        self.destroy(tx).map(|()| true)
    }
}
