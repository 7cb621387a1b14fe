//! Ctrl-C: the first ends the current work, with everything closed; the second ends the process.

use crate::failure::Outcome;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The exit status of a program that SIGINT ended, in shells' convention.
const STATUS: i32 = 130;

/// A flag that Ctrl-C (or SIGTERM) sets.
///
/// # Errors
/// When the system refuses the handler.
pub fn flag() -> Outcome<Arc<AtomicBool>> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag unset, and sets it.
        flag::register_conditional_shutdown(signal, STATUS, stopped.clone())?;
        flag::register(signal, stopped.clone())?;
    }
    Ok(stopped)
}
