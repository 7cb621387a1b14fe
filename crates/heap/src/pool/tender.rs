//! A thread that looks after an engine whose commits may wait: what nobody asks for becomes
//! durable all the same.

use perdura_engine::Engine;
use perdura_memory::Mapped;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often it looks.
const EVERY: Duration = Duration::from_millis(5);

/// The thread; it ends before this has been dropped.
pub(super) struct Tender {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tender {
    /// Starts it, if the engine needs one. Where there can be no thread, commits that nobody
    /// waits for become durable with later ones, and when the pool is closed.
    pub(super) fn of<E: Engine<Mapped>>(engine: &Arc<E>) -> Option<Self> {
        if !E::TENDED {
            return None;
        }
        let (stop, engine) = (Arc::new(AtomicBool::new(false)), engine.clone());
        let stopped = stop.clone();
        let tend = move || {
            while !stopped.load(Ordering::Acquire) {
                // A failure shows again when somebody waits.
                let _ = engine.tend();
                thread::park_timeout(EVERY);
            }
        };
        let thread = thread::Builder::new().name("perdura-tend".to_owned()).spawn(tend).ok()?;
        Some(Tender { stop, thread: Some(thread) })
    }
}

impl Drop for Tender {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
