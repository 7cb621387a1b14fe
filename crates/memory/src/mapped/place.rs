//! Where a pool's file was found when it was opened, to notice that it is deleted, replaced, moved or cut short while the
//! pool is open: what is acknowledged then would be lost, or would not be where it is looked for.

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, fstat, major, minor, open, statat, statx};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file's place.
pub(super) struct Place {
    /// The directory, which may be renamed, and the name in it; `None` if the file cannot be found by a name.
    name: Option<(OwnedFd, OsString)>,
    /// Whether the file had a name when it was opened.
    was_linked: bool,
    /// Bytes that the file has at least.
    least: AtomicU64,
}

impl Place {
    /// That of `file`, of at least `len` bytes, which is at `path`, or will be.
    pub(super) fn of(path: &Path, file: &File, len: u64) -> Self {
        Place {
            name: find(path),
            was_linked: fstat(file).is_ok_and(|stat| stat.st_nlink > 0),
            least: AtomicU64::new(len),
        }
    }

    /// The file has this many bytes now.
    pub(super) fn grown(&self, len: u64) {
        self.least.store(len, Ordering::Release);
    }

    /// What has happened to the file itself, in words: one call of the operating system.
    pub(super) fn damage(&self, file: &File) -> Option<String> {
        let least = self.least.load(Ordering::Acquire);
        // A file that cannot be asked is not known to be lost.
        let Found { is_linked, len, .. } =
            find_at(file, OsStr::new(""), AtFlags::EMPTY_PATH).ok()?;
        if !is_linked && self.was_linked {
            let replaced = self.named().is_ok();
            let what = if replaced { "replaced by another file" } else { "deleted" };
            return Some(format!(
                "was {what} while the pool was open: everything in the pool is lost when this process ends. \
                 Until then it can be copied from /proc/{}/fd/{}",
                std::process::id(),
                file.as_raw_fd()
            ));
        }
        (len < least).then(|| {
            format!(
                "was cut short while the pool was open, to {len} bytes of {least}: go back to a copy"
            )
        })
    }

    /// What has happened to the file or its name, in words.
    pub(super) fn problem(&self, file: &File) -> Option<String> {
        if let Some(damage) = self.damage(file) {
            return Some(damage);
        }
        let own = find_at(file, OsStr::new(""), AtFlags::EMPTY_PATH).ok()?;
        let what = match self.named() {
            Ok(found) if found.id == own.id => return None,
            Ok(_) => {
                "lost its name to another file while the pool was open; it still has another name"
            }
            Err(Errno::NOENT | Errno::NOTDIR) => "was moved away while the pool was open",
            // The directory may not be searched any more, for example.
            Err(_) => return None,
        };
        self.was_linked.then(|| {
            format!("{what}: everything acknowledged so far is in it; open the pool again where it is now")
        })
    }

    /// What has the file's name.
    fn named(&self) -> Result<Found, Errno> {
        let (directory, name) = self.name.as_ref().ok_or(Errno::ACCESS)?;
        find_at(directory, name, AtFlags::empty())
    }
}

/// What is known of a file.
struct Found {
    /// Device and number.
    id: (u32, u32, u64),
    is_linked: bool,
    len: u64,
}

/// Asks for the file with this name in a directory, or for an open one.
///
/// Its times are not asked for. Since Linux 6.13 a file whose times were looked at gets new ones with its next write, and a
/// file system without a journal writes these to the device in each sync: that took half as long again as the sync.
fn find_at(directory: impl AsFd, name: &OsStr, flags: AtFlags) -> Result<Found, Errno> {
    let wanted = StatxFlags::NLINK | StatxFlags::SIZE | StatxFlags::INO;
    match statx(&directory, name, flags, wanted) {
        Ok(found) => Ok(Found {
            id: (found.stx_dev_major, found.stx_dev_minor, found.stx_ino),
            is_linked: found.stx_nlink > 0,
            len: found.stx_size,
        }),
        // An old kernel, or a sandbox that does not know the call.
        Err(_) => statat(&directory, name, flags).map(|found| Found {
            id: (major(found.st_dev), minor(found.st_dev), found.st_ino),
            is_linked: found.st_nlink > 0,
            len: found.st_size as u64,
        }),
    }
}

/// The directory and the name of a path, whose last part need not exist.
fn find(path: &Path) -> Option<(OwnedFd, OsString)> {
    let real = path.canonicalize().or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new(".")).canonicalize()?;
            Ok(parent.join(path.file_name().ok_or(error)?))
        }
        _ => Err(error),
    });
    let real = real.ok()?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(real.parent()?, flags, Mode::empty()).ok()?;
    Some((directory, real.file_name()?.to_owned()))
}
