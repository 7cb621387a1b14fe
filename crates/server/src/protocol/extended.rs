//! Numbers with 64 significant bits, which INCRBYFLOAT adds up on the usual processors, where
//! Redis keeps them in 80-bit floating point. 0.1 + 0.2 is 0.3 then, as clients expect.

use super::hexadecimal::{Hexadecimal, unsigned};
use num_bigint::BigUint;

/// Bits of a mantissa.
const BITS: u64 = 64;
/// Numbers of 2^MOST and more are infinite.
const MOST: i64 = 16384;
/// Numbers below `2^63 * 2^LEAST` are read as zero.
const LEAST: i64 = -16509;
/// Digits, and powers of ten, that are read.
const DIGITS: usize = 5000;
/// Digits behind the point that are printed.
const PRINTED: u32 = 17;

/// `mantissa * 2^exponent`, the mantissa with 64 bits, or zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extended {
    negative: bool,
    mantissa: u64,
    exponent: i64,
}

/// A number that was read.
pub(crate) enum Parsed {
    Finite(Extended),
    Infinite,
}

impl Extended {
    /// The nearest number to `value * 2^exponent`, and a bit more if `inexact`; ties to even.
    fn nearest(negative: bool, value: &BigUint, exponent: i64, inexact: bool) -> Self {
        let extra = value.bits() as i64 - BITS as i64;
        if extra <= 0 {
            let mantissa = low_word(value).checked_shl(-extra as u32).unwrap_or(0);
            return Extended { negative, mantissa, exponent: exponent + extra };
        }
        let kept = low_word(&(value >> extra as u64));
        let half = value.bit(extra as u64 - 1);
        let below =
            inexact || value.trailing_zeros().is_some_and(|zeros| (zeros as i64) < extra - 1);
        let up = half && (below || kept & 1 == 1);
        match kept.checked_add(u64::from(up)) {
            Some(mantissa) => Extended { negative, mantissa, exponent: exponent + extra },
            None => Extended { negative, mantissa: 1 << 63, exponent: exponent + extra + 1 },
        }
    }

    /// Reads a number.
    pub(crate) fn parse(text: &[u8]) -> Option<Parsed> {
        let (negative, text) = unsigned(text);
        if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") {
            return Some(Parsed::Infinite);
        }
        if let Some(Hexadecimal { mantissa, exponent }) = Hexadecimal::parse(text) {
            return Self::nearest(negative, &BigUint::from(mantissa), exponent, false).parsed();
        }
        let (digits, power) = decimal(text)?;
        let digits = BigUint::parse_bytes(&digits, 10)?;
        let value = if power >= 0 {
            Self::nearest(negative, &(digits * ten_to(power as u32)), 0, false)
        } else {
            let divisor = ten_to(power.unsigned_abs() as u32);
            let shift = (divisor.bits() + BITS + 2).saturating_sub(digits.bits());
            let scaled = digits << shift;
            let (quotient, inexact) = (&scaled / &divisor, &scaled % &divisor != BigUint::ZERO);
            Self::nearest(negative, &quotient, -(shift as i64), inexact)
        };
        value.parsed()
    }

    /// Itself, unless the processor's numbers have no room for it.
    fn parsed(self) -> Option<Parsed> {
        let in_range = self.is_finite() && (self.mantissa == 0 || self.exponent >= LEAST);
        in_range.then_some(Parsed::Finite(self))
    }

    pub(crate) fn is_finite(self) -> bool {
        self.mantissa == 0 || self.exponent + BITS as i64 <= MOST
    }

    /// The nearest number to the sum.
    pub(crate) fn plus(self, other: Extended) -> Extended {
        let exponent = match (self.mantissa, other.mantissa) {
            (0, _) => return other,
            (_, 0) => return self,
            _ => self.exponent.min(other.exponent),
        };
        let shifted = |of: Extended| BigUint::from(of.mantissa) << (of.exponent - exponent) as u64;
        let (a, b) = (shifted(self), shifted(other));
        if self.negative == other.negative {
            return Self::nearest(self.negative, &(a + b), exponent, false);
        }
        if a >= b {
            Self::nearest(self.negative && a != b, &(a - b), exponent, false)
        } else {
            Self::nearest(other.negative, &(b - a), exponent, false)
        }
    }

    /// The decimal with up to 17 digits behind the point, without zeros at its end.
    pub(crate) fn print(self) -> String {
        let scaled = BigUint::from(self.mantissa) * ten_to(PRINTED);
        let rounded = if self.exponent >= 0 {
            scaled << self.exponent as u64
        } else {
            shift_right_to_nearest(&scaled, self.exponent.unsigned_abs())
        };
        let digits = format!("{:0>18}", rounded.to_str_radix(10));
        let (whole, fraction) = digits.split_at(digits.len() - PRINTED as usize);
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        let sign = if self.negative && rounded != BigUint::ZERO { "-" } else { "" };
        format!("{sign}{whole}{point}{fraction}")
    }
}

fn low_word(value: &BigUint) -> u64 {
    value.iter_u64_digits().next().unwrap_or(0)
}

fn ten_to(power: u32) -> BigUint {
    BigUint::from(10u32).pow(power)
}

fn shift_right_to_nearest(value: &BigUint, bits: u64) -> BigUint {
    let kept = value >> bits;
    let half = value.bit(bits - 1);
    let below = value.trailing_zeros().is_some_and(|zeros| zeros < bits - 1);
    let up = half && (below || kept.bit(0));
    kept + u32::from(up)
}

/// The digits of a decimal number, and the power of ten that they are to be multiplied with.
fn decimal(text: &[u8]) -> Option<(Vec<u8>, i64)> {
    let (number, power) = match text.iter().position(|byte| byte.eq_ignore_ascii_case(&b'e')) {
        Some(at) => (&text[..at], exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let point = number.iter().position(|&byte| byte == b'.').unwrap_or(number.len());
    let fraction = number.get(point + 1..).unwrap_or(b"");
    let digits = [&number[..point], fraction].concat();
    let sane =
        !digits.is_empty() && digits.len() <= DIGITS && digits.iter().all(u8::is_ascii_digit);
    sane.then_some((digits, power - fraction.len() as i64))
}

fn exponent(text: &[u8]) -> Option<i64> {
    let value: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (value.unsigned_abs() as usize <= DIGITS).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Extended {
        match Extended::parse(text.as_bytes()) {
            Some(Parsed::Finite(value)) => value,
            _ => panic!("{text} is no number"),
        }
    }

    #[test]
    fn sums_as_clients_expect() {
        for (a, b, sum) in [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("10.6", "-5", "5.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3.0", "1.1", "4.1"),
            ("-1", "1", "0"),
            ("-0.5", "0", "-0.5"),
            ("1e18", "1", "1000000000000000001"),
            ("1e20", "1", "100000000000000000000"),
            ("17", "-17.00000000000000001", "-0.00000000000000001"),
            ("1e-20", "0", "0"),
            (".5", "5.", "5.5"),
            ("0x10", "-0X.8p0", "15.5"),
            ("1e-4940", "1", "1"),
        ] {
            assert_eq!(number(a).plus(number(b)).print(), sum, "{a} + {b}");
        }
    }

    #[test]
    fn non_numbers() {
        for text in
            ["", "-", ".", "e5", "1e", "1x", " 1", "1 ", "nan", "0x", "1e99999", "1e-4970", "--1"]
        {
            assert!(Extended::parse(text.as_bytes()).is_none(), "{text:?}");
        }
        assert!(matches!(Extended::parse(b"-inf"), Some(Parsed::Infinite)));
    }

    #[test]
    fn too_large_is_infinite() {
        let large = number("1.1e4932");
        assert!(large.is_finite() && !large.plus(large).is_finite());
    }
}
