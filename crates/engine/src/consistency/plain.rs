//! Stores and nothing else: what a program does that neither persists nor takes back. The fair baseline of figures
//! that are relative to no persistence.
//!
//! A transaction stores in place at once and keeps nothing of what it overwrites. So it cannot be taken back: where
//! one is rolled back that has stored, in whole or to a mark, the engine commits nothing any more, and the pool is
//! not marked as closed.

use super::none::Unlogging;

/// Direct stores.
pub struct Direct;

impl Unlogging for Direct {
    const KEEPS_OLD_WORDS: bool = false;
}
