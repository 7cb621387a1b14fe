//! Swaps random words of an array through a pool's handle, as any program does, and prints how many transactions a
//! second that makes. `.ci/peers` runs it beside `perdura-lab bench --workload sps`, which knows the engine.
//!
//!     cargo run --release --example timed_swaps -- FILE ENGINE WORDS SWAPS TRANSACTIONS SEED

use perdura::{EngineKind, Options, Purpose, Result, Tx};
use std::time::Instant;

const WORD: u64 = 8;

/// Words written by one transaction at first.
const CHUNK: u64 = 512;

/// A transaction of some swaps; the processor fetches all words while it works on the first.
#[inline]
fn swap<T: Tx + ?Sized>(tx: &mut T, pairs: &[(u64, u64)]) -> Result<()> {
    for &(a, b) in pairs {
        tx.prefetch(a);
        tx.prefetch(b);
    }
    for &(a, b) in pairs {
        let (x, y) = (tx.read_word(a)?, tx.read_word(b)?);
        tx.write_word(a, y)?;
        tx.write_word(b, x)?;
    }
    Ok(())
}

/// A number below `bound`.
#[inline]
fn draw(random: &mut u64, bound: u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    ((u128::from(*random) * u128::from(bound)) >> 64) as u64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [path, engine, words, swaps, count, seed] = given.as_slice() else {
        return Err("timed_swaps FILE ENGINE WORDS SWAPS TRANSACTIONS SEED".into());
    };
    let (words, swaps): (u64, usize) = (words.parse()?, swaps.parse()?);
    let (count, seed): (u64, u64) = (count.parse()?, seed.parse()?);
    // As large as the benchmark's pool, and so is its log.
    let size = (4 * words * WORD + (256 << 20)).next_multiple_of(1 << 20);
    let pool = Options::new().engine(engine.parse::<EngineKind>()?).size(size).create(path)?;
    let mut handle = pool.session()?;
    let array = handle.transaction(|tx| Ok(tx.allocate(Purpose::General, words * WORD)?.at()))?;
    for first in (0..words).step_by(CHUNK as usize) {
        handle.transaction(|tx| {
            (first..words.min(first + CHUNK))
                .try_for_each(|index| tx.write_word(array + index * WORD, index))
        })?;
    }

    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut pairs = vec![(0, 0); swaps];
    let mut run = |transactions: u64| -> Result<f64> {
        let start = Instant::now();
        for _ in 0..transactions {
            for pair in &mut pairs {
                let (a, b) = (draw(&mut random, words), draw(&mut random, words - 1));
                *pair = (array + a * WORD, array + (b + u64::from(b >= a)) * WORD);
            }
            handle.transaction(|tx| swap(tx, &pairs))?;
        }
        Ok(start.elapsed().as_secs_f64())
    };
    run(count / 10)?;
    let seconds = run(count)?;

    let mut seen = vec![false; words as usize];
    for index in 0..words {
        let word = handle.read(|tx| tx.read_word(array + index * WORD))?;
        assert!(!std::mem::replace(&mut seen[word as usize], true), "no permutation at {index}");
    }
    println!("per_second {:.0}", count as f64 / seconds);
    Ok(())
}
