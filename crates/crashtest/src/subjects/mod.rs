//! Structures to test, by name.

mod blocks;
mod bytes;
mod churn;
mod crowded;
mod large;
mod maps;
mod pieces;
mod roomy;
mod sps;
mod tpcc;
mod wide;
mod ycsb_a;

pub use blocks::Blocks;
pub use bytes::Strings;
pub use churn::Churn;
pub use crowded::Crowded;
pub use large::Large;
pub use maps::{Hash, Laned, Ordered};
pub use pieces::Pieces;
pub use roomy::Roomy;
pub use sps::Sps;
pub use tpcc::Tpcc;
pub use wide::Wide;
pub use ycsb_a::YcsbA;

use crate::Subject;

/// The names of the structures.
pub const SUBJECTS: [&str; 14] = [
    "sps",
    "hash-map",
    "ordered-map",
    "churn",
    "ycsb-a",
    "wide",
    "tpcc",
    "bytes",
    "large",
    "pieces",
    "laned-map",
    "blocks",
    "roomy",
    "crowded",
];
/// The names of the replacement policies, one of each kind.
pub const POLICIES: [&str; 5] = ["lru", "tree-plru", "bimodal", "random", "quad-age"];

/// Code that is generic over the structure.
pub(crate) trait WithSubject {
    /// Its result.
    type Output;

    /// Runs it.
    fn with<S: Subject + Send + 'static>(self, subject: S) -> Self::Output;
}

/// Runs it with the structure of this name.
pub(crate) fn with_subject<W: WithSubject>(name: &str, work: W) -> Option<W::Output> {
    Some(match name {
        "sps" => work.with(Sps::default()),
        "hash-map" => work.with(Hash),
        "ordered-map" => work.with(Ordered),
        "churn" => work.with(Churn),
        "ycsb-a" => work.with(YcsbA::default()),
        "wide" => work.with(Wide),
        "bytes" => work.with(Strings),
        "large" => work.with(Large),
        "pieces" => work.with(Pieces),
        "laned-map" => work.with(Laned),
        "blocks" => work.with(Blocks),
        "roomy" => work.with(Roomy),
        "crowded" => work.with(Crowded),
        "tpcc" => work.with(Tpcc::default()),
        _ => return None,
    })
}
