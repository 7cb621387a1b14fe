//! Structures to test, by name.

mod bytes;
mod churn;
mod large;
mod maps;
mod pieces;
mod sps;
mod tpcc;
mod wide;
mod ycsb_a;

pub use bytes::Strings;
pub use churn::Churn;
pub use large::Large;
pub use maps::{Hash, Ordered};
pub use pieces::Pieces;
pub use sps::Sps;
pub use tpcc::Tpcc;
pub use wide::Wide;
pub use ycsb_a::YcsbA;

pub use crate::engines::ENGINES;

use crate::engines::on_engine;
use crate::runner::Runner;

/// The names of the structures.
pub const SUBJECTS: [&str; 10] = [
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
];
/// The names of the replacement policies, one of each kind.
pub const POLICIES: [&str; 5] = ["lru", "tree-plru", "bimodal", "random", "quad-age"];
/// A structure on an engine, by their names.
pub fn find(engine: &str, subject: &str) -> Option<Box<dyn Runner>> {
    match subject {
        "sps" => on_engine(engine, Sps::default()),
        "hash-map" => on_engine(engine, Hash),
        "ordered-map" => on_engine(engine, Ordered),
        "churn" => on_engine(engine, Churn),
        "ycsb-a" => on_engine(engine, YcsbA::default()),
        "wide" => on_engine(engine, Wide),
        "bytes" => on_engine(engine, Strings),
        "large" => on_engine(engine, Large),
        "pieces" => on_engine(engine, Pieces),
        "tpcc" => on_engine(engine, Tpcc::default()),
        _ => None,
    }
}
