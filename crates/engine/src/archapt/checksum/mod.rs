//! Checksums that detect and correct blocks whose write-back was skipped and who were lost in a
//! power cut (Archapt, section III-C).
//!
//! Blocks are the cells of a matrix. Each column has a *consistency* checksum and each row a
//! *correlation* checksum, a block of eight lanes each; a lost block is found where a row and a
//! column do not add up, and solved for. Nothing here knows of engines, logs or heaps: it works
//! on blocks, matrices of them, and pages of a [`Memory`](perdura_memory::Memory).
//!
//! What always holds:
//! - The lanes of a matrix are independent problems, in the sums as in correction.
//! - A block is corrected only if what is then there adds up in its row and in its column, and
//!   no other set of blocks of that size would do so too.
//! - Checksum blocks in memory are changed only after the header says which two states of the
//!   page may be found in them.
//!
//! Reading order: [`mix`] (what is summed), [`sum`] (who sums, with which instructions),
//! `vector` (those instructions), [`matrix`] and [`layout`] (shapes and places), [`mod@correct`]
//! with `lane`, `search` and `trees` (which blocks are lost), `header` and [`page`] (the protocol),
//! [`cost`] (what all of it costs).
//! docs/archapt-checksums.md has the reasons and the figures.

pub mod correct;
pub mod cost;
mod header;
mod lane;
pub mod layout;
pub mod matrix;
pub mod mix;
pub mod page;
mod search;
pub mod sum;
mod trees;
mod vector;

pub use correct::{Correction, Known, Outcome, correct};
pub use layout::Layout;
pub use matrix::{Coverage, Matrix, Shape, Sums};
pub use sum::Summer;

use perdura_memory::{LINE, WORD};

/// Lanes of a block: the words of a line.
pub const LANES: usize = (LINE / WORD) as usize;

/// A cache block: the eight words of a line.
pub type Block = [u64; LANES];
