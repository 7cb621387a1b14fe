//! Walks all allocations and reports inconsistencies: for checks, and for counting.

use super::layout::{Layout, Use};
use super::space::read_taken;
use perdura_engine::Error;
use perdura_memory::{Memory, PAGE};

/// An allocated block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    /// Its offset.
    pub at: u64,
    /// Usable bytes.
    pub bytes: u64,
}

/// Lists every allocation according to the page table, and every inconsistency found. Nothing else may be running.
pub fn walk<M: Memory + ?Sized>(memory: &M, layout: &Layout) -> (Vec<Block>, Vec<Error>) {
    let (mut blocks, mut problems) = (Vec::new(), Vec::new());
    let pages = layout.pages_in(memory.len());
    let mut page = 0;
    while page < pages {
        let at = layout.entry(page);
        match Use::from_word(memory.load(at)) {
            None => problems.push(Error::corrupt("page-table entry that cannot be", at)),
            Some(Use::Free) => {}
            Some(Use::Slots(class, _)) => match read_taken(memory, layout, page, class) {
                Err(problem) => problems.push(problem),
                Ok(taken) => blocks.extend(
                    (0..class.slots()).filter(|slot| taken & 1 << slot != 0).map(|slot| Block {
                        at: layout.page(page) + u64::from(slot) * class.slot_bytes(),
                        bytes: class.slot_bytes(),
                    }),
                ),
            },
            Some(Use::Run(run)) if run > pages - page => {
                problems.push(Error::corrupt("object beyond the end of the pool", at));
            }
            Some(Use::Run(run)) => {
                blocks.push(Block { at: layout.page(page), bytes: run * PAGE });
                page += run - 1;
            }
        }
        page += 1;
    }
    (blocks, problems)
}
