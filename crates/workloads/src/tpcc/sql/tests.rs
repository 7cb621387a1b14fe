use super::*;
use crate::sql::{check_integrity, on_connections, prepare};
use crate::{Plan, sql};

const SCALE: Scale =
    Scale { warehouses: 2, districts: 2, customers: 40, items: 60, new_orders: 12, lines: (2, 5) };

fn plan(threads: usize, operations: u64) -> Plan {
    Plan {
        threads,
        operations,
        warm_up: 0,
        seed: 5,
        sample_every: 0,
        per_second: None,
        pinned: false,
        window: 1,
    }
}

/// The database of one connection in memory, loaded and used.
fn used(operations: u64) -> (TpccInSql, Connection) {
    let db = Connection::open_in_memory().unwrap();
    prepare(&db).unwrap();
    let (shop, progress) = (TpccInSql::new(SCALE, 9).unwrap(), Progress::default());
    shop.load(&db, &progress).unwrap();
    shop.check(&db).unwrap();
    let random = crate::random::Random::new(5, 0);
    let share = Share { thread: 0, threads: 1, operations, random };
    let mut recorder = Recorder::new(TpccInSql::KINDS.len(), 0, 5, &progress);
    shop.run_thread(&db, share, &mut recorder).unwrap();
    (shop, db)
}

#[test]
fn conditions_hold_and_orders_are_rolled_back() {
    let (shop, db) = used(1_500);
    check_integrity(&db).unwrap();
    shop.check(&db).unwrap();
    assert!(shop.tally.rolled_back() > 0);
    assert!(shop.tally.committed().iter().all(|count| *count > 0));
}

#[test]
fn each_condition_is_looked_at() {
    let (shop, db) = used(300);
    for break_it in [
        "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1",
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 1",
        "DELETE FROM new_order WHERE no_o_id = (SELECT max(no_o_id) FROM new_order)",
        "DELETE FROM order_line WHERE rowid = 7",
        "UPDATE orders SET o_carrier_id = NULL WHERE o_id = 1",
        "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_o_id = 1 AND ol_number = 1",
        "UPDATE history SET h_amount = h_amount + 1 WHERE rowid = 3",
        "UPDATE customer SET c_balance = c_balance + 1 WHERE rowid = 4",
        "UPDATE customer SET c_balance = c_balance + 1, c_ytd_payment = c_ytd_payment - 1 WHERE rowid = 4",
        "UPDATE stock SET s_ytd = s_ytd + 1 WHERE rowid = 4",
        "UPDATE stock SET s_quantity = 9 WHERE rowid = 4",
        "INSERT INTO history SELECT * FROM history WHERE rowid = 1",
    ] {
        db.execute_batch("BEGIN").unwrap();
        assert!(db.execute(break_it, ()).unwrap() > 0, "{break_it}");
        assert!(shop.check(&db).is_err(), "{break_it}");
        db.execute_batch("ROLLBACK").unwrap();
    }
    shop.check(&db).unwrap();
}

#[test]
fn threads_share_an_ordinary_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let connect = || {
        let db = sql::open(path.to_str().unwrap())?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "OFF")?;
        Ok(db)
    };
    let (shop, progress) = (TpccInSql::new(SCALE, 9).unwrap(), Progress::default());
    let db = connect().unwrap();
    shop.load(&db, &progress).unwrap();
    let measured = on_connections(&shop, &connect, &plan(3, 600), &progress).unwrap();
    assert_eq!(measured.operations, 600);
    shop.check(&db).unwrap();
    check_integrity(&db).unwrap();
}
