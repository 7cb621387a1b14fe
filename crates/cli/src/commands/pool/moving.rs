//! The common parts of copies, exports and imports: a bar, an end by Ctrl-C, and failures.

use crate::failure::{Failure, Outcome};
use crate::interrupt;
use indicatif::{ProgressBar, ProgressStyle};
use perdura::draft::DraftError;
use perdura_transfer::Error;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a path means the standard input or output.
pub(super) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// A progress bar, if the standard error is a terminal, of work that Ctrl-C ends.
pub(super) struct Bar {
    bar: ProgressBar,
    stopped: Arc<AtomicBool>,
}

impl Bar {
    /// Of about `total` bytes, if that is known.
    pub(super) fn new(label: &'static str, total: Option<u64>) -> Outcome<Self> {
        let stopped = interrupt::flag()?;
        let (bar, template) = match total {
            Some(total) => (
                ProgressBar::new(total),
                "{msg:10} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            ),
            None => (ProgressBar::no_length(), "{msg:10} {bytes} {bytes_per_sec}"),
        };
        let bar = match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style.progress_chars("=> ")),
            Err(_) => bar,
        };
        Ok(Bar { bar: bar.with_message(label), stopped })
    }

    /// The flag that Ctrl-C sets.
    pub(super) fn stopped(&self) -> Arc<AtomicBool> {
        self.stopped.clone()
    }

    /// Shows that `bytes` are done. Whether to go on.
    pub(super) fn go_on(&self, bytes: u64) -> bool {
        self.bar.set_position(bytes);
        !self.stopped.load(Ordering::Relaxed)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A failure of moving data from or to `path`, where `file` is the other file.
pub(super) fn failure(path: &Path, file: &Path, error: Error) -> Failure {
    match error {
        Error::Stopped => Failure::Interrupted,
        Error::File(error) if error.kind() == ErrorKind::BrokenPipe => Failure::BrokenPipe,
        Error::File(error) => Failure::io(file, &error),
        Error::Draft(DraftError::Exists(_)) => Failure::new(format!("{error} (`--force`)")),
        // These name their files themselves.
        Error::Open { .. } | Error::Undefined { .. } | Error::Draft(_) => {
            Failure::new(error.to_string())
        }
        other => Failure::at(path, other),
    }
}
