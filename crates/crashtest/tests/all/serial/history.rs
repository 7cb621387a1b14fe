//! The reads and writes of transactions, and whether these are serializable.
//!
//! Every value is written once. So a read value shows which transaction it came after, and before which later writer of
//! the word it came; tickets show the order of two writers of a word (`Engine`'s promise, on which recovery relies).
//! Together with real time, these are edges between transactions: they are serializable if the edges form no cycle.

use std::collections::{BTreeMap, HashMap};

/// A committed transaction.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    /// When it began for the first time, and when its commit had returned.
    pub(super) span: (u64, u64),
    pub(super) ticket: u64,
    /// Words with the values read before it wrote them.
    pub(super) reads: Vec<(u64, u64)>,
    /// Words with the values that it wrote last.
    pub(super) writes: Vec<(u64, u64)>,
}

/// Why the transactions are not serializable, if so.
pub(super) fn check(all: &[Done]) -> Result<(), String> {
    // Writers of each word, by ticket.
    let mut writers: HashMap<u64, BTreeMap<u64, usize>> = HashMap::new();
    let mut writer_of: HashMap<(u64, u64), usize> = HashMap::new();
    for (number, done) in all.iter().enumerate() {
        for (word, value) in &done.writes {
            if let Some(other) = writers.entry(*word).or_default().insert(done.ticket, number) {
                return Err(format!("{:?} and {:?} have one ticket", all[other], done));
            }
            writer_of.insert((*word, *value), number);
        }
    }
    let mut edges: Vec<Vec<usize>> = vec![Vec::new(); all.len()];
    for of_word in writers.values() {
        let order: Vec<usize> = of_word.values().copied().collect();
        order.windows(2).for_each(|pair| edges[pair[0]].push(pair[1]));
    }
    for (number, done) in all.iter().enumerate() {
        for (word, value) in &done.reads {
            let empty = BTreeMap::new();
            let of_word = writers.get(word).unwrap_or(&empty);
            let from = match writer_of.get(&(*word, *value)) {
                Some(from) => Some(*from),
                None if *value == 0 => None,
                None => return Err(format!("{done:?} has read what no transaction has written")),
            };
            if let Some(from) = from.filter(|from| *from != number) {
                edges[from].push(number);
            }
            // The next writer of the word came later.
            let after = from.map_or(0, |from| all[from].ticket + 1);
            if let Some((_, next)) = of_word.range(after..).find(|(_, next)| **next != number) {
                edges[number].push(*next);
            }
        }
    }
    real_time(all, &mut edges);
    match circle(&edges) {
        None => Ok(()),
        Some(circle) => {
            let those: Vec<String> = circle
                .into_iter()
                .filter_map(|number| all.get(number))
                .map(|done| format!("{done:?}"))
                .collect();
            Err(format!("they could not have run one after the other:\n{}", those.join("\n")))
        }
    }
}

/// A transaction that had returned before another one began came before it: a chain of moments keeps the edges few.
fn real_time(all: &[Done], edges: &mut Vec<Vec<usize>>) {
    let mut moments: Vec<(u64, bool, usize)> = Vec::new();
    for (number, done) in all.iter().enumerate() {
        moments.push((done.span.0, false, number));
        moments.push((done.span.1, true, number));
    }
    // At the same moment there is no order.
    moments.sort_unstable();
    let first = edges.len();
    edges.resize_with(first + moments.len(), Vec::new);
    for (index, (_, ended, number)) in moments.into_iter().enumerate() {
        let here = first + index;
        if index > 0 {
            edges[here - 1].push(here);
        }
        if ended {
            edges[number].push(here);
        } else {
            edges[here].push(number);
        }
    }
}

/// A cycle of edges, if there is one.
fn circle(edges: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut coming = vec![0_usize; edges.len()];
    edges.iter().flatten().for_each(|to| coming[*to] += 1);
    let mut free: Vec<usize> = (0..edges.len()).filter(|number| coming[*number] == 0).collect();
    let mut left = edges.len();
    while let Some(number) = free.pop() {
        left -= 1;
        for to in &edges[number] {
            coming[*to] -= 1;
            if coming[*to] == 0 {
                free.push(*to);
            }
        }
    }
    if left == 0 {
        return None;
    }
    // From any remaining one go back, along remaining ones, until one comes again.
    let mut back: HashMap<usize, usize> = HashMap::new();
    for (from, to) in edges.iter().enumerate().filter(|(from, _)| coming[*from] > 0) {
        to.iter().filter(|to| coming[**to] > 0).for_each(|to| _ = back.insert(*to, from));
    }
    let mut at = *back.keys().min()?;
    let mut seen: Vec<usize> = Vec::new();
    while !seen.contains(&at) {
        seen.push(at);
        at = *back.get(&at)?;
    }
    Some(seen.split_off(seen.iter().position(|one| *one == at)?))
}

#[test]
fn circles_are_found() {
    let done = |ticket, reads: &[(u64, u64)], writes: &[(u64, u64)], span| Done {
        span,
        ticket,
        reads: reads.to_vec(),
        writes: writes.to_vec(),
    };
    let beside = (0, 100);
    // One after the other.
    let first = done(1, &[(1, 0)], &[(1, 10)], beside);
    let second = done(2, &[(1, 10), (2, 0)], &[(2, 20)], beside);
    assert_eq!(check(&[first.clone(), second]), Ok(()));
    // Write skew: each has read the word that the other one overwrites.
    let skew = done(2, &[(1, 0), (2, 0)], &[(2, 20)], beside);
    let other = done(1, &[(1, 0), (2, 0)], &[(1, 10)], beside);
    assert!(check(&[other, skew]).is_err());
    // A lost update.
    let lost = done(2, &[(1, 0)], &[(1, 11)], beside);
    assert!(check(&[first.clone(), lost]).is_err());
    // It has not seen a transaction that had ended before it began.
    let late = done(9, &[(1, 0)], &[], (200, 300));
    assert!(check(&[first.clone(), late]).is_err());
    let early = done(9, &[(1, 0)], &[], (50, 300));
    assert_eq!(check(&[first, early]), Ok(()));
}
