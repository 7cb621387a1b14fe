//! Queues whose places become free at known times: finish times of accesses on their way.

use crate::Ps;
use std::collections::VecDeque;

/// When the places of a queue become free, ascending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Finishes {
    times: VecDeque<Ps>,
}

impl Finishes {
    /// Removes those that are over at `now`.
    #[inline]
    pub(crate) fn forget(&mut self, now: Ps) {
        while self.times.front().is_some_and(|&time| time <= now) {
            self.times.pop_front();
        }
    }

    /// Takes one of `capacity` places, `others` of which are taken for good. Returns when it is free.
    #[inline]
    pub(crate) fn place(&mut self, now: Ps, capacity: usize, others: usize) -> Ps {
        self.forget(now);
        if self.times.len() + others < capacity {
            return now;
        }
        self.times.pop_front().map_or(now, |time| now.max(time))
    }

    /// A place is taken until `time`.
    #[inline]
    pub(crate) fn push(&mut self, time: Ps) {
        let mut at = self.times.len();
        while at > 0 && self.times[at - 1] > time {
            at -= 1;
        }
        if at == self.times.len() {
            self.times.push_back(time);
        } else {
            self.times.insert(at, time);
        }
    }

    /// Places still taken after `time`.
    pub(crate) fn after(&self, time: Ps) -> usize {
        self.times.len() - self.times.partition_point(|&end| end <= time)
    }

    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }
}
