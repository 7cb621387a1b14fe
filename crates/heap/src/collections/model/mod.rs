//! Model checks: random operations on a collection, compared with std's.
//!
//! They run on anything that runs transactions, so that every engine can be checked: a test passes a closure that runs
//! a transaction's body, possibly more than once. Some transactions abort on purpose, some undo a part of themselves.

mod hash;
mod ordered;
mod sequence;

use crate::{Error, Result, Tx, TxExt};
pub use hash::check_hash_map;
pub use ordered::{check_counted_map, check_ordered_map, check_pair_map};
pub use sequence::{check_blob, check_vector};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// A transaction's body.
pub type Body<'a> = dyn FnMut(&mut dyn Tx) -> Result<()> + 'a;

/// Runs a transaction: commits if the body returns `Ok`, and rolls back otherwise.
pub type Run<'a> = dyn FnMut(&mut Body<'_>) -> Result<()> + 'a;

/// The message of transactions that are meant to abort.
const ON_PURPOSE: &str = "on purpose";

/// A small generator (SplitMix64): the checks depend on their seed alone.
#[derive(Clone, Copy, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// The next number.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A byte string of up to `limit` bytes, mostly short, with few different bytes; some share a long beginning.
    pub fn bytes(&mut self, limit: u64) -> Vec<u8> {
        let shared = if limit > 30 && self.below(3) == 0 { 28 } else { 0 };
        let limit = if self.below(4) == 0 { limit } else { limit.min(shared + 20) };
        let len = self.below(limit + 1 - shared);
        let rest = (0..len).map(|_| b"\0ab\xFF"[self.below(4) as usize]);
        std::iter::repeat_n(b'a', shared as usize).chain(rest).collect()
    }
}

/// An error unless both are the same.
pub(super) fn same<A: Debug + PartialEq<B>, B: Debug>(what: &str, got: A, wanted: B) -> Result<()> {
    if got == wanted {
        return Ok(());
    }
    Err(Error::Aborted(format!("{what}: got {got:?}, the model says {wanted:?}")))
}

/// A key to remove: mostly the next one in the model.
fn victim<K: Ord + Clone, V>(rng: &mut Rng, entries: &BTreeMap<K, V>, key: K) -> K {
    if rng.below(4) == 0 {
        return key;
    }
    entries.range(&key..).next().map_or_else(|| key.clone(), |(next, _)| next.clone())
}

/// One random operation on the collection and on its model.
type Step<'a, S> = dyn FnMut(&mut dyn Tx, &mut S, &mut Rng) -> Result<()> + 'a;

/// One transaction of random steps; the model changes if it commits.
fn transact<S: Clone>(
    run: &mut Run<'_>,
    model: &mut S,
    rng: &mut Rng,
    step: &mut Step<'_, S>,
) -> Result<()> {
    let plan = Rng(rng.next());
    let mut after = None;
    let result = run(&mut |tx| {
        let (mut rng, mut next) = (plan, model.clone());
        after = None;
        for _ in 0..1 + rng.below(12) {
            match rng.below(16) {
                0 => undone(tx, &next, &mut rng, step)?,
                _ => step(tx, &mut next, &mut rng)?,
            }
        }
        if rng.below(10) == 0 {
            return tx.abort(ON_PURPOSE);
        }
        after = Some(next);
        Ok(())
    });
    match (result, after) {
        (Ok(()), Some(after)) => *model = after,
        (Err(Error::Aborted(why)), None) if why == ON_PURPOSE => {}
        (Ok(()), None) => return Err(Error::Aborted("an abort was ignored".to_owned())),
        (Err(error), _) => return Err(error),
    }
    Ok(())
}

/// One random operation; the flag says whether the collection grows or shrinks at the moment.
type Phased<'a, S> = dyn FnMut(&mut dyn Tx, &mut S, &mut Rng, bool) -> Result<()> + 'a;

/// Transactions of random steps, alternately growing and shrinking; after some of them, and after the last one, the
/// whole collection is compared.
fn explore<S: Clone>(
    run: &mut Run<'_>,
    rng: &mut Rng,
    transactions: u64,
    mut model: S,
    step: &mut Phased<'_, S>,
    compare: &mut dyn FnMut(&mut dyn Tx, &S) -> Result<()>,
) -> Result<()> {
    let mut growing = true;
    for turn in 0..transactions {
        transact(run, &mut model, rng, &mut |tx, model, rng| step(tx, model, rng, growing))?;
        if rng.below(8) == 0 {
            growing = rng.below(5) < 3;
        }
        if turn % 16 == 0 || turn + 1 == transactions {
            run(&mut |tx| compare(tx, &model))?;
        }
    }
    Ok(())
}

/// Runs steps that are undone.
fn undone<S: Clone>(
    tx: &mut dyn Tx,
    model: &S,
    rng: &mut Rng,
    step: &mut Step<'_, S>,
) -> Result<()> {
    let (point, mut dropped) = (tx.point(), model.clone());
    for _ in 0..rng.below(6) {
        step(tx, &mut dropped, rng)?;
    }
    tx.undo_to(point)
}

/// The blocks seen so far; seeing one twice is an error.
#[derive(Default)]
pub(super) struct Blocks(std::collections::HashSet<u64>);

impl Blocks {
    pub(super) fn visit(&mut self, at: u64) -> Result<()> {
        if self.0.insert(at) { Ok(()) } else { Err(Error::corrupt("a block with two owners", at)) }
    }
}

/// Destroys a collection in several transactions.
fn destroy(
    run: &mut Run<'_>,
    rng: &mut Rng,
    some: &mut dyn FnMut(&mut dyn Tx, u64) -> Result<bool>,
) -> Result<()> {
    let mut done = false;
    while !done {
        let budget = 1 + rng.below(60);
        run(&mut |tx| {
            done = some(tx, budget)?;
            Ok(())
        })?;
    }
    Ok(())
}
