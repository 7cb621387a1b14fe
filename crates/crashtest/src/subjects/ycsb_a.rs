//! YCSB's workload A: half reads, half updates of a field, on records of a kilobyte, with
//! Zipf's distribution.

use super::{Listed, Structure};
use crate::Subject;
use perdura::collections::{Bytes, HashMap, Visit};
use perdura::{Purpose, Result, Root, Tx, TxExt};
use perdura_memory::random::SplitMix64;
use perdura_workloads::random::Random;
use perdura_workloads::zipf::Zipf;

const ROOT: &str = "ycsb-a";
const KIND: u32 = 1_902;
const RECORDS: u64 = 16;
const FIELDS: u64 = 10;
const FIELD: usize = 100;

type Table = HashMap<Bytes<3>, u64>;

/// The table: keys to blocks of ten fields.
pub struct YcsbA {
    zipf: Zipf,
}

impl Default for YcsbA {
    fn default() -> Self {
        YcsbA { zipf: Zipf::new(RECORDS, 0.99) }
    }
}

/// An operation on a record.
#[derive(Clone, Debug)]
pub enum Op {
    /// All fields are read.
    Read(u64),
    /// A field is filled with this byte.
    Update(u64, u64, u8),
}

fn key(record: u64) -> String {
    format!("user{record:08}")
}

fn table(tx: &mut dyn Tx) -> Result<Option<Table>> {
    Ok(tx.root(ROOT)?.map(|root| Table::new(root.at)))
}

impl Listed for YcsbA {
    const ROW: Structure = Structure { name: "ycsb-a", line: "YCSB A on 16 records" };
}

impl Subject for YcsbA {
    type Op = Op;
    type Model = Vec<Vec<u8>>;

    fn name(&self) -> &str {
        Self::ROW.name
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        let table = Table::create_seeded(tx, 5)?;
        for record in 0..RECORDS {
            let at = tx.new_bytes(Purpose::Value, &vec![record as u8; FIELDS as usize * FIELD])?;
            table.set(tx, key(record).as_bytes(), at)?;
        }
        tx.set_root(ROOT, Root { at: table.at(), kind: KIND })
    }

    fn prepared(&self) -> Self::Model {
        (0..RECORDS).map(|record| vec![record as u8; FIELDS as usize * FIELD]).collect()
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> Self::Op {
        let record = self.zipf.draw(&mut Random::new(random.next(), 0));
        match random.below(2) {
            0 => Op::Read(record),
            _ => Op::Update(record, random.below(FIELDS), random.next() as u8),
        }
    }

    fn apply(&self, tx: &mut dyn Tx, op: &Self::Op) -> Result<()> {
        let table = table(tx)?.expect("it was prepared");
        let (Op::Read(record) | Op::Update(record, ..)) = op;
        let at = table.get(tx, key(*record).as_bytes())?;
        let at = at.ok_or_else(|| perdura::Error::corrupt("a record that is gone", *record))?;
        match op {
            Op::Read(_) => tx.read_bytes(at, &mut [0; FIELDS as usize * FIELD]),
            Op::Update(_, field, byte) => {
                tx.write_bytes(at + field * FIELD as u64, &[*byte; FIELD])
            }
        }
    }

    fn step(&self, model: &mut Self::Model, op: &Self::Op) -> bool {
        if let Op::Update(record, field, byte) = op {
            let first = *field as usize * FIELD;
            model[*record as usize][first..first + FIELD].fill(*byte);
        }
        true
    }

    fn aborts(&self) -> bool {
        false
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Self::Model>> {
        let Some(table) = table(tx)? else { return Ok(None) };
        let mut records = Vec::new();
        for record in 0..RECORDS {
            let mut bytes = Vec::new();
            if let Some(at) = table.get(tx, key(record).as_bytes())? {
                bytes.resize(FIELDS as usize * FIELD, 0);
                tx.read_bytes(at, &mut bytes)?;
            }
            records.push(bytes);
        }
        Ok(Some(records))
    }

    fn visit(&self, tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
        if root.kind == KIND {
            let table = Table::new(root.at);
            table.check(tx, visit)?;
            table.for_each(tx, &mut |_, record| visit(record))?;
        }
        Ok(root.kind == KIND)
    }
}
