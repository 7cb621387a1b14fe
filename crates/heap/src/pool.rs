//! Pools: heaps in files, with the engine chosen at run time.

mod background;
mod durable;
mod explicit;
mod guard;
mod rehearsal;
mod section;
mod session;
mod tx;

pub use perdura_engine::EngineKind;

use crate::error::OpenError;
use crate::heap::{AnyHeap, Format, Heap, Opening, log_area};
use crate::info::Info;
use crate::superblock::{SMALLEST, Superblock};
use background::Background;
pub use durable::Durable;
use durable::Waiter;
pub use guard::Transaction;
use perdura_engine::{Counters, Engine, Error, Mode, Recovery, Result, Ticket, Tuning, Volatile};
use perdura_memory::mapped::record::Recorder;
use perdura_memory::{
    Domain, LockedFile, MapError, MapOptions, Mapped, Memory as _, Noting, PAGE, Survives,
};
use rehearsal::{Rehearsed, needed};
use session::{OtherSession, PoolSession};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};
pub use tx::PoolTx;

/// How a pool is created or opened.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("accounts.pool");
/// use perdura::{EngineKind, Options};
/// let pool = Options::new().engine(EngineKind::Redo).size(64 << 20).open_or_create(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    engine: Option<EngineKind>,
    domain: Option<Domain>,
    size: Option<u64>,
    log: Option<u64>,
    requires: Option<Survives>,
    checksums: bool,
    opening: Opening,
    tuning: Tuning,
    recorder: Option<Arc<Recorder>>,
    mode: Option<u32>,
    unflushed: bool,
    accept_unsafe: bool,
}

/// Default limit of a pool's size, in bytes.
pub const DEFAULT_SIZE: u64 = 1 << 30;

impl Options {
    /// The defaults: `redo`, the domain of the file's backing, 1 GiB.
    pub fn new() -> Self {
        Self::default()
    }

    /// The engine. Default: the pool's own, or `redo` for a new one.
    #[must_use]
    pub fn engine(mut self, engine: EngineKind) -> Self {
        self.engine = Some(engine);
        self
    }

    /// The persistence domain, instead of the one that is detected.
    #[must_use]
    pub fn domain(mut self, domain: Option<Domain>) -> Self {
        self.domain = domain;
        self
    }

    /// Limit to which the pool grows, in bytes. A new pool's file has its log and its page table at first, 81 MiB by
    /// default; a smaller limit makes it smaller. A pool can be reopened with up to four times the size that it was
    /// created with.
    #[must_use]
    pub fn size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }

    /// Bytes of log of a new pool: a transaction, and everything that is logged between checkpoints, must fit.
    /// Default: an eighth of the size, at most 64 MiB.
    #[must_use]
    pub fn log(mut self, bytes: u64) -> Self {
        self.log = Some(bytes);
        self
    }

    /// The failures that transactions on a new pool must outlive: it is refused where they do not. Default: those that
    /// they outlive where it is created.
    #[must_use]
    pub fn requires(mut self, survives: Survives) -> Self {
        self.requires = Some(survives);
        self
    }

    /// Whether all pages of a new pool have checksums, so that damage by its medium is detected when it is read, or by
    /// [`check`](crate::check::check()). The page table, the named roots, the header and the log always have
    /// checksums. docs/bit-rot.md has the cost.
    #[must_use]
    pub fn checksums(mut self, checksums: bool) -> Self {
        self.checksums = checksums;
        self
    }

    /// Open although transactions outlive less than the pool requires.
    #[must_use]
    pub fn accept_weaker(mut self, accept: bool) -> Self {
        self.opening.accept_weaker = accept;
        self
    }

    /// Create or open although the engine is not crash-sync-safe on this memory: where the processor has hardware
    /// transactions and its caches are not persistent, `htm-undo` and `htm-redo`, whose transactions in hardware are in
    /// no log. A power cut may then leave a part of a transaction.
    #[must_use]
    pub fn accept_unsafe(mut self, accept: bool) -> Self {
        self.accept_unsafe = accept;
        self
    }

    /// Open although the pool was left by an engine without crash consistency.
    #[must_use]
    pub fn force(mut self, force: bool) -> Self {
        self.opening.force = force;
        self
    }

    /// Settings of engines that let commits wait: see [`Tuning`].
    #[must_use]
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// Permissions of a new pool's file, less the process's mask (`umask`), from its beginning. Default: reading and
    /// writing for its owner, reading for its group. The owner keeps both, whatever `mode` says.
    #[must_use]
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = Some(mode & 0o777 | 0o600);
        self
    }

    /// Records all operations on the pool's file, for crash tests; the domain must be `media`.
    #[must_use]
    pub fn record(mut self, recorder: Arc<Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Leaves out write-backs, streams and fences of a new pool, to measure their cost: nothing in it is durable.
    #[doc(hidden)]
    #[must_use]
    pub fn unflushed(mut self, unflushed: bool) -> Self {
        self.unflushed = unflushed;
        self
    }

    /// Creates a pool. After an error there is no new file.
    ///
    /// # Errors
    /// When the file exists or cannot be created, or the size is impossible.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<Pool, OpenError> {
        let path = path.as_ref();
        let created = EngineHeap::create(self.engine.unwrap_or_default(), self, path);
        let inner = created.map_err(|error| error.at(path))?;
        Ok(Pool::new(path, inner, &self.tuning))
    }

    /// Opens a pool, recovering it if it was not closed. If several try at once, one succeeds.
    ///
    /// The pool is this process's: in a child forked from it later, every use is an [`Error::Forked`], and does nothing
    /// to the pool. While such a child lives, unless it runs another program, the pool is in use, also when this
    /// process has closed it.
    ///
    /// # Errors
    /// See [`OpenError`]. The pool has not been written to then.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Pool, OpenError> {
        let path = path.as_ref();
        let inner = self.open_heap(path).map_err(|error| error.at(path))?;
        Ok(Pool::new(path, inner, &self.tuning))
    }

    /// Opens a pool that this process may only read, as it was left: if it was not closed, what recovery would do is done
    /// in memory. Others may open it so at the same time, and nobody otherwise.
    ///
    /// Its file is never written: what transactions store is seen through this pool, and gone with it.
    ///
    /// # Errors
    /// See [`OpenError`].
    #[doc(hidden)]
    pub fn open_unchanged(&self, path: impl AsRef<Path>) -> Result<Pool, OpenError> {
        let path = path.as_ref();
        let open = || {
            // The mapping has the lock from here on.
            let memory = Arc::new(LockedFile::open_to_look(path)?.rehearse()?);
            Heap::open(memory, Opening { accept_weaker: true, force: false })
        };
        let heap = open().map_err(|error: OpenError| error.at(path))?;
        Ok(Pool::new(path, EngineHeap::Volatile(heap), &self.tuning))
    }

    fn open_heap(&self, path: &Path) -> Result<EngineHeap, OpenError> {
        let file = LockedFile::open(path)?;
        let found = self.rehearse(&file)?;
        let name = &found.superblock.engine;
        let engine = match self.engine {
            Some(engine) => engine,
            None => name.parse().map_err(|_| OpenError::unknown_engine(name))?,
        };
        EngineHeap::open(engine, self, file, &found)
    }

    /// Opens the pool if the file exists, and creates it otherwise. The leftovers of an interrupted creation are
    /// reused by the next one.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`create`](Self::create).
    pub fn open_or_create(&self, path: impl AsRef<Path>) -> Result<Pool, OpenError> {
        let path = path.as_ref();
        // Other processes may create or remove the pool between a check and the following step.
        let mut attempt = 1;
        loop {
            match self.open(path) {
                Err(OpenError::Map(MapError::NotFound(_))) => {}
                opened => return opened,
            }
            match self.create(path) {
                Err(OpenError::Map(MapError::Exists(_))) if attempt < 10 => attempt += 1,
                created => return created,
            }
        }
    }

    /// Reads the pool's header, and rehearses recovery on a private mapping, so that a damaged pool is refused before
    /// anything is written. The lock that the pool will have is held, so that nothing changes in between.
    fn rehearse(&self, file: &LockedFile) -> Result<Rehearsed, OpenError> {
        let memory = Arc::new(Noting::new(file.rehearse()?));
        let superblock = Superblock::read(&*memory)?;
        let opening = Opening { accept_weaker: true, ..self.opening };
        Heap::<_, Volatile<Noting<Mapped>>>::open(memory.clone(), opening)?;
        let needed = needed(&memory, &superblock);
        Ok(Rehearsed { superblock, needed })
    }

    fn create_with<E: Engine<Mapped>>(&self, path: &Path) -> Result<Heap<Mapped, E>, OpenError> {
        let size = self.size.unwrap_or(DEFAULT_SIZE);
        let limit = size.checked_next_multiple_of(PAGE).unwrap_or(size);
        let log = self.log.unwrap_or(Superblock::default_log(limit));
        let largest = 1 << 46;
        if !(SMALLEST..=largest).contains(&limit) || log > limit / 2 {
            return Err(impossible(format!(
                "a pool of {size} bytes with a log of {log} cannot be: the size must be from {SMALLEST} \
                 to {largest} bytes, and the log at most half of it (`Options::size`, `Options::log`)"
            )));
        }
        let id = new_id();
        // The future header determines how much space the file must have at first.
        let area = log_area::<Mapped, E>(log, limit);
        let checksums = self.checksums;
        let plan = Superblock::new(limit, area, id, E::NAME, Survives::Nothing, checksums);
        let limit = limit.max(plan.smallest_len() + 64 * PAGE);
        let map = MapOptions { domain: self.domain, limit };
        // The file becomes visible only after all of this has succeeded.
        let (len, mode) = (plan.smallest_len(), self.mode.unwrap_or(Mapped::MODE));
        let mapped = Mapped::prepare(path, len, map, mode, self.recorder.clone())?;
        let mapped = if self.unflushed { mapped.unflushed() } else { mapped };
        let mapped = if self.accept_unsafe { mapped.accepting_unsafe() } else { mapped };
        // The page table gets its space with the pages. A table that keeps all of it does no harm.
        if let Some(spare) = plan.spare_table(0) {
            let _ = mapped.release(spare);
            mapped.check_fence().map_err(perdura_engine::Error::from)?;
        }
        if mapped.domain() == Domain::Media {
            mapped.prefault_zero(plan.log.clone()).map_err(perdura_engine::Error::from)?;
        }
        let requires = self.requires;
        let format = Format { limit: plan.limit, log: Some(log), id, requires, checksums };
        let survives = mapped.survives();
        if let Some(requires) = self.requires.filter(|&requires| requires > survives) {
            let domain = mapped.domain();
            return Err(OpenError::Weaker { path: None, requires, survives, domain });
        }
        let heap = Heap::create(Arc::new(mapped), format)?;
        heap.memory().publish()?;
        Ok(heap)
    }

    fn open_with<E: Engine<Mapped>>(
        &self,
        file: LockedFile,
        Rehearsed { superblock, needed }: &Rehearsed,
    ) -> Result<Heap<Mapped, E>, OpenError> {
        let size = self.size.unwrap_or(superblock.limit);
        let most = superblock.layout.page(superblock.layout.capacity);
        if size > most {
            return Err(impossible(format!(
                "the pool was created to grow to at most {most} bytes, and {size} were asked \
                 for; open it with a smaller size, or move its data to a new pool"
            )));
        }
        let least = superblock.smallest_len() + 64 * PAGE;
        if size < least.min(superblock.limit) {
            return Err(impossible(format!(
                "the pool's log and page table need a size (`Options::size`) of at least {least} \
                 bytes, and {size} were asked for; open it with a larger size, or with none"
            )));
        }
        let limit = size.max(least);
        let map = MapOptions { domain: self.domain, limit };
        let mapped = file.map_some(map, self.recorder.clone(), needed)?;
        let mapped = if self.accept_unsafe { mapped.accepting_unsafe() } else { mapped };
        Heap::open(Arc::new(mapped), self.opening)
    }
}

/// Shorthand for [`OpenError::Limit`].
fn impossible(why: String) -> OpenError {
    OpenError::Limit { path: None, why }
}

fn new_id() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(std::process::id()) << 48
}

/// Makes [`EngineHeap`], a heap of each engine, and `each!`, which runs code on the heap it has.
macro_rules! inner {
    ({ $dollar:tt } $($(#[$doc:meta])* $kind:ident $name:literal $engine:ident $made:tt;)*) => {
        enum EngineHeap {
            $($kind(Heap<Mapped, perdura_engine::$engine<Mapped>>),)*
        }

        impl EngineHeap {
            fn create(kind: EngineKind, how: &Options, path: &Path) -> Result<Self, OpenError> {
                match kind {
                    $(EngineKind::$kind => how.create_with(path).map(EngineHeap::$kind),)*
                }
            }

            fn open(
                kind: EngineKind,
                how: &Options,
                file: LockedFile,
                found: &Rehearsed,
            ) -> Result<Self, OpenError> {
                match kind {
                    $(EngineKind::$kind => how.open_with(file, found).map(EngineHeap::$kind),)*
                }
            }

            fn kind(&self) -> EngineKind {
                match self {
                    $(EngineHeap::$kind(_) => EngineKind::$kind,)*
                }
            }
        }

        macro_rules! each {
            ($dollar inner:expr, $dollar heap:ident => $dollar body:expr) => {
                match $dollar inner {
                    $(EngineHeap::$kind($dollar heap) => $dollar body,)*
                }
            };
        }
    };
}
perdura_engine::engines!(inner! { $ });

mod compaction;

pub use compaction::Compaction;

/// Code that needs the heap with its engine known, compiled for each engine: see [`Pool::visit`].
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let pool = perdura::Options::new().size(8 << 20).create(folder.path().join("a.pool"))?;
/// use perdura::{Engine, Heap, Memory, Mapped, Result, TxExt, Visitor, collections::Cell};
///
/// /// A loop that is compiled for each engine: no virtual calls in it.
/// struct CountTo(u64);
///
/// impl Visitor for CountTo {
///     type Output = Result<u64>;
///
///     fn visit<E: Engine<Mapped>>(self, heap: &Heap<Mapped, E>) -> Result<u64> {
///         let mut session = heap.session()?;
///         for _ in 0..self.0 {
///             session.transaction(|tx| {
///                 let count = tx.open_or_create::<Cell<u64>>("count")?;
///                 let last = count.get(tx)?;
///                 count.set(tx, last + 1)
///             })?;
///         }
///         session.read(|tx| tx.open_or_create::<Cell<u64>>("count")?.get(tx))
///     }
/// }
///
/// assert_eq!(pool.visit(CountTo(10))?, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Visitor {
    /// Its result.
    type Output;

    /// Runs on the pool's heap.
    fn visit<E: Engine<Mapped>>(self, heap: &Heap<Mapped, E>) -> Self::Output;
}

/// A heap, after the threads that work on it: dropped in this order.
struct OpenPool {
    waiter: OnceLock<Waiter>,
    background: Option<Background>,
    inner: EngineHeap,
}

/// An open pool. Clones are the same pool; it is closed when the last of them, and of their
/// handles, is dropped.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("notes.pool");
/// use perdura::collections::{Bytes, OrderedMap};
/// use perdura::{Options, Pool, TxExt};
///
/// let pool: Pool = Options::new().open_or_create(&path)?;
/// // Each thread has a session of its own.
/// std::thread::scope(|scope| {
///     let add = |number: u64, text: &'static str| {
///         let mut session = pool.session()?;
///         session.transaction(|tx| {
///             let notes = tx.open_or_create::<OrderedMap<u64, Bytes>>("notes")?;
///             notes.set(tx, number, text.as_bytes())
///         })
///     };
///     let threads = [(1, "first"), (2, "second")].map(|(n, text)| scope.spawn(move || add(n, text)));
///     threads.into_iter().all(|thread| thread.join().is_ok_and(|done| done.is_ok()))
/// });
/// pool.close()?;
///
/// let pool = Options::new().open(&path)?;
/// let count = pool.session()?.read(|tx| match tx.open::<OrderedMap<u64, Bytes>>("notes")? {
///     Some(notes) => notes.len(tx),
///     None => Ok(0),
/// })?;
/// assert_eq!(count, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Pool {
    inner: Arc<OpenPool>,
    path: Arc<PathBuf>,
}

impl Pool {
    fn new(path: &Path, mut inner: EngineHeap, tuning: &Tuning) -> Self {
        let background = each!(&mut inner, heap => {
            heap.watch();
            heap.tune(tuning);
            Background::of(heap.engine(), heap.memory())
        });
        let opened = OpenPool { waiter: OnceLock::new(), background, inner };
        Pool { inner: Arc::new(opened), path: Arc::new(path.to_owned()) }
    }

    /// A handle for one thread.
    ///
    /// # Errors
    /// `Sessions` when there are too many: 4,096, whatever the pool's log.
    pub fn session(&self) -> Result<Handle> {
        let session = match &self.inner.inner {
            EngineHeap::Redo(heap) => PoolSession::Redo(Box::new(heap.session()?)),
            EngineHeap::CcStm(heap) => {
                PoolSession::Else(OtherSession::CcStm(Box::new(heap.session()?)))
            }
            other => {
                PoolSession::Else(OtherSession::Any(each!(other, heap => heap.session()?.erased())))
            }
        };
        Ok(Handle { session, open: None, pool: self.clone() })
    }

    /// A future that resolves when the commit with this ticket, and all before it, are durable: for tasks that must
    /// not block. The first call starts a thread with a session of its own, which waits instead of the tasks.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let pool = perdura::Options::new().size(8 << 20).create(folder.path().join("a.pool"))?;
    /// use perdura::{Pool, TxExt, collections::Cell};
    ///
    /// async fn count(pool: &Pool) -> perdura::Result<u64> {
    ///     let (count, ticket) = pool.session()?.submit(|tx| {
    ///         let cell = tx.open_or_create::<Cell<u64>>("count")?;
    ///         let count = cell.get(tx)? + 1;
    ///         cell.set(tx, count)?;
    ///         Ok(count)
    ///     })?;
    ///     pool.durable(ticket).await?;
    ///     Ok(count)
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The future's: as [`Handle::wait`]; `Sessions` or `Aborted` if the thread cannot be started.
    pub fn durable(&self, ticket: Ticket) -> Durable {
        match self.waiter() {
            Ok(waiter) => waiter.durable(ticket),
            Err(error) => Durable::failed(error),
        }
    }

    fn waiter(&self) -> Result<&Waiter> {
        let waiter = &self.inner.waiter;
        if let Some(started) = waiter.get() {
            return Ok(started);
        }
        // If several threads start one at the same time, all but one end theirs.
        let session = each!(&self.inner.inner, heap => heap.session()?.erased());
        let started = Waiter::start(session, self.memory_arc())?;
        Ok(waiter.get_or_init(|| started))
    }

    /// Runs `visitor` on the heap with its engine known.
    pub fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
        each!(&self.inner.inner, heap => visitor.visit(heap))
    }

    /// The heap, with its type erased.
    pub fn heap(&self) -> &dyn AnyHeap {
        each!(&self.inner.inner, heap => heap)
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The engine.
    pub fn engine(&self) -> EngineKind {
        self.inner.inner.kind()
    }

    /// The memory.
    pub fn memory(&self) -> &Mapped {
        each!(&self.inner.inner, heap => heap.memory())
    }

    fn memory_arc(&self) -> Arc<Mapped> {
        each!(&self.inner.inner, heap => heap.memory().clone())
    }

    /// Why nothing can be committed any more, if that is so: the pool's medium has failed, or its file was deleted,
    /// replaced, moved or cut short (looked for now, and by a thread of the pool five times a second), or this process
    /// was forked since it opened the pool.
    pub fn failure(&self) -> Option<Error> {
        each!(&self.inner.inner, heap => heap.look().err())
    }

    /// The work of the recovery when it was opened.
    pub fn recovery(&self) -> &Recovery {
        each!(&self.inner.inner, heap => heap.recovery())
    }

    /// The counters of all sessions that have ended.
    pub fn counters(&self) -> Counters {
        each!(&self.inner.inner, heap => heap.counters())
    }

    /// All information about it.
    pub fn info(&self) -> Info {
        each!(&self.inner.inner, heap => {
            let (pinned_bytes, oldest) = heap.pinned();
            let superblock = heap.superblock();
            let info = Info::new(&self.path, heap.memory(), &superblock, heap.space());
            Info { pinned_bytes, oldest_transaction: oldest.map(|oldest| oldest.age), ..info }
        })
    }

    /// Why the file could not grow at the last attempt, though the pool's limit allows it: the disk, or a quota, is
    /// full. `None` once the file has grown.
    pub fn cannot_grow(&self) -> Option<std::io::Error> {
        each!(&self.inner.inner, heap => heap.space().refusal())
    }

    /// Makes everything committed durable in place and empties the log.
    ///
    /// # Errors
    /// `Io` when the medium failed; `Nested` inside a transaction of the calling thread.
    pub fn checkpoint(&self) -> Result<()> {
        each!(&self.inner.inner, heap => heap.checkpoint())
    }

    /// Gives a part of the free space back to the file system if much is free: see [`Heap::release_some`].
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn release_some(&self) -> Result<u64> {
        each!(&self.inner.inner, heap => heap.release_some())
    }

    /// Gives all free runs of 64 KiB back to the file system: see [`Heap::release_all`].
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn release_all(&self) -> Result<u64> {
        each!(&self.inner.inner, heap => heap.release_all())
    }

    /// Closes the pool and reports errors, which dropping cannot. While clones or handles are left, the pool stays
    /// open for them.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn close(self) -> Result<()> {
        self.checkpoint()?;
        match Arc::try_unwrap(self.inner) {
            Ok(OpenPool { waiter, background, inner }) => {
                drop((waiter, background));
                each!(inner, heap => heap.close())
            }
            Err(_) => Ok(()),
        }
    }
}

/// One thread's transactions on a pool, whatever its engine.
///
/// A thread inside a transaction on one handle cannot begin, commit or wait on another handle of the same pool, nor
/// make a checkpoint: it would wait for itself, and gets an [`Error::Nested`] instead.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let pool = perdura::Options::new().size(8 << 20).create(folder.path().join("a.pool"))?;
/// let (mut outer, mut inner) = (pool.session()?, pool.session()?);
/// let nested = outer.read(|_| inner.transaction(|_| Ok(())));
/// assert!(matches!(nested, Err(perdura::Error::Nested)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Handle {
    session: PoolSession,
    open: Option<explicit::OpenTransaction>,
    // After the session: the pool is closed last.
    pool: Pool,
}

impl Handle {
    /// Runs `body` as a transaction and returns when it is durable. If `body` fails, the transaction has no effect. It
    /// may be run more than once.
    ///
    /// # Errors
    /// The error of `body`, or why the commit failed; `Nested` if the calling thread is inside a transaction on
    /// another handle of the pool.
    pub fn transaction<R>(&mut self, body: impl FnMut(&mut PoolTx<'_>) -> Result<R>) -> Result<R> {
        self.check_closed()?;
        self.session.run(Mode::Write, true, body).map(|(result, _)| result)
    }

    /// As [`transaction`](Self::transaction), with an error type of the caller's own: any error of `body` rolls the
    /// transaction back, and is returned as it is.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let pool = perdura::Options::new().size(8 << 20).create(folder.path().join("a.pool"))?;
    /// use perdura::{TxExt, collections::Cell};
    ///
    /// #[derive(Debug)]
    /// enum PayError {
    ///     TooLittle { there: u64 },
    ///     Pool(perdura::Error),
    /// }
    ///
    /// impl From<perdura::Error> for PayError {
    ///     fn from(error: perdura::Error) -> Self {
    ///         PayError::Pool(error)
    ///     }
    /// }
    ///
    /// let paid = pool.session()?.try_transaction(|tx| {
    ///     let balance = tx.open_or_create::<Cell<u64>>("balance")?;
    ///     let there = balance.get(tx)?;
    ///     let left = there.checked_sub(5).ok_or(PayError::TooLittle { there })?;
    ///     Ok(balance.set(tx, left)?)
    /// });
    /// assert!(matches!(paid, Err(PayError::TooLittle { there: 0 })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of `body`, or why the commit failed.
    pub fn try_transaction<R, F: From<Error>>(
        &mut self,
        body: impl FnMut(&mut PoolTx<'_>) -> Result<R, F>,
    ) -> Result<R, F> {
        with_own_error(body, |body| self.transaction(body))
    }

    /// Runs `body` as a transaction that only reads, at the same time as other readers.
    ///
    /// # Errors
    /// As [`transaction`](Self::transaction).
    pub fn read<R>(&mut self, body: impl FnMut(&mut PoolTx<'_>) -> Result<R>) -> Result<R> {
        self.check_closed()?;
        self.session.run(Mode::Read, true, body).map(|(result, _)| result)
    }

    /// As [`read`](Self::read), with an error type of the caller's own.
    ///
    /// # Errors
    /// As [`try_transaction`](Self::try_transaction).
    pub fn try_read<R, F: From<Error>>(
        &mut self,
        body: impl FnMut(&mut PoolTx<'_>) -> Result<R, F>,
    ) -> Result<R, F> {
        with_own_error(body, |body| self.read(body))
    }

    /// As [`transaction`](Self::transaction), but returns at the logical commit, with a ticket for the durable commit.
    ///
    /// # Errors
    /// As [`transaction`](Self::transaction).
    pub fn submit<R>(
        &mut self,
        body: impl FnMut(&mut PoolTx<'_>) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        self.run(Mode::Write, body)
    }

    /// As [`read`](Self::read), with a ticket that is durable when everything that was read is.
    ///
    /// # Errors
    /// As [`transaction`](Self::transaction).
    pub fn submit_read<R>(
        &mut self,
        body: impl FnMut(&mut PoolTx<'_>) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        self.run(Mode::Read, body)
    }

    fn run<R>(
        &mut self,
        mode: Mode,
        body: impl FnMut(&mut PoolTx<'_>) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        self.check_closed()?;
        self.session.run(mode, false, body)
    }

    /// Whether the commit with this ticket is durable.
    pub fn is_durable(&self, ticket: Ticket) -> bool {
        self.session.get().is_durable(ticket)
    }

    /// Returns when the commit with this ticket, and all before it, are durable.
    ///
    /// # Errors
    /// `Io` when the medium failed; `Nested` inside a transaction on another handle of the pool.
    pub fn wait(&mut self, ticket: Ticket) -> Result<()> {
        self.session.erased().wait(ticket)
    }

    /// The handle's counters.
    pub fn counters(&self) -> Counters {
        self.session.get().counters()
    }
}

/// Runs `body` by `run`, and returns the error of `body`, if it failed.
fn with_own_error<R, F: From<Error>>(
    mut body: impl FnMut(&mut PoolTx<'_>) -> Result<R, F>,
    run: impl FnOnce(&mut dyn FnMut(&mut PoolTx<'_>) -> Result<R>) -> Result<R>,
) -> Result<R, F> {
    let mut own = None;
    let result = run(&mut |tx| {
        own = None;
        body(tx).map_err(|error| {
            own = Some(error);
            Error::Aborted("the caller has its reason".to_owned())
        })
    });
    result.map_err(|error| own.unwrap_or_else(|| error.into()))
}
