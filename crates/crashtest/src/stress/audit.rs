//! The check of a pool that a round has left, killed or not.

use super::layout::{self, ACCOUNTS, KEYS, Layout, MOST_WRITERS, SLOTS, value_of};
use super::ledger::Ledger;
use super::witness::Told;
use super::{Round, blocks};
use perdura::{Result, Tx};

/// Checks that the pool is whole, and holds every operation that the witness was told of, and none in part.
///
/// # Errors
/// The faults.
pub(super) fn audit(round: &Round, told: &Told, ledger: &mut Ledger) -> Result<(), String> {
    if !round.pool.exists() {
        // It has its name only when it is whole.
        return match told.times {
            0 => Ok(()),
            _ => Err("the pool is gone, and operations on it were acknowledged".to_owned()),
        };
    }
    let report = perdura::check::check(&round.pool, &layout::visit);
    let report = report.map_err(|error| format!("`pool check`: {error}"))?;
    if let Some(problem) = report.problems.first() {
        return Err(format!("`pool check`: {problem}"));
    }
    if let Some(lost @ 1..) = report.unreachable {
        return Err(format!("`pool check`: {lost} blocks without an owner"));
    }
    let pool = round.options()?.open(&round.pool);
    let pool = pool.map_err(|error| format!("the pool cannot be opened: {error}"))?;
    let seen = pool.session().and_then(|mut handle| handle.read(|tx| see(tx)));
    let seen = seen.map_err(|error| format!("after opening: {error}"))?;
    pool.close().map_err(|error| format!("closing: {error}"))?;
    let Some(Seen { accounts, counts, wrong }) = seen else {
        return match told.times {
            0 => Ok(()),
            _ => Err("the pool is empty, and operations on it were acknowledged".to_owned()),
        };
    };
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    for (writer, (told, there)) in told.durable.iter().zip(counts).enumerate() {
        if *told > there {
            return Err(format!(
                "writer {writer}: {told} operations were reported as durable, {there} are there"
            ));
        }
    }
    let known = ledger.move_to(&counts).map_err(|writer| {
        format!("writer {writer}: fewer operations than before the process began")
    })?;
    match accounts.iter().zip(known).position(|(there, known)| there != known) {
        None => Ok(()),
        Some(account) => Err(format!(
            "account {account} has {}, and the {} operations that are there leave {} in it",
            accounts[account],
            counts.iter().sum::<u64>(),
            known[account]
        )),
    }
}

struct Seen {
    accounts: Vec<u64>,
    counts: [u64; MOST_WRITERS],
    wrong: Option<String>,
}

/// Reads everything; `None` if nothing was made.
fn see(tx: &mut dyn Tx) -> Result<Option<Seen>> {
    let Some(layout) = Layout::find(tx)? else { return Ok(None) };
    let mut accounts = Vec::new();
    for account in 0..ACCOUNTS {
        accounts.push(tx.read_word(layout.account(account))?);
    }
    let mut counts = [0; MOST_WRITERS];
    for (writer, count) in counts.iter_mut().enumerate() {
        *count = tx.read_word(layout.count(writer))?;
    }
    for slot in 0..SLOTS {
        match tx.read_word(layout.slot(slot))? {
            0 => {}
            at => blocks::check(tx, at)?,
        }
    }
    let mut met = vec![0; KEYS as usize];
    let mut wrong = None;
    layout.for_each_entry(tx, &mut |key, value| match met.get_mut(key as usize) {
        Some(times) if value == value_of(key) => *times += 1,
        _ => wrong = Some(format!("a map has key {key} with the value {value}")),
    })?;
    if let Some(key) = met.iter().position(|times| *times != 1) {
        wrong = Some(format!("key {key} is in {} maps", met[key]));
    }
    Ok(Some(Seen { accounts, counts, wrong }))
}
