//! Address space: reserved once for all that a pool may grow to, so that its base never moves.
//!
//! The file is mapped once, over the whole reservation, and growth makes more of that mapping accessible. Mapped piece
//! by piece, a pool that grew after it was created would end programs under valgrind: it merges adjacent mappings of a
//! file, and if the file was renamed between them, as a new pool is, it fails when they are unmapped (3.19).

use rustix::io::{self, Errno};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};
use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr;

/// Huge pages, and DAX mappings of them, need the file's start aligned to this.
const ALIGN: usize = 2 << 20;

/// How a file is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Stores reach the page cache.
    Shared,
    /// Stores reach persistent memory, whose file-system metadata is durable by the time a page
    /// can be stored to.
    Synchronous,
    /// Stores stay in this mapping.
    Private,
}

impl Sharing {
    fn flags(self) -> MapFlags {
        match self {
            Sharing::Shared => MapFlags::SHARED,
            Sharing::Synchronous => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
            // Most pages are never stored to: reserve no swap for all of them.
            Sharing::Private => MapFlags::PRIVATE | MapFlags::NORESERVE,
        }
    }
}

/// A range of addresses that is ours alone until dropped.
pub(super) struct Reservation {
    start: *mut c_void,
    bytes: usize,
    base: *mut u8,
}

// SAFETY: a range of addresses belongs to no thread; code that accesses what is mapped there is responsible for its
// accesses.
unsafe impl Send for Reservation {}
// SAFETY: as above; nothing changes through a shared reference but by unsafe calls.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `limit` bytes of addresses for `file`, whose bytes are at their distance from the base. None of them
    /// can be accessed until [`open_up`](Self::open_up) says so.
    pub(super) fn new(file: BorrowedFd<'_>, limit: u64, sharing: Sharing) -> io::Result<Self> {
        let limit = usize::try_from(limit).map_err(|_| Errno::NOMEM)?;
        let bytes = limit.checked_add(ALIGN).ok_or(Errno::NOMEM)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::empty(), flags)? };
        let first = start.cast::<u8>();
        let base = first.wrapping_add(first.align_offset(ALIGN));
        let reservation = Reservation { start, bytes, base };
        let flags = sharing.flags() | MapFlags::FIXED;
        // SAFETY: the range is within this reservation, which is ours to map over.
        unsafe { mmap(base.cast(), limit, ProtFlags::empty(), flags, file, 0)? };
        Ok(reservation)
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }

    /// All addresses in it.
    pub(super) fn addresses(&self) -> Range<usize> {
        self.start.addr()..self.start.addr() + self.bytes
    }

    /// Maps zeroed memory of this process alone over `[from, to)`.
    ///
    /// # Safety
    /// There are no references into that range; `from` and `to` are multiples of the page size, and `to` is within the
    /// limit.
    pub(super) unsafe fn cover(&self, from: u64, to: u64) -> io::Result<()> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: the range is within this reservation, which is ours to map over.
        unsafe {
            let at = self.base.add(from as usize).cast();
            mmap_anonymous(at, (to - from) as usize, access, flags)?;
        }
        Ok(())
    }

    /// Makes bytes `[from, to)` of the file accessible.
    ///
    /// # Safety
    /// `from` and `to` are multiples of the page size, and `to` is within the limit.
    pub(super) unsafe fn open_up(&self, from: u64, to: u64) -> io::Result<()> {
        if from >= to {
            return Ok(());
        }
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the range is within this reservation.
        unsafe { mprotect(self.base.add(from as usize).cast(), (to - from) as usize, access) }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: reserved in `new`; the owner of the reservation has no references left. Unmapping what was mapped
        // cannot fail, and an error could not be reported from here.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}

/// Whether `file` maps with `MAP_SYNC`, which only files on persistent memory do.
pub(super) fn maps_synchronously(file: BorrowedFd<'_>, bytes: u64) -> bool {
    let access = ProtFlags::READ;
    let flags = Sharing::Synchronous.flags();
    // SAFETY: a new mapping at an address of the kernel's choice, gone before any code uses it.
    unsafe {
        match mmap(ptr::null_mut(), bytes as usize, access, flags, file, 0) {
            Ok(at) => munmap(at, bytes as usize).is_ok(),
            Err(_) => false,
        }
    }
}
