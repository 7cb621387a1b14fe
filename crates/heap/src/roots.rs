//! The catalogue of named roots: a list of `{ next, pointer, kind | name length << 32, check, name }`, whose head is
//! in the pool's third page. The check includes the rest of the entry: damage to a root is always detected, whether
//! the pool has checksums or not.
//!
//! Programs look roots up seldom, so this is compiled once for all engines and memories.

use crate::collections::kind;
use crate::superblock::CATALOGUE;
use crate::tx::{Purpose, Root, Tx};
use perdura_engine::{Error, Result};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const LONGEST_NAME: usize = 255;
/// A list longer than this many roots must contain a cycle.
const MOST: usize = 1 << 20;
/// The first kind of programs' own; those below are for collections.
const OWN_KINDS: u32 = 1000;
const CHECK: u64 = 24;
const NAME: u64 = 32;

/// A root, its name, and its entry's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRoot {
    /// The name.
    pub name: Vec<u8>,
    /// The root.
    pub root: Root,
    /// Offset of the entry's own block.
    pub entry: u64,
    /// The next entry.
    next: u64,
}

impl NamedRoot {
    /// The entry's words before its name.
    fn words(&self) -> [u64; 4] {
        let shape = u64::from(self.root.kind) | (self.name.len() as u64) << 32;
        let mut words = [self.next, self.root.at, shape, 0];
        let name = xxh3_64_with_seed(&self.name, self.entry);
        words[3] = xxh3_64_with_seed(bytemuck::cast_slice(&words[..3]), name);
        words
    }

    /// Writes all but the name.
    fn write(&self, tx: &mut dyn Tx) -> Result<()> {
        let words = (self.entry..).step_by(8).zip(self.words());
        words.into_iter().try_for_each(|(at, word)| tx.write_word(at, word))
    }
}

/// Calls `found` with each root until it returns true. Returns that root and the one before it.
fn search<T: Tx + ?Sized>(
    tx: &mut T,
    found: &mut dyn FnMut(&NamedRoot) -> bool,
) -> Result<Option<(Option<NamedRoot>, NamedRoot)>> {
    let (mut entry, mut before) = (tx.read_word(CATALOGUE)?, None);
    for _ in 0..MOST {
        if entry == 0 {
            return Ok(None);
        }
        let field = |at: u64| {
            entry.checked_add(at).ok_or_else(|| Error::corrupt("pointer to a named root", at))
        };
        let mut word = |at| tx.read_word(at).map_err(Error::in_pool);
        let (next, at) = (word(entry)?, word(field(8)?)?);
        let (shape, check) = (word(field(16)?)?, word(field(CHECK)?)?);
        let len = (shape >> 32) as usize;
        if len == 0 || len > LONGEST_NAME {
            return Err(Error::corrupt("named root with an impossible name", entry));
        }
        let mut name = vec![0; len];
        tx.read_bytes(entry + NAME, &mut name).map_err(Error::in_pool)?;
        let named = NamedRoot { name, root: Root { at, kind: shape as u32 }, entry, next };
        if named.words()[3] != check {
            return Err(Error::corrupt("named root with a wrong check", entry));
        }
        if found(&named) {
            return Ok(Some((before, named)));
        }
        (entry, before) = (next, Some(named));
    }
    Err(Error::corrupt("list of named roots without an end", CATALOGUE))
}

/// The root with this name.
pub(crate) fn get(tx: &mut dyn Tx, name: &str) -> Result<Option<Root>> {
    let found = search(tx, &mut |named| named.name == name.as_bytes())?;
    Ok(found.map(|(_, named)| named.root))
}

/// Sets, replaces or removes the root with this name.
pub(crate) fn set(tx: &mut dyn Tx, name: &str, root: Root) -> Result<()> {
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(Error::Invalid("a root's name has 1 to 255 bytes"));
    }
    if root.at != 0 && !(kind::BLOB..=kind::VECTOR).contains(&root.kind) && root.kind < OWN_KINDS {
        return Err(Error::Invalid(
            "a root's kind is a collection's (`collections::kind`), or the program's own: a number from 1000 on",
        ));
    }
    match search(tx, &mut |named| named.name == name.as_bytes())? {
        Some((before, named)) if root.at == 0 => {
            match before {
                Some(before) => NamedRoot { next: named.next, ..before }.write(tx)?,
                None => tx.write_word(CATALOGUE, named.next)?,
            }
            tx.free(named.entry).map_err(Error::in_pool)
        }
        Some((_, named)) => NamedRoot { root, ..named }.write(tx),
        None if root.at == 0 => Ok(()),
        None => {
            let new = tx.allocate(Purpose::General, NAME + name.len() as u64)?;
            let entry = new.at();
            let next = tx.read_word(CATALOGUE)?;
            let named = NamedRoot { name: name.as_bytes().to_vec(), root, entry, next };
            let mut bytes = named.words().map(u64::to_ne_bytes).concat();
            bytes.extend_from_slice(&named.name);
            tx.write_fresh(new, 0, &bytes)?;
            tx.write_word(CATALOGUE, entry)
        }
    }
}

/// All named roots.
///
/// # Errors
/// `Corrupt` where the catalogue is damaged.
pub fn all<T: Tx + ?Sized>(tx: &mut T) -> Result<Vec<NamedRoot>> {
    let mut all = Vec::new();
    search(tx, &mut |named| {
        all.push(named.clone());
        false
    })?;
    Ok(all)
}
