//! Reads from a pipe or a terminal that end when the caller asks, even if no data ever arrives.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, Read};
use std::os::fd::AsFd;

/// How soon a wish to end is noticed, in nanoseconds.
const TICK: i64 = 100_000_000;

/// A reader that gives up once it is not to go on, also while it waits for something to read.
pub struct Interruptible<R, F> {
    from: R,
    goes_on: F,
}

impl<R: Read + AsFd, F: FnMut() -> bool> Interruptible<R, F> {
    /// Reads from `from`, which has no buffer of its own, while `goes_on` says so.
    pub fn new(from: R, goes_on: F) -> Self {
        Interruptible { from, goes_on }
    }
}

impl<R: Read + AsFd, F: FnMut() -> bool> Read for Interruptible<R, F> {
    /// # Errors
    /// `Other` once it is not to go on: not all was read then. The system's errors.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if !(self.goes_on)() {
                return Err(io::Error::other("ended before all was read"));
            }
            let mut waits = [PollFd::new(&self.from, PollFlags::IN)];
            match poll(&mut waits, Some(&Timespec { tv_sec: 0, tv_nsec: TICK })) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return self.from.read(into),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_silent_pipe_is_left() {
        let (from, mut to) = io::pipe().unwrap();
        let stops = AtomicBool::new(false);
        let mut reader = Interruptible::new(from, || !stops.load(Ordering::Relaxed));
        to.write_all(b"text").unwrap();
        let mut bytes = [0; 8];
        assert_eq!(reader.read(&mut bytes).unwrap(), 4);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(50));
                stops.store(true, Ordering::Relaxed);
            });
            assert!(reader.read(&mut bytes).is_err());
        });
        stops.store(false, Ordering::Relaxed);
        drop(to);
        // The end of the pipe is still noticed.
        let mut reader = Interruptible::new(reader.from, || true);
        assert_eq!(reader.read(&mut bytes).unwrap(), 0);
    }
}
