//! Awaited commits: a thread waits for them instead of the tasks.
//!
//! Invariant: every [`Durable`] that was handed out is resolved, at the latest when the pool is closed.

use crate::heap::AnySession;
use perdura_engine::{Error, Result, Ticket};
use perdura_memory::{Mapped, Memory as _};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};

/// Resolves when a commit, and all before it, are durable: see [`Pool::durable`](crate::Pool::durable).
#[must_use = "a future does nothing unless it is awaited"]
pub struct Durable(Arc<Promise>);

impl Durable {
    pub(super) fn failed(error: Error) -> Self {
        let promise = Promise::new(Ticket(0));
        promise.resolve(Err(error));
        Durable(promise)
    }
}

impl Future for Durable {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let mut outcome = lock(&self.0.outcome);
        match std::mem::replace(&mut *outcome, CommitOutcome::Taken) {
            CommitOutcome::Known(result) => Poll::Ready(result),
            CommitOutcome::Taken => panic!("a future was polled after it had resolved"),
            CommitOutcome::Open(_) => {
                *outcome = CommitOutcome::Open(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl fmt::Debug for Durable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durable").field("ticket", &self.0.ticket).finish_non_exhaustive()
    }
}

/// The state of an awaited commit.
enum CommitOutcome {
    /// Still waiting; the task to wake.
    Open(Option<Waker>),
    Known(Result<()>),
    /// The future has returned the result.
    Taken,
}

struct Promise {
    ticket: Ticket,
    outcome: Mutex<CommitOutcome>,
}

impl Promise {
    fn new(ticket: Ticket) -> Arc<Self> {
        Arc::new(Promise { ticket, outcome: Mutex::new(CommitOutcome::Open(None)) })
    }

    fn resolve(&self, result: Result<()>) {
        let before = std::mem::replace(&mut *lock(&self.outcome), CommitOutcome::Known(result));
        if let CommitOutcome::Open(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// The tickets to wait for, in the order of the requests.
#[derive(Default)]
struct WaitRequests {
    promises: Vec<Arc<Promise>>,
    stop: bool,
}

#[derive(Default)]
struct WaitQueue {
    asked: Mutex<WaitRequests>,
    changed: Condvar,
}

/// The thread; it has ended when this is dropped.
pub(super) struct Waiter {
    queue: Arc<WaitQueue>,
    memory: Arc<Mapped>,
    thread: Option<JoinHandle<()>>,
}

impl Waiter {
    /// Starts it, with a session of its own.
    pub(super) fn start(mut session: AnySession, memory: Arc<Mapped>) -> Result<Self> {
        let queue = Arc::new(WaitQueue::default());
        let own = queue.clone();
        let wait = move || {
            while let Some(promises) = own.next() {
                for promise in promises {
                    promise.resolve(session.wait(promise.ticket));
                }
            }
        };
        let thread = thread::Builder::new().name("perdura-wait".to_owned()).spawn(wait);
        let thread = thread.map_err(|error| {
            Error::Aborted(format!("no thread can be started to wait for commits: {error}"))
        })?;
        Ok(Waiter { queue, memory, thread: Some(thread) })
    }

    /// A future for the commit with this ticket.
    pub(super) fn durable(&self, ticket: Ticket) -> Durable {
        if self.memory.is_forked() {
            return Durable::failed(Error::Forked);
        }
        let promise = Promise::new(ticket);
        lock(&self.queue.asked).promises.push(promise.clone());
        self.queue.changed.notify_one();
        Durable(promise)
    }
}

impl WaitQueue {
    /// The next ticket to wait for; `None` at the end.
    fn next(&self) -> Option<Vec<Arc<Promise>>> {
        let mut asked = lock(&self.asked);
        while asked.promises.is_empty() {
            if asked.stop {
                return None;
            }
            asked = self.changed.wait(asked).unwrap_or_else(PoisonError::into_inner);
        }
        Some(std::mem::take(&mut asked.promises))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.memory.is_forked() {
            // The thread runs in the parent.
            return std::mem::forget(self.thread.take());
        }
        lock(&self.queue.asked).stop = true;
        self.queue.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// No operation under these locks can leave their data inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
