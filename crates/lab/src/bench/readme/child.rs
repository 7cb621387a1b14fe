//! A command of this program, run as a child.

use super::results::Run;
use super::spec::Step;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use perdura_workloads::Progress;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// The needs of a child.
pub(crate) struct Folders<'a> {
    /// On a disk.
    pub(crate) disk: &'a Path,
    /// For its files, which nobody reads.
    pub(crate) out: &'a Path,
}

/// Runs one step.
///
/// # Errors
/// The child's own message, if it fails.
pub(crate) fn run(step: &Step, folders: &Folders<'_>, progress: &Progress) -> Outcome<Run> {
    let begun = Instant::now();
    let failed = |why: String| {
        Failure::new(format!("`{} {}`: {why}", super::tables::PROGRAM, step.arguments))
    };
    let output = Command::new(std::env::current_exe()?)
        .args(step.arguments.split_whitespace().map(|argument| match argument {
            "DISK" => folders.disk.as_os_str().to_owned(),
            "OUT" => folders.out.as_os_str().to_owned(),
            other => other.into(),
        }))
        .arg("--json")
        .stdin(Stdio::null())
        .output();
    // Ctrl-C ends the child too: after it, its failure is no error.
    interrupt::check(progress)?;
    let output = output?;
    let answer: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    let (rows, not_measured) = match missing(&output, answer.as_ref()) {
        Some(why) => (Vec::new(), Some(why)),
        None if !output.status.success() => return Err(failed(last_words(&output))),
        None => {
            let answer = answer.ok_or_else(|| failed("it printed no JSON".to_owned()))?;
            let rows = (step.rows)(&answer).filter(|rows| !rows.is_empty());
            let why = "its answer has not the expected figures, or reports a failure";
            (rows.ok_or_else(|| failed(why.to_owned()))?, None)
        }
    };
    Ok(Run {
        name: step.name.to_owned(),
        command: step.arguments.clone(),
        seconds: (begun.elapsed().as_secs_f64() * 10.0).round() / 10.0,
        not_measured,
        copied_from: None,
        rows,
    })
}

/// The program missing on this machine, if that is why the child has measured nothing.
fn missing(output: &Output, answer: Option<&Value>) -> Option<String> {
    let why = answer?.get("unavailable")?.get(0)?.as_str()?;
    (!output.status.success()).then(|| why.to_owned())
}

fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    match last {
        Some(line) => line.trim_start_matches("error: ").to_owned(),
        None => format!("it ended with {}", output.status),
    }
}
