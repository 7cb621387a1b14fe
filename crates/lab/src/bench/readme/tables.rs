//! The one list of README's tables.

use super::spec::Spec;
use super::{crashes, native, simulated, sqlite};
use crate::failure::{Failure, Outcome};

/// This program's name.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_NAME");

/// All tables, in README's order.
pub(crate) static TABLES: [Spec; 10] = [
    Spec {
        name: "pmemobj",
        shows: "our engines and libpmemobj, time for an operation",
        steps: native::pmemobj_steps,
        render: native::pmemobj,
    },
    Spec {
        name: "embedded-stores",
        shows: "our engines, redb, LMDB, fjall and SQLite, durable puts a second",
        steps: native::stores_steps,
        render: native::stores,
    },
    Spec {
        name: "sqlite",
        shows: "SQLite in a pool and in its own files, durable puts a second",
        steps: sqlite::steps,
        render: sqlite::render,
    },
    Spec {
        name: "redis",
        shows: "the server and Redis, requests a second",
        steps: native::redis_steps,
        render: native::redis,
    },
    Spec {
        name: "idle-reader",
        shows: "writers and new readers beside an idle reader",
        steps: native::idle_reader_steps,
        render: native::idle_reader,
    },
    Spec {
        name: "crash",
        shows: "images of power cuts on the simulated machine",
        steps: crashes::crash_steps,
        render: crashes::crash,
    },
    Spec {
        name: "crash-disk",
        shows: "images of a block device under a server that is killed",
        steps: crashes::crash_disk_steps,
        render: crashes::crash_disk,
    },
    Spec {
        name: "stress",
        shows: "threads on real pools whose processes are killed",
        steps: crashes::stress_steps,
        render: crashes::stress,
    },
    Spec {
        name: "loc",
        shows: "engines on the simulated machine of the paper about loose ordering",
        steps: simulated::loc_steps,
        render: simulated::loc,
    },
    Spec {
        name: "loc-fig7",
        shows: "Figure 7 of that paper, and ours",
        steps: simulated::figure_7_steps,
        render: simulated::figure_7,
    },
];

/// The table with this name.
pub(crate) fn named(name: &str) -> Outcome<&'static Spec> {
    TABLES.iter().find(|spec| spec.name == name).ok_or_else(|| {
        let names: Vec<_> = TABLES.iter().map(|spec| spec.name).collect();
        Failure::new(format!("no table '{name}': choose from {}", names.join(", ")))
    })
}
