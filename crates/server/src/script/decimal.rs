//! Numbers as C prints them.

/// As C's `%.*g`: up to `digits` digits, without zeros at the end.
pub(crate) fn general(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan" } else { "nan" }.into();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf" } else { "inf" }.into();
    }
    let digits = digits.max(1);
    let text = format!("{value:.*e}", digits - 1);
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.unsigned_abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{value:.decimals$}")).to_owned()
}

/// Without zeros at the end of a fraction.
fn trimmed(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_printf_has_them() {
        for (value, digits, text) in [
            (0.0, 14, "0"),
            (-0.0, 14, "-0"),
            (1.0, 14, "1"),
            (100.0, 17, "100"),
            (3.25, 14, "3.25"),
            (0.1, 17, "0.10000000000000001"),
            (1e14, 14, "1e+14"),
            (99999999999999.0, 14, "99999999999999"),
            (123456789012345678.0, 14, "1.2345678901235e+17"),
            (123456789012345678.0, 17, "1.2345678901234568e+17"),
            (1e-5, 14, "1e-05"),
            (0.0001, 14, "0.0001"),
            (9.999e22, 3, "1e+23"),
            (f64::INFINITY, 14, "inf"),
            (f64::NEG_INFINITY, 14, "-inf"),
            (5e-324, 17, "4.9406564584124654e-324"),
        ] {
            assert_eq!(general(value, digits), text);
        }
    }
}
