//! The percentiles that INFO shows of the time of each command's calls: `latency-tracking-info-percentiles`.

use crate::protocol::number;
use std::sync::{Mutex, PoisonError};

/// The option's value.
pub(crate) struct Percentiles(Mutex<Vec<f64>>);

impl Default for Percentiles {
    fn default() -> Self {
        Percentiles(Mutex::new(vec![50.0, 99.0, 99.9]))
    }
}

impl Percentiles {
    pub(crate) fn get(&self) -> Vec<f64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, percentiles: Vec<f64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = percentiles;
    }

    /// Percentiles with spaces between them; none is a value, too.
    ///
    /// # Errors
    /// Redis's text.
    pub(crate) fn parse(text: &[u8]) -> Result<Vec<f64>, &'static str> {
        let words = text.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let parse = |word| match number::parse_f64(word) {
            None => Err("Invalid latency-tracking-info-percentiles parameters"),
            Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
            Some(_) => {
                Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")
            }
        };
        words.map(parse).collect()
    }
}

/// A percentile as Redis writes it.
pub(crate) fn shown(percent: f64) -> String {
    let text = format!("{percent:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Which of the buckets has the call that takes longer than so many of a hundred, if there are any calls.
pub(crate) fn bucket_of(calls: &[u64], percent: f64) -> Option<usize> {
    let total: u64 = calls.iter().sum();
    let wanted = ((percent / 100.0 * total as f64 + 0.5) as u64).max(1);
    let mut so_far = 0;
    calls.iter().position(|calls| {
        so_far += calls;
        so_far >= wanted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_redis() {
        let parse = |text: &str| Percentiles::parse(text.as_bytes());
        assert_eq!(parse("0.0 50 99.9"), Ok(vec![0.0, 50.0, 99.9]));
        assert_eq!(parse(""), Ok(Vec::new()));
        assert!(parse("10 a").is_err() && parse("nan").is_err());
        assert!(parse("10 101").is_err() && parse("-0.5").is_err());
        let all = [0.0, 50.0, 99.9, 100.0, 12.345_678_9];
        assert_eq!(all.map(shown), ["0", "50", "99.9", "100", "12.345679"]);
    }

    #[test]
    fn a_bucket_has_the_call() {
        let calls = [0, 90, 0, 9, 1];
        let of = |percent| bucket_of(&calls, percent);
        assert_eq!([of(0.0), of(50.0), of(90.0)], [Some(1); 3]);
        assert_eq!([of(91.0), of(99.0), of(99.9), of(100.0)], [Some(3), Some(3), Some(4), Some(4)]);
        assert_eq!(bucket_of(&[0, 0], 50.0), None);
    }
}
