//! Stores and nothing else: a program without persistence or rollback. The fair baseline of figures that are relative
//! to no persistence.
//!
//! A transaction stores in place at once and keeps nothing that it overwrites. So it cannot be rolled back: once a
//! transaction that has stored is rolled back, in whole or to a mark, the engine commits nothing any more, and the pool
//! is not marked as closed.

use super::none::Unlogging;

/// Direct stores.
pub struct Direct;

impl Unlogging for Direct {
    const KEEPS_OLD_WORDS: bool = false;
}
