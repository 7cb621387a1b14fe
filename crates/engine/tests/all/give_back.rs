//! Copies of pages that are given back while transactions run: no store in place is lost.

use perdura_engine::area::SMALLEST;
use perdura_engine::{Engine, Error, Mode, Session, on_each_engine};
use perdura_memory::{AnyMemory, Domain, PAGE, Reference};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const BYTES: u64 = 2 << 20;
/// A block that is fresh in each transaction, too large for the log of a block device.
const BLOCK: u64 = 1 << 20;
const LEN: usize = 192 << 10;

/// The steps of the two threads: pages have been compared with the file; the block has been stored; copies have been
/// dropped.
const COMPARED: u32 = 1;
const STORED: u32 = 2;
const DROPPED: u32 = 3;

/// Waits for the other thread's step, but not for ever: the engine may make this thread the other one's obstacle.
fn wait_for(step: &AtomicU32, reached: u32) {
    let begun = Instant::now();
    while step.load(Ordering::SeqCst) < reached && begun.elapsed() < Duration::from_millis(30) {
        std::thread::yield_now();
    }
}

fn store_block(session: &mut impl Session, byte: u8, stored: impl FnOnce()) {
    session.begin(Mode::Write);
    session.write_fresh(BLOCK, &vec![byte; LEN]).unwrap();
    stored();
    let ticket = session.commit().unwrap();
    session.wait_durable(ticket).unwrap();
}

/// The first byte of the block that differs.
fn differing(session: &mut impl Session, byte: u8) -> Option<usize> {
    let mut bytes = vec![0; LEN];
    loop {
        session.begin(Mode::Read);
        match session.read_bytes(BLOCK, &mut bytes).and_then(|()| session.commit()) {
            Err(Error::Conflict) => session.abort(),
            ended => {
                ended.unwrap();
                return bytes.iter().position(|found| *found != byte);
            }
        }
    }
}

/// Stores a block of fresh memory in a transaction's body between the comparison of its pages with the file and the
/// drop of their copies, if the engine lets it. The first byte that is lost.
fn lost_byte<E: Engine<AnyMemory>>() -> Option<usize> {
    let (file, step) =
        (Arc::new(Reference::new(BYTES, Domain::Media)), Arc::new(AtomicU32::new(0)));
    let its_step = step.clone();
    file.while_giving_back(move |pages| {
        if pages.contains(&(BLOCK / PAGE)) && its_step.load(Ordering::SeqCst) == 0 {
            its_step.store(COMPARED, Ordering::SeqCst);
            wait_for(&its_step, STORED);
        }
    });
    let memory = Arc::new(AnyMemory::new(file));
    let log = SMALLEST + E::beside_log(BYTES);
    E::format(&memory, 0..log);
    let engine = E::start(memory, 0..log).expect("an empty log");
    let mut session = engine.session().expect("a session");
    store_block(&mut session, 1, || {});
    std::thread::scope(|scope| {
        scope.spawn(|| {
            engine.give_back().expect("no failure");
            step.fetch_max(DROPPED, Ordering::SeqCst);
        });
        while step.load(Ordering::SeqCst) < COMPARED {
            std::thread::yield_now();
        }
        store_block(&mut session, 2, || {
            step.fetch_max(STORED, Ordering::SeqCst);
            wait_for(&step, DROPPED);
        });
    });
    differing(&mut session, 2)
}

#[test]
fn no_store_of_fresh_memory_is_lost() {
    fn run<E: Engine<AnyMemory>>() {
        let lost = lost_byte::<E>();
        assert!(lost.is_none(), "{} has lost the store of byte {lost:?}", E::NAME);
    }
    on_each_engine!(crash_consistent run::<AnyMemory>());
}

/// A body that stores in place without a word loses its store.
#[cfg(feature = "planted")]
#[test]
fn unannounced_stores_are_lost() {
    use perdura_engine::CcStmEngine;
    use perdura_engine::planted::{Bug, with};
    assert!(with(Bug::FreshUnannounced, lost_byte::<CcStmEngine<AnyMemory>>).is_some());
}
