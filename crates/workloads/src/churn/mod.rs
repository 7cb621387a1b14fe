//! Allocator churn: blocks of random sizes come, change their size, and go.
//!
//! Sizes are spread over the allocator's classes and beyond, into runs of pages. A slot that is
//! empty gets a block; one that is taken loses its block, or gets a larger or smaller one that begins
//! with the contents of the old one. Each block's bytes follow from its slot and from how many
//! blocks the slot has had, so that a byte in the wrong place is noticed.
//!
//! ```text
//! header  number of slots, then of each slot: the block, its number << 32 | its bytes
//! ```
//!
//! Each thread has its own slots, and so knows their contents.

#[cfg(test)]
mod tests;

use crate::list::{self, Given, Listed, OnWorkload, Row};
use crate::random::{Random, splitmix64};
use crate::zeroed;
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use perdura::collections::Visit;
use perdura::{Error, Purpose, Result, Root, Tx};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

const ROOT: &str = "bench.churn";
/// The kind of this workload's root.
pub(crate) const KIND: u32 = 2_006;
const WORD: u64 = 8;
const SLOT: u64 = 2 * WORD;
/// Sizes are drawn up to one of these, and above the one before it: the allocator's classes,
/// and runs of up to four pages.
const SIZES: [u64; 18] = [
    32, 64, 128, 192, 256, 320, 384, 448, 512, 640, 768, 1024, 1344, 2048, 4096, 8192, 12_288,
    16_384,
];
/// Bytes of a block, on the average, no more than that.
pub const BYTES_PER_BLOCK: u64 = 4096;

/// A change of one slot, drawn before the transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    slot: u64,
    bytes: u64,
    /// Whether a taken slot loses its block, or has it resized.
    frees: bool,
}

impl Change {
    /// Draws a slot of `first..first + len`, and its change.
    pub fn draw(random: &mut Random, first: u64, len: u64) -> Self {
        let class = random.below(SIZES.len() as u64) as usize;
        let least = if class == 0 { 1 } else { SIZES[class - 1] + 1 };
        Change {
            slot: first + random.below(len),
            bytes: random.between(least, SIZES[class]),
            frees: random.below(2) == 0,
        }
    }

    /// The slot's state after this change, if it was `held` before. 0 bytes: it is empty.
    fn outcome(self, held: SlotState) -> SlotState {
        match held.bytes {
            0 => SlotState { number: held.number.wrapping_add(1), bytes: self.bytes },
            _ if self.frees => SlotState { bytes: 0, ..held },
            _ => SlotState { bytes: self.bytes, ..held },
        }
    }
}

/// The state of a slot: how many blocks it has had (a resized one is the same), and the bytes of
/// its current one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SlotState {
    number: u32,
    bytes: u64,
}

impl SlotState {
    const fn word(self) -> u64 {
        (self.number as u64) << 32 | self.bytes
    }

    const fn of(word: u64) -> Self {
        SlotState { number: (word >> 32) as u32, bytes: word & 0xFFFF_FFFF }
    }

    /// The block's bytes from `first` on, a multiple of 8.
    fn fill(self, slot: u64, first: u64, bytes: &mut [u8]) {
        let seed = splitmix64(slot ^ u64::from(self.number) << 32);
        for (index, piece) in (first / WORD..).zip(bytes.chunks_mut(WORD as usize)) {
            let word = (seed ^ index).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_right(32);
            piece.copy_from_slice(&word.to_ne_bytes()[..piece.len()]);
        }
    }
}

fn slot_at(header: u64, slot: u64) -> u64 {
    header.wrapping_add(WORD).wrapping_add(slot.wrapping_mul(SLOT))
}

/// Makes the header, of empty slots, and its root.
///
/// # Errors
/// As [`Tx::allocate`].
pub fn create<T: Tx + ?Sized>(tx: &mut T, slots: u64) -> Result<u64> {
    let header = zeroed::allocate(tx, WORD + slots * SLOT)?;
    tx.write_word(header, slots)?;
    tx.set_root(ROOT, Root { at: header, kind: KIND })?;
    Ok(header)
}

/// Makes each change in turn.
///
/// # Errors
/// As the transaction's reads, writes and allocations; `Corrupt` where a slot is damaged.
pub fn change<T: Tx + ?Sized>(tx: &mut T, header: u64, changes: &[Change]) -> Result<()> {
    changes.iter().try_for_each(|change| change_one(tx, header, *change))
}

fn change_one<T: Tx + ?Sized>(tx: &mut T, header: u64, change: Change) -> Result<()> {
    let at = slot_at(header, change.slot);
    let (block, held) = (tx.read_word(at)?, SlotState::of(tx.read_word(at.wrapping_add(WORD))?));
    let next = change.outcome(held);
    let new = match next.bytes {
        0 => 0,
        bytes => {
            let new = tx.allocate(Purpose::Value, bytes)?;
            let kept = held.bytes.min(bytes) & !7;
            let mut contents = vec![0; bytes as usize];
            tx.read_bytes(block, &mut contents[..kept as usize])?;
            next.fill(change.slot, kept, &mut contents[kept as usize..]);
            tx.write_fresh(new, 0, &contents)?;
            new.at()
        }
    };
    if held.bytes != 0 {
        tx.free(block)?;
    }
    tx.write_word(at, new)?;
    tx.write_word(at.wrapping_add(WORD), next.word())
}

/// Checks every block's bytes, and reports the header and every block to `visit`.
pub(crate) fn check_blocks(tx: &mut dyn Tx, header: u64, visit: &mut Visit<'_>) -> Result<()> {
    visit(header)?;
    let slots = tx.read_word(header)?;
    if slots > (tx.usable(header)? - WORD) / SLOT {
        return Err(Error::corrupt("more slots than there is room for", header));
    }
    for slot in 0..slots {
        let (block, _) = check_slot(tx, header, slot)?;
        if block != 0 {
            visit(block)?;
        }
    }
    Ok(())
}

/// Checks the slot's block, and returns it with the slot's state.
fn check_slot<T: Tx + ?Sized>(tx: &mut T, header: u64, slot: u64) -> Result<(u64, SlotState)> {
    let at = slot_at(header, slot);
    let (block, held) = (tx.read_word(at)?, SlotState::of(tx.read_word(at.wrapping_add(WORD))?));
    if (block == 0) != (held.bytes == 0) {
        return Err(Error::corrupt("a slot that is neither empty nor taken", at));
    }
    if block != 0 {
        if held.bytes > tx.usable(block)? {
            return Err(Error::corrupt("a block that is cut short", block));
        }
        let mut found = vec![0; held.bytes as usize];
        tx.read_bytes(block, &mut found)?;
        let mut wanted = vec![0; found.len()];
        held.fill(slot, 0, &mut wanted);
        if found != wanted {
            return Err(Error::corrupt("a block with another's bytes", block));
        }
    }
    Ok((block, held))
}

/// The workload.
#[derive(Debug)]
pub struct Churn {
    per_transaction: usize,
    /// The expected content of each slot; written by the thread that owns it.
    expected: Vec<AtomicU64>,
}

impl Churn {
    /// `slots` slots, and `per_transaction` changes in a transaction.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(slots: u64, per_transaction: usize) -> Outcome<Self> {
        if slots == 0 || slots > 1 << 32 || per_transaction == 0 {
            let what =
                "churning needs a slot at least (and 2^32 at most), and a change in a transaction";
            return Err(Failure::Parameters(what.to_owned()));
        }
        let expected = (0..slots).map(|_| AtomicU64::new(0)).collect();
        Ok(Churn { per_transaction, expected })
    }

    fn slots(&self) -> u64 {
        self.expected.len() as u64
    }

    fn header<S: Session>(&self, session: &mut S) -> Outcome<u64> {
        let root = session.read(|tx| tx.root(ROOT))?;
        root.map(|root| root.at).ok_or_else(|| Failure::wrong("the slots' root is gone"))
    }

    /// A transaction has committed.
    fn note(&self, changes: &[Change]) {
        for change in changes {
            let expected = &self.expected[change.slot as usize];
            let held = SlotState::of(expected.load(Ordering::Relaxed));
            expected.store(change.outcome(held).word(), Ordering::Relaxed);
        }
    }
}

impl Listed for Churn {
    const ROW: Row = Row {
        name: "churn",
        line: "blocks of random sizes allocated, resized and freed",
        parameters: &[
            list::entries(
                "places for a block, of which two thirds are taken in the long run",
                10_000,
            ),
            list::ops_per_tx("blocks allocated, resized or freed in a transaction", 3),
        ],
        operations: |_| 200_000,
        rolls_back: |_| false,
        roots: &[(KIND, check_blocks)],
    };

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let slots = given.entries();
        if slots < given.threads as u64 {
            return Err(Failure::Parameters("churning needs a slot for each thread".to_owned()));
        }
        let bytes = slots.saturating_mul(BYTES_PER_BLOCK);
        Ok(code.run(Churn::new(slots, given.ops_per_tx())?, bytes))
    }
}

impl Workload for Churn {
    const KINDS: &'static [&'static str] = &["churn"];

    fn load_size(&self) -> u64 {
        self.slots()
    }

    /// Empty slots: they fill up to two thirds.
    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        session.transaction(|tx| create(tx, self.slots()))?;
        progress.loaded(self.slots())
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let header = self.header(session)?;
        let part = share.part_of(self.slots());
        if part.is_empty() {
            let what = "churning needs a slot for each thread".to_owned();
            return Err(Failure::Parameters(what));
        }
        let mut changes = vec![Change::default(); self.per_transaction];
        for _ in 0..share.operations {
            if !recorder.go_on() {
                break;
            }
            // Drawn outside: the body may run more than once.
            for drawn in &mut changes {
                *drawn = Change::draw(&mut share.random, part.start, part.end - part.start);
            }
            recorder.operation(0, || session.transaction(|tx| change(tx, header, &changes)))?;
            self.note(&changes);
        }
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let header = self.header(session)?;
        let mut blocks = BTreeSet::new();
        for (slot, expected) in (0..).zip(&self.expected) {
            let (block, held) = session.read(|tx| check_slot(tx, header, slot))?;
            let expected = SlotState::of(expected.load(Ordering::Relaxed));
            if held != expected {
                let what = format!("slot {slot} holds {held:?}, and should hold {expected:?}");
                return Err(Failure::Wrong(what));
            }
            if block != 0 && !blocks.insert(block) {
                return Err(Failure::Wrong(format!("slot {slot} has another's block")));
            }
        }
        Ok(())
    }
}
