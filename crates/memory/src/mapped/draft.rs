//! Files being created: a new pool has a temporary name in the same directory until it is whole.
//!
//! What always holds:
//! - A file under a pool's own name is whole: it gets that name in one step, when everything its creator has put into
//!   it is durable, and never replaces another file.
//! - A temporary file left by a creator that was killed is reused by the next one: the dead process no longer holds its
//!   lock. A live creator holds the lock, and is left alone.
//! - After a failure, neither name exists.

use super::MapError;
use super::file;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, fchmod, fstat, ftruncate, link, open,
    renameat_with, statat, unlink,
};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The most bytes of a pool's name that the temporary name keeps: file systems allow no names longer than 255.
const LONGEST_KEPT: usize = 200;

/// A temporary name of a file. Dropped before the file is published, it deletes the file, but not in a forked child.
pub(super) struct Draft {
    temporary: PathBuf,
    path: PathBuf,
    published: bool,
    /// The process that creates it.
    creator: u32,
    /// Holds the lock until the name is gone.
    _file: File,
}

impl Draft {
    /// Creates an empty, locked file that will be `path`, with these permissions, less the process's mask.
    pub(super) fn start(path: &Path, mode: u32) -> Result<(Self, File), MapError> {
        let temporary = temporary(path);
        let failed = |errno| MapError::from_errno(path, "create the file", errno);
        loop {
            if path.symlink_metadata().is_ok() {
                return Err(file::dangling(path).unwrap_or(MapError::Exists(path.to_path_buf())));
            }
            let flags = OFlags::RDWR
                | OFlags::CREATE
                | OFlags::CLOEXEC
                | OFlags::NOFOLLOW
                | OFlags::NONBLOCK;
            let mode = Mode::from_raw_mode(mode);
            let opened = retry_on_intr(|| open(&temporary, flags, mode));
            let file = File::from(opened.map_err(|errno| match errno {
                Errno::NOENT => MapError::NoDirectory(path.to_path_buf()),
                errno => failed(errno),
            })?);
            let stat = fstat(&file).map_err(failed)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                let what = "something else under the name that a new pool has at first";
                return Err(MapError::NotAFile { path: temporary, what });
            }
            if stat.st_nlink > 1 {
                // A whole pool, whose creator was killed before it removed this second name.
                remove(&temporary);
                continue;
            }
            file::lock(path, &file)?;
            // Its creator may have finished, or given up, before the lock was free.
            if is_at(&temporary, &file) {
                ftruncate(&file, 0).map_err(failed)?;
                // A file left by a killed process may be open to more users than this one is to be.
                let left = Mode::from_raw_mode(stat.st_mode);
                if !mode.contains(left) {
                    fchmod(&file, left & mode).map_err(failed)?;
                }
                let again = file.try_clone().map_err(|source| MapError::Io {
                    path: path.to_path_buf(),
                    doing: "create the file",
                    source,
                })?;
                let path = path.to_path_buf();
                let creator = std::process::id();
                let draft = Draft { temporary, path, published: false, creator, _file: again };
                return Ok((draft, file));
            }
        }
    }

    /// The final name.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the durable file its final name, durably.
    pub(super) fn publish(mut self) -> Result<(), MapError> {
        let named = renameat_with(CWD, &self.temporary, CWD, &self.path, RenameFlags::NOREPLACE);
        match named {
            Ok(()) => {}
            // Some file systems do not support this rename; a hard link never replaces a file either.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                link(&self.temporary, &self.path).map_err(|errno| self.failed(errno))?;
                remove(&self.temporary);
            }
            Err(errno) => return Err(self.failed(errno)),
        }
        self.published = true;
        // Under the lock, so that no other process can have opened it yet.
        file::sync_directory(&self.path).inspect_err(|_| remove(&self.path))
    }

    fn failed(&self, errno: Errno) -> MapError {
        MapError::from_errno(&self.path, "give the new file its name", errno)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // A forked child leaves its parent's file alone.
        if !self.published && self.creator == std::process::id() {
            remove(&self.temporary);
        }
    }
}

/// The temporary name: hidden, and in the same directory as the final one.
fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let kept = &name[..name.len().min(LONGEST_KEPT)];
    let mut hidden = OsString::from(".");
    hidden.push(std::ffi::OsStr::from_bytes(kept));
    hidden.push(".perdura-new");
    path.with_file_name(hidden)
}

/// Whether `path` names this very file.
fn is_at(path: &Path, file: &File) -> bool {
    let named = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW);
    matches!((named, fstat(file)), (Ok(named), Ok(open))
        if (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino))
}

/// Removes a name. One that cannot be removed is reused by the next creator.
fn remove(path: &Path) {
    let _ = retry_on_intr(|| unlink(path));
}
