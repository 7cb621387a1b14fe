//! A thread that makes transactions durable while the host's thread performs a script for long.
//!
//! The host sends the replies of a turn at its end, before which the module waits. The exception: a script that has run
//! for `busy-reply-threshold` milliseconds; then the host goes on with other clients, and sends them their replies. So,
//! while a script runs, this thread has what was done before it made durable long before that.

use perdura::{Error, Pool, Ticket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often the thread looks.
const TICK: Duration = Duration::from_millis(200);
/// A script that has run for so long is a long one.
const LONG: Duration = Duration::from_millis(100);
/// With a smaller threshold, all is made durable before each script.
pub(crate) const THRESHOLD_MIN: Duration = Duration::from_secs(2);

/// A script that runs: since when, and the last transaction before it.
type Running = Option<(Instant, Ticket)>;

/// The host's side of it.
#[derive(Clone, Default)]
pub(crate) struct Watch(Arc<Mutex<Running>>);

impl Watch {
    /// Starts the thread.
    pub(crate) fn start(pool: &Pool) -> Result<Self, Error> {
        let watch = Watch::default();
        let mut handle = pool.session()?;
        let shared = watch.clone();
        let looks = move || {
            loop {
                thread::sleep(TICK);
                // It ends with the host's side.
                if Arc::strong_count(&shared.0) == 1 {
                    return;
                }
                let running = *shared.running();
                if let Some((since, ticket)) = running
                    && since.elapsed() >= LONG
                {
                    // The host's thread waits for the same, and tells of a failure.
                    let _ = handle.wait(ticket);
                }
            }
        };
        thread::Builder::new().name("watch".to_owned()).spawn(looks)?;
        Ok(watch)
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A script begins, after this transaction.
    pub(crate) fn begin(&self, last: Ticket) {
        *self.running() = Some((Instant::now(), last));
    }

    /// All is durable.
    pub(crate) fn end(&self) {
        *self.running() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura::{Options, TxExt, collections::Cell};

    #[test]
    fn what_was_done_before_a_long_script_becomes_durable() {
        let folder = tempfile::tempdir().unwrap();
        let pool = Options::new().size(16 << 20).create(folder.path().join("a.pool")).unwrap();
        let watch = Watch::start(&pool).unwrap();
        let mut handle = pool.session().unwrap();
        let mut submit = || {
            let done = handle.submit(|tx| tx.open_or_create::<Cell<u64>>("a")?.set(tx, 1));
            done.unwrap().1
        };
        let (before, ticket) = (submit(), submit());
        watch.begin(ticket);
        let began = Instant::now();
        while !handle.is_durable(ticket) {
            assert!(began.elapsed() < THRESHOLD_MIN, "not within the least threshold");
            thread::sleep(Duration::from_millis(10));
        }
        assert!(handle.is_durable(before));
        watch.end();
    }
}
