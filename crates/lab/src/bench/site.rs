//! The folder of a benchmark's files, and its removal.
//!
//! A folder left by a killed process is removed by the next one. A folder is in use as long as its file `owner` is
//! locked; one without that file is left alone.

use crate::failure::{Failure, Outcome};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A file system in memory, on Linux: the best place to emulate persistent memory.
const MEMORY: &str = "/dev/shm";
/// Prefix of temporary folders' names.
const PREFIX: &str = ".perdura-bench-";
/// The file in a temporary folder that its running owner has locked.
const OWNER: &str = "owner";

/// A folder for temporary files, and the pool's path.
pub(crate) struct Site {
    folder: TempDir,
    // Dropped after the folder: the lock is held until that is removed.
    _owner: File,
    pool: PathBuf,
    kept: bool,
}

impl Site {
    /// A site for a pool at `pool`, which must not exist, or else for a temporary one.
    pub(crate) fn new(pool: Option<&Path>) -> Outcome<Self> {
        let Some(pool) = pool else {
            return Site::within(None);
        };
        if pool.exists() {
            return Err(Failure::at(
                pool,
                "there is a file already; a benchmark makes its own pool: remove it, or name another",
            ));
        }
        let parent = pool.parent().filter(|parent| !parent.as_os_str().is_empty());
        let (folder, owner) = temporary_folder(parent.unwrap_or(Path::new(".")))?;
        Ok(Site { folder, _owner: owner, pool: pool.to_owned(), kept: true })
    }

    /// A site in a folder of the user's choice, or in the default place; nothing is kept.
    pub(crate) fn within(folder: Option<&Path>) -> Outcome<Self> {
        let (folder, owner) = match folder {
            Some(folder) => temporary_folder(folder)?,
            None => temporary_folder(&default_place())?,
        };
        let pool = folder.path().join("pool");
        Ok(Site { folder, _owner: owner, pool, kept: false })
    }

    /// The pool's path, with no file there: the previous run's is removed.
    pub(crate) fn fresh_pool(&self) -> Outcome<PathBuf> {
        match std::fs::remove_file(&self.pool) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Failure::at(&self.pool, error))
            }
            _ => Ok(self.pool.clone()),
        }
    }

    /// The folder for all other files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Remarks on the site for the user.
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

fn temporary_folder(place: &Path) -> Outcome<(TempDir, File)> {
    remove_leftovers(place);
    owned_folder(place).map_err(|error| {
        let hint = "name a folder that you can write to";
        // The error names the temporary folder's path.
        Failure::at(
            place,
            format!("no temporary folder can be made here ({}); {hint}", error.kind()),
        )
    })
}

fn owned_folder(place: &Path) -> io::Result<(TempDir, File)> {
    let folder = TempDir::with_prefix_in(PREFIX, place)?;
    // Locked before it has its name: it is never seen unlocked while its owner runs.
    let unlocked = folder.path().join("owner-to-be");
    let owner = File::create(&unlocked)?;
    owner.lock()?;
    std::fs::rename(unlocked, folder.path().join(OWNER))?;
    Ok((folder, owner))
}

/// Removes folders that killed processes have left. One that cannot be removed stays, and does no harm.
fn remove_leftovers(place: &Path) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            let _ = remove_if_left(&entry.path());
        }
    }
}

fn remove_if_left(folder: &Path) -> io::Result<()> {
    let owner = folder.join(OWNER);
    // Opening another kind of file, such as a pipe, might wait forever.
    if !std::fs::symlink_metadata(&owner)?.is_file() {
        return Ok(());
    }
    let owner = File::open(owner)?;
    // Held until the folder is removed.
    if owner.try_lock().is_ok() { std::fs::remove_dir_all(folder) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_only_folders_of_dead_processes() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let living = Site::within(Some(place.path())).expect("a site");
        let (dead, owner) = owned_folder(place.path()).expect("a folder");
        let dead = dead.keep();
        std::fs::write(dead.join("pool"), "data").expect("a file");
        drop(owner);
        let unknown = place.path().join(format!("{PREFIX}unknown"));
        std::fs::create_dir(&unknown).expect("a folder");
        let next = Site::within(Some(place.path())).expect("a site");
        assert!(!dead.exists(), "left behind");
        assert!(living.folder().exists() && next.folder().exists() && unknown.exists());
        drop((living, next));
        assert_eq!(std::fs::read_dir(place.path()).expect("a folder").count(), 1);
    }
}
