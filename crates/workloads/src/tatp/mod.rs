//! TATP: the home location register of a mobile network, with seven small transactions.
//!
//! Four tables and an index by telephone number, as hash tables. 80 of 100 transactions only read. Many transactions
//! fail by design: the row that they ask for does not exist, or the one that they insert does. A failed one that
//! writes is rolled back; failures are counted, and never tried again.
//!
//! All rows at first follow from the seed ([`Population`]). Each transaction that changes a column knows its old value,
//! so that each subscriber's columns are compared at the end with the sum of all changes, whatever their order.
//!
//! Reading order: `population`, `input`, `tables`.

mod input;
mod population;
mod tables;
#[cfg(test)]
mod tests;

pub use input::{Desk, Distribution, Input, Kind};
pub use population::{
    Access, Digits, Facility, Forwarding, Home, Population, STARTS, Subscriber, TYPES, number,
};
pub use tables::{Answer, Contents, Tables};

use crate::list::{self, Given, Listed, OnWorkload, Parameter, Row, Usual};
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use perdura::Error;
use population::{BIT_1, DATA_A, VLR, fingerprint};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Subscribers loaded, or checked, by one transaction.
const BATCH: u64 = 8;
/// The maximum number of bytes of a subscriber's rows, with the tables' free slots.
pub const BYTES_PER_SUBSCRIBER: u64 = 700;
const UPDATE_LOCATION: &str = "update-location";
const DISTRIBUTION: &str = "distribution";
const KINDS: usize = Kind::MIX.len();

const NAMES: [&str; KINDS] = [
    "get-subscriber-data",
    "get-new-destination",
    "get-access-data",
    "update-subscriber-data",
    "update-location",
    "insert-call-forwarding",
    "delete-call-forwarding",
];
const FAILED: [&str; KINDS] = [
    "failed get-subscriber-data",
    "failed get-new-destination",
    "failed get-access-data",
    "failed update-subscriber-data",
    "failed update-location",
    "failed insert-call-forwarding",
    "failed delete-call-forwarding",
];

/// The workload.
#[derive(Debug)]
pub struct Tatp {
    people: Population,
    desk: Desk,
    /// Whether each thread asks for its own part of the subscribers.
    disjoint: bool,
    /// For each subscriber the sum of the changes to the fingerprint.
    changes: Vec<AtomicU64>,
    succeeded: [AtomicU64; KINDS],
    failed: [AtomicU64; KINDS],
}

impl Tatp {
    /// A workload that has not been loaded. The first rows follow from `seed`; the transactions, from the run's.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(subscribers: u64, distribution: Distribution, seed: u64) -> Outcome<Self> {
        let people = Population::new(subscribers, seed)?;
        Ok(Tatp {
            people,
            desk: Desk::new(subscribers, distribution),
            disjoint: false,
            changes: (0..subscribers).map(|_| AtomicU64::new(0)).collect(),
            succeeded: Default::default(),
            failed: Default::default(),
        })
    }

    /// The same with updates of a location alone, and without the tables that these do not need.
    pub fn only_update_location(self) -> Self {
        let (people, desk) = (self.people.alone(), self.desk.only(Kind::UpdateLocation));
        Tatp { people, desk, ..self }
    }

    fn tables<S: Session>(session: &mut S) -> Outcome<Tables> {
        let tables = session.read(|tx| Tables::find(tx))?;
        tables.ok_or_else(|| Failure::wrong("TATP's tables are gone"))
    }

    /// Identifiers, in batches.
    fn batches(&self) -> impl Iterator<Item = std::ops::RangeInclusive<u64>> {
        let last = self.people.subscribers();
        (1..=last).step_by(BATCH as usize).map(move |first| first..=last.min(first + BATCH - 1))
    }

    /// Carries a transaction out. `None` if it fails, as some do by design.
    fn transact<S: Session>(
        session: &mut S,
        tables: &Tables,
        input: &Input,
    ) -> Outcome<Option<Answer>> {
        let done = if input.kind.only_reads() {
            session.read(|tx| tables.run(tx, input))
        } else {
            session.transaction(|tx| tables.run(tx, input))
        };
        match done {
            Ok(answer) => Ok(answer),
            Err(Error::Aborted(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Notes what a transaction did, and checks what it read.
    fn note(&self, input: &Input, answer: Option<Answer>) -> Outcome {
        let kind = input.kind as usize;
        match answer {
            None => self.failed[kind].fetch_add(1, Relaxed),
            Some(_) => self.succeeded[kind].fetch_add(1, Relaxed),
        };
        let wrong = match answer {
            Some(Answer::Changed(by)) => {
                self.changes[input.id as usize - 1].fetch_add(by, Relaxed);
                false
            }
            Some(Answer::Subscriber(row)) => fixed(row) != fixed(self.people.subscriber(input.id)),
            Some(Answer::Access(row)) => {
                self.people.access(input.id)[usize::from(input.of_type) - 1] != Some(row)
            }
            None if input.kind == Kind::GetAccessData => {
                self.people.access(input.id)[usize::from(input.of_type) - 1].is_some()
            }
            Some(Answer::Destinations(_)) | None => false,
        };
        if wrong {
            return Err(Failure::Wrong(format!("{} of subscriber {}", NAMES[kind], input.id)));
        }
        Ok(())
    }

    /// Compares a subscriber's rows with those that the committed transactions have left. Returns rows of
    /// ACCESS_INFO, SPECIAL_FACILITY and CALL_FORWARDING.
    fn compare(&self, id: u64, rows: &tables::Rows) -> Outcome<[u64; 3]> {
        let wrong = |what: &str| Failure::Wrong(format!("subscriber {id}: {what}"));
        let (first, loaded) = (self.people.subscriber(id), self.people.home(id));
        let row = rows.subscriber.ok_or_else(|| wrong("no row"))?;
        if fixed(row) != fixed(first) {
            return Err(wrong("columns have changed that no transaction changes"));
        }
        if rows.by_number != Some(id) {
            return Err(wrong("the number does not lead to it"));
        }
        let home = &rows.home;
        if home.access != loaded.access {
            return Err(wrong("another row of ACCESS_INFO"));
        }
        if home.facilities.map(fixed_facility) != loaded.facilities.map(fixed_facility) {
            return Err(wrong("another row of SPECIAL_FACILITY"));
        }
        let mut pairs = home.facilities.iter().zip(&home.forwardings);
        if pairs.any(|(facility, rows)| facility.is_none() && rows.iter().any(Option::is_some)) {
            return Err(wrong("a forwarding without its facility"));
        }
        let changes = self.changes[id as usize - 1].load(Relaxed);
        if fingerprint(&row, home) != fingerprint(&first, &loaded).wrapping_add(changes) {
            return Err(wrong("other values or forwardings than were committed"));
        }
        let count = |rows: &[bool]| rows.iter().filter(|is_there| **is_there).count() as u64;
        Ok([
            count(&home.access.map(|row| row.is_some())),
            count(&home.facilities.map(|row| row.is_some())),
            count(home.forwardings.map(|rows| rows.map(|row| row.is_some())).as_flattened()),
        ])
    }
}

/// A subscriber's row without the columns that transactions change.
fn fixed(mut row: Subscriber) -> Subscriber {
    row[VLR].fill(0);
    row[BIT_1] = 0;
    row
}

/// The same of a facility.
fn fixed_facility(row: Option<Facility>) -> Option<Facility> {
    row.map(|mut row| {
        row[DATA_A] = 0;
        row
    })
}

impl Listed for Tatp {
    const ROW: Row = Row {
        name: "tatp",
        line: "TATP's seven transactions on a home location register",
        parameters: &[
            list::entries("subscribers", 10_000),
            list::disjoint("each thread asks for its own part of the subscribers"),
            Parameter {
                name: DISTRIBUTION,
                line: "how subscribers are drawn",
                usual: Usual::OneOf(&["non-uniform", "uniform"]),
            },
            Parameter {
                name: list::MIX,
                line: "standard, TATP's seven transactions, or update-location alone",
                usual: Usual::OneOf(&[list::STANDARD_MIX, UPDATE_LOCATION]),
            },
        ],
        operations: |_| 200_000,
        rolls_back: |values| values.name(list::MIX) != UPDATE_LOCATION,
        roots: &[],
    };

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let distribution = match given.values.name(DISTRIBUTION) {
            "uniform" => Distribution::Uniform,
            _ => Distribution::NonUniform,
        };
        let workload = Tatp::new(given.entries(), distribution, given.seed)?;
        let workload = match given.values.name(list::MIX) {
            UPDATE_LOCATION => workload.only_update_location(),
            _ => workload,
        };
        if given.entries() < given.parts() as u64 {
            let what = "each thread needs a subscriber of its own";
            return Err(Failure::Parameters(what.to_owned()));
        }
        let workload = Tatp { disjoint: given.values.is_on(list::DISJOINT), ..workload };
        Ok(code.run(workload, given.entries().saturating_mul(BYTES_PER_SUBSCRIBER)))
    }
}

impl Workload for Tatp {
    const KINDS: &'static [&'static str] = &NAMES;

    fn rolls_back(&self) -> bool {
        self.desk.fails()
    }

    fn load_size(&self) -> u64 {
        self.people.subscribers()
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let tables = session.transaction(|tx| Tables::create(tx))?;
        for batch in self.batches() {
            session.transaction(|tx| {
                batch.clone().try_for_each(|id| tables.load(tx, &self.people, id))
            })?;
            progress.loaded(batch.end() - batch.start() + 1)?;
        }
        Ok(())
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let tables = Self::tables(session)?;
        let desk = match self.disjoint {
            true => self.desk.within(share.part_of(self.people.subscribers())),
            false => self.desk,
        };
        for _ in 0..share.operations {
            if !recorder.go_on() {
                break;
            }
            let input = desk.draw(&mut share.random);
            let answer = recorder
                .operation(input.kind as usize, || Self::transact(session, &tables, &input))?;
            self.note(&input, answer)?;
        }
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let tables = Self::tables(session)?;
        let subscribers = self.people.subscribers();
        let mut expected = [subscribers, subscribers, 0, 0, 0];
        for batch in self.batches() {
            let rows = session.read(|tx| {
                batch
                    .clone()
                    .map(|id| Ok((id, tables.rows(tx, id)?)))
                    .collect::<perdura::Result<Vec<_>>>()
            })?;
            for (id, rows) in rows {
                let counts = self.compare(id, &rows)?;
                expected[2..].iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
        }
        let sizes = session.read(|tx| tables.sizes(tx))?;
        if sizes != expected {
            let what = format!("the tables have {sizes:?} rows, of subscribers are {expected:?}");
            return Err(Failure::Wrong(what));
        }
        Ok(())
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let of = |names: [&'static str; KINDS], counts: &[AtomicU64; KINDS]| {
            names.into_iter().zip(counts.each_ref().map(|count| count.load(Relaxed)))
        };
        of(NAMES, &self.succeeded).chain(of(FAILED, &self.failed)).collect()
    }
}
