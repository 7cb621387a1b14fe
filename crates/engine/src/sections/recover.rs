//! Which sections recovery undoes, and the undoing.
//!
//! A section is complete if its last record is there. One that is not is undone, and so is every complete one that
//! follows an undone one. A section that a record names and that has no records itself is dead, if its number is no later
//! than the checkpoint's; otherwise it had not written its first record, and is not complete.
//!
//! Each record was durable before the next one of its section was stored. So a section with a gap is damage; a section
//! that another record knows to be in the cut, and that is not complete, is too.

use super::log::OPEN;
use crate::log::area::KnownDurable;
use crate::log::record::FoundRecord;
use crate::log::recovery::store_words;
use crate::planted::{self, Bug};
use crate::{Error, Result};
use perdura_memory::Memory;
use std::collections::{BTreeMap, BTreeSet};

/// A section in a log.
struct FoundSection {
    records: Vec<FoundRecord>,
    is_complete: bool,
    follows: Vec<u64>,
}

/// The sections to be undone, of the records in a log: those after `checkpoint`, in any order.
///
/// # Errors
/// `Corrupt` for what no crash leaves.
pub(crate) fn choose(
    records: Vec<FoundRecord>,
    checkpoint: u64,
    (known, at): KnownDurable,
) -> Result<Vec<Vec<FoundRecord>>> {
    let sections = sections(records, checkpoint)?;
    let kept = kept(&sections, checkpoint);
    let undone = sections.into_iter().filter(|(number, _)| !kept.contains(number));
    let undone: Vec<(u64, FoundSection)> = undone.collect();
    if undone.first().is_some_and(|(number, _)| *number <= known) {
        return Err(Error::corrupt(
            "log without the end of a section that was durable; what tells so is",
            at,
        ));
    }
    Ok(undone.into_iter().map(|(_, section)| section.records).collect())
}

/// The records by section.
fn sections(mut records: Vec<FoundRecord>, checkpoint: u64) -> Result<BTreeMap<u64, FoundSection>> {
    records.retain(|record| record.part.ticket > checkpoint);
    records.sort_by_key(|record| (record.part.ticket, record.part.part, record.at));
    let mut sections: BTreeMap<u64, FoundSection> = BTreeMap::new();
    for record in records {
        let new = || FoundSection { records: Vec::new(), is_complete: false, follows: Vec::new() };
        let section = sections.entry(record.part.ticket).or_insert_with(new);
        let is_next = usize::from(record.part.part) == section.records.len();
        if !is_next || section.is_complete {
            return Err(Error::corrupt("log record without the one before it", record.at));
        }
        let notes = record.notes()?;
        let Some((_clock, follows)) = notes.split_first() else {
            return Err(Error::corrupt("log record without a clock", record.at));
        };
        section.follows.extend_from_slice(follows);
        section.is_complete = record.part.parts != OPEN;
        if section.is_complete && record.part.parts != record.part.part + 1 {
            return Err(Error::corrupt("last record of a section with a wrong count", record.at));
        }
        section.records.push(record);
    }
    Ok(sections)
}

/// The complete sections that follow only dead ones and one another: the largest such set.
fn kept(sections: &BTreeMap<u64, FoundSection>, checkpoint: u64) -> BTreeSet<u64> {
    let complete = sections.iter().filter(|(_, section)| section.is_complete);
    let mut kept: BTreeSet<u64> = complete.map(|(number, _)| *number).collect();
    // From each section that is not kept to those that follow it.
    let mut followers: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (number, section) in sections.iter().filter(|(_, section)| section.is_complete) {
        for followed in &section.follows {
            followers.entry(*followed).or_default().push(*number);
        }
    }
    let is_undone = |number: &u64| *number > checkpoint && !kept.contains(number);
    let mut next: Vec<u64> = followers.keys().copied().filter(is_undone).collect();
    while let Some(undone) = next.pop() {
        for follower in followers.get(&undone).into_iter().flatten() {
            if kept.remove(follower) {
                next.push(*follower);
            }
        }
    }
    kept
}

/// Puts the old values of undone sections back, the latest first, and asks for their lines to become durable.
///
/// # Errors
/// `Corrupt` before anything is stored.
pub(crate) fn undo<M: Memory>(memory: &M, undone: &[Vec<FoundRecord>]) -> Result<()> {
    let mut records = Vec::new();
    for record in undone.iter().flatten() {
        let clock = record.notes()?.first().copied().unwrap_or(0);
        records.push((clock, record.part, record));
    }
    records.sort_by_key(|(clock, part, _)| (*clock, *part));
    if planted::has(Bug::UndoneInOrder) {
        records.reverse();
    }
    store_words(memory, records.iter().rev().map(|(_, _, record)| *record))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::{self, NOTES, Part};
    use crate::writes::LineWrite;
    use perdura_memory::Ram;

    /// A section's record: its number, its place in the section, whether it is the last, its clock, what it follows, and
    /// the old value of a word.
    type Given<'a> = (u64, u16, bool, u64, &'a [u64], Option<(u64, u64)>);

    fn found(given: &[Given<'_>]) -> Vec<FoundRecord> {
        let (ram, mut words) = (Ram::new(4096), Vec::new());
        let found = given.iter().map(|&(ticket, part, is_last, clock, follows, old)| {
            let mut notes = LineWrite { line: NOTES, mask: 0, words: [0; 8] };
            for (word, note) in std::iter::once(clock).chain(follows.iter().copied()).enumerate() {
                notes.mask |= 1 << word;
                notes.words[word] = note;
            }
            let old = old.map(|(at, value)| LineWrite { line: at, mask: 1, words: [value; 8] });
            let entries: Vec<LineWrite> = std::iter::once(notes).chain(old).collect();
            let parts = if is_last { part + 1 } else { OPEN };
            let part = Part { ticket, part, parts, behind: 0 };
            record::encode(&mut words, 1, 64, part, &entries, |entry, word| entry.words[word]);
            ram.copy_in(64, bytemuck::cast_slice(&words));
            record::read(&ram, 1, 64, 4096).expect("a record").0
        });
        found.collect()
    }

    fn undone(given: &[Given<'_>], checkpoint: u64, known: u64) -> Result<Vec<u64>> {
        let chosen = choose(found(given), checkpoint, (known, 0))?;
        Ok(chosen.iter().map(|section| section[0].part.ticket).collect())
    }

    /// One record of a section that is not complete, and the one record of one that is.
    fn open(number: u64) -> Given<'static> {
        (number, 0, false, number, &[], Some((64, number)))
    }

    fn complete(number: u64, follows: &[u64]) -> Given<'_> {
        (number, 0, true, number, follows, None)
    }

    #[test]
    fn what_follows_an_incomplete_section_is_undone_with_it() {
        assert_eq!(undone(&[open(11), complete(12, &[11])], 10, 0).unwrap(), [11, 12]);
        assert_eq!(undone(&[complete(11, &[]), complete(12, &[11])], 10, 0).unwrap(), [0; 0]);
        let chain = [open(11), complete(12, &[11]), complete(13, &[12]), complete(14, &[])];
        assert_eq!(undone(&chain, 10, 0).unwrap(), [11, 12, 13]);
        // It is dead, or has not stored its first record.
        assert_eq!(undone(&[complete(12, &[9])], 10, 0).unwrap(), [0; 0]);
        assert_eq!(undone(&[complete(12, &[11])], 10, 0).unwrap(), [12]);
        assert_eq!(undone(&[complete(12, &[13])], 10, 0).unwrap(), [12]);
    }

    #[test]
    fn two_that_follow_each_other_stay_or_go_together() {
        assert_eq!(undone(&[complete(11, &[12]), complete(12, &[11])], 10, 0).unwrap(), [0; 0]);
        let with_open = [complete(11, &[12, 13]), complete(12, &[11]), open(13)];
        assert_eq!(undone(&with_open, 10, 0).unwrap(), [11, 12, 13]);
    }

    #[test]
    fn what_no_crash_leaves_is_damage() {
        let gap = [(11, 1, false, 2, &[][..], None)];
        let twice = [open(11), open(11)];
        let behind_the_last = [complete(11, &[]), (11, 1, false, 2, &[][..], None)];
        assert!(undone(&gap, 10, 0).is_err() && undone(&twice, 10, 0).is_err());
        assert!(undone(&behind_the_last, 10, 0).is_err());
        assert!(undone(&[open(11)], 10, 10).is_ok() && undone(&[open(11)], 10, 11).is_err());
        assert_eq!(undone(&[(9, 3, false, 1, &[], None)], 10, 0).unwrap(), [0; 0], "it is dead");
    }

    /// Whatever the order of their numbers and places, the clock says which store came first.
    #[test]
    fn old_values_come_back_in_the_order_of_clocks() {
        let records = [
            (12, 0, false, 1, &[][..], Some((64, 5))),
            (11, 0, false, 2, &[][..], Some((64, 6))),
            (12, 1, false, 3, &[][..], Some((64, 7))),
        ];
        let ram = Ram::new(4096);
        ram.store(64, 8);
        undo(&ram, &choose(found(&records), 10, (0, 0)).unwrap()).unwrap();
        assert_eq!(ram.load(64), 5);
    }
}
