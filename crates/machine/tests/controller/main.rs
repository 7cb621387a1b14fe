//! The controller: hand-computed times, DRAM as a cache, and what holds for any sequence.

mod bench;
mod dram_cache;
mod inside;
mod properties;
mod timing;
