//! The read-modify-write buffer of an Optane-like module: blocks of the media, with written lines
//! that have not reached it.
//!
//! The block to leave is the longest unused of a few drawn at random. Measured write amplification
//! rises gradually with the region that is written, which neither LRU nor random replacement gives.

use crate::Ps;
use crate::by_number::ByNumber;

/// A block in the buffer.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) number: u64,
    /// Written lines that the media does not have yet, as bits.
    pub(super) dirty: u64,
    /// Whether all of it was read from the media, or written.
    pub(super) whole: bool,
    /// When its data is there.
    pub(super) ready: Ps,
    used: u64,
}

/// The blocks.
pub(super) struct Buffer {
    capacity: usize,
    draws: usize,
    blocks: Vec<Block>,
    places: ByNumber<u32>,
    clock: u64,
    random: u64,
}

impl Buffer {
    pub(super) fn new(capacity: usize, draws: usize) -> Self {
        Buffer {
            capacity,
            draws,
            blocks: Vec::new(),
            places: ByNumber::default(),
            clock: 0,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// The block of this number, counted as used.
    #[inline]
    pub(super) fn get(&mut self, number: u64) -> Option<&mut Block> {
        let place = *self.places.get(&number)?;
        self.clock += 1;
        let block = &mut self.blocks[place as usize];
        block.used = self.clock;
        Some(block)
    }

    /// Inserts a block which is not there. Returns the block that left for it.
    pub(super) fn insert(&mut self, number: u64, ready: Ps) -> Option<Block> {
        self.clock += 1;
        let block = Block { number, dirty: 0, whole: false, ready, used: self.clock };
        if self.blocks.len() < self.capacity {
            self.places.insert(number, self.blocks.len() as u32);
            self.blocks.push(block);
            return None;
        }
        let place = self.draw();
        let left = std::mem::replace(&mut self.blocks[place], block);
        self.places.remove(&left.number);
        self.places.insert(number, place as u32);
        Some(left)
    }

    fn draw(&mut self) -> usize {
        let mut best = 0;
        for i in 0..self.draws {
            // Marsaglia's xorshift: the same on every run.
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let place = ((self.random >> 32) * self.capacity as u64) >> 32;
            let place = place as usize;
            if i == 0 || self.blocks[place].used < self.blocks[best].used {
                best = place;
            }
        }
        best
    }

    pub(super) fn blocks_mut(&mut self) -> impl Iterator<Item = &mut Block> {
        self.blocks.iter_mut()
    }
}
