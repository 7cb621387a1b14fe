//! Damage that sums of a column miss.

use crate::sums::{DAMAGES, FILLS, SUMS, missed};

const TRIALS: u64 = 3000;

#[test]
fn the_keyed_sum_misses_nothing_that_the_others_miss() {
    let seed = 1;
    let mut totals = [0; SUMS.len()];
    for (contents, fill) in FILLS {
        for (kind, damage) in DAMAGES {
            let (missed, of) = missed(seed, fill, damage, TRIALS);
            println!("{contents}, {kind}: missed {missed:?} of {of}, seed {seed}");
            assert!(of > TRIALS / 10, "{contents}, {kind}: hardly ever changes anything");
            assert_eq!(missed[3], 0, "{contents}, {kind}");
            totals.iter_mut().zip(missed).for_each(|(total, missed)| *total += missed);
        }
    }
    // That the comparison compares: each of the others misses something.
    assert!(totals[0] > 0 && totals[1] > 0 && totals[2] > 0, "{totals:?}");
}

#[test]
fn plain_sums_miss_every_swap_and_every_transfer() {
    for (kind, damage) in DAMAGES {
        let ([plain, xor, ..], of) = missed(2, FILLS[0].1, damage, TRIALS);
        match kind {
            "two blocks change places" | "lost: both ends of a swap of words" => {
                assert_eq!((plain, xor), (of, of), "{kind}");
            }
            "lost: both ends of a transfer (+d, -d)" => assert_eq!(plain, of, "{kind}"),
            _ => {}
        }
    }
}
