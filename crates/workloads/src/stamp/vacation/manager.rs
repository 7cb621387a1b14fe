//! The agency's tables, and their changes by a task in its transaction.
//!
//! There are as many look-ups as in STAMP: a queried row is looked up for its free places, and again for its price;
//! a reserved row is looked up once more, and so is the customer. A refused request (too few free, or reserved already)
//! changes nothing.

use super::task::{Place, Task, Type};
use crate::rbtree::RbTree;
use crate::stamp::block::{self, word};
use crate::stamp::list::List;
use crate::toggle::KeySet;
use perdura::{Error, Result, Tx};

/// Maps of the root: the tables, and the customers.
pub(super) const MAPS: usize = 4;

pub(super) const USED: u64 = 1;
pub(super) const FREE: u64 = 2;
pub(super) const TOTAL: u64 = 3;
const PRICE: u64 = 4;
/// In a customer, the list's head.
pub(super) const LIST: u64 = 1;
/// Places that an update adds or takes.
const AT_ONCE: u64 = 100;

/// A row as it is loaded.
pub(super) struct Row {
    id: u64,
    total: u64,
    price: u64,
}

impl Row {
    pub(super) const fn new(id: u64, total: u64, price: u64) -> Self {
        Row { id, total, price }
    }
}

/// The tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manager {
    tables: [RbTree; 3],
    pub(super) customers: RbTree,
}

/// A reservation's key in its customer's list.
pub(super) const fn reservation((of, id): Place) -> u64 {
    (of as u64) << 32 | id
}

/// The row that a reservation is for.
pub(super) fn reserved(key: u64) -> Option<Place> {
    Type::ALL.get((key >> 32) as usize).map(|of| (*of, key & 0xFFFF_FFFF))
}

impl Manager {
    pub(super) fn create<T: Tx + ?Sized>(tx: &mut T) -> Result<Self> {
        let mut maps = [0; MAPS];
        for map in &mut maps {
            *map = RbTree::create(tx, 0, 0)?.at();
        }
        Ok(Self::open(maps))
    }

    pub(super) fn open(maps: [u64; MAPS]) -> Self {
        let [cars, flights, rooms, customers] = maps.map(RbTree::open);
        Manager { tables: [cars, flights, rooms], customers }
    }

    pub(super) const fn maps(&self) -> [RbTree; MAPS] {
        let [cars, flights, rooms] = self.tables;
        [cars, flights, rooms, self.customers]
    }

    pub(super) const fn table(&self, of: Type) -> RbTree {
        self.tables[of as usize]
    }

    /// Puts a row into one of the maps; for a customer, only its id.
    pub(super) fn load<T: Tx + ?Sized>(self, tx: &mut T, map: RbTree, row: &Row) -> Result<()> {
        if map == self.customers {
            return self.add_customer(tx, row.id);
        }
        let new = block::new(tx, [row.id, 0, row.total, row.total, row.price])?;
        map.insert(tx, row.id, new).map(drop)
    }

    /// Does a task. Returns the reservations made, less those cancelled.
    pub(super) fn perform<T: Tx + ?Sized>(self, tx: &mut T, task: &Task) -> Result<i64> {
        match task {
            Task::Reserve { customer, rows } => self.reserve_dearest(tx, *customer, rows),
            Task::Delete { customer } => self.delete_customer(tx, *customer),
            Task::Update { rows } => {
                rows.iter().try_for_each(|(place, price)| self.update(tx, *place, *price))?;
                Ok(0)
            }
        }
    }

    fn row_word<T: Tx + ?Sized>(self, tx: &mut T, place: Place, field: u64) -> Result<Option<u64>> {
        match self.table(place.0).get(tx, place.1)? {
            None => Ok(None),
            Some(row) => tx.read_word(word(row, field)).map(Some),
        }
    }

    fn reserve_dearest<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        customer: u64,
        rows: &[Place],
    ) -> Result<i64> {
        let mut dearest: [Option<(u64, u64)>; 3] = [None; 3];
        for &place in rows {
            if self.row_word(tx, place, FREE)?.is_none() {
                continue;
            }
            let price = self.row_word(tx, place, PRICE)?;
            let best = &mut dearest[place.0 as usize];
            if price > best.map(|(price, _)| price) {
                *best = price.map(|price| (price, place.1));
            }
        }
        if dearest.iter().all(Option::is_none) {
            return Ok(0);
        }
        self.add_customer(tx, customer)?;
        let mut made = 0;
        for (of, best) in Type::ALL.into_iter().zip(dearest) {
            if let Some((_, id)) = best {
                made += i64::from(self.reserve(tx, customer, (of, id))?);
            }
        }
        Ok(made)
    }

    fn add_customer<T: Tx + ?Sized>(self, tx: &mut T, id: u64) -> Result<()> {
        if self.customers.get(tx, id)?.is_some() {
            return Ok(());
        }
        let customer = block::new(tx, [id, 0])?;
        self.customers.insert(tx, id, customer).map(drop)
    }

    /// Returns whether one was free and the customer had not reserved it already.
    fn reserve<T: Tx + ?Sized>(self, tx: &mut T, customer: u64, place: Place) -> Result<bool> {
        let customer = self.customers.get(tx, customer)?;
        let row = self.table(place.0).get(tx, place.1)?;
        let (Some(customer), Some(row)) = (customer, row) else { return Ok(false) };
        let free = tx.read_word(word(row, FREE))?;
        if free == 0 {
            return Ok(false);
        }
        let price = tx.read_word(word(row, PRICE))?;
        if !List(word(customer, LIST)).insert(tx, reservation(place), price)? {
            return Ok(false);
        }
        block::add(tx, word(row, USED), 1)?;
        tx.write_word(word(row, FREE), free - 1)?;
        Ok(true)
    }

    fn delete_customer<T: Tx + ?Sized>(self, tx: &mut T, id: u64) -> Result<i64> {
        let Some(customer) = self.customers.get(tx, id)? else { return Ok(0) };
        let list = List(word(customer, LIST));
        let mut cancelled = 0;
        while let Some((key, _)) = list.pop(tx)? {
            let place = reserved(key);
            let place =
                place.ok_or_else(|| Error::corrupt("a reservation of nothing", customer))?;
            let row = self.table(place.0).get(tx, place.1)?;
            let row = row.ok_or_else(|| Error::corrupt("a reservation of no row", customer))?;
            block::add(tx, word(row, USED), 1u64.wrapping_neg())?;
            block::add(tx, word(row, FREE), 1)?;
            cancelled += 1;
        }
        self.customers.remove(tx, id)?;
        tx.free(customer)?;
        Ok(-cancelled)
    }

    fn update<T: Tx + ?Sized>(self, tx: &mut T, place: Place, price: Option<u64>) -> Result<()> {
        match (place.0, price) {
            (_, Some(price)) => self.add(tx, place, price),
            (Type::Flight, None) => self.delete_flight(tx, place),
            (Type::Car | Type::Room, None) => self.take(tx, place),
        }
    }

    fn add<T: Tx + ?Sized>(self, tx: &mut T, place: Place, price: u64) -> Result<()> {
        let table = self.table(place.0);
        let Some(row) = table.get(tx, place.1)? else {
            let row = block::new(tx, [place.1, 0, AT_ONCE, AT_ONCE, price])?;
            return table.insert(tx, place.1, row).map(drop);
        };
        block::add(tx, word(row, FREE), AT_ONCE)?;
        block::add(tx, word(row, TOTAL), AT_ONCE)?;
        tx.write_word(word(row, PRICE), price)
    }

    /// Takes some away, if that many are free; the price stays.
    fn take<T: Tx + ?Sized>(self, tx: &mut T, place: Place) -> Result<()> {
        let Some(row) = self.table(place.0).get(tx, place.1)? else { return Ok(()) };
        let free = tx.read_word(word(row, FREE))?;
        if free < AT_ONCE {
            return Ok(());
        }
        let total = tx.read_word(word(row, TOTAL))?;
        if total == AT_ONCE {
            return self.remove(tx, place, row);
        }
        tx.write_word(word(row, FREE), free - AT_ONCE)?;
        tx.write_word(word(row, TOTAL), total - AT_ONCE)
    }

    /// Deletes a flight, if none of it is used.
    fn delete_flight<T: Tx + ?Sized>(self, tx: &mut T, place: Place) -> Result<()> {
        let Some(row) = self.table(place.0).get(tx, place.1)? else { return Ok(()) };
        if tx.read_word(word(row, USED))? > 0 {
            return Ok(());
        }
        self.remove(tx, place, row)
    }

    fn remove<T: Tx + ?Sized>(self, tx: &mut T, place: Place, row: u64) -> Result<()> {
        self.table(place.0).remove(tx, place.1)?;
        tx.free(row)
    }
}
