//! Updates of vertices in a row, as many as a transaction has room for.
//!
//! A transaction updates at most [`Limit::vertices`] vertices, whose edges to write are at most [`Limit::edges`]. A
//! vertex that alone has more is split: the first transaction reads all its edges, writes the vertex and as many edges
//! as it may; the others write the rest, in their order. Meanwhile the vertex counts its pending edges, and keeps the
//! value that they still have.

use super::heap::Arrays;
use super::programs::{End, Program};
use super::record::Record;
use crate::Computation;
use perdura::{Error, Result};

/// How much a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The maximum number of vertices.
    pub vertices: u64,
    /// The maximum number of edges that these vertices write.
    pub edges: u64,
}

/// What a transaction has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Where the next one goes on.
    pub next: u32,
    /// Vertices updated, also those that have not changed.
    pub updates: u64,
    /// Vertices written.
    pub changes: u64,
    /// Edges written.
    pub edges: u64,
    /// Whether a vertex has edges left to be written.
    pub is_split: bool,
}

/// Buffers of a thread.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Places of a vertex's edges.
    places: Vec<u32>,
    /// Words of these edges.
    words: Vec<u64>,
}

/// Updates vertices from `from` on, at least one of them in part, and none from `end` on.
///
/// # Errors
/// As the arrays'.
pub fn batch<P: Program>(
    arrays: &mut impl Arrays,
    from: u32,
    end: u32,
    limit: Limit,
    scratch: &mut Scratch,
    computation: &Computation,
) -> Result<Done> {
    let (mut room, mut done) = (limit.edges, Done { next: from, ..Done::default() });
    for vertex in (from..end).take(usize::try_from(limit.vertices).unwrap_or(usize::MAX)) {
        let record = arrays.record(vertex)?;
        let most = if record.pending > 0 { record.pending.into() } else { P::written(&record) };
        if most > room && room < limit.edges {
            break;
        }
        one::<P>(arrays, vertex, record, room, scratch, computation, &mut done)?;
        if done.is_split {
            break;
        }
        room -= most.min(room);
        done.next = vertex + 1;
    }
    Ok(done)
}

/// Updates a vertex, or goes on with one that has pending edges.
fn one<P: Program>(
    arrays: &mut impl Arrays,
    vertex: u32,
    mut record: Record,
    room: u64,
    scratch: &mut Scratch,
    computation: &Computation,
    done: &mut Done,
) -> Result<()> {
    let total = P::written(&record);
    let before_out = total - u64::from(record.out_degree);
    let Scratch { places, words } = scratch;
    let is_new = record.pending == 0;
    if is_new {
        places.clear();
        words.clear();
        for nth in 0..record.in_degree {
            places.push(arrays.incoming(record.first_in.wrapping_add(nth))?);
        }
        if P::BOTH_WAYS {
            for nth in 0..record.out_degree {
                places.push(arrays.outgoing(record.first_out.wrapping_add(nth))?);
            }
        }
        for place in places.iter() {
            words.push(arrays.word(*place)?);
        }
        computation.charge(P::steps(words.len() as u64));
        let new = P::update(&record, words);
        done.updates += 1;
        if !P::is_written(&record, new) {
            return Ok(());
        }
        record.before = if record.changes == 0 { P::unseen(vertex) } else { record.value };
        record.value = new;
        record.changes = record.changes.wrapping_add(1);
        record.pending = total as u32;
        done.changes += 1;
    }
    let Some(first) = total.checked_sub(record.pending.into()) else {
        return Err(Error::corrupt("a vertex with more pending edges than it has", vertex.into()));
    };
    let last = total.min(first + room);
    let is_read = P::BOTH_WAYS && is_new;
    for position in first..last {
        let index = position.checked_sub(before_out);
        let end = if index.is_some() { End::Source } else { End::Target };
        let place = match index {
            _ if is_read => places[position as usize],
            Some(index) => arrays.outgoing(record.first_out.wrapping_add(index as u32))?,
            None => arrays.incoming(record.first_in.wrapping_add(position as u32))?,
        };
        let word = match P::BOTH_WAYS {
            _ if is_read => words[position as usize],
            true => arrays.word(place)?,
            false => 0,
        };
        if let Some(word) = P::rewritten(word, end, vertex, record.value, record.out_degree) {
            arrays.set_word(place, word)?;
            done.edges += 1;
        }
    }
    record.pending = (total - last) as u32;
    done.is_split = record.pending > 0;
    arrays.set_state(vertex, &record)
}
