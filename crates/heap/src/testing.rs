//! A heap in plain memory, for tests: every access must lie in a live block, frees are checked, and savepoints work as
//! on the real one.

mod scattered;
mod traced;

use crate::savepoint::{Progress, Savepoints};
use crate::tx::{Extent, Fresh, Moment, Purpose, Root, Savepoint, Tx};
use perdura_engine::{Access, Error, Mark, Mode, Result};
pub use scattered::ScatteredTx;
use std::collections::{BTreeMap, HashMap, HashSet};
pub use traced::{TracedTx, Words, Writes};

/// Block sizes up to here are rounded to these, as the allocator does.
const CLASSES: [u64; 15] =
    [32, 64, 128, 192, 256, 320, 384, 448, 512, 640, 768, 1024, 1344, 2048, 4096];
const PAGE: u64 = 4096;
/// No block begins below this offset.
const FLOOR: u64 = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BlockState {
    Live,
    /// Freed by the running transaction: it can still be read.
    Freed,
}

/// Lines of 64 bytes that the transactions since [`TestHeap::reset_lines`] have touched.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// Lines read.
    pub read: HashSet<u64>,
    /// Lines written through the log.
    pub written: HashSet<u64>,
    /// Lines written into fresh blocks.
    pub fresh: HashSet<u64>,
    /// Calls of `allocate`.
    pub allocated: u64,
    /// Calls of `free`.
    pub freed: u64,
}

/// The heap, with one transaction running at any time.
#[derive(Default)]
pub struct TestHeap {
    bytes: Vec<u8>,
    blocks: BTreeMap<u64, (u64, BlockState)>,
    spare: HashMap<u64, Vec<u64>>,
    roots: HashMap<String, Root>,
    old_roots: HashMap<String, Root>,
    undo: Vec<(u64, u64)>,
    allocated: Vec<u64>,
    freed: Vec<u64>,
    savepoints: Savepoints,
    /// Touched lines; `None` if they are not counted.
    pub lines: Option<Lines>,
    /// Largest pool, in bytes; 0 for no limit.
    pub limit: u64,
    /// The maximum number of bytes that are free in one place, for [`Tx::allocate_some`]; 0 for no limit.
    pub largest: u64,
    /// Numbers of the pages that are being emptied.
    pub sparse: HashSet<u64>,
    /// The running transaction's [lane](Access::lane).
    pub lane: u32,
}

impl TestHeap {
    /// An empty heap.
    pub fn new() -> Self {
        TestHeap { bytes: vec![0xDB; FLOOR as usize], ..TestHeap::default() }
    }

    /// Blocks that are allocated.
    pub fn live(&self) -> usize {
        self.blocks.values().filter(|b| b.1 == BlockState::Live).count()
    }

    /// The offsets of the blocks that are allocated, in order.
    pub fn live_blocks(&self) -> Vec<u64> {
        self.blocks.iter().filter(|b| b.1.1 == BlockState::Live).map(|b| *b.0).collect()
    }

    /// Commits the transaction: the memory that it freed is gone.
    pub fn commit(&mut self) {
        for at in std::mem::take(&mut self.freed) {
            let (len, _) = self.blocks.remove(&at).expect("a freed block is known");
            self.poison(at, len);
            self.spare.entry(len).or_default().push(at);
        }
        self.savepoints.end();
        self.undo.clear();
        self.allocated.clear();
        self.old_roots = self.roots.clone();
    }

    /// Rolls the transaction back.
    pub fn abort(&mut self) {
        self.undo(Progress { access: Mark(0), taken: 0, freed: 0 });
        self.roots = self.old_roots.clone();
        self.commit();
    }

    /// Runs one transaction.
    ///
    /// # Errors
    /// The errors of `body`; the transaction is rolled back then.
    pub fn run<R>(&mut self, body: &mut dyn FnMut(&mut dyn Tx) -> Result<R>) -> Result<R> {
        let result = body(self);
        if result.is_ok() {
            self.commit()
        } else {
            self.abort()
        }
        result
    }

    /// Starts counting lines anew.
    pub fn reset_lines(&mut self) {
        self.lines = Some(Lines::default());
    }

    /// A copy of the live blocks' contents, to compare images with.
    pub fn image(&self) -> Vec<(u64, Vec<u8>)> {
        let live = self.blocks.iter().filter(|b| b.1.1 == BlockState::Live);
        live.map(|(at, (len, _))| (*at, self.bytes[*at as usize..][..*len as usize].to_vec()))
            .collect()
    }

    /// Overwrites a word without a transaction, as damage.
    pub fn damage(&mut self, at: u64, value: u64) {
        self.bytes[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// The heap's size in bytes.
    pub fn end(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The word at `at`, in a live block or not.
    pub fn peek(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.bytes[at as usize..at as usize + 8].try_into().expect("8 bytes"))
    }

    fn poison(&mut self, at: u64, len: u64) {
        self.bytes[at as usize..(at + len) as usize].fill(0xDB);
    }

    fn block_of(&self, at: u64, len: u64, write: bool) -> Result<u64> {
        let (start, (size, state)) =
            self.blocks.range(..=at).next_back().ok_or(Error::outside(at))?;
        let end = at.checked_add(len).ok_or(Error::outside(at))?;
        if end > start + size {
            return Err(Error::outside(at));
        }
        if write && *state == BlockState::Freed {
            return Err(Error::outside(at));
        }
        Ok(*start)
    }

    fn note(&mut self, at: u64, len: u64, pick: fn(&mut Lines) -> &mut HashSet<u64>) {
        if let Some(lines) = &mut self.lines {
            pick(lines).extend(at / 64..(at + len.max(1)).div_ceil(64));
        }
    }

    fn save(&mut self, at: u64, len: u64) {
        self.savepoints.changed();
        for word in at / 8..(at + len).div_ceil(8) {
            self.undo.push((word * 8, self.peek(word * 8)));
        }
    }

    fn undo(&mut self, done: Progress) {
        while self.undo.len() > done.access.0 {
            let (at, old) = self.undo.pop().expect("it is longer than that");
            self.damage(at, old);
        }
        for at in self.freed.split_off(done.freed) {
            self.blocks.get_mut(&at).expect("a freed block is known").1 = BlockState::Live;
        }
        for at in self.allocated.split_off(done.taken) {
            let (len, _) = self.blocks.remove(&at).expect("an allocated block is known");
            self.spare.entry(len).or_default().push(at);
        }
    }

    fn grow(&mut self, len: u64, asked: u64) -> Result<u64> {
        let align = if len <= 32 { 32 } else { 64 };
        let at = (self.bytes.len() as u64).next_multiple_of(align);
        if self.limit != 0 && at + len > self.limit {
            return Err(Error::full(asked));
        }
        self.bytes.resize((at + len) as usize, 0xDB);
        Ok(at)
    }
}

impl Access for TestHeap {
    fn read_word(&mut self, at: u64) -> Result<u64> {
        if !at.is_multiple_of(8) {
            return Err(Error::outside(at));
        }
        self.block_of(at, 8, false)?;
        self.note(at, 8, |l| &mut l.read);
        Ok(self.peek(at))
    }

    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        if !at.is_multiple_of(8) {
            return Err(Error::outside(at));
        }
        self.block_of(at, 8, true)?;
        self.note(at, 8, |l| &mut l.written);
        self.save(at, 8);
        self.damage(at, value);
        Ok(())
    }

    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        self.block_of(at, to.len() as u64, false)?;
        self.note(at, to.len() as u64, |l| &mut l.read);
        to.copy_from_slice(&self.bytes[at as usize..][..to.len()]);
        Ok(())
    }

    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.block_of(at, from.len() as u64, true)?;
        self.note(at, from.len() as u64, |l| &mut l.written);
        self.save(at, from.len() as u64);
        self.bytes[at as usize..][..from.len()].copy_from_slice(from);
        Ok(())
    }

    fn mode(&self) -> Mode {
        Mode::Write
    }

    fn lane(&self) -> u32 {
        self.lane
    }
}

impl Tx for TestHeap {
    fn allocate(&mut self, _: Purpose, len: u64) -> Result<Fresh> {
        if len == 0 {
            return Err(Error::Invalid("an allocation of 0 bytes"));
        }
        if let Some(lines) = &mut self.lines {
            lines.allocated += 1;
        }
        let class = CLASSES.iter().copied().find(|c| *c >= len);
        let size = class.unwrap_or(len.next_multiple_of(PAGE));
        let at = match self.spare.get_mut(&size).and_then(Vec::pop) {
            Some(at) => at,
            None => self.grow(size, len)?,
        };
        self.blocks.insert(at, (size, BlockState::Live));
        let (transaction, place) = (self.savepoints.transaction(), self.allocated.len());
        self.allocated.push(at);
        Ok(Fresh { at, len: size, transaction, place })
    }

    fn write_fresh(&mut self, fresh: Fresh, from: u64, bytes: &[u8]) -> Result<()> {
        let (at, len) = (fresh.at + from, bytes.len() as u64);
        let known = fresh.transaction == self.savepoints.transaction()
            && self.allocated.get(fresh.place) == Some(&fresh.at);
        if !known || !fresh.has(from, len) {
            return Err(Error::Invalid("a fresh write to a block that is not fresh"));
        }
        self.block_of(at, len, true)?;
        self.note(at, len, |l| &mut l.fresh);
        self.save(at, len);
        self.bytes[at as usize..][..bytes.len()].copy_from_slice(bytes);
        // The bytes up to the next word may be overwritten: do so.
        let end = at as usize + bytes.len();
        let pad = end.next_multiple_of(8).min(self.bytes.len());
        self.bytes[end..pad].fill(0xEE);
        Ok(())
    }

    fn allocate_some(&mut self, purpose: Purpose, len: u64) -> Result<Fresh> {
        self.allocate(purpose, if self.largest == 0 { len } else { len.min(self.largest) })
    }

    fn is_sparse(&mut self, at: u64) -> bool {
        self.sparse.contains(&(at / PAGE))
    }

    fn free(&mut self, at: u64) -> Result<()> {
        match self.blocks.get_mut(&at) {
            Some((_, state @ BlockState::Live)) => *state = BlockState::Freed,
            _ => return Err(Error::misuse("nothing is allocated", at)),
        }
        if let Some(lines) = &mut self.lines {
            lines.freed += 1;
        }
        self.freed.push(at);
        Ok(())
    }

    fn usable(&mut self, at: u64) -> Result<u64> {
        match self.blocks.get(&at) {
            Some((len, BlockState::Live)) => Ok(*len),
            _ => Err(Error::misuse("nothing is allocated", at)),
        }
    }

    fn extent(&mut self, at: u64) -> Result<Option<Extent>> {
        Ok(self.blocks.range(..=at).next_back().and_then(|(&start, &(bytes, state))| {
            let extent = Extent { at: start, bytes, purpose: None };
            (state == BlockState::Live && extent.contains(at, 1)).then_some(extent)
        }))
    }

    fn undo_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let done = self.savepoints.back_to(savepoint)?;
        self.undo(done);
        Ok(())
    }

    fn point(&mut self) -> Savepoint {
        let access = Mark(self.undo.len());
        let done = Progress { access, taken: self.allocated.len(), freed: self.freed.len() };
        self.savepoints.add(done)
    }

    fn moment(&self) -> Moment {
        self.savepoints.moment(0)
    }

    fn root(&mut self, name: &str) -> Result<Option<Root>> {
        Ok(self.roots.get(name).copied())
    }

    fn set_root(&mut self, name: &str, root: Root) -> Result<()> {
        if name.is_empty() || name.len() > 255 {
            return Err(Error::Invalid("a root's name has 1 to 255 bytes"));
        }
        match root.at {
            0 => drop(self.roots.remove(name)),
            _ => drop(self.roots.insert(name.to_owned(), root)),
        }
        Ok(())
    }
}
