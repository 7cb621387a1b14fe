//! Checksum matrices in pages: they detect and correct blocks whose write-back was skipped and that a
//! power cut lost (Archapt, section III-C). No engine runs them: `perdura-lab reproduce archapt-fig6` measures
//! what they cost, and the engines that skip write-backs have sums of their own.
//!
//! Blocks are the cells of a matrix. Each column has a *consistency* checksum and each row a
//! *correlation* checksum, a block of eight lanes each; a lost block is found where a row and a
//! column do not add up, and solved for. This crate knows no engines, logs or heaps: it works on
//! blocks, matrices of them, and pages of a [`Memory`](perdura_memory::Memory).
//!
//! What always holds:
//! - The lanes of a matrix are independent problems, in the sums as in correction.
//! - A block is corrected only if its row and column add up then, and no other set of blocks of
//!   that size would make them add up too.
//! - Checksum blocks in memory are changed only after the header says which two states of the
//!   page may be found in them.
//!
//! Reading order: [`keyed`](perdura_memory::keyed) in the crate `memory` (the sums, and their
//! instructions), [`matrix`] and [`layout`] (shapes and places), [`mod@correct`] with `lane`, `search` and
//! `trees` (which blocks are lost), `header` and [`page`] (the protocol), [`cost`] and `bench`
//! (a benchmark).
//! docs/archapt-checksums.md has the reasons and the figures.

//!
//! Without the feature `matrices` there are only the types of [`cost`]: `perdura-lab` is built so, unless asked otherwise.

#![forbid(unsafe_code)]

#[cfg(feature = "matrices")]
mod bench;
#[cfg(feature = "matrices")]
pub mod correct;
pub mod cost;
#[cfg(feature = "matrices")]
mod header;
#[cfg(feature = "matrices")]
mod lane;
#[cfg(feature = "matrices")]
pub mod layout;
#[cfg(feature = "matrices")]
pub mod matrix;
#[cfg(feature = "matrices")]
pub mod page;
#[cfg(feature = "matrices")]
mod search;
#[cfg(feature = "matrices")]
mod trees;

#[cfg(feature = "matrices")]
pub use correct::{Correction, Known, Outcome, correct};
#[cfg(feature = "matrices")]
pub use layout::Layout;
#[cfg(feature = "matrices")]
pub use matrix::{Coverage, Matrix, Shape, Sums};
pub use perdura_memory::keyed::{Block, LANES, Summer};
