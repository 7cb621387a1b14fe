//! The tables, and their first rows.

use crate::random::Random;
use crate::sql::writing;
use crate::tpcc::Scale;
use crate::tpcc::draw::{Constants, data, digits, last_name, text, uniform, zip};
use crate::tpcc::load::FIRST_DATE;
use crate::tpcc::scale::FIRST_PAYMENT;
use crate::{Outcome, Progress};
use rusqlite::Connection;

/// The stream of a seed that the first rows come from: threads count up from 0.
const STREAM: u64 = 3 << 40;
/// Rows of items and stocks that a transaction makes.
const BATCH: u32 = 1_000;

const TABLES: &str = "
    CREATE TABLE warehouse (w_id INTEGER PRIMARY KEY, w_name TEXT, w_street_1 TEXT, w_street_2 TEXT,
        w_city TEXT, w_state TEXT, w_zip TEXT, w_tax INTEGER, w_ytd INTEGER);
    CREATE TABLE district (d_w_id INTEGER, d_id INTEGER, d_name TEXT, d_street_1 TEXT,
        d_street_2 TEXT, d_city TEXT, d_state TEXT, d_zip TEXT, d_tax INTEGER, d_ytd INTEGER,
        d_next_o_id INTEGER, PRIMARY KEY (d_w_id, d_id));
    CREATE TABLE customer (c_w_id INTEGER, c_d_id INTEGER, c_id INTEGER, c_first TEXT,
        c_middle TEXT, c_last TEXT, c_street_1 TEXT, c_street_2 TEXT, c_city TEXT, c_state TEXT,
        c_zip TEXT, c_phone TEXT, c_since INTEGER, c_credit TEXT, c_credit_lim INTEGER,
        c_discount INTEGER, c_balance INTEGER, c_ytd_payment INTEGER, c_payment_cnt INTEGER,
        c_delivery_cnt INTEGER, c_data TEXT, PRIMARY KEY (c_w_id, c_d_id, c_id));
    CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first);
    CREATE TABLE history (h_c_id INTEGER, h_c_d_id INTEGER, h_c_w_id INTEGER, h_d_id INTEGER,
        h_w_id INTEGER, h_date INTEGER, h_amount INTEGER, h_data TEXT);
    CREATE TABLE new_order (no_w_id INTEGER, no_d_id INTEGER, no_o_id INTEGER,
        PRIMARY KEY (no_w_id, no_d_id, no_o_id));
    CREATE TABLE orders (o_w_id INTEGER, o_d_id INTEGER, o_id INTEGER, o_c_id INTEGER,
        o_entry_d INTEGER, o_carrier_id INTEGER, o_ol_cnt INTEGER, o_all_local INTEGER,
        PRIMARY KEY (o_w_id, o_d_id, o_id));
    CREATE INDEX customer_orders ON orders (o_w_id, o_d_id, o_c_id, o_id);
    CREATE TABLE order_line (ol_w_id INTEGER, ol_d_id INTEGER, ol_o_id INTEGER, ol_number INTEGER,
        ol_i_id INTEGER, ol_supply_w_id INTEGER, ol_delivery_d INTEGER, ol_quantity INTEGER,
        ol_amount INTEGER, ol_dist_info TEXT, PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
    CREATE TABLE item (i_id INTEGER PRIMARY KEY, i_im_id INTEGER, i_name TEXT, i_price INTEGER,
        i_data TEXT);
    CREATE TABLE stock (s_w_id INTEGER, s_i_id INTEGER, s_quantity INTEGER, s_dist_01 TEXT,
        s_dist_02 TEXT, s_dist_03 TEXT, s_dist_04 TEXT, s_dist_05 TEXT, s_dist_06 TEXT,
        s_dist_07 TEXT, s_dist_08 TEXT, s_dist_09 TEXT, s_dist_10 TEXT, s_ytd INTEGER,
        s_order_cnt INTEGER, s_remote_cnt INTEGER, s_data TEXT, PRIMARY KEY (s_w_id, s_i_id));";

/// Rows that a load reports: of an order, with its lines, one.
pub(super) fn rows(scale: Scale) -> u64 {
    let Scale { warehouses, districts, customers, items, .. } = scale;
    let of_warehouse = u64::from(items) + u64::from(districts) * u64::from(customers) * 2;
    u64::from(items) + u64::from(warehouses) * of_warehouse
}

/// A text without the spaces that fill it up.
fn trimmed(text: &[u8]) -> &str {
    std::str::from_utf8(text.trim_ascii_end()).unwrap_or_default()
}

fn random_text<const N: usize>(random: &mut Random, least: usize) -> String {
    trimmed(&text::<N>(random, least)).to_owned()
}

/// Six columns: the name, two streets, the city, the state, the zip code.
fn address(random: &mut Random) -> [String; 6] {
    [
        random_text::<10>(random, 6),
        random_text::<20>(random, 10),
        random_text::<20>(random, 10),
        random_text::<20>(random, 10),
        random_text::<2>(random, 2),
        trimmed(&zip(random)).to_owned(),
    ]
}

pub(super) fn load(db: &Connection, scale: Scale, seed: u64, progress: &Progress) -> Outcome {
    db.execute_batch(TABLES)?;
    let mut loader = Loader {
        db,
        scale,
        random: Random::new(seed, STREAM),
        constants: Constants::new(seed),
        progress,
    };
    loader.load_items()?;
    for warehouse in 1..=scale.warehouses {
        loader.load_warehouse(warehouse)?;
        for district in 1..=scale.districts {
            writing(db, || loader.load_district(warehouse, district))?;
            progress.loaded(2 * u64::from(scale.customers))?;
        }
    }
    Ok(())
}

struct Loader<'a> {
    db: &'a Connection,
    scale: Scale,
    random: Random,
    constants: Constants,
    progress: &'a Progress,
}

impl Loader<'_> {
    /// Runs the body for the numbers of items, in transactions.
    fn each_item(&mut self, mut body: impl FnMut(&mut Self, u32) -> Outcome) -> Outcome {
        let items = self.scale.items;
        for first in (1..=items).step_by(BATCH as usize) {
            let last = (first + BATCH - 1).min(items);
            writing(self.db, || (first..=last).try_for_each(|item| body(self, item)))?;
            self.progress.loaded(u64::from(last + 1 - first))?;
        }
        Ok(())
    }

    fn load_items(&mut self) -> Outcome {
        self.each_item(|own, item| {
            let random = &mut own.random;
            own.db.prepare_cached("INSERT INTO item VALUES (?1,?2,?3,?4,?5)")?.execute((
                item,
                uniform(random, 1, 10_000),
                random_text::<24>(random, 14),
                uniform(random, 100, 10_000),
                trimmed(&data(random)),
            ))?;
            Ok(())
        })
    }

    fn load_warehouse(&mut self, warehouse: u32) -> Outcome {
        let [name, street_1, street_2, city, state, zip] = address(&mut self.random);
        let tax = uniform(&mut self.random, 0, 2_000);
        let ytd = self.scale.warehouse_ytd();
        self.db.execute(
            "INSERT INTO warehouse VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9)",
            (warehouse, name, street_1, street_2, city, state, zip, tax, ytd),
        )?;
        self.each_item(|own, item| {
            let random = &mut own.random;
            let mut insert = own.db.prepare_cached(
                "INSERT INTO stock VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,0,0,0,?14)",
            )?;
            let dist: [String; 10] = std::array::from_fn(|_| random_text::<24>(random, 24));
            let [a, b, c, d, e, f, g, h, i, j] = dist;
            let quantity = uniform(random, 10, 100);
            let data = data(random);
            insert.execute(rusqlite::params![
                warehouse,
                item,
                quantity,
                a,
                b,
                c,
                d,
                e,
                f,
                g,
                h,
                i,
                j,
                trimmed(&data),
            ])?;
            Ok(())
        })
    }

    fn load_district(&mut self, warehouse: u32, district: u32) -> Outcome {
        let [name, street_1, street_2, city, state, zip] = address(&mut self.random);
        let tax = uniform(&mut self.random, 0, 2_000);
        let (ytd, next) = (self.scale.district_ytd(), self.scale.customers + 1);
        self.db.execute(
            "INSERT INTO district VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)",
            rusqlite::params![
                warehouse, district, name, street_1, street_2, city, state, zip, tax, ytd, next
            ],
        )?;
        let mut customers: Vec<u32> = (1..=self.scale.customers).collect();
        customers.iter().try_for_each(|id| self.load_customer(warehouse, district, *id))?;
        self.random.shuffle(&mut customers);
        let mut orders = (1..).zip(customers);
        orders.try_for_each(|(id, customer)| self.load_order([warehouse, district, id], customer))
    }

    fn load_customer(&mut self, warehouse: u32, district: u32, id: u32) -> Outcome {
        let random = &mut self.random;
        let last = match id {
            1..=1000 => last_name(id - 1),
            _ => last_name(self.constants.loaded_name(random)),
        };
        let [_, street_1, street_2, city, state, zip] = address(random);
        let first = random_text::<16>(random, 8);
        let phone = digits::<16>(random);
        let credit = if random.below(10) == 0 { "BC" } else { "GC" };
        let discount = uniform(random, 0, 5_000);
        let notes = random_text::<500>(random, 300);
        self.db
            .prepare_cached(
                "INSERT INTO customer VALUES (?1,?2,?3,?4,'OE',?5,?6,?7,?8,?9,?10,?11,?12,?13,\
                 5000000,?14,?15,?16,1,0,?17)",
            )?
            .execute(rusqlite::params![
                warehouse,
                district,
                id,
                first,
                trimmed(&last),
                street_1,
                street_2,
                city,
                state,
                zip,
                trimmed(&phone),
                FIRST_DATE as i64,
                credit,
                discount,
                -FIRST_PAYMENT,
                FIRST_PAYMENT,
                notes,
            ])?;
        let text = random_text::<24>(random, 12);
        self.db
            .prepare_cached("INSERT INTO history VALUES (?1,?2,?3,?2,?3,?4,?5,?6)")?
            .execute((id, district, warehouse, FIRST_DATE as i64, FIRST_PAYMENT, text))?;
        Ok(())
    }

    fn load_order(&mut self, [warehouse, district, id]: [u32; 3], customer: u32) -> Outcome {
        let delivered = id < self.scale.first_new_order();
        let random = &mut self.random;
        let lines = uniform(random, self.scale.lines.0, self.scale.lines.1);
        let carrier = delivered.then(|| uniform(random, 1, 10));
        let date = FIRST_DATE as i64;
        self.db
            .prepare_cached("INSERT INTO orders VALUES (?1,?2,?3,?4,?5,?6,?7,1)")?
            .execute((warehouse, district, id, customer, date, carrier, lines))?;
        if !delivered {
            self.db
                .prepare_cached("INSERT INTO new_order VALUES (?1,?2,?3)")?
                .execute((warehouse, district, id))?;
        }
        for number in 1..=lines {
            let amount = if delivered { 0 } else { random.between(1, 999_999) as i64 };
            let item = uniform(random, 1, self.scale.items);
            let text = random_text::<24>(random, 24);
            self.db
                .prepare_cached("INSERT INTO order_line VALUES (?1,?2,?3,?4,?5,?1,?6,5,?7,?8)")?
                .execute((
                    warehouse,
                    district,
                    id,
                    number,
                    item,
                    delivered.then_some(date),
                    amount,
                    text,
                ))?;
        }
        Ok(())
    }
}
