//! The tables in the heap, and the transactions on them.
//!
//! Each table is a hash table with its rows inside; an index leads from a subscriber's number to the identifier.

use super::input::{Input, Kind};
use super::population::{
    Access, BIT_1, Column, DATA_A, Digits, END, Facility, Forwarding, IS_ACTIVE, Population,
    STARTS, Subscriber, TYPES, VLR, forwarding, mark,
};
use perdura::collections::{HashMap, kind};
use perdura::{Error, Result, Root, Tx, TxExt};
use std::collections::BTreeMap;

type Table<K, V> = HashMap<K, V, false>;

/// The tables' names, and the index's.
const ROOTS: [&str; 5] = [
    "tatp.subscriber",
    "tatp.sub_nbr",
    "tatp.access_info",
    "tatp.special_facility",
    "tatp.call_forwarding",
];

/// The tables.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    subscribers: Table<u64, Subscriber>,
    numbers: Table<Digits, u64>,
    access: Table<u64, Access>,
    facilities: Table<u64, Facility>,
    forwardings: Table<u64, Forwarding>,
}

/// All rows, in ordinary memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// SUBSCRIBER.
    pub subscribers: BTreeMap<u64, Subscriber>,
    /// The index by number.
    pub numbers: BTreeMap<Digits, u64>,
    /// ACCESS_INFO, by subscriber and type.
    pub access: BTreeMap<(u64, u8), Access>,
    /// SPECIAL_FACILITY, by subscriber and type.
    pub facilities: BTreeMap<(u64, u8), Facility>,
    /// CALL_FORWARDING, by subscriber, facility's type and start.
    pub forwardings: BTreeMap<(u64, u8, u8), Forwarding>,
}

/// The result of a transaction that found its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A subscriber's row.
    Subscriber(Subscriber),
    /// A row of ACCESS_INFO.
    Access(Access),
    /// How many forwardings there are for a call.
    Destinations(u32),
    /// The change of the subscriber's fingerprint: the new values' marks without those of the old ones.
    Changed(u64),
}

const fn by_type(id: u64, of_type: u8) -> u64 {
    id << 8 | of_type as u64
}

const fn by_start(id: u64, of_type: u8, start: u8) -> u64 {
    id << 16 | (of_type as u64) << 8 | start as u64
}

#[cold]
fn missing(id: u64) -> Error {
    Error::corrupt("a subscriber of TATP that is missing", id)
}

impl Tables {
    /// Makes the tables, empty. The same in every run.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    pub fn create<T: Tx + ?Sized>(tx: &mut T) -> Result<Self> {
        let tables = Tables {
            subscribers: HashMap::create_seeded(tx, 1)?,
            numbers: HashMap::create_seeded(tx, 2)?,
            access: HashMap::create_seeded(tx, 3)?,
            facilities: HashMap::create_seeded(tx, 4)?,
            forwardings: HashMap::create_seeded(tx, 5)?,
        };
        let Tables { subscribers, numbers, access, facilities, forwardings } = tables;
        let places =
            [subscribers.at(), numbers.at(), access.at(), facilities.at(), forwardings.at()];
        for (name, at) in ROOTS.into_iter().zip(places) {
            tx.set_root(name, Root { at, kind: kind::HASH_MAP })?;
        }
        Ok(tables)
    }

    /// The pool's tables, if it has them.
    ///
    /// # Errors
    /// As the transaction.
    pub fn find<T: Tx + ?Sized>(tx: &mut T) -> Result<Option<Self>> {
        let mut places = [0; ROOTS.len()];
        for (name, place) in ROOTS.into_iter().zip(&mut places) {
            let Some(root) = tx.root(name)? else { return Ok(None) };
            *place = root.at;
        }
        let [subscribers, numbers, access, facilities, forwardings] = places;
        Ok(Some(Tables {
            subscribers: HashMap::new(subscribers),
            numbers: HashMap::new(numbers),
            access: HashMap::new(access),
            facilities: HashMap::new(facilities),
            forwardings: HashMap::new(forwardings),
        }))
    }

    /// Inserts a subscriber's first rows.
    ///
    /// # Errors
    /// As the transaction.
    pub fn load<T: Tx + ?Sized>(&self, tx: &mut T, people: &Population, id: u64) -> Result<()> {
        self.subscribers.set(tx, id, people.subscriber(id))?;
        self.numbers.set(tx, super::population::number(id), id)?;
        let home = people.home(id);
        for of_type in 1..=TYPES {
            let index = usize::from(of_type) - 1;
            if let Some(row) = home.access[index] {
                self.access.set(tx, by_type(id, of_type), row)?;
            }
            if let Some(row) = home.facilities[index] {
                self.facilities.set(tx, by_type(id, of_type), row)?;
            }
            for (start, row) in STARTS.into_iter().zip(home.forwardings[index]) {
                if let Some(row) = row {
                    self.forwardings.set(tx, by_start(id, of_type, start), row)?;
                }
            }
        }
        Ok(())
    }

    /// Carries a transaction out. `None` if one that only reads finds no row.
    ///
    /// # Errors
    /// `Aborted` if a row to change is missing, or one to insert is there: TATP's transaction fails. `Corrupt` where a
    /// subscriber is missing; as the transaction.
    pub fn run<T: Tx + ?Sized>(&self, tx: &mut T, input: &Input) -> Result<Option<Answer>> {
        match input.kind {
            Kind::GetSubscriberData => {
                let row = self.subscribers.get(tx, input.id)?;
                row.map(Answer::Subscriber).map(Some).ok_or_else(|| missing(input.id))
            }
            Kind::GetAccessData => {
                let row = self.access.get(tx, by_type(input.id, input.of_type))?;
                Ok(row.map(Answer::Access))
            }
            Kind::GetNewDestination => self.destinations(tx, input),
            Kind::UpdateSubscriberData => self.update_subscriber(tx, input).map(Some),
            Kind::UpdateLocation => self.update_location(tx, input).map(Some),
            Kind::InsertCallForwarding => self.insert(tx, input).map(Some),
            Kind::DeleteCallForwarding => self.delete(tx, input).map(Some),
        }
    }

    fn destinations<T: Tx + ?Sized>(&self, tx: &mut T, input: &Input) -> Result<Option<Answer>> {
        let facility = self.facilities.get(tx, by_type(input.id, input.of_type))?;
        if facility.is_none_or(|row| row[IS_ACTIVE] == 0) {
            return Ok(None);
        }
        let mut found = 0;
        for start in STARTS.into_iter().filter(|start| *start <= input.start) {
            let row = self.forwardings.get(tx, by_start(input.id, input.of_type, start))?;
            found += u32::from(row.is_some_and(|row| row[END] > input.end));
        }
        Ok((found > 0).then_some(Answer::Destinations(found)))
    }

    /// The bit first, as TATP says: if there is no such facility, it is rolled back.
    fn update_subscriber<T: Tx + ?Sized>(&self, tx: &mut T, input: &Input) -> Result<Answer> {
        let place = self.subscribers.slot(tx, input.id)?.ok_or_else(|| missing(input.id))?;
        let bit = replace(tx, place.at() + BIT_1 as u64, [input.bit])?;
        let Some(place) = self.facilities.slot(tx, by_type(input.id, input.of_type))? else {
            return tx.abort("the subscriber has no such facility");
        };
        let data = replace(tx, place.at() + DATA_A as u64, [input.data])?;
        let of = Column::Data(input.of_type);
        Ok(Answer::Changed(
            mark(Column::Bit, &[input.bit])
                .wrapping_sub(mark(Column::Bit, &bit))
                .wrapping_add(mark(of, &[input.data]))
                .wrapping_sub(mark(of, &data)),
        ))
    }

    fn update_location<T: Tx + ?Sized>(&self, tx: &mut T, input: &Input) -> Result<Answer> {
        let id = self.by_number(tx, input)?;
        let place = self.subscribers.slot(tx, id)?.ok_or_else(|| missing(id))?;
        let new = input.location.to_le_bytes();
        let old = replace(tx, place.at() + VLR.start as u64, new)?;
        let of = Column::Location;
        Ok(Answer::Changed(mark(of, &new).wrapping_sub(mark(of, &old))))
    }

    fn insert<T: Tx + ?Sized>(&self, tx: &mut T, input: &Input) -> Result<Answer> {
        let id = self.by_number(tx, input)?;
        // TATP reads all of the subscriber's facilities, whichever is meant.
        let mut has_it = false;
        for of_type in 1..=TYPES {
            let is_there = self.facilities.contains(tx, by_type(id, of_type))?;
            has_it |= is_there && of_type == input.of_type;
        }
        if !has_it {
            return tx.abort("the subscriber has no such facility");
        }
        let (key, row) =
            (by_start(id, input.of_type, input.start), forwarding(input.end, &input.to));
        if self.forwardings.contains(tx, key)? {
            return tx.abort("there is a forwarding with this start");
        }
        self.forwardings.set(tx, key, row)?;
        Ok(Answer::Changed(mark(Column::Forwarding(input.of_type, input.start), &row)))
    }

    fn delete<T: Tx + ?Sized>(&self, tx: &mut T, input: &Input) -> Result<Answer> {
        let id = self.by_number(tx, input)?;
        let key = by_start(id, input.of_type, input.start);
        let Some(row) = self.forwardings.remove(tx, key)? else {
            return tx.abort("there is no forwarding with this start");
        };
        let gone = mark(Column::Forwarding(input.of_type, input.start), &row);
        Ok(Answer::Changed(gone.wrapping_neg()))
    }

    fn by_number<T: Tx + ?Sized>(&self, tx: &mut T, input: &Input) -> Result<u64> {
        match self.numbers.get(tx, input.number)? {
            Some(id) if id == input.id => Ok(id),
            _ => Err(missing(input.id)),
        }
    }

    /// A subscriber's rows, with the identifier that its number leads to.
    ///
    /// # Errors
    /// As the transaction.
    pub(super) fn rows<T: Tx + ?Sized>(&self, tx: &mut T, id: u64) -> Result<Rows> {
        let mut rows = Rows {
            subscriber: self.subscribers.get(tx, id)?,
            by_number: self.numbers.get(tx, super::population::number(id))?,
            home: super::population::Home {
                access: [None; TYPES as usize],
                facilities: [None; TYPES as usize],
                forwardings: [[None; STARTS.len()]; TYPES as usize],
            },
        };
        for of_type in 1..=TYPES {
            let index = usize::from(of_type) - 1;
            rows.home.access[index] = self.access.get(tx, by_type(id, of_type))?;
            rows.home.facilities[index] = self.facilities.get(tx, by_type(id, of_type))?;
            for (start, row) in STARTS.into_iter().zip(&mut rows.home.forwardings[index]) {
                *row = self.forwardings.get(tx, by_start(id, of_type, start))?;
            }
        }
        Ok(rows)
    }

    /// Rows of each table, and entries of the index, in the order of the names.
    ///
    /// # Errors
    /// As the transaction.
    pub(super) fn sizes<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<[u64; 5]> {
        Ok([
            self.subscribers.len(tx)?,
            self.numbers.len(tx)?,
            self.access.len(tx)?,
            self.facilities.len(tx)?,
            self.forwardings.len(tx)?,
        ])
    }

    /// All rows.
    ///
    /// # Errors
    /// As the transaction.
    pub fn contents<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<Contents> {
        let mut all = Contents::default();
        self.subscribers.for_each(tx, &mut |id, row| {
            all.subscribers.insert(id, row);
            Ok(())
        })?;
        self.numbers.for_each(tx, &mut |number, id| {
            all.numbers.insert(number, id);
            Ok(())
        })?;
        self.access.for_each(tx, &mut |key, row| {
            all.access.insert((key >> 8, key as u8), row);
            Ok(())
        })?;
        self.facilities.for_each(tx, &mut |key, row| {
            all.facilities.insert((key >> 8, key as u8), row);
            Ok(())
        })?;
        self.forwardings.for_each(tx, &mut |key, row| {
            all.forwardings.insert((key >> 16, (key >> 8) as u8, key as u8), row);
            Ok(())
        })?;
        Ok(all)
    }
}

/// A subscriber's rows, as they are found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) subscriber: Option<Subscriber>,
    pub(super) by_number: Option<u64>,
    pub(super) home: super::population::Home,
}

/// Replaces bytes in a row. Returns the old ones.
fn replace<T: Tx + ?Sized, const N: usize>(tx: &mut T, at: u64, new: [u8; N]) -> Result<[u8; N]> {
    let mut old = [0; N];
    tx.read_bytes(at, &mut old)?;
    tx.write_bytes(at, &new)?;
    Ok(old)
}
