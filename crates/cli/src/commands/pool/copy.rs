//! `perdura pool copy`.

use super::moving::{Bar, failure};
use crate::domain::DomainChoice;
use crate::failure::Outcome;
use crate::output::{print, print_json};
use crate::quantity::{self, plural, show_bytes};
use perdura::EngineKind;
use perdura_transfer::{Copied, Target, contents, copy, copy_pages};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The pool's file; it is not written to, and must not be in use
    pool: PathBuf,

    /// The new pool's file
    new: PathBuf,

    /// Bytes that the new pool may grow to [default: as many as the old one]
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    size: Option<u64>,

    #[arg(long, help = format!("Engine of the new pool: one of {} [default: the old one's]", EngineKind::NAMES), value_name = "ENGINE")]
    engine: Option<EngineKind>,

    /// Bytes of the new pool's log: a transaction must fit into it [default: an eighth of the size, at most 64M]
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes, conflicts_with = "keep_offsets")]
    log: Option<u64>,

    /// Persistence domain of the new pool: auto, transient, persistent, media or process
    #[arg(long, value_name = "DOMAIN", default_value = "auto")]
    domain: DomainChoice,

    /// Copy all pages as they are: for a pool with objects of a program's own. The new size is then at most four times
    /// the size that the pool was created with, and at least that of its file
    #[arg(long)]
    keep_offsets: bool,

    /// Replace the new pool's file if it is there
    #[arg(long)]
    force: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The output.
#[derive(Serialize)]
struct Report {
    source: String,
    destination: String,
    source_bytes: u64,
    destination_bytes: u64,
    #[serde(flatten)]
    copied: Copied,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { pool: from, new: destination, size, engine, log, domain, .. } = arguments;
    let Arguments { keep_offsets, force, json, .. } = arguments;
    let target = Target::new(destination).size(*size).engine(*engine).force(*force);
    let target = target.log(*log).domain(domain.0);
    let failed = |error| failure(from, destination, error);
    let source = contents::open(from).map_err(failed)?;
    let bar = Bar::new("copying", Some(source.used()))?;
    let copied = match keep_offsets {
        true => copy_pages(&source, &target, &mut |bytes| bar.go_on(bytes)),
        false => copy(&source, &target, &mut |bytes| bar.go_on(bytes)),
    };
    let copied = copied.map_err(failed)?;
    drop(bar);
    let bytes = |path: &PathBuf| std::fs::metadata(path).map_or(0, |found| found.len());
    let report = Report {
        source: from.display().to_string(),
        destination: destination.display().to_string(),
        source_bytes: bytes(from),
        destination_bytes: bytes(destination),
        copied,
    };
    if *json { print_json(&report) } else { print(text(&report)) }
}

fn text(report: &Report) -> String {
    let Copied { roots, entries, keys, offsets_kept, .. } = &report.copied;
    let what = match offsets_kept {
        true => format!("{} and all pages as they were", plural(*roots, "named root")),
        false => format!(
            "{}: {} of collections, {} of a server",
            plural(*roots, "named root"),
            entry_or_entries(*entries),
            plural(*keys, "key")
        ),
    };
    let (old, new) = (show_bytes(report.source_bytes), show_bytes(report.destination_bytes));
    format!("{} copied: {what}; the file had {old}, and has {new}", report.destination)
}

/// The plural is not made with an s.
pub(super) fn entry_or_entries(count: u64) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}
