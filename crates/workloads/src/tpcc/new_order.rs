//! New-Order: a district's next order, its lines, and the amounts that they take from the stocks.

use super::Cents;
use super::draw::is_original;
use super::input::{NewOrder, Wanted};
use super::rows::{
    Carrier, CustomerInfo, Delivered, Districts, Group, Info, Item, Key, Level, Line, NextId,
    Order, StockData,
};
use super::tables::Tables;
use crate::Records;
use perdura::{Result, TxExt};

/// The result for the customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ordered {
    /// The order's number.
    pub(super) order: u32,
    /// Its total, discount and taxes included.
    pub(super) total: Cents,
    /// Of each line, whether it is of a brand.
    pub(super) brands: Vec<bool>,
}

pub(super) fn run<R: Records>(tables: &mut Tables<'_, R>, input: &NewOrder) -> Result<Ordered> {
    let NewOrder { warehouse, district, customer, .. } = *input;
    let home: Info = tables.get(&Key::warehouse(warehouse))?;
    let (here, order) = next_order(tables, warehouse, district)?;
    let buyer: CustomerInfo = tables.get(&Key::customer(warehouse, district, customer))?;
    insert_order(tables, input, order)?;
    let (mut sum, mut brands) = (0, Vec::with_capacity(input.lines.len()));
    for (number, line) in (1..).zip(&input.lines) {
        let (amount, brand) = add_line(tables, input, order, number, line)?;
        sum += amount;
        brands.push(brand);
    }
    let taxes = Cents::from(home.tax) + Cents::from(here.tax);
    Ok(Ordered { order, total: total(sum, buyer.discount.into(), taxes), brands })
}

/// The sum less the discount, with the taxes, both in hundredths of a per cent; rounded.
pub(super) const fn total(sum: Cents, discount: i64, taxes: i64) -> Cents {
    // A damaged pool may have any value: it must not overflow.
    const WHOLE: i128 = 10_000;
    let taxed = sum as i128 * (WHOLE - discount as i128) * (WHOLE + taxes as i128);
    ((taxed + WHOLE * WHOLE / 2) / (WHOLE * WHOLE)) as Cents
}

/// Takes the district's next order number.
fn next_order<R: Records>(
    tables: &mut Tables<'_, R>,
    warehouse: u32,
    district: u32,
) -> Result<(Info, u32)> {
    let row = Key::district(warehouse, district);
    let (info, next) = (tables.get(&row)?, tables.get::<NextId>(&row)?);
    tables.put(&row, &NextId { id: next.id.wrapping_add(1) })?;
    Ok((info, next.id))
}

/// The order's row, and its places in NEW_ORDER and in the index of the customer's orders.
fn insert_order<R: Records>(
    tables: &mut Tables<'_, R>,
    input: &NewOrder,
    order: u32,
) -> Result<()> {
    let NewOrder { warehouse, district, customer, date, .. } = *input;
    let local = input.lines.iter().all(|line| line.supply == warehouse);
    let row = Order { customer, date, lines: input.lines.len() as u8, all_local: local.into() };
    let fields = [row.field(), Carrier { carrier: 0 }.field()];
    tables.insert(&Key::order(warehouse, district, order), &fields)?;
    tables.add(&Key::new_orders(warehouse, district), order.into(), order)?;
    tables.add(&Key::orders_of(warehouse, district, customer), -f64::from(order), order)
}

/// Adds a line and takes it from its stock. Returns its price, and whether it is of a brand.
fn add_line<R: Records>(
    tables: &mut Tables<'_, R>,
    input: &NewOrder,
    order: u32,
    number: u32,
    wanted: &Wanted,
) -> Result<(Cents, bool)> {
    let NewOrder { warehouse, district, .. } = *input;
    let Some(item) = tables.find::<Item>(&Key::item(wanted.item))? else {
        return tables.tx.abort("there is no item with this number");
    };
    let stock = Key::stock(wanted.supply, wanted.item);
    let level: Level = tables.get(&stock)?;
    tables.put(&stock, &taken(&level, wanted.quantity, wanted.supply != warehouse))?;
    let (texts, data): (Districts, StockData) = (tables.get(&stock)?, tables.get(&stock)?);
    let text = texts.texts.as_chunks().0[district as usize - 1];
    let amount = Cents::from(wanted.quantity) * Cents::from(item.price);
    let Wanted { item: id, supply, quantity } = *wanted;
    let line = Line { item: id, supply, quantity, amount, district: text };
    let fields = [line.field(), Delivered { date: 0 }.field()];
    tables.insert(&Key::line(warehouse, district, order, number), &fields)?;
    Ok((amount, is_original(&item.data) && is_original(&data.data)))
}

/// A stock after an order: it is filled up by 91 before it falls below ten.
fn taken(level: &Level, quantity: u8, remote: bool) -> Level {
    let ordered = u16::from(quantity);
    let left = if level.quantity >= ordered + 10 {
        level.quantity - ordered
    } else {
        (level.quantity + 91).saturating_sub(ordered)
    };
    Level {
        quantity: left,
        ytd: level.ytd.wrapping_add(quantity.into()),
        orders: level.orders.wrapping_add(1),
        remote: level.remote.wrapping_add(remote.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stocks_are_filled_up() {
        let of = |quantity| Level { quantity, ytd: 5, orders: 1, remote: 0 };
        let left = Level { quantity: 10, ytd: 15, orders: 2, remote: 1 };
        assert_eq!(taken(&of(20), 10, true), left);
        assert_eq!(taken(&of(19), 10, false), Level { quantity: 100, remote: 0, ..left });
    }

    #[test]
    fn totals_are_rounded_cents() {
        assert_eq!(total(10_000, 0, 0), 10_000);
        assert_eq!(total(10_000, 5_000, 2_000 + 2_000), 7_000);
        assert_eq!(total(3, 5_000, 0), 2);
        // The largest order: 15 lines of 10 items of 100.00.
        assert_eq!(total(1_500_000, 0, 4_000), 2_100_000);
    }
}
