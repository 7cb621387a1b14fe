//! `perdura pool import`.

use super::copy::entry_or_entries;
use super::moving::{Bar, failure, is_standard};
use crate::domain::DomainChoice;
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::quantity::{self, plural};
use perdura::EngineKind;
use perdura_transfer::{Form, Imported, Interruptible, Target, import};
use std::fs::{File, Metadata};
use std::io::BufReader;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// An export, or an append-only file of Redis without a snapshot; - is the standard input
    file: PathBuf,

    /// The new pool's file
    new: PathBuf,

    /// Bytes that the new pool may grow to
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = quantity::bytes)]
    size: u64,

    #[arg(long, help = format!("Engine: one of {}", EngineKind::NAMES), value_name = "ENGINE", default_value_t = EngineKind::Redo)]
    engine: EngineKind,

    /// Bytes of the new pool's log: a transaction must fit into it [default: an eighth of the size, at most 64M]
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    log: Option<u64>,

    /// Persistence domain of the new pool: auto, transient, persistent, media or process
    #[arg(long, value_name = "DOMAIN", default_value = "auto")]
    domain: DomainChoice,

    /// Replace the new pool's file if it is there
    #[arg(long)]
    force: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { file, new: pool, size, engine, log, domain, force, json } = arguments;
    let target = Target::new(pool).size(Some(*size)).engine(Some(*engine)).force(*force);
    let target = target.log(*log).domain(domain.0);
    let (from, total) = open(file)?;
    // The standard input may be a file as well.
    let mode =
        from.metadata().ok().filter(Metadata::is_file).map(|found| found.permissions().mode());
    let target = target.mode(mode);
    let name = if is_standard(file) { Path::new("standard input") } else { file };
    let bar = Bar::new("importing", total)?;
    // A pipe may have nothing to read for long: Ctrl-C is noticed meanwhile.
    let stopped = bar.stopped();
    let mut from = BufReader::new(Interruptible::new(from, || !stopped.load(Ordering::Relaxed)));
    let imported = import(&mut from, &target, &mut |bytes| bar.go_on(bytes));
    let imported = imported.map_err(|error| match stopped.load(Ordering::Relaxed) {
        true => Failure::Interrupted,
        false => failure(name, name, error),
    })?;
    drop(bar);
    if *json { print_json(&imported) } else { print(text(pool, &imported)) }
}

/// The input, and its length in bytes, if it is known.
fn open(file: &Path) -> Outcome<(File, Option<u64>)> {
    if is_standard(file) {
        // Without the buffer of the standard input.
        return Ok((File::from(std::io::stdin().as_fd().try_clone_to_owned()?), None));
    }
    let opened = File::open(file).and_then(|opened| Ok((opened.metadata()?, opened)));
    let (found, opened) = opened.map_err(|error| Failure::io(file, &error))?;
    if found.is_dir() {
        return Err(Failure::at(file, "it is a directory; give the file of an export"));
    }
    let total = found.is_file().then_some(found.len());
    Ok((opened, total))
}

fn text(pool: &Path, imported: &Imported) -> String {
    let what = match imported.format {
        Form::Resp => {
            let keys = plural(imported.keys, "key");
            format!("{keys} by {}", plural(imported.commands, "command"))
        }
        Form::Json => format!(
            "{} with {}",
            plural(imported.roots, "collection"),
            entry_or_entries(imported.entries)
        ),
    };
    let gone = match imported.gone {
        0 => String::new(),
        gone => format!("; {} had expired, or were deleted", plural(gone, "other key")),
    };
    let cut = match imported.has_end {
        true => "",
        false => {
            "; the stream has no end mark, as an export of perdura has: check the count if it may be cut off"
        }
    };
    format!("{}: imported {what}{gone}{cut}", pool.display())
}
