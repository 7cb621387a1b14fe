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

use crate::runner::{On, Runner};
use crate::{ArchaptRedo, ArchaptRedoSum, ArchaptUndo, ArchaptUndoSum, Family, Redo, SWal, Undo};

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
/// The names of the engines.
pub const ENGINES: [&str; 7] = [
    "undo",
    "redo",
    "s-wal",
    "archapt-undo",
    "archapt-redo",
    "archapt-undo-sum",
    "archapt-redo-sum",
];

/// A structure on an engine, by their names.
pub fn find(engine: &str, subject: &str) -> Option<Box<dyn Runner>> {
    match engine {
        "undo" => on::<Undo>(subject),
        "redo" => on::<Redo>(subject),
        "s-wal" => on::<SWal>(subject),
        "archapt-undo" => on::<ArchaptUndo>(subject),
        "archapt-redo" => on::<ArchaptRedo>(subject),
        "archapt-undo-sum" => on::<ArchaptUndoSum>(subject),
        "archapt-redo-sum" => on::<ArchaptRedoSum>(subject),
        _ => None,
    }
}

fn on<F: Family>(subject: &str) -> Option<Box<dyn Runner>> {
    Some(match subject {
        "sps" => Box::new(On::<F, _>::new(Sps::default())),
        "hash-map" => Box::new(On::<F, _>::new(Hash)),
        "ordered-map" => Box::new(On::<F, _>::new(Ordered)),
        "churn" => Box::new(On::<F, _>::new(Churn)),
        "ycsb-a" => Box::new(On::<F, _>::new(YcsbA::default())),
        "wide" => Box::new(On::<F, _>::new(Wide)),
        "bytes" => Box::new(On::<F, _>::new(Strings)),
        "large" => Box::new(On::<F, _>::new(Large)),
        "pieces" => Box::new(On::<F, _>::new(Pieces)),
        "tpcc" => Box::new(On::<F, _>::new(Tpcc::default())),
        _ => return None,
    })
}
