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

    /// Whether fewer than `places` are still taken after `time`.
    #[inline]
    pub(crate) fn leaves_room(&self, time: Ps, places: usize) -> bool {
        let Some(last) = self.times.len().checked_sub(places) else { return true };
        self.times.get(last).is_some_and(|&end| end <= time)
    }

    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_room_while_fewer_places_are_taken() {
        let mut finishes = Finishes::default();
        [30, 10, 20, 20].into_iter().for_each(|end| finishes.push(Ps(end)));
        for time in 0..40 {
            let taken = [10, 20, 20, 30].into_iter().filter(|end| *end > time).count();
            for places in 0..6 {
                let leaves = finishes.leaves_room(Ps(time), places);
                assert_eq!(leaves, taken < places, "{places} at {time}");
            }
        }
    }
}
