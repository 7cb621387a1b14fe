//! How long lines stay, compared with analytic formulas.
//!
//! Requests are independent of one another, line `i` with a share `p(i)` of them (Zipf). Then a
//! cache of `c` lines has line `i` for a share of the time of
//! - `1 - e^(-p(i) T)` under LRU (Che, Tung and Wang, IEEE JSAC 2002),
//! - `p(i) T / (1 + p(i) T)` under random replacement (Fricker, Robert and Roberts, ITC 2012),
//!
//! where `T` is such that these sum to `c`. A request finds the cache in an average state, so the share of
//! requests that hit equals the share of time in which the line was there.

use crate::single_set;
use perdura_machine::cache::{Access, Policy};
use perdura_memory::reference::SplitMix64;

const WAYS: usize = 64;
const LINES: usize = 1000;
const REQUESTS: usize = 2_000_000;
/// Largest accepted deviation of all hits together.
const TOTAL: f64 = 0.0015;
/// The same for each line with 5,000 requests or more, where the standard deviation is at most
/// 0.007.
const EACH: f64 = 0.02;

fn shares(skew: f64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=LINES).map(|rank| (rank as f64).powf(-skew)).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// The residency of each line: `of(p T)` with `T` found by halving.
fn expected(shares: &[f64], of: fn(f64) -> f64) -> Vec<f64> {
    let residency = |time: f64| shares.iter().map(move |share| of(share * time));
    let (mut low, mut high) = (0.0, 1e9);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        let sum: f64 = residency(middle).sum();
        if sum < WAYS as f64 { low = middle } else { high = middle }
    }
    residency(low).collect()
}

/// Hits and requests of each line.
fn measured(shares: &[f64], policy: Policy) -> Vec<(u64, u64)> {
    let sums: Vec<f64> = shares
        .iter()
        .scan(0.0, |sum, share| {
            *sum += share;
            Some(*sum)
        })
        .collect();
    let mut set = single_set(WAYS as u32, policy, 1);
    let mut random = SplitMix64::new(2);
    let mut counts = vec![(0, 0); LINES];
    for n in 0..REQUESTS {
        let uniform = random.next() as f64 / 2f64.powi(64);
        let line = sums.partition_point(|&sum| sum <= uniform).min(LINES - 1);
        let hit = set.access(0, line as u64, Access::Load).level == 0;
        if n >= 10_000 {
            counts[line].0 += u64::from(hit);
            counts[line].1 += 1;
        }
    }
    counts
}

fn agrees(policy: Policy, of: fn(f64) -> f64) {
    for skew in [0.6, 0.8, 1.0, 1.2] {
        let shares = shares(skew);
        let (expected, counts) = (expected(&shares, of), measured(&shares, policy));
        let requests: u64 = counts.iter().map(|(_, requests)| requests).sum();
        let hits: u64 = counts.iter().map(|(hits, _)| hits).sum();
        let ratio = hits as f64 / requests as f64;
        let formula: f64 = shares.iter().zip(&expected).map(|(p, residency)| p * residency).sum();
        let each = counts.iter().zip(&expected).filter(|((_, requests), _)| *requests >= 5000);
        let off = |((hits, requests), residency): (&(u64, u64), &f64)| {
            (*hits as f64 / *requests as f64 - residency).abs()
        };
        let worst = each.map(off).fold(0.0, f64::max);
        println!("{policy}, skew {skew}: hits {ratio:.5}, formula {formula:.5}, each {worst:.5}");
        assert!((ratio - formula).abs() < TOTAL, "{policy}, skew {skew}: {ratio}, not {formula}");
        assert!(worst < EACH, "{policy}, skew {skew}: a line is off by {worst}");
    }
}

#[test]
fn lru_as_che_has_it() {
    agrees(Policy::Lru, |x| 1.0 - (-x).exp());
}

#[test]
fn random_as_fricker_has_it() {
    agrees(Policy::Random, |x| x / (1.0 + x));
}
