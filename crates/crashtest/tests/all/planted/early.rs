//! A session that changes the page table in place before its transaction commits, or reports a commit as durable before
//! it is.

use crate::planted::engines::{ANSWERS_FIRST, TOO_EARLY};
use perdura::superblock::Superblock;
use perdura_engine::{Access, Counters, Mark, Mode, Result, Session, Ticket};
use perdura_memory::Memory;
use std::ops::Range;
use std::sync::Arc;

/// The session `S`; eager in one of these ways, or not.
pub(crate) struct Eager<S, M: Memory> {
    inner: S,
    memory: Arc<M>,
    /// The page table, if it is changed too early.
    table: Option<Range<u64>>,
    /// The changed words, with their old values: the planted bug handles rollbacks.
    changed: Vec<(u64, u64)>,
    /// Reports every ticket as durable at once.
    answers: bool,
}

impl<S: Session, M: Memory> Eager<S, M> {
    pub(crate) fn new(inner: S, memory: Arc<M>, bug: u8) -> Self {
        let layout = Superblock::read(&*memory).expect("a pool's header").layout;
        let table = (bug == TOO_EARLY).then_some(layout.table..layout.pages);
        let answers = bug == ANSWERS_FIRST;
        Eager { inner, memory, table, changed: Vec::new(), answers }
    }

    fn take_back(&mut self) {
        for (at, old) in self.changed.drain(..).rev() {
            self.memory.store(at, old);
        }
    }
}

impl<S: Session, M: Memory> Access for Eager<S, M> {
    fn read_word(&mut self, at: u64) -> Result<u64> {
        self.inner.read_word(at)
    }

    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        self.inner.write_word(at, value)?;
        if self.table.as_ref().is_some_and(|table| table.contains(&at)) {
            self.changed.push((at, self.memory.load(at)));
            self.memory.store(at, value);
        }
        Ok(())
    }

    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        self.inner.read_bytes(at, to)
    }

    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.inner.write_bytes(at, from)
    }

    fn mode(&self) -> Mode {
        self.inner.mode()
    }

    fn lane(&self) -> u32 {
        self.inner.lane()
    }
}

impl<S: Session, M: Memory> Session for Eager<S, M> {
    fn write_fresh(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.inner.write_fresh(at, from)
    }

    fn mark(&mut self) -> Mark {
        self.inner.mark()
    }

    fn rollback_to(&mut self, mark: Mark) {
        let changed: Vec<u64> = self.changed.iter().map(|(at, _)| *at).collect();
        self.take_back();
        self.inner.rollback_to(mark);
        for at in changed {
            let value = self.inner.read_word(at).expect("a word of the page table");
            self.changed.push((at, self.memory.load(at)));
            self.memory.store(at, value);
        }
    }

    fn begin(&mut self, mode: Mode) {
        self.inner.begin(mode);
    }

    fn commit(&mut self) -> Result<Ticket> {
        self.changed.clear();
        self.inner.commit()
    }

    fn abort(&mut self) {
        self.take_back();
        self.inner.abort();
    }

    fn is_durable(&self, ticket: Ticket) -> bool {
        self.answers || self.inner.is_durable(ticket)
    }

    fn wait_durable(&mut self, ticket: Ticket) -> Result<()> {
        if self.answers { Ok(()) } else { self.inner.wait_durable(ticket) }
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.inner.checkpoint()
    }

    fn counters(&self) -> &Counters {
        self.inner.counters()
    }
}
