//! CLIENT PAUSE: for a while, clients' commands wait, all of them or those that write; keys neither expire nor are evicted.
//!
//! A connection whose next command has to wait is *held*: nothing more is read from it. When the pause ends, each thread
//! lets its held connections go on ([`Pause::changes`]).
//!
//! Invariant: once CLIENT PAUSE is answered, no client's write is committed before the pause ends. A thread says that it is in
//! a transaction that writes (`Run::write`), and then looks whether there is a pause, in the transaction; CLIENT PAUSE begins
//! the pause, and then waits until no other thread is in a transaction that may have begun before it.

use crate::command::{Command, Queue};
use crate::keyspace::now;
use crate::protocol::Args;
use crate::script::{self, digest_of};
use crate::server::Server;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Which commands wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Paused {
    None,
    Writes,
    All,
}

/// A pause that a client's EXEC is let through: its own, or another one that does not keep it from being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnPause {
    /// How often CLIENT PAUSE was done.
    number: u64,
    /// Whether nobody else has begun one.
    alone: bool,
}

impl OwnPause {
    /// Whether nobody else has begun one.
    pub(crate) fn is_alone(self) -> bool {
        self.alone
    }
}

/// The pause under way, if there is one.
#[derive(Default)]
pub(crate) struct Pause {
    /// As a [`Paused`]: which commands wait, unless the pause has ended since.
    kind: AtomicU8,
    /// Until when, in milliseconds since 1970.
    until: Mutex<u64>,
    /// Pauses that have ended.
    changes: AtomicU64,
    /// How often CLIENT PAUSE was done.
    begun: AtomicU64,
    /// Connections that are held.
    held: AtomicUsize,
}

impl Pause {
    fn until(&self) -> MutexGuard<'_, u64> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which commands wait now.
    #[inline]
    pub(crate) fn now(&self) -> Paused {
        match self.kind.load(Ordering::SeqCst) {
            0 => Paused::None,
            _ => self.look(),
        }
    }

    #[cold]
    fn look(&self) -> Paused {
        let mut until = self.until();
        if *until < now() {
            self.end_at(&mut until);
        }
        match self.kind.load(Ordering::Acquire) {
            0 => Paused::None,
            1 => Paused::Writes,
            _ => Paused::All,
        }
    }

    fn end_at(&self, until: &mut u64) {
        *until = 0;
        if self.kind.swap(0, Ordering::AcqRel) != 0 {
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Begins a pause. Of one that is under way already, the end that is later counts, and what keeps more from being done.
    ///
    /// Returns the pause if the client's EXEC is let through it: there was none, or it is let through the one before, `own`.
    pub(crate) fn begin(&self, kind: Paused, end: u64, own: Option<OwnPause>) -> Option<OwnPause> {
        // One that is over ends first.
        self.now();
        let mut until = self.until();
        let before = self.kind.load(Ordering::Acquire);
        *until = end.max(if before == 0 { 0 } else { *until });
        self.kind.store(before.max(kind as u8), Ordering::SeqCst);
        let last = self.begun.fetch_add(1, Ordering::SeqCst);
        let own = own.filter(|own| own.number == last);
        let alone = before == 0 || own.is_some_and(|own| own.alone);
        (before == 0 || own.is_some()).then_some(OwnPause { number: last + 1, alone })
    }

    /// What a client is let through that has not to wait for the pause under way, if it is asked about after this.
    pub(crate) fn let_through(&self) -> OwnPause {
        OwnPause { number: self.begun.load(Ordering::SeqCst), alone: false }
    }

    /// Whether nobody has begun, or lengthened, a pause since.
    pub(crate) fn is_last(&self, own: OwnPause) -> bool {
        self.begun.load(Ordering::SeqCst) == own.number
    }

    /// Ends the pause, if it is all the client's own.
    pub(crate) fn end_own(&self, own: OwnPause) {
        let mut until = self.until();
        if own.alone && self.is_last(own) {
            self.end_at(&mut until);
        }
    }

    /// Ends it.
    pub(crate) fn end(&self) {
        self.end_at(&mut self.until());
    }

    /// How many pauses have ended so far.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// How long it lasts.
    pub(crate) fn left(&self) -> Duration {
        // Until the moment is over.
        Duration::from_millis(self.until().saturating_sub(now()).saturating_add(1))
    }

    /// One connection more is held.
    pub(crate) fn hold(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    /// One less.
    pub(crate) fn release(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many are.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// Whether a command waits while those wait that write. Whether FCALL does is known once its function is found.
pub(crate) fn writes(server: &Server, command: &Command, args: Args<'_>) -> bool {
    match command.name {
        "publish" | "spublish" | "migrate" => true,
        "fcall" => false,
        "eval" => !script::declares_no_writes(args.at(1)),
        "evalsha" => {
            let known = digest_of(args.at(1)).and_then(|digest| server.scripts.find(&digest));
            !known.is_some_and(|script| script.flags.no_writes)
        }
        _ => command.writes(),
    }
}

/// Whether EXEC of these commands waits then.
pub(crate) fn queue_writes(server: &Server, queue: &Queue) -> bool {
    queue.iter().any(|(command, args)| command.name == "fcall" || writes(server, command, args))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pause_that_is_all_its_own_is_ended_by_an_exec() {
        let pause = Pause::default();
        let others = pause.begin(Paused::Writes, now() + 60_000, None).expect("it is alone");
        let own = pause.begin(Paused::All, now() + 60_000, Some(pause.let_through()));
        let own = own.expect("it is let through");
        assert!(!own.is_alone() && pause.is_last(own));
        pause.end_own(own);
        pause.end_own(others);
        assert_eq!(pause.now(), Paused::All);
        pause.end();
        let own = pause.begin(Paused::All, now() + 60_000, Some(pause.let_through()));
        let again = pause.begin(Paused::All, now() + 60_000, own).expect("it is let through");
        assert!(again.is_alone());
        pause.end_own(again);
        assert_eq!(pause.now(), Paused::None);
    }

    #[test]
    fn a_second_pause_is_added_to_the_first() {
        let pause = Pause::default();
        assert_eq!(pause.now(), Paused::None);
        let own = pause.begin(Paused::Writes, now() + 60_000, None);
        assert!(own.is_some_and(|own| pause.is_last(own)));
        let again = pause.begin(Paused::All, now() + 10, own);
        assert!(again.is_some_and(|again| pause.is_last(again) && !pause.is_last(own.unwrap())));
        assert!(pause.now() == Paused::All && pause.left() > Duration::from_secs(50));
        assert_eq!(pause.begin(Paused::Writes, now() + 20, None), None);
        assert!(again.is_some_and(|again| !pause.is_last(again)));
        assert!(pause.now() == Paused::All && pause.changes() == 0);
        pause.end();
        assert!(pause.now() == Paused::None && pause.changes() == 1);
        pause.end();
        assert_eq!(pause.changes(), 1);
        // What has ended counts no longer.
        pause.begin(Paused::All, now() + 60_000, None);
        pause.end();
        pause.begin(Paused::Writes, now() + 60_000, None);
        assert_eq!(pause.now(), Paused::Writes);
    }

    #[test]
    fn a_pause_ends_by_itself() {
        let pause = Pause::default();
        pause.begin(Paused::All, now() + 5, None);
        assert_eq!(pause.now(), Paused::All);
        std::thread::sleep(pause.left());
        assert!(pause.now() == Paused::None && pause.changes() == 1);
        pause.begin(Paused::All, 0, None);
        assert!(pause.now() == Paused::None);
    }
}
