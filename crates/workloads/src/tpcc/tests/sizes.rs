//! How many rows and lines a transaction reads and writes: docs/workloads.md has these figures.

use super::{SEED, Shop};
use crate::Records;
use crate::random::Random;
use crate::records::{EachPair, Plain};
use crate::tpcc::{Desk, Scale};
use perdura::{Result, Tx};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Orders are as large as they should be; there are few customers and items.
const SCALE: Scale = Scale { customers: 30, items: 100, new_orders: 9, ..Scale::small(1) };
const TRANSACTIONS: u64 = 3_000;

/// Rows that were read and written; entries of sorted sets count as rows.
#[derive(Default)]
struct Touched {
    read: BTreeSet<Vec<u8>>,
    written: BTreeSet<Vec<u8>>,
}

/// Records which rows are touched.
#[derive(Clone)]
struct Watched {
    records: Plain,
    touched: Arc<Mutex<Touched>>,
}

impl Watched {
    fn read(&self, key: &[u8]) {
        self.touched.lock().expect("no panic").read.insert(key.to_vec());
    }

    fn write(&self, key: &[u8], member: &[u8]) {
        self.touched.lock().expect("no panic").written.insert([key, b" ", member].concat());
    }
}

impl Records for Watched {
    fn set_fields(&self, tx: &mut dyn Tx, key: &[u8], fields: &[(&[u8], &[u8])]) -> Result<()> {
        self.write(key, b"");
        self.records.set_fields(tx, key, fields)
    }

    fn field(&self, tx: &mut dyn Tx, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>> {
        self.read(key);
        self.records.field(tx, key, field)
    }

    fn fields(&self, tx: &mut dyn Tx, key: &[u8], each: &mut EachPair<'_>) -> Result<bool> {
        self.read(key);
        self.records.fields(tx, key, each)
    }

    fn remove(&self, tx: &mut dyn Tx, key: &[u8]) -> Result<bool> {
        self.write(key, b"");
        self.records.remove(tx, key)
    }

    fn add(&self, tx: &mut dyn Tx, key: &[u8], score: f64, member: &[u8]) -> Result<bool> {
        self.write(key, member);
        self.records.add(tx, key, score, member)
    }

    fn take(&self, tx: &mut dyn Tx, key: &[u8], member: &[u8]) -> Result<bool> {
        self.write(key, member);
        self.records.take(tx, key, member)
    }

    fn range(
        &self,
        tx: &mut dyn Tx,
        key: &[u8],
        from: f64,
        each: &mut dyn FnMut(f64, &[u8]) -> bool,
    ) -> Result<()> {
        self.records.range(tx, key, from, &mut |score, member| {
            self.read(&[key, b" ", member].concat());
            each(score, member)
        })
    }

    fn members(&self, tx: &mut dyn Tx, key: &[u8]) -> Result<u64> {
        self.records.members(tx, key)
    }
}

/// Of committed transactions: how many, rows read and written, and lines written.
type Sums = [u64; 4];

/// Does many transactions, and adds up the lines that each kind of them touches.
fn measured() -> [Sums; 5] {
    let Shop { mut heap, records } = Shop::loaded_with(SCALE);
    let watched = Watched { records, touched: Arc::default() };
    let (desk, mut random) = (Desk::new(SCALE, SEED), Random::new(SEED, 0));
    let mut sums = [[0; 4]; 5];
    for date in 2..2 + TRANSACTIONS {
        let input = desk.draw(&mut random, 1, date);
        heap.reset_lines();
        if heap.run(&mut |tx| input.apply(tx, &watched, SCALE)).is_err() {
            assert!(input.rolls_back());
            watched.touched.lock().expect("no panic").read.clear();
            watched.touched.lock().expect("no panic").written.clear();
            continue;
        }
        let touched = std::mem::take(&mut *watched.touched.lock().expect("no panic"));
        let lines = heap.lines.take().expect("they are counted");
        let dirty = lines.written.union(&lines.fresh).count();
        let counts = [1, touched.read.len(), touched.written.len(), dirty];
        let sum = &mut sums[input.kind()];
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count as u64);
    }
    sums
}

#[test]
fn transactions_are_as_large_as_tpc_c_says() {
    let averages = measured().map(|[count, sums @ ..]| {
        assert!(count > 50);
        sums.map(|sum| sum as f64 / count as f64)
    });
    println!("rows read, rows written, lines written: {averages:.2?}");
    // New-Order: warehouse, district, customer, ten items and stocks; district, order, its two
    // places in sorted sets, ten stocks and lines. Payment: warehouse, district, customer, and
    // who has the same name; the three and the history. Delivery: of each of ten districts, the
    // new order, the order, its lines, the customer. Stock-Level: the lines of twenty orders,
    // and three quarters of the few items.
    let expected = [[23.0, 24.0], [3.6, 4.0], [13.4, 0.0], [130.0, 130.0], [296.0, 0.0]];
    for ([read, written, _], [reads, writes]) in averages.into_iter().zip(expected) {
        assert!((read - reads).abs() <= reads * 0.15, "{read} rows read, not {reads}");
        assert!((written - writes).abs() <= writes * 0.15, "{written} rows written, not {writes}");
    }
}
