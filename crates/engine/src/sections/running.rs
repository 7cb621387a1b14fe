//! A session's section: its number, what it follows, its locks, and what it has overwritten.

use super::Sections;
use super::locks::{Release, SectionLock};
use super::log::SectionLog;
use crate::Mark;
use crate::planted::{self, Bug};
use crate::writes::{LineWrite, WriteSet};
use perdura_memory::{LINE, Memory, Object, Touch};
use std::sync::Arc;

/// A session's section, and what the next one inherits.
pub struct Running {
    own: Object,
    /// The session's number, among those that wait.
    pub(crate) session: u64,
    /// Later than everything that the session has logged or followed.
    pub(crate) clock: u64,
    /// The session's last section with records.
    previous: u64,
    /// The last release of the lock of transactions that the session has read after.
    seen: Release,
    /// The section's number, once it has a record; 0 before.
    pub(crate) number: u64,
    /// Its records so far.
    pub(crate) parts: u16,
    /// The sections that it follows; of these, the ones that are in none of its records yet are at the end.
    follows: Vec<u64>,
    logged_follows: usize,
    pub(crate) log: SectionLog,
    /// The words that it has stored to, with their values before.
    pub(crate) logged: WriteSet,
    /// Offsets and old values of all stores in place, oldest first.
    pub(crate) undo: Vec<(u64, u64)>,
    /// Savepoints: the lengths of `undo`, and the marks of the buffered words.
    pub(crate) marks: Vec<(usize, Mark)>,
    /// The locks that it holds, in the order in which it took them.
    pub(crate) held: Vec<Arc<SectionLock>>,
    /// It has released a lock, so that others may follow it.
    pub(crate) is_named: bool,
    /// Of its stores, those that were made before it released a lock: others may have seen them.
    pub(crate) seen_by_others: usize,
    /// A part was to be undone that others may have seen.
    pub(crate) is_spoilt: bool,
}

impl Running {
    pub(crate) fn new<M: Memory>(memory: &M, session: u64, segment_bytes: u64) -> Self {
        Running {
            own: memory.object(LINE),
            session,
            clock: 0,
            previous: 0,
            seen: Release::default(),
            number: 0,
            parts: 0,
            follows: Vec::new(),
            logged_follows: 0,
            log: SectionLog::new(memory, segment_bytes),
            logged: WriteSet::new(memory),
            undo: Vec::new(),
            marks: Vec::new(),
            held: Vec::new(),
            is_named: false,
            seen_by_others: 0,
            is_spoilt: false,
        }
    }

    /// A section begins: it follows the session's one before.
    pub(crate) fn begin<M: Memory>(&mut self, memory: &M, sections: &Sections) {
        memory.touch(self.own, 0, LINE, Touch::Write);
        let bound = sections.cut.bound(memory);
        self.follows.retain(|section| *section > bound);
        let previous = Release { section: self.previous, clock: self.clock };
        self.follow(memory, sections, previous);
        self.follow(memory, sections, self.seen);
    }

    /// The session's next section is later than this release of the lock of transactions: one of them has read what it
    /// guards.
    pub(crate) fn see(&mut self, last: Release) {
        self.seen = last;
    }

    /// What it does from here on is later than this release of a lock that it has taken, or whose data it has read.
    /// Returns whether that makes it follow one more section.
    pub(crate) fn follow<M: Memory>(
        &mut self,
        memory: &M,
        sections: &Sections,
        last: Release,
    ) -> bool {
        self.clock = self.clock.max(last.clock);
        let is_new = last.section > sections.cut.bound(memory)
            && last.section != self.number
            && !self.follows.contains(&last.section);
        let is_new = is_new && !planted::has(Bug::FollowedUnrecorded);
        if is_new {
            self.follows.push(last.section);
        }
        is_new
    }

    /// How many of the sections that it follows are in no record yet.
    pub(crate) fn unlogged(&self) -> usize {
        self.follows.len() - self.logged_follows
    }

    /// It does not follow the last one after all: it has not taken the lock.
    pub(crate) fn unfollow(&mut self) {
        self.follows.pop();
    }

    /// Begins its next record, of these old values.
    pub(crate) fn begin_record(&mut self, old: &[LineWrite]) {
        self.clock += 1;
        let Running { log, follows, logged_follows, clock, .. } = self;
        log.begin(*clock, &follows[*logged_follows..]);
        old.iter().for_each(|old| log.add(*old));
    }

    /// The record is in the log.
    pub(crate) fn recorded(&mut self) {
        self.parts += 1;
        self.logged_follows = self.follows.len();
    }

    /// Whether there is anything that a record must say, or has said.
    pub(crate) fn needs_record(&self) -> bool {
        self.is_in_log() || !self.follows.is_empty()
    }

    /// Whether recovery may find it, or others follow it.
    pub(crate) fn is_in_log(&self) -> bool {
        self.is_named || self.parts > 0
    }

    /// All sections that it follows, when it is complete.
    pub(crate) fn take_follows(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.follows)
    }

    /// The last release of a lock that it releases: whoever takes it next follows this section, or, if it has no records,
    /// the one before.
    pub(crate) fn release(&self, before: Release) -> Release {
        let is_named = self.number != 0 && self.needs_record();
        let section = if is_named { self.number } else { before.section };
        Release { section, clock: self.clock.max(before.clock) }
    }

    /// The section is over. What it follows is left to the session's next one if it has no record.
    pub(crate) fn end<M: Memory>(&mut self, memory: &M) {
        if self.number != 0 {
            self.previous = self.number;
            self.follows.clear();
        }
        (self.number, self.parts, self.logged_follows) = (0, 0, 0);
        self.logged.clear(memory);
        self.undo.clear();
        self.marks.clear();
        (self.is_named, self.seen_by_others, self.is_spoilt) = (false, 0, false);
    }
}
