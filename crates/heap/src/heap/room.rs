//! Makes room for an allocation that has failed: empties pages that are mostly free and, for an object of many pages,
//! adjacent ones, by moving objects of the named roots' collections out of them. Then the transaction is run again.
//!
//! Invariants: no transaction of this session is running. One session makes room at a time; others wait for it, outside
//! of transactions. A pool that is really full costs a failing transaction no walk: pages are emptied only if that makes
//! a share of all pages free.

use super::{HeapSession, HeapTx, nested};
use crate::alloc::Space;
use crate::collections::compact::{compact_root_some, unmoved};
use crate::collections::kind::{BLOB, HASH_MAP, ORDERED_MAP, VECTOR};
use crate::inside;
use crate::roots;
use crate::tx::{Root, Tx};
use perdura_engine::{Engine, Error, Mode, Result, Session};
use perdura_memory::{Memory, PAGE};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// A transaction is run again at most this many times for want of room.
pub(super) const MOST_TRIES: u32 = 4;
/// Share of all pages that must become free to make it worth a walk over all collections.
const WORTH: u64 = 256;
/// Buckets, leaves and byte strings looked at in one transaction.
const STEP: u64 = 32;
/// Windows tried for one object.
const WINDOWS: u32 = 2;

const COLLECTIONS: [u32; 4] = [BLOB, HASH_MAP, ORDERED_MAP, VECTOR];

/// The body of a moving transaction.
type Step<'a> = dyn FnMut(&mut dyn Tx) -> Result<()> + 'a;

/// A session that makes room, without its types.
trait Mover {
    /// Runs a transaction that only reads.
    fn look(&mut self, look: &mut Step<'_>) -> Result<()>;

    /// Runs a transaction.
    fn step(&mut self, step: &mut Step<'_>) -> Result<()>;

    /// Gives up the session's own pages.
    fn give_up_pages(&mut self);

    /// The same, and makes freed memory reusable.
    fn settle(&mut self);
}

impl<M: Memory + 'static, E: Engine<M>> Mover for HeapSession<M, E> {
    fn look(&mut self, look: &mut Step<'_>) -> Result<()> {
        self.run(Mode::Read, |tx: &mut HeapTx<'_, E::Session>| look(tx)).map(drop)
    }

    fn step(&mut self, step: &mut Step<'_>) -> Result<()> {
        self.run(Mode::Write, |tx: &mut HeapTx<'_, E::Session>| step(tx)).map(drop)
    }

    fn give_up_pages(&mut self) {
        self.state.local.give_up_pages(&self.state.shared.space);
        self.state.shared.space.collect_pages();
    }

    fn settle(&mut self) {
        self.give_up_pages();
        // A failed medium shows at the next commit.
        if self.state.session.checkpoint().is_ok() {
            self.state.shared.space.reclaim(self.engine.pins());
        }
    }
}

/// Lets the next session make room.
struct Turn<'a>(&'a AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<M: Memory + 'static, E: Engine<M>> HeapSession<M, E> {
    /// Makes room after a transaction that has failed, for the `tries`-th time, and has been rolled back. Returns
    /// whether it lacked room, and there is more now.
    #[cold]
    pub(super) fn make_room(&mut self, tries: u32) -> bool {
        let lacking = self.state.local.take_lacking();
        if lacking == 0 || self.makes_room || tries >= MOST_TRIES || self.memory.is_forked() {
            return false;
        }
        if inside::check_outside(self.watched).is_err() {
            return false;
        }
        let shared = self.state.shared.clone();
        let mut waits = 0;
        while shared.making_room.swap(true, Ordering::Acquire) {
            shared.memory.pause(waits);
            waits += 1;
        }
        let _turn = Turn(&shared.making_room);
        if waits > 0 {
            return true;
        }
        self.makes_room = true;
        let pages = lacking.div_ceil(PAGE).saturating_mul(u64::from(tries) + 1);
        let has_more = make(self, &shared.space, &*shared.memory, pages);
        self.makes_room = false;
        has_more
    }
}

/// Makes room for an object of this many pages. Returns whether there is more room than before.
fn make(mover: &mut dyn Mover, space: &Space, memory: &dyn Memory, pages: u64) -> bool {
    let (before, _) = space.free_pages(memory);
    mover.give_up_pages();
    let worth = (space.layout().pages_in(memory.len()) / WORTH).max(1);
    if space.may_be_worth(worth) && has_collections(mover) && space.empty_pages(worth, false) > 0 {
        Emptying(space).run(mover);
    }
    let mut windows = 0;
    while pages > 1 && space.free_pages(memory).1 < pages {
        if windows == WINDOWS || !start_window(mover, space, memory, pages) {
            // Smaller objects may have room; this one has none.
            space.has_no_window(memory, pages);
            return false;
        }
        Emptying(space).run(mover);
        windows += 1;
    }
    windows > 0 || space.free_pages(memory).0 > before
}

/// Whether there are collections, which have parts that can be moved, or lead to others.
fn has_collections(mover: &mut dyn Mover) -> bool {
    let mut any = false;
    let outcome = mover.look(&mut |tx| {
        any = !collections(tx)?.is_empty();
        Ok(())
    });
    outcome.is_ok() && any
}

/// The roots that are collections.
fn collections(tx: &mut dyn Tx) -> Result<Vec<Root>> {
    let roots = roots::all(tx)?.into_iter().map(|named| named.root);
    Ok(roots.filter(|root| COLLECTIONS.contains(&root.kind)).collect())
}

/// Whether all roots are collections.
fn are_known(mover: &mut dyn Mover) -> bool {
    let mut all = false;
    let outcome = mover.look(&mut |tx| {
        all = roots::all(tx)?.iter().all(|named| COLLECTIONS.contains(&named.root.kind));
        Ok(())
    });
    outcome.is_ok() && all
}

/// The maps that only stored offsets lead to.
fn nested(mover: &mut dyn Mover) -> Vec<Root> {
    let mut nested = Vec::new();
    let outcome = mover.look(&mut |tx| {
        nested = nested::find(tx)?;
        Ok(())
    });
    if outcome.is_ok() { nested } else { Vec::new() }
}

/// Begins to empty adjacent pages, if that is possible.
fn start_window(mover: &mut dyn Mover, space: &Space, memory: &dyn Memory, pages: u64) -> bool {
    if !space.may_have_window(memory, pages) || !has_collections(mover) {
        return false;
    }
    let (mut stay, nested) = (BTreeSet::new(), nested(mover));
    let page = |at: u64| at.saturating_sub(space.layout().pages) / PAGE;
    let outcome = mover.look(&mut |tx| {
        stay.clear();
        for named in roots::all(tx)? {
            stay.insert(page(named.entry));
            let mut visit = |at: u64| {
                stay.insert(page(at));
                Ok(())
            };
            unmoved(tx, named.root, &mut visit)?;
        }
        for root in &nested {
            let mut visit = |at: u64| {
                stay.insert(page(at));
                Ok(())
            };
            unmoved(tx, *root, &mut visit)?;
        }
        Ok(())
    });
    outcome.is_ok() && space.empty_window(memory, pages, &stay)
}

/// Ends the emptying that has begun, also if something panics.
struct Emptying<'a>(&'a Space);

impl Emptying<'_> {
    /// Moves the movable objects.
    fn run(self, mover: &mut dyn Mover) {
        let mut all = Walk::default().run(mover);
        let nested = nested(mover);
        if !nested.is_empty() {
            all &= Walk { nested: Some(&nested), ..Walk::default() }.run(mover);
        }
        // The program may know how to move the objects of its own roots.
        all = all && are_known(mover);
        mover.settle();
        self.0.end_emptying(all);
        std::mem::forget(self);
    }
}

impl Drop for Emptying<'_> {
    fn drop(&mut self) {
        self.0.end_emptying(false);
    }
}

/// A walk over collections, and how far it is.
#[derive(Clone, Default)]
struct Walk<'a> {
    /// The collections, if they are not those of the named roots.
    nested: Option<&'a [Root]>,
    /// Number of roots that are done.
    done: usize,
    /// The root that is looked at, and how far.
    root: Option<Root>,
    cursor: u64,
    /// Whether there are no more.
    ended: bool,
}

impl Walk<'_> {
    /// Moves the objects in pages to be emptied. Returns whether all of them were looked at.
    fn run(mut self, mover: &mut dyn Mover) -> bool {
        let (mut budget, mut all) = (STEP, true);
        while !self.ended {
            let mut next = self.clone();
            let stepped = mover.step(&mut |tx| {
                next = self.clone();
                next.step(tx, budget)
            });
            match stepped {
                Ok(()) => {
                    self = next;
                    budget = (budget * 2).min(STEP);
                }
                Err(Error::TooLarge { .. }) if budget > 1 => budget /= 2,
                // Others have taken the room that there was, or the medium failed.
                Err(error) if error.is_full() || matches!(error, Error::Io(_)) => return false,
                // Damage, or too much for the log: the collection stays as it is.
                Err(_) if next.root.is_some() => {
                    self.done = next.done + 1;
                    (self.root, self.cursor, all) = (None, 0, false);
                }
                Err(_) => return false,
            }
        }
        all
    }

    fn step(&mut self, tx: &mut dyn Tx, budget: u64) -> Result<()> {
        let named = if self.nested.is_none() { collections(tx)? } else { Vec::new() };
        let mut budget = budget;
        let roots = self.nested.unwrap_or(&named);
        if let Some(root) = self.root {
            // Roots may have come and gone since.
            match roots.iter().position(|other| *other == root) {
                Some(place) => self.done = place,
                None => self.cursor = 0,
            }
        }
        while budget > 0 {
            self.root = roots.get(self.done).copied();
            let Some(root) = self.root else {
                self.ended = true;
                break;
            };
            self.cursor = compact_root_some(tx, root, self.cursor, &mut budget)?;
            if self.cursor == 0 {
                self.done += 1;
                self.root = None;
            }
        }
        Ok(())
    }
}
