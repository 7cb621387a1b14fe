//! Explores cases on several threads until enough images are checked or one has failed.

use super::Arguments;
use super::choice::Cases;
use super::show::{self, Explored};
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::quantity::show_count;
use indicatif::{ProgressBar, ProgressStyle};
use perdura_crashtest::{Budget, Case, Points, Report, Watcher, replay};
use perdura_machine::{Event, Kind};
use perdura_workloads::Progress;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const REFRESH: Duration = Duration::from_millis(200);

pub(super) fn run(arguments: &Arguments, cases: Cases, threads: usize) -> Outcome {
    let progress = interrupt::progress()?;
    let explored = quietly(|| explore(arguments, &cases, threads, &progress))?;
    if let Some((runner, failure)) = &explored.failure {
        let failure = if arguments.no_shrink {
            failure.clone()
        } else {
            quietly(|| show::shrunk(&*cases.runners[*runner], failure, &progress))
        };
        show::failure(arguments, &failure)?;
        return Err(Failure::new(match failure.mechanism {
            Some(_) => "the mechanism failed the crash test; the command above shows it again",
            None => "the engine failed the crash test; the command above shows it again",
        }));
    }
    if explored.ended_early {
        // With the counts so far, and the exit status of an interrupted program.
        show::report(arguments, &cases, &explored)?;
        return interrupt::check(&progress);
    }
    let sum = |count: fn(&Report) -> u64| explored.reports.iter().map(count).sum::<u64>();
    if sum(|report| report.points) == 0 {
        let events = sum(|report| report.events) / sum(|report| report.lives).max(1);
        return Err(Failure::new(format!(
            "the power was never cut: a run has about {events} events, choose --points among them"
        )));
    }
    show::report(arguments, &cases, &explored)
}

/// Panics of the code under test are findings, and printed as such.
pub(in crate::commands) fn quietly<R>(run: impl FnOnce() -> R) -> R {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = run();
    std::panic::set_hook(hook);
    result
}

fn explore(
    arguments: &Arguments,
    cases: &Cases,
    threads: usize,
    progress: &Progress,
) -> Outcome<Explored> {
    let omit = match &arguments.omit {
        Some(name) => Some(find_site(arguments, cases, name, progress)?),
        None => None,
    };
    let goal = Goal::of(arguments, cases);
    let watcher = Watcher { images_max: goal.images(), ..Watcher::default() };
    let (next, last, start) = (AtomicU64::new(0), AtomicU64::new(0), Instant::now());
    let cases_explored = AtomicU64::new(0);
    let reports = Mutex::new(vec![Report::default(); cases.runners.len()]);
    let failure = Mutex::new(None);
    let work = || loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= goal.cases() || watcher.is_stopped() {
            return;
        }
        let (runner, case) = cases.number(index);
        let case = Case { omit, ..case };
        last.fetch_max(case.seed, Ordering::Relaxed);
        let explore =
            |case: &Case, budget| match cases.runners[runner].explore(case, budget, &watcher) {
                Ok(report) => lock(&reports)[runner].add(&report),
                Err(found) => {
                    watcher.stop.store(true, Ordering::Relaxed);
                    lock(&failure).get_or_insert((runner, found));
                }
            };
        explore(&case, arguments.budget());
        for case in cases.brief(runner, &case, arguments.brief()) {
            if watcher.is_stopped() {
                return;
            }
            explore(&case, Budget { images: 1, again_every: 0, ..arguments.budget() });
        }
        if !watcher.is_stopped() {
            cases_explored.fetch_add(1, Ordering::Relaxed);
        }
    };
    with_bar(goal, &watcher, &cases_explored, progress, || {
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
    });
    Ok(Explored {
        reports: reports.into_inner().unwrap_or_else(PoisonError::into_inner),
        failure: failure.into_inner().unwrap_or_else(PoisonError::into_inner),
        seconds: start.elapsed().as_secs_f64(),
        last_seed: last.load(Ordering::Relaxed),
        cases: cases_explored.into_inner(),
        ended_early: progress.is_stopped(),
    })
}

/// Finds the call site with this name, in runs that leave nothing out.
fn find_site(
    arguments: &Arguments,
    cases: &Cases,
    name: &str,
    progress: &Progress,
) -> Outcome<Event> {
    if name.starts_with(&Kind::Store.to_string()) {
        return Err(Failure::new("a store is never left out: --omit takes what makes it durable"));
    }
    let mut known = Vec::new();
    for number in 0..cases.cases.len() as u64 {
        interrupt::check(progress)?;
        let (runner, case) = cases.number(number);
        let runner = &*cases.runners[runner];
        if let Some(event) = replay::site(runner, &case, name) {
            return Ok(event);
        }
        let case = Case { points: Points::Random(60), ..case.clone() };
        let explored = runner.explore(&case, arguments.budget(), &Watcher::default());
        known.extend(
            explored.into_iter().flat_map(|report| report.sites.all()).map(|(s, _)| s.to_string()),
        );
    }
    known.sort();
    known.dedup();
    known.retain(|site| !site.starts_with(&Kind::Store.to_string()));
    Err(Failure::new(format!("no call site '{name}' is met; these are: {}", known.join(", "))))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work`, showing progress on a terminal, and ending it early on Ctrl-C.
fn with_bar(
    goal: Goal,
    watcher: &Watcher,
    cases_explored: &AtomicU64,
    progress: &Progress,
    work: impl FnOnce(),
) {
    let bar = if std::io::stderr().is_terminal() { goal.bar() } else { ProgressBar::hidden() };
    let show = || {
        let count = |count: &AtomicU64| show_count(count.load(Ordering::Relaxed));
        let (images, cuts) = (count(&watcher.images), count(&watcher.points));
        bar.set_message(format!("{images} images, {cuts} cuts, no failure"));
        bar.set_position(goal.reached(watcher, cases_explored));
    };
    stopping(watcher, progress, show, work);
    bar.finish_and_clear();
}

/// Runs `work`, telling the watcher when the user asks to stop, and calling `now_and_then`.
pub(super) fn stopping<R>(
    watcher: &Watcher,
    progress: &Progress,
    now_and_then: impl Fn() + Send,
    work: impl FnOnce() -> R,
) -> R {
    let (end, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(REFRESH) {
                if progress.is_stopped() {
                    watcher.stop.store(true, Ordering::Relaxed);
                }
                now_and_then();
            }
        });
        let result = work();
        drop(end);
        result
    })
}

/// When an exploration ends.
#[derive(Clone, Copy)]
enum Goal {
    /// So many cases, whatever number of images they have.
    Cases(u64),
    /// So many images; the cases begin again with other seeds as often as needed.
    Images(u64),
}

impl Goal {
    fn of(arguments: &Arguments, cases: &Cases) -> Self {
        match arguments.images {
            _ if arguments.points.0.is_replay() => Goal::Cases(cases.cases.len() as u64),
            Some(0) => Goal::Cases(cases.cases.len() as u64),
            None => Goal::Cases(cases.round as u64),
            Some(images) => Goal::Images(images),
        }
    }

    /// Cases to begin at most.
    fn cases(self) -> u64 {
        match self {
            Goal::Cases(cases) => cases,
            Goal::Images(_) => u64::MAX,
        }
    }

    /// Images after which to stop; 0: none.
    fn images(self) -> u64 {
        match self {
            Goal::Cases(_) => 0,
            Goal::Images(images) => images,
        }
    }

    /// How much of it is done: never more than all of it, although threads end the crash points that they are at.
    fn reached(self, watcher: &Watcher, cases_explored: &AtomicU64) -> u64 {
        match self {
            Goal::Cases(cases) => cases_explored.load(Ordering::Relaxed).min(cases),
            Goal::Images(images) => watcher.images.load(Ordering::Relaxed).min(images),
        }
    }

    fn bar(self) -> ProgressBar {
        let (total, noun) = match self {
            Goal::Cases(cases) => (cases, "cases"),
            Goal::Images(images) => (images, "images"),
        };
        let style = format!("[{{bar:30}}] {{human_pos}}/{{human_len}} {noun}, {{msg}}, {{eta}}");
        let bar = ProgressBar::new(total);
        match ProgressStyle::with_template(&style) {
            Ok(style) => bar.with_style(style.progress_chars("=> ")),
            Err(_) => bar,
        }
    }
}
