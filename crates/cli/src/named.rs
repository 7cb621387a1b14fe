//! Database workloads by name, for the commands to which a workload is a name.

use crate::bench::keyspace::Served;
use crate::failure::Outcome;
use perdura_workloads::ycsb::{Letter, Options, Shape, Ycsb, YcsbOver};

/// The names, for messages.
pub(crate) const DATABASES: &str = "ycsb-a to ycsb-f";

/// The letter in `ycsb-a` to `ycsb-f`.
pub(crate) fn letter(name: &str) -> Option<Letter> {
    name.strip_prefix("ycsb-")?.parse().ok()
}

/// YCSB on `records` records; `operations` of them will come, warm-up included.
pub(crate) fn ycsb(letter: Letter, records: u64, operations: u64, per_tx: u64) -> Outcome<Ycsb> {
    let options =
        Options { operations_per_transaction: per_tx, ..Options::new(letter, records, operations) };
    Ok(Ycsb::new(options)?)
}

/// The same, over the store that the server uses.
pub(crate) fn served_ycsb(
    letter: Letter,
    records: u64,
    operations: u64,
) -> Outcome<YcsbOver<Served>> {
    Ok(YcsbOver::new(Options::new(letter, records, operations))?)
}

/// Bytes that such a table takes at most: the key and its entries besides the record; inserts at
/// most double the table.
pub(crate) fn ycsb_bytes(letter: Letter, records: u64, operations: u64, shape: Shape) -> u64 {
    let inserts = (operations as f64 * letter.mix().insert) as u64;
    let records = records.saturating_add(2 * inserts);
    records.saturating_mul(shape.record_bytes() as u64 + 1024)
}
