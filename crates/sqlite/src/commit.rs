//! Commits: the staged pages of one connection, of all its databases in a pool, in one transaction.
//!
//! A page that was committed before is either overwritten in place, where it differs, through the log, or replaced by a
//! new one, which costs one word of the tree: whichever is less. The new pages of a large commit are written before it,
//! in transactions of their own, and are on the list of replaced pages until the commit takes them: so a commit of any
//! size needs little log, and one that a crash interrupts leaves nothing behind.
//!
//! Invariants: before a page is overwritten in place, its bytes are kept for those who read the version before. The
//! tables in memory change only when the transaction has committed, however often its body runs.

use crate::codes;
use crate::database::{Database, States};
use crate::page::Page;
use crate::pages::{self, ENTRIES, FAN, Header};
use crate::session::Handle;
use crate::stage::Stage;
use crate::versions::{Changes, Freed, Place};
use perdura::{Error, Purpose, Result, Ticket, Tx};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// The most bytes that a commit overwrites in place, if there is room for new pages.
pub(crate) const IN_PLACE: usize = 128 << 10;
/// The most bytes of new pages in one transaction: on a block device an engine may log them.
const NEW: usize = 128 << 10;
/// Bytes of log around those of a run of words that is overwritten.
const RUN: usize = 24;
/// How many times dearer it is to overwrite where each stored word is waited for.
const SYNCED: usize = 16;
/// Changed words that are this near to each other are overwritten as one run.
const GAP: usize = 16;
/// Bytes that are compared at once, by a function of the C library; all page sizes are multiples.
const PART: usize = 256;
/// Replaced pages that a commit frees.
const FREED: usize = 256;
/// Replaced pages that a transaction of their own frees.
const REAPED: usize = 2048;

/// How pages are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// With the fewest bytes.
    Least,
    /// In place up to so many bytes, since there is little room for new pages.
    InPlace(usize),
}

/// The changes of one database.
struct Plan<'a> {
    database: &'a Database,
    stage: &'a Stage,
    before: Header,
    /// Words to overwrite: offsets, and places in the staged pages.
    in_place: Vec<(u64, u64, Range<usize>)>,
    /// Pages to make, with the offsets of those that they replace (0 for none).
    new: Vec<(u64, u64)>,
    /// Pages that are cut off, with their offsets.
    cut: Vec<(u64, u64)>,
    /// Words of the tree that are to be 0, since the file has grown over them.
    holes: Vec<u64>,
    freed: Freed,
    /// Pages that were made before the commit, by their numbers.
    prepared: HashMap<u64, u64>,
    /// The blocks that list them, and the list's first block before.
    blocks: Vec<u64>,
    rest: u64,
}

/// Commits the stages. Returns the commit's ticket; `None` if nothing has changed.
pub(crate) fn commit(
    handle: &mut Handle,
    staged: &[(&Database, &Stage)],
    way: Way,
) -> Result<Option<Ticket>> {
    let mut budget = match way {
        Way::Least => IN_PLACE,
        Way::InPlace(most) => most,
    };
    let mut plans = Vec::new();
    for (database, stage) in staged {
        plans.extend(plan(handle, database, stage, (way, &mut budget))?);
    }
    if plans.is_empty() {
        return Ok(None);
    }
    let committed = commit_plans(handle, &mut plans);
    if committed.is_err() {
        // What was prepared can be freed.
        plans.iter().for_each(|plan| plan.database.state().versions.abandon(&plan.blocks));
    }
    committed
}

fn commit_plans(handle: &mut Handle, plans: &mut [Plan<'_>]) -> Result<Option<Ticket>> {
    let new: u64 = plans.iter().map(|plan| plan.stage.page_size * plan.new.len() as u64).sum();
    if new > NEW as u64 {
        plans.iter_mut().try_for_each(|plan| prepare(handle, plan))?;
    }
    let plans = &*plans;
    let submitted = handle.submit(|tx| plans.iter().map(|plan| write(tx, plan)).collect());
    let (changes, ticket): (Vec<Changes>, Ticket) = submitted?;
    // At once: who pins versions of several databases finds all of a commit, or nothing.
    let mut states = States::lock(plans.iter().map(|plan| plan.database));
    for (plan, changes) in plans.iter().zip(changes) {
        states.versions(plan.database).publish(changes, ticket);
    }
    Ok(Some(ticket))
}

/// Makes a database's new pages, before the commit.
fn prepare(handle: &mut Handle, plan: &mut Plan<'_>) -> Result<()> {
    let each = (NEW / plan.stage.page_size as usize).clamp(1, ENTRIES);
    for some in plan.new.chunks(each) {
        let (stage, before) = (plan.stage, plan.before);
        let root = &plan.database.root;
        let submitted = handle.submit(|tx| {
            let mut made = Vec::with_capacity(some.len());
            for (page, _) in some {
                let new = tx.allocate(Purpose::Value, stage.page_size)?;
                tx.write_fresh(new, 0, &stage.pages[page])?;
                made.push(new.at());
            }
            let mut header = before;
            if header.at == 0 {
                header.page_size = stage.page_size;
            }
            header.first_replaced =
                pages::new_block(tx, header.first_replaced, made.iter().copied())?;
            header.write(tx, &before, root)?;
            Ok((header, made))
        });
        let ((header, made), _) = submitted?;
        plan.prepared.extend(some.iter().map(|(page, _)| *page).zip(made.iter().copied()));
        plan.before = header;
        plan.blocks.push(header.first_replaced);
        plan.database.state().versions.prepared(header, &made);
    }
    Ok(())
}

/// Decides how each page is written.
fn plan<'a>(
    handle: &mut Handle,
    database: &'a Database,
    stage: &'a Stage,
    (way, budget): (Way, &mut usize),
) -> Result<Option<Plan<'a>>> {
    let (page_size, count) = (stage.page_size, stage.length.div_ceil(stage.page_size));
    let before = database.state().versions.header;
    let same_page_size = before.page_size == page_size;
    let mut plan = Plan {
        database,
        stage,
        before,
        in_place: Vec::new(),
        new: Vec::new(),
        cut: Vec::new(),
        holes: Vec::new(),
        freed: Freed::default(),
        prepared: HashMap::new(),
        blocks: Vec::new(),
        rest: 0,
    };
    database.state().versions.begin_to_keep();
    let mut runs = Vec::new();
    for (&page, bytes) in &stage.pages {
        let (at, known) = match same_page_size && page * page_size < before.length {
            true => {
                let versions = &database.state().versions;
                (versions.at(page), versions.known(page))
            }
            false => (0, None),
        };
        if at == 0 {
            plan.new.push((page, 0));
            continue;
        }
        let old = match known {
            Some(known) => known,
            None => {
                let mut old = Page::any(page_size as usize).map_err(codes::no_memory)?;
                // Not `read`, which waits until what is read is durable.
                handle.submit_read(|tx| tx.read_bytes(at, &mut old))?;
                Arc::new(old)
            }
        };
        differences(&old, bytes, &mut runs);
        let logged: usize = runs.iter().map(|run| run.len() + RUN).sum();
        let logged = if database.syncs_stores { SYNCED * logged } else { logged };
        // What goes through the log is written twice.
        let is_less = 2 * logged <= page_size as usize || way != Way::Least;
        if is_less && logged <= *budget {
            *budget -= logged;
            if !runs.is_empty() {
                database.state().versions.keep(page, &old);
                plan.in_place.extend(runs.drain(..).map(|run| (at, page, run)));
            }
        } else {
            plan.new.push((page, at));
        }
    }
    let mut state = database.state();
    let versions = &mut state.versions;
    // Pages that the stage does not show any more, unless they are written again.
    let kept = if same_page_size { stage.base_end.div_ceil(page_size).min(count) } else { 0 };
    for page in kept..before.pages() {
        let at = versions.at(page);
        let is_new = same_page_size && stage.pages.contains_key(&page);
        if at != 0 && !is_new {
            plan.cut.push((page, at));
        }
        if page < count && !stage.pages.contains_key(&page) {
            plan.holes.push(page);
        }
    }
    for page in before.pages()..count {
        if !stage.pages.contains_key(&page) && versions.leaf(page / FAN) != 0 {
            plan.holes.push(page);
        }
    }
    let is_same = same_page_size && before.length == stage.length;
    if is_same && plan.in_place.is_empty() && plan.new.is_empty() && plan.cut.is_empty() {
        return Ok(None);
    }
    if before.at == 0 && stage.length == 0 {
        return Ok(None);
    }
    plan.freed = versions.freeable(FREED);
    plan.rest = before.first_replaced;
    drop(state);
    Ok(Some(plan))
}

/// Finds the runs of words in which the pages differ.
fn differences(old: &[u8], new: &[u8], runs: &mut Vec<Range<usize>>) {
    runs.clear();
    let (old, new) = (old.as_chunks::<PART>().0, new.as_chunks::<PART>().0);
    for (part, (old, new)) in old.iter().zip(new).enumerate() {
        // Most are the same.
        if old == new {
            continue;
        }
        let words = old.as_chunks::<8>().0.iter().zip(new.as_chunks::<8>().0);
        for (word, (a, b)) in words.enumerate() {
            if a == b {
                continue;
            }
            let at = PART * part + 8 * word;
            match runs.last_mut() {
                Some(run) if at - run.end <= GAP => run.end = at + 8,
                _ => runs.push(at..at + 8),
            }
        }
    }
}

/// Writes a database's changes.
fn write(tx: &mut dyn Tx, plan: &Plan<'_>) -> Result<Changes> {
    let Plan { stage, before, .. } = *plan;
    let mut changes = Changes { header: before, freed: plan.freed.clone(), ..Changes::default() };
    let header = &mut changes.header;
    for &block in &plan.blocks {
        tx.free(block)?;
        header.first_replaced = plan.rest;
    }
    changes.prepared = plan.blocks.clone();
    pages::free(tx, header, &plan.freed)?;
    for (at, page, run) in &plan.in_place {
        tx.write_bytes(at + run.start as u64, &stage.pages[page][run.clone()])?;
    }
    let mut replaced = plan.cut.clone();
    let pages = plan.new.iter().map(|&(page, old)| (page, Some(old)));
    let mut pages: Vec<_> = pages.chain(plan.holes.iter().map(|&page| (page, None))).collect();
    pages.sort_unstable_by_key(|(page, _)| *page);
    for group in pages.chunk_by(|(a, _), (b, _)| a / FAN == b / FAN) {
        let leaf = group[0].0 / FAN;
        let known = plan.database.state().versions.leaf(leaf);
        let mut words = [0; FAN as usize];
        for &(page, old) in group {
            let at = match old {
                None => 0,
                Some(old) => {
                    if old != 0 {
                        replaced.push((page, old));
                    }
                    match plan.prepared.get(&page) {
                        Some(made) => *made,
                        None => {
                            let new = tx.allocate(Purpose::Value, stage.page_size)?;
                            tx.write_fresh(new, 0, &stage.pages[&page])?;
                            new.at()
                        }
                    }
                }
            };
            changes.moved.push((page, at));
            match known {
                0 => words[(page % FAN) as usize] = at,
                known => tx.write_word(known + 8 * (page % FAN), at)?,
            }
        }
        if known == 0 {
            changes.leaves.push((leaf, header.add_leaf(tx, leaf, &words)?));
        }
    }
    for some in replaced.chunks(ENTRIES) {
        header.first_replaced =
            pages::new_block(tx, header.first_replaced, some.iter().map(|(_, at)| *at))?;
        changes.replaced.push((header.first_replaced, some.to_vec()));
    }
    (header.length, header.page_size) = (stage.length, stage.page_size);
    header.write(tx, &before, &plan.database.root)?;
    Ok(changes)
}

/// Frees replaced pages that no connection needs any more, in transactions of their own, if there are more than
/// commits free by and by. The caller is the database's writer.
pub(crate) fn reap(handle: &mut Handle, database: &Database, least: usize) -> Result<()> {
    loop {
        let (before, freed) = {
            let mut state = database.state();
            if state.versions.replaced_count() <= least {
                return Ok(());
            }
            (state.versions.header, state.versions.freeable(REAPED))
        };
        if freed.entries.is_empty() {
            return Ok(());
        }
        let submitted = handle.submit(|tx| {
            let mut header = before;
            pages::free(tx, &mut header, &freed)?;
            header.write(tx, &before, &database.root)?;
            Ok(header)
        });
        let (header, _) = submitted?;
        let mut state = database.state();
        state.versions.header = header;
        state.versions.remove_freed(&freed);
    }
}

/// Reads a page of a pinned version, from an offset in it on.
pub(crate) fn read_page(
    handle: &mut Handle,
    database: &Database,
    (version, page, from): (u64, u64, usize),
    to: &mut [u8],
) -> Result<()> {
    let part = from..from + to.len();
    let place = database.state().versions.find(version, page);
    match &place {
        Place::At(0) => to.fill(0),
        Place::Copy(bytes) => to.copy_from_slice(&bytes[part]),
        Place::At(at) => {
            let read = handle
                .submit_read(|tx| tx.read_bytes(*at + from as u64, to))
                .map_err(Error::in_pool);
            match database.state().versions.find(version, page) {
                // A commit may have overwritten the page meanwhile; it has kept the old bytes before.
                Place::Copy(bytes) => to.copy_from_slice(&bytes[part]),
                // It was given back meanwhile.
                Place::At(0) => to.fill(0),
                Place::At(_) => drop(read?),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_differences_are_one_run() {
        let differences = |old: &[u8], new: &[u8]| {
            let mut runs = vec![7..8, 9..10];
            differences(old, new, &mut runs);
            runs
        };
        let old = [0; 512];
        let mut new = old;
        assert_eq!(differences(&old, &new), []);
        new[3] = 1;
        new[25] = 1;
        new[100] = 1;
        new[511] = 1;
        assert_eq!(differences(&old, &new), [0..32, 96..104, 504..512]);
    }
}
