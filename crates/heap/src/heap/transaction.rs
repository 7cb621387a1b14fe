//! A transaction on a heap, as its body sees it.
//!
//! Invariant: a body reads and writes only the pages, where objects are. The header, the log and the page table before
//! them belong to the heap; the allocator writes the page table, and the named roots the head of their list.

use super::{Boxed, SharedState};
use crate::alloc::Local;
use crate::roots;
use crate::superblock::CATALOGUE;
use crate::tx::{Extent, Fresh, Locked, Moment, Purpose, Root, Savepoint, Tx};
use perdura_engine::{Access, Error, Mode, Oldest, Pins, Result, Session, words_from};
use std::sync::Arc;

/// The memory that can be reused, and the oldest transaction in the way of the rest.
type Reuse = dyn Fn() -> (Pins, Option<Oldest>) + Send + Sync;

/// The part of a session that its transactions work on.
pub(super) struct SessionState<S> {
    pub(super) session: S,
    pub(super) local: Local,
    pub(super) shared: Arc<SharedState>,
    reuse: Box<Reuse>,
    /// Where the pages begin.
    pages: u64,
    /// Whether a named root is being set.
    naming: bool,
}

impl<S> SessionState<S> {
    pub(super) fn new(mut session: S, shared: Arc<SharedState>, reuse: Box<Reuse>) -> Self
    where
        S: Session,
    {
        let (local, pages) = (Local::new(&shared.space), shared.space.layout().pages);
        session.set_floor(pages);
        SessionState { session, local, shared, reuse, pages, naming: false }
    }
}

/// A transaction on a heap, as its body sees it.
pub struct HeapTx<'a, S: Session>(&'a mut SessionState<S>);

impl<'a, S: Session> HeapTx<'a, S> {
    #[inline(always)]
    pub(super) fn new(state: &'a mut SessionState<S>) -> Self {
        HeapTx(state)
    }

    /// The transaction, for a part of its body.
    #[inline(always)]
    pub(crate) fn again(&mut self) -> HeapTx<'_, S> {
        HeapTx(self.0)
    }

    /// Passes on the result of a change. One that found no room, in the pool or in the log, may be one of several that
    /// belong together: the transaction is incomplete then.
    #[inline(always)]
    fn noted<R>(&mut self, changed: Result<R>) -> Result<R> {
        match changed {
            Ok(result) => Ok(result),
            Err(error) => Err(*self.change_failed(error)),
        }
    }

    #[cold]
    #[inline(never)]
    fn change_failed(&mut self, error: Error) -> Box<Error> {
        if error.is_full() || matches!(error, Error::TooLarge { .. }) {
            self.0.local.failed();
        }
        Box::new(error)
    }
}

/// Out of line, on the state itself: a transaction that is passed by reference would be in memory, and not in registers.
impl<S: Session> SessionState<S> {
    /// A read that may take checks: also of an offset before the pages, which is that of a null pointer, or of the named
    /// roots' list.
    #[inline(never)]
    fn read_checked(&mut self, at: u64) -> Boxed<u64> {
        if at < self.pages && at != CATALOGUE {
            return Err(Box::new(no_object(at)));
        }
        Ok(self.session.read_word(at)?)
    }

    /// The same for several words, which may reach into the pages.
    #[cold]
    fn read_words_before(&mut self, at: u64, to: &mut [u64]) -> Boxed<()> {
        for (word, at) in to.iter_mut().zip(words_from(at)) {
            *word = HeapTx(self).read_word(at)?;
        }
        Ok(())
    }

    /// A write that may take checks.
    #[inline(never)]
    fn write_checked(&mut self, at: u64, value: u64) -> Boxed<()> {
        if at < self.pages {
            if !self.naming || at != CATALOGUE {
                return Err(Box::new(BEFORE));
            }
            return Ok(self.session.write_word(at, value)?);
        }
        let written = self.session.write_word(at, value);
        Ok(HeapTx(self).noted(written)?)
    }
}

/// A named root is being set, until this is dropped.
struct Naming<'t, 'a, S: Session>(&'t mut HeapTx<'a, S>);

impl<'t, 'a, S: Session> Naming<'t, 'a, S> {
    fn begin(tx: &'t mut HeapTx<'a, S>) -> Self {
        tx.0.naming = true;
        Naming(tx)
    }
}

impl<S: Session> Drop for Naming<'_, '_, S> {
    fn drop(&mut self) {
        self.0.0.naming = false;
    }
}

const BEFORE: Error = Error::Invalid(
    "a transaction tried to write before the pool's pages, where the pool's own header, log and page table \
     are; write to what `allocate` returned",
);

const fn no_object(at: u64) -> Error {
    Error::misuse("no object of the pool is", at)
}

const NOT_FRESH: Error = Error::Invalid(
    "the memory was allocated by another transaction, or by this one before it went back to a savepoint; \
     use `write_bytes` for what is allocated already",
);

const NAMED_BY_TRANSACTIONS: Error = Error::Invalid(
    "a section was to set a named root, which transactions may be reading; set it in a transaction",
);

const OVER_THE_END: Error = Error::Invalid(
    "the bytes run over the end of the allocation, or do not begin at one of its words; allocate a larger one",
);

impl<S: Session> Access for HeapTx<'_, S> {
    #[inline(always)]
    fn read_word(&mut self, at: u64) -> Result<u64> {
        if at >= self.0.pages
            && let Some(value) = self.0.session.read_at_once(at)
        {
            return Ok(value);
        }
        Ok(self.0.read_checked(at)?)
    }

    #[inline(always)]
    fn read_words(&mut self, at: u64, to: &mut [u64]) -> Result<()> {
        if at < self.0.pages {
            return Ok(self.0.read_words_before(at, to)?);
        }
        self.0.session.read_words(at, to)
    }

    #[inline(always)]
    fn prefetch(&mut self, at: u64) {
        self.0.session.prefetch(at);
    }

    #[inline(always)]
    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        // Even if nothing is written: a later moment is another one then, for no reason.
        self.0.local.savepoints.changed();
        // The pages are the session's floor.
        if (S::HAS_FLOOR || at >= self.0.pages) && self.0.session.write_at_once(at, value) {
            return Ok(());
        }
        Ok(self.0.write_checked(at, value)?)
    }

    #[inline]
    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        if at < self.0.pages && !to.is_empty() {
            return Err(no_object(at));
        }
        self.0.session.read_bytes(at, to)
    }

    fn peek_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        if at < self.0.pages && !to.is_empty() {
            return Err(no_object(at));
        }
        self.0.session.peek_bytes(at, to)
    }

    #[inline]
    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        if at < self.0.pages {
            return Err(BEFORE);
        }
        self.0.local.savepoints.changed();
        let written = self.0.session.write_bytes(at, from);
        self.noted(written)
    }

    fn mode(&self) -> Mode {
        self.0.session.mode()
    }

    #[inline]
    fn lane(&self) -> u32 {
        self.0.session.lane()
    }
}

impl<S: Session> HeapTx<'_, S> {
    /// Takes free space.
    fn take(&mut self, purpose: Purpose, len: u64, whole: bool) -> Result<Option<Fresh>> {
        if self.0.session.mode() == Mode::Read {
            return Err(Error::ReadOnly);
        }
        if len == 0 {
            return Err(Error::Invalid("an allocation of 0 bytes"));
        }
        self.0.session.enter_heap()?;
        let SessionState { session, local, shared, .. } = &mut *self.0;
        let SharedState { space, memory, .. } = &**shared;
        if len > memory.limit() {
            return Err(Error::full(len));
        }
        local.savepoints.changed();
        local.allocate(session, space, &**memory, purpose, len, whole)
    }

    /// Allocates, which before any other change of the transaction leaves nothing half done.
    fn take_noted(&mut self, purpose: Purpose, len: u64, whole: bool) -> Result<Fresh> {
        let is_first = self.0.local.savepoints.is_unchanged();
        let taken = self.take_or_reclaim(purpose, len, whole);
        if is_first { taken } else { self.noted(taken) }
    }

    /// Takes free space, or makes some free.
    fn take_or_reclaim(&mut self, purpose: Purpose, len: u64, whole: bool) -> Result<Fresh> {
        for attempt in 0..3 {
            if let Some(fresh) = self.take(purpose, len, whole)? {
                return Ok(fresh);
            }
            let space = &self.0.shared.space;
            // First reclaims memory that the log has released meanwhile, then makes it release more.
            space.reclaim((self.0.reuse)().0);
            space.collect_pages();
            if attempt == 1 && space.has_limbo() {
                self.0.session.checkpoint()?;
                space.reclaim((self.0.reuse)().0);
            }
        }
        // A part of the object does as well.
        self.0.local.lacks(if whole { len } else { 1 });
        let Some(source) = self.0.shared.space.refusal() else {
            return Err(self.full(len));
        };
        // More space does not help if the medium failed.
        self.0.shared.memory.check_fence()?;
        Err(Error::NoSpace { requested: len, source })
    }
}

impl<S: Session> HeapTx<'_, S> {
    /// There is no room: also since running transactions hold back freed memory, if they do.
    #[cold]
    fn full(&self, requested: u64) -> Error {
        let (pins, oldest) = (self.0.reuse)();
        let pinned = self.0.shared.space.reclaim(pins).pinned_bytes;
        let (oldest, taken) = (oldest.filter(|_| pinned > 0), self.0.local.taken_bytes());
        Error::Full { requested, pinned, oldest, taken }
    }
}

impl<S: Session> Tx for HeapTx<'_, S> {
    fn allocate(&mut self, purpose: Purpose, len: u64) -> Result<Fresh> {
        self.take_noted(purpose, len, true)
    }

    fn allocate_now(&mut self, purpose: Purpose, len: u64) -> Result<Option<Fresh>> {
        match self.take(purpose, len, true) {
            Err(Error::Full { .. }) => Ok(None),
            taken => self.noted(taken),
        }
    }

    fn allocate_some(&mut self, purpose: Purpose, len: u64) -> Result<Fresh> {
        self.take_noted(purpose, len, false)
    }

    fn is_sparse(&mut self, at: u64) -> bool {
        self.0.shared.space.is_sparse(at)
    }

    #[inline]
    fn write_fresh(&mut self, fresh: Fresh, from: u64, bytes: &[u8]) -> Result<()> {
        if !self.0.local.is_fresh(&self.0.shared.space, &fresh) {
            return Err(NOT_FRESH);
        }
        if !fresh.has(from, bytes.len() as u64) {
            return Err(OVER_THE_END);
        }
        self.0.local.savepoints.changed();
        let written = if self.0.local.savepoints.may_undo(fresh.place) {
            // Stores without a log cannot be undone.
            self.0.session.write_bytes(fresh.at + from, bytes)
        } else {
            self.0.session.write_fresh(fresh.at + from, bytes)
        };
        self.noted(written)
    }

    fn free(&mut self, at: u64) -> Result<()> {
        if self.0.session.mode() == Mode::Read {
            return Err(Error::ReadOnly);
        }
        self.0.session.enter_heap()?;
        self.0.local.savepoints.changed();
        let freed = self.0.local.free(&mut self.0.session, &self.0.shared.space, at);
        self.noted(freed)
    }

    fn usable(&mut self, at: u64) -> Result<u64> {
        Ok(crate::alloc::local::allocation(&mut self.0.session, &self.0.shared.space, at)?.bytes())
    }

    fn extent(&mut self, at: u64) -> Result<Option<Extent>> {
        crate::alloc::extent::extent(&mut self.0.session, self.0.shared.space.layout(), at)
    }

    fn point(&mut self) -> Savepoint {
        let access = self.0.session.mark();
        self.0.local.point(access)
    }

    fn undo_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let done = self.0.local.savepoints.back_to(savepoint)?;
        self.0.session.rollback_to(done.access);
        self.0.local.undo_to(&self.0.shared.space, done.taken, done.freed);
        Ok(())
    }

    fn moment(&self) -> Moment {
        self.0.moment()
    }

    fn root(&mut self, name: &str) -> Result<Option<Root>> {
        self.0.session.enter_heap()?;
        roots::get(self, name)
    }

    fn set_root(&mut self, name: &str, root: Root) -> Result<()> {
        if self.0.session.in_section() {
            return Err(NAMED_BY_TRANSACTIONS);
        }
        let naming = Naming::begin(self);
        roots::set(&mut *naming.0, name, root)
    }

    fn lock(&mut self, id: u64) -> Result<Locked> {
        self.0.session.lock(id).map(|()| Locked(id))
    }

    fn unlock(&mut self, lock: Locked) -> Result<()> {
        self.0.session.unlock(lock.0)
    }
}

/// Makes the methods of a trait, each as that of [`HeapTx`].
macro_rules! as_transaction {
    ($of:ident {
        $($name:ident($($given:ident: $type:ty),*) $(-> $result:ty)?;)*
    } $($more:item)*) => {
        impl<S: Session> $of for SessionState<S> {
            $(
                fn $name(&mut self, $($given: $type),*) $(-> $result)? {
                    HeapTx(self).$name($($given),*)
                }
            )*
            $($more)*
        }
    };
}

// The running transaction, where its type is not known.
as_transaction! { Access {
        read_word(at: u64) -> Result<u64>;
        read_words(at: u64, to: &mut [u64]) -> Result<()>;
        write_word(at: u64, value: u64) -> Result<()>;
        read_bytes(at: u64, to: &mut [u8]) -> Result<()>;
        peek_bytes(at: u64, to: &mut [u8]) -> Result<()>;
        write_bytes(at: u64, from: &[u8]) -> Result<()>;
        prefetch(at: u64);
    }

    fn mode(&self) -> Mode {
        self.session.mode()
    }

    fn lane(&self) -> u32 {
        self.session.lane()
    }
}

as_transaction! { Tx {
        allocate(purpose: Purpose, len: u64) -> Result<Fresh>;
        write_fresh(fresh: Fresh, from: u64, bytes: &[u8]) -> Result<()>;
        allocate_now(purpose: Purpose, len: u64) -> Result<Option<Fresh>>;
        allocate_some(purpose: Purpose, len: u64) -> Result<Fresh>;
        is_sparse(at: u64) -> bool;
        free(at: u64) -> Result<()>;
        usable(at: u64) -> Result<u64>;
        extent(at: u64) -> Result<Option<Extent>>;
        undo_to(savepoint: Savepoint) -> Result<()>;
        point() -> Savepoint;
        root(name: &str) -> Result<Option<Root>>;
        set_root(name: &str, root: Root) -> Result<()>;
        lock(id: u64) -> Result<Locked>;
        unlock(lock: Locked) -> Result<()>;
    }

    fn moment(&self) -> Moment {
        let moment = self.local.savepoints.moment(self.shared.id);
        Moment { moves: self.shared.space.moves(), ..moment }
    }
}
