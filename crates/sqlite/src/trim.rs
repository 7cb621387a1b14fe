//! Room that SQLite holds but does not use: the pages on the free list of a database.
//!
//! What a DELETE or a DROP TABLE leaves empty, SQLite keeps on a list in the database, for pages to come. It never reads
//! what the list's leaves hold: in a full pool they are given back, and the tree says that they are zeros.
//!
//! Invariants: a page is given back only if the whole list is as SQLite makes it (a database may be encrypted above this
//! VFS, or damaged), and if no pinned version before the newest has it. Those who have pinned the newest do not read it
//! either.

use crate::database::Database;
use crate::pages::{FAN, Header};
use crate::session::Handle;
use crate::stage::Stage;
use crate::versions::Versions;
use perdura::{Error, Result};
use std::collections::HashSet;

/// Pages that a transaction gives back.
const TRIMMED: usize = 1024;
/// The page of this byte is never used: SQLite's locks would be there.
const LOCK_BYTE: u64 = 0x4000_0000;

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 4].iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Gives the unused pages of a database back to the pool. The caller is the database's writer.
pub(crate) fn trim(handle: &mut Handle, database: &Database) -> Result<()> {
    let Header { length, page_size, .. } = database.state().versions.header;
    let read = |page: u64, to: &mut [u8]| read_newest(handle, database, page, to);
    let Some(unused) = unused(page_size, length, read)? else { return Ok(()) };
    let unused = database.state().versions.held_by_newest(&unused);
    for some in unused.chunks(TRIMMED) {
        handle.submit(|tx| {
            for &(page, at) in some {
                let leaf = database.state().versions.leaf(page / FAN);
                tx.write_word(leaf + 8 * (page % FAN), 0)?;
                tx.free(at)?;
            }
            Ok(())
        })?;
        database.state().versions.trimmed(some);
    }
    Ok(())
}

/// Leaves out staged pages that are unused once the stage is committed: a large transaction writes many pages before it
/// frees them.
pub(crate) fn trim_stage(
    handle: &mut Handle,
    database: &Database,
    stage: &mut Stage,
) -> Result<()> {
    let (page_size, length) = (stage.page_size, stage.length);
    let same_page_size = database.state().versions.header.page_size == page_size;
    let read = |page: u64, to: &mut [u8]| {
        stage.read_page(page, to, |page, to| match same_page_size {
            true => read_newest(handle, database, page, to),
            false => Err(Error::Invalid("a page of another size")),
        })
    };
    for page in unused(page_size, length, read)?.unwrap_or_default() {
        stage.pages.remove(&page);
    }
    Ok(())
}

/// Reads a page of the newest version, as its writer.
fn read_newest(handle: &mut Handle, database: &Database, page: u64, to: &mut [u8]) -> Result<()> {
    match database.state().versions.at(page) {
        0 => to.fill(0),
        at => drop(handle.submit_read(|tx| tx.read_bytes(at, to))?),
    }
    Ok(())
}

/// The leaves of the free list of a database of this page size and length; `None` if it is not a list of SQLite.
fn unused(
    page_size: u64,
    length: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<()>,
) -> Result<Option<Vec<u64>>> {
    if length == 0 || !length.is_multiple_of(page_size) {
        return Ok(None);
    }
    let count = length / page_size;
    let mut bytes = vec![0; page_size as usize];
    read(0, &mut bytes)?;
    let said = match word(&bytes, 16) >> 16 {
        1 => 65536,
        said => said,
    };
    let is_ours = bytes.starts_with(b"SQLite format 3\0") && said == page_size;
    // The length is only right if the SQLite that wrote last has kept it.
    if !is_ours || word(&bytes, 28) != count || word(&bytes, 24) != word(&bytes, 92) {
        return Ok(None);
    }
    let most = (page_size as usize - usize::from(bytes[20])) / 4 - 2;
    let (mut trunk, total) = (word(&bytes, 32), word(&bytes, 36) as usize);
    let lock_page = LOCK_BYTE / page_size + 1;
    let is_page = |page: u64| (2..=count).contains(&page) && page != lock_page;
    let mut seen = HashSet::new();
    let mut leaves = Vec::new();
    while trunk != 0 {
        if !is_page(trunk) || !seen.insert(trunk) {
            return Ok(None);
        }
        read(trunk - 1, &mut bytes)?;
        let some = word(&bytes, 4) as usize;
        if some > most || seen.len() + some > total {
            return Ok(None);
        }
        for leaf in (0..some).map(|leaf| word(&bytes, 8 + 4 * leaf)) {
            if !is_page(leaf) || !seen.insert(leaf) {
                return Ok(None);
            }
            leaves.push(leaf - 1);
        }
        trunk = word(&bytes, 0);
    }
    Ok(Some(leaves).filter(|_| seen.len() == total))
}

impl Versions {
    /// Those of the pages that are in the pool, with their offsets, and that no older pinned version has there.
    fn held_by_newest(&self, pages: &[u64]) -> Vec<(u64, u64)> {
        let there = pages.iter().map(|&page| (page, self.at(page))).filter(|(_, at)| *at != 0);
        there.filter(|(page, _)| !self.is_in_older(*page)).collect()
    }
}
