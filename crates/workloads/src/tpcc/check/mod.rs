//! TPC-C's consistency conditions, which hold between any two transactions.
//!
//! [`survey`] reads all tables once; [`conditions`] compares the facts found.

mod conditions;
mod survey;

pub(super) use survey::{Survey, Totals};

use super::Scale;
use crate::Records;
use perdura::{Result, Tx};
use std::fmt;

/// The conditions: TPC-C's by their numbers (clause 3.3.2), and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// 1: a warehouse's payments are the sum of its districts'.
    WarehouseYtd = 1,
    /// 2: a district's next order number follows its last order's, which is the last new one's.
    NextOrder = 2,
    /// 3: a district's new orders have no gap.
    NewOrders = 3,
    /// 4: a district has the lines that its orders say they have.
    Lines = 4,
    /// 5: an order has no carrier if and only if it is a new order.
    Carriers = 5,
    /// 6: an order has the lines that it says it has.
    OrderLines = 6,
    /// 7: a line has no delivery date if and only if its order has no carrier.
    DeliveryDates = 7,
    /// 8: a warehouse was paid the sum of its history.
    WarehouseHistory = 8,
    /// 9: a district was paid the sum of its history.
    DistrictHistory = 9,
    /// 10: a balance is the sum of the delivered lines less the payments in the history.
    Balance = 10,
    /// 11: of a district's orders, all but the last 900 are delivered; after the load only.
    Undelivered = 11,
    /// 12: balance and payments of a customer add up to the delivered lines.
    Payments = 12,
    /// Besides: stocks count the orders of them since the load.
    Stocks = 13,
    /// Besides: no order number is left out, and there are no rows of orders that do not exist.
    Orders = 14,
    /// Besides: a customer's deliveries are as many as their delivered orders.
    Deliveries = 16,
    /// Besides: rows that others refer to are there, and indexes have all rows and no others.
    Rows = 15,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Stocks => f.write_str("the stocks' condition"),
            Condition::Orders => f.write_str("the order numbers' condition"),
            Condition::Deliveries => f.write_str("the deliveries' condition"),
            Condition::Rows => f.write_str("the rows' condition"),
            numbered => write!(f, "condition {}", *numbered as u8),
        }
    }
}

/// Where a condition does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub condition: Condition,
    /// The place, and the finding.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TPC-C: {} does not hold: {}", self.condition, self.what)
    }
}

/// All violations of the conditions, except of the one that holds after the load only. Needs no knowledge
/// of the transactions.
///
/// # Errors
/// `Corrupt` where a row has columns that it cannot have; as the transaction.
pub fn check_consistency<R: Records>(
    tx: &mut dyn Tx,
    records: &R,
    scale: Scale,
) -> Result<Vec<Violation>> {
    Ok(Survey::of(tx, records, scale)?.violations())
}

/// The same, and the condition that holds after the load only.
///
/// # Errors
/// As [`check_consistency`].
pub fn check_loaded<R: Records>(
    tx: &mut dyn Tx,
    records: &R,
    scale: Scale,
) -> Result<Vec<Violation>> {
    let survey = Survey::of(tx, records, scale)?;
    let mut violations = survey.violations();
    violations.extend(survey.undelivered());
    Ok(violations)
}
