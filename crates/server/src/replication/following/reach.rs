//! Connecting to a master on a thread of its own: the system may take long to find a name's addresses, or to give up one of
//! them, and cannot be told that the result is not wanted any longer.

use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

const CONNECT: Duration = Duration::from_secs(5);
/// How soon an end is noticed.
const TICK: Duration = Duration::from_millis(20);
/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 8;
/// Threads whose result is not wanted any longer.
const THREADS_MAX: usize = 8;

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// A thread that counts until it ends.
struct Counted(());

impl Counted {
    fn new() -> io::Result<Self> {
        let more = |count| (count < THREADS_MAX).then_some(count + 1);
        match THREADS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Counted(())),
            Err(_) => Err(io::Error::other("too many masters' names are still looked up")),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Performs something that may take long, elsewhere. Returns `None` if it is not `wanted` any longer: then it goes on, and its
/// result is dropped.
pub(super) fn elsewhere<T: Send + 'static>(
    wanted: &dyn Fn() -> bool,
    task: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Option<io::Result<T>> {
    let (tells, hears) = sync_channel(1);
    let counted = match Counted::new() {
        Ok(counted) => counted,
        Err(error) => return Some(Err(error)),
    };
    let body = move || {
        let _counted = counted;
        // Nobody may want it any longer.
        let _ = tells.send(task());
    };
    if let Err(error) = thread::Builder::new().name("reaching".to_owned()).spawn(body) {
        return Some(Err(error));
    }
    loop {
        match hears.recv_timeout(TICK) {
            Ok(done) => return Some(done),
            Err(RecvTimeoutError::Disconnected) => {
                return Some(Err(io::Error::other("the thread that connects has failed")));
            }
            Err(RecvTimeoutError::Timeout) if !wanted() => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// A connection to the first of a name's addresses that answers.
pub(super) fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()?.take(ADDRESSES_MAX) {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(connected) => return Ok(connected),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, Barrier};
    use std::time::Instant;

    #[test]
    fn nobody_waits_for_what_is_not_wanted() {
        assert_eq!(elsewhere(&|| true, || Ok(7)).unwrap().unwrap(), 7);
        let (start, wanted) = (Instant::now(), Arc::new(AtomicBool::new(true)));
        let ends = Arc::new(Barrier::new(THREADS_MAX + 1));
        for _ in 0..THREADS_MAX {
            let (late, ends) = (Arc::clone(&wanted), Arc::clone(&ends));
            wanted.store(true, Ordering::Release);
            let gives_up = Arc::clone(&wanted);
            let done = elsewhere(&move || !gives_up.swap(false, Ordering::AcqRel), move || {
                ends.wait();
                drop(late);
                Ok(())
            });
            assert!(done.is_none());
        }
        assert!(start.elapsed() < Duration::from_secs(5));
        // They are not more and more.
        let refused = elsewhere(&|| true, || Ok(())).unwrap().unwrap_err();
        assert!(refused.to_string().contains("too many"));
        ends.wait();
        let start = Instant::now();
        while elsewhere(&|| true, || Ok(())).is_none_or(|done| done.is_err()) {
            assert!(start.elapsed() < Duration::from_secs(20), "they do not end");
        }
    }
}
