//! The core workloads A to F: their operations, in which shares, on which keys.

use crate::random::Random;
use std::fmt;
use std::str::FromStr;

/// The kind of an operation. The numbers index [`Kind::NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    /// Reads all fields of a record.
    Read = 0,
    /// Writes one field.
    Update = 1,
    /// Adds a record.
    Insert = 2,
    /// Reads up to 100 records in key order.
    Scan = 3,
    /// Reads a record and writes one of its fields.
    ReadModifyWrite = 4,
}

impl Kind {
    /// Names in a latency table; the last is for transactions of several operations.
    pub const NAMES: &'static [&'static str] =
        &["read", "update", "insert", "scan", "read-modify-write", "transaction"];
    /// The index of the name for several operations in one transaction.
    pub const SEVERAL: usize = 5;
}

/// How keys are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// YCSB's scrambled Zipf.
    Zipfian,
    /// Newest records most often.
    Latest,
    /// Uniformly.
    Uniform,
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "zipfian" => Ok(Distribution::Zipfian),
            "latest" => Ok(Distribution::Latest),
            "uniform" => Ok(Distribution::Uniform),
            other => Err(format!("'{other}' is none of zipfian, latest, uniform")),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Distribution::Zipfian => "zipfian",
            Distribution::Latest => "latest",
            Distribution::Uniform => "uniform",
        })
    }
}

/// One of YCSB's core workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letter {
    /// Half reads, half updates.
    A,
    /// Reads, and one update in twenty.
    B,
    /// Reads only.
    C,
    /// Reads of the latest, and one insert in twenty.
    D,
    /// Short scans, and one insert in twenty.
    E,
    /// Half reads, half read-modify-writes.
    F,
}

impl Letter {
    /// All of them.
    pub const ALL: [Letter; 6] = [Letter::A, Letter::B, Letter::C, Letter::D, Letter::E, Letter::F];

    /// The shares of operations.
    pub const fn mix(self) -> Mix {
        let none = Mix { read: 0.0, update: 0.0, insert: 0.0, scan: 0.0 };
        match self {
            Letter::A => Mix { read: 0.5, update: 0.5, ..none },
            Letter::B => Mix { read: 0.95, update: 0.05, ..none },
            Letter::C => Mix { read: 1.0, ..none },
            Letter::D => Mix { read: 0.95, insert: 0.05, ..none },
            Letter::E => Mix { scan: 0.95, insert: 0.05, ..none },
            Letter::F => Mix { read: 0.5, ..none },
        }
    }

    /// How it chooses keys.
    pub const fn distribution(self) -> Distribution {
        match self {
            Letter::D => Distribution::Latest,
            _ => Distribution::Zipfian,
        }
    }
}

impl FromStr for Letter {
    type Err = String;

    /// The letter, or the workload's name.
    fn from_str(name: &str) -> Result<Self, String> {
        let letter = name.strip_prefix("ycsb-").unwrap_or(name).to_ascii_lowercase();
        let found = Letter::ALL.into_iter().find(|own| own.to_string() == letter);
        found.ok_or_else(|| format!("'{name}' is none of the workloads a, b, c, d, e, f"))
    }
}

impl fmt::Display for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Letter::A => "a",
            Letter::B => "b",
            Letter::C => "c",
            Letter::D => "d",
            Letter::E => "e",
            Letter::F => "f",
        })
    }
}

/// Shares of operations; the rest up to 1 are read-modify-writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Reads.
    pub read: f64,
    /// Updates of one field.
    pub update: f64,
    /// Inserts.
    pub insert: f64,
    /// Scans.
    pub scan: f64,
}

impl Mix {
    /// Draws the next kind of operation.
    pub fn draw(&self, random: &mut Random) -> Kind {
        let mut u = random.unit();
        for (share, kind) in [
            (self.read, Kind::Read),
            (self.update, Kind::Update),
            (self.insert, Kind::Insert),
            (self.scan, Kind::Scan),
        ] {
            if u < share {
                return kind;
            }
            u -= share;
        }
        self.last()
    }

    /// What the end of `[0, 1)` stands for: rounding must not invent an operation.
    fn last(&self) -> Kind {
        let sum = self.read + self.update + self.insert + self.scan;
        if sum < 1.0 - 1e-9 {
            Kind::ReadModifyWrite
        } else if self.scan > 0.0 {
            Kind::Scan
        } else {
            Kind::Read
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_have_their_mix() {
        let mut random = Random::new(1, 0);
        for (letter, expected) in [
            (Letter::A, [0.5, 0.5, 0.0, 0.0, 0.0]),
            (Letter::B, [0.95, 0.05, 0.0, 0.0, 0.0]),
            (Letter::C, [1.0, 0.0, 0.0, 0.0, 0.0]),
            (Letter::D, [0.95, 0.0, 0.05, 0.0, 0.0]),
            (Letter::E, [0.0, 0.0, 0.05, 0.95, 0.0]),
            (Letter::F, [0.5, 0.0, 0.0, 0.0, 0.5]),
        ] {
            let mut counts = [0u32; 5];
            for _ in 0..20_000 {
                counts[letter.mix().draw(&mut random) as usize] += 1;
            }
            for (count, expected) in counts.into_iter().zip(expected) {
                let share = f64::from(count) / 20_000.0;
                assert!((share - expected).abs() < 0.015, "{letter}: {counts:?}");
            }
        }
    }

    #[test]
    fn letters_parse_in_either_case() {
        assert_eq!("E".parse(), Ok(Letter::E));
        assert_eq!("e".parse(), Ok(Letter::E));
        assert_eq!("ycsb-e".parse(), Ok(Letter::E));
        assert!("g".parse::<Letter>().is_err());
    }
}
