//! `perdura-lab bench readme`: measures the figures of README's tables, and writes them there.

use crate::bench::options::require;
use crate::bench::readme::child::{self, Folders};
use crate::bench::readme::marks::{Checked, Readme};
use crate::bench::readme::prose;
use crate::bench::readme::results::{Results, TableResults};
use crate::bench::readme::spec::{Scale, Spec};
use crate::bench::readme::tables::{self, PROGRAM, TABLES};
use crate::bench::series;
use crate::bench::site::Site;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::machine::Machine;
use crate::output::{narrow, print};
use crate::quantity;
use perdura_memory::{Backing, PAGE};
use perdura_workloads::Progress;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only these tables; `--list` shows them
    #[arg(long, value_name = "TABLES", value_delimiter = ',')]
    only: Vec<String>,

    /// Root of everything random
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Everything small: shows that it works; the figures mean nothing
    #[arg(long)]
    quick: bool,

    /// Images of each crash test; of that of all engines eight times as many, on files twice
    #[arg(long, value_name = "NUMBER", default_value = "100k", value_parser = quantity::count)]
    images: u64,

    /// Seconds of each native stress
    #[arg(long, value_name = "NUMBER", default_value_t = 30)]
    stress_seconds: u64,

    /// Folder on a disk, for what is measured there
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    disk: PathBuf,

    /// The new file of results [default: results/DATE-readme.json]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Writes the tables to README, with the names of their file
    #[arg(long)]
    update: bool,

    /// README, whose tables are between marks
    #[arg(long, value_name = "FILE", default_value = "README.md")]
    readme: PathBuf,

    /// Measures nothing: `--update` takes the figures from this file
    #[arg(long, value_name = "FILE", requires = "update")]
    from: Option<PathBuf>,

    /// Measures nothing: writes the tables to README again, each from the file that it names
    #[arg(long, conflicts_with_all = ["update", "check", "list"])]
    render: bool,

    /// Measures nothing: fails if a figure of README is not that of its file
    #[arg(long, conflicts_with_all = ["update", "list"])]
    check: bool,

    /// Lists the tables
    #[arg(long)]
    list: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let specs = arguments.specs()?;
    let scale = arguments.scale();
    if arguments.list {
        return list(&specs, &scale);
    }
    if arguments.check {
        return check(&arguments.readme);
    }
    if arguments.render {
        return update(&arguments.readme, None);
    }
    if let Some(file) = &arguments.from {
        return update(&arguments.readme, Some((file, &Results::read(file)?)));
    }
    let out = arguments.out();
    // Told before the runs take minutes.
    if out.exists() {
        let why = "there is a file already, which is not replaced: name another with --out";
        return Err(Failure::at(&out, why));
    }
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if !folder.unwrap_or(Path::new(".")).is_dir() {
        return Err(Failure::at(
            &out,
            "there is no such folder: make it, or name another file with --out",
        ));
    }
    if arguments.update {
        Readme::read(&arguments.readme)?;
    }
    refuse_memory(arguments)?;
    let results = measure(arguments, &specs, &scale)?;
    results.write(&out)?;
    print(format!("written: {}", out.display()))?;
    match arguments.update {
        true => update(&arguments.readme, Some((&out, &results))),
        false => Ok(()),
    }
}

impl Arguments {
    fn specs(&self) -> Outcome<Vec<&'static Spec>> {
        if self.only.is_empty() {
            return Ok(TABLES.iter().collect());
        }
        for name in &self.only {
            tables::named(name)?;
        }
        Ok(TABLES.iter().filter(|spec| self.only.iter().any(|name| name == spec.name)).collect())
    }

    fn scale(&self) -> Scale {
        let Arguments { quick, seed, images, stress_seconds, .. } = *self;
        Scale { quick, seed, images, stress_seconds }
    }

    fn out(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(|| {
            let date = Machine::here().date;
            let day = date.split('T').next().unwrap_or_default();
            let quick = if self.quick { "-quick" } else { "" };
            PathBuf::from(format!("results/{day}-readme{quick}.json"))
        })
    }
}

fn list(specs: &[&Spec], scale: &Scale) -> Outcome {
    let rows = specs.iter().map(|spec| {
        let seconds = spec.seconds(scale);
        [spec.name.to_owned(), spec.shows.to_owned(), format!("{seconds} s")]
    });
    print(narrow(["table", "what it shows", "takes about"], rows))?;
    print(format!("together about {}", minutes(specs, scale)))
}

fn minutes(specs: &[&Spec], scale: &Scale) -> String {
    let seconds: u64 = specs.iter().map(|spec| spec.seconds(scale)).sum();
    match seconds {
        0..120 => format!("{seconds} s"),
        _ => format!("{} minutes", seconds.div_ceil(60)),
    }
}

/// A folder that is called a disk must be on one.
fn refuse_memory(arguments: &Arguments) -> Outcome {
    if arguments.quick {
        return Ok(());
    }
    let site = Site::within(Some(&arguments.disk))?;
    let memory =
        series::with_area(&site, None, PAGE, |memory| memory.backing() == Backing::Memory)?;
    require(!memory, "--disk names a folder in memory: give one on a disk")
}

fn measure(arguments: &Arguments, specs: &[&Spec], scale: &Scale) -> Outcome<Results> {
    let progress = interrupt::progress()?;
    let machine = Machine::here();
    let begun = Instant::now();
    eprintln!(
        "{}, about {}, seed {}; {machine}",
        quantity::plural(specs.len() as u64, "table"),
        minutes(specs, scale),
        scale.seed
    );
    let scratch = Site::within(None)?;
    let folders = Folders { disk: &arguments.disk, out: scratch.folder() };
    let mut tables = Vec::new();
    for spec in specs {
        tables.push(table(spec, scale, &folders, &progress)?);
    }
    let seconds = begun.elapsed().as_secs_f64().round();
    let Scale { seed, quick, .. } = *scale;
    Ok(Results { machine, seed, quick, seconds, tables })
}

fn table(
    spec: &Spec,
    scale: &Scale,
    folders: &Folders<'_>,
    progress: &Progress,
) -> Outcome<TableResults> {
    let mut runs = Vec::new();
    for step in (spec.steps)(scale) {
        eprintln!("{}: {PROGRAM} {} (about {} s)", spec.name, step.arguments, step.seconds);
        let run = child::run(&step, folders, progress)?;
        match &run.not_measured {
            Some(why) => eprintln!("{}: not measured, {why}", spec.name),
            None => eprintln!("{}: {} rows in {} s", spec.name, run.rows.len(), run.seconds),
        }
        runs.push(run);
    }
    let table = TableResults { table: spec.name.to_owned(), runs };
    // A table that cannot be made of them is an error now, not when README is written.
    (spec.render)(&table)?;
    Ok(table)
}

fn update(readme: &Path, new: Option<(&Path, &Results)>) -> Outcome {
    let changed = Readme::read(readme)?.update(new)?;
    match changed.len() {
        0 => print(format!("{}: no table has changed", readme.display())),
        _ => print(format!("{}: {}", readme.display(), changed.join(", "))),
    }
}

fn check(readme: &Path) -> Outcome {
    let text = Readme::read(readme)?;
    let Checked { files, unmeasured, copied } = text.check()?;
    prose::check(&text.prose())?;
    let files = files.into_iter().collect::<Vec<_>>().join(", ");
    let mut verdict = format!("{}: every figure is that of its file ({files})", readme.display());
    for (what, tables) in [("not measured yet", unmeasured), ("of older runs", copied)] {
        if !tables.is_empty() {
            verdict += &format!("; {what}: {}", tables.join(", "));
        }
    }
    print(verdict)
}
