//! MIGRATE: keys go to another server, by commands that any Redis understands.
//!
//! One thread of its own does this, one request after the other: it waits on sockets, and no other client waits for it. A key
//! is read in a transaction, sent, and deleted here in another one once the target has confirmed that it has it. Between
//! the two it may be written: that is noticed as WATCH notices it, and then the key is not deleted, but sent again.
//!
//! Invariants: no lock of writers is held while the thread waits for a target. A key that the target has confirmed, and that
//! was not written since it was read, is deleted before the client is answered, and durably.

mod request;
mod target;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use request::Move;

use crate::server::Server;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// A function that starts the thread.
type Start = dyn Fn(Receiver<Move>) -> std::io::Result<JoinHandle<()>> + Send + Sync;

/// The thread that moves keys, which the first request starts.
#[derive(Default)]
pub(crate) struct Migration {
    start: OnceLock<Box<Start>>,
    thread: Mutex<Option<Thread>>,
    /// Connections to targets that are kept for a while.
    sockets: AtomicUsize,
}

struct Thread {
    moves: Sender<Move>,
    handle: JoinHandle<()>,
}

impl Migration {
    fn thread(&self) -> MutexGuard<'_, Option<Thread>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how the thread is started.
    pub(crate) fn open(&self, start: Box<Start>) {
        // The only one that says so.
        let _ = self.start.set(start);
    }

    /// Has keys moved. False if that cannot be.
    pub(crate) fn order(&self, server: &Server, request: Move) -> bool {
        let mut thread = self.thread();
        if thread.as_ref().is_none_or(|thread| thread.handle.is_finished()) {
            let (moves, orders) = channel();
            // It writes keys, too. This is called by a thread that has done so alone, if one has.
            server.watch.share();
            let Some(Ok(handle)) = self.start.get().map(|start| start(orders)) else {
                return false;
            };
            *thread = Some(Thread { moves, handle });
        }
        thread.as_ref().is_some_and(|thread| thread.moves.send(request).is_ok())
    }

    /// Connections that are kept.
    pub(crate) fn sockets(&self) -> usize {
        self.sockets.load(Ordering::Relaxed)
    }

    /// Waits for the thread's end; the server is stopping.
    pub(crate) fn stop(&self) {
        if let Some(Thread { moves, handle }) = self.thread().take() {
            drop(moves);
            // It only says that it has panicked, and that is in the log.
            let _ = handle.join();
        }
    }
}

/// Starts the thread, with a session of the pool.
pub(crate) fn start<S: crate::store::Session + 'static>(
    server: &Arc<Server>,
    session: S,
    keyspace: u64,
    orders: Receiver<Move>,
) -> std::io::Result<JoinHandle<()>> {
    let server = Arc::clone(server);
    let body = move || work::run(&server, session, keyspace, &orders);
    std::thread::Builder::new().name("migrate".to_owned()).spawn(body)
}
