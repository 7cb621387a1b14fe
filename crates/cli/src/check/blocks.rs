//! The allocated objects of a pool, and which of them something refers to.

use perdura::alloc::layout::{Layout, Use};
use perdura::alloc::space::read_bitmap;
use perdura::{Error, Memory, Result};
use perdura_memory::PAGE;

/// An object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    at: u64,
    bytes: u64,
    visited: bool,
}

/// All objects, in ascending order.
#[derive(Debug)]
pub(super) struct Blocks(Vec<Block>);

impl Blocks {
    /// What the page table and the bitmaps say is allocated.
    pub(super) fn allocated<M: Memory + ?Sized>(memory: &M, layout: &Layout) -> Result<Self> {
        let mut blocks = Vec::new();
        let pages = layout.pages_in(memory.len());
        let mut page = 0;
        while page < pages {
            let entry = layout.entry(page);
            let used = Use::from_word(memory.load(entry));
            match used.ok_or(Error::corrupt("page-table word that cannot be", entry))? {
                Use::Free => {}
                Use::Slots(class, _) => {
                    let taken = read_bitmap(memory, layout, page, class)?;
                    let slots = (0..class.slots()).filter(|slot| taken >> slot & 1 == 1);
                    let bytes = class.slot_bytes();
                    let at = |slot| layout.page(page) + u64::from(slot) * bytes;
                    blocks.extend(slots.map(|slot| Block { at: at(slot), bytes, visited: false }));
                }
                Use::Run(run) => {
                    let bytes = run.saturating_mul(PAGE);
                    blocks.push(Block { at: layout.page(page), bytes, visited: false });
                    page += run - 1;
                }
            }
            page += 1;
        }
        Ok(Blocks(blocks))
    }

    /// Notes that something refers to the object at `at`.
    ///
    /// # Errors
    /// `Corrupt` if there is none, or something else refers to it too.
    pub(super) fn visit(&mut self, at: u64) -> Result<()> {
        let Ok(index) = self.0.binary_search_by_key(&at, |block| block.at) else {
            return Err(Error::corrupt("pointer to something that is not allocated", at));
        };
        if std::mem::replace(&mut self.0[index].visited, true) {
            return Err(Error::corrupt("two pointers to the same object", at));
        }
        Ok(())
    }

    pub(super) fn forget_visits(&mut self) {
        self.0.iter_mut().for_each(|block| block.visited = false);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|block| block.bytes).sum()
    }

    /// How many objects nothing refers to, their bytes, and where the first is.
    pub(super) fn unvisited(&self) -> (usize, u64, u64) {
        let mut unvisited = self.0.iter().filter(|block| !block.visited).peekable();
        let first = unvisited.peek().map_or(0, |block| block.at);
        let (count, bytes) =
            unvisited.fold((0, 0), |(count, bytes), block| (count + 1, bytes + block.bytes));
        (count, bytes, first)
    }
}
