//! vacation: a travel agency that reserves cars, flights and rooms (STAMP).
//!
//! ```text
//! root      the maps of cars, flights, rooms and customers: red-black trees by id
//! row       id, used, free, total, price
//! customer  id, list of reservations: type << 32 | id of the row, price when it was reserved
//! ```
//!
//! A task is a transaction: it reserves the dearest of some random rows for a customer, deletes a customer with all
//! reservations, or adds to rows and takes from them. Invariants: of each row, used and free make the total,
//! and as many reservations as are used are in the lists of customers.

mod check;
mod manager;
mod task;
#[cfg(test)]
mod tests;

pub use check::check_blocks;

use super::Input;
use super::block;
use crate::computation;
use crate::random::Random;
use crate::toggle::KeySet;
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use manager::{Manager, Row};
use perdura::{Root, Tx};
use std::sync::atomic::{AtomicI64, Ordering};
use task::Draw;

const ROOT: &str = "bench.vacation";
/// The kind of this workload's root.
pub(crate) const KIND: u32 = 2_011;
/// Rows inserted by one transaction of the load.
const LOAD_BATCH: usize = 64;
/// Bytes of a row or a customer with its node, and some reservations.
const BYTES_PER_ROW: u64 = 4 * 192;

/// The size of the tables, and the tasks: STAMP's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// `-n`: the maximum number of rows that a task queries.
    pub queries: u64,
    /// `-q`: the share of the rows that are queried, in percent.
    pub range_percent: u64,
    /// `-u`: the share of the tasks that reserve, in percent.
    pub user_percent: u64,
    /// `-r`: rows of each table, and customers.
    pub rows: u64,
    /// `-t`: tasks.
    pub tasks: u64,
}

impl Parameters {
    /// Few queries, most of them reservations, anywhere.
    pub const fn low(input: Input) -> Self {
        let (rows, tasks) = match input {
            Input::Small => (256, 1_000),
            Input::Plain => (16_384, 4_096),
            Input::Plus => (1 << 20, 4_096),
            Input::Native => (1 << 20, 1 << 22),
        };
        Parameters { queries: 2, range_percent: 90, user_percent: 98, rows, tasks }
    }

    /// More queries, among fewer rows, with more changes of the tables.
    pub const fn high(input: Input) -> Self {
        Parameters { queries: 4, range_percent: 60, user_percent: 90, ..Self::low(input) }
    }
}

/// The workload.
#[derive(Debug)]
pub struct Vacation {
    parameters: Parameters,
    seed: u64,
    /// Reservations made less those that were cancelled.
    reserved: AtomicI64,
}

impl Vacation {
    /// With these tables and tasks; the loaded data follows from `seed`.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(parameters: Parameters, seed: u64) -> Outcome<Self> {
        let Parameters { queries, range_percent, user_percent, rows, .. } = parameters;
        let percents = [range_percent, user_percent].iter().all(|percent| *percent <= 100);
        if queries == 0 || !percents || rows * range_percent < 100 || rows >= 1 << 32 {
            let what = "vacation needs a query, shares of up to 100 percent, and a row to ask for";
            return Err(Failure::Parameters(what.to_owned()));
        }
        Ok(Vacation { parameters, seed, reserved: AtomicI64::new(0) })
    }

    /// Upper bound of its bytes.
    pub const fn bytes(&self) -> u64 {
        self.parameters.rows.saturating_mul(BYTES_PER_ROW)
    }

    fn open<S: Session>(session: &mut S) -> Outcome<Manager> {
        let (_, maps) = block::of_root::<S, { manager::MAPS }>(session, ROOT)?;
        Ok(Manager::open(maps))
    }
}

/// The workload of few queries.
pub struct Low;

/// The workload of more queries among fewer rows.
pub struct High;

super::listed! {
    Low: "vacation-low", "STAMP: a travel agency", "rows" rows, Parameters::low,
    Vacation, |values| Parameters::low(super::input_of(values)).tasks
}

super::listed! {
    High: "vacation-high", "the same with more queries among fewer rows", "rows" rows, Parameters::high,
    Vacation, |values| Parameters::high(super::input_of(values)).tasks
}

impl Workload for Vacation {
    const KINDS: &'static [&'static str] = &["reserve", "delete-customer", "update-tables"];

    fn load_size(&self) -> u64 {
        self.parameters.rows * manager::MAPS as u64
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let manager = session.transaction(|tx| {
            let manager = Manager::create(tx)?;
            let at = block::new(tx, manager.maps().map(KeySet::at))?;
            tx.set_root(ROOT, Root { at, kind: KIND })?;
            Ok(manager)
        })?;
        let mut random = Random::new(self.seed, 1 << 33);
        for map in manager.maps() {
            let mut ids: Vec<u64> = (1..=self.parameters.rows).collect();
            random.shuffle(&mut ids);
            for ids in ids.chunks(LOAD_BATCH) {
                let mut row =
                    |id| Row::new(id, 100 * random.between(1, 5), task::price(&mut random));
                let rows: Vec<Row> = ids.iter().map(|id| row(*id)).collect();
                session
                    .transaction(|tx| rows.iter().try_for_each(|row| manager.load(tx, map, row)))?;
                progress.loaded(ids.len() as u64)?;
            }
        }
        Ok(())
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let (manager, draw) = (Self::open(session)?, Draw::new(&self.parameters));
        let computation = session.computation();
        for _ in 0..share.operations {
            if !recorder.go_on() {
                break;
            }
            // Drawn outside: the body may run more than once.
            let task = draw.task(&mut share.random);
            computation.charge(task.drawn() * computation::DRAW);
            let reserved = recorder
                .operation(task.kind(), || session.transaction(|tx| manager.perform(tx, &task)))?;
            self.reserved.fetch_add(reserved, Ordering::Relaxed);
        }
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let manager = Self::open(session)?;
        let used = session.read(|tx| check::agency(tx, manager, &mut |_| Ok(())))??;
        let reserved = self.reserved.load(Ordering::Relaxed);
        if used as i64 != reserved {
            let what = format!("{used} reservations are there, {reserved} were made and kept");
            return Err(Failure::Wrong(what));
        }
        Ok(())
    }
}
