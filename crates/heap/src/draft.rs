//! Files that get their name when they are complete: exports, and copies of pools.
//!
//! Invariant: under its final name there is either the previous file, if any, or the complete new one, durable. The
//! file under construction has a hidden name in the same directory. It is removed when the draft is dropped; one left
//! by a killed process is removed by the next that creates the same file.

use perdura_memory::Mapped;
use std::ffi::OsString;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes kept of a name, to which some are added; file systems allow 255.
const LONGEST_KEPT: usize = 180;

/// Why a file could not be created. Nothing has the name then that did not have it before.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("report.txt");
/// use perdura::draft::{Draft, DraftError};
///
/// std::fs::write(&path, "of last week")?;
/// assert!(matches!(Draft::start(&path, false), Err(DraftError::Exists(_))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DraftError {
    /// The file exists.
    #[error("{}: there is a file already; give another name, or have it replaced", .0.display())]
    Exists(PathBuf),
    /// The path is a symbolic link that leads to no file.
    #[error("{}: it is a symbolic link to {}, which does not exist; give that path itself, or remove the link", path.display(), target.display())]
    DanglingLink {
        /// The link.
        path: PathBuf,
        /// The path that it holds.
        target: PathBuf,
    },
    /// The path is not a file that could be replaced.
    #[error("{}: it is not a regular file; give the path of a file in a file system", .0.display())]
    NotAFile(PathBuf),
    /// The file to be replaced is open.
    #[error("{}: the file is in use; close it where it is open, or give another name", .0.display())]
    InUse(PathBuf),
    /// Another process is creating it.
    #[error("{}: another process is making this file; wait until it has finished, or give another name", .0.display())]
    Busy(PathBuf),
    /// The directory is missing.
    #[error("{}: the directory that should hold it does not exist; create the directory first", .0.display())]
    NoDirectory(PathBuf),
    /// The system refused an operation.
    #[error("{}: cannot {doing}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operation.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// The text of `Display`, which `main` and `unwrap` print.
impl fmt::Debug for DraftError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A file under construction.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("report.txt");
/// use perdura::draft::Draft;
/// use std::io::Write;
///
/// let draft = Draft::start(&path, false)?;
/// let mut file = draft.create()?;
/// writeln!(file, "all of it")?;
/// assert!(!path.exists());
/// draft.publish(Some(file))?;
/// assert!(path.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    temporary: PathBuf,
    replace: bool,
    /// Permissions of the new file, and of the file that it replaces.
    mode: u32,
    replaced: u32,
    /// Whether the temporary file exists and is ours.
    made: AtomicBool,
}

impl Draft {
    /// Begins the file that is to be `path`. An existing file is replaced when the new one is published, or refused.
    /// There is no file at [`temporary`](Self::temporary) yet.
    ///
    /// # Errors
    /// See [`DraftError`].
    pub fn start(path: &Path, replace: bool) -> Result<Self, DraftError> {
        check_target(path, replace)?;
        let temporary = hidden(path);
        remove_left(path, &temporary)?;
        let replaced = path.metadata().map_or(0o777, |found| found.permissions().mode());
        Ok(Draft {
            path: path.to_path_buf(),
            temporary,
            replace,
            mode: Mapped::MODE,
            replaced,
            made: AtomicBool::new(false),
        })
    }

    /// Gives the file these permissions, those of the file that its data is from, in place of a new pool's.
    #[must_use]
    pub fn of_mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// The permissions of the file, less the process's mask (`umask`): never wider than those of the file that it
    /// replaces. Its owner may always read and write it.
    pub fn mode(&self) -> u32 {
        self.mode & self.replaced & 0o777 | 0o600
    }

    /// The temporary name.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Creates the file, empty and locked.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(&self) -> Result<File, DraftError> {
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).create_new(true).mode(self.mode()).open(&self.temporary);
        let file = file.map_err(|source| self.failed("create the file", source))?;
        self.note_made();
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(DraftError::Busy(self.path.clone())),
            Err(TryLockError::Error(source)) => Err(self.failed("lock the file", source)),
        }
    }

    /// Declares that other code has created the file for this draft, which from now on removes it when dropped.
    pub fn note_made(&self) {
        self.made.store(true, Ordering::Relaxed);
    }

    /// Makes the file at [`temporary`](Self::temporary) durable and gives it its name, durably. `file` is that
    /// file, with the lock; without it, it is opened, and must not be in use.
    ///
    /// # Errors
    /// See [`DraftError`]; the temporary file is gone then.
    pub fn publish(self, file: Option<File>) -> Result<(), DraftError> {
        let file = match file {
            Some(file) => file,
            None => self.lock_again()?,
        };
        file.sync_all().map_err(|source| self.failed("sync the file", source))?;
        check_target(&self.path, self.replace)?;
        self.rename().map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => DraftError::Exists(self.path.clone()),
            _ => self.failed("give the file its name", source),
        })?;
        self.made.store(false, Ordering::Relaxed);
        let synced = File::open(directory(&self.path)).and_then(|folder| folder.sync_all());
        synced.map_err(|source| self.failed("sync the directory", source))
    }

    fn lock_again(&self) -> Result<File, DraftError> {
        let file = OpenOptions::new().read(true).write(true).open(&self.temporary);
        let file = file.map_err(|source| self.failed("open the file that was made", source))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(DraftError::Busy(self.path.clone())),
            Err(TryLockError::Error(source)) => Err(self.failed("lock the file", source)),
        }
    }

    fn rename(&self) -> io::Result<()> {
        if self.replace {
            return std::fs::rename(&self.temporary, &self.path);
        }
        // A link never replaces a file that another process has put there meanwhile.
        match std::fs::hard_link(&self.temporary, &self.path) {
            Ok(()) => std::fs::remove_file(&self.temporary),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            // Some file systems do not have links.
            Err(_) if self.path.symlink_metadata().is_ok() => {
                Err(io::ErrorKind::AlreadyExists.into())
            }
            Err(_) => std::fs::rename(&self.temporary, &self.path),
        }
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> DraftError {
        DraftError::Io { path: self.path.clone(), doing, source }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.made.load(Ordering::Relaxed) {
            return;
        }
        // Once the lock was released, another process may have taken the name.
        let is_free = |file: File| !matches!(file.try_lock(), Err(TryLockError::WouldBlock));
        if File::open(&self.temporary).is_ok_and(is_free) {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a file may get this name.
fn check_target(path: &Path, replace: bool) -> Result<(), DraftError> {
    let failed = |doing, source| DraftError::Io { path: path.to_path_buf(), doing, source };
    if path.file_name().is_none() {
        return Err(DraftError::NotAFile(path.to_path_buf()));
    }
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match directory(path).is_dir() {
                true => Ok(()),
                false => Err(DraftError::NoDirectory(path.to_path_buf())),
            };
        }
        Err(source) => return Err(failed("look at it", source)),
    };
    if let Some(target) = dangling(path) {
        return Err(DraftError::DanglingLink { path: path.to_path_buf(), target });
    }
    if !replace {
        return Err(DraftError::Exists(path.to_path_buf()));
    }
    if !found.is_file() {
        return Err(DraftError::NotAFile(path.to_path_buf()));
    }
    // A pool that is open stays so without its name, and all that is written to it is lost.
    let file = File::open(path).map_err(|source| failed("open the file to be replaced", source))?;
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(DraftError::InUse(path.to_path_buf())),
        Err(TryLockError::Error(source)) => Err(failed("lock the file to be replaced", source)),
    }
}

/// The path that a symbolic link holds, if it leads to no file.
fn dangling(path: &Path) -> Option<PathBuf> {
    let target = std::fs::read_link(path).ok()?;
    let found = path.metadata();
    matches!(found, Err(error) if error.kind() == io::ErrorKind::NotFound).then_some(target)
}

/// The temporary name of a file.
fn hidden(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let kept = &name[..name.len().min(LONGEST_KEPT)];
    path.with_file_name(OsString::from_vec([b".", kept, b".perdura-part"].concat()))
}

/// Removes a file that a killed process has left.
fn remove_left(path: &Path, temporary: &Path) -> Result<(), DraftError> {
    let failed = |doing, source| DraftError::Io { path: path.to_path_buf(), doing, source };
    match temporary.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(failed("look whether it is being made", source)),
        Ok(found) if !found.is_file() => return Err(DraftError::NotAFile(temporary.to_path_buf())),
        Ok(_) => {}
    }
    let left = match File::open(temporary) {
        Ok(left) => left,
        // Its process has just finished or given up.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(failed("open what was left of it", source)),
    };
    match left.try_lock() {
        Err(TryLockError::WouldBlock) => return Err(DraftError::Busy(path.to_path_buf())),
        Err(TryLockError::Error(source)) => return Err(failed("lock what was left of it", source)),
        Ok(()) => {}
    }
    match std::fs::remove_file(temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("remove what was left of it", error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn make(path: &Path, replace: bool, text: &str) -> Result<(), DraftError> {
        let draft = Draft::start(path, replace)?;
        let mut file = draft.create()?;
        file.write_all(text.as_bytes()).expect("room");
        draft.publish(Some(file))
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        make(&path, false, "one").expect("a file");
        assert_eq!(fs::read_to_string(&path).expect("it"), "one");
        let mode = fs::metadata(&path).expect("it").permissions().mode();
        assert_eq!(mode & 0o777 & !Mapped::MODE, 0, "others may read what is in a pool");
        assert!(matches!(make(&path, false, "two"), Err(DraftError::Exists(_))));
        make(&path, true, "two").expect("a replacement");
        assert_eq!(fs::read_to_string(&path).expect("it"), "two");
        {
            let draft = Draft::start(&path, true).expect("a draft");
            let _file = draft.create().expect("a file");
            assert_eq!(names(folder.path()), [".file.perdura-part", "file"]);
            assert!(matches!(Draft::start(&path, true), Err(DraftError::Busy(_))));
        }
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn leftovers_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(hidden(&path), "half").expect("a file");
        make(&path, false, "whole").expect("a file");
        assert_eq!(names(folder.path()), ["file"]);
        let draft = Draft::start(&path, true).expect("a draft");
        let file = File::open(&path).expect("the file");
        file.lock().expect("a lock");
        assert!(matches!(draft.publish(None), Err(DraftError::Io { .. })), "nothing was made");
        assert!(matches!(Draft::start(&path, true), Err(DraftError::InUse(_))));
    }

    #[test]
    fn permissions_are_never_wider() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let make = |source: u32| {
            let draft = Draft::start(&path, true).expect("a draft").of_mode(source);
            let file = draft.create().expect("a file");
            let made = file.metadata().expect("it").permissions().mode() & 0o777;
            draft.publish(Some(file)).expect("a name");
            assert_eq!(fs::metadata(&path).expect("it").permissions().mode() & 0o777, made);
            made
        };
        assert_eq!(make(0o400), 0o600, "the owner writes it");
        assert_eq!(make(0o644), 0o600, "the file that it replaces was its owner's alone");
        fs::remove_file(&path).expect("a removal");
        assert_eq!(make(0o644) & !0o644, 0);
        assert_eq!(make(0o600), 0o600);
    }

    #[test]
    fn links_that_lead_nowhere_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/nowhere/at all", &link).expect("a link");
        for replace in [false, true] {
            let error = Draft::start(&link, replace).expect_err("refused");
            assert!(matches!(error, DraftError::DanglingLink { .. }), "{error}");
            assert!(error.to_string().contains("symbolic link to /nowhere/at all"), "{error}");
        }
    }

    #[test]
    fn refuses_to_replace_folders() {
        let folder = tempfile::tempdir().expect("a folder");
        let refused = |path: &Path| Draft::start(path, true).expect_err("refused").to_string();
        assert!(refused(folder.path()).contains("regular file"));
        assert!(refused(&folder.path().join("none/file")).contains("create the directory"));
        assert!(refused(Path::new("/")).contains("regular file"));
    }
}
