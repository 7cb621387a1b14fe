//! Numbers as Redis reads and prints them.

use super::hexadecimal::{Hexadecimal, unsigned};

/// A decimal integer, strictly: no sign but a minus, no leading zero, no space.
pub(crate) fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut value: u64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + u64::from(digit - b'0');
    }
    if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

/// A floating-point number, infinities included, NaN not. A number too large for one, or too
/// small to differ from zero, is refused.
pub(crate) fn parse_f64(text: &[u8]) -> Option<f64> {
    // Most are small and whole, and then exact.
    if text.len() < 10
        && let Some(whole) = parse_i64(text)
    {
        return Some(whole as f64);
    }
    let value = parse_c(text)?;
    let infinite = || text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'n'));
    let in_range = match value {
        _ if value.is_infinite() => infinite(),
        _ if value == 0.0 => is_zero(text),
        _ => true,
    };
    in_range.then_some(value)
}

/// The end of a range of floating-point numbers. Redis takes it as C does: spaces may come
/// first, no digits are zero, a number too large is infinite, and a NUL ends it.
pub(crate) fn parse_bound(text: &[u8]) -> Option<f64> {
    let text = until_nul(text);
    // The spaces of C: a vertical tab is one.
    let space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    match text.iter().position(|byte| !space(byte)) {
        Some(start) => parse_c(&text[start..]),
        None if text.is_empty() => Some(0.0),
        None => None,
    }
}

/// The number that C reads, if that is all of `text`; NaN is none.
fn parse_c(text: &[u8]) -> Option<f64> {
    let (negative, digits) = unsigned(text);
    if let Some(number) = Hexadecimal::parse(digits) {
        let value = number.to_f64();
        return Some(if negative { -value } else { value });
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!value.is_nan()).then_some(value)
}

/// Whether a number has no digit but zero, exponent aside.
fn is_zero(text: &[u8]) -> bool {
    let (_, digits) = unsigned(text);
    let hexadecimal = digits.get(1).is_some_and(|byte| byte.eq_ignore_ascii_case(&b'x'));
    let (digits, exponent) = if hexadecimal { (&digits[2..], b'p') } else { (digits, b'e') };
    let mut mantissa = digits.iter().take_while(|byte| !byte.eq_ignore_ascii_case(&exponent));
    mantissa.all(|byte| matches!(byte, b'0' | b'.'))
}

/// A string as C sees it: nothing from a NUL on.
pub(crate) fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// An integer's decimal digits.
pub(crate) fn push_i64(to: &mut Vec<u8>, value: i64) {
    to.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// As [`push_f64`], but whole numbers of up to 2^62 have all their digits, as ZSCAN prints a
/// small set's scores, which Redis keeps as such texts.
pub(crate) fn push_score(to: &mut Vec<u8>, value: f64) {
    /// Redis's largest number that is an integer here.
    const MOST: f64 = (1u64 << 62) as f64;
    if value.abs() <= MOST && value.trunc() == value {
        push_i64(to, value as i64);
    } else {
        push_f64(to, value);
    }
}

/// Up to 17 digits, which tell `value` from every other: C's `%.17g`, as Redis prints scores.
pub(crate) fn push_f64(to: &mut Vec<u8>, value: f64) {
    /// Below it, an integer has no more digits than are printed.
    const WHOLE: f64 = 1e17;
    if value == 0.0 && value.is_sign_negative() {
        to.extend_from_slice(b"-0");
    } else if value.abs() < WHOLE && value.trunc() == value {
        push_i64(to, value as i64);
    } else if value.is_infinite() {
        to.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" });
    } else {
        push_fraction(to, value);
    }
}

fn push_fraction(to: &mut Vec<u8>, value: f64) {
    let scientific = format!("{value:.16e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |digits: &str| digits.trim_end_matches('0').trim_end_matches('.').len();
    if (-4..17).contains(&exponent) {
        let text = format!("{value:.*}", (16 - exponent) as usize);
        to.extend_from_slice(&text.as_bytes()[..trimmed(&text)]);
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        to.extend_from_slice(&digits.as_bytes()[..trimmed(digits)]);
        to.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
            ("01", None),
            ("-0", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("", None),
            ("-", None),
            ("1a", None),
        ] {
            assert_eq!(parse_i64(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn doubles() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-3.5, "-3.5"),
            (0.1, "0.10000000000000001"),
            (100.25, "100.25"),
            (3.3333333333333335, "3.3333333333333335"),
            (0.0001, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (1.5e-7, "1.4999999999999999e-07"),
            // Halfway between two texts of 17 digits: the even one.
            (2f64.powi(-25), "2.9802322387695312e-08"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            let mut to = Vec::new();
            push_f64(&mut to, value);
            assert_eq!(to, text.as_bytes());
        }
    }

    #[test]
    fn scores_of_small_sets() {
        for (value, text) in [
            (1e17, "100000000000000000"),
            (-1e17, "-100000000000000000"),
            (4e18, "4000000000000000000"),
            (4611686018427387904.0, "4611686018427387904"),
            (5e18, "5e+18"),
            (0.1, "0.10000000000000001"),
            (1e300, "1.0000000000000001e+300"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            let mut to = Vec::new();
            push_score(&mut to, value);
            assert_eq!(to, text.as_bytes());
        }
    }

    #[test]
    fn scores_and_bounds() {
        let (inf, none) = (Some(f64::INFINITY), None);
        for (text, score, bound) in [
            ("0x10", Some(16.0), Some(16.0)),
            ("-0x1p-1", Some(-0.5), Some(-0.5)),
            ("+5", Some(5.0), Some(5.0)),
            ("5.", Some(5.0), Some(5.0)),
            ("+inf", inf, inf),
            ("Infinity", inf, inf),
            ("1e400", none, inf),
            ("0x1p1024", none, inf),
            ("1e-400", none, Some(0.0)),
            ("0x1p-1075", none, Some(0.0)),
            ("1e-320", Some(1e-320), Some(1e-320)),
            ("0e99999", Some(0.0), Some(0.0)),
            ("0x0p99999", Some(0.0), Some(0.0)),
            ("", none, Some(0.0)),
            (" 1", none, Some(1.0)),
            ("1\0x", none, Some(1.0)),
            ("1 ", none, none),
            (" ", none, none),
            ("nan", none, none),
            ("-nan", none, none),
            ("1e", none, none),
            ("0x", none, none),
            ("--1", none, none),
            ("1_0", none, none),
        ] {
            assert_eq!(parse_f64(text.as_bytes()), score, "score {text:?}");
            assert_eq!(parse_bound(text.as_bytes()), bound, "bound {text:?}");
        }
    }

    proptest! {
        #[test]
        fn integers_round_trip(value: i64) {
            let mut to = Vec::new();
            push_i64(&mut to, value);
            prop_assert_eq!(parse_i64(&to), Some(value));
        }

        #[test]
        fn doubles_round_trip(value: f64) {
            prop_assume!(!value.is_nan());
            let mut to = Vec::new();
            push_f64(&mut to, value);
            prop_assert_eq!(parse_f64(&to), Some(value));
        }
    }
}
