//! One operation: drawn outside the transaction, carried out inside, verified after it.

use super::keys::{Name, Order, identity_of};
use super::mix::Kind;
use super::shape::Shape;
use super::table::Table;
use crate::random::Random;
use crate::{Failure, Outcome, payload};
use perdura::{Result, Tx};

/// The longest scan, in records.
pub(super) const LONGEST_SCAN: u64 = 100;

/// An operation with all inputs: running it again does the same.
pub(super) struct Operation {
    pub(super) kind: Kind,
    pub(super) record: u64,
    pub(super) identity: u64,
    pub(super) name: Name,
    pub(super) field: usize,
    pub(super) scan: usize,
    pub(super) payload: Vec<u8>,
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

    /// Sets the field to be written to the next version after the one in `record`, as it was read.
    pub(super) fn modify(&mut self, shape: Shape, record: &[u8]) {
        let version = payload::version_of(&record[self.field * shape.field_bytes..]);
        let identity = shape.field_identity(self.identity, self.field);
        payload::fill(identity, version.wrapping_add(1), &mut self.payload);
    }

    /// Carries it out, and adds the data read to `found`.
    pub(super) fn run<X: Tx, T: Table>(
        &mut self,
        tx: &mut X,
        table: &T,
        found: &mut Found,
    ) -> Result<()> {
        let name = self.name;
        let key = name.as_bytes();
        match self.kind {
            Kind::Insert => {
                found.duplicate |= !table.insert(tx, key, &self.payload)?;
                return Ok(());
            }
            Kind::Scan => {
                found.begin_scan(self.identity, self.scan);
                return table.scan(tx, key, self.scan, |tx, key, place| {
                    found.scanned(tx, table, key, place)
                });
            }
            _ => {}
        }
        let Some(place) = table.find(tx, key)? else {
            found.missing = Some(self.identity);
            return Ok(());
        };
        match self.kind {
            Kind::Update => table.write_field(tx, place, self.field, &self.payload),
            Kind::ReadModifyWrite => {
                let Some(record) = found.read(tx, table, place, self.identity)? else {
                    return Ok(());
                };
                self.modify(table.shape(), record);
                table.write_field(tx, place, self.field, &self.payload)
            }
            _ => found.read(tx, table, place, self.identity).map(drop),
        }
    }
}

/// The data that a transaction or a request has read, to be verified when it is over.
#[derive(Default)]
pub(super) struct Found {
    records: Vec<u8>,
    identities: Vec<u64>,
    scans: Vec<Scan>,
    missing: Option<u64>,
    duplicate: bool,
    key: Vec<u8>,
}

/// A scan: its request and its result.
struct Scan {
    start: u64,
    limit: usize,
    count: usize,
    /// It begins with a record that it should not begin with.
    astray: bool,
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

    pub(super) fn begin_scan(&mut self, start: u64, limit: usize) {
        self.scans.push(Scan { start, limit, count: 0, astray: false, disordered: false });
    }

    /// Takes the next record of the scan under way.
    fn scanned<X: Tx, T: Table>(
        &mut self,
        tx: &mut X,
        table: &T,
        key: &[u8],
        place: T::Place<'_>,
    ) -> Result<()> {
        // A name that is not one of ours fails verification as no record's.
        let identity = identity_of(key).unwrap_or(u64::MAX);
        self.read(tx, table, place, identity)?;
        self.follows(key, T::begins, T::ascends);
        Ok(())
    }

    /// Notes the next key of the scan under way, and whether it should come here.
    pub(super) fn follows(
        &mut self,
        key: &[u8],
        begins: impl Fn(&[u8], &[u8]) -> bool,
        ascends: impl Fn(&[u8], &[u8]) -> bool,
    ) {
        if let Some(scan) = self.scans.last_mut() {
            if scan.count == 0 {
                scan.astray = !begins(Name::new(scan.start).as_bytes(), key);
            } else {
                scan.disordered |= !ascends(&self.key, key);
            }
            scan.count += 1;
        }
        self.key.clear();
        self.key.extend_from_slice(key);
    }

    /// Reads the record at `place`; `None` if it is not whole, which is noted.
    fn read<X: Tx, T: Table>(
        &mut self,
        tx: &mut X,
        table: &T,
        place: T::Place<'_>,
        identity: u64,
    ) -> Result<Option<&[u8]>> {
        let bytes = table.shape().record_bytes();
        self.take(identity, bytes, |record| table.read(tx, place, record))
    }

    /// Has `read` fill a record of this many bytes, all of them 0; `None` if it is not whole, which
    /// is noted.
    pub(super) fn take<E>(
        &mut self,
        identity: u64,
        bytes: usize,
        read: impl FnOnce(&mut [u8]) -> Result<bool, E>,
    ) -> Result<Option<&[u8]>, E> {
        let start = self.records.len();
        self.records.resize(start + bytes, 0);
        if !read(&mut self.records[start..])? {
            self.records.truncate(start);
            self.missing = Some(identity);
            return Ok(None);
        }
        self.identities.push(identity);
        Ok(Some(&self.records[start..]))
    }

    /// Checks everything that was read.
    pub(super) fn verify(&self, shape: Shape) -> Outcome {
        if let Some(identity) = self.missing {
            return Err(Failure::Wrong(format!(
                "record user{identity} is not there, or not whole"
            )));
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
        let Scan { start, limit, count, astray, disordered } = *scan;
        if disordered {
            return Err(Failure::Wrong(format!("the scan from user{start} is not in order")));
        }
        if count == 0 || count > limit || astray {
            let what = format!("the scan of {limit} from user{start} gave {count} other records");
            return Err(Failure::Wrong(what));
        }
        Ok(())
    }
}
