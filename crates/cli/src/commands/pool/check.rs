//! `perdura pool check`.

use super::info::state_in_words;
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::quantity::{plural, show_bytes};
use perdura::check::{Report, check};
use perdura::collections::Visit;
use perdura::{Result, Root, Tx};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The pool's file; it is not written to
    pool: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { pool: path, json } = arguments;
    let report = check_pool(path)?;
    if *json {
        print_json(&report)?
    } else {
        print(text(&report))?
    }
    let Some((first, others)) = report.problems.split_first() else { return Ok(()) };
    Err(Failure::at(
        path,
        match others.len() {
            0 => first.clone(),
            1 => format!("{first} (and another problem)"),
            count => format!("{first} (and {count} other problems)"),
        },
    ))
}

/// Checks a pool, with all that this program knows of.
pub(in crate::commands) fn check_pool(path: &Path) -> Outcome<Report> {
    check(path, &check_root).map_err(|error| Failure::at(path, error))
}

/// The roots that this program's other parts make.
fn check_root(tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
    #[cfg(feature = "lab")]
    if perdura_workloads::check_root(tx, root, visit)? {
        return Ok(true);
    }
    if perdura_sqlite::check_root(tx, root, visit)? {
        return Ok(true);
    }
    let served = tx.root("redis")? == Some(root);
    Ok(served && perdura_server::check(tx, visit)?.is_some())
}

fn text(report: &Report) -> String {
    let mut lines = Vec::new();
    if let Some(info) = &report.info {
        let state = state_in_words(info);
        lines.push(format!("pool {}, engine {}, {state}", info.id, info.engine));
    }
    if report.info.is_some() || report.blocks > 0 {
        lines.extend(contents(report));
    }
    lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(report.problems.iter().map(|problem| format!("PROBLEM: {problem}")));
    if report.is_whole() {
        lines.push("no problem found".to_owned());
    }
    lines.join("\n")
}

/// The contents of a pool.
fn contents(report: &Report) -> [String; 2] {
    let (blocks, bytes) = (plural(report.blocks, "block"), show_bytes(report.block_bytes));
    let reached = match report.unreachable {
        Some(0) if report.blocks > 0 => "; named roots lead to all of them",
        _ => "",
    };
    let roots: Vec<&str> = report.roots.iter().map(|(name, _)| name.as_str()).collect();
    let named = match roots.as_slice() {
        [] => "no named roots".to_owned(),
        _ => format!("{}: {}", plural(roots.len() as u64, "named root"), roots.join(", ")),
    };
    [format!("{blocks} allocated, {bytes} in all{reached}"), named]
}
