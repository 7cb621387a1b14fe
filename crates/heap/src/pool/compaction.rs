//! Emptying pages of which most is free.
//!
//! What always holds: the pool only says which pages are to be emptied. Who knows what points to an object in
//! them moves it, in transactions as all others.

use super::{Handle, Inner, Pool};
use perdura_engine::Result;

impl Pool {
    /// Begins to empty pages of which most is free, if that makes at least `least` free pages. Moving what is in
    /// them is for programs that know what points to it: see [`Tx::is_sparse`](crate::Tx::is_sparse). `None` if
    /// it is not worth it, or if one is under way.
    pub fn compact(&self, least: u64) -> Option<Compaction> {
        let pages = each!(&self.inner.inner, heap => heap.space().start_emptying(least));
        (pages > 0).then(|| Compaction { pool: self.clone(), pages })
    }
}

impl Handle {
    /// The pool that it is of.
    pub const fn pool(&self) -> &Pool {
        &self.pool
    }
}

/// Pages that are being emptied, until this is dropped: see [`Pool::compact`].
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let pool = perdura::Options::new().size(8 << 20).create(folder.path().join("a.pool"))?;
/// use perdura::{TxExt, collections::{Bytes, HashMap}};
///
/// let mut session = pool.session()?;
/// # session.transaction(|tx| tx.open_or_create::<HashMap<Bytes, Bytes>>("map"))?;
/// if let Some(compaction) = pool.compact(1) {
///     // What is in pages that are being emptied moves to others, some at a time.
///     let mut cursor = 0;
///     loop {
///         cursor = session.transaction(|tx| {
///             let map = tx.open_or_create::<HashMap<Bytes, Bytes>>("map")?;
///             map.compact_some(tx, cursor, 100, &mut |_, _| Ok(()))
///         })?;
///         if cursor == 0 {
///             break;
///         }
///     }
///     println!("{} pages are free now", compaction.finish()?);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Compaction {
    pool: Pool,
    pages: u64,
}

impl Compaction {
    /// How many they are.
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// Ends it; returns how many of the pages are free now.
    ///
    /// # Errors
    /// As [`Pool::checkpoint`], without which what was moved is not free.
    pub fn finish(self) -> Result<u64> {
        self.pool.checkpoint()?;
        Ok(each!(&self.pool.inner.inner, heap => heap.space().stop_emptying()))
    }
}

impl Drop for Compaction {
    fn drop(&mut self) {
        each!(&self.pool.inner.inner, heap => heap.space().stop_emptying());
    }
}
