//! Benchmarks that check their own answers.
//!
//! Each [`Workload`] is written once: its operations against [`Tx`](perdura::Tx), its loop
//! against [`Session`]. So the same code measures every engine on every memory. [`run`] starts
//! the threads, samples latencies and adds up the engine's counters; [`Workload::check`]
//! then walks the data and compares it with the threads' counts.
//!
//! Reading order: [`session`], [`run`], [`window`], then the smallest workload ([`sps`]) and the largest
//! ([`ycsb`]). [`toggle`] runs four data structures of the papers' microbenchmarks ([`hash`],
//! [`rbtree`], [`bptree`], [`sdg`]), [`pages`] writes pages as SQLite does, [`churn`] tries the allocator;
//! [`tpcc`] has nine tables on [`records`]; [`tatp`], [`echo`] and [`nstore`] have tables of their own; [`graph`] has
//! programs on the vertices of a graph, [`neighbours`] trees of points; [`streams`] imitates mixes of SPEC's programs;
//! [`stamp`] has whole programs with barriers between their phases; [`pmembench`] has two of PMDK's maps. [`list`] names
//! all of them.
//! [`random`], [`zipf`] and [`payload`] make the inputs: everything random follows
//! from one seed.

#![forbid(unsafe_code)]

pub mod answers;
pub mod bptree;
pub mod churn;
pub mod computation;
pub mod echo;
pub mod graph;
pub mod hash;
pub mod latency;
pub mod limit;
pub mod list;
pub mod map;
pub mod neighbours;
pub mod nstore;
pub mod overwrite;
pub mod pace;
pub mod packed;
pub mod pages;
pub mod payload;
mod phase;
pub mod pmembench;
pub mod private;
pub mod random;
pub mod rbtree;
pub mod records;
pub mod reuse;
pub mod run;
pub mod sdg;
pub mod session;
pub mod sps;
#[cfg(feature = "sqlite")]
pub mod sql;
pub mod stamp;
pub mod streams;
pub mod tatp;
pub mod toggle;
pub mod tpcc;
pub mod window;
pub mod word;
pub mod ycsb;
mod zeroed;
pub mod zipf;

pub use computation::Computation;
pub use latency::{Latencies, Recorder};
pub use list::check_root;
pub use private::{PrivateAccess, PrivateBuffer};
pub use records::Records;
pub use run::{
    Failure, Measured, Outcome, Plan, Progress, Share, Workload, counted_since, load, measure, work,
};
pub use session::{OnHandle, Session, Store, Submit};
pub use window::{Windowed, Windows};
