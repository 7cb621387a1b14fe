//! All tables, as sums and short facts.

use super::{Condition, Violation};
use crate::Records;
use crate::tpcc::rows::{
    Account, Carrier, CustomerInfo, Delivered, Key, Level, Line, NextId, Order, Payment, Ytd,
};
use crate::tpcc::tables::Tables;
use crate::tpcc::{Cents, Scale};
use perdura::{Result, Tx};
use std::collections::{BTreeMap, BTreeSet};

/// The contents of all tables.
#[derive(Debug)]
pub(in crate::tpcc) struct Survey {
    pub(super) scale: Scale,
    pub(super) warehouses: Vec<Warehouse>,
    /// Faults found while reading: missing rows.
    pub(super) faults: Vec<Violation>,
}

#[derive(Debug, Default)]
pub(super) struct Warehouse {
    pub(super) ytd: Cents,
    pub(super) districts: Vec<District>,
    /// Orders by its stocks' counts.
    pub(super) stocked: Ordered,
    /// Orders of its stocks by the lines since the load.
    pub(super) ordered: Ordered,
}

/// Lines, units and lines from other warehouses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ordered {
    pub(super) lines: u64,
    pub(super) units: u64,
    pub(super) remote: u64,
}

#[derive(Debug, Default)]
pub(super) struct District {
    pub(super) ytd: Cents,
    /// Payments to it by the history.
    pub(super) paid: Cents,
    pub(super) next: u32,
    pub(super) new_orders: BTreeSet<u32>,
    pub(super) orders: BTreeMap<u32, OrderFacts>,
    pub(super) customers: Vec<Customer>,
}

#[derive(Debug, Default)]
pub(super) struct OrderFacts {
    /// `None` if there are only lines.
    pub(super) row: Option<(Order, u8)>,
    pub(super) lines: u32,
    pub(super) delivered_lines: u32,
    pub(super) amount: Cents,
}

#[derive(Debug, Default)]
pub(super) struct Customer {
    pub(super) balance: Cents,
    pub(super) ytd_payment: Cents,
    pub(super) payments: u32,
    pub(super) deliveries: u32,
    /// Payments by the history.
    pub(super) paid: Cents,
    /// The sum of the lines of their delivered orders.
    pub(super) delivered: Cents,
    /// How many orders were delivered since the load.
    pub(super) delivered_orders: u32,
}

/// Everything added since the load.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::tpcc) struct Totals {
    pub(in crate::tpcc) orders: i128,
    pub(in crate::tpcc) lines: i128,
    pub(in crate::tpcc) payments: i128,
    pub(in crate::tpcc) paid: i128,
    pub(in crate::tpcc) delivered: i128,
}

impl Survey {
    /// Reads everything.
    ///
    /// # Errors
    /// As [`check_consistency`](super::check_consistency).
    pub(in crate::tpcc) fn of<R: Records>(
        tx: &mut dyn Tx,
        records: &R,
        scale: Scale,
    ) -> Result<Self> {
        let district = |_| District::default();
        let warehouse = |_| Warehouse {
            districts: (0..scale.districts).map(district).collect(),
            ..Warehouse::default()
        };
        let warehouses = (0..scale.warehouses).map(warehouse).collect();
        let survey = Survey { scale, warehouses, faults: Vec::new() };
        let mut surveyor = Surveyor { tables: Tables { tx, records }, survey };
        for w in 1..=scale.warehouses {
            surveyor.warehouse(w)?;
        }
        Ok(surveyor.survey)
    }

    /// Everything added since the load.
    pub(in crate::tpcc) fn totals(&self) -> Totals {
        let (scale, mut totals) = (self.scale, Totals::default());
        for warehouse in &self.warehouses {
            totals.lines += i128::from(warehouse.ordered.lines);
            totals.paid += i128::from(warehouse.ytd) - i128::from(scale.warehouse_ytd());
            for district in &warehouse.districts {
                totals.orders += district.orders.len() as i128 - i128::from(scale.customers);
                for customer in &district.customers {
                    totals.payments += i128::from(customer.payments) - 1;
                    totals.delivered += i128::from(customer.deliveries);
                }
            }
        }
        totals
    }

    /// A district by its numbers, if there can be one.
    fn district_mut(&mut self, w: u32, d: u32) -> Option<&mut District> {
        let warehouse = self.warehouses.get_mut((w as usize).checked_sub(1)?)?;
        warehouse.districts.get_mut((d as usize).checked_sub(1)?)
    }
}

struct Surveyor<'a, R> {
    tables: Tables<'a, R>,
    survey: Survey,
}

impl<R: Records> Surveyor<'_, R> {
    fn fault(&mut self, condition: Condition, what: String) {
        self.survey.faults.push(Violation { condition, what });
    }

    fn missing(&mut self, what: &str, row: &Key) {
        let row = String::from_utf8_lossy(row).into_owned();
        self.fault(Condition::Rows, format!("{what} {row}"));
    }

    fn warehouse(&mut self, w: u32) -> Result<()> {
        let row = Key::warehouse(w);
        match self.tables.find::<Ytd>(&row)? {
            Some(ytd) => self.survey.warehouses[w as usize - 1].ytd = ytd.ytd,
            None => self.missing("there is no row", &row),
        }
        for item in 1..=self.survey.scale.items {
            self.stock(w, item)?;
        }
        (1..=self.survey.scale.districts).try_for_each(|d| self.district(w, d))
    }

    fn stock(&mut self, w: u32, item: u32) -> Result<()> {
        let row = Key::stock(w, item);
        match self.tables.find::<Level>(&row)? {
            None => self.missing("there is no row", &row),
            Some(level) => {
                let stocked = &mut self.survey.warehouses[w as usize - 1].stocked;
                stocked.lines += u64::from(level.orders);
                stocked.units += u64::from(level.ytd);
                stocked.remote += u64::from(level.remote);
            }
        }
        Ok(())
    }

    fn district(&mut self, w: u32, d: u32) -> Result<()> {
        let row = Key::district(w, d);
        let (ytd, next) = (self.tables.find::<Ytd>(&row)?, self.tables.find::<NextId>(&row)?);
        let (Some(ytd), Some(next)) = (ytd, next) else {
            self.missing("there is no row", &row);
            return Ok(());
        };
        let waiting = Key::new_orders(w, d);
        let new_orders: BTreeSet<u32> = self.tables.ids(&waiting)?.into_iter().collect();
        if self.tables.records.members(self.tables.tx, &waiting)? != new_orders.len() as u64 {
            self.missing("not as many members as it says has", &waiting);
        }
        let (customers, indexed) = self.customers(w, d)?;
        let district = &mut self.survey.warehouses[w as usize - 1].districts[d as usize - 1];
        (district.ytd, district.next) = (ytd.ytd, next.id);
        (district.new_orders, district.customers) = (new_orders, customers);
        self.orders(w, d, next.id, &indexed)
    }

    /// Reads the customers, and each order's customer by the index.
    fn customers(&mut self, w: u32, d: u32) -> Result<(Vec<Customer>, BTreeMap<u32, u32>)> {
        let (mut customers, mut indexed) = (Vec::new(), BTreeMap::new());
        let mut names: BTreeMap<[u8; 16], Vec<([u8; 16], u32)>> = BTreeMap::new();
        for c in 1..=self.survey.scale.customers {
            let row = Key::customer(w, d, c);
            let mut customer = Customer::default();
            let info: Option<CustomerInfo> = self.tables.find(&row)?;
            match (info, self.tables.find::<Account>(&row)?) {
                (Some(info), Some(account)) => {
                    names.entry(info.last).or_default().push((info.first, c));
                    customer.balance = account.balance;
                    customer.ytd_payment = account.ytd_payment;
                    (customer.payments, customer.deliveries) =
                        (account.payments, account.deliveries);
                    customer.paid = self.history(w, d, c, account.payments)?;
                }
                _ => self.missing("there is no row", &row),
            }
            for order in self.tables.ids(&Key::orders_of(w, d, c))? {
                if indexed.insert(order, c).is_some() {
                    self.missing("another customer's order is in the index", &row);
                }
            }
            customers.push(customer);
        }
        for (last, mut named) in names {
            let set = Key::named(w, d, &last);
            named.sort_unstable();
            let found = self.tables.named(&set)?;
            if found != named {
                self.missing("not the customers of this name are in", &set);
            }
        }
        Ok((customers, indexed))
    }

    /// Reads a customer's payments, and returns their sum.
    fn history(&mut self, w: u32, d: u32, c: u32, payments: u32) -> Result<Cents> {
        let mut paid: Cents = 0;
        for number in 1..=payments {
            let row = Key::history(w, d, c, number);
            let Some(payment) = self.tables.find::<Payment>(&row)? else {
                self.missing("there is no row", &row);
                // A damaged count may have any value.
                break;
            };
            paid = paid.wrapping_add(payment.amount);
            match self.survey.district_mut(payment.warehouse, payment.district.into()) {
                Some(district) => district.paid = district.paid.wrapping_add(payment.amount),
                None => self.missing("paid to a district that is not there:", &row),
            }
        }
        let next = Key::history(w, d, c, payments.wrapping_add(1));
        if self.tables.find::<Payment>(&next)?.is_some() {
            self.missing("a payment that the customer knows nothing of:", &next);
        }
        Ok(paid)
    }

    /// Reads the orders that the index has, and those up to the next one, which should not be
    /// there.
    fn orders(&mut self, w: u32, d: u32, next: u32, indexed: &BTreeMap<u32, u32>) -> Result<()> {
        // A damaged next number may have any value.
        let known = indexed.last_key_value().map_or(0, |(last, _)| *last);
        let last = next.min(known.saturating_add(2));
        let mut ids: BTreeSet<u32> = indexed.keys().copied().collect();
        ids.extend(1..=last);
        let first_new = self.survey.scale.first_new_order();
        for id in ids {
            let facts = self.order(w, d, id)?;
            let row = Key::order(w, d, id);
            let owner = facts.row.as_ref().map(|(order, _)| order.customer);
            if owner != indexed.get(&id).copied() {
                self.missing("the index of customers' orders is wrong on", &row);
            }
            if facts.row.is_none() && facts.lines == 0 {
                continue;
            }
            let district = &mut self.survey.warehouses[w as usize - 1].districts[d as usize - 1];
            district.note(id, facts, id >= first_new);
        }
        Ok(())
    }

    fn order(&mut self, w: u32, d: u32, id: u32) -> Result<OrderFacts> {
        let row = Key::order(w, d, id);
        let mut facts = OrderFacts::default();
        if let Some(order) = self.tables.find::<Order>(&row)? {
            facts.row = Some((order, self.tables.get::<Carrier>(&row)?.carrier));
        }
        let said = facts.row.as_ref().map_or(0, |(order, _)| order.lines.into());
        for number in 1..=self.survey.scale.lines.1.max(said) {
            let row = Key::line(w, d, id, number);
            let Some(line) = self.tables.find::<Line>(&row)? else { continue };
            let date = self.tables.get::<Delivered>(&row)?.date;
            facts.lines += 1;
            facts.delivered_lines += u32::from(date != 0);
            facts.amount = facts.amount.wrapping_add(line.amount);
            if id > self.survey.scale.customers {
                self.ordered(w, &line, &row);
            }
        }
        Ok(facts)
    }

    /// A line since the load, ordered from warehouse `w`.
    fn ordered(&mut self, w: u32, line: &Line, row: &Key) {
        let supply = (line.supply as usize).checked_sub(1);
        match supply.and_then(|supply| self.survey.warehouses.get_mut(supply)) {
            None => self.missing("supplied by a warehouse that is not there:", row),
            Some(warehouse) => {
                warehouse.ordered.lines += 1;
                warehouse.ordered.units += u64::from(line.quantity);
                warehouse.ordered.remote += u64::from(line.supply != w);
            }
        }
    }
}

impl District {
    /// Adds an order, and its delivery to its customer (since the load, if it was new then).
    fn note(&mut self, id: u32, facts: OrderFacts, was_new: bool) {
        if let Some((order, carrier)) = &facts.row {
            let customer = (order.customer as usize).checked_sub(1);
            let customer = customer.and_then(|customer| self.customers.get_mut(customer));
            if let (Some(customer), true) = (customer, *carrier != 0) {
                customer.delivered = customer.delivered.wrapping_add(facts.amount);
                customer.delivered_orders += u32::from(was_new);
            }
        }
        self.orders.insert(id, facts);
    }
}
