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
//! `trees` (which blocks are lost), `header` and [`page`] (the protocol), [`cost`] (a benchmark).
//! docs/archapt-checksums.md has the reasons and the figures.

#![forbid(unsafe_code)]

pub mod correct;
pub mod cost;
mod header;
mod lane;
pub mod layout;
pub mod matrix;
pub mod page;
mod search;
mod trees;

pub use correct::{Correction, Known, Outcome, correct};
pub use layout::Layout;
pub use matrix::{Coverage, Matrix, Shape, Sums};
pub use perdura_memory::keyed::{Block, LANES, Summer};
