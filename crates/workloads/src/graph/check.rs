//! Checks of a graph and of the answers in it.

use super::edges::mark;
use super::heap::{Graph, Snapshot, edge_of};
use super::programs::{Communities, Components, LEAST_RANK, PageRank, Program};
use super::record::Record;
use super::reference::Reference;
use crate::{Failure, Outcome, Session};

/// How far a rank may be from the right one: it and the edges' parts are rounded to 24 bits.
const TOLERANCE: f64 = 1e-5;

/// What a run has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// The sum of the marks of all edges.
    pub marks: u64,
    /// How often vertices were written.
    pub changes: u64,
    /// Updates, if they were made in the order of the vertices.
    pub updates: Option<u64>,
    /// Epochs of sweeps.
    pub epochs: u64,
    /// Changes that were counted when it was known that there are no more.
    pub quiet: Option<u64>,
}

/// Copies a graph, a block in a transaction.
///
/// # Errors
/// As the transactions.
pub(super) fn copy<S: Session>(session: &mut S, graph: &Graph) -> Outcome<Snapshot> {
    let mut snapshot = Snapshot::default();
    for block in 0..graph.layout.blocks() {
        session.read(|tx| graph.copy(tx, block, &mut snapshot))?;
    }
    Ok(snapshot)
}

/// Answers of a program.
pub trait Answers: Program {
    /// Checks all vertices' values.
    ///
    /// # Errors
    /// `Wrong`, with the vertex.
    fn verify(reference: &Reference<'_>, records: &[Record], done: &Done) -> Outcome;
}

/// Checks a graph and its answers.
///
/// # Errors
/// `Wrong` where something is not as it should be.
pub fn verify<P: Answers>(snapshot: &Snapshot, done: &Done) -> Outcome {
    let Ends { sources, positions } = lists(snapshot, done.marks)?;
    edges::<P>(snapshot, &positions)?;
    let records = &snapshot.records;
    let changes = records.iter().map(|record| u64::from(record.changes)).sum::<u64>();
    if changes != done.changes {
        let what = format!("vertices count {changes} changes, {} were committed", done.changes);
        return Err(Failure::Wrong(what));
    }
    if let Some(quiet) = done.quiet.filter(|quiet| *quiet != changes) {
        let what = format!("{changes} changes, but none after {quiet} in a sweep of all vertices");
        return Err(Failure::Wrong(what));
    }
    P::verify(&Reference::new(snapshot, sources), records, done)
}

/// What the lists say about each edge, by place.
struct Ends {
    sources: Vec<u32>,
    /// Which of its target's edges in it is.
    positions: Vec<u32>,
}

/// Checks that each edge is in the lists of both of its ends, and that the edges are those with the sum of marks.
fn lists(snapshot: &Snapshot, marks: u64) -> Outcome<Ends> {
    let wrong = |vertex: usize, what: &str| Failure::Wrong(format!("vertex {vertex}: {what}"));
    let (mut next_in, mut next_out, mut sum) = (0_u64, 0_u64, 0_u64);
    for (vertex, record) in snapshot.records.iter().enumerate() {
        if (u64::from(record.first_in), u64::from(record.first_out)) != (next_in, next_out) {
            return Err(wrong(vertex, "its lists do not follow those of the vertex before"));
        }
        next_in += u64::from(record.in_degree);
        next_out += u64::from(record.out_degree);
    }
    let edges = snapshot.words.len();
    if (next_in, next_out) != (edges as u64, edges as u64) {
        return Err(Failure::wrong("the vertices have more or fewer edges than the graph"));
    }
    // By place: which vertex has the edge in, and as which of its edges.
    let (mut targets, mut positions) = (vec![u32::MAX; edges], vec![0; edges]);
    for (vertex, record) in snapshot.records.iter().enumerate() {
        for nth in 0..record.in_degree {
            let place = snapshot.into[(record.first_in + nth) as usize] as usize;
            if targets.get(place) != Some(&u32::MAX) {
                return Err(wrong(vertex, "an edge in that is none, or another one's"));
            }
            (targets[place], positions[place]) = (vertex as u32, nth);
        }
    }
    let mut sources = vec![u32::MAX; edges];
    for (vertex, record) in snapshot.records.iter().enumerate() {
        for index in record.first_out..record.first_out + record.out_degree {
            let (target, place) = edge_of(snapshot.out[index as usize]);
            if targets.get(place as usize) != Some(&target) {
                return Err(wrong(vertex, "an edge that its target does not have"));
            }
            if std::mem::replace(&mut sources[place as usize], vertex as u32) != u32::MAX {
                return Err(wrong(vertex, "an edge with the place of another one"));
            }
            sum = sum.wrapping_add(mark(vertex as u32, target));
        }
    }
    if sum != marks {
        return Err(Failure::wrong("the edges are not those that were loaded"));
    }
    Ok(Ends { sources, positions })
}

/// The value of a vertex that its edge at this position of those that it writes has.
fn value_on<P: Program>(vertex: u32, record: &Record, position: u64) -> u32 {
    match P::written(record) - u64::from(record.pending) {
        _ if record.changes == 0 => P::unseen(vertex),
        first_pending if position >= first_pending => record.before,
        _ => record.value,
    }
}

/// Checks that each edge has exactly the values of its ends. `positions` say which of its target's edges in it is.
fn edges<P: Program>(snapshot: &Snapshot, positions: &[u32]) -> Outcome {
    let wrong = |vertex: usize, what: &str| Failure::Wrong(format!("vertex {vertex}: {what}"));
    for (vertex, record) in snapshot.records.iter().enumerate() {
        if u64::from(record.pending) > P::written(record) {
            return Err(wrong(vertex, "more pending edges than it has"));
        }
        let is_first = record.value == P::first(vertex as u32) && record.pending == 0;
        if record.changes == 0 && !is_first {
            return Err(wrong(vertex, "not as it was loaded, and it was never written"));
        }
    }
    for (vertex, record) in snapshot.records.iter().enumerate() {
        let before_out = P::written(record) - u64::from(record.out_degree);
        for nth in 0..record.out_degree {
            let (number, place) = edge_of(snapshot.out[(record.first_out + nth) as usize]);
            let target = &snapshot.records[number as usize];
            let of_source = value_on::<P>(vertex as u32, record, before_out + u64::from(nth));
            let of_target = match P::BOTH_WAYS {
                true => value_on::<P>(number, target, positions[place as usize].into()),
                false => 0,
            };
            let expected = P::word(vertex as u32, of_source, of_target, record.out_degree);
            let word = snapshot.words[place as usize];
            if word != expected {
                return Err(wrong(
                    vertex,
                    &format!(
                        "its edge to {number} has {word:#x}, by its ends it has {expected:#x}"
                    ),
                ));
            }
        }
    }
    Ok(())
}

/// Compares all vertices' labels with those that they must have.
fn same_labels(records: &[Record], expected: &[u32]) -> Outcome {
    for (vertex, (record, expected)) in records.iter().zip(expected).enumerate() {
        if record.value != *expected {
            let what = format!("vertex {vertex} has label {}, not {expected}", record.value);
            return Err(Failure::Wrong(what));
        }
    }
    Ok(())
}

/// Checks that labels are those of vertices in the same component. Returns the smallest vertex of each one's.
fn within_components(reference: &Reference<'_>, records: &[Record]) -> Outcome<Vec<u32>> {
    let components = reference.components();
    for (vertex, (record, component)) in records.iter().zip(&components).enumerate() {
        if components.get(record.value as usize) != Some(component) {
            let what =
                format!("vertex {vertex} has label {}, of no vertex that it reaches", record.value);
            return Err(Failure::Wrong(what));
        }
    }
    Ok(components)
}

impl Answers for PageRank {
    /// One thread's ranks are those of the same updates in f64; several threads' are within the bounds of their epochs.
    fn verify(reference: &Reference<'_>, records: &[Record], done: &Done) -> Outcome {
        let is_near = |vertex: usize, record: &Record, (least, most): (f64, f64)| {
            let rank = f64::from(f32::from_bits(record.value));
            if rank >= least * (1.0 - TOLERANCE) && rank <= most * (1.0 + TOLERANCE) {
                return Ok(());
            }
            let what = format!("vertex {vertex} has rank {rank}, not {least} to {most}");
            Err(Failure::Wrong(what))
        };
        if let Some(updates) = done.updates {
            let ranks = reference.ranks_after(updates);
            for (vertex, (record, rank)) in records.iter().zip(ranks).enumerate() {
                is_near(vertex, record, (rank, rank))?;
            }
        }
        for (vertex, (record, bounds)) in
            records.iter().zip(reference.bounds(done.epochs)).enumerate()
        {
            let bounds = if record.changes == 0 { (LEAST_RANK, LEAST_RANK) } else { bounds };
            is_near(vertex, record, bounds)?;
        }
        Ok(())
    }
}

impl Answers for Communities {
    /// One thread's labels are those of the same updates; any are of the vertex's component; and when a sweep has
    /// changed none, each is the most frequent one around its vertex.
    fn verify(reference: &Reference<'_>, records: &[Record], done: &Done) -> Outcome {
        within_components(reference, records)?;
        if let Some(updates) = done.updates {
            same_labels(records, &reference.communities_after(updates))?;
        }
        if done.quiet.is_some() {
            let labels: Vec<u32> = records.iter().map(|record| record.value).collect();
            let expected: Vec<u32> = (0..labels.len())
                .map(|own| reference.most_frequent(own, &labels).unwrap_or(labels[own]))
                .collect();
            same_labels(records, &expected)?;
        }
        Ok(())
    }
}

impl Answers for Components {
    /// One thread's labels are those of the same updates; any are of the vertex's component, and as small as their
    /// epochs make them; and when a sweep has changed none, they are the components' smallest.
    fn verify(reference: &Reference<'_>, records: &[Record], done: &Done) -> Outcome {
        let components = within_components(reference, records)?;
        if let Some(updates) = done.updates {
            same_labels(records, &reference.components_after(updates))?;
        }
        for (vertex, (record, most)) in
            records.iter().zip(reference.components_bounds(done.epochs)).enumerate()
        {
            if record.value > most {
                let what = format!("vertex {vertex} has label {}, more than {most}", record.value);
                return Err(Failure::Wrong(what));
            }
        }
        if done.quiet.is_some() {
            same_labels(records, &components)?;
        }
        Ok(())
    }
}
