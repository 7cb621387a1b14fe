//! The pool's file: opened, locked, and given space before anything is stored to it, so that a full disk is an error
//! and never a signal.
//!
//! What always holds of locks: an exclusive lock is kept as long as the pool is open; a shared one, taken only to look,
//! is released at once. So of several openers the first to lock the file gets it, and looking hinders none of them.

use super::MapError;
use crate::PAGE;
use rustix::fs::{
    FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, fallocate, fdatasync, flock,
    fstat, fsync, ftruncate, open, seek,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long an opener retries while others merely look.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it retries while the file is in use: a process that starts another one hands a copy of the lock to it for a
/// moment, until that one executes its own program.
const GRACE: Duration = Duration::from_millis(100);

/// Returns when the file's data is on stable media.
pub(super) fn sync(file: &File) -> io::Result<()> {
    // Not the library's `sync_data`, which retries when interrupted.
    Ok(fdatasync(file)?)
}

/// Opens a file for reading and writing, locked.
pub(super) fn open_locked(path: &Path) -> Result<File, MapError> {
    let file = open_regular(path, OFlags::RDWR)?;
    lock(path, &file)?;
    Ok(file)
}

/// Opens a file for reading, with a shared lock for as long as it is open.
pub(super) fn open_shared(path: &Path) -> Result<File, MapError> {
    let file = open_regular(path, OFlags::RDONLY)?;
    let started = Instant::now();
    for attempt in 0.. {
        match retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockShared)) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if started.elapsed() <= GRACE => sleep(pause(&file, attempt)),
            Err(Errno::WOULDBLOCK) => break,
            Err(errno) => return Err(MapError::from_errno(path, "lock the file", errno)),
        }
    }
    Err(MapError::Locked(path.to_path_buf()))
}

/// Opens a file for reading; also returns whether the pool is open elsewhere.
pub(super) fn open_read_only(path: &Path) -> Result<(File, bool), MapError> {
    let file = open_regular(path, OFlags::RDONLY)?;
    let in_use = is_in_use(&file);
    Ok((file, in_use))
}

/// Whether the pool is open elsewhere. The shared lock that tests it is held for this moment only.
fn is_in_use(file: &File) -> bool {
    if retry_on_intr(|| flock(file, FlockOperation::NonBlockingLockShared)).is_err() {
        return true;
    }
    // If the lock cannot be released, closing the descriptor releases it.
    let _ = retry_on_intr(|| flock(file, FlockOperation::Unlock));
    false
}

fn open_regular(path: &Path, access: OFlags) -> Result<File, MapError> {
    // Non-blocking, or opening a named pipe would wait for its other end.
    let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = retry_on_intr(|| open(path, flags, Mode::empty())).map_err(|errno| match errno {
        Errno::NOENT => dangling(path).unwrap_or(MapError::NotFound(path.to_path_buf())),
        errno => MapError::from_errno(path, "open the file", errno),
    })?;
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

/// The error for a symbolic link that leads to no file; `None` if `path` is none.
pub(super) fn dangling(path: &Path) -> Option<MapError> {
    let target = std::fs::read_link(path).ok()?;
    let leads_nowhere =
        matches!(path.metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound);
    leads_nowhere.then(|| MapError::DanglingLink { path: path.to_path_buf(), target })
}

/// Takes the exclusive lock for as long as the file is open.
pub(super) fn lock(path: &Path, file: &File) -> Result<(), MapError> {
    let started = Instant::now();
    for attempt in 0.. {
        match retry_on_intr(|| flock(file, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) => {}
            Err(errno) => return Err(MapError::from_errno(path, "lock the file", errno)),
        }
        // If a shared lock can be taken, other processes only look, and are gone in a moment.
        let patience = if is_in_use(file) { GRACE } else { PATIENCE };
        if started.elapsed() > patience {
            break;
        }
        sleep(pause(file, attempt));
    }
    Err(MapError::Locked(path.to_path_buf()))
}

/// Up to a millisecond, and different for two openers that retry in step.
fn pause(file: &File, attempt: u64) -> Duration {
    let own = u64::from(std::process::id()) * 7919 + file.as_raw_fd() as u64 * 104_729;
    Duration::from_micros(50 + own.wrapping_mul(attempt * 2 + 1) % 950)
}

/// Bytes in the file.
pub(super) fn length(path: &Path, file: &File) -> Result<u64, MapError> {
    let stat = fstat(file).map_err(|errno| MapError::from_errno(path, "inspect it", errno))?;
    Ok(stat.st_size as u64)
}

/// Lengthens the file from `old` to `new` bytes of allocated zeros. After a failure it has its
/// old length again.
pub(super) fn extend(file: &File, old: u64, new: u64) -> Result<(), Errno> {
    may_reach(new)?;
    let result = retry_on_intr(|| fallocate(file, FallocateFlags::empty(), old, new - old));
    let result = match result {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, old, new),
        result => result,
    };
    result.inspect_err(|_| {
        // Releases the space again; if even that fails, the longer file does no harm.
        let _ = ftruncate(file, old);
    })
}

/// Whether this process may write to a file up to this length (`RLIMIT_FSIZE`). Trying it would kill the process by a
/// signal.
pub(super) fn may_reach(len: u64) -> Result<(), Errno> {
    match getrlimit(Resource::Fsize).current {
        Some(most) if len > most => Err(Errno::FBIG),
        _ => Ok(()),
    }
}

/// Allocates the holes of a file that was copied sparsely: a store to a hole on a full disk would be a signal. The
/// file's count of blocks does not tell whether it has holes: it includes attributes and space beyond the end, and
/// compressed files have fewer.
pub(super) fn fill_holes(file: &File, range: Range<u64>) -> Result<(), Errno> {
    match next_hole(file, range.start, range.end)? {
        Some(first) => allocate(file, first.start..range.end),
        None => Ok(()),
    }
}

/// Allocates space for a range of whole pages; parts that have space keep theirs.
pub(super) fn allocate(file: &File, range: Range<u64>) -> Result<(), Errno> {
    let all = || fallocate(file, FallocateFlags::KEEP_SIZE, range.start, range.end - range.start);
    match retry_on_intr(all) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            write_zeros_into_holes(file, range.start, range.end)
        }
        result => result,
    }
}

/// Makes a range of whole pages a hole, which reads as zeros. False if the file system cannot, or could not allocate
/// the space again later.
pub(super) fn punch(file: &File, range: Range<u64>) -> Result<bool, Errno> {
    let (at, len) = (range.start, range.end - range.start);
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    // The first call changes nothing, since the range has space: it tests for support.
    for flags in [FallocateFlags::KEEP_SIZE, hole] {
        match retry_on_intr(|| fallocate(file, flags, at, len)) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(false),
            Err(errno) => return Err(errno),
        }
    }
    Ok(true)
}

/// The holes of `[0, len)`, in whole pages.
pub(super) fn holes(file: &File, len: u64) -> Result<Vec<Range<u64>>, Errno> {
    let (mut holes, mut at) = (Vec::<Range<u64>>::new(), 0);
    while let Some(hole) = next_hole(file, at, len)? {
        at = hole.end;
        let pages = hole.start / PAGE * PAGE..hole.end.next_multiple_of(PAGE);
        match holes.last_mut() {
            Some(last) if last.end >= pages.start => last.end = pages.end,
            _ => holes.push(pages),
        }
    }
    Ok(holes)
}

/// Writes zeros into the holes only; data stays.
pub(super) fn write_zeros_into_holes(file: &File, from: u64, len: u64) -> Result<(), Errno> {
    let mut at = from;
    while let Some(hole) = next_hole(file, at, len)? {
        write_zeros(file, hole.start, hole.end)?;
        at = hole.end;
    }
    Ok(())
}

/// The first hole of `[from, len)`. Some file systems report space that is allocated but not written as a hole; those
/// that do not support holes report none.
fn next_hole(file: &File, from: u64, len: u64) -> Result<Option<Range<u64>>, Errno> {
    if from >= len {
        return Ok(None);
    }
    let start = match seek(file, SeekFrom::Hole(from)) {
        Ok(at) if at < len => at,
        Ok(_) | Err(Errno::INVAL | Errno::NXIO) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    match seek(file, SeekFrom::Data(start)) {
        Ok(end) => Ok(Some(start..end.min(len))),
        Err(Errno::NXIO) => Ok(Some(start..len)),
        Err(errno) => Err(errno),
    }
}

/// Makes a new name durable.
pub(super) fn sync_directory(path: &Path) -> Result<(), MapError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Without allocation, zeros are written into holes, and data is left alone.
    #[test]
    fn zeros_go_into_holes_only() {
        let file = tempfile::tempfile().expect("a file");
        const LEN: u64 = 1 << 20;
        for at in [0, 300_000, LEN - 10] {
            file.write_all_at(&[5; 10], at).expect("some data");
        }
        let before = fstat(&file).expect("metadata").st_blocks;
        let read = || {
            let mut bytes = vec![0; LEN as usize];
            file.read_exact_at(&mut bytes, 0).expect("contents");
            bytes
        };
        let bytes = read();
        write_zeros_into_holes(&file, 0, LEN).expect("zeros");
        let after = fstat(&file).expect("metadata").st_blocks;
        assert!(before * 512 < LEN as i64 / 2, "the file system has no holes");
        assert!(after * 512 >= LEN as i64, "{after} blocks after {before}");
        assert!(read() == bytes, "what was there has changed");
        assert_eq!(next_hole(&file, 0, LEN), Ok(None));
    }
}
