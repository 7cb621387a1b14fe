//! A page of ordinary memory that belongs to the process that opened the pool: in each forked child the kernel empties
//! it (`MADV_WIPEONFORK`).
//!
//! The pool's length is in it, so that in a child the pool has no bytes: every checked access fails there, and none is
//! checked a second time for it. Its condition is beside it, in the same cache line, and the file's path, for the
//! [handler of SIGBUS](super::sigbus).
//!
//! A kernel that cannot empty the page (Linux before 4.14) leaves it out of the child, which ends by SIGSEGV at its
//! first use of the pool. A child that shares its parent's memory (`vfork`, `posix_spawn`) is that process, and may only
//! run another program.

use super::sigbus;
use crate::LINE;
use rustix::io;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the page.
const BYTES: usize = 4096;
/// The most bytes of the path that are kept.
const MOST_PATH: usize = BYTES - 3 * size_of::<u64>();

/// The value of `condition` while the pool can be used; in a forked child it is 0.
const INTACT: u64 = 1;
/// Its value when the file is not what was opened any more.
const LOST: u64 = 2;

/// What is in the page.
#[repr(C)]
pub(super) struct Page {
    len: AtomicU64,
    condition: AtomicU64,
    path_len: u64,
    path: [u8; MOST_PATH],
}

const _: () = assert!(size_of::<Page>() == BYTES);
const _: () = assert!(size_of::<[AtomicU64; 2]>() <= LINE as usize);

impl Page {
    /// The path of the pool's file, or of a part of it; nothing in a forked child.
    pub(super) fn path(&self) -> &[u8] {
        &self.path[..(self.path_len as usize).min(MOST_PATH)]
    }
}

/// The page, and the pool's entry in the list of those whose loss is reported.
pub(super) struct OwnerPage {
    page: *mut Page,
    entry: Option<sigbus::Entry>,
}

// SAFETY: the page belongs to no thread, and is changed through atomics only.
unsafe impl Send for OwnerPage {}
// SAFETY: as above.
unsafe impl Sync for OwnerPage {}

impl OwnerPage {
    /// For a pool of `len` bytes, more than 0, whose file is at `path` and mapped at these `addresses`.
    pub(super) fn new(path: &Path, len: u64, addresses: Range<usize>) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let page = unsafe { mmap_anonymous(ptr::null_mut(), BYTES, access, MapFlags::PRIVATE)? };
        let mut owner = OwnerPage { page: page.cast(), entry: None };
        // SAFETY: the mapping is new and ours.
        let wiped = unsafe { madvise(page, BYTES, Advice::LinuxWipeOnFork) };
        if wiped.is_err() {
            // SAFETY: as above.
            unsafe { madvise(page, BYTES, Advice::LinuxDontFork)? };
        }
        let path = path.as_os_str().as_bytes();
        let path = &path[..path.len().min(MOST_PATH)];
        // SAFETY: the page is mapped, zero, which is a valid `Page`, and nobody else has its address yet.
        let fields = unsafe { &mut *owner.page };
        fields.path[..path.len()].copy_from_slice(path);
        fields.path_len = path.len() as u64;
        fields.len.store(len, Ordering::Relaxed);
        fields.condition.store(INTACT, Ordering::Relaxed);
        owner.entry = sigbus::enter(addresses, owner.page);
        Ok(owner)
    }

    #[inline(always)]
    fn page(&self) -> &Page {
        // SAFETY: mapped as long as `self` lives, and changed through its atomics only.
        unsafe { &*self.page }
    }

    /// Bytes of the pool; 0 in a forked child.
    #[inline(always)]
    pub(super) fn len(&self) -> u64 {
        // Whoever has an offset in new memory has it, by way of others, from the thread that has set this length.
        self.page().len.load(Ordering::Relaxed)
    }

    /// Sets the length. Not in a forked child.
    pub(super) fn set_len(&self, len: u64) {
        self.page().len.store(len, Ordering::Release);
    }

    /// Whether this process is a forked child of the one that opened the pool.
    #[inline(always)]
    pub(super) fn is_forked(&self) -> bool {
        self.page().condition.load(Ordering::Relaxed) == 0
    }

    /// Whether the pool can be used: this process has opened it, and its file is what was opened.
    #[inline(always)]
    pub(super) fn is_intact(&self) -> bool {
        self.page().condition.load(Ordering::Relaxed) == INTACT
    }

    /// The file is not what was opened any more. Not in a forked child.
    pub(super) fn set_lost(&self) {
        self.page().condition.store(LOST, Ordering::Release);
    }
}

impl Drop for OwnerPage {
    fn drop(&mut self) {
        drop(self.entry.take());
        // SAFETY: mapped in `new`, and nobody else has its address any more.
        let _ = unsafe { munmap(self.page.cast(), BYTES) };
    }
}
