//! The background flusher: under an engine that lets commits wait, it flushes those that no session waits for.

use perdura_engine::Engine;
use perdura_memory::Mapped;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often it runs.
const EVERY: Duration = Duration::from_millis(5);

/// The thread; it has ended when this is dropped.
pub(super) struct Flusher {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    /// Starts it, if the engine needs one. If no thread can be started, commits that no session waits for become
    /// durable with later ones, or when the pool is closed.
    pub(super) fn of<E: Engine<Mapped>>(engine: &Arc<E>) -> Option<Self> {
        if !E::NEEDS_FLUSHER {
            return None;
        }
        let (stop, engine) = (Arc::new(AtomicBool::new(false)), engine.clone());
        let stopped = stop.clone();
        let flush = move || {
            while !stopped.load(Ordering::Acquire) {
                // A failure shows again when a session waits.
                let _ = engine.flush_due();
                thread::park_timeout(EVERY);
            }
        };
        let thread = thread::Builder::new().name("perdura-flush".to_owned()).spawn(flush).ok()?;
        Some(Flusher { stop, thread: Some(thread) })
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
