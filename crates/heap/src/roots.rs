//! The catalogue of named roots: a list of `{ next, pointer, kind | name length << 32, name }`,
//! whose head is in the pool's third page.

use crate::superblock::CATALOGUE;
use crate::tx::{Purpose, Root, Tx};
use perdura_engine::{Error, Result};

const LONGEST_NAME: usize = 255;
/// More than this many roots are a list that bites its tail.
const MOST: usize = 1 << 20;
const NAME: u64 = 24;

/// A root, its name, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The name.
    pub name: Vec<u8>,
    /// The root.
    pub root: Root,
    /// Offset of the entry's own block.
    pub entry: u64,
}

/// Calls `found` with each root; stops when it returns true, and gives the place of the pointer
/// to that entry with the entry.
fn search<T: Tx + ?Sized>(
    tx: &mut T,
    mut found: impl FnMut(&Named) -> bool,
) -> Result<Option<(u64, Named)>> {
    let mut link = CATALOGUE;
    for _ in 0..MOST {
        let entry = tx.read_word(link)?;
        if entry == 0 {
            return Ok(None);
        }
        let (at, shape) = (tx.read_word(entry + 8)?, tx.read_word(entry + 16)?);
        let len = (shape >> 32) as usize;
        if len == 0 || len > LONGEST_NAME {
            return Err(Error::corrupt("named root with an impossible name", entry));
        }
        let mut name = vec![0; len];
        tx.read_bytes(entry + NAME, &mut name)?;
        let named = Named { name, root: Root { at, kind: shape as u32 }, entry };
        if found(&named) {
            return Ok(Some((link, named)));
        }
        link = entry;
    }
    Err(Error::corrupt("list of named roots without an end", CATALOGUE))
}

/// The root with this name.
pub(crate) fn get<T: Tx + ?Sized>(tx: &mut T, name: &str) -> Result<Option<Root>> {
    let found = search(tx, |named| named.name == name.as_bytes())?;
    Ok(found.map(|(_, named)| named.root))
}

/// Sets, replaces or removes the root with this name.
pub(crate) fn set<T: Tx + ?Sized>(tx: &mut T, name: &str, root: Root) -> Result<()> {
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(Error::Invalid("a root's name has 1 to 255 bytes"));
    }
    let shape = u64::from(root.kind) | (name.len() as u64) << 32;
    match search(tx, |named| named.name == name.as_bytes())? {
        Some((link, named)) if root.at == 0 => {
            let next = tx.read_word(named.entry)?;
            tx.write_word(link, next)?;
            tx.free(named.entry)
        }
        Some((_, named)) => {
            tx.write_word(named.entry + 8, root.at)?;
            tx.write_word(named.entry + 16, shape)
        }
        None if root.at == 0 => Ok(()),
        None => {
            let entry = tx.allocate(Purpose::General, NAME + name.len() as u64)?;
            let head = tx.read_word(CATALOGUE)?;
            let mut bytes = [head, root.at, shape].map(u64::to_ne_bytes).concat();
            bytes.extend_from_slice(name.as_bytes());
            tx.write_fresh(entry, &bytes)?;
            tx.write_word(CATALOGUE, entry)
        }
    }
}

/// All named roots.
///
/// # Errors
/// `Corrupt` where the catalogue is damaged.
pub fn all<T: Tx + ?Sized>(tx: &mut T) -> Result<Vec<Named>> {
    let mut all = Vec::new();
    search(tx, |named| {
        all.push(named.clone());
        false
    })?;
    Ok(all)
}
