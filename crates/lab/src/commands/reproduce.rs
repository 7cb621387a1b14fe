//! `perdura-lab reproduce`: a table or figure of a paper, run again and compared with the paper's.

use crate::bench::options::{Folder, require};
use crate::bench::stage::Stage;
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::quantity;
use crate::reproduce::plan::{Changes, Plan};
use crate::reproduce::{self, catalogue, show};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The experiment: a name (`--list` shows them), or a TOML file
    #[arg(value_name = "NAME", required_unless_present_any = ["list", "draw"])]
    name: Option<String>,

    /// Lists the experiments
    #[arg(long)]
    list: bool,

    /// Draws the picture of a report, NAME.json, anew, without running anything
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    draw: Option<PathBuf>,

    /// Small and short: shows that it works; the figures mean nothing
    #[arg(long)]
    quick: bool,

    /// Only the runs on this machine, with its own write-backs
    #[arg(long)]
    native: bool,

    /// Only the runs on the simulated machine
    #[arg(long)]
    simulated: bool,

    /// Other engines than the experiment's; its base engine always runs too
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    engine: Vec<String>,

    /// Other workloads than the experiment's
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    workload: Vec<String>,

    /// Only these of the experiment's settings
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    setting: Vec<String>,

    /// Measured operations of each run; workloads with a number of their own do no more than that
    #[arg(long = "operations", alias = "ops", value_name = "NUMBER", value_parser = quantity::count)]
    ops: Option<u64>,

    /// Records loaded, of YCSB; objects, where no engine runs
    #[arg(long, value_name = "NUMBER", value_parser = quantity::count)]
    records: Option<u64>,

    /// Warehouses, of TPC-C
    #[arg(long, value_name = "NUMBER")]
    warehouses: Option<u32>,

    /// In full size: experiments whose simulated runs are smaller than the paper's, in all figures alike, have them in the
    /// paper's size
    #[arg(long, conflicts_with = "divided_by")]
    full: bool,

    /// Another factor by which such simulated runs are smaller
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1024))]
    divided_by: Option<u64>,

    /// Repetitions; engines take turns, and figures are medians
    #[arg(long, value_name = "TIMES", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,

    /// Threads, or cores of the simulated machine
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    threads: Vec<u32>,

    /// The root of everything random [default: the experiment's]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Folder for the report as JSON and for the plot
    #[arg(long, value_name = "PATH", default_value = "reproduced")]
    out: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    folder: Folder,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    if arguments.list {
        return show::list(&catalogue::all()?);
    }
    if let Some(report) = &arguments.draw {
        let picture = reproduce::draw(report, &arguments.out)?;
        return print(format!("written: {}", picture.display()));
    }
    let name = arguments.name.as_deref().unwrap_or_default();
    let experiment = catalogue::load(name)?;
    let plan = Plan::of(&experiment, &arguments.changes())?;
    // Checked before the runs take minutes.
    std::fs::create_dir_all(&arguments.out).map_err(|error| Failure::at(&arguments.out, error))?;
    require(arguments.out.is_dir(), "--out must be a folder")?;
    let report = reproduce::run(experiment, plan, &Stage::within(&arguments.folder)?)?;
    let [json, picture] = reproduce::write(&report, &arguments.out)?;
    if arguments.json {
        return print_json(&report);
    }
    print(show::text(&report))?;
    print(format!("\nwritten: {}, {}", json.display(), picture.display()))
}

impl Arguments {
    fn changes(&self) -> Changes {
        Changes {
            quick: self.quick,
            native: self.native,
            simulated: self.simulated,
            operations: self.ops,
            records: self.records,
            warehouses: self.warehouses,
            repetitions: self.repeat,
            divided_by: if self.full { Some(1) } else { self.divided_by },
            seed: self.seed,
            threads: self.threads.clone(),
            engines: self.engine.clone(),
            workloads: self.workload.clone(),
            settings: self.setting.clone(),
        }
    }
}
