//! A transaction's access to the tables.

use super::rows::{Group, Key, id_of, of_name_member};
use crate::Records;
use perdura::{Error, Result, Tx};

/// The tables, inside of a transaction.
pub(super) struct Tables<'a, R> {
    pub(super) tx: &'a mut (dyn Tx + 'a),
    pub(super) records: &'a R,
}

/// A row with its fields, as [`Group::field`] gives them.
pub(super) type Fields<'a> = &'a [(&'static [u8], Vec<u8>)];

#[cold]
fn missing() -> Error {
    Error::corrupt("a row of TPC-C that is missing or cut short", 0)
}

impl<R: Records> Tables<'_, R> {
    /// A field of a row; `None` if there is no such row.
    pub(super) fn find<G: Group>(&mut self, row: &Key) -> Result<Option<G>> {
        match self.records.field(self.tx, row, G::FIELD)? {
            Some(bytes) => G::decode(&bytes).map(Some).ok_or_else(missing),
            None => Ok(None),
        }
    }

    /// A field of a row that must be there.
    pub(super) fn get<G: Group>(&mut self, row: &Key) -> Result<G> {
        self.find(row)?.ok_or_else(missing)
    }

    /// Replaces a field of a row.
    pub(super) fn put<G: Group>(&mut self, row: &Key, group: &G) -> Result<()> {
        self.records.set_fields(self.tx, row, &[(G::FIELD, &group.encode())])
    }

    /// Makes a row.
    pub(super) fn insert(&mut self, row: &Key, fields: Fields<'_>) -> Result<()> {
        let fields: Vec<(&[u8], &[u8])> =
            fields.iter().map(|(name, value)| (*name, &value[..])).collect();
        self.records.set_fields(self.tx, row, &fields)
    }

    /// Puts an id in a sorted set, by `score`.
    pub(super) fn add(&mut self, set: &Key, score: f64, id: u32) -> Result<()> {
        let mut text = itoa::Buffer::new();
        self.records.add(self.tx, set, score, text.format(id).as_bytes()).map(drop)
    }

    /// Takes an id from a sorted set. Returns whether it was there.
    pub(super) fn take(&mut self, set: &Key, id: u32) -> Result<bool> {
        let mut text = itoa::Buffer::new();
        self.records.take(self.tx, set, text.format(id).as_bytes())
    }

    /// The id with the least score in a sorted set.
    pub(super) fn first(&mut self, set: &Key) -> Result<Option<u32>> {
        let mut found = None;
        self.records.range(self.tx, set, f64::NEG_INFINITY, &mut |_, member| {
            found = Some(id_of(member));
            false
        })?;
        found.map(|id| id.ok_or_else(missing)).transpose()
    }

    /// All ids in a sorted set, by score.
    pub(super) fn ids(&mut self, set: &Key) -> Result<Vec<u32>> {
        let (mut ids, mut sound) = (Vec::new(), true);
        self.records.range(self.tx, set, f64::NEG_INFINITY, &mut |_, member| {
            match id_of(member) {
                Some(id) => ids.push(id),
                None => sound = false,
            }
            sound
        })?;
        if sound { Ok(ids) } else { Err(missing()) }
    }

    /// The customers with this last name, by first name.
    pub(super) fn named(&mut self, set: &Key) -> Result<Vec<([u8; 16], u32)>> {
        let (mut customers, mut sound) = (Vec::new(), true);
        self.records.range(self.tx, set, f64::NEG_INFINITY, &mut |_, member| {
            match of_name_member(member) {
                Some(customer) => customers.push(customer),
                None => sound = false,
            }
            sound
        })?;
        // A sorted set does not order members of the same score by first name.
        customers.sort_unstable();
        if sound { Ok(customers) } else { Err(missing()) }
    }
}

#[cold]
pub(super) fn no_customer() -> Error {
    Error::corrupt("a last name of TPC-C that no customer has", 0)
}
