//! TPC-C's conditions, and three more, each a query for rows that break it.

use crate::tpcc::Scale;
use crate::tpcc::check::Totals;
use crate::{Failure, Outcome};
use rusqlite::Connection;

/// Conditions 1 to 10 and 12, with their numbers; of the stocks, and of the orders' numbers, which have no gap.
const CONDITIONS: [(&str, &str); 14] = [
    (
        "1",
        "SELECT w_id FROM warehouse WHERE w_ytd <> (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id)",
    ),
    (
        "2",
        "SELECT d_w_id, d_id FROM district WHERE d_next_o_id - 1 <>
         (SELECT max(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)",
    ),
    (
        "2, of new orders",
        "SELECT d_w_id, d_id FROM district WHERE d_next_o_id - 1 <>
         (SELECT max(no_o_id) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id)",
    ),
    (
        "3",
        "SELECT no_w_id, no_d_id FROM new_order GROUP BY no_w_id, no_d_id
         HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)",
    ),
    (
        "4",
        "SELECT o_w_id, o_d_id FROM orders GROUP BY o_w_id, o_d_id HAVING sum(o_ol_cnt) <>
         (SELECT count(*) FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id)",
    ),
    (
        "5",
        "SELECT o_w_id, o_d_id, o_id FROM orders LEFT JOIN new_order
         ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
         WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    ),
    (
        "6",
        "SELECT o_w_id, o_d_id, o_id FROM orders WHERE o_ol_cnt <> (SELECT count(*) FROM order_line
         WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id)",
    ),
    (
        "7",
        "SELECT ol_w_id, ol_d_id, ol_o_id FROM order_line JOIN orders
         ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
         WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    ),
    (
        "8",
        "SELECT w_id FROM warehouse WHERE w_ytd <> (SELECT sum(h_amount) FROM history WHERE h_w_id = w_id)",
    ),
    (
        "9",
        "SELECT d_w_id, d_id FROM district WHERE d_ytd <>
         (SELECT sum(h_amount) FROM history WHERE h_w_id = d_w_id AND h_d_id = d_id)",
    ),
    (
        "10",
        "WITH delivered AS (SELECT o_w_id AS w, o_d_id AS d, o_c_id AS c, sum(ol_amount) AS amount
            FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
            WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3),
         paid AS (SELECT h_c_w_id AS w, h_c_d_id AS d, h_c_id AS c, sum(h_amount) AS amount
            FROM history GROUP BY 1, 2, 3)
         SELECT c_w_id, c_d_id, c_id FROM customer
         LEFT JOIN delivered ON delivered.w = c_w_id AND delivered.d = c_d_id AND delivered.c = c_id
         LEFT JOIN paid ON paid.w = c_w_id AND paid.d = c_d_id AND paid.c = c_id
         WHERE c_balance <> coalesce(delivered.amount, 0) - coalesce(paid.amount, 0)
            OR c_balance + c_ytd_payment <> coalesce(delivered.amount, 0)",
    ),
    (
        "of stocks' orders",
        "SELECT s_w_id FROM stock GROUP BY s_w_id HAVING sum(s_ytd) <>
         (SELECT coalesce(sum(ol_quantity), 0) FROM order_line JOIN orders
          ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
          WHERE ol_supply_w_id = s_w_id AND o_entry_d > 1)",
    ),
    (
        "of stocks' quantities",
        "SELECT s_w_id, s_i_id FROM stock WHERE s_quantity NOT BETWEEN 10 AND 100",
    ),
    (
        "of orders' numbers",
        "SELECT o_w_id, o_d_id FROM orders GROUP BY o_w_id, o_d_id HAVING max(o_id) <> count(*)",
    ),
];

/// Checks all conditions.
pub(super) fn conditions(db: &Connection) -> Outcome {
    for (number, query) in CONDITIONS {
        let sql = format!("SELECT count(*) FROM ({query})");
        let broken: i64 = db.query_row(&sql, (), |row| row.get(0))?;
        if broken > 0 {
            let what = format!("TPC-C's condition {number} is broken by {broken} rows");
            return Err(Failure::Wrong(what));
        }
    }
    Ok(())
}

/// What has come since the load.
pub(super) fn totals(db: &Connection, scale: Scale) -> Outcome<Totals> {
    let count = |sql: &str| -> Outcome<i128> {
        Ok(db.query_row(sql, (), |row| row.get::<_, i64>(0))?.into())
    };
    let districts = i128::from(scale.warehouses) * i128::from(scale.districts);
    let customers = districts * i128::from(scale.customers);
    let undelivered = districts * i128::from(scale.new_orders);
    let orders = count("SELECT count(*) FROM orders")? - customers;
    let new = count("SELECT count(*) FROM new_order")?;
    Ok(Totals {
        orders,
        lines: count(
            "SELECT count(*) FROM order_line JOIN orders
             ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id WHERE o_entry_d > 1",
        )?,
        payments: count("SELECT count(*) FROM history")? - customers,
        paid: count("SELECT sum(w_ytd) FROM warehouse")?
            - i128::from(scale.warehouse_ytd()) * i128::from(scale.warehouses),
        delivered: undelivered + orders - new,
    })
}
