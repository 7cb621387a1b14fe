//! The five transactions.

use crate::tpcc::Scale;
use crate::tpcc::input::{
    Delivery, Input, NewOrder, OrderStatus, Payment, StockLevel, Wanted, Who,
};
use crate::tpcc::new_order::total;
use crate::tpcc::tally::TransactionEffect;
use crate::{Failure, Outcome};
use rusqlite::{Connection, OptionalExtension, Params, Row};

/// Why an order that asks for an item that does not exist is rolled back.
pub(super) const NO_ITEM: &str = "there is no item with this number";
/// Bytes of the notes about a customer, at most.
const NOTES: usize = 500;
/// Orders that a Stock-Level looks at.
const RECENT: i64 = 20;

/// The one row of a statement.
fn one<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    row: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Outcome<T> {
    Ok(db.prepare_cached(sql)?.query_row(params, row)?)
}

/// Changes one row.
fn change(db: &Connection, sql: &str, params: impl Params) -> Outcome {
    match db.prepare_cached(sql)?.execute(params)? {
        1 => Ok(()),
        rows => Err(Failure::Wrong(format!("a statement for one row has changed {rows}: {sql}"))),
    }
}

pub(super) fn run(db: &Connection, input: &Input, scale: Scale) -> Outcome<TransactionEffect> {
    Ok(match input {
        Input::NewOrder(input) => {
            new_order(db, input)?;
            TransactionEffect::NewOrder { lines: input.lines.len() as u64 }
        }
        Input::Payment(input) => {
            payment(db, input)?;
            TransactionEffect::Payment { amount: input.amount }
        }
        Input::OrderStatus(input) => {
            order_status(db, input)?;
            TransactionEffect::OrderStatus
        }
        Input::Delivery(input) => {
            TransactionEffect::Delivery { orders: delivery(db, input, scale.districts)? }
        }
        Input::StockLevel(input) => {
            stock_level(db, input)?;
            TransactionEffect::StockLevel
        }
    })
}

fn new_order(db: &Connection, input: &NewOrder) -> Outcome<i64> {
    let NewOrder { warehouse, district, customer, date, .. } = *input;
    let here = (warehouse, district);
    let w_tax: i64 =
        one(db, "SELECT w_tax FROM warehouse WHERE w_id=?1", (warehouse,), |row| row.get(0))?;
    let (d_tax, order): (i64, i64) = one(
        db,
        "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id=?1 AND d_id=?2",
        here,
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    change(db, "UPDATE district SET d_next_o_id=d_next_o_id+1 WHERE d_w_id=?1 AND d_id=?2", here)?;
    let discount: i64 = one(
        db,
        "SELECT c_discount FROM customer WHERE c_w_id=?1 AND c_d_id=?2 AND c_id=?3",
        (warehouse, district, customer),
        |row| row.get(0),
    )?;
    let is_local = input.lines.iter().all(|line| line.supply == warehouse);
    change(
        db,
        "INSERT INTO orders VALUES (?1,?2,?3,?4,?5,NULL,?6,?7)",
        (warehouse, district, order, customer, date as i64, input.lines.len() as i64, is_local),
    )?;
    change(db, "INSERT INTO new_order VALUES (?1,?2,?3)", (warehouse, district, order))?;
    let mut sum = 0;
    for (number, line) in (1..).zip(&input.lines) {
        sum += add_line(db, input, order, number, line)?;
    }
    Ok(total(sum, discount, w_tax + d_tax))
}

fn add_line(
    db: &Connection,
    input: &NewOrder,
    order: i64,
    number: i64,
    wanted: &Wanted,
) -> Outcome<i64> {
    let &Wanted { item, supply, quantity } = wanted;
    let NewOrder { warehouse, district, .. } = *input;
    let found = db
        .prepare_cached("SELECT i_price, i_name, i_data FROM item WHERE i_id=?1")?
        .query_row((item,), |row| row.get::<_, i64>(0))
        .optional()?;
    let Some(price) = found else { return Err(Failure::wrong(NO_ITEM)) };
    let (left, text): (i64, String) = one(
        db,
        &format!(
            "SELECT s_quantity, s_dist_{district:02}, s_data FROM stock WHERE s_w_id=?1 AND s_i_id=?2"
        ),
        (supply, item),
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let ordered = i64::from(quantity);
    let refill = if left >= ordered + 10 { 0 } else { 91 };
    change(
        db,
        "UPDATE stock SET s_quantity=?3, s_ytd=s_ytd+?4, s_order_cnt=s_order_cnt+1,
         s_remote_cnt=s_remote_cnt+?5 WHERE s_w_id=?1 AND s_i_id=?2",
        (supply, item, left - ordered + refill, ordered, supply != warehouse),
    )?;
    let amount = ordered * price;
    change(
        db,
        "INSERT INTO order_line VALUES (?1,?2,?3,?4,?5,?6,NULL,?7,?8,?9)",
        (warehouse, district, order, number, item, supply, ordered, amount, text),
    )?;
    Ok(amount)
}

fn payment(db: &Connection, input: &Payment) -> Outcome {
    let Payment { warehouse, district, amount, date, .. } = *input;
    let (cw, cd) = (input.customer_warehouse, input.customer_district);
    let w_name: String =
        one(db, "SELECT w_name FROM warehouse WHERE w_id=?1", (warehouse,), |row| row.get(0))?;
    change(db, "UPDATE warehouse SET w_ytd=w_ytd+?2 WHERE w_id=?1", (warehouse, amount))?;
    let d_name: String = one(
        db,
        "SELECT d_name FROM district WHERE d_w_id=?1 AND d_id=?2",
        (warehouse, district),
        |row| row.get(0),
    )?;
    change(
        db,
        "UPDATE district SET d_ytd=d_ytd+?3 WHERE d_w_id=?1 AND d_id=?2",
        (warehouse, district, amount),
    )?;
    let customer = find_customer(db, cw, cd, input.who)?;
    let key = (cw, cd, customer);
    let (credit, notes): (String, String) = one(
        db,
        "SELECT c_credit, c_data FROM customer WHERE c_w_id=?1 AND c_d_id=?2 AND c_id=?3",
        key,
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let notes = match credit.as_str() {
        "BC" => {
            let (whole, cents) = (amount / 100, amount % 100);
            let mut noted =
                format!("{customer} {cd} {cw} {district} {warehouse} {whole}.{cents:02}|{notes}");
            noted.truncate(NOTES);
            Some(noted)
        }
        _ => None,
    };
    change(
        db,
        "UPDATE customer SET c_balance=c_balance-?4, c_ytd_payment=c_ytd_payment+?4,
         c_payment_cnt=c_payment_cnt+1 WHERE c_w_id=?1 AND c_d_id=?2 AND c_id=?3",
        (cw, cd, customer, amount),
    )?;
    if let Some(notes) = notes {
        change(
            db,
            "UPDATE customer SET c_data=?4 WHERE c_w_id=?1 AND c_d_id=?2 AND c_id=?3",
            (cw, cd, customer, notes),
        )?;
    }
    change(
        db,
        "INSERT INTO history VALUES (?1,?2,?3,?4,?5,?6,?7,?8)",
        (
            customer,
            cd,
            cw,
            district,
            warehouse,
            date as i64,
            amount,
            format!("{w_name}    {d_name}"),
        ),
    )
}

/// The customer: of those with the same last name, the one in the middle by first name.
fn find_customer(db: &Connection, warehouse: u32, district: u32, who: Who) -> Outcome<i64> {
    let last = match who {
        Who::Number(customer) => return Ok(customer.into()),
        Who::Name(last) => last,
    };
    let last = std::str::from_utf8(last.trim_ascii_end()).unwrap_or_default();
    let mut select = db.prepare_cached(
        "SELECT c_id FROM customer WHERE c_w_id=?1 AND c_d_id=?2 AND c_last=?3 ORDER BY c_first",
    )?;
    let rows = select.query_map((warehouse, district, last), |row| row.get(0))?;
    let named: Vec<i64> = rows.collect::<rusqlite::Result<_>>()?;
    let middle = named.get(named.len().saturating_sub(1) / 2);
    middle.copied().ok_or_else(|| Failure::Wrong(format!("no customer has the name {last}")))
}

fn order_status(db: &Connection, input: &OrderStatus) -> Outcome<i64> {
    let OrderStatus { warehouse, district, who } = *input;
    let customer = find_customer(db, warehouse, district, who)?;
    let _: (i64, String) = one(
        db,
        "SELECT c_balance, c_last FROM customer WHERE c_w_id=?1 AND c_d_id=?2 AND c_id=?3",
        (warehouse, district, customer),
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let newest: Option<(i64, i64)> = db
        .prepare_cached(
            "SELECT o_id, o_ol_cnt, o_carrier_id, o_entry_d FROM orders
             WHERE o_w_id=?1 AND o_d_id=?2 AND o_c_id=?3 ORDER BY o_id DESC LIMIT 1",
        )?
        .query_row((warehouse, district, customer), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((order, said)) = newest else { return Ok(0) };
    let mut select = db.prepare_cached(
        "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
         WHERE ol_w_id=?1 AND ol_d_id=?2 AND ol_o_id=?3",
    )?;
    let mut rows = select.query((warehouse, district, order))?;
    let mut lines = 0;
    while rows.next()?.is_some() {
        lines += 1;
    }
    match lines == said {
        true => Ok(lines),
        false => Err(Failure::Wrong(format!("an order of {said} lines has {lines}"))),
    }
}

fn delivery(db: &Connection, input: &Delivery, districts: u32) -> Outcome<u64> {
    let Delivery { warehouse, carrier, date } = *input;
    let mut delivered = 0;
    for district in 1..=districts {
        let oldest: Option<i64> = one(
            db,
            "SELECT min(no_o_id) FROM new_order WHERE no_w_id=?1 AND no_d_id=?2",
            (warehouse, district),
            |row| row.get(0),
        )?;
        let Some(order) = oldest else { continue };
        let key = (warehouse, district, order);
        change(db, "DELETE FROM new_order WHERE no_w_id=?1 AND no_d_id=?2 AND no_o_id=?3", key)?;
        let customer: i64 = one(
            db,
            "SELECT o_c_id FROM orders WHERE o_w_id=?1 AND o_d_id=?2 AND o_id=?3",
            key,
            |row| row.get(0),
        )?;
        change(
            db,
            "UPDATE orders SET o_carrier_id=?4 WHERE o_w_id=?1 AND o_d_id=?2 AND o_id=?3",
            (warehouse, district, order, carrier),
        )?;
        db.prepare_cached(
            "UPDATE order_line SET ol_delivery_d=?4 WHERE ol_w_id=?1 AND ol_d_id=?2 AND ol_o_id=?3",
        )?
        .execute((warehouse, district, order, date as i64))?;
        let sum: i64 = one(
            db,
            "SELECT sum(ol_amount) FROM order_line WHERE ol_w_id=?1 AND ol_d_id=?2 AND ol_o_id=?3",
            key,
            |row| row.get(0),
        )?;
        change(
            db,
            "UPDATE customer SET c_balance=c_balance+?4, c_delivery_cnt=c_delivery_cnt+1
             WHERE c_w_id=?1 AND c_d_id=?2 AND c_id=?3",
            (warehouse, district, customer, sum),
        )?;
        delivered += 1;
    }
    Ok(delivered)
}

fn stock_level(db: &Connection, input: &StockLevel) -> Outcome<i64> {
    let StockLevel { warehouse, district, threshold } = *input;
    let next: i64 = one(
        db,
        "SELECT d_next_o_id FROM district WHERE d_w_id=?1 AND d_id=?2",
        (warehouse, district),
        |row| row.get(0),
    )?;
    one(
        db,
        "SELECT count(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id=?1 AND ol_d_id=?2
         AND ol_o_id>=?3 AND ol_o_id<?4 AND s_w_id=?1 AND s_i_id=ol_i_id AND s_quantity<?5",
        (warehouse, district, next - RECENT, next, threshold),
        |row| row.get(0),
    )
}
