//! A transaction that pretends that the pool's free pages are scattered, and its blocks in pages that are to be
//! emptied: strings lie in pieces, and blocks move, in a pool that has room.

use crate::tx::{Extent, Fresh, Moment, Purpose, Root, Savepoint, Tx};
use perdura_engine::{Access, Mode, Result};

/// The transaction.
pub struct ScatteredTx<'a> {
    tx: &'a mut dyn Tx,
    largest: u64,
    moves: bool,
}

impl<'a> ScatteredTx<'a> {
    /// Wraps `tx`: at most `largest` bytes seem to be free in one place, and its blocks are to be moved if `moves`.
    pub fn new(tx: &'a mut dyn Tx, largest: u64, moves: bool) -> Self {
        ScatteredTx { tx, largest, moves }
    }
}

impl Access for ScatteredTx<'_> {
    fn read_word(&mut self, at: u64) -> Result<u64> {
        self.tx.read_word(at)
    }

    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        self.tx.write_word(at, value)
    }

    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        self.tx.read_bytes(at, to)
    }

    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.tx.write_bytes(at, from)
    }

    fn mode(&self) -> Mode {
        self.tx.mode()
    }

    fn lane(&self) -> u32 {
        self.tx.lane()
    }
}

impl Tx for ScatteredTx<'_> {
    fn allocate(&mut self, purpose: Purpose, len: u64) -> Result<Fresh> {
        self.tx.allocate(purpose, len)
    }

    fn write_fresh(&mut self, fresh: Fresh, from: u64, bytes: &[u8]) -> Result<()> {
        self.tx.write_fresh(fresh, from, bytes)
    }

    fn allocate_now(&mut self, purpose: Purpose, len: u64) -> Result<Option<Fresh>> {
        self.tx.allocate_now(purpose, len)
    }

    fn allocate_some(&mut self, purpose: Purpose, len: u64) -> Result<Fresh> {
        self.tx.allocate_some(purpose, len.min(self.largest))
    }

    fn is_sparse(&mut self, _: u64) -> bool {
        self.moves
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
