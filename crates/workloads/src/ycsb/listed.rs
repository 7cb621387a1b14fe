//! The core workloads in the list.

use super::{KIND, Keyed, Letter, Options, Order, Own, Shape, YcsbOn, check_blocks};
use crate::Outcome;
use crate::list::{self, Given, Listed, OnWorkload, Parameter, Row, Usual};
use crate::records::Plain;

/// The core workload of a letter, by its number.
pub struct Core<const LETTER: usize>;

/// By the letters' numbers.
const NAMED: [[&str; 2]; 6] = [
    ["ycsb-a", "YCSB: half reads, half updates of a field"],
    ["ycsb-b", "YCSB: 95 % reads, 5 % updates"],
    ["ycsb-c", "YCSB: reads alone"],
    ["ycsb-d", "YCSB: 95 % reads of the newest records, 5 % inserts"],
    ["ycsb-e", "YCSB: 95 % short scans, 5 % inserts"],
    ["ycsb-f", "YCSB: half reads, half read-modify-writes"],
];

const DISTRIBUTION: &str = "distribution";
const ORDERED: &str = "ordered";
const FIELDS: &str = "fields";
const FIELD_BYTES: &str = "field-bytes";

const PARAMETERS: &[Parameter] = &[
    list::entries("records", 10_000),
    list::ops_per_tx("operations in a transaction", 1),
    Parameter {
        name: list::OVER,
        line: "where the records are: table, the workload's own; plain, the heap's own collections; store, which is \
               what the server keeps",
        usual: Usual::OneOf(&["table", "plain", "store"]),
    },
    Parameter {
        name: DISTRIBUTION,
        line: "how keys are chosen, if not as the letter has it; zipfian is scrambled, as YCSB's",
        usual: Usual::OneOf(&["own", "zipfian", "latest", "uniform"]),
    },
    Parameter {
        name: ORDERED,
        line: "records are named by their number, so that they are inserted in key order",
        usual: Usual::Off,
    },
    Parameter { name: FIELDS, line: "fields of a record", usual: Usual::Number(10) },
    Parameter { name: FIELD_BYTES, line: "bytes of a field", usual: Usual::Number(100) },
];

/// The maximum number of bytes of records in a store: the key and its entries in addition to the record. Inserts at
/// most double the table.
pub fn bytes_of(letter: Letter, records: u64, operations: u64, shape: Shape) -> u64 {
    let inserts = (operations as f64 * letter.mix().insert) as u64;
    let records = records.saturating_add(2 * inserts);
    records.saturating_mul(shape.record_bytes() as u64 + 1024)
}

impl<const LETTER: usize> Listed for Core<LETTER> {
    const ROW: Row = Row {
        name: NAMED[LETTER][0],
        line: NAMED[LETTER][1],
        parameters: PARAMETERS,
        operations: |_| 1_000_000,
        rolls_back: |_| false,
        roots: &[(KIND, check_blocks)],
    };

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let Given { values, operations, .. } = *given;
        let (letter, records) = (Letter::ALL[LETTER], values.entries());
        let usual = Options::new(letter, records, operations);
        let number = |name| values.number(name) as usize;
        let shape = Shape { fields: number(FIELDS), field_bytes: number(FIELD_BYTES) };
        let options = Options {
            distribution: values.name(DISTRIBUTION).parse().unwrap_or(usual.distribution),
            order: if values.is_on(ORDERED) { Order::Ordered } else { Order::Hashed },
            shape,
            operations_per_transaction: values.number(list::OPS_PER_TX),
            ..usual
        };
        let in_store = bytes_of(letter, records, operations, shape);
        Ok(match values.name(list::OVER) {
            "plain" => code.run(YcsbOn::<Keyed<Plain>>::new(options)?, in_store),
            "store" => code.run(YcsbOn::<Keyed<C::Store>>::new(options)?, in_store),
            _ => {
                // Room for an insert by each operation.
                let records = records.saturating_add(operations);
                let bytes = records.saturating_mul(2 * shape.record_bytes() as u64);
                code.run(YcsbOn::<Own>::new(options)?, bytes)
            }
        })
    }
}
