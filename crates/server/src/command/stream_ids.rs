//! IDs of streams' entries as clients give them.

use super::{Failure, Outcome};
use crate::keyspace::stream::Id;
use crate::protocol::number;

/// Bytes of the longest text of an ID.
const LONGEST: usize = 127;

/// A number without a sign. What is not as Redis writes one is read as C's `strtoull` does.
fn parse_u64(text: &[u8]) -> Option<u64> {
    if let Some(number) = number::parse_i64(text) {
        return u64::try_from(number).ok();
    }
    let spaces = text.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == 0x0B);
    let text = &text[spaces.count()..];
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    let value = digits.iter().try_fold(0, add)?;
    Some(if negative { value.wrapping_neg() } else { value })
}

fn invalid() -> Failure {
    Failure::Say("ERR Invalid stream ID specified as stream command argument".into())
}

/// An ID whose second number may be missing, and is then `seq`; or `*`, and then the second result is false.
fn parse(text: &[u8], seq: u64, may_be_open: bool) -> Option<(Id, bool)> {
    if text.len() > LONGEST {
        return None;
    }
    let text = number::until_nul(text);
    let Some(dash) = text.iter().position(|&byte| byte == b'-') else {
        return Some((Id { ms: parse_u64(text)?, seq }, true));
    };
    let (ms, rest) = (parse_u64(&text[..dash])?, &text[dash + 1..]);
    if may_be_open && rest == b"*" {
        return Some((Id { ms, seq: 0 }, false));
    }
    Some((Id { ms, seq: parse_u64(rest)? }, true))
}

/// An ID, which is neither `-` nor `+`.
pub(crate) fn strict(text: &[u8]) -> Outcome<Id> {
    parse(text, 0, false).map(|(id, _)| id).ok_or_else(invalid)
}

/// The ID of a new entry, and whether its second number is given.
pub(super) fn of_new(text: &[u8]) -> Outcome<(Id, bool)> {
    parse(text, 0, true).ok_or_else(invalid)
}

/// An ID, or `-` or `+` for the least one and the greatest one. If its second number is missing, it is `seq`.
pub(super) fn any(text: &[u8], seq: u64) -> Outcome<Id> {
    match number::until_nul(text) {
        b"-" => Ok(Id::MIN),
        b"+" => Ok(Id::MAX),
        _ => parse(text, seq, false).map(|(id, _)| id).ok_or_else(invalid),
    }
}

/// The IDs from one to another. An interval's end that begins with `(` is not in it.
pub(super) fn interval(from: &[u8], to: &[u8]) -> Outcome<(Id, Id)> {
    Ok((start(from)?, end(to)?))
}

/// The beginning of an interval.
pub(super) fn start(text: &[u8]) -> Outcome<Id> {
    let wrong = Failure::Say("ERR invalid start ID for the interval".into());
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => {
            parse(rest, 0, false).ok_or_else(invalid)?.0.next().ok_or(wrong)
        }
        _ => any(text, 0),
    }
}

fn end(text: &[u8]) -> Outcome<Id> {
    let wrong = Failure::Say("ERR invalid end ID for the interval".into());
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => {
            parse(rest, u64::MAX, false).ok_or_else(invalid)?.0.previous().ok_or(wrong)
        }
        _ => any(text, u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        let id = |ms, seq| Some(Id { ms, seq });
        for (text, expected) in [
            ("1", id(1, 0)),
            ("1-2", id(1, 2)),
            ("18446744073709551615-18446744073709551615", Some(Id::MAX)),
            ("18446744073709551616", None),
            ("007-+5", id(7, 5)),
            (" 3", id(3, 0)),
            ("3 ", None),
            ("-", None),
            ("-1", None),
            ("1-", None),
            ("1--5", None),
            ("1--05", id(1, 5_u64.wrapping_neg())),
            ("", None),
            ("x", None),
            ("1-*", None),
        ] {
            assert_eq!(strict(text.as_bytes()).ok(), expected, "{text}");
        }
        assert_eq!(of_new(b"7-*").ok(), Some((Id { ms: 7, seq: 0 }, false)));
        assert_eq!(
            interval(b"(1", b"(1").ok(),
            Some((Id { ms: 1, seq: 1 }, Id { ms: 1, seq: u64::MAX - 1 }))
        );
        assert_eq!(interval(b"-", b"+").ok(), Some((Id::MIN, Id::MAX)));
        for text in ["(-", "(+", "(18446744073709551615-18446744073709551615", "("] {
            assert!(start(text.as_bytes()).is_err(), "{text}");
        }
        assert!(end(b"(0-0").is_err());
    }
}
