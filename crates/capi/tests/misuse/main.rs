//! Wrong calls: each gives the code that it should, with a message that names a remedy, and
//! leaves the pool whole.

mod archapt;
mod arguments;
mod cursors;
mod handles;
mod limits;
mod map_arguments;
mod map_calls;
mod maps;
mod offsets;
mod order;
mod pool;
mod random;
mod sections;

/// Bytes of a test's pool.
const SIZE: u64 = 8 << 20;
