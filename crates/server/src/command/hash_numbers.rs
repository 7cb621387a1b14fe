//! Hash fields that are numbers.

use super::numbers;
use super::{Call, Command, Failure, Outcome, Run, hashes};
use crate::protocol::number;

const ONE: (i32, i32, i32) = (1, 1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::brief("hincrby", 4, ONE, Run::Write(hincrby), "Adds to a field's integer.")
        .with_member(2),
    Command::brief("hincrbyfloat", 4, ONE, Run::Write(hincrbyfloat), "Adds to a field's number.")
        .with_member(2),
];

fn hincrby(call: &mut Call<'_>) -> Outcome {
    let by = call.integer(3)?;
    let (old, mut hash) = hashes::claim(call)?;
    let value = match hash.get(call.tx, call.args.at(2))? {
        Some(bytes) => number::parse_i64(&bytes).ok_or(Failure::HASH_NOT_INTEGER)?,
        None => 0,
    };
    let sum = value.checked_add(by).ok_or(Failure::OVERFLOW)?;
    hash.set(call.tx, call.db, call.args.at(2), itoa::Buffer::new().format(sum).as_bytes())?;
    hashes::save(call, old, hash)?;
    call.out.integer(sum);
    Ok(())
}

fn hincrbyfloat(call: &mut Call<'_>) -> Outcome {
    let by = call.args.at(3);
    // An argument that is no number is an error before a key of the wrong type is.
    numbers::check(by)?;
    let (old, mut hash) = hashes::claim(call)?;
    let value = hash.get(call.tx, call.args.at(2))?;
    let sum = numbers::sum(value.as_deref(), by, Failure::HASH_NOT_FLOAT)?;
    hash.set(call.tx, call.db, call.args.at(2), sum.as_bytes())?;
    hashes::save(call, old, hash)?;
    call.out.bulk(sum.as_bytes());
    Ok(())
}
