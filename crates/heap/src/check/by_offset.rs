//! Objects that no named root owns, but whose offsets are stored where a root leads to: collections inside collections,
//! and values of a program's own behind a `Ptr`.
//!
//! To the pool a stored offset is a number like others. So this goes by the numbers, as a conservative garbage collector
//! does: an allocated block without an owner, whose offset is among the bytes of a live entry of a collection, or of a
//! block found in this way, may be in use. Only a block to which no such number leads has certainly leaked. A number
//! that happens to be a leaked block's offset hides the leak; the other way round no mistake is possible, unless a
//! program stores offsets in a form of its own.

use crate::collections::untyped::{self, Element};
use crate::collections::{Visit, check_root, kind, tagged_kind};
use crate::tx::{Root, Tx};
use perdura_engine::{Error, Result};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// How many objects are reached by stored offsets alone.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let pool = perdura::Options::new().size(8 << 20).create(folder.path().join("a.pool"))?;
/// # let path = pool.path().to_owned();
/// # pool.close()?;
/// let report = perdura::check::check(&path, &|_, _, _| Ok(false))?;
/// if report.by_offset.blocks > 0 {
///     println!("a copy by contents cannot have {}", report.by_offset.in_words());
/// }
/// # assert_eq!(report.by_offset.in_words(), "");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ByOffset {
    /// Hash maps.
    pub hash_maps: u64,
    /// Ordered maps.
    pub ordered_maps: u64,
    /// Vectors, and cells.
    pub vectors: u64,
    /// Byte strings.
    pub strings: u64,
    /// Objects that only their program knows.
    pub objects: u64,
    /// The blocks of all of them.
    pub blocks: u64,
}

impl ByOffset {
    /// In words, without the numbers that are 0.
    pub fn in_words(&self) -> String {
        let counts = [
            (self.hash_maps, "hash map", "hash maps"),
            (self.ordered_maps, "ordered map", "ordered maps"),
            (self.vectors, "vector", "vectors"),
            (self.strings, "byte string", "byte strings"),
            (self.objects, "other object", "other objects"),
        ];
        let counts = counts.into_iter().filter(|(count, ..)| *count > 0);
        let words = counts
            .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }));
        words.collect::<Vec<_>>().join(", ")
    }
}

/// The search: blocks without an owner are taken out of `unclaimed` as offsets of theirs are found.
pub(super) struct Search<'a> {
    /// Blocks that no root owns, with their bytes.
    unclaimed: &'a mut BTreeMap<u64, u64>,
    /// Blocks that offsets lead to and that are no collection's.
    objects: BTreeSet<u64>,
    /// Found, and to be looked at: a block, and its bytes.
    found: Vec<(u64, u64)>,
    reached: ByOffset,
    problems: Vec<String>,
}

impl<'a> Search<'a> {
    pub(super) fn new(unclaimed: &'a mut BTreeMap<u64, u64>) -> Self {
        let (objects, found) = (BTreeSet::new(), Vec::new());
        Search { unclaimed, objects, found, reached: ByOffset::default(), problems: Vec::new() }
    }

    /// Looks for offsets in the entries of these collections, which are whole, and then in the blocks that they lead
    /// to. Returns the reached blocks, and their faults.
    pub(super) fn run<T: Tx + ?Sized>(
        mut self,
        tx: &mut T,
        roots: &[Root],
    ) -> Result<(ByOffset, Vec<String>)> {
        let all = self.unclaimed.len();
        for root in roots {
            self.collection(tx, *root)?;
        }
        while let Some((at, bytes)) = self.found.pop() {
            self.visit(tx, at, bytes)?;
        }
        self.reached.objects = self.objects.len() as u64;
        self.reached.blocks = (all - self.unclaimed.len()) as u64;
        Ok((self.reached, self.problems))
    }

    /// Takes note of the offsets that are in `bytes`, wherever they begin: a value has no padding.
    fn scan(&mut self, bytes: &[u8]) {
        for window in bytes.windows(8) {
            let at = u64::from_le_bytes(std::array::from_fn(|byte| window[byte]));
            if at != 0
                && let Some(bytes) = self.unclaimed.remove(&at)
            {
                self.objects.insert(at);
                self.found.push((at, bytes));
            }
        }
    }

    fn scan_element(&mut self, element: &Element, buffer: &mut Vec<u8>) {
        buffer.clear();
        buffer.extend(element.words.iter().flat_map(|word| word.to_le_bytes()));
        self.scan(buffer);
        if let Some(string) = &element.string {
            self.scan(string);
        }
    }

    /// Looks at the entries of a collection.
    fn collection<T: Tx + ?Sized>(&mut self, tx: &mut T, root: Root) -> Result<()> {
        let Some(description) = untyped::describe(tx, root)? else { return Ok(()) };
        let mut buffer = Vec::new();
        untyped::for_each(tx, &description, root.at, &mut |key, value| {
            self.scan_element(&key, &mut buffer);
            self.scan_element(&value, &mut buffer);
            Ok(())
        })
    }

    /// Looks at a block that an offset leads to.
    fn visit<T: Tx + ?Sized>(&mut self, tx: &mut T, at: u64, bytes: u64) -> Result<()> {
        // It may have turned out to be a part of a collection.
        if !self.objects.contains(&at) {
            return Ok(());
        }
        let Some(kind) = tagged_kind(tx, at)? else {
            let mut contents = vec![0; bytes as usize];
            tx.read_bytes(at, &mut contents)?;
            self.scan(&contents);
            return Ok(());
        };
        let root = Root { at, kind };
        let mut owned = Vec::new();
        let mut visit = |at: u64| {
            owned.push(at);
            Ok(())
        };
        if let Err(error) = check_collection(tx, root, &mut visit) {
            self.problems
                .push(format!("an object that a stored offset leads to: {}", error.in_pool()));
            return Ok(());
        }
        for at in owned {
            if self.unclaimed.remove(&at).is_none() && !self.objects.remove(&at) {
                self.problems.push(format!(
                    "the collection at {:#x}, which a stored offset leads to, uses the block at {at:#x}, which is not allocated, or used twice",
                    root.at
                ));
            }
        }
        *match kind {
            kind::HASH_MAP => &mut self.reached.hash_maps,
            kind::ORDERED_MAP => &mut self.reached.ordered_maps,
            kind::VECTOR => &mut self.reached.vectors,
            _ => &mut self.reached.strings,
        } += 1;
        self.collection(tx, root)
    }
}

fn check_collection<T: Tx + ?Sized>(tx: &mut T, root: Root, visit: &mut Visit<'_>) -> Result<()> {
    match check_root(tx, root, visit)? {
        true => Ok(()),
        false => Err(Error::corrupt("a collection's kind", root.at)),
    }
}
