//! Recovery from the log (LOC 3.4): finds the committed transactions, and writes their blocks home.
//!
//! It reads the log without changing it, and writes lines home in the order of transactions; at last a new head makes
//! the log dead. So it may be cut short anywhere, and begin again.

use super::log::{BlockTag, DependencyPair, LogAfterCut};
use super::{APPLY, CLOSED, COUNT, CUT_OFF};
use crate::mechanism::Home;
use crate::mechanism::Mutant;
use std::collections::BTreeMap;

/// How recovery recognises a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mechanism) enum Commits {
    /// By counts (LOC 3.2, 3.3).
    Counted,
    /// By a record.
    Recorded,
}

/// Numbers that recovery skips, so that a dead block's number is not reused soon: as many as are valid at a time
/// (LOC 3.2, footnote 3).
pub(super) const VALID: u64 = super::TX_STATE_ENTRIES;

/// A transaction in the log.
#[derive(Debug, Default)]
struct LoggedTransaction {
    /// Blocks.
    count: u64,
    /// `TxCnt`, where some block or pair has it.
    whole: u64,
    /// Later transactions, as distances from the first number, and how many of its blocks each has overlapped.
    pairs: Vec<(u64, u64)>,
    blocks: Vec<(BlockTag, u64)>,
}

/// Brings the home device to the state after all committed transactions, and no others.
pub(in crate::mechanism) fn recover(
    home: &mut Home<'_>,
    commits: Commits,
    left_out: Option<Mutant>,
) {
    let own = home.own();
    let found = LogAfterCut::new(home, &own);
    let all = by_transaction(home, &found);
    let committed = match commits {
        Commits::Recorded => {
            let recorded = found.head.recorded.saturating_sub(found.head.first);
            all.keys().map(|&number| (number, number < recorded)).collect()
        }
        Commits::Counted => counted(&all, left_out != Some(COUNT)),
    };
    let end = end_of_committed(&all, &committed, left_out != Some(CLOSED));
    for (number, transaction) in &all {
        if *number < end || left_out == Some(CUT_OFF) && committed[number] {
            let kept =
                transaction.blocks.len().saturating_sub(usize::from(left_out == Some(APPLY)));
            for (tag, at) in &transaction.blocks[..kept] {
                let words = home.line(*at);
                home.put(u64::from(tag.line), &words);
            }
        }
    }
    found.truncate(home, found.head.first + VALID);
}

/// The number of the first transaction that is cut off: the first that has not committed, or one before it with blocks
/// that a transaction behind the cut has overlapped. The paper (3.4) leaves these out: if T3 is not whole, but T4 is,
/// T3 cuts T4 off; and if T4 has overlapped a block of T1, that block is lost with T4, so that T1 must be cut off too.
fn end_of_committed(
    all: &BTreeMap<u64, LoggedTransaction>,
    committed: &BTreeMap<u64, bool>,
    looks_behind: bool,
) -> u64 {
    let whole = (0..).zip(all).take_while(|(at, (number, _))| at == *number && committed[number]);
    let mut end = whole.count() as u64;
    let depends = |end: u64| {
        let mut before = all.range(..end);
        before.find(|(_, logged)| logged.pairs.iter().any(|(later, _)| *later >= end))
    };
    while let Some((number, _)) = depends(end).filter(|_| looks_behind) {
        end = *number;
    }
    end
}

/// The transactions in the log, by the distance of their numbers from the first, which eight bits of a number
/// determine.
fn by_transaction(home: &Home<'_>, found: &LogAfterCut) -> BTreeMap<u64, LoggedTransaction> {
    let place = |id: u8| u64::from(id.wrapping_sub(found.head.first as u8));
    let mut all = BTreeMap::<u64, LoggedTransaction>::new();
    for (tag, at) in &found.blocks {
        if !tag.pairs {
            let logged = all.entry(place(tag.id)).or_default();
            logged.count += 1;
            logged.whole = logged.whole.max(u64::from(tag.count));
            logged.blocks.push((*tag, *at));
            continue;
        }
        for pair in home.line(*at).into_iter().filter_map(DependencyPair::of) {
            let logged = all.entry(place(pair.earlier)).or_default();
            logged.whole = logged.whole.max(u64::from(pair.count));
            logged.pairs.push((place(pair.later), u64::from(pair.n)));
        }
    }
    all
}

/// Which transactions have committed: those whose every block is in the log, or overlapped by a committed transaction.
/// Unless it `looks`, blocks are not counted. Later transactions first, so that each pair's later one is decided.
fn counted(all: &BTreeMap<u64, LoggedTransaction>, looks: bool) -> BTreeMap<u64, bool> {
    let mut committed = BTreeMap::new();
    for (&number, logged) in all.iter().rev() {
        let by_committed = |pair: &&(u64, u64)| committed.get(&pair.0) == Some(&true);
        let overlapped: u64 = logged.pairs.iter().filter(by_committed).map(|(_, n)| n).sum();
        let whole = !looks || logged.count + overlapped == logged.whole;
        committed.insert(number, logged.whole > 0 && whole);
    }
    committed
}
