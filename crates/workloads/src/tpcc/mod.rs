//! TPC-C: orders, payments and deliveries of a wholesaler with warehouses.
//!
//! The five transactions of TPC-C on its nine tables, as rows of [`Records`]: `rows` has their
//! names and columns. Keying and think times are dropped, so that rates are not tpmC. Each
//! transaction is one of the heap's; Order-Status and Stock-Level only read. One New-Order in a
//! hundred asks for an item that there is none of, and is rolled back after its work is done.
//!
//! [`check_consistency`] has TPC-C's conditions and four more; they hold between any two
//! transactions, so also after a power cut. The tables are also compared with the threads' sums.
//!
//! Reading order: [`Scale`], `rows`, `tables`, `load`, `input`, then the transactions
//! (`new_order`, `payment`, `order_status`, `delivery`, `stock_level`), `check`; `reuse` apart.

mod check;
mod delivery;
mod draw;
mod input;
mod load;
mod new_order;
mod order_status;
mod payment;
mod reuse;
mod rows;
mod scale;
#[cfg(feature = "sqlite")]
pub mod sql;
mod stock_level;
mod tables;
mod tally;
#[cfg(test)]
mod tests;

pub use check::{Condition, Violation, check_consistency, check_loaded};
pub use input::{Desk, Input};
pub use load::{Batch, Loader};
pub use scale::{Cents, Scale};

use crate::list::{self, Given, Listed, OnWorkload, Parameter, Row, Usual};
use crate::records::{Plain, Rooted};
use crate::{Failure, Outcome, Progress, Recorder, Records, Session, Share, Workload};
use check::Survey;
use perdura::{Error, Result, Tx};
use std::marker::PhantomData;
use tables::Tables;
use tally::{Tally, TransactionEffect};

/// The workload, on tables in a pool's one store `R`.
#[derive(Debug)]
pub struct Tpcc<R> {
    scale: Scale,
    loader: Loader,
    desk: Desk,
    tally: Tally,
    of: PhantomData<fn() -> R>,
}

impl<R: Rooted> Tpcc<R> {
    /// A workload that has not been loaded. The first rows and the constants of non-uniform
    /// numbers follow from `seed`; the transactions, from the run's.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(scale: Scale, seed: u64) -> Outcome<Self> {
        scale.validate()?;
        let (loader, desk) = (Loader::new(scale, seed), Desk::new(scale, seed));
        Ok(Tpcc { scale, loader, desk, tally: Tally::default(), of: PhantomData })
    }

    /// The same with new orders alone, if so.
    fn mixed(self, new_orders: bool) -> Self {
        let desk = if new_orders { self.desk.only_new_orders() } else { self.desk };
        Tpcc { desk, ..self }
    }

    fn records<S: Session>(&self, session: &mut S) -> Outcome<R> {
        let records = session.read(|tx| R::find(tx))?;
        records.ok_or_else(|| Failure::wrong("TPC-C's tables are gone"))
    }

    /// The conditions that hold right after the load only, and all others.
    ///
    /// # Errors
    /// `Wrong` where one does not hold.
    pub fn check_loaded<S: Session>(&self, session: &mut S) -> Outcome {
        let records = self.records(session)?;
        verdict(&session.read(|tx| check_loaded(tx, &records, self.scale))?)
    }

    fn transact<S: Session, T: Records>(
        &self,
        session: &mut S,
        records: &T,
        input: &Input,
    ) -> Outcome<TransactionEffect> {
        let scale = self.scale;
        let done = if input.only_reads() {
            session.read(|tx| input.run(tx, records, scale))
        } else {
            session.transaction(|tx| input.run(tx, records, scale))
        };
        match done {
            Ok(_) if input.rolls_back() => {
                Err(Failure::wrong("an order of an item that there is none of was accepted"))
            }
            Ok(done) => Ok(done),
            Err(Error::Aborted(_)) if input.rolls_back() => Ok(TransactionEffect::RolledBack),
            Err(Error::Aborted(why)) => Err(Failure::wrong(format!("an order was refused: {why}"))),
            Err(error) => Err(error.into()),
        }
    }
}

impl Input {
    /// Its place in [`Workload::KINDS`].
    fn kind(&self) -> usize {
        match self {
            Input::NewOrder(_) => 0,
            Input::Payment(_) => 1,
            Input::OrderStatus(_) => 2,
            Input::Delivery(_) => 3,
            Input::StockLevel(_) => 4,
        }
    }

    /// Whether it needs no transaction that writes.
    pub fn only_reads(&self) -> bool {
        matches!(self, Input::OrderStatus(_) | Input::StockLevel(_))
    }

    /// Whether it ends with `Aborted`, because its input asks for an item that does not exist.
    pub fn rolls_back(&self) -> bool {
        matches!(self, Input::NewOrder(order) if order.rolls_back)
    }

    /// Does it, in the transaction.
    ///
    /// # Errors
    /// `Aborted` for an order of an item that there is none of; `Corrupt` where a row is missing;
    /// as the transaction.
    pub fn apply<R: Records>(&self, tx: &mut dyn Tx, records: &R, scale: Scale) -> Result<()> {
        self.run(tx, records, scale).map(drop)
    }

    fn run<R: Records>(
        &self,
        tx: &mut dyn Tx,
        records: &R,
        scale: Scale,
    ) -> Result<TransactionEffect> {
        let mut tables = Tables { tx, records };
        Ok(match self {
            Input::NewOrder(input) => {
                new_order::run(&mut tables, input)?;
                TransactionEffect::NewOrder { lines: input.lines.len() as u64 }
            }
            Input::Payment(input) => {
                payment::run(&mut tables, input)?;
                TransactionEffect::Payment { amount: input.amount }
            }
            Input::OrderStatus(input) => {
                order_status::run(&mut tables, input)?;
                TransactionEffect::OrderStatus
            }
            Input::Delivery(input) => {
                let orders = delivery::run(&mut tables, input, scale.districts)?;
                TransactionEffect::Delivery { orders: orders.into() }
            }
            Input::StockLevel(input) => {
                stock_level::run(&mut tables, input)?;
                TransactionEffect::StockLevel
            }
        })
    }
}

/// The first violations, as a failure.
fn verdict(violations: &[Violation]) -> Outcome {
    const SHOWN: usize = 3;
    if violations.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = violations.iter().take(SHOWN).map(Violation::to_string).collect();
    let more = match violations.len() - shown.len() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Err(Failure::Wrong(shown.join("; ") + &more))
}

/// The warehouses whose customers a thread serves: each has a thread of its own, or a thread
/// several.
fn warehouse_of(share: &mut Share, scale: Scale) -> u32 {
    let (thread, threads) = (share.thread as u64, share.threads as u64);
    let warehouses = u64::from(scale.warehouses);
    if threads >= warehouses {
        return (thread % warehouses) as u32 + 1;
    }
    let own = (warehouses - thread).div_ceil(threads);
    (thread + threads * share.random.below(own)) as u32 + 1
}

const NEW_ORDER: &str = "new-order";

/// The workload in the list.
pub struct Shop;

impl Listed for Shop {
    const ROW: Row = Row {
        name: "tpcc",
        line: "TPC-C, without keying and think times, so that its rates are no tpmC",
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
            Parameter {
                name: list::OVER,
                line: "where the tables are: store, which is what the server keeps, or plain, the heap's own collections",
                usual: Usual::OneOf(&["store", "plain"]),
            },
            Parameter {
                name: list::MIX,
                line: "standard, TPC-C's five transactions, or new-order alone",
                usual: Usual::OneOf(&[list::STANDARD_MIX, NEW_ORDER]),
            },
        ],
        operations: |_| 100_000,
        rolls_back: |_| true,
        roots: &[],
    };

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let warehouses = u32::try_from(given.entries()).unwrap_or(u32::MAX);
        let scale = match given.values.name("scale") {
            "full" => Scale::full(warehouses),
            _ => Scale::small(warehouses),
        };
        scale.validate()?;
        let bytes = scale.bytes_after(given.operations);
        let new_orders = given.values.name(list::MIX) == NEW_ORDER;
        Ok(match given.values.name(list::OVER) {
            "plain" => code.run(Tpcc::<Plain>::new(scale, given.seed)?.mixed(new_orders), bytes),
            _ => code.run(Tpcc::<C::Store>::new(scale, given.seed)?.mixed(new_orders), bytes),
        })
    }
}

impl<R: Rooted> Workload for Tpcc<R> {
    const KINDS: &'static [&'static str] =
        &["new-order", "payment", "order-status", "delivery", "stock-level"];

    fn rolls_back(&self) -> bool {
        true
    }

    /// Orders count with their lines, and customers with their first payments.
    fn load_size(&self) -> u64 {
        self.loader.batches().map(|batch| batch.rows()).sum()
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let records = session.transaction(|tx| R::create(tx))?;
        for batch in self.loader.batches() {
            session.transaction(|tx| self.loader.load(tx, &records, &batch))?;
            progress.loaded(batch.rows())?;
        }
        Ok(())
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let records = self.records(session)?;
        for number in 1..=share.operations {
            if !recorder.go_on() {
                break;
            }
            let warehouse = warehouse_of(&mut share, self.scale);
            // The date is a counter of the thread: a clock would make every run different.
            let input = self.desk.draw(&mut share.random, warehouse, load::FIRST_DATE + number);
            let kind = input.kind();
            let done = recorder.operation(kind, || self.transact(session, &records, &input))?;
            self.tally.note(done);
        }
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let records = self.records(session)?;
        let survey = session.read(|tx| Survey::of(tx, &records, self.scale))?;
        verdict(&survey.violations())?;
        self.tally.compare(&survey)
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let committed = Self::KINDS.iter().copied().zip(self.tally.committed());
        committed.chain([("rolled back", self.tally.rolled_back())]).collect()
    }
}
