//! Collections by name, as [`TxExt::open_or_create`](crate::TxExt::open_or_create) opens them.

use super::{Cell, HashMap, Item, OrderedItem, OrderedMap, Vector, kind};
use crate::{Persist, Result, Tx};

/// A collection that can have a name in the pool.
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::collections::{Bytes, Collection, HashMap};
/// use perdura::{Result, Root, Tx, TxExt};
///
/// /// Frees a collection of any size, a part in each call; whether all is freed.
/// fn delete_some<C: Collection>(tx: &mut dyn Tx, name: &str) -> Result<bool> {
///     let Some(found) = tx.open::<C>(name)? else { return Ok(true) };
///     let all = found.destroy_some(tx, 1000)?;
///     if all {
///         tx.set_root(name, Root { at: 0, kind: C::KIND })?;
///     }
///     Ok(all)
/// }
///
/// tx.open_or_create::<HashMap<Bytes, u64>>("words")?.insert(tx, b"one", 1)?;
/// while !delete_some::<HashMap<Bytes, u64>>(tx, "words")? {}
/// # Ok(())
/// # }).unwrap();
/// ```
pub trait Collection: Copy {
    /// The kind in a root to it.
    const KIND: u32;

    /// A new, empty one.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    fn create<X: Tx + ?Sized>(tx: &mut X) -> Result<Self>;

    /// The one whose header is at `at`.
    ///
    /// # Errors
    /// `WrongType` if it is a collection of another kind, or of other types; `Misuse` if none is there.
    fn open<X: Tx + ?Sized>(tx: &mut X, at: u64) -> Result<Self>;

    /// The offset of its header.
    fn at(self) -> u64;

    /// Frees about `budget` entries and blocks. Returns `true` when all are freed, including the collection itself.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged; `ReadOnly`, `TooLarge`.
    fn destroy_some<X: Tx + ?Sized>(self, tx: &mut X, budget: u64) -> Result<bool>;
}

macro_rules! collections {
    ($([$($generics:tt)*] $of:ty, $kind:ident;)*) => {
        $(impl<$($generics)*> Collection for $of {
            const KIND: u32 = kind::$kind;

            fn create<X: Tx + ?Sized>(tx: &mut X) -> Result<Self> {
                Self::create(tx)
            }

            fn open<X: Tx + ?Sized>(tx: &mut X, at: u64) -> Result<Self> {
                Self::open(tx, at)
            }

            fn at(self) -> u64 {
                self.at()
            }

            fn destroy_some<X: Tx + ?Sized>(self, tx: &mut X, budget: u64) -> Result<bool> {
                self.destroy_some(tx, budget)
            }
        })*
    };
}

collections! {
    [K: Item, V: Item, const COUNTED: bool] HashMap<K, V, COUNTED>, HASH_MAP;
    [K: OrderedItem, V: Item, const COUNTED: bool] OrderedMap<K, V, COUNTED>, ORDERED_MAP;
    [T: Persist] Vector<T>, VECTOR;
    [T: Persist + Default] Cell<T>, VECTOR;
}
