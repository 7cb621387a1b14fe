//! Numbers as Redis reads and prints them.

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

/// A floating-point number, infinities included, NaN not.
pub(crate) fn parse_f64(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let value: f64 = text.parse().ok()?;
    (!value.is_nan()).then_some(value)
}

/// An integer's decimal digits.
pub(crate) fn push_i64(to: &mut Vec<u8>, value: i64) {
    to.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// The shortest decimal that reads back as `value`.
pub(crate) fn push_f64(to: &mut Vec<u8>, value: f64) {
    // Beyond 2^52 not every integer is a double; up to it, the integer is the shortest text.
    const WHOLE: f64 = (1u64 << 52) as f64;
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
    if (1e-5..1e21).contains(&value.abs()) {
        to.extend_from_slice(format!("{value}").as_bytes());
        return;
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => {
            to.extend_from_slice(format!("{digits}e+{exponent}").as_bytes());
        }
        _ => to.extend_from_slice(text.as_bytes()),
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
            (0.1, "0.1"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-7"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            let mut to = Vec::new();
            push_f64(&mut to, value);
            assert_eq!(to, text.as_bytes());
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
