//! `perdura pool create`.

use super::info;
use crate::domain::DomainChoice;
use crate::failure::{Failure, Outcome};
use crate::quantity;
use perdura::{EngineKind, Options};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The new pool's file; it must not exist
    pool: PathBuf,

    /// Bytes that the pool may grow to. The file has its log and its page table at first, 81M for 1G and 19M for 128M,
    /// and grows as needed
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = quantity::bytes)]
    size: u64,

    #[arg(long, help = format!("Engine: one of {}", EngineKind::NAMES), value_name = "ENGINE", default_value_t = EngineKind::Redo)]
    engine: EngineKind,

    /// Persistence domain: auto, transient, persistent, media or process
    #[arg(long, value_name = "DOMAIN", default_value = "auto")]
    domain: DomainChoice,

    /// Bytes of log: a transaction must fit into it [default: an eighth of the size, at most 64M]
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    log: Option<u64>,

    /// Keep checksums of all pages, so that damage by the medium is noticed when it is read; otherwise only of the page
    /// table and the named roots
    #[arg(long)]
    checksums: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { pool: path, size, engine, domain, log, checksums, json } = arguments;
    let mut options =
        Options::new().engine(*engine).domain(domain.0).size(*size).checksums(*checksums);
    if let Some(bytes) = log {
        options = options.log(*bytes);
    }
    let pool = options.create(path).map_err(|error| Failure::at(path, error))?;
    pool.close()?;
    let info = info::look(path).map_err(|error| Failure::at(path, error))?;
    info::show(&info, *json)
}
