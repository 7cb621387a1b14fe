//! Which transactions of a log count, and their words.

use super::area::{Geometry, KnownDurable};
use super::record::FoundRecord;
use crate::planted::{self, Bug};
use crate::{Error, Result};
use perdura_memory::{LINE, Memory, line_of};

/// The transactions in a log, oldest first, and how many are discarded: incomplete ones, or with `no_gaps` those after
/// the first missing ticket. `known_durable` is what is known to have been durable.
///
/// # Errors
/// `Corrupt` where something that was durable is missing, or, without `no_gaps`, has not left the log.
pub fn transactions(
    records: Vec<FoundRecord>,
    checkpoint: u64,
    no_gaps: bool,
    (durable, at): KnownDurable,
) -> Result<(Vec<Vec<FoundRecord>>, u64)> {
    let mut whole: Vec<Vec<FoundRecord>> = Vec::new();
    let mut discarded = 0;
    let mut records = records.into_iter().filter(|r| r.part.ticket > checkpoint).peekable();
    let mut next = checkpoint + 1;
    while let Some(first) = records.next() {
        let part = first.part;
        let mut parts = vec![first];
        while let Some(more) = records.next_if(|r| r.part.ticket == part.ticket) {
            parts.push(more);
        }
        let last = parts.last().map_or(part, |last| last.part);
        let complete = parts.len() == usize::from(last.parts)
            && parts.iter().enumerate().all(|(index, r)| usize::from(r.part.part) == index)
            || planted::has(Bug::PartsMissing);
        let in_order = part.ticket == next || !no_gaps || planted::has(Bug::GapOverlooked);
        if complete && in_order {
            whole.push(parts);
            next += 1;
        } else {
            next = 0;
            discarded += 1;
        }
    }
    if no_gaps && checkpoint + (whole.len() as u64) < durable {
        return Err(Error::corrupt("log without a record that was durable; what tells so is", at));
    }
    if !no_gaps && whole.first().is_some_and(|first| first[0].part.ticket <= durable) {
        return Err(Error::corrupt("log with a record that had become void; what tells so is", at));
    }
    Ok((whole, discarded))
}

/// Stores the words of records in place, in their order, and asks for them to become durable: each line once, after the
/// last store to it, however many words and records store to it.
pub(crate) fn store_words<'a, M: Memory>(
    memory: &M,
    mut records: impl Iterator<Item = &'a FoundRecord>,
) -> Result<()> {
    let mut lines = Vec::new();
    records.try_for_each(|record| {
        record.for_each_word(|at, value| {
            memory.store(at, value);
            if lines.last() != Some(&line_of(at)) {
                lines.push(line_of(at));
            }
            Ok(())
        })
    })?;
    lines.sort_unstable();
    lines.dedup();
    for run in lines.chunk_by(|line, next| line + LINE == *next) {
        memory.write_back(run[0], run.len() as u64 * LINE);
    }
    Ok(())
}

/// Checks that every word of every record lies in the pool, and none in the log: before the first store of a recovery.
pub(crate) fn check_words<M: Memory>(
    memory: &M,
    geometry: &Geometry,
    whole: &[Vec<FoundRecord>],
) -> Result<()> {
    let log = geometry.start..geometry.segment(geometry.segments - 1).end;
    for record in whole.iter().flatten() {
        record.for_each_word(|at, _| {
            if !memory.contains(at, 8) {
                return Err(Error::corrupt(
                    "log record for memory beyond the pool's end",
                    record.at,
                ));
            }
            if log.contains(&at) {
                return Err(Error::corrupt("log record for the log itself", record.at));
            }
            Ok(())
        })?;
    }
    Ok(())
}
