//! How much data there is.

use crate::{Failure, Outcome};

/// Money, in cents.
pub type Cents = i64;

/// The maximum number of lines of an order.
pub(super) const MOST_LINES: u32 = 15;
/// The payments of each customer before the first transaction.
pub(super) const FIRST_PAYMENT: Cents = 1_000;

/// Approximate bytes that a transaction adds: an order has ten lines, and 45 of 100 transactions are orders.
const BYTES_PER_TX: u64 = 1536;

/// How many rows of each kind there are at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses.
    pub warehouses: u32,
    /// Districts of a warehouse, 10 at most.
    pub districts: u32,
    /// Customers of a district, each with one order at first.
    pub customers: u32,
    /// Items; every warehouse has a stock of each.
    pub items: u32,
    /// The last of a district's first orders, which are not delivered yet.
    pub new_orders: u32,
    /// Lines of an order: at least, and 15 at most.
    pub lines: (u32, u32),
}

impl Scale {
    /// TPC-C as it is: about 70 MB of rows for a warehouse.
    pub const fn full(warehouses: u32) -> Self {
        Scale {
            warehouses,
            districts: 10,
            customers: 3000,
            items: 100_000,
            new_orders: 900,
            lines: (5, MOST_LINES),
        }
    }

    /// The same shape, about fiftyfold smaller.
    pub const fn small(warehouses: u32) -> Self {
        Scale { customers: 60, items: 1000, new_orders: 18, ..Scale::full(warehouses) }
    }

    /// Whether the transactions can run on it.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn validate(self) -> Outcome {
        let Scale { warehouses, districts, customers, items, new_orders, lines } = self;
        let sound = (1..=10_000).contains(&warehouses)
            && (1..=10).contains(&districts)
            && (1..=1_000_000).contains(&customers)
            && (1..=customers).contains(&new_orders)
            && (1..=lines.1).contains(&lines.0)
            && lines.1 <= MOST_LINES
            && (lines.1..=1_000_000).contains(&items);
        if sound {
            return Ok(());
        }
        let what = "TPC-C needs 1 to 10,000 warehouses, 1 to 10 districts in each, a customer, \
                    a new order for each customer at most, and more items than lines in an order";
        Err(Failure::Parameters(what.to_owned()))
    }

    /// The amount paid to a district at first: ten from each customer.
    pub(super) const fn district_ytd(self) -> Cents {
        FIRST_PAYMENT * self.customers as Cents
    }

    /// The amount paid to a warehouse at first.
    pub(super) const fn warehouse_ytd(self) -> Cents {
        self.district_ytd() * self.districts as Cents
    }

    /// The first of a district's orders that are not delivered yet.
    pub(super) const fn first_new_order(self) -> u32 {
        self.customers - self.new_orders + 1
    }

    /// Last names that customers have: the first thousand have one each.
    pub(super) const fn names(self) -> u32 {
        if self.customers < 1000 { self.customers } else { 1000 }
    }

    /// Bytes that a pool needs for the first rows with their keys, about.
    pub fn bytes(self) -> u64 {
        let districts = u64::from(self.warehouses) * u64::from(self.districts);
        let lines = u64::from(self.lines.0 + self.lines.1) / 2;
        // For a customer: the row, a payment, an order with its lines, and the indexes.
        let customer = 768 + 192 + 192 + lines * 192 + 512;
        let stocks = u64::from(self.warehouses) * u64::from(self.items) * 448;
        districts * u64::from(self.customers) * customer + stocks + u64::from(self.items) * 256
    }

    /// The same after this many transactions.
    pub fn bytes_after(self, transactions: u64) -> u64 {
        self.bytes().saturating_add(transactions.saturating_mul(BYTES_PER_TX))
    }
}
