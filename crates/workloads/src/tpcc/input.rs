//! Inputs of transactions: drawn before they begin, since a body may run more than once.

use super::draw::{Constants, last_name, uniform};
use super::{Cents, Scale};
use crate::random::Random;

/// One New-Order in this many names an item that does not exist, and is rolled back.
const ROLLED_BACK: u64 = 100;
/// One line in this many comes from another warehouse.
const REMOTE_LINES: u64 = 100;
/// Of a hundred payments, those of another warehouse's customer.
const REMOTE_PAYMENTS: u64 = 15;
/// Of a hundred customers, those who say their last name instead of their number.
const BY_NAME: u64 = 60;

/// The input of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Orders some items: 45 of 100.
    NewOrder(NewOrder),
    /// Pays: 43 of 100.
    Payment(Payment),
    /// Looks at a customer's newest order: 4 of 100.
    OrderStatus(OrderStatus),
    /// Delivers the oldest order of each district: 4 of 100.
    Delivery(Delivery),
    /// Counts items that are nearly sold out: 4 of 100.
    StockLevel(StockLevel),
}

/// Orders some items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrder {
    pub(super) warehouse: u32,
    pub(super) district: u32,
    pub(super) customer: u32,
    pub(super) date: u64,
    pub(super) lines: Vec<Wanted>,
    /// Whether the last line's item does not exist, so that the order must be rolled back.
    pub(super) rolls_back: bool,
}

/// A line that is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) item: u32,
    /// The warehouse that it comes from.
    pub(super) supply: u32,
    pub(super) quantity: u8,
}

/// How a customer says who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Number(u32),
    Name([u8; 16]),
}

/// Pays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    pub(super) warehouse: u32,
    pub(super) district: u32,
    pub(super) customer_warehouse: u32,
    pub(super) customer_district: u32,
    pub(super) who: Who,
    pub(super) amount: Cents,
    pub(super) date: u64,
}

/// Looks at a customer's newest order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStatus {
    pub(super) warehouse: u32,
    pub(super) district: u32,
    pub(super) who: Who,
}

/// Delivers the oldest order of each district.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub(super) warehouse: u32,
    pub(super) carrier: u8,
    pub(super) date: u64,
}

/// Counts items that are nearly sold out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockLevel {
    pub(super) warehouse: u32,
    pub(super) district: u32,
    pub(super) threshold: u16,
}

/// Draws inputs.
#[derive(Clone, Copy, Debug)]
pub struct Desk {
    scale: Scale,
    constants: Constants,
    /// Whether new orders alone are drawn.
    new_orders: bool,
}

impl Desk {
    /// Inputs for data of this scale. The constants of the non-uniform numbers follow from
    /// `seed`, which must be that of the load.
    pub fn new(scale: Scale, seed: u64) -> Self {
        Desk { scale, constants: Constants::new(seed), new_orders: false }
    }

    /// The same with new orders alone.
    pub fn only_new_orders(self) -> Self {
        Desk { new_orders: true, ..self }
    }

    /// Draws the input of a customer of this warehouse on this date (from 1 on).
    pub fn draw(&self, random: &mut Random, warehouse: u32, date: u64) -> Input {
        if self.new_orders {
            return Input::NewOrder(self.new_order(random, warehouse, date));
        }
        match random.between(1, 100) {
            1..=4 => Input::StockLevel(self.stock_level(random, warehouse)),
            5..=8 => Input::Delivery(self.delivery(random, warehouse, date)),
            9..=12 => Input::OrderStatus(self.order_status(random, warehouse)),
            13..=55 => Input::Payment(self.payment(random, warehouse, date)),
            _ => Input::NewOrder(self.new_order(random, warehouse, date)),
        }
    }

    fn district(&self, random: &mut Random) -> u32 {
        uniform(random, 1, self.scale.districts)
    }

    fn who(&self, random: &mut Random) -> Who {
        if random.below(100) < BY_NAME {
            Who::Name(last_name(self.constants.name(random, self.scale)))
        } else {
            Who::Number(self.constants.customer(random, self.scale))
        }
    }

    /// Any warehouse but this one, if there is another.
    fn other(&self, random: &mut Random, warehouse: u32) -> u32 {
        if self.scale.warehouses == 1 {
            return warehouse;
        }
        let other = uniform(random, 1, self.scale.warehouses - 1);
        if other < warehouse { other } else { other + 1 }
    }

    fn new_order(&self, random: &mut Random, warehouse: u32, date: u64) -> NewOrder {
        let (least, most) = self.scale.lines;
        let count = uniform(random, least, most);
        let mut lines: Vec<Wanted> = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let line = self.wanted(random, warehouse, &lines);
            lines.push(line);
        }
        let rolls_back = random.below(ROLLED_BACK) == 0;
        if let (true, Some(last)) = (rolls_back, lines.last_mut()) {
            last.item = self.scale.items + 1;
        }
        let district = self.district(random);
        let customer = self.constants.customer(random, self.scale);
        NewOrder { warehouse, district, customer, date, lines, rolls_back }
    }

    /// A line of an item that is in no line before.
    fn wanted(&self, random: &mut Random, warehouse: u32, before: &[Wanted]) -> Wanted {
        let item = loop {
            let item = self.constants.item(random, self.scale);
            if before.iter().all(|line| line.item != item) {
                break item;
            }
        };
        let remote = random.below(REMOTE_LINES) == 0;
        let supply = if remote { self.other(random, warehouse) } else { warehouse };
        Wanted { item, supply, quantity: uniform(random, 1, 10) as u8 }
    }

    fn payment(&self, random: &mut Random, warehouse: u32, date: u64) -> Payment {
        let district = self.district(random);
        let remote = self.scale.warehouses > 1 && random.below(100) < REMOTE_PAYMENTS;
        let (customer_warehouse, customer_district) = if remote {
            (self.other(random, warehouse), self.district(random))
        } else {
            (warehouse, district)
        };
        Payment {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            who: self.who(random),
            amount: random.between(100, 500_000) as Cents,
            date,
        }
    }

    fn order_status(&self, random: &mut Random, warehouse: u32) -> OrderStatus {
        OrderStatus { warehouse, district: self.district(random), who: self.who(random) }
    }

    fn delivery(&self, random: &mut Random, warehouse: u32, date: u64) -> Delivery {
        Delivery { warehouse, carrier: uniform(random, 1, 10) as u8, date }
    }

    fn stock_level(&self, random: &mut Random, warehouse: u32) -> StockLevel {
        let threshold = uniform(random, 10, 20) as u16;
        StockLevel { warehouse, district: self.district(random), threshold }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_mixed_as_they_should_be() {
        let scale = Scale::small(3);
        let (desk, mut random) = (Desk::new(scale, 7), Random::new(7, 0));
        let (mut kinds, mut lines, mut remote, mut wrong) = ([0_u32; 5], 0, 0, 0);
        let (mut far, mut named) = (0, 0);
        for date in 1..=50_000 {
            match desk.draw(&mut random, 2, date) {
                Input::NewOrder(order) => {
                    kinds[0] += 1;
                    lines += order.lines.len();
                    remote += order.lines.iter().filter(|line| line.supply != 2).count();
                    wrong += u32::from(order.rolls_back);
                    let items = order.lines.iter().map(|line| line.item);
                    let distinct: std::collections::BTreeSet<u32> = items.collect();
                    assert_eq!(distinct.len(), order.lines.len());
                    assert_eq!(order.rolls_back, distinct.contains(&1001));
                }
                Input::Payment(payment) => {
                    kinds[1] += 1;
                    far += u32::from(payment.customer_warehouse != 2);
                    named += u32::from(matches!(payment.who, Who::Name(_)));
                }
                Input::OrderStatus(_) => kinds[2] += 1,
                Input::Delivery(_) => kinds[3] += 1,
                Input::StockLevel(_) => kinds[4] += 1,
            }
        }
        let near = |count: f64, of: f64, share: f64| {
            let found = count / of;
            assert!((found / share - 1.0).abs() < 0.15, "{found}, not {share}");
        };
        for (count, share) in kinds.into_iter().zip([0.45, 0.43, 0.04, 0.04, 0.04]) {
            near(count.into(), 50_000.0, share);
        }
        let [orders, payments] = [kinds[0], kinds[1]].map(f64::from);
        near(lines as f64, orders, 10.0);
        near(remote as f64, lines as f64, 0.01);
        near(wrong.into(), orders, 0.01);
        near(far.into(), payments, 0.15);
        near(named.into(), payments, 0.60);
    }
}
