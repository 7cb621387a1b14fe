//! A thread that reads, shortly and for long, and checks the invariants of one state of the pool.

use super::blocks;
use super::layout::{ACCOUNTS, KEYS, MOST_WRITERS, SLOTS, value_of};
use super::ledger::TOTAL;
use super::live::{Life, Wrong};
use super::pace::Pace;
use perdura::{Access, Handle, Result, Ticket, Tx};
use perdura_memory::random::SplitMix64;
use std::sync::atomic::Ordering;

/// The longest pause in the middle of a transaction, milliseconds.
const LONGEST_PAUSE: u64 = 15;

/// Reads until the round ends.
pub(super) fn read(life: &Life<'_>, reader: usize) -> Result<(), Wrong> {
    let seed = life.seed ^ (reader as u64 + 1) << 50;
    let (mut random, mut pace) = (SplitMix64::new(seed), Pace::new(seed));
    let mut handle = life.session()?;
    let mut pending = None;
    while !life.is_over() {
        match random.below(8) {
            0 => slowly(life, &mut handle, &mut random, &mut pace)?,
            1 => all_entries(life, &mut handle)?,
            2 => some_blocks(life, &mut handle, &mut random)?,
            _ => shortly(life, &mut handle, &mut random, &mut pending)?,
        }
        life.reads.fetch_add(1, Ordering::Relaxed);
        if random.below(500) == 0 {
            (pending, handle) = (None, {
                drop(handle);
                life.session()?
            });
        }
        pace.maybe();
    }
    Ok(())
}

fn sum(life: &Life<'_>, tx: &mut dyn Tx, accounts: std::ops::Range<u64>) -> Result<u64> {
    accounts.into_iter().try_fold(0_u64, |sum, account| {
        Ok(sum.wrapping_add(tx.read_word(life.layout.account(account))?))
    })
}

fn must_be_total(sum: u64, how: &str) -> Result<(), Wrong> {
    if sum == TOTAL {
        return Ok(());
    }
    Err(Wrong::Seen(format!("{how} has seen accounts with the sum {sum} instead of {TOTAL}")))
}

/// Reads all accounts at once, and how many operations there were: if that is durable, so are they.
fn shortly(
    life: &Life<'_>,
    handle: &mut Handle,
    random: &mut SplitMix64,
    pending: &mut Option<([u64; MOST_WRITERS], Ticket)>,
) -> Result<(), Wrong> {
    let (as_bytes, key) = (random.below(2) == 0, random.below(KEYS));
    let ((sum, counts, maps), ticket) = handle.submit_read(|tx| {
        let mut counts = [0; MOST_WRITERS];
        for (writer, count) in counts.iter_mut().enumerate() {
            *count = tx.read_word(life.layout.count(writer))?;
        }
        let sum = if as_bytes {
            let mut words = vec![0_u64; ACCOUNTS as usize];
            tx.read_bytes(life.layout.account(0), bytemuck::cast_slice_mut(&mut words))?;
            words.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word))
        } else {
            sum(life, tx, 0..ACCOUNTS)?
        };
        Ok((sum, counts, life.layout.maps_with(tx, key)?))
    })?;
    must_be_total(sum, "a short reader")?;
    if maps.len() != 1 {
        return Err(Wrong::Seen(format!("a reader has seen key {key} in the maps {maps:?}")));
    }
    pending.get_or_insert((counts, ticket));
    if let Some((counts, ticket)) = pending
        && handle.is_durable(*ticket)
    {
        for (writer, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            life.witness.durable(writer, *count);
        }
        *pending = None;
    }
    Ok(())
}

/// Reads with pauses: half of the accounts and the places of blocks, then the rest.
fn slowly(
    life: &Life<'_>,
    handle: &mut Handle,
    random: &mut SplitMix64,
    pace: &mut Pace,
) -> Result<(), Wrong> {
    let first = random.below(ACCOUNTS);
    let mut tx = handle.begin_read()?;
    let before = sum(life, &mut tx, 0..first)?;
    let mut places = Vec::new();
    for slot in 0..SLOTS {
        places.push(tx.read_word(life.layout.slot(slot))?);
    }
    pace.idle(LONGEST_PAUSE);
    for at in places.into_iter().filter(|at| *at != 0) {
        blocks::check(&mut tx, at)?;
        pace.maybe();
    }
    let after = sum(life, &mut tx, first..ACCOUNTS)?;
    let again = sum(life, &mut tx, 0..first)?;
    tx.submit()?;
    must_be_total(before.wrapping_add(after), "a slow reader")?;
    must_be_total(again.wrapping_add(after), "a slow reader, again,")
}

/// Iterates over the maps: each key is in one of them.
fn all_entries(life: &Life<'_>, handle: &mut Handle) -> Result<(), Wrong> {
    let seen = handle.read(|tx| {
        let mut seen = vec![0_u32; KEYS as usize];
        let mut strange = 0;
        life.layout.for_each_entry(tx, &mut |key, value| match seen.get_mut(key as usize) {
            Some(times) if value == value_of(key) => *times += 1,
            _ => strange += 1,
        })?;
        Ok((seen, strange))
    })?;
    match seen.0.iter().position(|times| *times != 1) {
        Some(key) => Err(Wrong::Seen(format!(
            "an iteration over the maps has met key {key} {} times",
            seen.0[key]
        ))),
        None if seen.1 > 0 => Err(Wrong::Seen("an iteration has met a wrong entry".to_owned())),
        None => Ok(()),
    }
}

fn some_blocks(life: &Life<'_>, handle: &mut Handle, random: &mut SplitMix64) -> Result<(), Wrong> {
    let first = random.below(SLOTS);
    handle.read(|tx| {
        for slot in (first..SLOTS).take(6) {
            match tx.read_word(life.layout.slot(slot))? {
                0 => {}
                at => blocks::check(tx, at)?,
            }
        }
        Ok(())
    })?;
    Ok(())
}
