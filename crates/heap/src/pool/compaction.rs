//! Emptying pages that are mostly free.
//!
//! Invariant: the pool only chooses the pages to be emptied. Code that knows the pointers to an object in them moves
//! it, in ordinary transactions.

use super::{EngineHeap, Handle, Pool};
use perdura_engine::Result;
use perdura_memory::Memory as _;

impl Pool {
    /// Begins to empty pages that are mostly free, if that makes at least `least` pages free. Moving the objects in
    /// them is left to programs that know the pointers to them: see [`Tx::is_sparse`](crate::Tx::is_sparse). `None` if
    /// it is not worth it, or if a compaction is under way.
    pub fn compact(&self, least: u64) -> Option<Compaction> {
        if self.memory().is_forked() {
            return None;
        }
        let pages = each!(&self.inner.inner, heap => heap.space().start_emptying(least));
        (pages > 0).then(|| Compaction { pool: self.clone(), pages })
    }
}

impl Handle {
    /// The pool that is compacted.
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
///     // Objects in pages that are being emptied move to others, some at a time.
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
    /// Number of pages being emptied.
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// Ends it. Returns how many of the pages are free now.
    ///
    /// # Errors
    /// As [`Pool::checkpoint`], without which the old places of moved objects are not free.
    pub fn finish(self) -> Result<u64> {
        self.pool.checkpoint()?;
        Ok(each!(&self.pool.inner.inner, heap => heap.space().stop_emptying()))
    }
}

impl Drop for Compaction {
    fn drop(&mut self) {
        if self.pool.memory().is_forked() {
            return;
        }
        each!(&self.pool.inner.inner, heap => heap.space().stop_emptying());
    }
}
