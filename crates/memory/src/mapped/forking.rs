//! Forks of the process, for tests.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A forked child of this process.
pub struct Child(libc::pid_t);

impl Child {
    /// Forks, and runs `body` in the child, which ends with its result as the exit status; 101 after a panic.
    ///
    /// # Errors
    /// When there can be no child.
    pub fn run(body: impl FnOnce() -> u8) -> io::Result<Child> {
        // SAFETY: the child has this thread alone. It runs the body, whose locks the caller answers for (the C library
        // keeps its own usable), and ends without running anything else of the process.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                let status = catch_unwind(AssertUnwindSafe(body)).unwrap_or(101);
                // SAFETY: no condition; runs no code of this process.
                unsafe { libc::_exit(i32::from(status)) }
            }
            pid => Ok(Child(pid)),
        }
    }

    /// Kills it.
    pub fn kill(&self) {
        // SAFETY: no condition; the child has not been waited for, so that the number is its.
        let _ = unsafe { libc::kill(self.0, libc::SIGKILL) };
    }

    /// Waits for its end: its exit status, or `None` after a signal.
    pub fn wait(self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: writes the status; the child is this process's.
        let ended = unsafe { libc::waitpid(self.0, &mut status, 0) };
        (ended == self.0 && libc::WIFEXITED(status)).then(|| libc::WEXITSTATUS(status))
    }
}
