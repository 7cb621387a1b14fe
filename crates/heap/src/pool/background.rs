//! A pool's own thread: it looks whether the pool's file is still where it was opened, and, under an engine that lets
//! commits wait, flushes those that no session waits for.

use perdura_engine::Engine;
use perdura_memory::{Mapped, Memory as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often it flushes.
const FLUSH_EVERY: Duration = Duration::from_millis(5);

/// How often it looks at the file: for this long, commits to a file that is lost may be acknowledged.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The thread; it has ended when this is dropped.
pub(super) struct Background {
    stop: Arc<AtomicBool>,
    memory: Arc<Mapped>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts it. If no thread can be started, commits that no session waits for become durable with later ones, or when
    /// the pool is closed; and that the file is lost is noticed by syncs of it, and when the pool is closed.
    pub(super) fn of<E: Engine<Mapped>>(engine: &Arc<E>, memory: &Arc<Mapped>) -> Option<Self> {
        let every = if E::NEEDS_FLUSHER { FLUSH_EVERY } else { LOOK_EVERY };
        let (stop, engine, own) =
            (Arc::new(AtomicBool::new(false)), engine.clone(), memory.clone());
        let stopped = stop.clone();
        let work = move || {
            let mut looked = Instant::now();
            while !stopped.load(Ordering::Acquire) {
                // A failure shows again when a session commits, or waits.
                if E::NEEDS_FLUSHER {
                    let _ = engine.flush_due();
                }
                if looked.elapsed() >= LOOK_EVERY {
                    let _ = own.look();
                    looked = Instant::now();
                }
                thread::park_timeout(every);
            }
        };
        let thread = thread::Builder::new().name("perdura-pool".to_owned()).spawn(work).ok()?;
        Some(Background { stop, memory: memory.clone(), thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        if self.memory.is_forked() {
            // It runs in the parent.
            return std::mem::forget(thread);
        }
        thread.thread().unpark();
        let _ = thread.join();
    }
}
