//! `perdura pool info`.

use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::quantity::show_bytes;
use perdura::alloc::Space;
use perdura::superblock::{State, Superblock};
use perdura::{EngineKind, Info, OpenError};
use perdura_memory::Mapped;
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The pool's file; it is not written to, and may be in use
    pool: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let path = &arguments.pool;
    let info = look(path).map_err(|error| Failure::at(path, error))?;
    show(&info, arguments.json)
}

/// How a pool was left, for people.
pub(super) fn state_in_words(info: &Info) -> &'static str {
    match info.state {
        _ if info.in_use => "in use",
        State::Closed => "closed",
        State::Open if !keeps_log(info) => {
            "left without being closed by an engine without a log: its contents are undefined"
        }
        State::Open => {
            "left without being closed: what was committed is recovered when it is opened"
        }
        State::Formatting => "closed, about to get a new log",
    }
}

fn keeps_log(info: &Info) -> bool {
    info.engine.parse().is_ok_and(EngineKind::is_crash_consistent)
}

pub(super) fn look(path: &Path) -> Result<Info, OpenError> {
    let memory = Mapped::open_read_only(path)?;
    let superblock = Superblock::read(&memory)?;
    // Not compared with its checksums: the pool may be in use, or recovery due.
    let space = Space::scan(&memory, superblock.layout)?;
    Ok(Info::new(path, &memory, &superblock, &space))
}

/// Prints the facts about a pool.
pub(super) fn show(info: &Info, json: bool) -> Outcome {
    if json { print_json(info) } else { print(text(info).trim_end()) }
}

fn text(info: &Info) -> String {
    let of_limit = format!("{} of at most {}", show_bytes(info.bytes), show_bytes(info.limit));
    let checksums = if info.checksums { "of all pages" } else { "of page table and roots" };
    // The process that has it open may have written less to the file than it knows.
    let known = |bytes| match info.in_use {
        true => "not known while the pool is in use".to_owned(),
        false => show_bytes(bytes),
    };
    let rows = [
        ("pool", info.path.clone()),
        ("id", info.id.clone()),
        ("format", info.format.to_string()),
        ("engine", info.engine.clone()),
        ("state", state_in_words(info).to_owned()),
        ("file", of_limit),
        ("log", show_bytes(info.log_bytes)),
        ("checksums", checksums.to_owned()),
        ("used", known(info.used_bytes)),
        ("free", known(info.free_bytes)),
        ("durability", info.durability.clone()),
        ("must survive", info.requires.to_string()),
        ("write-back", info.flush.clone()),
        ("processor", info.features.clone()),
    ];
    let text = rows.iter().fold(String::new(), |mut text, (name, value)| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<13} {value}");
        text
    });
    match info.state {
        State::Open if !info.in_use => {
            text + "used and free are those of the last checkpoint: the log holds more"
        }
        _ => text,
    }
}
