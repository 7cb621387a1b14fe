//! One operation: drawn outside the transaction, carried out inside, verified after it.

use super::keys::{Name, Order, identity_of};
use super::mix::Kind;
use super::table::{Shape, Table};
use crate::random::Random;
use crate::{Failure, Outcome, payload};
use perdura::{Result, Tx};

/// The longest scan, in records.
pub(super) const LONGEST_SCAN: u64 = 100;

/// What to do, with all inputs: running it again does the same.
pub(super) struct Operation {
    pub(super) kind: Kind,
    pub(super) record: u64,
    identity: u64,
    pub(super) name: Name,
    field: usize,
    pub(super) scan: usize,
    payload: Vec<u8>,
}

impl Operation {
    pub(super) fn new() -> Self {
        Operation {
            kind: Kind::Read,
            record: 0,
            identity: 0,
            name: Name::new(0),
            field: 0,
            scan: 0,
            payload: Vec::new(),
        }
    }

    /// Makes it an operation of this kind on this record, and draws the rest.
    pub(super) fn prepare(
        &mut self,
        kind: Kind,
        record: u64,
        order: Order,
        shape: Shape,
        random: &mut Random,
    ) {
        self.kind = kind;
        self.record = record;
        self.identity = order.identity(record);
        self.name = Name::new(self.identity);
        match kind {
            Kind::Read => {}
            Kind::Scan => self.scan = random.between(1, LONGEST_SCAN) as usize,
            Kind::Insert => shape.fill_record(self.identity, &mut self.payload),
            Kind::Update | Kind::ReadModifyWrite => {
                self.field = random.below(shape.fields as u64) as usize;
                self.payload.resize(shape.field_bytes, 0);
                let identity = shape.field_identity(self.identity, self.field);
                payload::fill(identity, random.word(), &mut self.payload);
            }
        }
    }

    pub(super) fn writes(&self) -> bool {
        !matches!(self.kind, Kind::Read | Kind::Scan)
    }

    /// Carries it out. What it reads is added to `found`.
    pub(super) fn run<T: Tx + ?Sized>(
        &mut self,
        tx: &mut T,
        table: &Table,
        found: &mut Found,
    ) -> Result<()> {
        let key = self.name.as_bytes();
        match self.kind {
            Kind::Insert => {
                found.duplicate |= !table.insert(tx, key, &self.payload)?;
                return Ok(());
            }
            Kind::Scan => {
                found.begin_scan(self.identity, self.scan);
                return table.scan(tx, key, self.scan, found);
            }
            _ => {}
        }
        let Some(at) = table.find(tx, key)? else {
            found.missing = Some(self.identity);
            return Ok(());
        };
        let offset = self.field * table.shape.field_bytes;
        match self.kind {
            Kind::Update => tx.write_bytes(at + offset as u64, &self.payload),
            Kind::ReadModifyWrite => {
                let record = found.read(tx, at, self.identity, table.shape)?;
                let version = payload::version_of(&record[offset..]);
                let identity = table.shape.field_identity(self.identity, self.field);
                payload::fill(identity, version + 1, &mut self.payload);
                tx.write_bytes(at + offset as u64, &self.payload)
            }
            _ => found.read(tx, at, self.identity, table.shape).map(drop),
        }
    }
}

/// What a transaction read, to be verified when it is over.
#[derive(Default)]
pub(super) struct Found {
    records: Vec<u8>,
    identities: Vec<u64>,
    scans: Vec<Scan>,
    missing: Option<u64>,
    duplicate: bool,
    key: Vec<u8>,
}

/// A scan: what was asked for, and where its records begin among the ones found.
struct Scan {
    start: u64,
    limit: usize,
    first: usize,
    count: usize,
    disordered: bool,
}

impl Found {
    /// Forgets everything: the transaction's body begins, perhaps again.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.identities.clear();
        self.scans.clear();
        self.missing = None;
        self.duplicate = false;
    }

    fn begin_scan(&mut self, start: u64, limit: usize) {
        let first = self.identities.len();
        self.key.clear();
        self.scans.push(Scan { start, limit, first, count: 0, disordered: false });
    }

    /// Takes the next record of the scan under way.
    pub(super) fn scanned<T: Tx + ?Sized>(
        &mut self,
        tx: &mut T,
        key: &[u8],
        at: u64,
        shape: Shape,
    ) -> Result<()> {
        // A name that is not one of ours fails verification as the record of nobody.
        let identity = identity_of(key).unwrap_or(u64::MAX);
        self.read(tx, at, identity, shape)?;
        if let Some(scan) = self.scans.last_mut() {
            scan.count += 1;
            scan.disordered |= key <= &self.key[..];
        }
        self.key.clear();
        self.key.extend_from_slice(key);
        Ok(())
    }

    /// Reads the record at `at`.
    fn read<T: Tx + ?Sized>(
        &mut self,
        tx: &mut T,
        at: u64,
        identity: u64,
        shape: Shape,
    ) -> Result<&[u8]> {
        let start = self.records.len();
        self.records.resize(start + shape.record_bytes(), 0);
        self.identities.push(identity);
        tx.read_bytes(at, &mut self.records[start..])?;
        Ok(&self.records[start..])
    }

    /// Checks everything that was read.
    pub(super) fn verify(&self, shape: Shape) -> Outcome {
        if let Some(identity) = self.missing {
            return Err(Failure::Wrong(format!("record user{identity} is not there")));
        }
        if self.duplicate {
            return Err(Failure::wrong("a new record's key was there already"));
        }
        let records = self.records.chunks_exact(shape.record_bytes());
        for (&identity, record) in self.identities.iter().zip(records) {
            shape.verify_record(identity, record)?;
        }
        self.scans.iter().try_for_each(|scan| self.verify_scan(scan))
    }

    fn verify_scan(&self, scan: &Scan) -> Outcome {
        let Scan { start, limit, first, count, disordered } = *scan;
        if disordered {
            return Err(Failure::Wrong(format!("the scan from user{start} is not in order")));
        }
        if count > limit || self.identities.get(first) != Some(&start) {
            let what = format!("the scan of {limit} from user{start} gave {count} other records");
            return Err(Failure::Wrong(what));
        }
        Ok(())
    }
}
