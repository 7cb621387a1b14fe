//! A thread that commits operations, and tells the witness which are durable.

use super::layout::{KEYS, SLOTS};
use super::ledger::{Transfer, transfers};
use super::live::{Life, Wrong, benign};
use super::pace::Pace;
use super::{blocks, layout};
use perdura::{Error, Handle, Result, Ticket, Tx, TxExt};
use perdura_memory::random::SplitMix64;
use std::collections::VecDeque;

/// The maximum number of operations whose tickets are not known to be durable.
const MOST_PENDING: usize = 64;

/// The work of an operation besides its transfers: drawn once, so that a repeated body does the same.
#[derive(Clone, Debug)]
enum Beside {
    Nothing,
    /// Moves keys to another map.
    Shift(Vec<(u64, usize)>),
    /// Replaces the block of a slot by one of this length and seed.
    Replace(u64, u64, u64),
    /// Gives the block of a slot other contents.
    Rewrite(u64, u64),
    /// Frees the blocks of two slots.
    Free([u64; 2]),
}

fn draw(random: &mut SplitMix64) -> Beside {
    match random.below(16) {
        0..4 => {
            let count = 1 + random.below(3);
            Beside::Shift(
                (0..count).map(|_| (random.below(KEYS), random.below(3) as usize)).collect(),
            )
        }
        4..7 => Beside::Replace(random.below(SLOTS), blocks::draw_len(random), random.next()),
        7 => Beside::Rewrite(random.below(SLOTS), random.next()),
        8 => Beside::Free([random.below(SLOTS), random.below(SLOTS)]),
        _ => Beside::Nothing,
    }
}

fn replace(life: &Life<'_>, tx: &mut dyn Tx, slot: u64, new: Option<(u64, u64)>) -> Result<()> {
    let place = life.layout.slot(slot);
    let old = tx.read_word(place)?;
    if old != 0 {
        tx.free(old)?;
    }
    let at = new.map_or(Ok(0), |(len, seed)| blocks::make(tx, len, seed))?;
    tx.write_word(place, at)
}

fn apply(life: &Life<'_>, tx: &mut dyn Tx, beside: &Beside) -> Result<(), Wrong> {
    match beside {
        Beside::Nothing => {}
        Beside::Shift(keys) => {
            for (key, to) in keys {
                let found = life.layout.maps_with(tx, *key)?;
                let &[from] = found.as_slice() else {
                    return Err(Wrong::Seen(format!("key {key} is in the maps {found:?}")));
                };
                if from != *to {
                    life.layout.shift(tx, (from, *to), *key)?;
                }
            }
        }
        Beside::Replace(slot, len, seed) => replace(life, tx, *slot, Some((*len, *seed)))?,
        Beside::Rewrite(slot, seed) => match tx.read_word(life.layout.slot(*slot))? {
            0 => {}
            at => blocks::rewrite(tx, at, *seed)?,
        },
        Beside::Free(slots) => {
            slots.iter().try_for_each(|slot| replace(life, tx, *slot, None))?;
        }
    }
    Ok(())
}

fn body(
    life: &Life<'_>,
    tx: &mut dyn Tx,
    (writer, number): (usize, u64),
    (beside, takes_back): (&Beside, bool),
    pace: &mut Pace,
) -> Result<(), Wrong> {
    let count = life.layout.count(writer);
    let before = tx.read_word(count)?;
    if before != number - 1 {
        return Err(Wrong::Seen(format!(
            "writer {writer} has committed {} operations, and reads {before}",
            number - 1
        )));
    }
    if takes_back {
        let point = tx.point();
        tx.write_word(life.layout.account(number % layout::ACCOUNTS), number)?;
        let slot = life.layout.slot(number % SLOTS);
        let spare = blocks::make(tx, 200, number)?;
        tx.write_word(slot, spare)?;
        tx.undo_to(point)?;
    }
    for Transfer { from, to, amount } in transfers(writer, number) {
        let [from, to] = [from, to].map(|account| life.layout.account(account));
        let there = tx.read_word(from)?;
        pace.maybe();
        tx.write_word(from, there.wrapping_sub(amount))?;
        let there = tx.read_word(to)?;
        tx.write_word(to, there.wrapping_add(amount))?;
    }
    apply(life, tx, beside)?;
    pace.maybe();
    Ok(tx.write_word(count, number)?)
}

/// Commits operations until the round ends.
pub(super) fn write(life: &Life<'_>, writer: usize) -> Result<(), Wrong> {
    let seed = life.seed ^ (writer as u64 + 1) << 40;
    let (mut random, mut pace) = (SplitMix64::new(seed), Pace::new(seed));
    let mut handle = life.session()?;
    let mut number = handle.read(|tx| tx.read_word(life.layout.count(writer)))? + 1;
    let mut pending: VecDeque<(u64, Ticket)> = VecDeque::new();
    let mut room = true;
    while !life.is_over() {
        let beside = if room {
            draw(&mut random)
        } else {
            Beside::Free([random.below(SLOTS), random.below(SLOTS)])
        };
        let (takes_back, aborts) = (random.below(16) == 0, random.below(24) == 0);
        let awaited = random.below(4) == 0;
        let once = |tx: &mut dyn Tx| -> Result<(), Wrong> {
            body(life, tx, (writer, number), (&beside, takes_back), &mut pace)?;
            if aborts { Ok(tx.abort("as drawn")?) } else { Ok(()) }
        };
        match commit(&mut handle, awaited, once) {
            Ok(ticket) => {
                room = true;
                pending.push_back((number, ticket));
                number += 1;
            }
            Err(Wrong::Error(Error::Aborted(_))) => continue,
            Err(Wrong::Error(error)) if benign(&error) => room = false,
            Err(wrong) => return Err(wrong),
        }
        acknowledge(life, writer, &mut handle, &mut pending, awaited)?;
        if random.below(2_000) == 0 {
            drop(handle);
            handle = life.session()?;
        }
        pace.maybe();
    }
    acknowledge(life, writer, &mut handle, &mut pending, true)
}

/// Commits; the caller waits for its ticket, unless it was `awaited`.
fn commit(
    handle: &mut Handle,
    awaited: bool,
    mut once: impl FnMut(&mut dyn Tx) -> Result<(), Wrong>,
) -> Result<Ticket, Wrong> {
    let mut wrong = None;
    let mut run = |tx: &mut dyn Tx| {
        wrong = None;
        once(tx).map_err(|found| match found {
            Wrong::Error(error) => error,
            seen => {
                wrong = Some(seen);
                Error::Aborted("something is wrong".to_owned())
            }
        })
    };
    let ended = if awaited {
        // Ticket 0 is durable: the commit was.
        handle.transaction(|tx| run(tx)).map(|()| Ticket(0))
    } else {
        handle.submit(|tx| run(tx)).map(|((), ticket)| ticket)
    };
    match wrong {
        Some(wrong) => Err(wrong),
        None => Ok(ended?),
    }
}

/// Tells the witness which operations are durable; `all` if the last one is known to be, or is waited for.
fn acknowledge(
    life: &Life<'_>,
    writer: usize,
    handle: &mut Handle,
    pending: &mut VecDeque<(u64, Ticket)>,
    all: bool,
) -> Result<(), Wrong> {
    if let Some((_, last)) = pending.back()
        && (all || pending.len() >= MOST_PENDING)
        && last.0 != 0
    {
        handle.wait(*last)?;
    }
    let is_durable = |(_, ticket): &(u64, Ticket)| ticket.0 == 0 || handle.is_durable(*ticket);
    // Later operations of a writer imply the earlier ones.
    if let Some(index) = pending.iter().rposition(is_durable) {
        life.witness.durable(writer, pending[index].0);
        pending.drain(..=index);
    }
    Ok(())
}
