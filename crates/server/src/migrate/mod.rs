//! MIGRATE: keys go to another server, by commands that any Redis understands.
//!
//! One thread of its own does this, one request after the other: it waits on sockets, and no other client waits for it. A key
//! is read in a transaction, sent, and deleted here in another one once the target has confirmed that it has it. Between
//! the two it may be written: that is noticed as WATCH notices it, and then the key is not deleted, but sent again.
//!
//! If the thread panics, the clients of its orders get an error ([`Orders`]), and the next order starts another one.
//!
//! Invariants: no lock of writers is held while the thread waits for a target. A key that the target has confirmed, and that
//! was not written since it was read, is deleted before the client is answered, and durably.

mod channel;
mod request;
mod target;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use request::Move;

use crate::command::Failure;
use crate::protocol::{Protocol, Reply};
use crate::server::Server;
use crate::waiting::{Address, Delivery};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A function that starts the thread.
type Start = dyn Fn(Receiver<Move>) -> std::io::Result<JoinHandle<()>> + Send + Sync;

/// The thread that moves keys, which the first request starts.
#[derive(Default)]
pub(crate) struct Migration {
    start: OnceLock<Box<Start>>,
    thread: Mutex<Option<Thread>>,
    /// Whether targets are spoken to by TLS.
    by_tls: AtomicBool,
    /// Connections to targets that are kept for a while.
    sockets: AtomicUsize,
    /// Bytes of memory of orders that are not done yet.
    bytes: AtomicUsize,
}

struct Thread {
    moves: Sender<Move>,
    handle: JoinHandle<()>,
}

impl Migration {
    /// By TLS, or not.
    pub(crate) fn new(by_tls: bool) -> Self {
        Migration { by_tls: AtomicBool::new(by_tls), ..Migration::default() }
    }

    fn thread(&self) -> MutexGuard<'_, Option<Thread>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how the thread is started.
    pub(crate) fn open(&self, start: Box<Start>) {
        // The only one that says so.
        let _ = self.start.set(start);
    }

    /// Whether targets are spoken to by TLS.
    pub(crate) fn speaks_tls(&self) -> bool {
        self.by_tls.load(Ordering::Relaxed)
    }

    pub(crate) fn set_speaks_tls(&self, on: bool) {
        self.by_tls.store(on, Ordering::Relaxed);
    }

    /// Has keys moved.
    ///
    /// # Errors
    /// If there are too many orders before it, or no thread that would do it.
    pub(crate) fn order(&self, server: &Server, request: Move) -> Result<(), Failure> {
        let mut thread = self.thread();
        let (bytes, before) = (request.bytes(), self.bytes.load(Ordering::Relaxed));
        let most = server.options.max_request;
        if before > 0 && before + bytes > most {
            return Err(Failure::say(format!(
                "ERR the requests that wait to be moved take more than {most} bytes, see --max-request"
            )));
        }
        let none = || Failure::Say("ERR no thread could be started that moves keys".into());
        if thread.as_ref().is_none_or(|thread| thread.handle.is_finished()) {
            let (moves, orders) = channel();
            // It writes keys, too. This is called by a thread that has done so alone, if one has.
            server.watch.share();
            let Some(Ok(handle)) = self.start.get().map(|start| start(orders)) else {
                return Err(none());
            };
            *thread = Some(Thread { moves, handle });
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let sent = thread.as_ref().is_some_and(|thread| thread.moves.send(request).is_ok());
        if !sent {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(none());
        }
        Ok(())
    }

    /// Connections that are kept.
    pub(crate) fn sockets(&self) -> usize {
        self.sockets.load(Ordering::Relaxed)
    }

    /// Waits for the thread's end; the server is stopping.
    pub(crate) fn stop(&self) {
        // Not while it is locked: a thread that panics locks it.
        let thread = self.thread().take();
        if let Some(Thread { moves, handle }) = thread {
            drop(moves);
            // It only says that it has panicked, and that is in the log.
            let _ = handle.join();
        }
    }
}

/// The thread's orders. Their clients are told if it panics.
struct Orders<'a> {
    server: &'a Server,
    moves: Receiver<Move>,
    /// The client of the order under way, and its bytes.
    current: Option<(Address, Protocol, usize)>,
}

impl<'a> Orders<'a> {
    fn new(server: &'a Server, moves: Receiver<Move>) -> Self {
        Orders { server, moves, current: None }
    }

    /// The next one, which comes within that time.
    fn next(&mut self, timeout: Duration) -> Result<Move, RecvTimeoutError> {
        let request = self.moves.recv_timeout(timeout)?;
        self.current = Some((request.to, request.protocol, request.bytes()));
        Ok(request)
    }

    /// It is done: its client gets this reply, if there is one.
    fn end(&mut self, reply: Option<Vec<u8>>) {
        let Some((to, _, bytes)) = self.current.take() else { return };
        self.server.migration.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let (Some(reply), Some(deliver)) = (reply, self.server.deliver.get()) {
            deliver(Delivery { to, reply });
        }
    }

    fn fail(&mut self) {
        let Some((_, protocol, _)) = self.current else { return };
        let mut reply = Vec::new();
        Reply::new(&mut reply, protocol)
            .error("ERR the thread that moves keys has failed, see the server's log");
        self.end(Some(reply));
    }
}

impl Drop for Orders<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        // From now on none is sent to this thread.
        drop(self.server.migration.thread().take());
        self.fail();
        while self.next(Duration::ZERO).is_ok() {
            self.fail();
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
    let body = move || work::run(&server, session, keyspace, Orders::new(&server, orders));
    std::thread::Builder::new().name("migrate".to_owned()).spawn(body)
}
