//! What happens in a second, for INFO: the mean of the last samples, as Redis has it.

use crate::stats::{Stats, sum};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Samples that count: one is taken ten times a second.
const SAMPLES: usize = 16;

/// Counters that only grow: commands, and bytes from and to clients.
type Counts = [u64; 3];

/// The last samples, the oldest first.
#[derive(Default)]
pub(crate) struct Rates(Mutex<VecDeque<(Instant, Counts)>>);

impl Rates {
    pub(crate) fn sample(&self, stats: &[Stats], now: Instant) {
        let counts = [
            sum(stats, |one| &one.commands),
            sum(stats, |one| &one.input),
            sum(stats, |one| &one.output),
        ];
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() > SAMPLES {
            samples.pop_front();
        }
        // CONFIG RESETSTAT has them begin anew.
        if samples.back().is_some_and(|(_, last)| last.iter().zip(&counts).any(|(a, b)| a > b)) {
            samples.clear();
        }
        samples.push_back((now, counts));
    }

    /// How many there are of each in a second.
    pub(crate) fn each_second(&self) -> [f64; 3] {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some((began, first)), Some((end, last))) = (samples.front(), samples.back()) else {
            return [0.0; 3];
        };
        let seconds = end.saturating_duration_since(*began).as_secs_f64();
        let rate = |at: usize| (last[at] - first[at]) as f64 / seconds;
        if seconds > 0.0 { [rate(0), rate(1), rate(2)] } else { [0.0; 3] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rates_are_of_the_last_moments() {
        let (rates, stats, start) = (Rates::default(), [Stats::default()], Instant::now());
        assert_eq!(rates.each_second(), [0.0; 3]);
        for tick in 0..100 {
            stats[0].commands.add(if tick < 50 { 1000 } else { 5 });
            stats[0].output.add(20);
            rates.sample(&stats, start + Duration::from_millis(100 * tick));
        }
        let [commands, input, output] = rates.each_second();
        assert!((commands - 50.0).abs() < 0.1 && input == 0.0 && (output - 200.0).abs() < 0.1);
        stats[0].restart();
        rates.sample(&stats, start + Duration::from_secs(20));
        assert_eq!(rates.each_second(), [0.0; 3]);
    }
}
