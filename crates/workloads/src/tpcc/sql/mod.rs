//! TPC-C in SQL: the nine tables with their keys and two indexes, and the five transactions, each with the statements
//! of the specification.
//!
//! Inputs are those of [`Desk`], so that the same seed gives the same orders and payments as on keyed records. Money is in
//! cents. A New-Order that asks for an item that does not exist is rolled back after its work is done.

mod check;
mod load;
#[cfg(test)]
mod tests;
mod transactions;

use super::input::{Desk, Input};
use super::load::FIRST_DATE;
use super::tally::{Tally, TransactionEffect};
use super::{Scale, warehouse_of};
use crate::list::{self, Given, Listed, OnWorkload, Parameter, Row, Usual};
use crate::sql::{InPool, Program, reading, writing};
use crate::{Failure, Outcome, Progress, Recorder, Share};
use rusqlite::Connection;
use transactions::NO_ITEM;

/// The program.
pub struct TpccInSql {
    scale: Scale,
    seed: u64,
    desk: Desk,
    tally: Tally,
}

impl TpccInSql {
    /// With rows of this scale. They, and the constants of non-uniform numbers, follow from `seed`.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(scale: Scale, seed: u64) -> Outcome<Self> {
        scale.validate()?;
        Ok(TpccInSql { scale, seed, desk: Desk::new(scale, seed), tally: Tally::default() })
    }

    fn transact(&self, db: &Connection, input: &Input) -> Outcome<TransactionEffect> {
        let run = || transactions::run(db, input, self.scale);
        let done = if input.only_reads() { reading(db, run) } else { writing(db, run) };
        match done {
            Ok(_) if input.rolls_back() => {
                Err(Failure::wrong("an order of an item that there is none of was accepted"))
            }
            Err(Failure::Wrong(what)) if input.rolls_back() && what == NO_ITEM => {
                Ok(TransactionEffect::RolledBack)
            }
            done => done,
        }
    }
}

impl Program for TpccInSql {
    const KINDS: &'static [&'static str] =
        &["new-order", "payment", "order-status", "delivery", "stock-level"];

    fn load_size(&self) -> u64 {
        load::rows(self.scale)
    }

    fn load(&self, db: &Connection, progress: &Progress) -> Outcome {
        load::load(db, self.scale, self.seed, progress)
    }

    fn run_thread(
        &self,
        db: &Connection,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        for number in 1..=share.operations {
            if !recorder.go_on() {
                break;
            }
            let warehouse = warehouse_of(&mut share, self.scale);
            let input = self.desk.draw(&mut share.random, warehouse, FIRST_DATE + number);
            let done = recorder.operation(input.kind(), || self.transact(db, &input))?;
            self.tally.note(done);
        }
        Ok(())
    }

    fn check(&self, db: &Connection) -> Outcome {
        check::conditions(db)?;
        self.tally.compare_totals(check::totals(db, self.scale)?)
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let committed = Self::KINDS.iter().copied().zip(self.tally.committed());
        committed.chain([("rolled back", self.tally.rolled_back())]).collect()
    }
}

impl Listed for TpccInSql {
    const ROW: Row = Row {
        name: "sqlite-tpcc",
        line: "TPC-C in SQL on SQLite in the pool, without keying and think times",
        parameters: &[
            Parameter {
                name: list::ENTRIES,
                line: "warehouses",
                usual: Usual::Follows("one for each thread", |_, threads| Some(threads as u64)),
            },
            Parameter {
                name: "scale",
                line: "rows: full, as TPC-C has them, or small, about fiftyfold fewer",
                usual: Usual::OneOf(&["small", "full"]),
            },
        ],
        operations: |_| 20_000,
        rolls_back: |_| false,
        roots: &[],
    };

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let warehouses = u32::try_from(given.entries()).unwrap_or(u32::MAX);
        let scale = match given.values.name("scale") {
            "full" => Scale::full(warehouses),
            _ => Scale::small(warehouses),
        };
        let bytes = scale.bytes_after(given.operations);
        Ok(code.run(InPool::new(TpccInSql::new(scale, given.seed)?), bytes))
    }
}
