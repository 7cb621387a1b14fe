//! How far each thread is, and what all of them have swept.
//!
//! Each thread goes round over its own vertices. An *epoch* ends when each thread has swept all its vertices, in sweeps
//! that began in this epoch: so every vertex was updated in it, from edges not older than its begin. If nothing has
//! changed in an epoch, nothing will.

use super::edges::MOST_VERTICES;

/// The epoch of a sweep that is not whole.
const NEVER: u64 = u64::MAX;

/// The state of all threads' sweeps.
#[derive(Debug, Default)]
pub(super) struct Sweeps {
    threads: Vec<Sweep>,
    has_others: bool,
    epochs: u64,
    /// Changes that were counted when the epoch began.
    changes_before: u64,
    /// Changes that were counted at the end of the first epoch without any.
    quiet: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sweep {
    /// Where the thread goes on.
    next: u32,
    /// The epoch in which its sweep began.
    began: u64,
    /// Whether it has swept all of its vertices in this epoch.
    is_done: bool,
}

impl Sweeps {
    /// Thread `thread` of `threads` begins or goes on; `first` is the first of its vertices. Returns where it goes on:
    /// with another number of threads each begins anew.
    pub(super) fn join(&mut self, thread: usize, threads: usize, first: u32) -> u32 {
        if self.threads.len() != threads {
            // A thread may find a vertex with pending edges, which it does not update: its first sweep does not count.
            self.has_others = !self.threads.is_empty();
            let began = if self.has_others { NEVER } else { self.epochs };
            let none = Sweep { next: MOST_VERTICES as u32, began, is_done: false };
            self.threads = vec![none; threads];
        }
        let next = &mut self.threads[thread].next;
        if u64::from(*next) == MOST_VERTICES {
            *next = first;
        }
        *next
    }

    /// A thread ends, to go on there.
    pub(super) fn leave(&mut self, thread: usize, next: u32) {
        self.threads[thread].next = next;
    }

    /// A thread has updated the last of its vertices; all threads together have counted so many changes, its own
    /// included.
    pub(super) fn swept(&mut self, thread: usize, changes: u64) {
        let epoch = self.epochs;
        self.threads[thread].is_done |= self.threads[thread].began == epoch;
        if self.threads.iter().all(|own| own.is_done) {
            if changes == self.changes_before {
                self.quiet.get_or_insert(changes);
            }
            self.epochs += 1;
            self.changes_before = changes;
            self.threads.iter_mut().for_each(|own| own.is_done = false);
        }
        self.threads[thread].began = self.epochs;
    }

    /// Epochs that have ended.
    pub(super) fn epochs(&self) -> u64 {
        self.epochs
    }

    /// Changes that were counted when it was known that there will be no others; `None` if it is not known.
    pub(super) fn quiet(&self) -> Option<u64> {
        self.quiet
    }

    /// Whether one thread did everything, so that the order of all updates is known.
    pub(super) fn is_in_order(&self) -> bool {
        self.threads.len() <= 1 && !self.has_others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sweep counts for an epoch only if it began in it.
    #[test]
    fn epochs_have_whole_sweeps_of_each_thread() {
        let mut sweeps = Sweeps::default();
        assert_eq!((sweeps.join(0, 2, 0), sweeps.join(1, 2, 50)), (0, 50));
        sweeps.swept(0, 5);
        sweeps.swept(0, 5);
        assert_eq!(sweeps.epochs(), 0, "the other one has not swept");
        sweeps.swept(1, 9);
        assert_eq!((sweeps.epochs(), sweeps.quiet()), (1, None));
        // The first thread's sweep began before.
        sweeps.swept(0, 9);
        sweeps.swept(1, 9);
        assert_eq!(sweeps.epochs(), 1);
        sweeps.swept(0, 9);
        assert_eq!((sweeps.epochs(), sweeps.quiet()), (2, Some(9)));
        sweeps.leave(1, 70);
        assert_eq!((sweeps.join(0, 2, 0), sweeps.join(1, 2, 50)), (0, 70));
        assert_eq!(sweeps.join(0, 1, 0), 0);
        assert!(!sweeps.is_in_order());
    }

    #[test]
    fn one_thread_is_in_order() {
        let mut sweeps = Sweeps::default();
        for changes in [3, 3] {
            assert_eq!(sweeps.join(0, 1, 0), 0);
            sweeps.swept(0, changes);
        }
        assert!(sweeps.is_in_order());
        assert_eq!((sweeps.epochs(), sweeps.quiet()), (2, Some(3)));
    }
}
