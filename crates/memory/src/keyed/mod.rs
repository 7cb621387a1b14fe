//! Keyed sums of lines: the basis of the checksums here and in the crates above.
//!
//! Each word passes through a bijection ([`mix`](mix::mix)) under a key of its place, and is added up lane by lane.
//! Every [`Summer`] gives the same bits, with the widest instructions that the processor has.
//!
//! Reading order: [`mix`] (what is summed), [`sum`] (the choice of instructions), `vector` (those instructions).

pub mod mix;
pub mod sum;
mod vector;

pub use sum::{Along, Summer};

use crate::{LINE, WORD};

/// Lanes of a block: the words of a line.
pub const LANES: usize = (LINE / WORD) as usize;

/// A cache block: the eight words of a line.
pub type Block = [u64; LANES];
