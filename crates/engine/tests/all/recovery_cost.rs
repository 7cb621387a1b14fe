//! What recovery asks of the memory.

use crate::ram;
use perdura_engine::area::SMALLEST;
use perdura_engine::{Access, Engine, Mode, RedoEngine, Session};
use perdura_memory::any::{Asked, Watch};
use perdura_memory::{AnyMemory, LINE, Memory, WORD};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const LOG: std::ops::Range<u64> = 0..SMALLEST;
const LINES: u64 = 3;
const TRANSACTIONS: u64 = 20;

/// Counts the write-backs of words that recovery has stored.
#[derive(Default)]
struct Count(AtomicU64);

impl Watch for Count {
    fn leaves_out(&self, asked: Asked, at: &'static Location<'static>) -> bool {
        if asked == Asked::WriteBack && at.file().ends_with("log/recovery.rs") {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        false
    }
}

#[test]
fn adjacent_lines_are_written_back_once() {
    let memory = Arc::new(ram(SMALLEST + 4096));
    RedoEngine::format(&*memory, LOG);
    let engine = RedoEngine::start(memory.clone(), LOG).unwrap();
    let mut session = engine.session().unwrap();
    for number in 1..=TRANSACTIONS {
        session.begin(Mode::Write);
        for at in (SMALLEST..SMALLEST + LINES * LINE).step_by(WORD as usize) {
            session.write_word(at, number).unwrap();
        }
        session.commit_awaited().unwrap();
    }
    let count = Arc::new(Count::default());
    let watched = AnyMemory::watched(memory.clone(), count.clone());
    assert_eq!(RedoEngine::recover(&watched, LOG).unwrap().replayed, TRANSACTIONS);
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert_eq!(memory.load(SMALLEST + LINES * LINE - WORD), TRANSACTIONS);
}
