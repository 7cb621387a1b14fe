//! The controller: hand-computed times, DRAM as a cache, and properties of any sequence of calls.

mod bench;
mod dram_cache;
mod inside;
mod properties;
mod timing;
