//! Strings: parts of values.

use super::{Call, Command, Failure, Outcome, Run, strings};
use crate::keyspace::{Kind, text};

const ONE: (i32, i32, i32) = (1, 1, 1);
/// Longest string.
const MOST: usize = 512 << 20;

pub(super) const TABLE: &[Command] = &[
    Command::new("append", 3, ONE, Run::Write(append), "Appends to a key's string."),
    Command::new("strlen", 2, ONE, Run::Read(strlen), "The length of a key's string."),
    Command::new("getrange", 4, ONE, Run::Read(getrange), "Gets a part of a key's string."),
    Command::new("substr", 4, ONE, Run::Read(getrange), "Gets a part of a key's string."),
    Command::new("setrange", 4, ONE, Run::Write(setrange), "Overwrites a part of a string."),
];

fn append(call: &mut Call<'_>) -> Outcome {
    let (key, more) = (call.args.at(1), call.args.at(2));
    let old = call.claim_for(key, Kind::String)?;
    let before = match old {
        Some(old) => text::len(call.tx, old.entry)?,
        None => 0,
    };
    let after = before + more.len() as u64;
    if after > MOST as u64 {
        return Err(Failure::TOO_LONG);
    }
    let new = text::append(call.tx, old.map(|old| old.entry), more)?;
    call.put(key, old, new)?;
    call.out.size(after);
    Ok(())
}

fn strlen(call: &mut Call<'_>) -> Outcome {
    let len = match call.look_for(call.args.at(1), Kind::String)? {
        Some(entry) => text::len(call.tx, entry)?,
        None => 0,
    };
    call.out.size(len);
    Ok(())
}

fn getrange(call: &mut Call<'_>) -> Outcome {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let Some(entry) = call.look_for(call.args.at(1), Kind::String)? else {
        call.out.bulk(b"");
        return Ok(());
    };
    let len = text::len(call.tx, entry)?;
    match clamp(start, end, len) {
        Some((from, to)) if to - from == len => {
            strings::reply(call.tx, &mut call.out, Some(entry))?
        }
        Some((from, to)) => {
            let bytes = text::read_range(call.tx, entry, from, to - from)?;
            call.out.bulk(&bytes);
        }
        None => call.out.bulk(b""),
    }
    Ok(())
}

/// The range from `start` to `end`, inclusive and counted from the end if negative, cut to the
/// string's length. The result's end is exclusive.
pub(super) fn clamp(start: i64, end: i64, len: u64) -> Option<(u64, u64)> {
    let len = i64::try_from(len).ok()?;
    if start < 0 && end < 0 && start > end {
        return None;
    }
    let from_end = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let (start, end) = (from_end(start).max(0), from_end(end).max(0).min(len - 1));
    (start <= end && len > 0).then(|| (start as u64, end as u64 + 1))
}

fn setrange(call: &mut Call<'_>) -> Outcome {
    let (key, bytes) = (call.args.at(1), call.args.at(3));
    let offset = call.integer(2)?;
    let Ok(offset) = usize::try_from(offset) else { return Err(Failure::OFFSET) };
    let old = call.claim_for(key, Kind::String)?;
    let before = match old {
        Some(old) => text::len(call.tx, old.entry)?,
        None => 0,
    };
    if bytes.is_empty() {
        call.out.size(before);
        return Ok(());
    }
    if offset.saturating_add(bytes.len()) > MOST {
        return Err(Failure::TOO_LONG);
    }
    let new = text::overwrite(call.tx, old.map(|old| old.entry), offset, bytes)?;
    call.put(key, old, new)?;
    call.out.size(before.max((offset + bytes.len()) as u64));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::clamp;

    #[test]
    fn ranges() {
        for (start, end, len, expected) in [
            (0, 3, 16, Some((0, 4))),
            (-3, -1, 16, Some((13, 16))),
            (0, -1, 16, Some((0, 16))),
            (10, 100, 16, Some((10, 16))),
            (-100, 2, 16, Some((0, 3))),
            (5, 3, 16, None),
            (-1, -5, 16, None),
            (16, 20, 16, None),
            (0, 0, 0, None),
            (i64::MIN, i64::MAX, 4, Some((0, 4))),
            (-100, -50, 16, Some((0, 1))),
        ] {
            assert_eq!(clamp(start, end, len), expected, "{start} {end} {len}");
        }
    }
}
