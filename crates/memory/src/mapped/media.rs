//! Durability on a block device: lines written back are kept in memory, and a fence writes them to the file and syncs
//! it, one sync for many threads; see [`Gather`](crate::gather) for when the sync begins.
//!
//! What always holds:
//! - The file gets only lines that were written back, as they were at that moment: never their neighbours in the page,
//!   which may hold data whose log is not durable yet.
//! - Batches reach the device one after the other, so that a line never goes back in time.
//! - After a failed write or sync nothing is written or synced again: what the device holds is unknown, and a second
//!   sync might report success for pages that the kernel has dropped.

mod copies;

use crate::{Gather, LINE, PAGE, line_of};
use copies::Copies;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicU64 as Word;
#[cfg(not(loom))]
use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use std::sync::{OnceLock, PoisonError};
use std::time::Instant;
// The model checker's, for `media_models.rs`.
#[cfg(loom)]
use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

const LINES: usize = (PAGE / LINE) as usize;
/// Threads that write back different pages seldom share a shard. Few under the model checker.
const SHARDS: usize = if cfg!(loom) { 2 } else { 16 };
/// The most pages kept in memory; beyond that write-backs go to the file early, without a sync.
const MOST_PAGES: u64 = 16 << 10;
/// The most bytes of one write call.
const MOST_BYTES: usize = 1 << 20;

/// What a [`Media`] writes to: a file, or a test's stand-in that fails on demand.
pub(super) trait Device: Send + Sync {
    /// Writes all of `bytes` at offset `at`.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Returns when all that was written is on stable media. Must not retry by itself.
    fn sync(&self) -> io::Result<()>;
}

/// The lines of one page that were written back, as they were then: mostly few lines of many pages, at a checkpoint.
struct CapturedPage {
    /// A bit for each line.
    present: u64,
    /// The present lines, in order.
    lines: Vec<[u64; 8]>,
}

impl CapturedPage {
    /// Empty, with room for `room` lines.
    fn new(room: u64) -> Self {
        CapturedPage { present: 0, lines: Vec::with_capacity(room as usize) }
    }

    /// Keeps a line, replacing an older version of it.
    fn keep(&mut self, index: usize, line: [u64; 8]) {
        let bit = 1 << index;
        let place = (self.present & (bit - 1)).count_ones() as usize;
        if self.present & bit == 0 {
            self.present |= bit;
            self.lines.insert(place, line);
        } else {
            self.lines[place] = line;
        }
    }

    /// The kept lines, with their indices in the page.
    fn kept(&self) -> impl Iterator<Item = (u64, &[u64; 8])> {
        (0..LINES as u64).filter(|index| self.present >> index & 1 == 1).zip(&self.lines)
    }
}

type Shard = BTreeMap<u64, CapturedPage>;

#[derive(Default)]
struct Writer {
    buffer: Vec<u8>,
    /// Whether something was written since the last sync.
    unsynced: bool,
    copies: Copies,
}

struct Failure {
    kind: io::ErrorKind,
    text: String,
}

/// The threads that wait for a sync.
#[derive(Default)]
struct SyncGroup {
    /// How many there are, including the leader.
    waiting: usize,
    /// Whether one of them leads: it syncs for all, or will.
    is_led: bool,
    /// Whether the leader waits for more threads.
    gathers: bool,
    next: Gather,
}

/// Write-backs kept in memory, and the group commit that makes them durable.
pub(super) struct Media<D> {
    device: D,
    shards: [Mutex<Shard>; SHARDS],
    pages_held: AtomicU64,
    /// The number of write-backs so far, and how many of them are durable.
    asked: AtomicU64,
    durable: AtomicU64,
    group: Mutex<SyncGroup>,
    /// Notified when the group's state changes.
    changed: Condvar,
    /// Held while batches are taken and written.
    writer: Mutex<Writer>,
    failure: OnceLock<Failure>,
    syncs: AtomicU64,
    pages_written: AtomicU64,
    /// Whether many pages may have private copies.
    copies_due: AtomicBool,
}

impl<D: Device> Media<D> {
    pub(super) fn new(device: D) -> Self {
        Media {
            device,
            shards: Default::default(),
            pages_held: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            group: Mutex::default(),
            changed: Condvar::new(),
            writer: Mutex::default(),
            failure: OnceLock::new(),
            syncs: AtomicU64::new(0),
            pages_written: AtomicU64::new(0),
            copies_due: AtomicBool::new(false),
        }
    }

    pub(super) fn device(&self) -> &D {
        &self.device
    }

    pub(super) fn into_device(self) -> D {
        self.device
    }

    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    pub(super) fn pages_written(&self) -> u64 {
        self.pages_written.load(Ordering::Relaxed)
    }

    /// Keeps the lines of `[at, at + len)` for the next fence.
    ///
    /// # Safety
    /// Every line that the range touches is mapped from `base` on, which is aligned to a line, and is only ever
    /// accessed atomically.
    pub(super) unsafe fn write_back(&self, base: *const u8, at: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (mut line, end) = (line_of(at), at + len);
        while line < end {
            let page = line / PAGE;
            let mut shard = lock(&self.shards[page as usize % SHARDS]);
            let held = shard.entry(page).or_insert_with(|| {
                self.pages_held.fetch_add(1, Ordering::Relaxed);
                CapturedPage::new((end.min((page + 1) * PAGE) - line).div_ceil(LINE))
            });
            while line < end && line / PAGE == page {
                let index = (line % PAGE / LINE) as usize;
                // SAFETY: the line is mapped by the caller's contract. Captured under the shard's lock, so that of two
                // write-backs of one line the later capture stays.
                held.keep(index, unsafe { snapshot(base.add(line as usize)) });
                line += LINE;
            }
        }
        // After the captures: a fence that sees this number finds them.
        self.asked.fetch_add(1, Ordering::Release);
        if self.pages_held.load(Ordering::Relaxed) > MOST_PAGES {
            self.spill();
        }
    }

    /// Returns when every write-back that happened before is durable, or after a failure.
    pub(super) fn fence(&self) {
        let want = self.asked.load(Ordering::Acquire);
        if self.durable.load(Ordering::Acquire) >= want {
            return;
        }
        let mut group = lock(&self.group);
        group.waiting += 1;
        if group.gathers {
            self.changed.notify_all();
        }
        while self.durable.load(Ordering::Acquire) < want && self.failure.get().is_none() {
            if group.is_led {
                group = self.changed.wait(group).unwrap_or_else(PoisonError::into_inner);
            } else {
                group.is_led = true;
                drop(self.gather(group));
                let began = Instant::now();
                self.lead();
                group = lock(&self.group);
                group.is_led = false;
                let waiting = group.waiting;
                group.next.ended(began.elapsed(), waiting);
                self.changed.notify_all();
            }
        }
        group.waiting -= 1;
    }

    /// The group's leader waits for more threads, if that is likely to help.
    fn gather<'a>(&self, mut group: MutexGuard<'a, SyncGroup>) -> MutexGuard<'a, SyncGroup> {
        let there = group.waiting;
        // The model checker has no notion of time.
        let Some(until) = group.next.until(there).filter(|_| !cfg!(loom)) else { return group };
        group.gathers = true;
        while group.waiting < group.next.expected() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(group, left);
            group = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        group.gathers = false;
        let came = group.waiting > there;
        group.next.brought(came);
        group
    }

    /// The failure after which nothing may be acknowledged, if there was one.
    pub(super) fn check(&self) -> io::Result<()> {
        let Some(failure) = self.failure.get() else { return Ok(()) };
        Err(io::Error::new(
            failure.kind,
            format!(
                "{}; nothing more can be made durable through this mapping: repair the cause, \
                 then open the pool again, which recovers what was acknowledged",
                failure.text
            ),
        ))
    }

    /// Writes zeros over `range` and syncs, independently of the kept write-backs.
    pub(super) fn write_zeros(&self, range: Range<u64>) -> io::Result<()> {
        let mut writer = lock(&self.writer);
        self.check()?;
        let zeros = vec![0; MOST_BYTES.min((range.end - range.start) as usize)];
        let mut at = range.start;
        while at < range.end {
            let bytes = (range.end - at).min(zeros.len() as u64);
            self.attempt("write to the pool's file", || {
                self.device.write_at(at, &zeros[..bytes as usize])
            })?;
            at += bytes;
        }
        self.sync(&mut writer)
    }

    /// Syncs the file, whatever was written to it. Every sync goes through here: one that failed elsewhere would
    /// swallow the error that a fence must see.
    pub(super) fn sync_file(&self) -> io::Result<()> {
        let mut writer = lock(&self.writer);
        self.check()?;
        self.sync(&mut writer)
    }

    /// Writes all kept lines and syncs.
    fn lead(&self) {
        let mut writer = lock(&self.writer);
        // Before the batch is taken: every write-back counted here is in it, or was in an earlier one.
        let upto = self.asked.load(Ordering::Acquire);
        let result = self
            .check()
            .and_then(|()| self.write_batch(&mut writer))
            .and_then(|()| if writer.unsynced { self.sync(&mut writer) } else { Ok(()) });
        if result.is_ok() {
            self.durable.fetch_max(upto, Ordering::Release);
        }
    }

    /// Writes kept lines early when a thread writes back much without a fence, to bound memory.
    fn spill(&self) {
        let mut writer = lock(&self.writer);
        if self.pages_held.load(Ordering::Relaxed) > MOST_PAGES && self.check().is_ok() {
            // A failure is remembered, and the next fence finds it.
            let _ = self.write_batch(&mut writer);
        }
    }

    fn write_batch(&self, writer: &mut Writer) -> io::Result<()> {
        let mut batch: Vec<(u64, CapturedPage)> = Vec::new();
        for shard in &self.shards {
            batch.extend(std::mem::take(&mut *lock(shard)));
        }
        self.pages_held.fetch_sub(batch.len() as u64, Ordering::Relaxed);
        batch.sort_unstable_by_key(|(page, _)| *page);

        let mut start = 0;
        writer.buffer.clear();
        for (page, held) in &batch {
            for (index, line) in held.kept() {
                let at = page * PAGE + index * LINE;
                let adjacent = start + writer.buffer.len() as u64 == at;
                if !adjacent || writer.buffer.len() >= MOST_BYTES {
                    self.write_buffer(writer, start)?;
                    start = at;
                }
                writer.buffer.extend(line.iter().flat_map(|word| word.to_ne_bytes()));
            }
        }
        self.write_buffer(writer, start)?;
        self.pages_written.fetch_add(batch.len() as u64, Ordering::Relaxed);
        batch.iter().for_each(|(page, _)| writer.copies.note(*page));
        if writer.copies.is_due() {
            self.copies_due.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn write_buffer(&self, writer: &mut Writer, at: u64) -> io::Result<()> {
        if !writer.buffer.is_empty() {
            writer.unsynced = true;
            self.attempt("write to the pool's file", || self.device.write_at(at, &writer.buffer))?;
            writer.buffer.clear();
        }
        Ok(())
    }

    fn sync(&self, writer: &mut Writer) -> io::Result<()> {
        self.attempt("sync the pool's file", || self.device.sync())?;
        writer.unsynced = false;
        self.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Runs `step`, and remembers its failure for good.
    fn attempt(&self, doing: &str, step: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        step().inspect_err(|error| {
            let text = format!("cannot {doing}: {error}");
            self.failure.get_or_init(|| Failure { kind: error.kind(), text });
        })
    }
}

/// The line at `line`, as it was at one moment: words are read until they read the same twice, since a mixture of two
/// moments would be a state that the line never had.
///
/// # Safety
/// `line` is mapped, aligned to a line, and only ever accessed atomically.
unsafe fn snapshot(line: *const u8) -> [u64; 8] {
    let read = || {
        std::array::from_fn(|index| {
            // SAFETY: in bounds and aligned by the caller's contract.
            #[allow(clippy::cast_ptr_alignment)]
            let word = unsafe { &*line.cast::<Word>().add(index) };
            word.load(Ordering::Acquire)
        })
    };
    let mut seen: [u64; 8] = read();
    loop {
        let again = read();
        if again == seen {
            return seen;
        }
        seen = again;
        std::hint::spin_loop();
    }
}

/// No panic leaves the guarded data half-changed, so poisoning is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
#[path = "media_tests.rs"]
mod tests;

#[cfg(all(test, loom))]
#[path = "media_models.rs"]
mod models;
