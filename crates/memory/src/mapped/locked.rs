//! A pool's file that is locked but not yet mapped: its contents can be inspected while no other process can open it.

use super::record::Recorder;
use super::{Backing, MapError, MapOptions, Mapped, detect_backing, file, whole_lines};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An existing file, locked against every other opening until it is dropped.
pub struct LockedFile {
    path: PathBuf,
    file: File,
}

impl LockedFile {
    /// Locks the file at `path`. If several openers try, one succeeds.
    ///
    /// # Errors
    /// When the file is missing, not accessible, in use, or too short.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, MapError> {
        let path = path.as_ref().to_path_buf();
        let file = file::open_locked(&path)?;
        whole_lines(&path, &file)?;
        Ok(LockedFile { path, file })
    }

    /// Locks the file at `path`, which need not be writable, against opening until it is dropped; other processes may
    /// look at it. It can be [rehearsed](Self::rehearse) on, but not mapped.
    ///
    /// # Errors
    /// When the file is missing, not readable, in use, or too short.
    pub fn open_to_look(path: impl AsRef<Path>) -> Result<Self, MapError> {
        let path = path.as_ref().to_path_buf();
        let file = file::open_shared(&path)?;
        whole_lines(&path, &file)?;
        Ok(LockedFile { path, file })
    }

    /// The file's permissions.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn mode(&self) -> Result<u32, MapError> {
        let found = self.file.metadata().map_err(|source| MapError::Io {
            path: self.path.clone(),
            doing: "inspect it",
            source,
        })?;
        Ok(found.permissions().mode() & 0o777)
    }

    /// Maps the file so that stores are visible through this mapping only and never reach the file: a recovery can be
    /// tried out.
    ///
    /// # Errors
    /// When the file cannot be mapped.
    pub fn rehearse(&self) -> Result<Mapped, MapError> {
        // A duplicate of the same open file, so that the lock is unaffected.
        let again = self.file.try_clone().map_err(|source| MapError::Io {
            path: self.path.clone(),
            doing: "open the file a second time",
            source,
        })?;
        Mapped::map_privately(&self.path, again, false)
    }

    /// Allocates the file's missing space, and maps it. Its length is durable then, whatever the last process to use it
    /// had done. `recorder` records the operations on the file; the domain must be `Media` then.
    ///
    /// # Errors
    /// When the file is sparse on a full disk, cannot be synced, or the domain is not supported.
    pub fn map(
        self,
        options: MapOptions,
        recorder: Option<Arc<Recorder>>,
    ) -> Result<Mapped, MapError> {
        let whole = 0..whole_lines(&self.path, &self.file)?;
        self.map_some(options, recorder, &[whole])
    }

    /// As [`map`](Self::map), but on a block device only these ranges are given missing space. Elsewhere, what is
    /// [unsecured](crate::Memory::unsecured) must be [secured](crate::Memory::secure) before anything is stored to it.
    ///
    /// # Errors
    /// As [`map`](Self::map).
    pub fn map_some(
        self,
        options: MapOptions,
        recorder: Option<Arc<Recorder>>,
        needed: &[Range<u64>],
    ) -> Result<Mapped, MapError> {
        let LockedFile { path, file } = self;
        let len = whole_lines(&path, &file)?;
        // On other backings even a load from a hole may take space.
        let whole = 0..len;
        let is_block = detect_backing(&path, &file)? == Backing::Block;
        for range in if is_block { needed } else { std::slice::from_ref(&whole) } {
            let range = range.start..range.end.min(len);
            let bytes = range.end.saturating_sub(range.start);
            file::fill_holes(&file, range)
                .map_err(|errno| MapError::from_space(&path, bytes, errno))?;
        }
        let mapped = Mapped::map(&path, file, len, options, recorder)?;
        match mapped.sync_growth() {
            Ok(()) => Ok(mapped),
            Err(source) => Err(MapError::Io { path, doing: "sync the file", source }),
        }
    }
}
