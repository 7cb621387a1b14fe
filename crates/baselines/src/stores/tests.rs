//! Each store does a small piece of work, and its answer is checked.

use super::*;
use crate::puts::{Puts, run};
use perdura_workloads::Progress;
use tempfile::TempDir;

const PUTS: Puts =
    Puts { puts: 400, keys: 150, value_bytes: 100, batch: 1, threads: 1, shared: false, seed: 3 };

#[test]
fn every_store_puts_and_finds_again() {
    let libraries = all().expect("they are built in");
    assert_eq!(libraries.len(), 4);
    for library in &libraries {
        for puts in [
            PUTS,
            Puts { threads: 2, ..PUTS },
            Puts { threads: 3, shared: true, batch: 7, ..PUTS },
            Puts { value_bytes: 0, ..PUTS },
            Puts { value_bytes: 10_000, puts: 20, ..PUTS },
        ] {
            let folder = TempDir::new().expect("a folder");
            let figure = run(&**library, &puts, folder.path(), &Progress::default())
                .unwrap_or_else(|error| panic!("{} with {puts:?}: {error}", library.name()));
            assert_eq!(figure.figure.operations, puts.puts);
            assert!(figure.bytes > 0, "{}", library.name());
        }
    }
}

/// Each says what it is, and what a put waits for.
#[test]
fn names_have_versions_and_settings_name_the_sync() {
    for library in all().expect("they are built in") {
        assert!(library.name().contains(|c: char| c.is_ascii_digit()), "{}", library.name());
        assert!(library.settings().contains("sync"), "{}", library.settings());
    }
}
