//! Explores cases on several threads until enough images are checked or one has failed.

use super::Arguments;
use super::choice::Cases;
use super::show::{self, Explored};
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use indicatif::{ProgressBar, ProgressStyle};
use perdura_crashtest::{Case, Points, Report, Watcher, replay};
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
    let once = arguments.images == 0 || arguments.points.0.is_replay();
    let (watcher, next, start) = (Watcher::default(), AtomicU64::new(0), Instant::now());
    let last = AtomicU64::new(0);
    let reports = Mutex::new(vec![Report::default(); cases.runners.len()]);
    let failure = Mutex::new(None);
    let work = || loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        // Each combination once, whatever the number of images.
        let all = if once { cases.cases.len() } else { cases.round };
        let all_once = index >= all as u64;
        let enough = once || watcher.images.load(Ordering::Relaxed) >= arguments.images;
        if all_once && enough || watcher.is_stopped() {
            return;
        }
        let (runner, case) = cases.number(index);
        let case = Case { omit, ..case };
        last.fetch_max(case.seed, Ordering::Relaxed);
        match cases.runners[runner].explore(&case, arguments.budget(), &watcher) {
            Ok(report) => lock(&reports)[runner].add(&report),
            Err(found) => {
                watcher.stop.store(true, Ordering::Relaxed);
                lock(&failure).get_or_insert((runner, found));
            }
        }
    };
    with_bar(if once { 0 } else { arguments.images }, &watcher, progress, || {
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
fn with_bar(total: u64, watcher: &Watcher, progress: &Progress, work: impl FnOnce()) {
    let bar = if std::io::stderr().is_terminal() { bar(total) } else { ProgressBar::hidden() };
    let show = || {
        let cuts = crate::quantity::show_count(watcher.points.load(Ordering::Relaxed));
        bar.set_message(format!("{cuts} cuts, no failure"));
        bar.set_position(watcher.images.load(Ordering::Relaxed));
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

fn bar(total: u64) -> ProgressBar {
    let style = if total == 0 {
        "{human_pos} images, {msg}, {elapsed}"
    } else {
        "[{bar:30}] {human_pos}/{human_len} images, {msg}, {per_sec}, {eta}"
    };
    let bar = ProgressBar::new(total);
    match ProgressStyle::with_template(style) {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}
