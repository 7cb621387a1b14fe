//! Strings that are numbers: INCR and its kin.

use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::{Entry, Found, Kind, text};
use crate::protocol::extended::{Extended, Parsed};
use crate::protocol::number;

const ONE: (i32, i32, i32) = (1, 1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::brief("incr", 2, ONE, Run::Write(incr), "Adds one to an integer."),
    Command::brief("decr", 2, ONE, Run::Write(decr), "Takes one from an integer."),
    Command::brief("incrby", 3, ONE, Run::Write(incrby), "Adds to an integer."),
    Command::brief("decrby", 3, ONE, Run::Write(decrby), "Takes from an integer."),
    Command::brief("incrbyfloat", 3, ONE, Run::Write(incrbyfloat), "Adds to a number."),
];

/// Bytes of the longest integer.
const LONGEST: u64 = 20;

fn incr(call: &mut Call<'_>) -> Outcome {
    add(call, 1)
}

fn decr(call: &mut Call<'_>) -> Outcome {
    add(call, -1)
}

fn incrby(call: &mut Call<'_>) -> Outcome {
    let by = call.integer(2)?;
    add(call, by)
}

fn decrby(call: &mut Call<'_>) -> Outcome {
    let by = call.integer(2)?.checked_neg();
    let by = by.ok_or(Failure::Say("ERR decrement would overflow".into()))?;
    add(call, by)
}

/// The bytes of a string that is to be a number.
fn bytes(call: &mut Call<'_>, found: Option<Found>) -> Outcome<Option<Vec<u8>>> {
    match found {
        Some(found) => Ok(Some(text::read(call.tx, found.entry)?)),
        None => Ok(None),
    }
}

fn add(call: &mut Call<'_>, by: i64) -> Outcome {
    let key = call.args.at(1);
    let old = call.claim_for(key, Kind::String)?;
    let value = match old.map(|old| old.entry) {
        Some(entry) if entry.is_in_place() => number::parse_i64(entry.inline_bytes()),
        Some(entry) if text::len(call.tx, entry)? > LONGEST => None,
        Some(entry) => number::parse_i64(&text::read(call.tx, entry)?),
        None => Some(0),
    };
    let value = value.ok_or(Failure::NOT_INTEGER)?;
    let sum = value.checked_add(by).ok_or(Failure::OVERFLOW)?;
    store(call, key, old, itoa::Buffer::new().format(sum).as_bytes())?;
    call.out.integer(sum);
    Ok(())
}

fn store(call: &mut Call<'_>, key: &[u8], old: Option<Found>, value: &[u8]) -> Outcome {
    let entry = old.map(|old| old.entry);
    let new = text::store(call.tx, entry, value)?;
    call.put(key, old, new.expiring(entry.and_then(Entry::expires)))
}

/// The sum of a stored number, or zero, and an argument.
pub(super) fn sum(stored: Option<&[u8]>, by: &[u8], no_number: Failure) -> Outcome<String> {
    let zero = Extended::parse(b"0");
    let stored = stored.map_or(zero, Extended::parse).ok_or(no_number)?;
    let by = Extended::parse(by).ok_or(Failure::NOT_FLOAT)?;
    let (Parsed::Finite(stored), Parsed::Finite(by)) = (stored, by) else {
        return Err(Failure::NOT_FINITE);
    };
    let sum = stored.plus(by);
    if sum.is_finite() { Ok(sum.print()) } else { Err(Failure::NOT_FINITE) }
}

/// Whether an argument is a number that is not infinite.
pub(super) fn check(by: &[u8]) -> Outcome {
    match Extended::parse(by) {
        Some(Parsed::Finite(_)) => Ok(()),
        Some(Parsed::Infinite) => Err(Failure::Say("ERR value is NaN or Infinity".into())),
        None => Err(Failure::NOT_FLOAT),
    }
}

fn incrbyfloat(call: &mut Call<'_>) -> Outcome {
    let key = call.args.at(1);
    let old = call.claim_for(key, Kind::String)?;
    let bytes = bytes(call, old)?;
    let sum = sum(bytes.as_deref(), call.args.at(2), Failure::NOT_FLOAT)?;
    store(call, key, old, sum.as_bytes())?;
    call.out.bulk(sum.as_bytes());
    Ok(())
}
