//! Structures to test, by name.

mod blocks;
mod bytes;
mod churn;
mod crowded;
mod echo;
mod graph;
mod large;
mod maps;
mod neighbours;
mod nstore;
mod pieces;
mod roomy;
mod sps;
#[cfg(feature = "sqlite")]
mod sqlite;
mod streams;
mod tatp;
mod tpcc;
mod wide;
mod ycsb_a;

pub use blocks::Blocks;
pub use bytes::Strings;
pub use churn::Churn;
pub use crowded::Crowded;
pub use echo::Echo;
pub use graph::{Communities, Components, OnGraph, PageRank};
pub use large::Large;
pub use maps::{Hash, Laned, Ordered};
pub use neighbours::{Ann, KdForest, Neighbours};
pub use nstore::NStore;
pub use pieces::Pieces;
pub use roomy::Roomy;
pub use sps::Sps;
#[cfg(feature = "sqlite")]
pub use sqlite::{SqlOp, Sqlite};
pub use streams::{SpecMix, SpecMix1, SpecMix2};
pub use tatp::Tatp;
pub use tpcc::Tpcc;
pub use wide::Wide;
pub use ycsb_a::YcsbA;

use crate::Subject;

/// A structure with a name.
#[derive(Clone, Copy, Debug)]
pub struct Structure {
    /// The name: a workload's, if it is the same program on a small pool.
    pub name: &'static str,
    /// A description in one line.
    pub line: &'static str,
}

/// The type of a structure with its row.
trait Listed: Subject + Default + Send + 'static {
    const ROW: Structure;
}

/// Code that is generic over the structure.
pub(crate) trait WithSubject {
    /// Its result.
    type Output;

    /// Runs it.
    fn with<S: Subject + Send + 'static>(self, subject: S) -> Self::Output;
}

macro_rules! subjects {
    ($($(#[$cfg:meta])* $subject:ident),* $(,)?) => {
        /// The structures.
        pub const STRUCTURES: [Structure; [$($(#[$cfg])* stringify!($subject)),*].len()] =
            [$($(#[$cfg])* $subject::ROW),*];

        /// Their names.
        pub const SUBJECTS: [&str; STRUCTURES.len()] = [$($(#[$cfg])* $subject::ROW.name),*];

        /// Runs it with the structure of this name.
        pub(crate) fn with_subject<W: WithSubject>(name: &str, work: W) -> Option<W::Output> {
            match name {
                $($(#[$cfg])* _ if name == $subject::ROW.name => Some(work.with($subject::default())),)*
                _ => None,
            }
        }
    };
}

// The one list: a new structure is its file, and its name here.
subjects![
    Sps,
    Hash,
    Ordered,
    Churn,
    YcsbA,
    Wide,
    Tpcc,
    Strings,
    Large,
    Pieces,
    Laned,
    Blocks,
    Roomy,
    Crowded,
    Tatp,
    Echo,
    NStore,
    PageRank,
    Communities,
    Components,
    SpecMix1,
    SpecMix2,
    Ann,
    KdForest,
    #[cfg(feature = "sqlite")]
    Sqlite,
];
