//! The first rows, in batches that are a transaction each.
//!
//! A batch's contents follow from the seed and the batch's number, so that they are the same however
//! often its transaction runs.

use super::draw::{Constants, LastName, data, digits, last_name, text, uniform, zip};
use super::rows::{
    Account, Carrier, CustomerData, CustomerInfo, Delivered, Districts, Group, Info, Item, Key,
    Level, Line, NextId, Order, Payment, StockData, Ytd, name_member,
};
use super::scale::FIRST_PAYMENT;
use super::tables::Tables;
use super::{Cents, Scale};
use crate::Records;
use crate::random::{Random, splitmix64};
use perdura::{Result, Tx};
use std::ops::Range;

/// Rows (orders, with their lines) of a batch.
const BATCH: u32 = 16;
/// Streams of a seed from here on are batches': threads count up from 0.
const STREAMS: u64 = 1 << 40;
/// The date of all loaded rows.
pub(super) const FIRST_DATE: u64 = 1;

/// A part of the first rows.
#[derive(Clone, Debug)]
enum Part {
    Items(Range<u32>),
    Warehouse(u32),
    Stock(u32, Range<u32>),
    District(u32, u32),
    Customers(u32, u32, Range<u32>),
    Orders(u32, u32, Range<u32>),
}

/// A part of the first rows that is loaded by one transaction.
#[derive(Clone, Debug)]
pub struct Batch {
    part: Part,
    number: u64,
}

impl Batch {
    /// Rows in it; an order counts with its lines, a customer with the first payment.
    pub fn rows(&self) -> u64 {
        match &self.part {
            Part::Warehouse(_) | Part::District(..) => 1,
            Part::Items(ids)
            | Part::Stock(_, ids)
            | Part::Customers(_, _, ids)
            | Part::Orders(_, _, ids) => ids.len() as u64,
        }
    }
}

/// Makes the first rows.
#[derive(Clone, Copy, Debug)]
pub struct Loader {
    scale: Scale,
    seed: u64,
    constants: Constants,
}

impl Loader {
    /// A loader of rows at this scale, whose contents follow from the seed.
    pub fn new(scale: Scale, seed: u64) -> Self {
        Loader { scale, seed, constants: Constants::new(seed) }
    }

    /// All batches.
    pub fn batches(&self) -> impl Iterator<Item = Batch> + use<> {
        let scale = self.scale;
        let items = parts(scale.items).map(Part::Items);
        let all = items.chain((1..=scale.warehouses).flat_map(move |w| warehouse(scale, w)));
        all.zip(0..).map(|(part, number)| Batch { part, number })
    }

    /// Makes the rows of a batch.
    ///
    /// # Errors
    /// As the transaction.
    pub fn load<R: Records>(&self, tx: &mut dyn Tx, records: &R, batch: &Batch) -> Result<()> {
        let mut random = Random::new(self.seed, STREAMS + batch.number);
        let (random, tables) = (&mut random, &mut Tables { tx, records });
        match batch.part.clone() {
            Part::Items(mut ids) => ids.try_for_each(|item| load_item(tables, random, item)),
            Part::Warehouse(w) => self.load_warehouse(tables, random, w),
            Part::Stock(w, mut ids) => ids.try_for_each(|item| load_stock(tables, random, w, item)),
            Part::District(w, d) => self.load_district(tables, random, w, d),
            Part::Customers(w, d, mut ids) => {
                ids.try_for_each(|customer| self.load_customer(tables, random, w, d, customer))
            }
            Part::Orders(w, d, ids) => self.load_orders(tables, random, w, d, ids),
        }
    }

    fn load_warehouse<R: Records>(
        &self,
        tables: &mut Tables<'_, R>,
        random: &mut Random,
        warehouse: u32,
    ) -> Result<()> {
        let fields = [info(random).field(), Ytd { ytd: self.scale.warehouse_ytd() }.field()];
        tables.insert(&Key::warehouse(warehouse), &fields)
    }

    fn load_district<R: Records>(
        &self,
        tables: &mut Tables<'_, R>,
        random: &mut Random,
        warehouse: u32,
        district: u32,
    ) -> Result<()> {
        let ytd = Ytd { ytd: self.scale.district_ytd() };
        let next = NextId { id: self.scale.customers + 1 };
        let fields = [info(random).field(), ytd.field(), next.field()];
        tables.insert(&Key::district(warehouse, district), &fields)
    }

    fn load_customer<R: Records>(
        &self,
        tables: &mut Tables<'_, R>,
        random: &mut Random,
        warehouse: u32,
        district: u32,
        customer: u32,
    ) -> Result<()> {
        let last = match customer {
            1..=1000 => last_name(customer - 1),
            _ => last_name(self.constants.loaded_name(random)),
        };
        let info = customer_info(random, last);
        let (first, account) = (info.first, first_account());
        let fields =
            [info.field(), account.field(), CustomerData { data: text(random, 300) }.field()];
        tables.insert(&Key::customer(warehouse, district, customer), &fields)?;
        let named = Key::named(warehouse, district, &last);
        tables.records.add(tables.tx, &named, 0.0, &name_member(&first, customer))?;
        let payment = Payment {
            warehouse,
            district: district as u8,
            date: FIRST_DATE,
            amount: FIRST_PAYMENT,
            data: text(random, 12),
        };
        let history = Key::history(warehouse, district, customer, account.payments);
        tables.insert(&history, &[payment.field()])
    }

    fn load_orders<R: Records>(
        &self,
        tables: &mut Tables<'_, R>,
        random: &mut Random,
        warehouse: u32,
        district: u32,
        mut ids: Range<u32>,
    ) -> Result<()> {
        let customers = self.customers_in_order(warehouse, district);
        ids.try_for_each(|order| {
            let customer = customers[order as usize - 1];
            self.load_order(tables, random, [warehouse, district, order], customer)
        })
    }

    /// The customers of a district, shuffled: each has one of the first orders.
    fn customers_in_order(&self, warehouse: u32, district: u32) -> Vec<u32> {
        let which = u64::from(warehouse) << 32 | u64::from(district);
        let mut random = Random::new(self.seed ^ splitmix64(which), STREAMS - 1);
        let mut customers: Vec<u32> = (1..=self.scale.customers).collect();
        for left in (1..customers.len()).rev() {
            customers.swap(left, random.below(left as u64 + 1) as usize);
        }
        customers
    }

    fn load_order<R: Records>(
        &self,
        tables: &mut Tables<'_, R>,
        random: &mut Random,
        [warehouse, district, id]: [u32; 3],
        customer: u32,
    ) -> Result<()> {
        let delivered = id < self.scale.first_new_order();
        let lines = uniform(random, self.scale.lines.0, self.scale.lines.1);
        let carrier = if delivered { uniform(random, 1, 10) as u8 } else { 0 };
        let order = Order { customer, date: FIRST_DATE, lines: lines as u8, all_local: 1 };
        let fields = [order.field(), Carrier { carrier }.field()];
        tables.insert(&Key::order(warehouse, district, id), &fields)?;
        tables.add(&Key::orders_of(warehouse, district, customer), -f64::from(id), id)?;
        if !delivered {
            tables.add(&Key::new_orders(warehouse, district), id.into(), id)?;
        }
        for number in 1..=lines {
            let line = self.line(random, warehouse, delivered);
            let date = Delivered { date: if delivered { FIRST_DATE } else { 0 } };
            let fields = [line.field(), date.field()];
            tables.insert(&Key::line(warehouse, district, id, number), &fields)?;
        }
        Ok(())
    }

    fn line(&self, random: &mut Random, warehouse: u32, delivered: bool) -> Line {
        let amount = if delivered { 0 } else { random.between(1, 999_999) as Cents };
        Line {
            item: uniform(random, 1, self.scale.items),
            supply: warehouse,
            quantity: 5,
            amount,
            district: text(random, 24),
        }
    }
}

/// The ids `1..=count`, in batches.
fn parts(count: u32) -> impl Iterator<Item = Range<u32>> + Clone {
    let first = (1..=count).step_by(BATCH as usize);
    first.map(move |first| first..(first + BATCH).min(count + 1))
}

/// All that is in a warehouse.
fn warehouse(scale: Scale, w: u32) -> impl Iterator<Item = Part> {
    let stock = parts(scale.items).map(move |ids| Part::Stock(w, ids));
    let districts = (1..=scale.districts).flat_map(move |d| {
        let customers = parts(scale.customers).map(move |ids| Part::Customers(w, d, ids));
        let orders = parts(scale.customers).map(move |ids| Part::Orders(w, d, ids));
        std::iter::once(Part::District(w, d)).chain(customers).chain(orders)
    });
    std::iter::once(Part::Warehouse(w)).chain(stock).chain(districts)
}

fn load_item<R: Records>(tables: &mut Tables<'_, R>, random: &mut Random, item: u32) -> Result<()> {
    let row = Item {
        image: uniform(random, 1, 10_000),
        name: text(random, 14),
        price: uniform(random, 100, 10_000),
        data: data(random),
    };
    tables.insert(&Key::item(item), &[row.field()])
}

fn load_stock<R: Records>(
    tables: &mut Tables<'_, R>,
    random: &mut Random,
    warehouse: u32,
    item: u32,
) -> Result<()> {
    let quantity = uniform(random, 10, 100) as u16;
    let fields = [
        Level { quantity, ytd: 0, orders: 0, remote: 0 }.field(),
        Districts { texts: text(random, 240) }.field(),
        StockData { data: data(random) }.field(),
    ];
    tables.insert(&Key::stock(warehouse, item), &fields)
}

fn info(random: &mut Random) -> Info {
    Info {
        name: text(random, 6),
        street_1: text(random, 10),
        street_2: text(random, 10),
        city: text(random, 10),
        state: text(random, 2),
        zip: zip(random),
        tax: uniform(random, 0, 2_000) as u16,
    }
}

fn customer_info(random: &mut Random, last: LastName) -> CustomerInfo {
    CustomerInfo {
        first: text(random, 8),
        middle: *b"OE",
        last,
        street_1: text(random, 10),
        street_2: text(random, 10),
        city: text(random, 10),
        state: text(random, 2),
        zip: zip(random),
        phone: digits(random),
        since: FIRST_DATE,
        credit: if random.below(10) == 0 { *b"BC" } else { *b"GC" },
        credit_limit: 5_000_000,
        discount: uniform(random, 0, 5_000) as u16,
    }
}

const fn first_account() -> Account {
    Account { balance: -FIRST_PAYMENT, ytd_payment: FIRST_PAYMENT, payments: 1, deliveries: 0 }
}
