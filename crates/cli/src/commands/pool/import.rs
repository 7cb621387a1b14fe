//! `perdura pool import`.

use super::copy::entry_or_entries;
use super::moving::{Bar, failure, is_standard};
use crate::domain::DomainChoice;
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::quantity::{self, plural};
use perdura::EngineKind;
use perdura_server::transfer::SNAPSHOT;
use perdura_transfer::{Form, Imported, Interruptible, Target, import, import_redis};
use std::fs::{File, Metadata};
use std::io::{BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// An export, or Redis's snapshot (RDB), or its folder appendonlydir, or an append-only file that begins with a
    /// snapshot; Redis may be writing it. - is the standard input, for exports
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

    /// The file is an append-only file of Redis that begins with commands, and may have every command
    #[arg(long)]
    redis: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { file, new: pool, size, engine, log, domain, force, redis, json } = arguments;
    let target = Target::new(pool).size(Some(*size)).engine(Some(*engine)).force(*force);
    let target = target.log(*log).domain(domain.0);
    if *redis || is_redis(file)? {
        return run_redis(file, &target, pool, *json);
    }
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

/// Whether it is a folder, or begins as a snapshot of Redis does.
fn is_redis(file: &Path) -> Outcome<bool> {
    if is_standard(file) {
        return Ok(false);
    }
    let found = file.metadata().map_err(|error| Failure::io(file, &error))?;
    if !found.is_file() {
        return Ok(found.is_dir());
    }
    let mut begin = Vec::new();
    let opened = File::open(file).map_err(|error| Failure::io(file, &error))?;
    opened
        .take(SNAPSHOT.len() as u64)
        .read_to_end(&mut begin)
        .map_err(|error| Failure::io(file, &error))?;
    Ok(begin == SNAPSHOT)
}

fn run_redis(file: &Path, target: &Target, pool: &Path, json: bool) -> Outcome {
    let found = file.metadata().map_err(|error| Failure::io(file, &error))?;
    // A folder's files have the data, and the permissions of the folder are not theirs.
    let target = target.clone().mode(found.is_file().then(|| found.permissions().mode()));
    let bar = Bar::new("importing", found.is_file().then_some(found.len()))?;
    let stopped = bar.stopped();
    let imported = import_redis(file, &target, &mut |bytes| bar.go_on(bytes));
    let imported = imported.map_err(|error| match stopped.load(Ordering::Relaxed) {
        true => Failure::Interrupted,
        false => failure(file, file, error),
    })?;
    drop(bar);
    if json { print_json(&imported) } else { print(text(pool, &imported)) }
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
    let empty = match imported.empty {
        0 => String::new(),
        empty => format!("; {} with nothing in them were left out", plural(empty, "key")),
    };
    let cut = match (imported.has_end, imported.left_out) {
        (true, _) => String::new(),
        (false, 0) => {
            "; the stream has no end mark, as an export of perdura has: check the count if it may be cut off"
                .to_owned()
        }
        (false, bytes) => format!(
            "; the last {} were left out: they are no whole command, or no whole transaction",
            plural(bytes, "byte")
        ),
    };
    format!("{}: imported {what}{gone}{empty}{cut}", pool.display())
}
