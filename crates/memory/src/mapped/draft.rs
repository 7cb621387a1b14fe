//! Files in the making: a new pool has another name in the same directory, until it is whole.
//!
//! What always holds:
//! - A file under a pool's own name is whole: it gets that name when all that its maker has put into
//!   it is durable, in one step, and never in the place of another file.
//! - What a maker that was killed has left under the other name is used up by the next one: its lock
//!   is gone with it. A maker that is alive holds the lock, and is left alone.
//! - After a failure, neither name is there.

use super::MapError;
use super::file;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, fstat, ftruncate, link, open, renameat_with,
    statat, unlink,
};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// File systems have no longer names; a pool's own is cut to leave room for what is added.
const LONGEST_KEPT: usize = 200;

/// A name that a file has for the time being. Dropped before it is published, the file is gone.
pub(super) struct Draft {
    temporary: PathBuf,
    path: PathBuf,
    published: bool,
    /// Keeps the lock until the name is gone.
    _file: File,
}

impl Draft {
    /// Makes an empty file, locked, that will be `path`.
    pub(super) fn start(path: &Path) -> Result<(Self, File), MapError> {
        let temporary = temporary(path);
        let failed = |errno| MapError::from_errno(path, "create the file", errno);
        loop {
            if path.symlink_metadata().is_ok() {
                return Err(MapError::Exists(path.to_path_buf()));
            }
            let flags = OFlags::RDWR
                | OFlags::CREATE
                | OFlags::CLOEXEC
                | OFlags::NOFOLLOW
                | OFlags::NONBLOCK;
            let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP;
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
                // A pool that got its own name, whose maker had no time to take this one away.
                remove(&temporary);
                continue;
            }
            file::lock(path, &file)?;
            // Its maker may have finished, or given up, before the lock was free.
            if is_at(&temporary, &file) {
                ftruncate(&file, 0).map_err(failed)?;
                let again = file.try_clone().map_err(|source| MapError::Io {
                    path: path.to_path_buf(),
                    doing: "create the file",
                    source,
                })?;
                let path = path.to_path_buf();
                return Ok((Draft { temporary, path, published: false, _file: again }, file));
            }
        }
    }

    /// The name that it will have.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file, which is durable, the name that it is to have, durably.
    pub(super) fn publish(mut self) -> Result<(), MapError> {
        let named = renameat_with(CWD, &self.temporary, CWD, &self.path, RenameFlags::NOREPLACE);
        match named {
            Ok(()) => {}
            // Some file systems cannot rename so, but a link never replaces anything.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                link(&self.temporary, &self.path).map_err(|errno| self.failed(errno))?;
                remove(&self.temporary);
            }
            Err(errno) => return Err(self.failed(errno)),
        }
        self.published = true;
        // Under the lock, so that nobody can have opened it yet.
        file::sync_directory(&self.path).inspect_err(|_| remove(&self.path))
    }

    fn failed(&self, errno: Errno) -> MapError {
        MapError::from_errno(&self.path, "give the new file its name", errno)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.published {
            remove(&self.temporary);
        }
    }
}

/// The name that a new pool has at first: hidden, and beside the one that it will have.
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

/// Takes a name away. One that stays is used up by the next maker.
fn remove(path: &Path) {
    let _ = retry_on_intr(|| unlink(path));
}
