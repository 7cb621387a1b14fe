//! `perdura-lab crash-disk`: checks images that a power cut may leave of a pool on a block device, made from the writes
//! and syncs of a real server.

mod show;

use crate::bench::watch;
use crate::engines::nothing_to_test;
use crate::failure::{Failure, Outcome};
use crate::{interrupt, quantity};
use perdura::EngineKind;
use perdura_disktest::image::ImageSeed;
use perdura_disktest::{Recorded, Report, Setting, Trouble, Watch, explore, record, replay};
use perdura_memory::{Backing, MapOptions, Mapped, PAGE};
use perdura_workloads::Progress;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tempfile::TempDir;

/// Images of one run: with more, few would be new.
const IMAGES_OF_A_RUN: u64 = 1000;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where the pools are, in a folder of their own each: on the file system and the device to be tested
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    dir: PathBuf,

    #[arg(long, help = crate::engines::help(), value_name = "NAMES", default_value = "all", value_delimiter = ',')]
    engine: Vec<String>,

    /// Images to check of each engine; a run of the server gives a thousand
    #[arg(long, value_name = "NUMBER", default_value = "1k", value_parser = quantity::count)]
    images: u64,

    /// Lives of the server in each run: it is killed at the end of each but the last
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    lives: u16,

    /// The first run's seed: images follow from it and from the run's trace
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Threads that check images; default: one for each processor
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Run although the folder is in memory, where no power cut leaves anything
    #[arg(long)]
    accept_memory: bool,

    /// Check one image again, of a run that was kept in this folder
    #[arg(long, value_name = "FOLDER", requires = "cut", requires = "image")]
    replay: Option<PathBuf>,

    /// After how many records of the trace the power is cut, for `--replay`
    #[arg(long, value_name = "NUMBER", requires = "replay")]
    cut: Option<usize>,

    /// Which image of that cut, for `--replay`
    #[arg(long, value_name = "NUMBER", requires = "replay")]
    image: Option<u64>,

    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// The result of one engine.
#[derive(Debug)]
struct EngineReport {
    engine: EngineKind,
    report: Report,
    runs: u64,
    records: u64,
    acknowledged: u64,
    /// Losses of killed servers, without a power cut.
    lost: Vec<String>,
    /// The first run with a failure.
    kept: Option<PathBuf>,
}

fn failure(trouble: Trouble) -> Failure {
    Failure::new(trouble.to_string())
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    if let (Some(folder), Some(cut), Some(image)) =
        (&arguments.replay, arguments.cut, arguments.image)
    {
        return again(arguments, folder, cut, ImageSeed(image));
    }
    let engines = engines(&arguments.engine)?;
    refuse_memory(arguments)?;
    let progress = interrupt::progress()?;
    let start = Instant::now();
    let images = images_folder()?;
    let mut reports = Vec::new();
    for engine in engines {
        if progress.is_stopped() {
            break;
        }
        progress.restart();
        let report = watch::with_bar(engine.name(), arguments.images, &progress, || {
            test(arguments, engine, images.path(), &progress)
        })?;
        reports.push(report);
    }
    show::reports(arguments, &reports, start.elapsed().as_secs_f64())?;
    let bad = |report: &EngineReport| report.report.bad + report.lost.len() as u64;
    match reports.iter().map(bad).sum() {
        0 => interrupt::check(&progress),
        bad => Err(Failure::new(format!(
            "{} of a power cut lost or damaged something; the commands above show it again",
            quantity::plural(bad, "image")
        ))),
    }
}

/// Checks one image of a run that was kept.
fn again(arguments: &Arguments, folder: &Path, cut: usize, image: ImageSeed) -> Outcome {
    let recorded = Recorded::read(folder).map_err(failure)?;
    let images = images_folder()?;
    let report = quietly(|| replay(&recorded, cut, image, images.path())).map_err(failure)?;
    show::replayed(arguments, folder, &report)?;
    match report.bad {
        0 => Ok(()),
        _ => Err(Failure::new("the image lost or damaged something")),
    }
}

/// All images of one engine.
fn test(
    arguments: &Arguments,
    engine: EngineKind,
    images: &Path,
    progress: &Progress,
) -> Outcome<EngineReport> {
    let (runs, records, acknowledged, report) = Default::default();
    let mut all =
        EngineReport { engine, report, runs, records, acknowledged, lost: Vec::new(), kept: None };
    let threads = arguments
        .threads
        .map(usize::from)
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let (stopped, checked) = (|| progress.is_stopped(), || progress.advance(1));
    let watch = Watch { stopped: &stopped, checked: &checked };
    while all.report.images < arguments.images && !progress.is_stopped() {
        let seed = arguments.seed + all.runs;
        let prefix = format!("crash-disk-{engine}-{seed}-");
        let folder = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(&arguments.dir)
            .map_err(|error| Failure::at(&arguments.dir, error))?;
        let setting = Setting {
            program: std::env::current_exe()?,
            engine: engine.name().to_owned(),
            lives: usize::from(arguments.lives),
            seed,
        };
        all.runs += 1;
        let failed = match record(&setting, folder.path(), &stopped).map_err(failure)? {
            Err(what) => {
                all.lost.push(what);
                true
            }
            Ok(recorded) => {
                let count = (arguments.images - all.report.images).min(IMAGES_OF_A_RUN);
                let report = quietly(|| explore(&recorded, count, threads, images, &watch))
                    .map_err(failure)?;
                let failed = report.bad > 0;
                all.records += recorded.trace.len() as u64;
                all.acknowledged += recorded.history.acknowledged();
                if all.kept.is_some() {
                    // Only the first failing run is kept.
                    all.report.add(Report { found: Vec::new(), ..report });
                } else {
                    all.report.add(report);
                }
                failed
            }
        };
        if failed && all.kept.is_none() {
            all.kept = Some(folder.keep());
        }
        if all.lost.len() > MOST_LOST {
            break;
        }
    }
    Ok(all)
}

/// After this many servers with losses, no more are tried.
const MOST_LOST: usize = 3;

fn engines(names: &[String]) -> Outcome<Vec<EngineKind>> {
    let mut engines = Vec::new();
    for name in names {
        if name == "all" {
            engines.extend(EngineKind::ALL.into_iter().filter(|kind| kind.is_crash_consistent()));
            continue;
        }
        let kind: EngineKind = name.parse().map_err(Failure::new)?;
        if !kind.is_crash_consistent() {
            return Err(Failure::new(nothing_to_test(name)));
        }
        engines.push(kind);
    }
    Ok(engines)
}

/// A run in memory says nothing about a device.
fn refuse_memory(arguments: &Arguments) -> Outcome {
    let dir = &arguments.dir;
    let probe = TempDir::new_in(dir).map_err(|error| Failure::at(dir, error))?;
    let mapped = Mapped::create(probe.path().join("probe"), PAGE, MapOptions::default())
        .map_err(|error| Failure::at(dir, error))?;
    if mapped.backing() == Backing::Memory && !arguments.accept_memory {
        return Err(Failure::at(
            dir,
            "it is in memory, where a power cut leaves nothing: this would prove nothing about a device. \
             Give a --dir on one, or --accept-memory to run all the same",
        ));
    }
    Ok(())
}

/// Where images are made: in memory if possible, since they are many.
fn images_folder() -> Outcome<TempDir> {
    Ok(TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?)
}

/// Panics of the code under test are findings, and printed as such.
fn quietly<R>(run: impl FnOnce() -> R) -> R {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = run();
    std::panic::set_hook(hook);
    result
}
