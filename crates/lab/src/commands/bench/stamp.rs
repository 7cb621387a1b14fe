//! `perdura-lab bench vacation`, `kmeans` and so on: the applications of STAMP.

use crate::bench::options::Setting;
use crate::bench::series::{self, Case};
use crate::failure::Outcome;
use crate::quantity::{self, show_count};
use perdura_workloads::Workload;
use perdura_workloads::stamp::{App, Input, OnApp};
use serde_json::json;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How large the input is: small, plain (for simulators), plus or native
    #[arg(long, value_name = "SIZE", default_value_t = Input::Plain)]
    input: Input,

    /// Rows, points, vertices, flows, segments, wires or records, in place of those of the input
    #[arg(long, value_name = "NUMBER", value_parser = quantity::count)]
    entries: Option<u64>,

    #[command(flatten)]
    setting: Setting,
}

/// How often threads conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Contention {
    Low,
    High,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ContendedArguments {
    /// How often threads want the same
    #[arg(long, value_enum, default_value_t = Contention::Low)]
    contention: Contention,

    #[command(flatten)]
    rest: Arguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct VacationArguments {
    #[command(flatten)]
    contended: ContendedArguments,

    /// Tasks, a transaction each [default: as many as STAMP has with the input]
    #[arg(long, value_name = "NUMBER", value_parser = quantity::count)]
    ops: Option<u64>,
}

pub(super) fn vacation(arguments: &VacationArguments) -> Outcome {
    let VacationArguments { contended: ContendedArguments { contention, rest }, ops } = arguments;
    let app = match contention {
        Contention::Low => App::VacationLow,
        Contention::High => App::VacationHigh,
    };
    run(app, *ops, rest)
}

pub(super) fn kmeans(arguments: &ContendedArguments) -> Outcome {
    let app = match arguments.contention {
        Contention::Low => App::KMeansLow,
        Contention::High => App::KMeansHigh,
    };
    run(app, None, &arguments.rest)
}

pub(super) fn run(app: App, ops: Option<u64>, arguments: &Arguments) -> Outcome {
    let mut arguments = arguments.clone();
    // The input follows from the printed seed, too.
    let seed = arguments.setting.common.seed();
    arguments.setting.common.seed = Some(seed);
    let Arguments { input, entries, .. } = arguments;
    app.run(input, entries, seed, Bench { app, ops, arguments: &arguments })?
}

struct Bench<'a> {
    app: App,
    ops: Option<u64>,
    arguments: &'a Arguments,
}

impl OnApp for Bench<'_> {
    type Output = Outcome;

    fn run<W: Workload>(
        self,
        make: impl Fn() -> perdura_workloads::Outcome<W>,
        bytes: u64,
    ) -> Outcome {
        let Bench { app, ops, arguments: Arguments { input, entries, setting } } = self;
        let entries = entries.unwrap_or(app.entries(*input));
        let operations = ops.or(app.operations(*input)).unwrap_or(entries);
        let case = Case {
            title: format!(
                "{}, input {input}: {} {}",
                app.name(),
                show_count(entries),
                app.of_what()
            ),
            parameters: json!({
                "bench": app.name(), "input": input.name(), "entries": entries,
                "ops": ops.or(app.operations(*input)),
            }),
            operations,
            data_bytes: bytes,
            make: &|_| make(),
        };
        series::run_and_show(&case, setting)
    }
}
