//! Files mapped as pools.
//!
//! What always holds in a [`Mapped`]:
//! - The base never moves and the length never shrinks: addresses for the whole limit are reserved when it is opened,
//!   and growth makes more of the file accessible there.
//! - Every mapped byte has space in the file, so that a full disk is an error of [`grow`](crate::Memory::grow) and
//!   never a signal. The exceptions, pages that were [released](crate::Memory::release) and ranges left out when the
//!   file was opened, are [secured](crate::Memory::secure) before they are stored to. A file that is only looked at gets
//!   no space: where a load from a hole would take some, ordinary memory is mapped over the hole.
//! - One open pool per file: the file is locked, also against this same process.
//! - A new file has its name when it is whole, and not before.
//! - Only the process that opened the pool uses it: in a forked child it has no bytes, its file is not touched, and
//!   every check of a fence fails.
//!
//! It relies on no other program changing the file's contents meanwhile. That the file is deleted, replaced, moved or cut
//! short is noticed by each sync on `Media`, and by [`look`](crate::Memory::look); then nothing is acknowledged any more.
//! An access to a part that was cut off ends this program with SIGBUS: see [`report_sigbus`].
//!
//! Reading order: this file, `memory` (the trait), `media` (block devices), then `backing`, `flush`, `file`, `locked`,
//! `draft` (files being created), `reserve`, `owner` (forks), `place` (where the file is), `sigbus`; `record` for crash
//! tests.

mod backing;
mod draft;
mod error;
mod features;
mod file;
pub(crate) mod flush;
#[doc(hidden)]
pub mod forking;
mod locked;
mod media;
mod memory;
mod owner;
mod place;
pub mod record;
mod reserve;
mod sigbus;

pub use backing::Backing;
pub use error::{MapError, Unusable};
pub use features::Features;
pub use flush::Flush;
#[cfg(target_arch = "x86_64")]
pub(crate) use flush::cpuid_7;
pub use locked::LockedFile;
pub use sigbus::report_sigbus;

use crate::{Domain, LINE, Memory, PAGE, Survives, line_of};
use draft::Draft;
use media::Media;
use owner::OwnerPage;
use place::Place;
use record::{PoolFile, Record, Recorder};
use reserve::{Reservation, Sharing};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// No file is longer, and no address wider.
const MOST_BYTES: u64 = 1 << 62;

/// The most holes of a file that memory is mapped over: the operating system limits the number of mappings.
const MOST_HOLES: usize = 16 << 10;

/// How a pool is mapped.
#[derive(Clone, Copy, Debug)]
pub struct MapOptions {
    /// The persistence domain; `None` chooses the one that the file's backing has.
    pub domain: Option<Domain>,
    /// Bytes that the pool may grow to: address space, which costs next to nothing. A longer file is mapped whole.
    pub limit: u64,
}

impl Default for MapOptions {
    /// The backing's own domain, and room for 1 TiB.
    fn default() -> Self {
        MapOptions { domain: None, limit: 1 << 40 }
    }
}

/// A file mapped as a pool.
pub struct Mapped {
    /// The temporary name, while the file is being created.
    draft: Mutex<Option<Draft>>,
    reservation: Reservation,
    base: *mut u8,
    /// The length, and whether this process may use the pool.
    owner: OwnerPage,
    place: Arc<Place>,
    /// The damage done to the file by others, once that is known.
    lost: OnceLock<String>,
    limit: u64,
    mode: WriteBackMode,
    domain: Domain,
    survives: Survives,
    backing: Backing,
    features: Features,
    in_use: bool,
    /// See [`Memory::accepts_unsafe`](crate::Memory::accepts_unsafe).
    accepts_unsafe: bool,
    growing: Mutex<()>,
    /// Whether the file system cannot take space back.
    keeps_space: AtomicBool,
    start: Instant,
}

/// The effect of write-backs and fences. Each mode owns the file, and with it the lock.
enum WriteBackMode {
    /// Lines are written back from the caches, and a fence waits for them.
    Lines(Flush, File),
    /// Write-backs do nothing; a fence orders.
    Stores(File),
    /// Write-backs keep lines in memory, and a fence syncs them to the file.
    Media(Box<Media<PoolFile>>),
    /// Nothing ever reaches the file.
    ReadOnly(File),
    /// Write-backs and fences do nothing, and streams are stored through the caches.
    Unflushed(File),
}

// SAFETY: `base` points into the reservation that the struct owns; all access through it is
// atomic.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Permissions of a new file, unless others are asked for: its owner's, and reading for its group.
    pub const MODE: u32 = 0o640;

    /// Creates a file of `len` zero bytes (rounded up to whole pages), durable when this
    /// returns, and maps it. After an error there is no new file.
    ///
    /// # Errors
    /// When the file exists, cannot be created or allocated, or the domain is not supported.
    pub fn create(path: impl AsRef<Path>, len: u64, options: MapOptions) -> Result<Self, MapError> {
        let mapped = Self::prepare(path, len, options, Self::MODE, None)?;
        mapped.publish()?;
        Ok(mapped)
    }

    /// As [`create`](Self::create), but the file is not at `path` before it is [published](Self::publish): until then
    /// no process can mistake it for a whole pool, however this process ends. Dropped before that, it deletes the file.
    /// The file has the permissions `mode`, less the process's mask, from its beginning. `recorder` records the
    /// operations on the file; the domain must be `Media` then.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn prepare(
        path: impl AsRef<Path>,
        len: u64,
        options: MapOptions,
        mode: u32,
        recorder: Option<Arc<Recorder>>,
    ) -> Result<Self, MapError> {
        let path = path.as_ref();
        if len == 0 {
            return Err(MapError::TooShort { path: path.to_path_buf(), len, need: PAGE });
        }
        if len > MOST_BYTES {
            return Err(MapError::NoSpace { path: path.to_path_buf(), need: len });
        }
        let len = len.next_multiple_of(PAGE);
        let (draft, file) = Draft::start(path, mode)?;
        file::extend(&file, 0, len).map_err(|errno| MapError::from_space(path, len, errno))?;
        let mapped = Self::map(path, file, len, options, recorder)?;
        *mapped.draft() = Some(draft);
        Ok(mapped)
    }

    /// Makes a prepared file durable and gives it its name, durably. Does nothing for others.
    ///
    /// # Errors
    /// When another file has that name by now, or the file or its directory cannot be synced; the new file is gone
    /// then.
    pub fn publish(&self) -> Result<(), MapError> {
        let Some(draft) = self.draft().take() else { return Ok(()) };
        self.check_owner().and_then(|()| self.sync_all()).map_err(|source| MapError::Io {
            path: draft.path().to_path_buf(),
            doing: "sync the file",
            source,
        })?;
        draft.publish()
    }

    fn draft(&self) -> std::sync::MutexGuard<'_, Option<Draft>> {
        self.draft.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps an existing file.
    ///
    /// # Errors
    /// When the file is missing, not accessible, in use, too short or sparse on a full disk, or
    /// the domain is not supported.
    pub fn open(path: impl AsRef<Path>, options: MapOptions) -> Result<Self, MapError> {
        LockedFile::open(path)?.map(options, None)
    }

    /// Maps an existing file for inspection: stores are visible through this mapping only and never reach the file, so
    /// that even a recovery can be tried out. A pool in use can be inspected too ([`in_use`](Self::in_use) tells), but
    /// may change meanwhile; inspection keeps no process from opening it.
    ///
    /// # Errors
    /// When the file is missing, not readable, or too short.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, MapError> {
        let path = path.as_ref();
        let (file, in_use) = file::open_read_only(path)?;
        Self::map_privately(path, file, in_use)
    }

    /// Maps a file so that stores reach only the mapping.
    fn map_privately(path: &Path, file: File, in_use: bool) -> Result<Self, MapError> {
        let len = whole_lines(path, &file)?;
        let features = Features::detect();
        let backing = detect_backing(path, &file)?;
        let domain = backing.default_domain(features.flush);
        let reservation = reserve(path, &file, len, len, Sharing::Private)?;
        if backing != Backing::Block {
            cover_holes(path, &reservation, &file, len)?;
        }
        Ok(Mapped {
            draft: Mutex::default(),
            base: reservation.base(),
            owner: own(path, &reservation, len)?,
            reservation,
            place: Arc::new(Place::of(path, &file, len)),
            lost: OnceLock::new(),
            limit: len,
            mode: WriteBackMode::ReadOnly(file),
            domain,
            survives: Survives::Nothing,
            backing,
            features,
            in_use,
            accepts_unsafe: false,
            growing: Mutex::new(()),
            keeps_space: AtomicBool::new(false),
            start: Instant::now(),
        })
    }

    /// Maps `len` bytes of a file that is locked and allocated.
    fn map(
        path: &Path,
        file: File,
        len: u64,
        options: MapOptions,
        recorder: Option<Arc<Recorder>>,
    ) -> Result<Self, MapError> {
        let features = Features::detect();
        let backing = detect_backing(path, &file)?;
        let domain = options.domain.unwrap_or(backing.default_domain(features.flush));
        let only_media = "writes are recorded in the domain 'media' only; ask for that";
        let unrecorded = (recorder.is_some() && domain != Domain::Media).then_some(only_media);
        if let Some(reason) = backing.refuses(domain, features.flush).or(unrecorded) {
            let path = path.to_path_buf();
            return Err(MapError::Domain { path, domain, backing, reason });
        }
        if domain == Domain::Media {
            file::may_reach(len).map_err(|errno| MapError::from_space(path, len, errno))?;
        }
        let survives = backing.survives(domain);
        let limit = options.limit.clamp(len, MOST_BYTES.max(len)).next_multiple_of(PAGE);
        let sharing = match domain {
            Domain::Media => Sharing::Private,
            Domain::Transient | Domain::Persistent if matches!(backing, Backing::Dax { .. }) => {
                Sharing::Synchronous
            }
            _ => Sharing::Shared,
        };
        let reservation = reserve(path, &file, len, limit, sharing)?;
        if let Some(recorder) = &recorder {
            recorder.add(Record::Opened(len)).map_err(|source| MapError::Io {
                path: path.to_owned(),
                doing: "record",
                source,
            })?;
        }
        let place = Arc::new(Place::of(path, &file, len));
        let mode = match domain {
            Domain::Transient => WriteBackMode::Lines(features.flush, file),
            Domain::Persistent | Domain::Process => WriteBackMode::Stores(file),
            Domain::Media => {
                let place = place.clone();
                WriteBackMode::Media(Box::new(Media::new(PoolFile { file, recorder, place })))
            }
        };
        Ok(Mapped {
            draft: Mutex::default(),
            base: reservation.base(),
            owner: own(path, &reservation, len)?,
            reservation,
            place,
            lost: OnceLock::new(),
            limit,
            mode,
            domain,
            survives,
            backing,
            features,
            in_use: false,
            accepts_unsafe: false,
            growing: Mutex::new(()),
            keeps_space: AtomicBool::new(false),
            start: Instant::now(),
        })
    }

    /// The same memory without its write-backs, streams and fences, to measure their cost: engines do the same on
    /// it, since its domain is the same, but nothing on it is durable. See also [`Unflushed`](crate::Unflushed).
    pub fn unflushed(mut self) -> Self {
        self.mode = WriteBackMode::Unflushed(match self.mode {
            WriteBackMode::Lines(_, file)
            | WriteBackMode::Stores(file)
            | WriteBackMode::ReadOnly(file)
            | WriteBackMode::Unflushed(file) => file,
            WriteBackMode::Media(media) => media.into_device().file,
        });
        self.survives = Survives::Nothing;
        self
    }

    /// The same memory, which accepts engines that are not crash-sync-safe on it
    /// ([`Memory::accepts_unsafe`]).
    #[must_use]
    pub fn accepting_unsafe(mut self) -> Self {
        self.accepts_unsafe = true;
        self
    }

    /// The medium of the file.
    pub fn backing(&self) -> Backing {
        self.backing
    }

    /// What the processor offers.
    pub fn features(&self) -> Features {
        self.features
    }

    /// The failures that an acknowledged transaction survives here, in words.
    pub fn describe(&self) -> String {
        self.backing.describe(self.domain)
    }

    /// Whether stores reach only this mapping.
    pub fn is_read_only(&self) -> bool {
        matches!(self.mode, WriteBackMode::ReadOnly(_))
    }

    /// Whether the pool was open elsewhere when it was opened read-only.
    pub fn in_use(&self) -> bool {
        self.in_use
    }

    /// Syncs of the file so far, of which each may have served many fences. Zero in domains that need none.
    pub fn syncs(&self) -> u64 {
        match &self.mode {
            WriteBackMode::Media(media) => media.syncs(),
            _ => 0,
        }
    }

    /// Pages of which fences have written lines to the file so far.
    pub fn pages_written(&self) -> u64 {
        match &self.mode {
            WriteBackMode::Media(media) => media.pages_written(),
            _ => 0,
        }
    }

    /// Makes `range` zero, durably, and written rather than merely allocated: a later sync of stores to it then leaves
    /// the file system's own metadata alone. For areas such as logs, before their first use.
    ///
    /// # Errors
    /// When the file cannot be written or synced.
    ///
    /// # Panics
    /// When `range` is out of bounds or not of whole lines.
    pub fn prefault_zero(&self, range: Range<u64>) -> io::Result<()> {
        let bytes = range.end.saturating_sub(range.start);
        assert!(
            range.start.is_multiple_of(LINE) && bytes.is_multiple_of(LINE),
            "prefault_zero of [{:#x}, {:#x}), which is not of whole lines",
            range.start,
            range.end
        );
        if bytes == 0 {
            return Ok(());
        }
        self.check_owner()?;
        // No line kept for the range may reach the file after the zeros.
        self.fence();
        let keep = matches!(self.mode, WriteBackMode::Media(_));
        for at in range.clone().step_by(8) {
            // On `Media`, storing zero over zero would only cost a private page.
            if !keep || self.load(at) != 0 {
                self.store(at, 0);
            }
        }
        match &self.mode {
            WriteBackMode::Media(media) => media.write_zeros(range),
            _ => {
                self.write_back(range.start, bytes);
                self.fence();
                Ok(())
            }
        }
    }
}

fn whole_lines(path: &Path, file: &File) -> Result<u64, MapError> {
    let len = file::length(path, file)?;
    if len < PAGE {
        return Err(MapError::TooShort { path: path.to_path_buf(), len, need: PAGE });
    }
    Ok(line_of(len))
}

fn detect_backing(path: &Path, file: &File) -> Result<Backing, MapError> {
    let dax = reserve::maps_synchronously(file.as_fd(), PAGE);
    Backing::detect(file.as_fd(), dax)
        .map_err(|errno| MapError::from_errno(path, "inspect its file system", errno))
}

/// Maps `len` bytes of the file, where it may grow to `limit`.
fn reserve(
    path: &Path,
    file: &File,
    len: u64,
    limit: u64,
    sharing: Sharing,
) -> Result<Reservation, MapError> {
    let limit = limit.next_multiple_of(PAGE);
    let reservation =
        Reservation::new(file.as_fd(), limit, sharing).map_err(|errno| match errno {
            Errno::NOMEM => MapError::NoAddressSpace { path: path.to_path_buf(), limit },
            errno => MapError::from_errno(path, "map the file", errno),
        })?;
    // SAFETY: the limit covers `len`.
    unsafe { reservation.open_up(0, len.next_multiple_of(PAGE)) }
        .map_err(|errno| MapError::from_errno(path, "map the file", errno))?;
    Ok(reservation)
}

/// Has nothing of the file's holes loaded from the file, where that would take space of its file system, of which there
/// may be none: that would be a signal.
fn cover_holes(
    path: &Path,
    reservation: &Reservation,
    file: &File,
    len: u64,
) -> Result<(), MapError> {
    let holes = file::holes(file, len)
        .map_err(|errno| MapError::from_errno(path, "look for its holes", errno))?;
    if holes.len() > MOST_HOLES {
        return Err(MapError::Holes { path: path.to_path_buf(), holes: holes.len() });
    }
    for hole in holes {
        // SAFETY: there are no references into a new reservation; the hole is of whole pages below the limit.
        unsafe { reservation.cover(hole.start, hole.end) }
            .map_err(|errno| MapError::from_errno(path, "map memory over its holes", errno))?;
    }
    Ok(())
}

fn own(path: &Path, reservation: &Reservation, len: u64) -> Result<OwnerPage, MapError> {
    OwnerPage::new(path, len, reservation.addresses())
        .map_err(|errno| MapError::from_errno(path, "map a page beside it", errno))
}
