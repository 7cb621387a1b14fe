//! A collection filled entry by entry, in transactions of a bounded size.

use crate::error::Error;
use perdura::collections::untyped::{self, Description, Element};
use perdura::{Handle, Root, Ticket, Tx};

/// Bytes of one transaction: a share of the log, and no more than this.
const MOST_BYTES: u64 = 256 << 10;
const LOG_SHARE: u64 = 16;

/// A collection that is being made.
pub struct Filler<'a> {
    handle: &'a mut Handle,
    description: Description,
    at: u64,
    pending: Vec<(Element, Element)>,
    bytes: u64,
    most: u64,
    entries: u64,
    last: Option<Ticket>,
}

impl<'a> Filler<'a> {
    /// Makes an empty collection.
    ///
    /// # Errors
    /// `Invalid` if there can be no such collection; as the transaction.
    pub fn new(handle: &'a mut Handle, description: Description) -> Result<Self, Error> {
        let log = handle.pool().info().log_bytes;
        let (at, ticket) = handle.submit(|tx| untyped::create(tx, &description))?;
        let most = (log / LOG_SHARE).clamp(1, MOST_BYTES);
        let (pending, last) = (Vec::new(), Some(ticket));
        Ok(Filler { handle, description, at, pending, bytes: 0, most, entries: 0, last })
    }

    /// Takes an entry; of an ordered map, in its order.
    ///
    /// # Errors
    /// `Invalid` if it is none of the collection's, or there already; as the transaction.
    pub fn add(&mut self, key: Element, value: Element) -> Result<(), Error> {
        self.bytes += (key.bytes() + value.bytes()) as u64 + 64;
        self.pending.push((key, value));
        if self.bytes >= self.most { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let pending = std::mem::take(&mut self.pending);
        let (mut rest, mut most) = (pending.as_slice(), pending.len());
        while !rest.is_empty() {
            let (part, after) = rest.split_at(most.min(rest.len()));
            match self.commit(part) {
                Ok(()) => rest = after,
                Err(perdura::Error::TooLarge { .. }) if part.len() > 1 => most = part.len() / 2,
                Err(error) => return Err(error.into()),
            }
        }
        self.bytes = 0;
        Ok(())
    }

    fn commit(&mut self, part: &[(Element, Element)]) -> perdura::Result<()> {
        let (description, first) = (self.description, self.at);
        let (at, ticket) = self.handle.submit(|tx| {
            part.iter().try_fold(first, |at, (key, value)| insert(tx, &description, at, key, value))
        })?;
        self.at = at;
        self.entries += part.len() as u64;
        self.last = Some(ticket);
        Ok(())
    }

    /// Gives the collection, which has all that was added, its name; how many entries it has. It is durable then.
    ///
    /// # Errors
    /// `Invalid` if there can be no such name, or there is one, or a byte string has no value; as the transaction.
    pub fn end(mut self, name: &str) -> Result<u64, Error> {
        self.flush()?;
        let (at, kind) = (self.at, self.description.kind());
        self.handle.transaction(|tx| {
            if tx.root(name)?.is_some() {
                return Err(perdura::Error::Invalid("there is a root of this name already"));
            }
            if at == 0 {
                return Err(perdura::Error::Invalid(
                    "a byte string has one value, and here it has none",
                ));
            }
            tx.set_root(name, Root { at, kind })
        })?;
        if let Some(last) = self.last {
            self.handle.wait(last)?;
        }
        Ok(self.entries)
    }
}

fn insert(
    tx: &mut dyn Tx,
    description: &Description,
    at: u64,
    key: &Element,
    value: &Element,
) -> perdura::Result<u64> {
    untyped::insert(tx, description, at, key, value)?
        .ok_or(perdura::Error::Invalid("the hash map has this key already"))
}
