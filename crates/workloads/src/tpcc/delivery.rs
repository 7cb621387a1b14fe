//! Delivery: the oldest order of each of a warehouse's districts, all in one transaction.

use super::Cents;
use super::input::Delivery;
use super::rows::{Account, Carrier, Delivered, Key, Line, Order};
use super::tables::Tables;
use crate::Records;
use perdura::Result;

/// Delivers, and returns how many districts had something to deliver.
pub(super) fn run<R: Records>(
    tables: &mut Tables<'_, R>,
    input: &Delivery,
    districts: u32,
) -> Result<u32> {
    let mut delivered = 0;
    for district in 1..=districts {
        let waiting = Key::new_orders(input.warehouse, district);
        if let Some(order) = tables.first(&waiting)? {
            tables.take(&waiting, order)?;
            deliver(tables, input, district, order)?;
            delivered += 1;
        }
    }
    Ok(delivered)
}

fn deliver<R: Records>(
    tables: &mut Tables<'_, R>,
    input: &Delivery,
    district: u32,
    id: u32,
) -> Result<()> {
    let Delivery { warehouse, carrier, date } = *input;
    let row = Key::order(warehouse, district, id);
    let order: Order = tables.get(&row)?;
    tables.put(&row, &Carrier { carrier })?;
    let mut sum: Cents = 0;
    for number in 1..=order.lines.into() {
        let line = Key::line(warehouse, district, id, number);
        sum = sum.wrapping_add(tables.get::<Line>(&line)?.amount);
        tables.put(&line, &Delivered { date })?;
    }
    let row = Key::customer(warehouse, district, order.customer);
    let account: Account = tables.get(&row)?;
    let account = Account {
        balance: account.balance.wrapping_add(sum),
        deliveries: account.deliveries.wrapping_add(1),
        ..account
    };
    tables.put(&row, &account)
}
