//! Where a benchmark's files lie, and that they go away.

use crate::failure::{Failure, Outcome};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A file system in memory, on Linux: persistent memory is emulated best there.
const MEMORY: &str = "/dev/shm";

/// A folder for temporary files, and the pool's path.
pub(crate) struct Site {
    folder: TempDir,
    pool: PathBuf,
    kept: bool,
}

impl Site {
    /// A site for a pool at `pool`, which must not exist, or for a temporary one.
    pub(crate) fn new(pool: Option<&Path>) -> Outcome<Self> {
        let Some(pool) = pool else {
            let folder = temporary_folder(&default_place())?;
            let pool = folder.path().join("pool");
            return Ok(Site { folder, pool, kept: false });
        };
        if pool.exists() {
            return Err(Failure::at(
                pool,
                "there is a file already; a benchmark makes its own pool: remove it, or name another",
            ));
        }
        let parent = pool.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = temporary_folder(parent.unwrap_or(Path::new(".")))?;
        Ok(Site { folder, pool: pool.to_owned(), kept: true })
    }

    /// A site in a folder of the user's choice, or the default place; nothing is kept.
    pub(crate) fn within(folder: Option<&Path>) -> Outcome<Self> {
        let folder = match folder {
            Some(folder) => temporary_folder(folder)?,
            None => temporary_folder(&default_place())?,
        };
        let pool = folder.path().join("pool");
        Ok(Site { folder, pool, kept: false })
    }

    /// The pool's path, with no file there: that of the run before is removed.
    pub(crate) fn fresh_pool(&self) -> Outcome<PathBuf> {
        match std::fs::remove_file(&self.pool) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Failure::at(&self.pool, error))
            }
            _ => Ok(self.pool.clone()),
        }
    }

    /// The folder for everything else.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What to tell about it.
    pub(crate) fn describe(&self) -> String {
        if self.kept {
            return format!("the last run's pool is left at {}", self.pool.display());
        }
        let place = self.folder.path().parent().unwrap_or(self.folder.path());
        format!("temporary pools in {}, removed after each run", place.display())
    }
}

fn default_place() -> PathBuf {
    let memory = Path::new(MEMORY);
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

fn temporary_folder(place: &Path) -> Outcome<TempDir> {
    TempDir::with_prefix_in(".perdura-bench-", place).map_err(|error| {
        let hint = "name a folder that you can write to";
        // The path is in the error, but as the temporary folder's own.
        Failure::at(
            place,
            format!("no temporary folder can be made here ({}); {hint}", error.kind()),
        )
    })
}
