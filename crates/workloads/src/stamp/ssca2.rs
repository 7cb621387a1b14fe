//! ssca2: makes the lists of a graph's edges into each vertex from the edges out of each (STAMP, SSCA#2's kernel 1).
//!
//! ```text
//! root     most vertices and edges reported by a thread; degrees, first edges, further edges; vertices, edges in a chunk
//! degrees  edges into each vertex that its own edges do not imply
//! first    a chunk for each vertex, of the sources of such edges
//! further  for each vertex the edges that do not fit there: the last block, of a pointer to the one before and a chunk
//! ```
//!
//! A thread goes through the edges out of its vertices, and leaves out parallel ones. It searches the edges out of an
//! edge's target for one back; if there is none, the edge is put into its target's list, in a transaction. STAMP loses
//! edges when a vertex has more than two chunks; here blocks are chained. The input has the edges by source.

use super::Input;
use super::block::{self, WORD, word};
use super::party::Meeting;
use crate::sdg::generator::{self, Edge, Shape};
use crate::zeroed;
use crate::{Computation, Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use perdura::collections::Visit;
use perdura::{Access, Error, Purpose, Result, Root, Tx};
use std::ops::Range;

const ROOT: &str = "bench.ssca2";
/// The kind of this workload's root.
pub(crate) const KIND: u32 = 2_013;
const ROOT_WORDS: usize = 6;

/// The graph: STAMP's options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Vertices, up to the next power of two: 2 to the power of `-s`.
    pub vertices: u64,
    /// `-p`: the maximum number of parallel edges.
    pub parallel: u64,
    /// `-u`: the share of pairs in a clique with edges one way only.
    pub one_way: f64,
    /// `-i`: the probability of edges between cliques.
    pub between: f64,
}

impl Parameters {
    /// That of the input.
    pub const fn of(input: Input) -> Self {
        let (scale, parallel) = match input {
            Input::Small => (7, 3),
            Input::Plain => (13, 3),
            Input::Plus => (14, 9),
            Input::Native => (20, 3),
        };
        Parameters { vertices: 1 << scale, parallel, one_way: 1.0, between: 1.0 }
    }
}

/// The workload.
#[derive(Debug)]
pub struct Ssca2 {
    scale: u32,
    /// The edges, by source; parallel ones are alike.
    all: Vec<Edge>,
    /// The same, no two alike.
    edges: Vec<Edge>,
    /// The first of each vertex in `edges`, and the end.
    firsts: Vec<usize>,
    meeting: Meeting,
}

/// Where things are in the heap.
#[derive(Clone, Copy, Debug)]
struct Places {
    tallies: u64,
    degrees: u64,
    first: u64,
    further: u64,
    vertices: u64,
    chunk: u64,
}

impl Places {
    fn of([tallies, degrees, first, further, vertices, chunk]: [u64; ROOT_WORDS]) -> Self {
        Places { tallies, degrees, first, further, vertices, chunk }
    }

    /// Puts `source` into the list of `target`.
    fn add<T: Tx + ?Sized>(self, tx: &mut T, source: u64, target: u64) -> Result<()> {
        let degree = block::add(tx, word(self.degrees, target), 1)?;
        if degree < self.chunk {
            return tx.write_word(word(self.first, target * self.chunk + degree), source);
        }
        let (place, last) = (degree % self.chunk, word(self.further, target));
        if place > 0 {
            let at = tx.read_word(last)?;
            return tx.write_word(word(at, 1 + place), source);
        }
        let before = tx.read_word(last)?;
        let new = tx.allocate(Purpose::General, (1 + self.chunk) * WORD)?;
        tx.write_fresh(new, 0, [before, source].map(u64::to_ne_bytes).as_flattened())?;
        tx.write_word(last, new.at())
    }

    /// The sources in the list of `target`, in no order; reports its blocks.
    fn sources<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        target: u64,
        visit: &mut Visit<'_>,
    ) -> Result<Vec<u64>> {
        let degree = tx.read_word(word(self.degrees, target))?;
        if degree >= self.vertices {
            return Err(Error::corrupt("a vertex with edges from more than there are", target));
        }
        let mut sources = vec![0; degree.min(self.chunk) as usize];
        block::read(tx, word(self.first, target * self.chunk), &mut sources)?;
        let mut at = tx.read_word(word(self.further, target))?;
        let mut left = degree.saturating_sub(self.chunk);
        while left > 0 {
            if at == 0 {
                return Err(Error::corrupt("a vertex that misses edges", target));
            }
            visit(at)?;
            let mut part = vec![0; ((left - 1) % self.chunk + 1) as usize];
            block::read(tx, word(at, 1), &mut part)?;
            left -= part.len() as u64;
            sources.append(&mut part);
            at = tx.read_word(at)?;
        }
        match at {
            0 => Ok(sources),
            more => Err(Error::corrupt("a vertex with edges that it does not count", more)),
        }
    }
}

impl Ssca2 {
    /// With the graph that follows from `seed`.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(parameters: Parameters, seed: u64) -> Outcome<Self> {
        let Parameters { vertices, parallel, one_way, between } = parameters;
        let scale = generator::scale_of(vertices)?;
        let shape = Shape { parallel, one_way, between };
        let mut edges = generator::edges_of(shape, scale, seed);
        edges.sort_unstable();
        let all = edges.clone();
        edges.dedup();
        let first = |vertex: u64| edges.partition_point(|edge| u64::from(edge.0) < vertex);
        let firsts = (0..=1 << scale).map(first).collect();
        Ok(Ssca2 { scale, all, edges, firsts, meeting: Meeting::default() })
    }

    /// The edges out of a thread's own vertices without doubles, and the number of the highest vertex among their ends.
    fn own_edges(&self, vertices: &Range<u64>, computation: &Computation) -> (Vec<Edge>, u64) {
        let first = |vertex| self.all.partition_point(|edge| u64::from(edge.0) < vertex);
        let all = &self.all[first(vertices.start)..first(vertices.end)];
        let highest = all.iter().map(|edge| edge.0.max(edge.1)).max().unwrap_or(0);
        let mut own = all.to_vec();
        own.dedup();
        // Each edge is compared with the highest vertex and with the edge before, and has its place.
        computation.charge(3 * all.len() as u64);
        (own, highest.into())
    }

    /// The edges out of the vertices.
    fn edges_of(&self, vertices: Range<u64>) -> &[Edge] {
        &self.edges[self.firsts[vertices.start as usize]..self.firsts[vertices.end as usize]]
    }

    /// Whether there is an edge back, as a thread finds it: one after the other of those out of the target.
    fn has_reverse(&self, (source, target): Edge, computation: &Computation) -> bool {
        let out = self.edges_of(target.into()..u64::from(target) + 1);
        let place = out.iter().position(|edge| edge.1 == source);
        computation.charge(place.map_or(out.len(), |place| place + 1) as u64);
        place.is_some()
    }

    /// The edges without one back.
    fn one_way(&self) -> impl Iterator<Item = &Edge> {
        self.edges.iter().filter(|edge| self.edges.binary_search(&(edge.1, edge.0)).is_err())
    }

    const fn vertices(&self) -> u64 {
        1 << self.scale
    }

    /// Sources that a vertex has room for at first, as many as vertices in the largest clique.
    const fn chunk(&self) -> u64 {
        1 << (self.scale / 3)
    }

    /// Upper bound of its bytes.
    pub fn bytes(&self) -> u64 {
        self.vertices() * (2 + self.chunk()) * WORD + self.edges.len() as u64 * 4 * WORD
    }

    fn open<S: Session>(session: &mut S) -> Outcome<Places> {
        Ok(Places::of(block::of_root::<S, ROOT_WORDS>(session, ROOT)?.1))
    }
}

super::listed! {
    Ssca2: "ssca2", "STAMP: a graph's edges by target, to the end", "vertices" vertices, Parameters::of,
    Ssca2, |values| values.entries()
}

impl Workload for Ssca2 {
    const KINDS: &'static [&'static str] = &["edge", "tally"];
    const ENDS: bool = true;

    fn load_size(&self) -> u64 {
        self.vertices()
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let (vertices, chunk) = (self.vertices(), self.chunk());
        session.transaction(|tx| {
            let tallies = block::new(tx, [0, 0])?;
            let degrees = zeroed::allocate(tx, vertices * WORD)?;
            let first = zeroed::allocate(tx, vertices * chunk * WORD)?;
            let further = zeroed::allocate(tx, vertices * WORD)?;
            let at = block::new(tx, [tallies, degrees, first, further, vertices, chunk])?;
            tx.set_root(ROOT, Root { at, kind: KIND })
        })?;
        progress.loaded(vertices)
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let party = self.meeting.join(share.threads);
        let at = Self::open(session)?;
        let mine = share.part_of(self.vertices());
        let computation = session.computation();
        let (edges, highest) = self.own_edges(&mine, &computation);
        // Threads report how large their parts are, each tally in its own transaction.
        let most = || {
            session.transaction(|tx| {
                let most = tx.read_word(at.tallies)?;
                tx.write_word(at.tallies, most.max(highest + 1))
            })
        };
        recorder.operations(1, 0, most)?;
        let count = edges.len() as u64;
        let tell = || session.transaction(|tx| block::add(tx, word(at.tallies, 1), count));
        recorder.operations(1, 0, tell)?;
        if !party.wait(session) {
            return Ok(());
        }
        for (source, target) in edges {
            if !recorder.go_on() {
                return Ok(());
            }
            if self.has_reverse((source, target), &computation) {
                continue;
            }
            recorder.operation(0, || {
                session.transaction(|tx| at.add(tx, source.into(), target.into()))
            })?;
        }
        party.end();
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        if self.meeting.was_left() {
            return Ok(());
        }
        let at = Self::open(session)?;
        let tallies = session.read(|tx| {
            let mut tallies = [0; 2];
            block::read(tx, at.tallies, &mut tallies)?;
            Ok(tallies)
        })?;
        let highest = self.edges.iter().map(|edge| edge.0.max(edge.1)).max().unwrap_or(0);
        if tallies != [u64::from(highest) + 1, self.edges.len() as u64] {
            return Err(Failure::Wrong(format!("threads have told of {tallies:?}")));
        }
        let mut expected = vec![Vec::new(); self.vertices() as usize];
        for (source, target) in self.one_way() {
            expected[*target as usize].push(u64::from(*source));
        }
        for (target, expected) in (0..).zip(expected) {
            let mut found = session.read(|tx| at.sources(tx, target, &mut |_| Ok(())))?;
            found.sort_unstable();
            if found != expected {
                let what = format!("vertex {target} has edges from {found:?}, not {expected:?}");
                return Err(Failure::Wrong(what));
            }
        }
        Ok(())
    }
}

/// Checks the structure at the root, and reports its blocks.
///
/// # Errors
/// `Corrupt` if it is damaged; the errors of `visit`.
pub fn check_blocks(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    visit(at)?;
    let mut words = [0; ROOT_WORDS];
    block::read(tx, at, &mut words)?;
    let places = Places::of(words);
    if places.chunk == 0 || places.vertices > tx.usable(places.degrees)? / WORD {
        return Err(Error::corrupt("a graph of more vertices than it has room for", at));
    }
    words[..4].iter().try_for_each(|block| visit(*block))?;
    (0..places.vertices).try_for_each(|target| places.sources(tx, target, visit).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura::testing::TestHeap;

    /// Vertices with as many edges as fill chunks to the last place, and one more.
    #[test]
    fn lists_grow_by_chunks() {
        let mut heap = TestHeap::new();
        let chunk = 4;
        let block = |heap: &mut TestHeap, words| zeroed::allocate(heap, words * WORD);
        let mut places = [0, 8, 8 * chunk, 8].map(|words| block(&mut heap, words + 2).unwrap());
        places[0] = 0;
        let [_, degrees, first, further] = places;
        let at = Places { tallies: 0, degrees, first, further, vertices: 100, chunk };
        for target in 0..8 {
            for source in 0..target * 2 {
                at.add(&mut heap, source, target).expect("an edge");
            }
        }
        for target in 0..8 {
            let mut sources = at.sources(&mut heap, target, &mut |_| Ok(())).expect("a list");
            sources.sort_unstable();
            assert_eq!(sources, (0..target * 2).collect::<Vec<_>>());
        }
        // An edge that is there and not counted: the last block seems to begin a chunk too late.
        heap.damage(word(degrees, 7), 4);
        assert!(at.sources(&mut heap, 7, &mut |_| Ok(())).is_err());
    }
}
