//! All programs on all databases, taking turns.

use super::database::{BASELINE, Database, Entrant, Kind, PoolSetting};
use super::programs::{Program, Sample};
use crate::bench::series::SEED_STEP;
use crate::bench::spread::Spread;
use crate::bench::stage::Stage;
use crate::bench::watch;
use crate::failure::Outcome;
use crate::interrupt;
use serde::Serialize;

/// The figures of one program.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Round {
    #[serde(flatten)]
    pub(crate) program: Program,
    /// By entrant; none for one that the program does not run on.
    pub(crate) figures: Vec<Option<Figures>>,
}

/// Of one program on one database, over all repetitions.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) per_second: Spread,
    /// How many times as fast as the baseline, by medians.
    pub(crate) ratio: Option<f64>,
    pub(crate) bytes_each: Option<Spread>,
    /// Bytes of the baseline's over these.
    pub(crate) bytes_saved: Option<f64>,
    pub(crate) longest_ns: Option<Spread>,
    pub(crate) kept_bytes: Option<Spread>,
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Contest {
    pub(crate) entrants: Vec<Entrant>,
    pub(crate) rounds: Vec<Round>,
}

fn summarise(samples: &[Sample]) -> Option<Figures> {
    let optional = |figure: fn(&Sample) -> Option<f64>| {
        let values: Vec<f64> = samples.iter().filter_map(figure).collect();
        (!values.is_empty()).then(|| Spread::of(values))
    };
    (!samples.is_empty()).then(|| Figures {
        per_second: Spread::of(samples.iter().map(|sample| sample.per_second)),
        ratio: None,
        bytes_each: optional(|sample| sample.bytes_each),
        bytes_saved: None,
        longest_ns: optional(|sample| sample.longest_ns),
        kept_bytes: optional(|sample| sample.kept_bytes),
    })
}

/// Compares all with the baseline, if it is among them.
fn compare(figures: &mut [Option<Figures>], kinds: &[Kind]) {
    let baseline = kinds.iter().position(|kind| *kind == BASELINE);
    let Some(baseline) = baseline.and_then(|index| figures[index].clone()) else { return };
    for figures in figures.iter_mut().flatten() {
        figures.ratio = Some(figures.per_second.median / baseline.per_second.median);
        let bytes = baseline.bytes_each.zip(figures.bytes_each);
        figures.bytes_saved = bytes.map(|(theirs, ours)| theirs.median / ours.median);
    }
}

/// Runs all programs `repeat` times; in each, the databases take turns.
pub(crate) fn contest(
    kinds: &[Kind],
    programs: &[Program],
    (repeat, seed): (u32, u64),
    setting: impl Fn(Program) -> PoolSetting,
    stage: &Stage,
) -> Outcome<Contest> {
    let steps = programs.len() * kinds.len() * repeat as usize;
    let bar = watch::steps("SQLite", steps);
    let mut samples = vec![vec![Vec::new(); kinds.len()]; programs.len()];
    for repetition in 0..u64::from(repeat) {
        for (program, samples) in programs.iter().zip(&mut samples) {
            for (kind, samples) in kinds.iter().zip(samples) {
                if program.runs_on(*kind) {
                    let folder = tempfile::tempdir_in(stage.site.folder())?;
                    let database = Database::create(*kind, folder.path(), setting(*program))?;
                    let seed = seed.wrapping_add(repetition * SEED_STEP);
                    let sample = program.run(database, seed, &stage.progress);
                    interrupt::check(&stage.progress)?;
                    samples.push(sample?);
                }
                bar.inc(1);
            }
        }
    }
    let rounds = programs.iter().zip(samples).map(|(program, samples)| {
        let mut figures: Vec<_> = samples.iter().map(|samples| summarise(samples)).collect();
        compare(&mut figures, kinds);
        Round { program: *program, figures }
    });
    Ok(Contest {
        entrants: kinds.iter().map(|kind| kind.entrant()).collect(),
        rounds: rounds.collect(),
    })
}
