//! Options that every benchmark has.

use super::knobs::Knobs;
use super::window::Window;
use crate::domain::DomainChoice;
use crate::failure::{Failure, Outcome};
use crate::quantity;
use perdura::EngineKind;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::SystemTime;

/// One engine, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineChoice {
    All,
    One(EngineKind),
}

impl FromStr for EngineChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "all" { Ok(EngineChoice::All) } else { name.parse().map(EngineChoice::One) }
    }
}

/// Where and how often to measure.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    #[arg(long = "engine", help = format!(
        "Engines to measure, separated by commas: {}, or all; may be repeated [default: all]", EngineKind::NAMES
    ), value_name = "ENGINE", value_delimiter = ',')]
    pub(crate) engines: Vec<EngineChoice>,

    /// Repetitions; engines take turns, and figures are medians
    #[arg(long, value_name = "TIMES", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,

    /// Root of everything random [default: from the clock; it is printed]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,

    /// Bytes that the pool may grow to [default: as the workload needs]
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    pub(crate) size: Option<u64>,

    /// Persistence domain: auto, transient, persistent, media or process
    #[arg(long, value_name = "DOMAIN", default_value = "auto")]
    pub(crate) domain: DomainChoice,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Print comma-separated values, a line for each run
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
}

/// Where the pools lie, for benchmarks of one workload.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Place {
    /// File for the pool, created for the run and left behind [default: a temporary one in memory]
    #[arg(long, value_name = "PATH")]
    pub(crate) pool: Option<PathBuf>,
}

/// Where the pools lie, for benchmarks of several workloads.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Folder {
    /// Folder for all files: in memory (the default), on persistent memory, or on a disk
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<PathBuf>,
}

/// How many threads work on the pool, and which operations are timed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Threads {
    /// Threads
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: u32,

    /// Time about one operation in this many, at random gaps (0: none): reading the clock
    /// costs 40 to 50 ns
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    pub(crate) sample: u32,

    /// Open loop: begin this many operations a second, all threads together, and count each
    /// one's latency from when it was due [default: a closed loop, each after the one before]
    #[arg(long, value_name = "PER-SECOND", value_parser = quantity::count)]
    pub(crate) rate: Option<u64>,

    /// Bind each thread to a processor of its own
    #[arg(long)]
    pub(crate) pin: bool,

    /// At most this many transactions of a thread wait for their durability: the thread begins the next one when the
    /// previous one has committed, and at the limit waits until the oldest is durable; with `all`, nothing is waited
    /// for before the end
    #[arg(long, value_name = "NUMBER", default_value_t = Window::CLOSED_LOOP)]
    pub(crate) window: Window,

    /// Operations before the measured ones [default: a tenth of them]
    #[arg(long, value_name = "NUMBER", value_parser = quantity::count)]
    pub(crate) warm_up: Option<u64>,
}

/// Options of the benchmarks of one workload, in addition to the workload's own.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Setting {
    #[command(flatten)]
    pub(crate) threads: Threads,

    #[command(flatten)]
    pub(crate) knobs: Knobs,

    #[command(flatten)]
    pub(crate) place: Place,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Refuses named engines that cannot roll back.
pub(crate) fn refuse_without_rollback(choices: &[EngineChoice]) -> Outcome {
    let named = choices.iter().find_map(|choice| match choice {
        EngineChoice::One(kind) if !kind.rolls_back() => Some(kind),
        _ => None,
    });
    let Some(kind) = named else { return Ok(()) };
    Err(Failure::new(format!(
        "the workload rolls transactions back that have stored, which the engine '{kind}' cannot; choose from {}",
        EngineKind::names_of(EngineKind::rolls_back)
    )))
}

impl Common {
    /// The engines to run, in their order, each once: all that keep transactions apart if none is named.
    pub(crate) fn engines(&self) -> Vec<EngineKind> {
        let asked = |name: &EngineKind| {
            self.engines.is_empty() && name.isolates()
                || self.engines.iter().any(|choice| match choice {
                    EngineChoice::All => name.isolates(),
                    EngineChoice::One(one) => one == name,
                })
        };
        EngineKind::ALL.into_iter().filter(asked).collect()
    }

    /// As [`engines`](Self::engines), of those that can run a workload that rolls transactions back, or does not.
    pub(crate) fn engines_for(&self, rolls_back: bool) -> Outcome<Vec<EngineKind>> {
        let mut engines = self.engines();
        if rolls_back {
            refuse_without_rollback(&self.engines)?;
            engines.retain(|kind| kind.rolls_back());
        }
        Ok(engines)
    }

    /// The seed asked for, or one from the clock.
    pub(crate) fn seed(&self) -> u64 {
        // Six digits are enough to differ, and are easily typed.
        self.seed.unwrap_or_else(|| {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            perdura_workloads::random::splitmix64(since.unwrap_or_default().as_nanos() as u64)
                % 1_000_000
        })
    }

    /// Limit of a pool for `data` bytes: as asked for, or plenty.
    pub(crate) fn pool_bytes(&self, data: u64, knobs: &Knobs) -> u64 {
        self.size.unwrap_or_else(|| plenty(data, knobs))
    }
}

/// Bytes of a pool with room for `data` bytes and for its overhead.
pub(crate) fn plenty(data: u64, knobs: &Knobs) -> u64 {
    let bytes = data.saturating_mul(4).saturating_add(256 << 20).saturating_add(knobs.room());
    bytes.checked_next_multiple_of(1 << 20).unwrap_or(bytes)
}

/// Operations before the measured ones, unless the user says how many: the same share in every benchmark, so that their
/// figures can be compared.
pub(crate) fn usual_warm_up(operations: u64) -> u64 {
    operations / 10
}

/// Fails with `what` unless `holds`.
pub(crate) fn require(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(Failure::new(what)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_parse() {
        assert_eq!("all".parse(), Ok(EngineChoice::All));
        assert_eq!("redo".parse(), Ok(EngineChoice::One(EngineKind::Redo)));
        assert!("rado".parse::<EngineChoice>().unwrap_err().contains("redo"));
    }
}
