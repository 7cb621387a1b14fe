//! A transaction that records which words it writes: for counting lines on a real pool.

use crate::tx::{Extent, Fresh, Moment, Purpose, Root, Savepoint, Tx};
use perdura_engine::{Access, Mode, Result};
use std::collections::BTreeMap;

/// The words that one transaction wrote in a line, a bit each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words {
    /// Words written through the log.
    pub written: u8,
    /// Words of fresh blocks.
    pub fresh: u8,
}

/// A transaction's own writes, by the offsets of lines. The allocator's writes are not seen.
#[derive(Clone, Debug, Default)]
pub struct Writes(pub BTreeMap<u64, Words>);

impl Writes {
    fn note(&mut self, at: u64, len: u64, fresh: bool) {
        for word in at / 8..(at + len).div_ceil(8) {
            let words = self.0.entry(word / 8 * 64).or_default();
            *(if fresh { &mut words.fresh } else { &mut words.written }) |= 1 << (word % 8);
        }
    }
}

/// A transaction that records its writes.
pub struct TracedTx<'a> {
    tx: &'a mut dyn Tx,
    writes: &'a mut Writes,
}

impl<'a> TracedTx<'a> {
    /// Wraps `tx`, and records in `writes`.
    pub fn new(tx: &'a mut dyn Tx, writes: &'a mut Writes) -> Self {
        TracedTx { tx, writes }
    }
}

impl Access for TracedTx<'_> {
    fn read_word(&mut self, at: u64) -> Result<u64> {
        self.tx.read_word(at)
    }

    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        self.writes.note(at, 8, false);
        self.tx.write_word(at, value)
    }

    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        self.tx.read_bytes(at, to)
    }

    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.writes.note(at, from.len() as u64, false);
        self.tx.write_bytes(at, from)
    }

    fn mode(&self) -> Mode {
        self.tx.mode()
    }

    fn lane(&self) -> u32 {
        self.tx.lane()
    }
}

impl Tx for TracedTx<'_> {
    fn allocate(&mut self, purpose: Purpose, len: u64) -> Result<Fresh> {
        self.tx.allocate(purpose, len)
    }

    fn write_fresh(&mut self, fresh: Fresh, from: u64, bytes: &[u8]) -> Result<()> {
        self.writes.note(fresh.at() + from, bytes.len() as u64, true);
        self.tx.write_fresh(fresh, from, bytes)
    }

    fn allocate_now(&mut self, purpose: Purpose, len: u64) -> Result<Option<Fresh>> {
        self.tx.allocate_now(purpose, len)
    }

    fn allocate_some(&mut self, purpose: Purpose, len: u64) -> Result<Fresh> {
        self.tx.allocate_some(purpose, len)
    }

    fn is_sparse(&mut self, at: u64) -> bool {
        self.tx.is_sparse(at)
    }

    fn free(&mut self, at: u64) -> Result<()> {
        self.tx.free(at)
    }

    fn usable(&mut self, at: u64) -> Result<u64> {
        self.tx.usable(at)
    }

    fn extent(&mut self, at: u64) -> Result<Option<Extent>> {
        self.tx.extent(at)
    }

    fn undo_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.tx.undo_to(savepoint)
    }

    fn point(&mut self) -> Savepoint {
        self.tx.point()
    }

    fn moment(&self) -> Moment {
        self.tx.moment()
    }

    fn root(&mut self, name: &str) -> Result<Option<Root>> {
        self.tx.root(name)
    }

    fn set_root(&mut self, name: &str, root: Root) -> Result<()> {
        self.tx.set_root(name, root)
    }
}
