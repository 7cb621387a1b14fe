//! Checks a pool without writing to it: header, log, checksums, page table, named roots,
//! collections.
//!
//! The file is mapped privately and recovered there: the check sees the pool as the next opening would, and the file
//! stays as it is.

mod by_offset;

use crate::alloc::walk::{Block, walk};
use crate::collections::{Visit, check_root};
use crate::error::OpenError;
use crate::heap::{AnyHeap, Heap, Opening, inspect};
use crate::info::Info;
use crate::roots;
use crate::superblock::{State, Superblock};
use crate::tx::{Root, Tx};
pub use by_offset::ByOffset;
use by_offset::Search;
use perdura_engine::{Engine, Recovery, Result, Volatile};
use perdura_memory::{Mapped, Memory};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Checks a root of a kind that this crate does not know: calls `visit` with every block it
/// owns, and returns false if it does not know the kind either.
pub type CheckRoot<'a> = dyn Fn(&mut dyn Tx, Root, &mut Visit<'_>) -> Result<bool> + 'a;

/// The result of a check.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let pool = perdura::Options::new().size(8 << 20).create(folder.path().join("a.pool"))?;
/// use perdura::check::check;
///
/// # let path = pool.path().to_owned();
/// pool.close()?;
/// // There are no roots of kinds of one's own in it, which would need code that knows them.
/// let report = check(&path, &|_, _, _| Ok(false))?;
/// assert!(report.is_whole(), "{:?}", report.problems);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// The pool, as far as it could be read.
    pub info: Option<Info>,
    /// The faults. Empty for a whole pool.
    pub problems: Vec<String>,
    /// Remarks that are no errors.
    pub notes: Vec<String>,
    /// Allocated blocks.
    pub blocks: u64,
    /// Bytes in them.
    pub block_bytes: u64,
    /// Blocks that no named root owns, if every root's kind is known. Those of [`by_offset`](Self::by_offset) may be in
    /// use; the others have leaked.
    pub unreachable: Option<u64>,
    /// Of these, blocks to which only offsets among the entries of collections lead: no problem, but no copy by
    /// contents and no export can have it.
    pub by_offset: ByOffset,
    /// The named roots, with their kinds.
    pub roots: Vec<(String, u32)>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }

    fn count(&mut self, blocks: &[Block]) {
        self.blocks = blocks.len() as u64;
        self.block_bytes = blocks.iter().map(|block| block.bytes).sum();
    }

    fn problem(&mut self, problem: impl ToString) {
        self.problems.push(problem.to_string());
    }
}

/// Checks the pool at `path`; `other` knows the kinds of roots that this crate does not.
///
/// # Errors
/// When the file cannot be read at all; everything else is in the report.
pub fn check(path: &Path, other: &CheckRoot<'_>) -> Result<Report, OpenError> {
    let memory = Arc::new(Mapped::open_read_only(path)?);
    let mut report = Report::default();
    let superblock = Superblock::read(&*memory);
    let sequence = superblock.as_ref().ok().map(|superblock| superblock.sequence);
    match superblock {
        Ok(superblock) => check_contents(path, &memory, &superblock, other, &mut report),
        Err(error) => report.problem(error),
    }
    if memory.in_use() || opened_since(path, sequence) {
        report.notes.insert(
            0,
            "another process has the pool open, or had it meanwhile: what it changed may look \
             damaged; close it there, and check again"
                .to_owned(),
        );
    }
    Ok(report)
}

/// Whether the pool has been opened since its header had this number, or is open now. A check does not prevent that,
/// and every opening writes a header.
fn opened_since(path: &Path, sequence: Option<u64>) -> bool {
    let Ok(now) = Mapped::open_read_only(path) else { return true };
    now.in_use() || Superblock::read(&now).ok().map(|superblock| superblock.sequence) != sequence
}

/// Checks an opened heap, on any memory: page table, named roots, collections; `other` knows the kinds of roots that
/// this crate does not. Nothing may change the heap meanwhile.
pub fn check_heap<M: Memory + 'static, E: Engine<M>>(
    heap: &Heap<M, E>,
    other: &CheckRoot<'_>,
) -> Report {
    check_any(heap, other)
}

/// Compiled once for all engines and memories, like the rest of the check that reads the heap's contents.
fn check_any(heap: &dyn AnyHeap, other: &CheckRoot<'_>) -> Report {
    let mut report = Report::default();
    check_sums(heap.memory(), &heap.superblock(), &mut report);
    let (blocks, problems) = walk(heap.memory(), heap.space().layout());
    problems.into_iter().for_each(|problem| report.problem(problem));
    report.count(&blocks);
    if report.is_whole() {
        check_roots(heap, &blocks, other, &mut report);
    }
    report
}

fn check_contents(
    path: &Path,
    memory: &Arc<Mapped>,
    superblock: &Superblock,
    other: &CheckRoot<'_>,
    report: &mut Report,
) {
    for (copy, whole) in Superblock::whole_copies(&**memory).into_iter().enumerate() {
        if !whole && superblock.sequence > 1 {
            report.problem(format!(
                "copy {copy} of the header is damaged; the other one is whole, and the next opening writes both"
            ));
        }
    }
    match inspect(&**memory, superblock) {
        Ok(found) => note_recovery(superblock, &found, report),
        Err(error) => report.problem(format!("log: {error}")),
    }
    // On the private mapping: recovers there, whatever the engine.
    let opening = Opening { accept_weaker: true, force: true };
    let opened = Heap::<Mapped, Volatile<Mapped>>::open(memory.clone(), opening);
    let summed = report.problems.len();
    check_sums(&**memory, superblock, report);
    // Any other damage is reported as well.
    let summed = report.problems.len() - summed;
    let (blocks, problems) = walk(&**memory, &superblock.layout);
    problems.into_iter().for_each(|problem| report.problem(problem));
    report.count(&blocks);
    match opened {
        Ok(heap) => {
            report.info = Some(Info::new(path, memory, superblock, heap.space()));
            check_roots(&heap, &blocks, other, report);
        }
        // Without a readable log or table the roots mean nothing.
        Err(error) if report.problems.len() == summed => report.problem(error),
        Err(_) => {}
    }
}

/// At most this many damaged pages are named one by one.
const NAMED_PAGES: usize = 20;

/// Compares every page that has a checksum with it.
fn check_sums(memory: &dyn Memory, superblock: &Superblock, report: &mut Report) {
    let wrong = superblock.wrong_pages(memory);
    for page in wrong.iter().take(NAMED_PAGES) {
        report.problem(format!(
            "the page at {page:#x} does not match its checksum: what it holds is damaged; go back to a copy"
        ));
    }
    if let Some(others) = wrong.len().checked_sub(NAMED_PAGES).filter(|others| *others > 0) {
        report.problem(format!("{others} other pages do not match their checksums"));
    }
}

fn note_recovery(superblock: &Superblock, found: &Recovery, report: &mut Report) {
    if superblock.state == State::Closed {
        return;
    }
    report.notes.push(format!(
        "the pool was not closed; the next opening will replay {} transactions, roll back {} and discard {}",
        found.replayed, found.rolled_back, found.discarded
    ));
    if !superblock.recovers() {
        report.problem(format!(
            "the engine '{}' was in use when the pool was left: its contents are undefined",
            superblock.engine
        ));
    }
}

fn check_roots(heap: &dyn AnyHeap, blocks: &[Block], other: &CheckRoot<'_>, report: &mut Report) {
    let mut unclaimed: BTreeMap<u64, u64> = blocks.iter().map(|one| (one.at, one.bytes)).collect();
    let (mut all_known, mut collections) = (true, Vec::new());
    let mut leaked = 0;
    let result = heap.session().and_then(|mut session| {
        session.read(|tx| {
            for named in roots::all(tx)? {
                let name = String::from_utf8_lossy(&named.name).into_owned();
                report.roots.push((name.clone(), named.root.kind));
                claim(&mut unclaimed, named.entry, &name, report);
                let mut owned = Vec::new();
                let mut visit = |at: u64| {
                    owned.push(at);
                    Ok(())
                };
                let known = match check_root(tx, named.root, &mut visit) {
                    Ok(false) => other(tx, named.root, &mut visit),
                    known => {
                        collections.push(named.root);
                        known
                    }
                };
                match known {
                    Ok(known) => {
                        if !known {
                            report.notes.push(format!(
                                "root '{name}' is of kind {}, which is the program's own: not checked",
                                named.root.kind
                            ));
                        }
                        all_known &= known;
                    }
                    Err(error) => {
                        all_known = false;
                        report.problem(format!("root '{name}': {}", error.in_pool()));
                    }
                }
                for at in owned {
                    claim(&mut unclaimed, at, &name, report);
                }
            }
            leaked = unclaimed.len() as u64;
            if all_known && leaked > 0 {
                report.unreachable = Some(leaked);
                let (reached, problems) = Search::new(&mut unclaimed).run(tx, &collections)?;
                leaked -= reached.blocks;
                report.by_offset = reached;
                report.problems.extend(problems);
            }
            Ok(())
        })
    });
    if let Err(error) = result {
        report.problem(format!("named roots: {error}"));
    } else if all_known {
        let by_offset = report.by_offset;
        report.unreachable = Some(leaked + by_offset.blocks);
        if by_offset.blocks > 0 {
            report.notes.push(format!(
                "{} have no named root: offsets among the entries of collections lead to them, which are numbers to the pool; `perdura pool copy` needs --keep-offsets for them, and an export refuses",
                by_offset.in_words()
            ));
        }
        if let Some((first, _)) = unclaimed.first_key_value() {
            report.problem(format!(
                "{leaked} allocated blocks belong to no root, and no offset of theirs is stored (the first at {first:#x}): they are leaked"
            ));
        }
    }
}

/// A block belongs to one owner, and is allocated.
fn claim(unclaimed: &mut BTreeMap<u64, u64>, at: u64, name: &str, report: &mut Report) {
    if unclaimed.remove(&at).is_none() && report.problems.len() < 1000 {
        report.problem(format!(
            "root '{name}' uses the block at {at:#x}, which is not allocated, or used twice"
        ));
    }
}
