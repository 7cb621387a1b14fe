//! Order-Status: a customer's balance, and the lines of their newest order. Read-only.

use super::Cents;
use super::input::OrderStatus;
use super::payment::find_customer;
use super::rows::{Account, Carrier, CustomerInfo, Delivered, Key, Line, Order};
use super::tables::Tables;
use crate::Records;
use perdura::Result;

/// The result for the customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) last: [u8; 16],
    pub(super) balance: Cents,
    /// The newest order, if there is one.
    pub(super) order: Option<Newest>,
}

/// A customer's newest order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Newest {
    pub(super) id: u32,
    /// 0: none yet.
    pub(super) carrier: u8,
    /// The lines, with when they were delivered.
    pub(super) lines: Vec<(Line, u64)>,
}

pub(super) fn run<R: Records>(tables: &mut Tables<'_, R>, input: &OrderStatus) -> Result<Status> {
    let OrderStatus { warehouse, district, who } = *input;
    let customer = find_customer(tables, warehouse, district, who)?;
    let row = Key::customer(warehouse, district, customer);
    let (info, account): (CustomerInfo, Account) = (tables.get(&row)?, tables.get(&row)?);
    let newest = tables.first(&Key::orders_of(warehouse, district, customer))?;
    let order = match newest {
        Some(order) => Some(read_order(tables, warehouse, district, order)?),
        None => None,
    };
    Ok(Status { last: info.last, balance: account.balance, order })
}

fn read_order<R: Records>(
    tables: &mut Tables<'_, R>,
    warehouse: u32,
    district: u32,
    id: u32,
) -> Result<Newest> {
    let row = Key::order(warehouse, district, id);
    let (order, carrier): (Order, Carrier) = (tables.get(&row)?, tables.get(&row)?);
    let mut lines = Vec::with_capacity(order.lines.into());
    for number in 1..=order.lines.into() {
        let line = Key::line(warehouse, district, id, number);
        lines.push((tables.get(&line)?, tables.get::<Delivered>(&line)?.date));
    }
    Ok(Newest { id, carrier: carrier.carrier, lines })
}
