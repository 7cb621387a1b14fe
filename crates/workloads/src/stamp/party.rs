//! Threads of one program: barriers between its phases, and whether it ran to its end.
//!
//! Invariants: a thread that leaves before the end (it failed, panicked or was to stop) drops its [`Party`],
//! and no other thread waits for it any more. The program did not run to its end then, and only conditions that hold
//! at any time can be checked.

use crate::Session;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Where the threads of a program meet.
#[derive(Debug, Default)]
pub(crate) struct Meeting {
    arrived: AtomicU64,
    round: AtomicU64,
    left_early: AtomicBool,
}

impl Meeting {
    /// One of `threads` threads takes part.
    pub(crate) fn join(&self, threads: usize) -> Party<'_> {
        Party { meeting: self, threads: threads as u64, at_end: false }
    }

    /// Whether a thread has left before the end.
    pub(crate) fn was_left(&self) -> bool {
        self.left_early.load(Ordering::Acquire)
    }
}

/// A thread's part in a program.
pub(crate) struct Party<'m> {
    meeting: &'m Meeting,
    threads: u64,
    at_end: bool,
}

impl Party<'_> {
    /// Waits until all threads are here; false if one of them has left early, and this one should too.
    #[must_use]
    pub(crate) fn wait<S: Session>(&self, session: &S) -> bool {
        let Meeting { arrived, round, .. } = self.meeting;
        let this = round.load(Ordering::Acquire);
        if arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            arrived.store(0, Ordering::Relaxed);
            round.store(this + 1, Ordering::Release);
            return !self.meeting.was_left();
        }
        let mut turn = 0;
        while round.load(Ordering::Acquire) == this {
            if self.meeting.was_left() {
                return false;
            }
            session.pause(turn);
            turn = turn.saturating_add(1);
        }
        true
    }

    /// The thread has done all of its part.
    pub(crate) fn end(mut self) {
        self.at_end = true;
    }
}

impl Drop for Party<'_> {
    fn drop(&mut self) {
        if !self.at_end {
            self.meeting.left_early.store(true, Ordering::Release);
        }
    }
}
