//! `perdura-lab bench`: a workload, measured; other benchmarks have a file each.

mod cache;
mod idle_reader;
mod limit;
mod readme;
mod space;
#[cfg(feature = "sqlite")]
mod sqlite;
mod versus;

use crate::bench::options::Setting;
use crate::bench::series::{self, Case};
use crate::failure::{Failure, Outcome};
use crate::quantity::{self, show_count};
use crate::workload::{Choice, values_as_json};
use clap::Subcommand;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,

    /// A workload without the option's name
    #[arg(value_name = "NAME", hide = true)]
    bare: Option<String>,

    #[command(flatten)]
    workload: Choice,

    /// Operations measured [default: the workload's own number, as many as take a second or so; programs that end do as
    /// many as their input takes]
    #[arg(long, alias = "ops", value_name = "NUMBER", value_parser = quantity::count)]
    operations: Option<u64>,

    #[command(flatten)]
    setting: Setting,
}

/// Benchmarks that are no workloads.
#[derive(Debug, Subcommand)]
enum Other {
    /// What durability costs here: one flushed line and a fence, and the smallest transactions
    Limit(limit::Arguments),
    /// Against libpmemobj, embedded stores and Redis, on the same work in the same run
    Versus(versus::Arguments),
    /// Writers and other readers beside a transaction that reads one value and is idle
    IdleReader(idle_reader::Arguments),
    /// README's figures, into a file of results and from there into README's tables
    Readme(readme::Arguments),
    /// Programs of SQLite, on databases in pools and in its own files
    #[cfg(feature = "sqlite")]
    Sqlite(Box<sqlite::Arguments>),
    /// The server as a cache with too little room, beside Redis
    Cache(cache::Arguments),
    /// Memory and disk that a key takes, compared with Redis
    Space(space::Arguments),
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    match &arguments.other {
        Some(Other::Limit(arguments)) => limit::run(arguments),
        Some(Other::Versus(arguments)) => versus::run(arguments),
        Some(Other::IdleReader(arguments)) => idle_reader::run(arguments),
        Some(Other::Readme(arguments)) => readme::run(arguments),
        #[cfg(feature = "sqlite")]
        Some(Other::Sqlite(arguments)) => sqlite::run(arguments),
        Some(Other::Cache(arguments)) => cache::run(arguments),
        Some(Other::Space(arguments)) => space::run(arguments),
        None => match &arguments.bare {
            None => workload(arguments),
            Some(name) => Err(Failure::usage(format!(
                "there is no benchmark '{name}': a workload is an option, as in `bench --workload {name}`, and `bench \
                 --help` has all others"
            ))),
        },
    }
}

fn workload(arguments: &Arguments) -> Outcome {
    let Arguments { workload, operations, .. } = arguments;
    let mut setting = arguments.setting.clone();
    // The loaded data follows from the printed seed, too.
    let seed = setting.common.seed();
    setting.common.seed = Some(seed);
    let threads = setting.threads.threads as usize;
    let values = workload.values(threads)?;
    let operations = operations.unwrap_or_else(|| (workload.row.operations)(&values));
    let mut parameters = values_as_json(&values);
    parameters["workload"] = workload.row.name.into();
    parameters["operations"] = operations.into();
    let case = Case {
        title: format!(
            "{}, {}; {values}: {} operations",
            workload.row.name,
            workload.row.line,
            show_count(operations)
        ),
        parameters,
        operations,
        make: &|operations| workload.make(threads, seed, operations),
    };
    series::run_and_show(&case, &setting)
}
