//! Damaged logs: records that were durable and are missing, or are there again, are noticed.

use crate::ram;
use perdura_engine::area::{Geometry, SMALLEST};
use perdura_engine::record::{self, FoundRecord, Part};
use perdura_engine::recovery::transactions;
use perdura_engine::writes::LineWrite;
use perdura_engine::{Access, ArchaptRedoEngine, Engine, Error, Mode, RedoEngine, Result, Session};
use perdura_memory::{AnyMemory, LINE, Memory};
use std::sync::Arc;

const LOG: std::ops::Range<u64> = 0..SMALLEST;
const TRANSACTIONS: u64 = 6;

/// A memory whose process was killed after some transactions that were waited for, each of which stored its number in a
/// line of its own.
fn left<E: Engine<AnyMemory>>() -> Arc<AnyMemory> {
    let memory = Arc::new(ram(SMALLEST + 4096));
    E::format(&memory, LOG);
    let engine = E::start(memory.clone(), LOG).unwrap();
    let mut session = engine.session().unwrap();
    for number in 1..=TRANSACTIONS {
        session.begin(Mode::Write);
        session.write_word(SMALLEST + number * LINE, number).unwrap();
        let ticket = session.commit_awaited().unwrap();
        session.wait_durable(ticket).unwrap();
    }
    memory
}

fn copy(memory: &AnyMemory) -> AnyMemory {
    let (ram, mut bytes) = (ram(memory.len()), vec![0; memory.len() as usize]);
    memory.copy_out(0, &mut bytes);
    ram.copy_in(0, &bytes);
    ram
}

/// Every record is damaged in turn, in two ways. Recovery must report it, except for the last record; and for that too
/// if acknowledgements are noted.
fn lost_records_are_missed<E: Engine<AnyMemory>>() {
    let memory = left::<E>();
    let geometry = Geometry::read(&*memory, LOG, E::NAME).unwrap();
    let checkpoint = geometry.checkpoint(&*memory).unwrap();
    let records = geometry.records(&*memory, checkpoint.salt);
    assert_eq!(records.len() as u64, TRANSACTIONS, "{}", E::NAME);
    let last = records.last().unwrap().part.ticket;
    for record in &records {
        for at in [record.at, record.at + 24] {
            for told in [false, true] {
                let damaged = copy(&memory);
                damaged.store(at, damaged.load(at) ^ 1 << 7);
                if told {
                    geometry.acknowledge(&damaged, checkpoint.salt, last);
                }
                let recovered = E::recover(&damaged, LOG);
                let silent = record.part.ticket == last && !told;
                match recovered {
                    Ok(_) => assert!(silent, "{}, record at {:#x}", E::NAME, record.at),
                    Err(Error::Corrupt { .. }) => assert!(!silent),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

#[test]
fn a_record_that_was_durable_is_missed() {
    lost_records_are_missed::<RedoEngine<AnyMemory>>();
    lost_records_are_missed::<ArchaptRedoEngine<AnyMemory>>();
}

/// Records with these tickets, each with the ticket up to which everything was durable when it was written.
fn records(of: &[(u64, u64)]) -> Vec<FoundRecord> {
    let (ram, mut words) = (ram(4096), Vec::new());
    let line = [LineWrite { line: 0, mask: 1, words: [5; 8] }];
    let found = of.iter().map(|&(ticket, durable)| {
        let part = Part { ticket, part: 0, parts: 1, behind: record::behind(ticket, durable) };
        record::encode(&mut words, 1, 64, part, &line, |line, word| line.words[word]);
        ram.copy_in(64, bytemuck::cast_slice(&words));
        record::read(&ram, 1, 64, 4096).expect("a record").0
    });
    found.collect()
}

fn taken(of: &[(u64, u64)], checkpoint: u64, no_gaps: bool) -> Result<Vec<u64>> {
    let records = records(of);
    let told = records.iter().map(|record| (record.durable_before(), record.at)).max();
    let (whole, _) = transactions(records, checkpoint, no_gaps, told.unwrap_or_default())?;
    Ok(whole.iter().map(|parts| parts[0].part.ticket).collect())
}

/// On a block device records lag behind: a gap after the durable ones may come from a crash.
#[test]
fn gaps_that_a_crash_leaves_are_none_of_it() {
    assert_eq!(taken(&[(4, 3), (5, 3), (6, 3)], 3, true).unwrap(), [4, 5, 6]);
    assert_eq!(taken(&[(5, 3), (6, 3)], 3, true).unwrap(), [0; 0]);
    assert_eq!(taken(&[(4, 3), (6, 4)], 3, true).unwrap(), [4]);
    assert!(taken(&[(4, 3), (6, 5)], 3, true).is_err());
    assert!(taken(&[(6, 5)], 3, true).is_err());
    // A distance too large to be stored, and dead records.
    assert_eq!(taken(&[(5000, 4)], 3, true).unwrap(), [0; 0]);
    assert_eq!(taken(&[(2, 1), (4, 3)], 3, true).unwrap(), [4]);
}

/// An undo log holds only transactions to be rolled back, never durable ones.
#[test]
fn a_record_that_was_void_is_not_taken_back() {
    assert_eq!(taken(&[(7, 5)], 3, false).unwrap(), [7]);
    assert_eq!(taken(&[(6, 5), (7, 5)], 3, false).unwrap(), [6, 7]);
    assert!(taken(&[(6, 5), (7, 6)], 3, false).is_err());
}
