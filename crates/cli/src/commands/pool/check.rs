//! `perdura pool check`.

use crate::check::{self, Findings};
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The pool's file; it is not written to
    path: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Checked<'a> {
    path: String,
    faults: usize,
    findings: &'a Findings,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { path, json } = arguments;
    let findings = check::check(path).map_err(|error| Failure::at(path, error))?;
    let faults = findings.faults();
    if *json {
        let path = path.display().to_string();
        print_json(&Checked { path, faults, findings: &findings })?;
    } else {
        for finding in findings.iter() {
            print(format!("{:<7} {}: {}", finding.level, finding.part, finding.what))?;
        }
    }
    match faults {
        0 => Ok(()),
        count => Err(Failure::at(
            path,
            format!(
                "the pool is damaged ({count} faults): go back to a copy, or save what can be read"
            ),
        )),
    }
}
