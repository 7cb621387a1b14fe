//! Walks everything in a pool, and names what is wrong. Nothing is written: the pool is mapped
//! privately, and even the recovery of an unclean one is only tried out there.
//!
//! Header, log, page table and bitmaps, named roots and what hangs from them; then every
//! allocated object must be referred to exactly once, as far as references can be known.
//!
//! Reading order: this file, [`findings`], [`blocks`].

mod blocks;
mod findings;

pub(crate) use findings::Findings;

use blocks::Blocks;
use perdura::collections::check_root;
use perdura::heap::inspect;
use perdura::roots::{self, Named};
use perdura::superblock::{State, Superblock};
use perdura::{Engine, Heap, OpenError, Opening, RedoEngine, Result, Tx, UndoEngine, Volatile};
use perdura_memory::Mapped;
use std::path::Path;
use std::sync::Arc;

/// Roots of the heap's own collections have kinds below this; from here on they are a
/// program's own.
const OWN_KINDS: u32 = 1_000;

/// Checks the pool at `path`.
///
/// # Errors
/// When it cannot be looked at: no such file, no permission, no pool at all.
pub(crate) fn check(path: &Path) -> Result<Findings, OpenError> {
    let memory = Arc::new(Mapped::open_read_only(path)?);
    let mut findings = Findings::default();
    if memory.in_use() {
        findings.warn("file", "the pool is in use: what is found may be changing meanwhile");
    }
    let superblock = match Superblock::read(&*memory) {
        Ok(superblock) => superblock,
        Err(error @ (OpenError::NotAPool { .. } | OpenError::Version { .. })) => return Err(error),
        Err(error) => {
            findings.fault("header", error);
            return Ok(findings);
        }
    };
    check_header(&memory, &superblock, &mut findings);
    if check_log(&memory, &superblock, &mut findings) {
        check_heap(memory, &superblock, &mut findings);
    }
    Ok(findings)
}

fn check_header(memory: &Mapped, superblock: &Superblock, findings: &mut Findings) {
    let whole = Superblock::whole_copies(memory).into_iter().filter(|whole| *whole).count();
    if whole < 2 && superblock.sequence > 1 {
        findings.warn(
            "header",
            "one of its two copies is not whole: a crash can leave that, and the next opening repairs it",
        );
    }
    findings.good("header", format!("engine {}, {:?}", superblock.engine, superblock.state));
}

/// False where the log is damaged, so that nothing behind it can be believed.
fn check_log(memory: &Mapped, superblock: &Superblock, findings: &mut Findings) -> bool {
    match inspect(memory, superblock) {
        Ok(recovery) => {
            let perdura::Recovery { replayed, rolled_back, discarded } = recovery;
            findings.good(
                "log",
                format!("{replayed} to replay, {rolled_back} to roll back, {discarded} unfinished"),
            );
            true
        }
        Err(error) => {
            findings.fault("log", error);
            false
        }
    }
}

fn check_heap(memory: Arc<Mapped>, superblock: &Superblock, findings: &mut Findings) {
    if superblock.engine == "volatile" && superblock.state != State::Clean {
        findings.warn(
            "header",
            "it was in use with the engine 'volatile' when its process ended: anything may be missing",
        );
    }
    let checked = match superblock.engine.as_str() {
        "undo" => check_opened::<UndoEngine<Mapped>>(memory, superblock, findings),
        "redo" => check_opened::<RedoEngine<Mapped>>(memory, superblock, findings),
        _ => check_opened::<Volatile<Mapped>>(memory, superblock, findings),
    };
    if let Err(error) = checked {
        findings.fault("heap", error);
    }
}

/// Opens the private mapping, which recovers it, and walks what is there.
fn check_opened<E: Engine<Mapped>>(
    memory: Arc<Mapped>,
    superblock: &Superblock,
    findings: &mut Findings,
) -> Result<(), OpenError> {
    // Stores reach only this mapping: it outlives nothing, and need not.
    let opening = Opening { accept_weaker: true, force: true };
    let heap = Heap::<Mapped, E>::open(memory.clone(), opening)?;
    let mut blocks = match Blocks::allocated(&*memory, &superblock.layout) {
        Ok(blocks) => blocks,
        Err(error) => {
            findings.fault("allocator", error);
            return Ok(());
        }
    };
    findings.good("allocator", format!("{} objects of {} bytes", blocks.len(), blocks.bytes()));
    let mut session = heap.session()?;
    // In a list of its own: the body may run more than once.
    let mut found = Findings::default();
    session.read(|tx| {
        found = Findings::default();
        blocks.forget_visits();
        check_roots(tx, &mut blocks, &mut found)
    })?;
    findings.append(found);
    Ok(())
}

fn check_roots<T: Tx>(tx: &mut T, blocks: &mut Blocks, findings: &mut Findings) -> Result<()> {
    let roots = match roots::all(tx) {
        Ok(roots) => roots,
        Err(error) => {
            findings.fault("roots", error);
            return Ok(());
        }
    };
    findings.good("roots", format!("{} named", roots.len()));
    // Whether everything is known that may refer to an object.
    let mut followed = true;
    for named in &roots {
        let name = String::from_utf8_lossy(&named.name);
        match check_one_root(tx, named, blocks) {
            Ok(all) => followed &= all,
            Err(error) => {
                followed = false;
                findings.fault(&format!("root '{name}'"), error);
            }
        }
    }
    check_unreferenced(blocks, followed, findings);
    Ok(())
}

/// Whether all references that begin at this root were followed.
fn check_one_root<T: Tx>(tx: &mut T, named: &Named, blocks: &mut Blocks) -> Result<bool> {
    let Named { root, entry, .. } = named;
    blocks.visit(*entry)?;
    if root.kind >= OWN_KINDS {
        blocks.visit(root.at)?;
        return Ok(false);
    }
    check_root(tx, *root, &mut |at| blocks.visit(at))?;
    // A collection's plain words may be a program's own pointers.
    Ok(false)
}

fn check_unreferenced(blocks: &Blocks, followed: bool, findings: &mut Findings) {
    let (count, bytes, first) = blocks.unvisited();
    if count == 0 {
        return;
    }
    let what = format!("{count} objects of {bytes} bytes, the first at {first:#x}");
    if followed {
        findings.fault("allocator", format!("leaked: nothing refers to {what}"));
    } else {
        let hint = "they are a program's own, or leaked";
        findings.note("allocator", format!("no collection refers to {what}: {hint}"));
    }
}
