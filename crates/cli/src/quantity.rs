//! Numbers on the command line, in experiments and in tables: `1G` of bytes, `10M` operations, `10ms`.

use serde::{Deserialize, Deserializer, de};

/// Parses a number of bytes: `4096`, `512K`, `1G`, `1.5 GiB`; units are powers of 1024.
///
/// # Errors
/// The correct form.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = split(text);
    let unit = unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit).to_owned();
    let power = power_of(&unit).ok_or_else(|| {
        format!(
            "'{text}' is not a size: write a number of bytes, or one with K, M, G or T, such as 1G"
        )
    })?;
    scale(text, digits, 1024u64.pow(power))
}

/// Parses a count: `1000`, `10k`, `1M`; units are powers of 1000.
///
/// # Errors
/// The correct form.
pub fn count(text: &str) -> Result<u64, String> {
    let (digits, unit) = split(text);
    let power = power_of(&unit).ok_or_else(|| {
        format!(
            "'{text}' is not a number: write digits, with k, M or G if it is large, such as 10M"
        )
    })?;
    scale(text, digits, 1000u64.pow(power))
}

/// An unlimited time.
pub const NEVER: u64 = u64::MAX;

/// Parses a time, in nanoseconds: `500ns`, `20us`, `10 ms`, `1s`, or `never`.
///
/// # Errors
/// The correct form.
pub fn time(text: &str) -> Result<u64, String> {
    if text == "never" {
        return Ok(NEVER);
    }
    let (digits, unit) = split(text);
    let unit = TIMES.iter().find(|(name, _)| *name == unit).ok_or_else(|| {
        format!(
            "'{text}' is not a time: write a number with ns, us, ms or s, such as 10ms, or never"
        )
    })?;
    scale(text, digits, unit.1)
}

/// Units of time, in nanoseconds, the largest first.
const TIMES: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// A time in the notation of the command line: `10 ms`.
pub fn show_time(ns: u64) -> String {
    let fits = |unit: &&(&str, u64)| ns >= unit.1 && ns.is_multiple_of(unit.1);
    let (name, unit) = TIMES.iter().find(fits).unwrap_or(&("ns", 1));
    format!("{} {name}", show_count(ns / unit))
}

/// Deserializes a whole number, or a text that `parse` reads as on the command line.
///
/// # Errors
/// The deserializer's, or that of `parse`.
pub fn deserialize<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a whole number, or a text")]
    enum Given {
        Number(u64),
        Text(String),
    }
    let text = match Given::deserialize(deserializer)? {
        Given::Number(number) => number.to_string(),
        Given::Text(text) => text,
    };
    parse(&text).map_err(de::Error::custom)
}

fn split(text: &str) -> (&str, String) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_');
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    (digits, unit.trim_start().to_ascii_lowercase())
}

fn power_of(unit: &str) -> Option<u32> {
    ["", "k", "m", "g", "t"].iter().position(|name| *name == unit).map(|power| power as u32)
}

fn scale(text: &str, digits: &str, unit: u64) -> Result<u64, String> {
    let digits = digits.replace('_', "");
    let too_large = || format!("'{text}' is too large");
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(unit).ok_or_else(too_large);
    }
    let number: f64 = digits.parse().map_err(|_| format!("'{text}' is not a number"))?;
    let scaled = number * unit as f64;
    if scaled < 2f64.powi(63) { Ok(scaled.round() as u64) } else { Err(too_large()) }
}

/// A number of bytes for display: `1.5 GiB`.
pub fn show_bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if value.fract() == 0.0 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// A whole number for display: `1,234,567`.
pub fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut shown = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A count with its noun: `1 swap`, `16 swaps`.
pub fn plural(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", show_count(count))
}

/// Nanoseconds for display, to about three digits: `153 ns`, `1.53 us`, `12.0 ms`.
pub fn show_ns(ns: f64) -> String {
    match ns {
        _ if ns < 100.0 => format!("{ns:.1} ns"),
        _ if ns < 1e4 => format!("{ns:.0} ns"),
        _ if ns < 1e7 => format!("{:.1} us", ns / 1e3),
        _ if ns < 1e10 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.1} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary() {
        assert_eq!(bytes("1G"), Ok(1 << 30));
        assert_eq!(bytes("512k"), Ok(512 << 10));
        assert_eq!(bytes("1.5GiB"), Ok(3 << 29));
        assert_eq!(bytes("1.5 GiB"), Ok(3 << 29));
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("64KB"), Ok(64 << 10));
        for wrong in ["", "G", "1X", "-1", "1e9", "99999999999T", "1..5G"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_are_decimal() {
        assert_eq!(count("10M"), Ok(10_000_000));
        assert_eq!(count("1_000"), Ok(1_000));
        assert_eq!(count("2.5k"), Ok(2_500));
        assert!(count("1MB").is_err());
    }

    #[test]
    fn times_have_units() {
        assert_eq!(time("10ms"), Ok(10_000_000));
        assert_eq!(time("1.5 s"), Ok(1_500_000_000));
        assert_eq!(time("never"), Ok(NEVER));
        for (ns, shown) in [(0, "0 ns"), (1_500, "1,500 ns"), (10_000_000, "10 ms")] {
            assert_eq!(show_time(ns), shown);
        }
        for wrong in ["10", "ms", "1 h", "-1s", ""] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(show_bytes(1536), "1.5 KiB");
        assert_eq!(show_bytes(1 << 30), "1 GiB");
        assert_eq!(show_count(1_234_567), "1,234,567");
        assert_eq!(show_count(12), "12");
        assert_eq!(show_ns(153.4), "153 ns");
        assert_eq!(show_ns(12_340.0), "12.3 us");
    }
}
