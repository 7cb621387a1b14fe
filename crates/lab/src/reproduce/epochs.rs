//! Runs of too few epochs: a count of a few epochs changes by much when one more ends, and while the pool of derivative
//! pages grows nothing is reclaimed.

use super::runs::{Cell, Sample};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Epochs that a simulated run of a mechanism with epochs must have at least.
const LEAST: u64 = 20;

/// The mechanism's count of epochs that ended since its pool has grown last.
const SINCE_SETTLED: &str = "epochs_since_pool_settled";

/// Epochs of a run that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountedEpochs {
    /// Those that ended after the last one in which the pool of derivative pages has grown, or, without a pool, since the
    /// measuring began.
    pub(crate) ended: u64,
    /// Whether there is a pool.
    pub(crate) pool: bool,
}

impl CountedEpochs {
    /// Of a mechanism with these figures, under which `epochs` have ended since the measuring began.
    pub(super) fn of(epochs: u64, figures: &BTreeMap<&'static str, u64>) -> Self {
        match figures.get(SINCE_SETTLED) {
            Some(&ended) => CountedEpochs { ended, pool: true },
            None => CountedEpochs { ended: epochs, pool: false },
        }
    }

    /// Whether they are fewer than a run must have.
    pub(crate) fn are_few(self) -> bool {
        self.ended < LEAST
    }
}

impl Serialize for CountedEpochs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row {
            ended: u64,
            after_the_pool_settled: bool,
            few: bool,
        }
        let CountedEpochs { ended, pool: after_the_pool_settled } = *self;
        Row { ended, after_the_pool_settled, few: self.are_few() }.serialize(serializer)
    }
}

impl Sample {
    /// Whether it is of a mechanism with epochs, and too few of them count.
    pub(super) fn has_few_epochs(&self) -> bool {
        self.counted_epochs.is_some_and(CountedEpochs::are_few)
    }
}

/// The runs of a cell with too few epochs.
pub(super) fn few<'s>(samples: &'s [Sample], cell: &Cell) -> Option<&'s Sample> {
    samples.iter().find(|sample| sample.cell == *cell && sample.has_few_epochs())
}

/// A sentence about the runs with too few epochs; empty if no run has epochs.
pub(super) fn remark(samples: &[Sample]) -> String {
    let all: Vec<&Sample> = samples.iter().filter(|own| own.counted_epochs.is_some()).collect();
    let few: Vec<String> = (all.iter().filter(|sample| sample.has_few_epochs()))
        .filter_map(|sample| {
            let Cell { workload, engine, setting, threads, .. } = &sample.cell;
            let CountedEpochs { ended, pool } = sample.counted_epochs?;
            let setting = setting.as_ref().map_or(String::new(), |name| format!(", {name}"));
            let engine = engine.as_deref().unwrap_or_default();
            let total = sample.checkpoints.unwrap_or(0);
            let of = if pool { format!(" of {total}") } else { String::new() };
            Some(format!("{workload} x{threads} {engine}{setting}: {ended}{of}"))
        })
        .collect();
    let rule = format!(
        "{LEAST} epochs at least, of those that ended after the pool of derivative pages had grown last, or since the \
         measuring began where a mechanism has none"
    );
    match (all.len(), few.as_slice()) {
        (0, _) => String::new(),
        (all, []) => format!("all {all} runs with epochs have {rule}"),
        (all, few) => format!(
            "{} of {all} runs with epochs are marked 'few epochs': they do not have {rule}: {}",
            few.len(),
            few.join("; ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_in_which_the_pool_grew_do_not_count() {
        let with = |figures: &[(&'static str, u64)]| {
            CountedEpochs::of(25, &figures.iter().copied().collect())
        };
        let logging = with(&[("epochs", 25)]);
        assert_eq!((logging.ended, logging.pool, logging.are_few()), (25, false, false));
        let [late, early] = [19, 20].map(|ended| with(&[("epochs", 25), (SINCE_SETTLED, ended)]));
        assert!(late.are_few() && !early.are_few());
        let sample = |engine: &str, counted_epochs| Sample {
            cell: Cell { engine: Some(engine.to_owned()), ..Cell::default() },
            checkpoints: Some(25),
            counted_epochs,
            ..Sample::default()
        };
        let samples =
            [sample("baseline", None), sample("logging", Some(logging)), sample("own", Some(late))];
        let said = remark(&samples);
        assert!(said.starts_with("1 of 2 runs") && said.ends_with("own: 19 of 25"), "{said}");
        let few = |index: usize| few(&samples, &samples[index].cell).is_some();
        assert_eq!([0, 1, 2].map(few), [false, false, true]);
        assert!(remark(&samples[..2]).starts_with("all 1 runs"));
        assert_eq!(remark(&samples[..1]), "");
        let json = serde_json::to_value(late).expect("JSON");
        assert_eq!((&json["ended"], &json["few"]), (&19.into(), &true.into()));
    }
}
