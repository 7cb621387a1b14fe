//! The programs: what a vertex makes of its edges, and what an edge has of its vertices.

use super::record::{Record, high, low, pack};

/// The damping of PageRank.
pub(super) const DAMPING: f64 = 0.85;
/// The rank of a vertex that no edge leads to.
pub(super) const LEAST_RANK: f64 = 1.0 - DAMPING;
/// The label of an edge that no vertex has written yet.
const NO_LABEL: u32 = u32::MAX;

/// An end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where it begins.
    Source,
    /// Where it ends.
    Target,
}

/// A vertex program in GraphChi's manner: it reads and writes a vertex and the values on its edges.
pub trait Program: Send + Sync + std::fmt::Debug + 'static {
    /// The workload's name.
    const NAME: &'static str;
    /// A description in one line.
    const LINE: &'static str;
    /// Its number in a pool.
    const NUMBER: u64;
    /// Whether an edge is one for both of its ends: each reads and writes it. If not, its source writes, and its target
    /// reads.
    const BOTH_WAYS: bool;

    /// A vertex's value when it is loaded.
    fn first(vertex: u32) -> u32;

    /// The value of a vertex that its edges have before it was written for the first time.
    fn unseen(vertex: u32) -> u32;

    /// The word of an edge whose ends have these values, and whose source has so many edges out.
    fn word(source: u32, of_source: u32, of_target: u32, out_degree: u32) -> u64;

    /// The word of an edge, `word` until now, after its end `end`, the vertex, has the value; `None` if it stays.
    fn rewritten(word: u64, end: End, vertex: u32, value: u32, out_degree: u32) -> Option<u64>;

    /// The vertex's new value, from its record and the words of its edges: first those into it, then, if edges are for
    /// both ends, those out of it.
    fn update(record: &Record, words: &[u64]) -> u32;

    /// Steps of computation that an update takes for this many words.
    fn steps(words: u64) -> u64;

    /// Whether a vertex with this new value is to be written, with its edges.
    fn is_written(record: &Record, new: u32) -> bool;

    /// How many edges a vertex writes at most.
    fn written(record: &Record) -> u64 {
        let into = if Self::BOTH_WAYS { record.in_degree } else { 0 };
        u64::from(into) + u64::from(record.out_degree)
    }
}

/// Ranks: each vertex gives its own, in equal parts, to those that its edges lead to.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageRank;

/// The part of a rank that each edge out has.
pub(super) fn share(rank: u32, out_degree: u32) -> u32 {
    (f32::from_bits(rank) / out_degree as f32).to_bits()
}

impl Program for PageRank {
    const NAME: &'static str = "pagerank";
    const LINE: &'static str = "PageRank, with ranks on the edges of a graph";
    const NUMBER: u64 = 1;
    const BOTH_WAYS: bool = false;

    fn first(_: u32) -> u32 {
        (LEAST_RANK as f32).to_bits()
    }

    fn unseen(_: u32) -> u32 {
        1_f32.to_bits()
    }

    fn word(source: u32, of_source: u32, _: u32, out_degree: u32) -> u64 {
        pack(source, share(of_source, out_degree))
    }

    fn rewritten(_: u64, _: End, vertex: u32, value: u32, out_degree: u32) -> Option<u64> {
        Some(Self::word(vertex, value, 0, out_degree))
    }

    fn update(_: &Record, words: &[u64]) -> u32 {
        let sum: f64 = words.iter().map(|word| f64::from(f32::from_bits(high(*word)))).sum();
        ((LEAST_RANK + DAMPING * sum) as f32).to_bits()
    }

    /// A term is added.
    fn steps(words: u64) -> u64 {
        words
    }

    fn is_written(_: &Record, _: u32) -> bool {
        true
    }
}

/// Communities by label propagation: each vertex takes the label that most of its neighbours have, of several the
/// largest. An edge has the labels of both ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Communities;

impl Program for Communities {
    const NAME: &'static str = "communities";
    const LINE: &'static str = "communities of a graph, by label propagation";
    const NUMBER: u64 = 2;
    const BOTH_WAYS: bool = true;

    fn first(vertex: u32) -> u32 {
        vertex
    }

    fn unseen(vertex: u32) -> u32 {
        vertex
    }

    fn word(_: u32, of_source: u32, of_target: u32, _: u32) -> u64 {
        pack(of_source, of_target)
    }

    fn rewritten(word: u64, end: End, _: u32, value: u32, _: u32) -> Option<u64> {
        Some(match end {
            End::Source => pack(value, high(word)),
            End::Target => pack(low(word), value),
        })
    }

    fn update(record: &Record, words: &[u64]) -> u32 {
        let (into, out) = words.split_at(record.in_degree as usize);
        let sources = into.iter().map(|word| low(*word));
        let mut labels: Vec<u32> = sources.chain(out.iter().map(|word| high(*word))).collect();
        labels.sort_unstable();
        let runs = labels.chunk_by(|one, other| one == other);
        let largest = runs.max_by_key(|run| (run.len(), run[0]));
        largest.map_or(record.value, |run| run[0])
    }

    /// A label is sorted in, and counted.
    fn steps(words: u64) -> u64 {
        words * u64::from(1 + words.max(1).ilog2())
    }

    fn is_written(record: &Record, new: u32) -> bool {
        new != record.value
    }
}

/// Connected components, whatever the edges' directions: each vertex takes the smallest label around it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Components;

impl Program for Components {
    const NAME: &'static str = "components";
    const LINE: &'static str = "connected components of a graph, by their smallest vertex";
    const NUMBER: u64 = 3;
    const BOTH_WAYS: bool = true;

    fn first(vertex: u32) -> u32 {
        vertex
    }

    fn unseen(_: u32) -> u32 {
        NO_LABEL
    }

    fn word(source: u32, of_source: u32, of_target: u32, _: u32) -> u64 {
        pack(source, of_source.min(of_target))
    }

    fn rewritten(word: u64, _: End, _: u32, value: u32, _: u32) -> Option<u64> {
        (high(word) > value).then(|| pack(low(word), value))
    }

    fn update(record: &Record, words: &[u64]) -> u32 {
        words.iter().map(|word| high(*word)).fold(record.value, u32::min)
    }

    /// A label is compared.
    fn steps(words: u64) -> u64 {
        words
    }

    /// An edge that exceeds a vertex's label is there only before the vertex was written with that label.
    fn is_written(record: &Record, new: u32) -> bool {
        new != record.value || record.changes == 0
    }
}
