//! Libraries against each other: libpmemobj and our engines on the same work, taking turns.

use super::engine::{self, PoolPlan};
use super::knobs::Knobs;
use super::options::plenty;
use super::series;
use super::site::Site;
use super::spread::Spread;
use super::stage::Stage;
use super::watch;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use perdura::{Domain, EngineKind};
use perdura_baselines::{Baseline, Error, Figure, Size, Work};
use perdura_workloads::map::{OnHashMap, OnOrderedMap};
use perdura_workloads::overwrite::Overwrite;
use perdura_workloads::sps::Sps;
use perdura_workloads::{Plan, Progress, Workload};
use serde::Serialize;
use std::path::Path;

/// One piece of work, and how much of it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Round {
    pub(crate) work: Work,
    pub(crate) size: Size,
}

/// The times of all competitors for one piece of work.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RoundResult {
    #[serde(flatten)]
    pub(crate) round: Round,
    /// Nanoseconds for an operation, by competitor.
    pub(crate) ns_per_operation: Vec<Spread>,
}

/// All rounds of one contest.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Contest {
    pub(crate) competitors: Vec<String>,
    pub(crate) line_and_fence_ns: Spread,
    pub(crate) rounds: Vec<RoundResult>,
}

/// One of our engines, as a baseline for the others.
pub(crate) struct Ours<'a> {
    engine: EngineKind,
    name: String,
    domain: Option<Domain>,
    progress: &'a Progress,
}

impl<'a> Ours<'a> {
    pub(crate) fn new(engine: EngineKind, domain: Option<Domain>, progress: &'a Progress) -> Self {
        Ours { engine, name: format!("perdura {engine}"), domain, progress }
    }

    fn measure<W: Workload>(
        &self,
        workload: perdura_workloads::Outcome<W>,
        size: &Size,
        site: &Site,
    ) -> Outcome<Figure> {
        let Size { entries, width, operations, warm_up, seed } = *size;
        let plan = Plan {
            threads: 1,
            operations,
            warm_up,
            seed,
            sample_every: 0,
            per_second: None,
            pinned: false,
            window: 1,
        };
        let data = entries.saturating_mul(width.max(64) + 64);
        let pool = PoolPlan {
            limit: plenty(data, &Knobs::default()),
            domain: self.domain,
            knobs: Knobs::default(),
            emptied: false,
            unflushed: false,
        };
        let label = self.engine.name();
        let run = engine::run(label, self.engine, site, pool, &workload?, &plan, self.progress)?;
        interrupt::check(self.progress)?;
        let seconds = run.measured.elapsed.as_secs_f64();
        Ok(Figure { operations: run.measured.operations, seconds })
    }

    fn run_at(&self, work: Work, size: &Size, site: &Site) -> Outcome<Figure> {
        let (entries, width) = (size.entries, size.width as usize);
        match work {
            Work::Sps => self.measure(
                Ok(Sps { entries, swaps: width, disjoint: false, within: None }),
                size,
                site,
            ),
            Work::Map => self.measure(OnHashMap::new(entries, 1), size, site),
            Work::Ordered => self.measure(OnOrderedMap::new(entries, 1), size, site),
            Work::Overwrite => self.measure(Overwrite::new(entries, width, false), size, site),
        }
    }
}

impl Baseline for Ours<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&mut self, work: Work, size: &Size, folder: &Path) -> perdura_baselines::Result<Figure> {
        let figure = Site::within(Some(folder)).and_then(|site| self.run_at(work, size, &site));
        figure.map_err(|failure| match failure {
            Failure::Message(why) | Failure::Usage(why) => Error::failed(&self.name, why),
            Failure::Interrupted | Failure::BrokenPipe => Error::failed(&self.name, "stopped"),
        })
    }
}

/// Runs all rounds `repeat` times; in each, competitors take turns.
pub(crate) fn contest(
    competitors: &mut [Box<dyn Baseline + '_>],
    rounds: &[Round],
    repeat: u32,
    domain: Option<Domain>,
    stage: &Stage,
) -> Outcome<Contest> {
    let Stage { site, progress } = stage;
    let steps = rounds.len() * competitors.len() * repeat as usize;
    let bar = watch::steps("against libpmemobj", steps);
    let mut times = vec![vec![Vec::new(); competitors.len()]; rounds.len()];
    let mut baseline = Vec::new();
    for repetition in 0..u64::from(repeat) {
        baseline.push(series::line_and_fence(site, domain)?);
        for (round, times) in rounds.iter().zip(&mut times) {
            let seed = round.size.seed.wrapping_add(repetition * series::SEED_STEP);
            let size = Size { seed, ..round.size };
            for (competitor, times) in competitors.iter_mut().zip(times) {
                let figure = competitor.run(round.work, &size, site.folder());
                interrupt::check(progress)?;
                times.push(figure?.ns_per_operation());
                bar.inc(1);
            }
        }
    }
    let spreads = |times: Vec<Vec<f64>>| times.into_iter().map(Spread::of).collect();
    let rounds = rounds
        .iter()
        .zip(times)
        .map(|(round, times)| RoundResult { round: *round, ns_per_operation: spreads(times) });
    Ok(Contest {
        competitors: competitors.iter().map(|baseline| baseline.name().to_owned()).collect(),
        line_and_fence_ns: Spread::of(baseline),
        rounds: rounds.collect(),
    })
}
