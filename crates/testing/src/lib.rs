//! How much the tests try: each has its usual number of seeds, images or bytes, and one variable multiplies all of them.
//!
//! `PERDURA_TEST_BUDGET=10` tries ten times as much as usual (`.ci/run` takes 1). `PERDURA_TEST_SEED=n` repeats one seed
//! of the test that printed it, `PERDURA_TEST_SEED=n..m` runs others than the usual ones.

use std::ops::Range;

const BUDGET: &str = "PERDURA_TEST_BUDGET";
const SEED: &str = "PERDURA_TEST_SEED";

/// How many times the usual amount is tried: 1 or more.
///
/// # Panics
/// If `PERDURA_TEST_BUDGET` is not a number from 1 on.
pub fn budget() -> u64 {
    std::env::var(BUDGET).map_or(1, |text| parse_budget(&text))
}

/// The usual number of something, multiplied.
///
/// # Panics
/// As [`budget`].
pub fn times(usual: u64) -> u64 {
    usual.saturating_mul(budget())
}

/// For tests that try one of `usual` cases: the step that the budget allows, down to each of them.
///
/// # Panics
/// As [`budget`].
pub fn every(usual: usize) -> usize {
    usual.div_ceil(budget() as usize)
}

/// The seeds to try, from `first` on: `usual` of them multiplied, or those of `PERDURA_TEST_SEED`.
///
/// # Panics
/// As [`budget`]; and if `PERDURA_TEST_SEED` is no number and no range of numbers.
pub fn seeds(first: u64, usual: u64) -> Range<u64> {
    match std::env::var(SEED) {
        Ok(text) => parse_seeds(&text),
        Err(_) => first..first.saturating_add(times(usual)),
    }
}

fn parse_budget(text: &str) -> u64 {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.unwrap_or_else(|| panic!("{BUDGET} must be a number from 1 on, not '{text}'"))
}

fn parse_seeds(text: &str) -> Range<u64> {
    let (first, end) = text.split_once("..").unwrap_or((text, ""));
    let seeds = first.parse().ok().and_then(|first: u64| match end {
        "" => Some(first..first.checked_add(1)?),
        end => end.parse().ok().filter(|end| *end > first).map(|end| first..end),
    });
    seeds
        .unwrap_or_else(|| panic!("{SEED} must be a seed, or a range such as 1..100, not '{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn reads_seeds() {
        assert_eq!(parse_seeds("7"), 7..8);
        assert_eq!(parse_seeds("7..9"), 7..9);
        for text in ["", "x", "9..7", "7..7", "..7", "-1", "18446744073709551615"] {
            assert!(catch_unwind(|| parse_seeds(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn reads_budgets() {
        assert_eq!(parse_budget("10"), 10);
        for text in ["", "0", "0.5", "-1", "x"] {
            assert!(catch_unwind(|| parse_budget(text)).is_err(), "{text}");
        }
    }
}
