//! The consistent cut: the sections that recovery will never undo.
//!
//! A section enters the cut when its last record is durable and every section that it follows is in the cut, or enters
//! with it: with locks passed from hand to hand two sections may follow each other. Whoever needs the cut to advance
//! does so: a session that waits, one that needs log space, or the background flusher. It writes back the last records of
//! the sections that may enter, and fences once for all of them.
//!
//! Numbers come from one counter: a section's own, when it writes its first record, and its ticket, at which it counts as
//! committed. A transaction has one number for both. The mutex is held during no access to the memory.

use crate::planted::{self, Bug};
use crate::{Counters, Error, Result};
use perdura_memory::{LINE, Memory, Object, Traced, WORD};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A section that is complete, and not in the cut yet.
struct Complete {
    ticket: u64,
    /// The sections that it follows.
    follows: Vec<u64>,
    /// Its last record.
    end: Range<u64>,
}

struct CutState {
    /// The last number given out.
    last: u64,
    /// Sections with records that are not complete, and whose they are.
    running: BTreeMap<u64, u64>,
    complete: BTreeMap<u64, Complete>,
    /// Tickets of transactions that have begun to commit, and of sections that are complete, outside the cut.
    open: BTreeSet<u64>,
}

/// What the cut has, after it has advanced.
pub(crate) struct Advanced {
    /// All tickets up to this one are of sections in the cut.
    pub(crate) ticket: u64,
}

/// The cut.
pub(crate) struct Cut {
    state: Mutex<CutState>,
    /// All sections up to this number are in the cut.
    bound: AtomicU64,
    own: Object,
}

impl Cut {
    pub(super) fn new<M: Memory>(memory: &M, last: u64) -> Self {
        let state = CutState {
            last,
            running: BTreeMap::new(),
            complete: BTreeMap::new(),
            open: BTreeSet::new(),
        };
        Cut { state: Mutex::new(state), bound: AtomicU64::new(last), own: memory.object(2 * LINE) }
    }

    fn state<M: Memory>(&self, memory: &M) -> MutexGuard<'_, CutState> {
        Traced::new(memory, self.own).exchange(LINE, WORD);
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number up to which all sections are in the cut: their records are dead.
    #[inline]
    pub(crate) fn bound<M: Memory>(&self, memory: &M) -> u64 {
        Traced::new(memory, self.own).read(0, WORD);
        self.bound.load(Ordering::Acquire)
    }

    /// A number for a section of `session` that is about to write its first record, and with `is_ticket` its ticket too; `None` when
    /// they run out at `limit`.
    pub(crate) fn begin<M: Memory>(
        &self,
        memory: &M,
        session: u64,
        is_ticket: bool,
        limit: u64,
    ) -> Option<u64> {
        let mut state = self.state(memory);
        let number = next(&mut state, limit)?;
        state.running.insert(number, session);
        if is_ticket {
            state.open.insert(number);
        }
        Some(number)
    }

    /// A ticket for a transaction without records, which is durable.
    pub(crate) fn ticket<M: Memory>(&self, memory: &M, limit: u64) -> Option<u64> {
        next(&mut self.state(memory), limit)
    }

    /// A section has stored its last record, at `end`. Its data, and what it follows, are durable. Returns its ticket.
    pub(crate) fn complete<M: Memory>(
        &self,
        memory: &M,
        number: u64,
        is_ticket: bool,
        follows: Vec<u64>,
        end: Range<u64>,
    ) -> u64 {
        let mut state = self.state(memory);
        state.running.remove(&number);
        let ticket = if is_ticket { number } else { next(&mut state, u64::MAX).unwrap_or(number) };
        state.open.insert(ticket);
        state.complete.insert(number, Complete { ticket, follows, end });
        ticket
    }

    /// A section that has no record, and has stored nothing, does without its number.
    pub(crate) fn give_up<M: Memory>(&self, memory: &M, number: u64) {
        let mut state = self.state(memory);
        state.running.remove(&number);
        state.open.remove(&number);
    }

    /// The first section that has records and is not complete, and whose it is.
    pub(crate) fn first_running<M: Memory>(&self, memory: &M) -> Option<(u64, u64)> {
        let state = self.state(memory);
        state.running.first_key_value().map(|(number, session)| (*number, *session))
    }

    /// Whether a section with this ticket is outside the cut.
    pub(crate) fn is_open<M: Memory>(&self, memory: &M, ticket: u64) -> bool {
        self.state(memory).open.contains(&ticket)
    }

    /// The ticket up to which all are of sections in the cut.
    pub(crate) fn ticket_bound<M: Memory>(&self, memory: &M) -> u64 {
        ticket_bound(&self.state(memory))
    }

    /// Whether the section with this ticket is in the cut.
    pub(crate) fn has<M: Memory>(&self, memory: &M, ticket: u64) -> bool {
        let state = self.state(memory);
        ticket <= state.last && !state.open.contains(&ticket)
    }

    /// Advances the cut as far as complete sections allow. `None` if none of them may enter.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    pub(crate) fn advance<M: Memory>(
        &self,
        memory: &M,
        counters: &mut Counters,
    ) -> Result<Option<Advanced>> {
        let entering = closed(&self.state(memory));
        if entering.is_empty() {
            return Ok(None);
        }
        self.write_back(memory, &entering, counters);
        memory.fence();
        counters.fences += 1;
        memory.check_fence().map_err(Error::from)?;
        Ok(Some(self.enter(memory, &entering)))
    }

    /// Asks for the last records of these sections to become durable. Their own sessions have not: the fence would have
    /// to be theirs too.
    #[track_caller]
    fn write_back<M: Memory>(
        &self,
        memory: &M,
        entering: &[(u64, Range<u64>)],
        counters: &mut Counters,
    ) {
        let counted = memory.domain().needs_write_back();
        for (_, end) in entering {
            let len = end.end - end.start;
            memory.write_back(end.start, len);
            counters.write_backs_log += if counted { len / LINE } else { 0 };
        }
    }

    /// These sections are in the cut.
    fn enter<M: Memory>(&self, memory: &M, entering: &[(u64, Range<u64>)]) -> Advanced {
        let mut state = self.state(memory);
        for (number, _) in entering {
            // Another thread may have had the same ones enter.
            if let Some(section) = state.complete.remove(number) {
                state.open.remove(&section.ticket);
            }
        }
        let ticket = ticket_bound(&state);
        let outside = [state.running.keys().next(), state.complete.keys().next()];
        let first = outside.into_iter().flatten().min();
        let mut bound = first.map_or(state.last, |first| first - 1);
        if planted::has(Bug::LogDroppedEarly) {
            bound = state.last;
        }
        self.bound.fetch_max(bound, Ordering::AcqRel);
        drop(state);
        Traced::new(memory, self.own).wrote(0, WORD);
        Advanced { ticket }
    }
}

/// The ticket up to which all are of sections in the cut.
fn ticket_bound(state: &CutState) -> u64 {
    state.open.first().map_or(state.last, |open| open - 1)
}

/// The next number.
fn next(state: &mut CutState, limit: u64) -> Option<u64> {
    let number = state.last.checked_add(1).filter(|number| *number <= limit)?;
    state.last = number;
    Some(number)
}

/// The complete sections that follow only sections in the cut and one another: the largest such set, with the places of
/// their last records.
fn closed(state: &CutState) -> Vec<(u64, Range<u64>)> {
    let mut out = BTreeSet::new();
    loop {
        let is_held = |section: &Complete| {
            let is_outside =
                |number: &u64| state.running.contains_key(number) || out.contains(number);
            section.follows.iter().any(is_outside) && !planted::has(Bug::FollowedOverlooked)
        };
        let more: Vec<u64> = state
            .complete
            .iter()
            .filter(|(number, section)| !out.contains(*number) && is_held(section))
            .map(|(number, _)| *number)
            .collect();
        if more.is_empty() {
            break;
        }
        out.extend(more);
    }
    let inside = state.complete.iter().filter(|(number, _)| !out.contains(*number));
    inside.map(|(number, section)| (*number, section.end.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::Ram;

    struct Rig {
        ram: Ram,
        cut: Cut,
    }

    impl Rig {
        fn new() -> Self {
            let ram = Ram::new(4096);
            let cut = Cut::new(&ram, 100);
            Rig { ram, cut }
        }

        fn begin(&self) -> u64 {
            self.cut.begin(&self.ram, 0, false, u64::MAX).expect("numbers are left")
        }

        fn complete(&self, number: u64, follows: &[u64]) -> u64 {
            self.cut.complete(&self.ram, number, false, follows.to_vec(), 0..64)
        }

        /// Advances; the ticket up to which all are in the cut.
        fn advance(&self) -> Option<u64> {
            let advanced = self.cut.advance(&self.ram, &mut Counters::default());
            advanced.expect("ordinary memory").map(|advanced| advanced.ticket)
        }

        fn has(&self, ticket: u64) -> bool {
            self.cut.has(&self.ram, ticket)
        }
    }

    #[test]
    fn a_follower_waits_for_what_it_follows() {
        let rig = Rig::new();
        let (first, second, third) = (rig.begin(), rig.begin(), rig.begin());
        assert_eq!((first, second, third), (101, 102, 103));
        let follower = rig.complete(second, &[first]);
        let other = rig.complete(third, &[]);
        assert_eq!(rig.advance(), Some(follower - 1), "only the one that follows nothing");
        assert!(rig.has(other) && !rig.has(follower));
        assert_eq!(rig.cut.bound(&rig.ram), 100);
        assert_eq!(rig.advance(), None);
        let last = rig.complete(first, &[]);
        assert_eq!(rig.advance(), Some(last));
        assert!(rig.has(follower) && rig.has(last));
        assert!(!rig.has(last + 1), "it was not given out yet");
        assert_eq!(rig.cut.bound(&rig.ram), last);
    }

    #[test]
    fn two_that_follow_each_other_enter_together() {
        let rig = Rig::new();
        let (one, other) = (rig.begin(), rig.begin());
        rig.complete(one, &[other]);
        assert_eq!(rig.advance(), None);
        let last = rig.complete(other, &[one]);
        assert_eq!(rig.advance(), Some(last));
    }

    #[test]
    fn a_chain_is_held_by_its_first() {
        let rig = Rig::new();
        let numbers: Vec<u64> = (0..10).map(|_| rig.begin()).collect();
        for pair in numbers.windows(2) {
            rig.complete(pair[1], &[pair[0]]);
        }
        assert_eq!(rig.advance(), None);
        rig.complete(numbers[0], &[]);
        assert!(rig.advance().is_some());
        assert!(rig.cut.bound(&rig.ram) >= 110);
    }

    /// A transaction's ticket is given out when it begins to commit, and held until it is in the cut.
    #[test]
    fn tickets_of_transactions_that_commit_are_open() {
        let rig = Rig::new();
        let committing = rig.cut.begin(&rig.ram, 0, true, u64::MAX).expect("numbers are left");
        let section = rig.begin();
        let ticket = rig.complete(section, &[]);
        assert_eq!(rig.advance(), Some(committing - 1));
        assert!(rig.has(ticket) && !rig.has(committing));
        assert_eq!(rig.cut.complete(&rig.ram, committing, true, Vec::new(), 0..64), committing);
        assert_eq!(rig.advance(), Some(ticket));
    }

    #[test]
    fn numbers_end_at_the_limit() {
        let rig = Rig::new();
        assert_eq!(rig.cut.begin(&rig.ram, 0, false, 101), Some(101));
        assert_eq!(rig.cut.begin(&rig.ram, 0, false, 101), None);
        assert_eq!(rig.cut.ticket(&rig.ram, 101), None);
    }
}
