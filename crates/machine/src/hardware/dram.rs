//! DRAM in front of the home device, for mechanisms: what the cache there has, and memory of their own beside it.

use super::Hardware;
use crate::Ps;
use crate::controller::InDram;
use perdura_memory::LINE;
use perdura_memory::image::LineWords;
use std::ops::Range;

/// The number of the first line of mechanisms' own DRAM: behind all lines that the cache may have.
const OWN: u64 = 1 << 40;

impl Hardware {
    /// Whether volatile DRAM caches the home device.
    pub fn has_dram(&self) -> bool {
        self.controller.has_dram()
    }

    /// What the DRAM cache has of the block that `line` is in, if it has it. Takes no time.
    pub fn in_dram(&self, line: u64) -> Option<InDram> {
        self.controller.in_dram(line)
    }

    /// The lines of the block of the DRAM cache that `line` is in, whether that has it or not; only `line` without one.
    pub fn block_of(&self, line: u64) -> Range<u64> {
        self.controller.block_of(line)
    }

    /// The blocks of the pool that the DRAM cache has dirty, ascending. Takes no time.
    pub fn dirty_blocks(&self) -> Vec<InDram> {
        let own = |block: &InDram| self.is_own(block.first);
        self.controller.dirty_blocks().into_iter().filter(|block| !own(block)).collect()
    }

    /// Takes the contents of the dirty lines of a block, which is clean from here on: the caller writes them home.
    /// Takes no time; [`read_dram`](Self::read_dram) does.
    pub fn take_dirty(&mut self, block: InDram) -> Vec<(u64, LineWords)> {
        self.controller.note_dirty_lines(block.dirty);
        self.controller.clean(block.first, block.dirty);
        block.dirty_lines().map(|line| (line, self.data.take_dram(line))).collect()
    }

    /// Reads a line of a cached block out of the DRAM, not before `from`. Returns when it has left the bus.
    pub fn read_dram(&mut self, line: u64, from: Ps) -> Ps {
        self.controller.read_dram(line, from)
    }

    /// Reads a line of the DRAM that the mechanism has [reserved](crate::Design::reserves_dram), not before `from`.
    /// Returns when it has left the bus; `from` on a machine without such DRAM.
    pub fn read_own_dram(&mut self, line: u64, from: Ps) -> Ps {
        let line = self.own_dram(line);
        self.controller.read_dram(line, from)
    }

    /// Writes a line of the DRAM that the mechanism has reserved, not before `from`. Returns when the DRAM has accepted
    /// it.
    pub fn write_own_dram(&mut self, line: u64, from: Ps) -> Ps {
        let line = self.own_dram(line);
        self.controller.write_dram(line, from)
    }

    fn own_dram(&self, line: u64) -> u64 {
        OWN + self.mechanisms.dram_before() / LINE + line
    }
}
