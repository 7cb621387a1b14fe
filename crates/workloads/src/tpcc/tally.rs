//! Sums over all threads' transactions.

use super::Cents;
use super::check::{Survey, Totals};
use crate::{Failure, Outcome};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The effects of a durable transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionEffect {
    NewOrder {
        lines: u64,
    },
    /// A New-Order that was to be rolled back.
    RolledBack,
    Payment {
        amount: Cents,
    },
    OrderStatus,
    Delivery {
        orders: u64,
    },
    StockLevel,
}

/// Sums over all threads.
#[derive(Debug, Default)]
pub(super) struct Tally {
    new_orders: AtomicU64,
    lines: AtomicU64,
    rolled_back: AtomicU64,
    payments: AtomicU64,
    paid: AtomicU64,
    order_statuses: AtomicU64,
    deliveries: AtomicU64,
    delivered: AtomicU64,
    stock_levels: AtomicU64,
}

impl Tally {
    pub(super) fn note(&self, done: TransactionEffect) {
        let add = |sum: &AtomicU64, more: u64| {
            sum.fetch_add(more, Relaxed);
        };
        match done {
            TransactionEffect::NewOrder { lines } => {
                add(&self.new_orders, 1);
                add(&self.lines, lines);
            }
            TransactionEffect::RolledBack => add(&self.rolled_back, 1),
            TransactionEffect::Payment { amount } => {
                add(&self.payments, 1);
                add(&self.paid, amount as u64);
            }
            TransactionEffect::OrderStatus => add(&self.order_statuses, 1),
            TransactionEffect::Delivery { orders } => {
                add(&self.deliveries, 1);
                add(&self.delivered, orders);
            }
            TransactionEffect::StockLevel => add(&self.stock_levels, 1),
        }
    }

    /// Committed transactions of each kind.
    pub(super) fn committed(&self) -> [u64; 5] {
        let kinds = [
            &self.new_orders,
            &self.payments,
            &self.order_statuses,
            &self.deliveries,
            &self.stock_levels,
        ];
        kinds.map(|kind| kind.load(Relaxed))
    }

    /// New-Orders that were rolled back.
    pub(super) fn rolled_back(&self) -> u64 {
        self.rolled_back.load(Relaxed)
    }

    /// Compares the changes since the load with the threads' sums.
    pub(super) fn compare(&self, survey: &Survey) -> Outcome {
        self.compare_totals(survey.totals())
    }

    /// The same with the changes summed up.
    pub(super) fn compare_totals(&self, totals: Totals) -> Outcome {
        let Totals { orders, lines, payments, paid, delivered } = totals;
        for (what, found, expected) in [
            ("orders", orders, &self.new_orders),
            ("lines of orders", lines, &self.lines),
            ("payments", payments, &self.payments),
            ("cents paid", paid, &self.paid),
            ("deliveries", delivered, &self.delivered),
        ] {
            let expected = expected.load(Relaxed);
            if found != i128::from(expected) {
                return Err(Failure::Wrong(format!(
                    "{found} {what} have come since the load, and {expected} were committed"
                )));
            }
        }
        Ok(())
    }
}
