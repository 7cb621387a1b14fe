//! Group commit on a device that counts, waits and fails on demand.

use super::*;
use std::time::Duration;

const BYTES: usize = 1 << 20;

/// Keeps what was written apart from what was synced.
#[derive(Default)]
struct Fake {
    written: Mutex<BTreeMap<u64, [u64; 8]>>,
    synced: Mutex<BTreeMap<u64, [u64; 8]>>,
    calls: Mutex<Vec<(u64, usize)>>,
    slow: AtomicBool,
    fail_writes: AtomicBool,
    fail_syncs: AtomicBool,
    syncs: AtomicU64,
    /// Holds the device's next call until released.
    gate: AtomicU64,
}

/// States of [`Fake::gate`].
const OPEN: u64 = 0;
const AT_WRITE: u64 = 1;
const AT_SYNC: u64 = 2;
const WAITING: u64 = 3;

impl Fake {
    fn pass(&self, gate: u64) {
        if self.gate.compare_exchange(gate, WAITING, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            while self.gate.load(Ordering::SeqCst) == WAITING {
                std::thread::yield_now();
            }
        }
    }
}

impl Device for Fake {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if self.fail_writes.load(Ordering::SeqCst) {
            return Err(io::Error::other("the write failed"));
        }
        lock(&self.calls).push((at, bytes.len()));
        self.pass(AT_WRITE);
        for (index, line) in bytes.chunks_exact(64).enumerate() {
            let words = std::array::from_fn(|word| {
                u64::from_ne_bytes(line[word * 8..][..8].try_into().expect("eight bytes"))
            });
            lock(&self.written).insert(at + index as u64 * LINE, words);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        // Writes during this sync are not covered by it.
        let before = lock(&self.written).clone();
        self.pass(AT_SYNC);
        if self.slow.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(2));
        }
        if self.fail_syncs.load(Ordering::SeqCst) {
            return Err(io::Error::other("the sync failed"));
        }
        *lock(&self.synced) = before;
        Ok(())
    }
}

#[repr(C, align(64))]
#[derive(Default)]
struct Line([AtomicU64; 8]);

struct Rig {
    memory: Vec<Line>,
    media: Media<Fake>,
}

impl Rig {
    fn new() -> Self {
        let memory = (0..BYTES / 64).map(|_| Line::default()).collect();
        Rig { memory, media: Media::new(Fake::default()) }
    }

    fn store(&self, at: u64, value: u64) {
        let line = &self.memory[(at / LINE) as usize];
        line.0[(at % LINE / 8) as usize].store(value, Ordering::Release);
    }

    fn write_back(&self, at: u64, len: u64) {
        assert!(at + len <= BYTES as u64);
        // SAFETY: just checked against the allocation, which is whole lines of atomics.
        unsafe { self.media.write_back(self.memory.as_ptr().cast(), at, len) }
    }

    fn synced(&self, at: u64) -> Option<u64> {
        let word = (at % LINE / 8) as usize;
        lock(&self.media.device.synced).get(&line_of(at)).map(|line| line[word])
    }
}

#[test]
fn nothing_is_written_before_a_fence_nor_without_a_write_back() {
    let rig = Rig::new();
    rig.store(0, 1);
    rig.store(64, 2);
    rig.media.fence();
    rig.write_back(0, 8);
    rig.store(0, 3);
    assert!(lock(&rig.media.device.written).is_empty());
    rig.media.fence();
    assert_eq!(rig.synced(0), Some(1), "as it was when it was written back");
    assert_eq!(rig.synced(64), None, "a neighbour in the page");
    assert_eq!(rig.media.syncs(), 1);
}

#[test]
fn a_fence_with_nothing_pending_syncs_nothing() {
    let rig = Rig::new();
    rig.media.fence();
    rig.write_back(0, 0);
    rig.media.fence();
    assert_eq!(rig.media.syncs(), 0);
    rig.write_back(0, 1);
    rig.media.fence();
    rig.media.fence();
    assert_eq!(rig.media.syncs(), 1);
}

#[test]
fn adjacent_lines_go_in_one_write_in_order() {
    let rig = Rig::new();
    rig.write_back(3 * PAGE - 64, 128);
    rig.write_back(0, 8192);
    rig.write_back(640 * LINE, 8);
    rig.write_back(642 * LINE, 8);
    rig.media.fence();
    let calls = lock(&rig.media.device.calls).clone();
    assert_eq!(calls, [(0, 8192), (12224, 128), (640 * 64, 64), (642 * 64, 64)]);
    assert_eq!(rig.media.pages_written(), 5);
}

#[test]
fn a_failed_sync_is_for_good() {
    let rig = Rig::new();
    rig.write_back(0, 8);
    rig.media.device.fail_syncs.store(true, Ordering::SeqCst);
    rig.media.fence();
    let error = rig.media.check().expect_err("a failed sync");
    assert!(error.to_string().contains("the sync failed"), "{error}");
    rig.media.device.fail_syncs.store(false, Ordering::SeqCst);
    rig.write_back(0, 8);
    rig.media.fence();
    assert!(rig.media.check().is_err());
    assert!(rig.media.sync_file().is_err() && rig.media.write_zeros(0..64).is_err());
    assert_eq!(rig.media.device.syncs.load(Ordering::SeqCst), 1, "never tried again");
}

#[test]
fn a_failed_write_is_for_good() {
    let rig = Rig::new();
    rig.write_back(0, 8);
    rig.media.device.fail_writes.store(true, Ordering::SeqCst);
    rig.media.fence();
    assert!(rig.media.check().is_err());
    rig.media.device.fail_writes.store(false, Ordering::SeqCst);
    rig.media.fence();
    assert_eq!(rig.media.device.syncs.load(Ordering::SeqCst), 0);
}

#[test]
fn waiting_threads_learn_of_a_failure() {
    let rig = Rig::new();
    rig.media.device.slow.store(true, Ordering::SeqCst);
    rig.media.device.fail_syncs.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let rig = &rig;
            scope.spawn(move || {
                rig.write_back(thread * PAGE, 8);
                rig.media.fence();
                assert!(rig.media.check().is_err());
            });
        }
    });
}

#[test]
fn one_sync_serves_many_threads_and_none_too_early() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 40;
    let rig = Rig::new();
    rig.media.device.slow.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let rig = &rig;
            scope.spawn(move || {
                // Lines of one page, and pages of one shard: both are shared.
                let at = thread * LINE + (thread % 2) * PAGE * SHARDS as u64;
                for round in 1..=ROUNDS {
                    rig.store(at, round);
                    rig.write_back(at, 8);
                    rig.media.fence();
                    assert_eq!(rig.synced(at), Some(round), "a fence that promised too much");
                }
            });
        }
    });
    let (syncs, fences) = (rig.media.syncs(), THREADS * ROUNDS);
    assert!(syncs >= ROUNDS && syncs < fences / 2, "{syncs} syncs for {fences} fences");
}

#[test]
fn much_without_a_fence_is_written_early_and_synced_by_the_fence() {
    let bytes = (MOST_PAGES + 2) * PAGE;
    let mut memory = Vec::new();
    memory.resize_with((bytes / LINE) as usize, Line::default);
    let media = Media::new(Fake::default());
    for page in 0..MOST_PAGES + 2 {
        // SAFETY: within the allocation made above.
        unsafe { media.write_back(memory.as_ptr().cast(), page * PAGE, 8) };
    }
    assert!(media.pages_held.load(Ordering::SeqCst) < MOST_PAGES);
    assert_eq!((media.pages_written(), media.syncs()), (MOST_PAGES + 1, 0));
    media.fence();
    assert_eq!((media.pages_written(), media.syncs()), (MOST_PAGES + 2, 1));
    assert_eq!(lock(&media.device.synced).len() as u64, MOST_PAGES + 2);
}

#[test]
fn a_spill_alone_is_still_synced_by_the_next_fence() {
    let rig = Rig::new();
    rig.write_back(0, 8);
    rig.media.write_batch(&mut lock(&rig.media.writer)).expect("a write");
    rig.media.fence();
    assert_eq!((rig.synced(0), rig.media.syncs()), (Some(0), 1));
}

#[test]
fn a_line_is_captured_as_it_was_at_one_moment() {
    let line = Line::default();
    let running = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Ascending, so that no word is ever ahead of the one before it.
            for value in 1..200_000 {
                line.0.iter().for_each(|word| word.store(value, Ordering::Release));
            }
            running.store(false, Ordering::Release);
        });
        while running.load(Ordering::Acquire) {
            // SAFETY: a line of atomics.
            let seen = unsafe { snapshot((&raw const line).cast()) };
            assert!(seen.is_sorted_by(|left, right| left >= right), "{seen:?}");
            assert!(seen[0] - seen[7] <= 1, "{seen:?}");
        }
    });
}

/// A write-back during a fence that leads is not in its batch: the fence after it syncs once more, wherever the leader
/// was.
#[test]
fn a_write_back_during_a_fence_waits_for_the_next_sync() {
    for gate in [AT_WRITE, AT_SYNC] {
        let rig = Rig::new();
        rig.media.device.gate.store(gate, Ordering::SeqCst);
        rig.write_back(0, 8);
        std::thread::scope(|scope| {
            let leader = scope.spawn(|| rig.media.fence());
            while rig.media.device.gate.load(Ordering::SeqCst) != WAITING {
                std::thread::yield_now();
            }
            rig.store(PAGE, 7);
            rig.write_back(PAGE, 8);
            rig.media.device.gate.store(OPEN, Ordering::SeqCst);
            leader.join().expect("no panic");
        });
        assert_eq!(rig.synced(PAGE), None, "the leader had its batch");
        rig.media.fence();
        assert_eq!((rig.synced(PAGE), rig.media.syncs()), (Some(7), 2), "gate {gate}");
    }
}
