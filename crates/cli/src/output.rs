//! Commands' output.

use crate::failure::{Failure, Outcome};
use serde::Serialize;
use std::io::Write;

/// Prints `text` and a line break to the standard output.
///
/// # Errors
/// When nothing can be written there.
pub fn print(text: impl std::fmt::Display) -> Outcome {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Prints `value` as JSON.
///
/// # Errors
/// As [`print()`].
pub fn print_json(value: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value);
    print(text.map_err(|error| Failure::new(error.to_string()))?)
}
