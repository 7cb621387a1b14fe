//! Places for test files.
#![allow(dead_code, reason = "not every test uses every place")]

use tempfile::TempDir;

/// A directory in the build's file system: usually on a disk.
pub(crate) fn block() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("temporary directory")
}

/// A directory on tmpfs, where the system has one.
pub(crate) fn in_memory() -> Option<TempDir> {
    tempfile::tempdir_in("/dev/shm").ok()
}
