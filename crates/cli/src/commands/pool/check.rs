//! `perdura pool check`.

use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use perdura::check::check;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The pool's file; it is not written to
    path: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { path, json } = arguments;
    let report = check(path, &|tx, root, visit| perdura_server::check_root(tx, root, visit))
        .map_err(|error| Failure::at(path, error))?;
    if *json {
        print_json(&report)?;
    } else {
        report.notes.iter().try_for_each(|note| print(format!("note: {note}")))?;
        report.problems.iter().try_for_each(|problem| print(format!("wrong: {problem}")))?;
        print(format!(
            "{} blocks of {} bytes in all, {} named roots",
            report.blocks,
            report.block_bytes,
            report.roots.len()
        ))?;
    }
    match report.problems.len() {
        0 => Ok(()),
        count => Err(Failure::at(
            path,
            format!(
                "the pool is damaged ({count} problems): go back to a copy, or save what can be read"
            ),
        )),
    }
}
