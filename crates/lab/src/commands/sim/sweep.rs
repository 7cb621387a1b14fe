//! One of a machine's figures swept: how far the results depend on it.

use super::{Arguments, show};
use crate::csv;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::simulate::Run;
use perdura::EngineKind;
use perdura_machine::MachineConfig;
use serde_json::json;
use std::str::FromStr;

/// `--sweep`.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    figure: String,
    values: Vec<String>,
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (figure, values) = text.split_once('=').unwrap_or((text, ""));
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if figure.is_empty() || values.iter().any(String::is_empty) {
            return Err(
                "a figure and its values are written as cores.fence_cycles=1,10,100".to_owned()
            );
        }
        Ok(Sweep { figure: figure.to_owned(), values })
    }
}

impl Sweep {
    /// The machine with each of the values.
    pub(super) fn machines(
        &self,
        machine: &MachineConfig,
    ) -> Outcome<Vec<(String, MachineConfig)>> {
        let with = |value: &String| {
            let changed = machine.with(&self.figure, value);
            let changed = changed.map_err(|error| Failure::new(error.to_string()))?;
            Ok((value.clone(), changed))
        };
        self.values.iter().map(with).collect()
    }
}

/// The result with one of the values.
pub(super) struct Point {
    pub(super) value: String,
    pub(super) machine: MachineConfig,
    pub(super) runs: Vec<(EngineKind, Run)>,
}

/// Prints the throughput of each engine beside the baseline's, for each value, and its range.
pub(super) fn report(arguments: &Arguments, sweep: &Sweep, points: &[Point]) -> Outcome {
    let values = &arguments.values()?;
    if arguments.json || arguments.csv {
        let points: Vec<_> = points
            .iter()
            .map(|point| {
                let report = show::as_json(arguments, values, &point.machine, &point.runs);
                json!({ "value": point.value, "report": report })
            })
            .collect();
        let report = json!({ "sweep": sweep.figure, "points": points });
        return match arguments.csv {
            true => csv::print(&report, &["points", "report", "engines"]),
            false => output::print_json(&report),
        };
    }
    let Some(first) = points.first() else { return Ok(()) };
    output::print(show::heading(arguments, values, &first.machine))?;
    let relative = |engine: usize| {
        points.iter().map(move |point| show::relative(&point.runs[engine].1, &point.runs[0].1))
    };
    let rows = first.runs.iter().enumerate().map(|(index, (engine, _))| {
        let least = relative(index).fold(f64::INFINITY, f64::min);
        let most = relative(index).fold(0.0, f64::max);
        let range = format!("{least:.3} to {most:.3}");
        let each = relative(index).map(|relative| format!("{relative:.3}"));
        [engine.to_string()].into_iter().chain(each).chain([range]).collect()
    });
    let values = points.iter().map(|point| point.value.clone());
    let header = ["relative to the first".to_owned()].into_iter().chain(values);
    let header = header.chain(["range".to_owned()]).collect();
    output::print(format!("{} of:", sweep.figure))?;
    output::print(output::table_of(header, rows))
}
