//! Pools opened only for reading: to be copied or exported.
//!
//! Invariant: nothing is written to the file, which need not be writable; recovery runs on a private mapping of it. No
//! process can open the pool meanwhile.

use crate::check::{CheckRoot, Report, check_heap};
use crate::error::OpenError;
use crate::heap::{Heap, Opening};
use crate::superblock::Superblock;
use crate::tx::Tx;
use perdura_engine::{Result, Volatile};
use perdura_memory::{LockedFile, Mapped, Memory};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A pool, as its next opening would find it.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let pool = perdura::Options::new().size(8 << 20).create(folder.path().join("a.pool"))?;
/// use perdura::source::Source;
/// use perdura::{TxExt, collections::Cell};
///
/// pool.session()?.transaction(|tx| tx.open_or_create::<Cell<u64>>("count")?.set(tx, 7))?;
/// # let path = pool.path().to_owned();
/// pool.close()?;
/// let source = Source::open(&path)?;
/// let count = source.read(|tx| match tx.open::<Cell<u64>>("count")? {
///     Some(count) => count.get(tx),
///     None => Ok(0),
/// })?;
/// assert_eq!(count, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Source {
    heap: Heap<Mapped, Volatile<Mapped>>,
    superblock: Superblock,
    path: PathBuf,
    mode: u32,
    // After the mapping.
    _lock: LockedFile,
}

impl Source {
    /// Opens the pool at `path` for reading.
    ///
    /// # Errors
    /// See [`OpenError`]: as for any opening, but the pool's requirement on transactions is not checked.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        Self::open_at(path).map_err(|error| error.at(path))
    }

    fn open_at(path: &Path) -> Result<Self, OpenError> {
        let lock = LockedFile::open_to_look(path)?;
        let memory = Arc::new(lock.rehearse()?);
        let superblock = Superblock::read(&*memory)?;
        let opening = Opening { accept_weaker: true, force: false };
        let heap = Heap::<_, Volatile<Mapped>>::open(memory, opening)?;
        let (path, mode) = (path.to_path_buf(), lock.mode()?);
        Ok(Source { heap, superblock, path, mode, _lock: lock })
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's permissions: a file made of its contents should have no wider ones.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// The header, as it is in the file.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The file's contents after recovery.
    pub fn memory(&self) -> &dyn Memory {
        &**self.heap.memory()
    }

    /// Bytes of all objects.
    pub fn used(&self) -> u64 {
        let usage = self.heap.space().usage();
        let pages = self.memory().len().saturating_sub(self.superblock.layout.pages);
        pages.saturating_sub(usage.free_page_bytes + usage.free_slot_bytes)
    }

    /// Runs `body` on the pool's contents.
    ///
    /// # Errors
    /// The error of `body`.
    pub fn read<R>(&self, mut body: impl FnMut(&mut dyn Tx) -> Result<R>) -> Result<R> {
        self.heap.session()?.read(|tx| body(tx))
    }

    /// Checks all of it; `other` knows the kinds of roots that this crate does not.
    pub fn check(&self, other: &CheckRoot<'_>) -> Report {
        check_heap(&self.heap, other)
    }
}
