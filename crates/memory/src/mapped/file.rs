//! The pool's file: opened, locked, and given space before anyone stores to it, so that a full
//! disk is an error and never a signal.

use super::MapError;
use rustix::fs::{
    FallocateFlags, FileType, FlockOperation, Mode, OFlags, fallocate, fdatasync, flock, fstat,
    fsync, ftruncate, open,
};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Returns when the file's data is on stable media.
pub(super) fn sync(file: &File) -> io::Result<()> {
    // Not the library's `sync_data`, which retries when interrupted.
    Ok(fdatasync(file)?)
}

/// Creates a file that does not exist, locked, empty.
pub(super) fn create(path: &Path) -> Result<File, MapError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP;
    let file = retry_on_intr(|| open(path, flags, mode)).map_err(|errno| match errno {
        Errno::NOENT => MapError::NoDirectory(path.to_path_buf()),
        errno => MapError::from_errno(path, "create the file", errno),
    })?;
    let file = File::from(file);
    lock(path, &file)?;
    Ok(file)
}

/// Opens a file for reading and writing, locked.
pub(super) fn open_locked(path: &Path) -> Result<File, MapError> {
    let file = open_regular(path, OFlags::RDWR)?;
    lock(path, &file)?;
    Ok(file)
}

/// Opens a file for reading; with it whether another process has it open for writing. The
/// shared lock, where it was got, keeps writers out while it is read.
pub(super) fn open_read_only(path: &Path) -> Result<(File, bool), MapError> {
    let file = open_regular(path, OFlags::RDONLY)?;
    let in_use = retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockShared)).is_err();
    Ok((file, in_use))
}

fn open_regular(path: &Path, access: OFlags) -> Result<File, MapError> {
    // Not blocking, or a named pipe would wait for its other end.
    let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = retry_on_intr(|| open(path, flags, Mode::empty()))
        .map_err(|errno| MapError::from_errno(path, "open the file", errno))?;
    let stat = fstat(&file).map_err(|errno| MapError::from_errno(path, "inspect it", errno))?;
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(File::from(file)),
        FileType::Directory => "a directory",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Fifo => "a named pipe",
        _ => "something else",
    };
    Err(MapError::NotAFile { path: path.to_path_buf(), what })
}

fn lock(path: &Path, file: &File) -> Result<(), MapError> {
    retry_on_intr(|| flock(file, FlockOperation::NonBlockingLockExclusive)).map_err(|errno| {
        match errno {
            Errno::WOULDBLOCK => MapError::Locked(path.to_path_buf()),
            errno => MapError::from_errno(path, "lock the file", errno),
        }
    })
}

/// Bytes in the file.
pub(super) fn length(path: &Path, file: &File) -> Result<u64, MapError> {
    let stat = fstat(file).map_err(|errno| MapError::from_errno(path, "inspect it", errno))?;
    Ok(stat.st_size as u64)
}

/// Lengthens the file from `old` to `new` bytes of allocated zeros. After a failure it has its
/// old length again.
pub(super) fn extend(file: &File, old: u64, new: u64) -> Result<(), Errno> {
    let result = retry_on_intr(|| fallocate(file, FallocateFlags::empty(), old, new - old));
    let result = match result {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, old, new),
        result => result,
    };
    result.inspect_err(|_| {
        // The space is wanted back; if even that fails, the longer file does no harm.
        let _ = ftruncate(file, old);
    })
}

/// Allocates what is missing of a file that was copied sparsely: a store to a hole on a full
/// disk would be a signal.
pub(super) fn fill_holes(file: &File, len: u64) -> Result<(), Errno> {
    if fstat(file)?.st_blocks as u64 * 512 >= len {
        return Ok(());
    }
    match retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, 0, len)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        result => result,
    }
}

/// Makes a new file, its length and its name durable.
pub(super) fn sync_with_directory(path: &Path, file: &File) -> Result<(), MapError> {
    fsync(file).map_err(|errno| MapError::from_errno(path, "sync the file", errno))?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let result = retry_on_intr(|| open(directory, flags, Mode::empty())).and_then(fsync);
    match result {
        // Some file systems do not sync directories, and keep names in order themselves.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(errno) => Err(MapError::from_errno(path, "sync its directory", errno)),
    }
}

fn write_zeros(file: &File, from: u64, to: u64) -> Result<(), Errno> {
    let zeros = vec![0; (to - from).min(1 << 20) as usize];
    let mut at = from;
    while at < to {
        let bytes = (to - at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..bytes as usize], at)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        at += bytes;
    }
    Ok(())
}
