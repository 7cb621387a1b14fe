//! SIGBUS, which an access to a part of a mapped pool that its file has lost raises: by default the process ends
//! without a word. [`report_sigbus`] has it end with one, naming the file.
//!
//! It does not go on: what was read from there would be invented, so that nothing of that pool could be answered or
//! acknowledged. A library takes no signal by itself; programs ask for it.

use super::owner::Page;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Pools that are reported; of more, the process ends as by default.
const MOST: usize = 128;

/// The exit status after a report.
const STATUS: i32 = 1;

/// An open pool: its addresses, and the page with its path. `start` is 0 for none, and 1 while it is being entered.
struct Mapping {
    start: AtomicUsize,
    end: AtomicUsize,
    page: AtomicPtr<Page>,
}

static MAPPINGS: [Mapping; MOST] = [const {
    Mapping {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        page: AtomicPtr::new(ptr::null_mut()),
    }
}; MOST];

/// A pool's place on the list; dropped, the pool leaves it.
pub(super) struct Entry(usize);

/// Lists a pool, if there is room. The page is mapped as long as the entry lives.
pub(super) fn enter(addresses: Range<usize>, page: *mut Page) -> Option<Entry> {
    let free = |mapping: &Mapping| {
        mapping.start.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let place = MAPPINGS.iter().position(free)?;
    let mapping = &MAPPINGS[place];
    mapping.page.store(page, Ordering::Relaxed);
    mapping.end.store(addresses.end, Ordering::Relaxed);
    mapping.start.store(addresses.start, Ordering::Release);
    Some(Entry(place))
}

impl Drop for Entry {
    fn drop(&mut self) {
        MAPPINGS[self.0].start.store(0, Ordering::Release);
    }
}

/// The pool at an address. A thread that touches it has it open, so that the page stays mapped meanwhile.
fn pool_at(address: usize) -> Option<*mut Page> {
    let holds = |mapping: &&Mapping| {
        let start = mapping.start.load(Ordering::Acquire);
        start > 1 && start <= address && address < mapping.end.load(Ordering::Relaxed)
    };
    MAPPINGS.iter().find(holds).map(|mapping| mapping.page.load(Ordering::Relaxed))
}

/// What handled the signal before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// From now on an access to a part of a pool that its file has lost (it was cut short, or its file system failed) ends
/// the process with a line on the standard error that names the file, and exit status 1. Without this call the process
/// ends by SIGBUS, silently. Other causes of SIGBUS are handled as before the call.
///
/// # Errors
/// When the operating system refuses.
pub fn report_sigbus() -> io::Result<()> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: reads the current action into a struct of its type.
    if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), before.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: written just now.
    BEFORE.get_or_init(|| unsafe { before.assume_init() });
    // SAFETY: all zeros are a valid action.
    let mut action = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
    action.sa_sigaction = handle as extern "C" fn(_, _, _) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler takes the arguments that SA_SIGINFO gives, and does only what a signal handler may.
    match unsafe { libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Only calls that a signal handler may make.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid `info`. Codes from 1 on are faults, which have an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let pool = if code > 0 { pool_at(address) } else { None };
    let Some(page) = pool else {
        if let Some(before) = BEFORE.get() {
            // SAFETY: an action that was valid before. A fault happens again on return, and is handled by it.
            unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
        }
        if code <= 0 {
            // SAFETY: no condition; a signal that was sent, and is to be handled as before.
            unsafe { libc::raise(signal) };
        }
        return;
    };
    let why: &[u8] = match code {
        libc::BUS_MCEERR_AR => b"the machine's memory that held a part of it failed",
        _ => b"its file was cut short, or its file system failed, while the pool was open",
    };
    let rest: &[u8] = b" (SIGBUS). Nothing is acknowledged from here on: run `perdura pool check` on it, or go back to a copy\n";
    // SAFETY: the page is mapped: see `pool_at`.
    let path = unsafe { (*page).path() };
    for part in [b"error: ", path, b": ", why, rest] {
        // SAFETY: a buffer of that length. If it cannot be written, nothing else can be done.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
    // SAFETY: no condition; runs no code of this process.
    unsafe { libc::_exit(STATUS) }
}
