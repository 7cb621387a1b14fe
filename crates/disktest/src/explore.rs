//! Crash points of a recorded run: images of them are drawn, opened and checked, on several threads.

use crate::device::DeviceState;
use crate::image::{ImageChoice, ImageFile, ImageSeed};
use crate::lives::Recorded;
use crate::verify::{use_and_verify, verify};
use crate::{Outcome, Trouble};
use perdura_memory::random::SplitMix64;
use std::fmt;
use std::path::Path;
use std::sync::Mutex;

/// One image in this many is opened as a program does it, used and closed.
const USED: u64 = 16;
/// The most failures that are kept with all details.
const KEPT: usize = 5;

/// Progress reports and a request to stop, from any thread.
pub struct Watch<'a> {
    /// Whether to stop early.
    pub stopped: &'a (dyn Fn() -> bool + Sync),
    /// Called after each checked image.
    pub checked: &'a (dyn Fn() + Sync),
}

/// An image that fails.
#[derive(Clone, Debug)]
pub struct FailedImage {
    /// The engine.
    pub engine: String,
    /// The seed of the run.
    pub seed: u64,
    /// After how many records the power was cut.
    pub cut: usize,
    /// Records of the run.
    pub records: usize,
    /// The life during which it was cut.
    pub life: usize,
    /// Whether the server was not ready yet.
    pub recovering: bool,
    /// Which image of that crash point.
    pub image: ImageSeed,
    /// A description of the image.
    pub choice: String,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for FailedImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let doing = if self.recovering { "while it recovered" } else { "while it served" };
        writeln!(f, "{}: {}", self.engine, self.what)?;
        writeln!(
            f,
            "  run with seed {}; the power was cut after record {} of {}, in life {} of the server, {doing}",
            self.seed, self.cut, self.records, self.life
        )?;
        write!(f, "  the image {}: {}", self.image.0, self.choice)
    }
}

/// The result of an exploration.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Images checked.
    pub images: u64,
    /// Of these, images of crash points during recovery.
    pub recovering: u64,
    /// Of these, images that fail.
    pub bad: u64,
    /// The first of them.
    pub found: Vec<FailedImage>,
}

impl Report {
    /// Adds another report.
    pub fn add(&mut self, other: Report) {
        self.images += other.images;
        self.recovering += other.recovering;
        self.bad += other.bad;
        self.found.extend(other.found);
        self.found.truncate(KEPT);
    }
}

/// One image to be checked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    unit: usize,
    cut: usize,
    image: ImageSeed,
}

/// Checks `images` images of `run`, whose files are made in `folder`, on `threads` threads.
///
/// # Errors
/// When images cannot be made. An image that fails is in the report.
pub fn explore(
    run: &Recorded,
    images: u64,
    threads: usize,
    folder: &Path,
    watch: &Watch<'_>,
) -> Outcome<Report> {
    let mut points = points(run, images);
    points.sort();
    let total: Mutex<Report> = Mutex::default();
    let trouble: Mutex<Option<Trouble>> = Mutex::default();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let mine: Vec<Point> = points.iter().copied().skip(thread).step_by(threads).collect();
            let (total, trouble) = (&total, &trouble);
            scope.spawn(move || match check(run, &mine, thread, folder, watch) {
                Ok(report) => lock(total).add(report),
                Err(error) => *lock(trouble) = Some(error),
            });
        }
    });
    let lock_free = |mutex: Mutex<Option<Trouble>>| {
        mutex.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    };
    match lock_free(trouble) {
        Some(error) => Err(error),
        None => Ok(total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)),
    }
}

/// Checks one image again: that of `seed`, after `cut` records.
///
/// # Errors
/// When there is no such crash point, or the image cannot be made.
pub fn replay(run: &Recorded, cut: usize, image: ImageSeed, folder: &Path) -> Outcome<Report> {
    if !(1..=run.trace.len()).contains(&cut) {
        return Err(Trouble::new(format!(
            "the trace has {} records: --cut is one of 1 to that",
            run.trace.len()
        )));
    }
    let point = Point { unit: image.unit(), cut, image };
    check(run, &[point], 0, folder, &Watch { stopped: &|| false, checked: &|| () })
}

/// Half of the crash points during recoveries, if there are any, the others anywhere.
fn points(run: &Recorded, images: u64) -> Vec<Point> {
    let mut random = SplitMix64::new(run.history.seed ^ 0x6375_7473);
    let records = run.trace.len();
    let recovering: Vec<usize> = (1..=records)
        .filter(|&cut| {
            let (life, recovering) = run.history.life_at(run.trace.position(cut));
            recovering && life > 0
        })
        .collect();
    let draw = |_| {
        let anywhere = recovering.is_empty() || random.below(2) == 0;
        let cut = match anywhere {
            true => 1 + random.below(records as u64) as usize,
            false => recovering[random.below(recovering.len() as u64) as usize],
        };
        let image = ImageSeed(random.next() >> 16);
        Point { unit: image.unit(), cut, image }
    };
    (0..images).map(draw).collect()
}

/// Checks the images at `points`, which are in order.
fn check(
    run: &Recorded,
    points: &[Point],
    thread: usize,
    folder: &Path,
    watch: &Watch<'_>,
) -> Outcome<Report> {
    let mut report = Report::default();
    let mut file = ImageFile::new(folder.join(format!("image{thread}")))?;
    let mut state = DeviceState::new(0);
    for point in points {
        if (watch.stopped)() {
            break;
        }
        if state.unit() != point.unit {
            state = DeviceState::new(point.unit);
        }
        state.advance(&run.trace, point.cut);
        let choice = ImageChoice::draw(&state, point.image);
        file.set(choice.bytes(&state, &run.trace))?;
        let position = run.trace.position(point.cut);
        let mut checked = verify(file.path(), &run.history, position);
        if checked.is_ok() && point.image.0 % USED == 0 {
            let copy = folder.join(format!("used{thread}"));
            std::fs::copy(file.path(), &copy).map_err(Trouble::at(&copy))?;
            checked = use_and_verify(&copy, &run.history, position);
        }
        let (life, recovering) = run.history.life_at(position);
        report.images += 1;
        report.recovering += u64::from(recovering && life > 0);
        if let Err(what) = checked {
            report.bad += 1;
            if report.found.len() < KEPT {
                report.found.push(FailedImage {
                    engine: run.history.engine.clone(),
                    seed: run.history.seed,
                    cut: point.cut,
                    records: run.trace.len(),
                    life,
                    recovering,
                    image: point.image,
                    choice: choice.to_string(),
                    what,
                });
            }
        }
        (watch.checked)();
    }
    Ok(report)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
