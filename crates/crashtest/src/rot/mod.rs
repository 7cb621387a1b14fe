//! Pools damaged by their medium: is any wrong value served unnoticed?
//!
//! A `sample` is a pool in a file, with collections in it whose contents are known, closed or left open by a process
//! that was killed. Copies of it are damaged in one of many ways each (`damage`), and then used as usual: checked by
//! `pool check`, opened, and everything in them is read and compared.
//!
//! Invariant: a seed gives the same pools and the same damages, except for values that depend on the clock
//! (identifiers and salts).

mod damage;
mod sample;

pub use damage::DamageKind;

use crate::rot::sample::{Contents, Sample};
use perdura::check::check;
use perdura::{EngineKind, OpenError, Options};
use perdura_memory::Domain;
use perdura_memory::random::SplitMix64;
use perdura_workloads::Progress;
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Damaged copies of each pool.
const COPIES: u64 = 25;

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many pools to damage.
    pub pools: u64,
    /// Root of everything random.
    pub seed: u64,
    /// Whether the pools have checksums.
    pub checksums: bool,
    /// The domain in which they are used; `None` for the folder's default.
    pub domain: Option<Domain>,
}

/// The outcome for a damaged pool: the first that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It was not opened.
    Refused,
    /// A read failed with an error.
    ReadFails,
    /// Whatever was read, `pool check` reports the damage.
    Checked,
    /// Nothing reports the damage, and everything that was read is right.
    Harmless,
    /// Wrong values, and nothing reports the damage.
    Wrong,
}

impl Fate {
    /// All of them.
    pub const ALL: [Fate; 5] =
        [Fate::Refused, Fate::ReadFails, Fate::Checked, Fate::Harmless, Fate::Wrong];
}

/// A pool that served wrong values unnoticed, and how.
#[derive(Clone, Debug, Serialize)]
pub struct Unnoticed {
    /// Its number: the same seed makes it again.
    pub pool: u64,
    /// Its engine.
    pub engine: &'static str,
    /// Whether it had been closed.
    pub closed: bool,
    /// The damage, and where.
    pub damage: String,
    /// The faults.
    pub wrong: String,
}

/// The results of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RotReport {
    /// By kind of damage, how many pools met each fate, in the order of [`Fate::ALL`].
    pub fates: Vec<(DamageKind, [u64; 5])>,
    /// Of those whose damage `pool check` reports, how many served wrong values all the same.
    pub served_wrong: u64,
    /// Those that served wrong values unnoticed.
    pub unnoticed: Vec<Unnoticed>,
}

impl RotReport {
    /// How many pools met this fate.
    pub fn count(&self, fate: Fate) -> u64 {
        self.fates.iter().map(|(_, fates)| fates[fate as usize]).sum()
    }
}

/// Damages pools in `folder`, and determines the fate of each.
///
/// # Errors
/// Why a pool could not be created, or a file could not be written: not the effects of damage.
pub fn run(plan: &Plan, folder: &Path, progress: &Progress) -> Result<RotReport, String> {
    let mut found = RotReport {
        fates: DamageKind::ALL.map(|kind| (kind, [0; 5])).to_vec(),
        ..RotReport::default()
    };
    let (damaged, mut sample) = (folder.join("damaged.pool"), None);
    for pool in 0..plan.pools {
        if progress.is_stopped() {
            break;
        }
        if pool.is_multiple_of(COPIES) {
            sample = Some(made(plan, pool / COPIES, folder)?);
        }
        let sample = sample.as_ref().expect("the first pool makes one");
        let mut random = SplitMix64::new(plan.seed.wrapping_add(pool).wrapping_mul(0x2545_F491));
        let kind = DamageKind::ALL[random.below(DamageKind::ALL.len() as u64) as usize];
        let Some((bytes, place)) = damage::damage(sample, kind, &mut random) else { continue };
        std::fs::write(&damaged, &bytes).map_err(|error| error.to_string())?;
        let (fate, wrong) = fate(&damaged, &sample.contents, plan.domain);
        found.fates[kind as usize].1[fate as usize] += 1;
        found.served_wrong += u64::from(fate == Fate::Checked && wrong.is_some());
        if fate == Fate::Wrong {
            found.unnoticed.push(Unnoticed {
                pool,
                engine: sample.engine.name(),
                closed: sample.closed,
                damage: place,
                wrong: wrong.unwrap_or_default(),
            });
        }
        progress.advance(1);
    }
    Ok(found)
}

/// The sample with this number.
fn made(plan: &Plan, number: u64, folder: &Path) -> Result<Sample, String> {
    let engines: Vec<EngineKind> = EngineKind::ALL
        .into_iter()
        .filter(|engine| !plan.checksums || engine.keeps_checksums())
        .collect();
    let engine = engines[number as usize % engines.len()];
    // For such an engine, the contents left by a killed process are undefined.
    let closed = !engine.is_crash_consistent() || (number / engines.len() as u64).is_multiple_of(2);
    let seed = plan.seed.wrapping_mul(0x9E37_79B9).wrapping_add(number);
    let options = Options::new().engine(engine).domain(plan.domain).checksums(plan.checksums);
    Sample::make(engine, closed, &options, seed, folder).map_err(|error| {
        format!("sample {number} with the engine {engine} could not be made: {error}")
    })
}

/// The fate of a pool, and the wrong values that it served.
fn fate(path: &Path, wanted: &Contents, domain: Option<Domain>) -> (Fate, Option<String>) {
    let tells = match quietly(|| check(path, &|_, _, _| Ok(false))) {
        Some(Ok(report)) => !report.is_whole(),
        Some(Err(_)) => true,
        // A panic does not count as a report.
        None => return (Fate::Wrong, Some("pool check panics".to_owned())),
    };
    let read = quietly(|| -> Result<Result<Contents, perdura::Error>, OpenError> {
        let pool = Options::new().domain(domain).open(path)?;
        let mut session = pool.session()?;
        Ok(session.read(|tx| Contents::read(tx, wanted)))
    });
    let wrong = match read {
        None => return (Fate::Wrong, Some("opening or reading it panics".to_owned())),
        Some(Err(_)) => return (Fate::Refused, None),
        Some(Ok(Err(_))) => return (Fate::ReadFails, None),
        Some(Ok(Ok(contents))) => wanted.differs_from(&contents),
    };
    match (tells, wrong) {
        (true, wrong) => (Fate::Checked, wrong),
        (false, None) => (Fate::Harmless, None),
        (false, wrong) => (Fate::Wrong, wrong),
    }
}

fn quietly<R>(body: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(body)).ok()
}
