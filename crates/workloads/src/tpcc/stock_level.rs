//! Stock-Level: of the items in a district's last orders, how many are nearly sold out.
//! Read-only.

use super::input::StockLevel;
use super::rows::{Key, Level, Line, NextId, Order};
use super::tables::Tables;
use crate::Records;
use perdura::Result;
use std::collections::BTreeSet;

/// How many of the last orders are looked at.
const ORDERS: u32 = 20;

pub(super) fn run<R: Records>(tables: &mut Tables<'_, R>, input: &StockLevel) -> Result<u32> {
    let StockLevel { warehouse, district, threshold } = *input;
    let next: NextId = tables.get(&Key::district(warehouse, district))?;
    let mut items = BTreeSet::new();
    for id in next.id.saturating_sub(ORDERS).max(1)..next.id {
        let order: Order = tables.get(&Key::order(warehouse, district, id))?;
        for number in 1..=order.lines.into() {
            let line: Line = tables.get(&Key::line(warehouse, district, id, number))?;
            items.insert(line.item);
        }
    }
    let mut low = 0;
    for item in items {
        let level: Level = tables.get(&Key::stock(warehouse, item))?;
        low += u32::from(level.quantity < threshold);
    }
    Ok(low)
}
