//! Ctrl-C: the first ends the current work, with everything closed; the second ends the process.

use crate::failure::{Failure, Outcome};
pub(crate) use perdura_cli::interrupt::flag;
use perdura_workloads::Progress;

/// A progress that Ctrl-C (or SIGTERM) stops.
pub(crate) fn progress() -> Outcome<Progress> {
    Ok(Progress::stopped_by(flag()?))
}

/// Fails if it has been stopped.
pub(crate) fn check(progress: &Progress) -> Outcome {
    if progress.is_stopped() { Err(Failure::Interrupted) } else { Ok(()) }
}
