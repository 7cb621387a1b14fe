//! Models of the group commit for loom (see `.ci/loom`): what a thread has written back before its fence is on the
//! device when the fence returns, whichever thread led the group, and no thread waits for ever.

use super::*;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;
use std::sync::Mutex as Plain;

/// Records which lines were written, and which of these synced. Its locks are the standard library's: a device orders
/// nothing for the threads that call it.
#[derive(Default)]
struct Fake {
    written: Plain<Vec<u64>>,
    synced: Plain<Vec<u64>>,
    fails: bool,
}

impl Device for Fake {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let lines = (0..bytes.len() as u64 / LINE).map(|line| at + line * LINE);
        self.written.lock().expect("no panic").extend(lines);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        // Writes from here on are not covered by this sync.
        let written = self.written.lock().expect("no panic").clone();
        thread::yield_now();
        if self.fails {
            return Err(io::Error::other("the sync failed"));
        }
        *self.synced.lock().expect("no panic") = written;
        Ok(())
    }
}

#[repr(C, align(64))]
struct Lines([Word; 1024]);

struct Rig {
    memory: Box<Lines>,
    media: Media<Fake>,
}

impl Rig {
    fn new(fails: bool) -> Self {
        let memory = Box::new(Lines(std::array::from_fn(|_| Word::new(0))));
        Rig { memory, media: Media::new(Fake { fails, ..Fake::default() }) }
    }

    /// Stores to the line at `at`, and makes it durable.
    fn commit(&self, at: u64) {
        self.memory.0[at as usize / 8].store(1, Ordering::Release);
        // SAFETY: the line is in the allocation, which is aligned to a line and all atomics.
        unsafe { self.media.write_back((&raw const *self.memory).cast(), at, 8) };
        self.media.fence();
        let is_synced = self.media.device.synced.lock().expect("no panic").contains(&at);
        assert_eq!(is_synced, self.media.check().is_ok(), "the line at {at} is durable or lost");
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(model);
}

fn two_threads_commit(fails: bool) {
    check(move || {
        let rig = Arc::new(Rig::new(fails));
        let other = rig.clone();
        // Pages in different shards.
        let thread = thread::spawn(move || other.commit(4096));
        rig.commit(0);
        thread.join().expect("no panic");
    });
}

#[test]
fn a_fence_covers_what_came_before() {
    two_threads_commit(false);
}

#[test]
fn a_failed_sync_is_reported_to_all() {
    two_threads_commit(true);
}
