//! Where a benchmark's files lie, and that they go away.
//!
//! A process that is killed leaves its folder behind, and the next one removes it. A folder has a
//! living owner as long as its file `owner` is locked; one without that file is left alone.

use crate::failure::{Failure, Outcome};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A file system in memory, on Linux: persistent memory is emulated best there.
const MEMORY: &str = "/dev/shm";
/// How the names of temporary folders begin.
const PREFIX: &str = ".perdura-bench-";
/// The file in a temporary folder that its living owner has locked.
const OWNER: &str = "owner";

/// A folder for temporary files, and the pool's path.
pub(crate) struct Site {
    folder: TempDir,
    // After the folder: it is held until that is removed.
    _owner: File,
    pool: PathBuf,
    kept: bool,
}

impl Site {
    /// A site for a pool at `pool`, which must not exist, or for a temporary one.
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

    /// A site in a folder of the user's choice, or the default place; nothing is kept.
    pub(crate) fn within(folder: Option<&Path>) -> Outcome<Self> {
        let (folder, owner) = match folder {
            Some(folder) => temporary_folder(folder)?,
            None => temporary_folder(&default_place())?,
        };
        let pool = folder.path().join("pool");
        Ok(Site { folder, _owner: owner, pool, kept: false })
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

fn temporary_folder(place: &Path) -> Outcome<(TempDir, File)> {
    remove_leftovers(place);
    owned_folder(place).map_err(|error| {
        let hint = "name a folder that you can write to";
        // The path is in the error, but as the temporary folder's own.
        Failure::at(
            place,
            format!("no temporary folder can be made here ({}); {hint}", error.kind()),
        )
    })
}

fn owned_folder(place: &Path) -> io::Result<(TempDir, File)> {
    let folder = TempDir::with_prefix_in(PREFIX, place)?;
    // Locked before it has its name: nobody sees it unlocked while its owner lives.
    let unlocked = folder.path().join("owner-to-be");
    let owner = File::create(&unlocked)?;
    owner.lock()?;
    std::fs::rename(unlocked, folder.path().join(OWNER))?;
    Ok((folder, owner))
}

/// Removes what processes left that were killed. Whatever cannot be removed stays: it is in
/// nobody's way.
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
    // Opening something else, a pipe say, might wait for ever.
    if !std::fs::symlink_metadata(&owner)?.is_file() {
        return Ok(());
    }
    let owner = File::open(owner)?;
    // Held until the folder is gone.
    if owner.try_lock().is_ok() { std::fs::remove_dir_all(folder) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_dead_left_is_removed_and_nothing_else() {
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
