//! Hexadecimal numbers as C reads them: `0x10`, `0x1.8p-3`.

/// Bits of a mantissa that are kept; of the bits that follow, only whether they are zero.
const KEPT: u32 = 120;

/// `mantissa * 2^exponent`. A mantissa that was cut off has its last bit set: it still rounds
/// as the whole number does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hexadecimal {
    pub(crate) mantissa: u128,
    pub(crate) exponent: i64,
}

impl Hexadecimal {
    /// Reads the number after its sign.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let [b'0', b'x' | b'X', text @ ..] = text else { return None };
        let end = text.iter().position(|byte| matches!(byte, b'p' | b'P'));
        let (number, mut exponent) = match end {
            Some(at) => (&text[..at], power(&text[at + 1..])?),
            None => (text, 0),
        };
        let (mut mantissa, mut digits, mut behind_point) = (0u128, 0, false);
        for &byte in number {
            if byte == b'.' && !behind_point {
                behind_point = true;
                continue;
            }
            let digit = char::from(byte).to_digit(16)?;
            digits += 1;
            if mantissa >> (KEPT - 4) == 0 {
                mantissa = mantissa << 4 | u128::from(digit);
                exponent -= if behind_point { 4 } else { 0 };
            } else {
                mantissa |= u128::from(digit != 0);
                exponent += if behind_point { 0 } else { 4 };
            }
        }
        (digits > 0).then_some(Hexadecimal { mantissa, exponent })
    }

    /// The nearest double, ties to even.
    pub(crate) fn to_f64(self) -> f64 {
        /// The exponent of the smallest double that is not zero.
        const LEAST: i64 = -1074;
        /// The largest exponent that a mantissa of 53 bits can have.
        const MOST: i64 = 971;
        let bits = i64::from(u128::BITS - self.mantissa.leading_zeros());
        let exponent = (self.exponent + bits - 53).max(LEAST);
        let excess = exponent - self.exponent;
        if bits == 0 || excess > i64::from(KEPT) + 1 {
            return 0.0;
        }
        if exponent > MOST {
            return f64::INFINITY;
        }
        let rounded = if excess > 0 {
            let (kept, half) = (self.mantissa >> excess, 1u128 << (excess - 1));
            let rest = self.mantissa & ((half << 1) - 1);
            kept + u128::from(rest > half || rest == half && kept & 1 == 1)
        } else {
            self.mantissa << -excess
        };
        rounded as f64 * power_of_two(exponent)
    }
}

/// `2^exponent`, a double.
fn power_of_two(exponent: i64) -> f64 {
    let bits = if exponent < -1022 { 1 << (exponent + 1074) } else { (exponent + 1023) << 52 };
    f64::from_bits(bits as u64)
}

/// Whether a number is negative, and the rest after its sign.
pub(super) fn unsigned(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

/// A decimal exponent. One that is absurdly large stays so small or large that no mantissa makes up for it.
fn power(text: &[u8]) -> Option<i64> {
    const MOST: i64 = 1 << 40;
    let (negative, digits) = unsigned(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |value: i64, digit: &u8| (value * 10 + i64::from(digit - b'0')).min(MOST);
    let value = digits.iter().fold(0, add);
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_c_reads_them() {
        for (text, value) in [
            ("0x10", 16.0),
            ("0X1P-3", 0.125),
            ("0x.8", 0.5),
            ("0x1.", 1.0),
            ("0x1.8p+1", 3.0),
            ("0x1.fffffffffffffffp0", 2.0),
            ("0x8000000000000400000000", 2f64.powi(87)),
            ("0x8000000000000400000001", 2f64.powi(87) + 2f64.powi(35)),
            ("0x0p99999999999999999999", 0.0),
            ("0x1p99999999999999999999", f64::INFINITY),
            ("0x1p1023", 2f64.powi(1023)),
            ("0x1.fffffffffffff8p1023", f64::INFINITY),
            ("0x1.8p-1074", 2.0 * 5e-324),
            ("0x1p-1074", 5e-324),
            ("0x1p-1075", 0.0),
            ("0x1.0000000000000000000000000000000000000001p-1075", 5e-324),
            ("0x1p-99999999999999999999", 0.0),
        ] {
            let read = Hexadecimal::parse(text.as_bytes()).map(Hexadecimal::to_f64);
            assert_eq!(read, Some(value), "{text}");
        }
        for text in
            ["0x", "0x.", "0xg", "0x1p", "0x1p+", "0x1.1.1", "x1", "1", "", "0x-1", "0x1p1.5"]
        {
            assert_eq!(Hexadecimal::parse(text.as_bytes()), None, "{text:?}");
        }
    }
}
