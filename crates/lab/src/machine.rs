//! The machine that a figure was measured on.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fs;

/// Printed with the figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// The processor's name.
    pub(crate) processor: String,
    /// Cores that this process may use.
    pub(crate) cores: usize,
    /// The operating system and its release.
    pub(crate) system: String,
    /// Perdura's version, and whether it was optimised.
    pub(crate) build: String,
    /// The date, in UTC.
    pub(crate) date: String,
}

impl Machine {
    /// Whether the program was optimised.
    pub(crate) fn is_release(&self) -> bool {
        self.build.ends_with("(release)")
    }

    /// This machine, at this moment.
    pub(crate) fn here() -> Self {
        let profile =
            if cfg!(debug_assertions) { "debug: figures mean nothing" } else { "release" };
        Machine {
            processor: processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            system: system(),
            build: format!("perdura {} ({profile})", env!("CARGO_PKG_VERSION")),
            // Whole seconds.
            date: format!("{:.0}", Timestamp::now()),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Machine { processor, cores, system, build, date } = self;
        write!(f, "{processor}, {cores} cores, {system}; {build}; {date}")
    }
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn system() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {}", std::env::consts::OS, release.trim()).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_in_utc_and_in_whole_seconds() {
        let date = Machine::here().date;
        let form = date.replace(|c: char| c.is_ascii_digit(), "0");
        assert_eq!(form, "0000-00-00T00:00:00Z", "{date}");
        let then: Timestamp = date.parse().expect("an RFC 3339 date");
        assert!((-60..=60).contains(&(Timestamp::now().as_second() - then.as_second())), "{date}");
    }
}
