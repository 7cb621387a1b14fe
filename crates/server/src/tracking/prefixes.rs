//! Prefixes of keys that clients track, whatever they read.

use super::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// Bytes of memory that a client's prefix takes besides its own.
const PER_PREFIX: usize = 300;

/// The prefixes of one client: none is the beginning of another, but for the empty one that stands for no prefix.
#[derive(Default)]
pub(crate) struct OwnPrefixes {
    prefixes: BTreeSet<Name>,
    bytes: usize,
}

/// Why prefixes are refused.
pub(crate) enum Collision {
    /// The number of one of them, and the client's earlier prefix that it overlaps with.
    Earlier(usize, Name),
    /// The numbers of two of them that overlap.
    Given(usize, usize),
}

impl OwnPrefixes {
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Name> {
        self.prefixes.iter()
    }

    /// Bytes of memory that it takes with these.
    pub(crate) fn bytes_with(&self, more: &[Name]) -> usize {
        self.bytes + more.iter().map(|prefix| prefix.len() + PER_PREFIX).sum::<usize>()
    }

    pub(crate) fn add(&mut self, prefix: Name) {
        let bytes = prefix.len() + PER_PREFIX;
        if self.prefixes.insert(prefix) {
            self.bytes += bytes;
        }
    }

    /// Checks that no key has two of the client's prefixes with these.
    pub(crate) fn check(&self, given: &[Name]) -> Result<(), Collision> {
        let mut known: BTreeMap<&[u8], usize> = BTreeMap::new();
        for (number, prefix) in given.iter().enumerate() {
            if let Some(earlier) = overlapping(prefix, |range| {
                [
                    self.prefixes.range::<[u8], _>(range.0).next_back(),
                    self.prefixes.range::<[u8], _>(range.1).next(),
                ]
                .map(|found| found.map(|name| (&**name, name)))
            }) {
                return Err(Collision::Earlier(number, Arc::clone(earlier)));
            }
            if let Some(&other) = overlapping(prefix, |range| {
                [
                    known.range::<[u8], _>(range.0).next_back(),
                    known.range::<[u8], _>(range.1).next(),
                ]
                .map(|found| found.map(|(name, number)| (*name, number)))
            }) {
                return Err(Collision::Given(other, number));
            }
            known.insert(prefix, number);
        }
        Ok(())
    }
}

type Range<'r> = (Bound<&'r [u8]>, Bound<&'r [u8]>);

/// Looks among names of which none is the beginning of another for one that overlaps with `prefix`: it is the last one up to
/// it, or the first one after it. `neighbours` finds these two.
fn overlapping<'n, T>(
    prefix: &[u8],
    neighbours: impl FnOnce((Range<'_>, Range<'_>)) -> [Option<(&'n [u8], T)>; 2],
) -> Option<T> {
    let before = (Bound::Unbounded, Bound::Included(prefix));
    let after = (Bound::Excluded(prefix), Bound::Unbounded);
    let overlaps = |(name, _): &(&[u8], T)| prefix.starts_with(name) || name.starts_with(prefix);
    neighbours((before, after)).into_iter().flatten().find(overlaps).map(|(_, found)| found)
}

/// The clients of all prefixes.
#[derive(Default)]
pub(super) struct Prefixes(BTreeMap<Name, BTreeSet<u64>>);

impl Prefixes {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn add(&mut self, prefix: &Name, client: u64) {
        self.0.entry(Arc::clone(prefix)).or_default().insert(client);
    }

    pub(super) fn remove(&mut self, prefix: &Name, client: u64) {
        if let Some(clients) = self.0.get_mut(prefix) {
            clients.remove(&client);
            if clients.is_empty() {
                self.0.remove(prefix);
            }
        }
    }

    pub(super) fn clients(&self, prefix: &[u8]) -> impl Iterator<Item = u64> {
        self.0.get(prefix).into_iter().flatten().copied()
    }

    /// The prefixes of a key. Those that are not are passed over by what the last one up to the key has in common with it,
    /// so that this takes as many steps as there are prefixes on the way to the key, and not as there are.
    pub(super) fn of(&self, key: &[u8]) -> Vec<Name> {
        let (mut found, mut bound) = (Vec::new(), Bound::Included(key));
        while let Some((prefix, _)) = self.0.range::<[u8], _>((Bound::Unbounded, bound)).next_back()
        {
            let common = prefix.iter().zip(key).take_while(|(one, other)| one == other).count();
            bound = match common == prefix.len() {
                true => {
                    found.push(Arc::clone(prefix));
                    Bound::Excluded(&key[..common])
                }
                false => Bound::Included(&key[..common]),
            };
        }
        found
    }
}
