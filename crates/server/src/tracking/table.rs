//! Which clients may have kept which keys.

use super::Name;
use crate::command::Random;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Bytes of memory that a key takes besides its name, and each of its clients.
const PER_KEY: usize = 200;
const PER_ITEM: usize = 40;

/// The clients of keys, by the keys' names: a name is the same in all databases, as in Redis.
#[derive(Default)]
pub(super) struct Table {
    keys: HashMap<Name, Entry>,
    /// All names, to draw from.
    names: Vec<Name>,
    items: usize,
    bytes: usize,
}

struct Entry {
    /// Its place among the names.
    place: usize,
    clients: BTreeSet<u64>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn items(&self) -> usize {
        self.items
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn insert(&mut self, key: &Name, client: u64) {
        let place = self.names.len();
        let entry = self.keys.entry(Arc::clone(key)).or_insert_with(|| {
            self.names.push(Arc::clone(key));
            self.bytes += key.len() + PER_KEY;
            Entry { place, clients: BTreeSet::new() }
        });
        if entry.clients.insert(client) {
            self.items += 1;
            self.bytes += PER_ITEM;
        }
    }

    /// Removes a key. Returns its clients.
    pub(super) fn take(&mut self, key: &[u8]) -> BTreeSet<u64> {
        let Some(Entry { place, clients }) = self.keys.remove(key) else { return BTreeSet::new() };
        self.names.swap_remove(place);
        if let Some(moved) = self.names.get(place)
            && let Some(entry) = self.keys.get_mut(moved)
        {
            entry.place = place;
        }
        self.items -= clients.len();
        self.bytes -= key.len() + PER_KEY + clients.len() * PER_ITEM;
        clients
    }

    /// Removes a client of a key. Whether it was there.
    pub(super) fn remove(&mut self, key: &[u8], client: u64) -> bool {
        let Some(entry) = self.keys.get_mut(key) else { return false };
        let was_there = entry.clients.remove(&client);
        if was_there {
            self.items -= 1;
            self.bytes -= PER_ITEM;
        }
        if entry.clients.is_empty() {
            self.take(key);
        }
        was_there
    }

    /// Any key.
    pub(super) fn draw(&self, random: &mut Random) -> Option<Name> {
        let len = self.names.len() as u64;
        (len > 0).then(|| Arc::clone(&self.names[random.below(len) as usize]))
    }
}
