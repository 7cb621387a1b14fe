//! A progress bar, if the standard error is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use perdura_workloads::Progress;
use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Often enough to look alive, seldom enough not to affect the figures.
const REFRESH: Duration = Duration::from_millis(200);

/// Runs `work`, showing `progress` out of `total`.
pub(crate) fn with_bar<R>(
    label: &str,
    total: u64,
    progress: &Progress,
    work: impl FnOnce() -> R,
) -> R {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    let (mut work, mut result) = (Some(work), None);
    watched(bar(label, total), progress, &mut || result = work.take().map(|work| work()));
    result.expect("the work was done")
}

/// Compiled once: the code for threads is larger than most of the work watched.
fn watched(bar: ProgressBar, progress: &Progress, work: &mut dyn FnMut()) {
    let (end, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(REFRESH) {
                bar.set_position(progress.done());
            }
            bar.finish_and_clear();
        });
        // Dropped also when the work panics.
        let _end = end;
        work();
    });
}

/// A bar for steps without progress of their own; the caller moves it. Not drawn without a terminal.
pub(crate) fn steps(label: &str, total: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:20} [{bar:30}] {pos}/{len} runs {elapsed}");
    let bar = ProgressBar::new(total as u64).with_message(label.to_owned());
    match style {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}

fn bar(label: &str, total: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{msg:20} [{bar:30}] {human_pos}/{human_len} {per_sec} {eta}");
    let bar = ProgressBar::new(total).with_message(label.to_owned());
    match style {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}
