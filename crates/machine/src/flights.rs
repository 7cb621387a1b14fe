//! Lines on their way into the persistence domain (flights), with the time from which each is durable.
//!
//! A line may leave again while it is on its way: the later flight counts, and when it lands, the line's earlier
//! flights are overtaken. What always holds: `newest` has the last flight of each line that has any, and each flight
//! names the one before it; `arrivals` has every flight, and also numbers of flights that are over.

use crate::Ps;
use crate::by_number::ByNumber;
use perdura_memory::image::{LineWords, Site};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What arrives: each arrival is a crash point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) name: &'static str,
    pub(crate) site: Site,
}

/// A line on its way.
pub(crate) struct Flight {
    pub(crate) arrival: Arrival,
    pub(crate) line: u64,
    pub(crate) words: LineWords,
    pub(crate) durable: Ps,
    /// The cores whose fences wait for it, as a mask.
    pub(crate) awaited: u64,
    /// The line's flight before this one, which may be over.
    before: Option<u64>,
}

/// All flights.
#[derive(Default)]
pub(crate) struct Flights {
    /// In the order of departure; `None` where one is over.
    flights: VecDeque<Option<Flight>>,
    /// The number of the first flight in `flights`.
    first: u64,
    /// Flights that are not over.
    count: usize,
    newest: ByNumber<u64>,
    arrivals: BinaryHeap<Reverse<(Ps, u64)>>,
    /// The latest arrival of all flights so far, those that are over included.
    last: Ps,
    /// Numbers of flights that each core's next fence waits for.
    awaited: Vec<Vec<u64>>,
}

impl Flights {
    /// Flights that are not over.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The latest arrival of all flights so far, those that are over included.
    pub(crate) fn last(&self) -> Ps {
        self.last
    }

    /// A line leaves; a core's fence may wait for its arrival.
    pub(crate) fn depart(
        &mut self,
        arrival: Arrival,
        line: u64,
        words: LineWords,
        durable: Ps,
        core: Option<usize>,
    ) {
        let number = self.first + self.flights.len() as u64;
        let before = self.newest.insert(line, number);
        self.flights.push_back(Some(Flight { arrival, line, words, durable, awaited: 0, before }));
        self.arrivals.push(Reverse((durable, number)));
        self.last = self.last.max(durable);
        self.count += 1;
        if let Some(core) = core {
            self.awaits(number, core);
        }
    }

    fn awaits(&mut self, number: u64, core: usize) {
        if self.awaited.len() <= core {
            self.awaited.resize_with(core + 1, Vec::new);
        }
        if let Some(flight) = self.get_mut(number) {
            flight.awaited |= 1 << core;
            self.awaited[core].push(number);
        }
    }

    /// Makes a core's next fence wait for the line, if it is on its way; unless `any` is set, only a flight that some
    /// fence waits for already counts. Returns when the line is durable.
    pub(crate) fn await_line(&mut self, line: u64, core: usize, any: bool) -> Option<Ps> {
        let number = *self.newest.get(&line)?;
        let flight = self.get(number)?;
        if !any && flight.awaited == 0 {
            return None;
        }
        let durable = flight.durable;
        if flight.awaited & 1 << core == 0 {
            self.awaits(number, core);
        }
        Some(durable)
    }

    /// The last flight of a line.
    #[inline]
    pub(crate) fn newest(&self, line: u64) -> Option<&Flight> {
        self.newest.get(&line).and_then(|&number| self.get(number))
    }

    /// The last of a line's flights that land by `now`.
    pub(crate) fn newest_by(&self, line: u64, now: Ps) -> Option<&Flight> {
        let mut flight = self.newest(line)?;
        while flight.durable > now {
            flight = self.get(flight.before?)?;
        }
        Some(flight)
    }

    /// Flights, in the order of departure.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Flight> {
        self.flights.iter().flatten()
    }

    /// Lands the lines that are durable by `now`.
    pub(crate) fn land(&mut self, now: Ps, mut put: impl FnMut(u64, &LineWords)) {
        while let Some(&Reverse((durable, number))) = self.arrivals.peek()
            && durable <= now
        {
            self.arrivals.pop();
            self.land_one(number, &mut put);
        }
    }

    /// Lands the lines that a core's fence has waited for.
    pub(crate) fn land_of(&mut self, core: usize, mut put: impl FnMut(u64, &LineWords)) {
        let Some(awaited) = self.awaited.get_mut(core) else { return };
        let mut numbers = std::mem::take(awaited);
        // In the order of departure, so that overtaken flights land first.
        numbers.sort_unstable();
        numbers.iter().for_each(|number| self.land_one(*number, &mut put));
        numbers.clear();
        self.awaited[core] = numbers;
    }

    /// A core's next fence waits for no flight so far.
    pub(crate) fn await_none(&mut self, core: usize) {
        if let Some(awaited) = self.awaited.get_mut(core) {
            awaited.clear();
        }
    }

    /// Lands a line, if it is on its way.
    pub(crate) fn land_line(&mut self, line: u64, mut put: impl FnMut(u64, &LineWords)) {
        if let Some(&number) = self.newest.get(&line) {
            self.land_one(number, &mut put);
        }
    }

    /// Lands a flight, if it is not over; the line's earlier flights are overtaken.
    fn land_one(&mut self, number: u64, put: &mut impl FnMut(u64, &LineWords)) {
        let Some(flight) = self.take(number) else { return };
        put(flight.line, &flight.words);
        if self.newest.get(&flight.line) == Some(&number) {
            self.newest.remove(&flight.line);
        }
        let mut before = flight.before;
        while let Some(overtaken) = before.and_then(|number| self.take(number)) {
            before = overtaken.before;
        }
        while let Some(None) = self.flights.front() {
            self.flights.pop_front();
            self.first += 1;
        }
        if self.count == 0 {
            self.arrivals.clear();
        }
    }

    fn take(&mut self, number: u64) -> Option<Flight> {
        let index = number.checked_sub(self.first)?;
        let flight = self.flights.get_mut(index as usize)?.take();
        self.count -= usize::from(flight.is_some());
        flight
    }

    fn get(&self, number: u64) -> Option<&Flight> {
        self.flights.get(number.checked_sub(self.first)? as usize)?.as_ref()
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Flight> {
        self.flights.get_mut(number.checked_sub(self.first)? as usize)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::reference::SplitMix64;

    /// Flights as a list that is searched.
    #[derive(Default)]
    struct Naive(Vec<(u64, u64, Ps, u64)>);

    impl Naive {
        fn land(&mut self, home: &mut [u64], lands: impl Fn(&(u64, u64, Ps, u64)) -> bool) {
            let landing: Vec<usize> =
                (0..self.0.len()).filter(|index| lands(&self.0[*index])).collect();
            landing.iter().for_each(|index| home[self.0[*index].0 as usize] = self.0[*index].1);
            let over = |at: usize, line| {
                landing.iter().any(|&later| later >= at && self.0[later].0 == line)
            };
            let left = self.0.iter().enumerate().filter(|(at, flight)| !over(*at, flight.0));
            self.0 = left.map(|(_, flight)| *flight).collect();
        }
    }

    #[test]
    fn they_are_what_a_searched_list_is() {
        let arrival = Arrival { name: "a test", site: std::panic::Location::caller() };
        let mut random = SplitMix64::new(5);
        for _ in 0..200 {
            let (mut flights, mut naive) = (Flights::default(), Naive::default());
            let (mut home, mut expected) = ([0; 8], [0; 8]);
            let mut now = 0;
            for step in 1..200 {
                let (line, core) = (random.below(8), random.below(3) as usize);
                let put = |line: u64, words: &LineWords| home[line as usize] = words[0];
                match random.below(8) {
                    0..=3 => {
                        let durable = Ps(now + random.below(60));
                        let asked = (random.below(2) == 0).then_some(core);
                        flights.depart(arrival, line, [step; 8], durable, asked);
                        naive.0.push((line, step, durable, asked.map_or(0, |core| 1 << core)));
                    }
                    4 => {
                        let any = random.below(2) == 0;
                        let last = naive.0.iter_mut().rev().find(|flight| flight.0 == line);
                        let awaited = last.filter(|flight| any || flight.3 != 0).map(|flight| {
                            flight.3 |= 1 << core;
                            flight.2
                        });
                        assert_eq!(flights.await_line(line, core, any), awaited);
                    }
                    5 => {
                        now += random.below(40);
                        flights.land(Ps(now), put);
                        naive.land(&mut expected, |flight| flight.2 <= Ps(now));
                    }
                    6 => {
                        flights.land_of(core, put);
                        naive.land(&mut expected, |flight| flight.3 & 1 << core != 0);
                    }
                    _ => {
                        flights.land_line(line, put);
                        naive.land(&mut expected, |flight| flight.0 == line);
                    }
                }
                assert_eq!((home, flights.len()), (expected, naive.0.len()));
                let kept: Vec<u64> = flights.all().map(|flight| flight.words[0]).collect();
                assert_eq!(kept, naive.0.iter().map(|flight| flight.1).collect::<Vec<_>>());
                let by = Ps(now + 20);
                let last = naive.0.iter().rev().find(|flight| flight.0 == line && flight.2 <= by);
                let found = flights.newest_by(line, by).map(|flight| flight.words[0]);
                assert_eq!(found, last.map(|flight| flight.1));
            }
        }
    }
}
