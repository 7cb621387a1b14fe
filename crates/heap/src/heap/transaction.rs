//! A transaction on a heap, as its body sees it.
//!
//! What always holds: a body writes to the pages, where objects are, and nowhere before them. The
//! header, the log and the page table are the heap's own; the allocator writes the page table, and named
//! roots their list's head.

use super::Shared;
use crate::alloc::Local;
use crate::roots;
use crate::superblock::CATALOGUE;
use crate::tx::{Extent, Purpose, Root, Tx, TxMark};
use perdura_engine::{Access, Error, Mark, Mode, Result, Session, Ticket};

/// A transaction on a heap, as its body sees it.
pub struct HeapTx<'a, S: Session> {
    session: &'a mut S,
    local: &'a mut Local,
    shared: &'a Shared,
    reclaimable: &'a dyn Fn() -> Ticket,
    /// Where the pages begin.
    pages: u64,
    /// A named root is being set.
    naming: bool,
}

impl<'a, S: Session> HeapTx<'a, S> {
    pub(super) fn new(
        session: &'a mut S,
        local: &'a mut Local,
        shared: &'a Shared,
        reclaimable: &'a dyn Fn() -> Ticket,
    ) -> Self {
        let pages = shared.space.layout().pages;
        HeapTx { session, local, shared, reclaimable, pages, naming: false }
    }

    /// A write before the pages.
    #[cold]
    fn write_before(&mut self, at: u64, value: u64) -> Result<()> {
        if self.naming && at == CATALOGUE {
            self.session.write_word(at, value)
        } else {
            Err(BEFORE)
        }
    }
}

const BEFORE: Error = Error::Invalid(
    "a transaction tried to write before the pool's pages, where the pool's own header, log and page table \
     are; write to what `allocate` returned",
);

impl<S: Session> Access for HeapTx<'_, S> {
    #[inline(always)]
    fn read_word(&mut self, at: u64) -> Result<u64> {
        self.session.read_word(at)
    }

    #[inline(always)]
    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        if at < self.pages {
            return self.write_before(at, value);
        }
        self.session.write_word(at, value)
    }

    #[inline]
    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        self.session.read_bytes(at, to)
    }

    #[inline]
    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        if at < self.pages {
            return Err(BEFORE);
        }
        self.session.write_bytes(at, from)
    }

    #[inline]
    fn write_fresh(&mut self, at: u64, from: &[u8]) -> Result<()> {
        if at < self.pages {
            return Err(BEFORE);
        }
        self.session.write_fresh(at, from)
    }

    fn mode(&self) -> Mode {
        self.session.mode()
    }

    fn mark(&mut self) -> Mark {
        self.session.mark()
    }

    fn rollback_to(&mut self, mark: Mark) {
        self.session.rollback_to(mark);
    }
}

impl<S: Session> HeapTx<'_, S> {
    /// Takes what is free.
    fn take(&mut self, purpose: Purpose, len: u64, whole: bool) -> Result<Option<u64>> {
        if self.session.mode() == Mode::Read {
            return Err(Error::ReadOnly);
        }
        if len == 0 {
            return Err(Error::Invalid("an allocation of 0 bytes"));
        }
        let Shared { space, memory, .. } = self.shared;
        if len > memory.limit() {
            return Err(Error::Full { requested: len });
        }
        self.local.allocate(&mut *self.session, space, &**memory, purpose, len, whole)
    }

    /// Takes what is free, or can be had.
    fn take_or_reclaim(&mut self, purpose: Purpose, len: u64, whole: bool) -> Result<u64> {
        for attempt in 0..3 {
            if let Some(at) = self.take(purpose, len, whole)? {
                return Ok(at);
            }
            let space = &self.shared.space;
            // First what the log has let go meanwhile, then what it can be made to let go.
            space.reclaim((self.reclaimable)());
            if attempt == 1 && space.has_limbo() {
                self.session.checkpoint()?;
                space.reclaim((self.reclaimable)());
            }
        }
        let Some(source) = self.shared.space.refusal() else {
            return Err(Error::Full { requested: len });
        };
        // A medium that failed is not helped by space.
        self.shared.memory.check_fence()?;
        Err(Error::NoSpace { requested: len, source })
    }
}

impl<S: Session> Tx for HeapTx<'_, S> {
    fn allocate(&mut self, purpose: Purpose, len: u64) -> Result<u64> {
        self.take_or_reclaim(purpose, len, true)
    }

    fn allocate_now(&mut self, purpose: Purpose, len: u64) -> Result<Option<u64>> {
        match self.take(purpose, len, true) {
            Err(Error::Full { .. }) => Ok(None),
            taken => taken,
        }
    }

    fn allocate_some(&mut self, purpose: Purpose, len: u64) -> Result<u64> {
        self.take_or_reclaim(purpose, len, false)
    }

    fn is_sparse(&mut self, at: u64) -> bool {
        self.shared.space.is_sparse(at)
    }

    fn free(&mut self, at: u64) -> Result<()> {
        if self.session.mode() == Mode::Read {
            return Err(Error::ReadOnly);
        }
        self.local.free(&mut *self.session, &self.shared.space, at)
    }

    fn usable(&mut self, at: u64) -> Result<u64> {
        Ok(crate::alloc::local::allocation(&mut *self.session, &self.shared.space, at)?.bytes())
    }

    fn extent(&mut self, at: u64) -> Result<Option<Extent>> {
        crate::alloc::extent::extent(&mut *self.session, self.shared.space.layout(), at)
    }

    fn point(&mut self) -> TxMark {
        let (allocated, freed) = self.local.counts();
        TxMark { access: self.session.mark(), allocated, freed }
    }

    fn undo_to(&mut self, mark: TxMark) {
        self.session.rollback_to(mark.access);
        self.local.undo_to(&self.shared.space, mark.allocated, mark.freed);
    }

    fn root(&mut self, name: &str) -> Result<Option<Root>> {
        roots::get(self, name)
    }

    fn set_root(&mut self, name: &str, root: Root) -> Result<()> {
        self.naming = true;
        let set = roots::set(self, name, root);
        self.naming = false;
        set
    }
}
