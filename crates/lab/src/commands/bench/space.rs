//! `perdura-lab bench space`: the memory and disk space of a key, compared with Redis.
//!
//! For each length of values both servers start anew with an empty database, get the same keys, and are measured when
//! they are idle. A key's share is the growth over the number of keys; the size of an empty server is shown as well.

use crate::bench::options::{Folder, require};
use crate::bench::servers::{self, Trouble};
use crate::bench::stage::Stage;
use crate::bench::watch;
use crate::domain::DomainChoice;
use crate::failure::Outcome;
use crate::interrupt;
use crate::machine::Machine;
use crate::output::{print, print_json, table};
use crate::quantity::{self, show_bytes, show_count};
use perdura::EngineKind;
use perdura_baselines::Error;
use perdura_baselines::footprint::{Footprint, Measured};
use perdura_baselines::server::Launch;
use serde::Serialize;
use std::fs;

/// Upper bound of a key's bytes, without its value.
const BESIDE: u64 = 512;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    folder: Folder,

    /// Bytes in a value; several lengths are measured one after the other
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "10,100,1000,5000,10000", value_parser = quantity::bytes)]
    value_bytes: Vec<u64>,

    /// Keys of each length [default: 500k, or fewer, with 200M of values]
    #[arg(long, value_name = "NUMBER", value_parser = quantity::count)]
    keys: Option<u64>,

    /// Our engine
    #[arg(long, value_name = "ENGINE", default_value_t = EngineKind::Redo)]
    engine: EngineKind,

    /// Persistence domain of our pool: auto, transient, persistent, media or process
    #[arg(long, value_name = "DOMAIN", default_value = "auto")]
    domain: DomainChoice,

    /// Bytes that our pool may grow to [default: 1G, or more if needed]
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    size: Option<u64>,

    /// Only our own server
    #[arg(long)]
    ours: bool,

    /// Contents of the values
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Space {
    machine: Machine,
    place: String,
    engine: String,
    seed: u64,
    /// Why Redis could not be measured.
    unavailable: Option<String>,
    lengths: Vec<Length>,
}

/// All figures for one length of values.
#[derive(Serialize)]
struct Length {
    value_bytes: u64,
    keys: u64,
    ours: Taken,
    redis: Option<Taken>,
}

/// The sizes of one server.
#[derive(Serialize)]
struct Taken {
    name: String,
    /// With an empty database.
    empty: Footprint,
    /// With the keys.
    full: Footprint,
    /// Growth, in bytes a key.
    used_by_key: f64,
    resident_by_key: f64,
    on_disk_by_key: f64,
    /// Redis's files after its append-only file has been rewritten as a snapshot.
    rewritten_by_key: Option<f64>,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    require(arguments.keys != Some(0), "there is nothing to measure in 0 keys")?;
    let most = 512 << 20;
    require(
        arguments.value_bytes.iter().all(|&bytes| bytes <= most),
        "a value has at most 512 MiB",
    )?;
    let stage = Stage::within(&arguments.folder)?;
    let mut space = Space {
        machine: Machine::here(),
        place: stage.site.describe(),
        engine: arguments.engine.to_string(),
        seed: arguments.seed,
        unavailable: None,
        lengths: Vec::new(),
    };
    let bar = watch::steps("keys and values", arguments.value_bytes.len());
    let measured: Outcome = arguments.value_bytes.iter().try_for_each(|&bytes| {
        let length = length(arguments, bytes, &mut space.unavailable, &stage)?;
        space.lengths.push(length);
        bar.inc(1);
        Ok(())
    });
    // Ctrl-C ends our children too: after it, their failure is no error.
    interrupt::check(&stage.progress)?;
    measured?;
    if arguments.json { print_json(&space) } else { print(space.text()) }
}

fn length(
    arguments: &Arguments,
    bytes: u64,
    unavailable: &mut Option<String>,
    stage: &Stage,
) -> Outcome<Length> {
    let keys = arguments.keys.unwrap_or(((200 << 20) / bytes.max(1)).clamp(1, 500_000));
    let needed = (bytes + bytes / 4 + BESIDE).saturating_mul(keys).saturating_mul(2);
    let size = arguments.size.unwrap_or(needed.next_multiple_of(1 << 20).max(1 << 30));
    let ours = servers::ours(arguments.engine, arguments.domain.0, size, None)?;
    let ours = taken(&ours, false, (keys, bytes), arguments.seed, stage)?;
    let mut redis = None;
    if !arguments.ours && unavailable.is_none() {
        let mut launch = Launch::redis();
        // The appended bytes are measured before the rewrite, which we request.
        launch.arguments.extend(["--auto-aof-rewrite-percentage".into(), "0".into()]);
        match taken(&launch, true, (keys, bytes), arguments.seed, stage) {
            Ok(taken) => redis = Some(taken),
            Err(Trouble::Baseline(error @ Error::Unavailable(_))) => {
                *unavailable = Some(format!("Redis: {error}"));
            }
            Err(trouble) => return Err(trouble.into()),
        }
    }
    Ok(Length { value_bytes: bytes, keys, ours, redis })
}

fn taken(
    launch: &Launch,
    rewrites: bool,
    (keys, bytes): (u64, u64),
    seed: u64,
    stage: &Stage,
) -> Result<Taken, Trouble> {
    let folder = stage.site.folder().join("measured");
    fs::create_dir_all(&folder)?;
    let server = launch.start(&folder)?;
    let mut measured = Measured::new(&server, &folder)?;
    let empty = measured.at_rest()?;
    measured.load(keys, bytes as usize, seed, || !stage.progress.is_stopped())?;
    interrupt::check(&stage.progress).map_err(Trouble::Other)?;
    let full = measured.at_rest()?;
    let rewritten_by_key = match rewrites {
        true => {
            measured.rewrite()?;
            Some(by_key(empty.on_disk, measured.at_rest()?.on_disk, keys))
        }
        false => None,
    };
    drop(measured);
    drop(server);
    fs::remove_dir_all(&folder)?;
    Ok(Taken {
        name: launch.name.clone(),
        empty,
        full,
        used_by_key: by_key(empty.used, full.used, keys),
        resident_by_key: by_key(empty.resident, full.resident, keys),
        on_disk_by_key: by_key(empty.on_disk, full.on_disk, keys),
        rewritten_by_key,
    })
}

fn by_key(empty: u64, full: u64, keys: u64) -> f64 {
    (full as f64 - empty as f64) / keys as f64
}

impl Space {
    fn text(&self) -> String {
        let header = [
            "value, bytes",
            "keys",
            "program",
            "used",
            "times",
            "resident",
            "times",
            "on disk",
            "times",
            "rewritten",
            "empty: resident",
            "empty: on disk",
        ];
        let rows = self.lengths.iter().flat_map(|length| {
            let times = |figure: fn(&Taken) -> f64, taken: &Taken| match &length.redis {
                Some(redis) if taken.rewritten_by_key.is_none() => {
                    format!("{:.2}", figure(taken) / figure(redis))
                }
                _ => String::new(),
            };
            let row = move |taken: &Taken| {
                [
                    show_count(length.value_bytes),
                    show_count(length.keys),
                    taken.name.clone(),
                    format!("{:.1}", taken.used_by_key),
                    times(|taken| taken.used_by_key, taken),
                    format!("{:.1}", taken.resident_by_key),
                    times(|taken| taken.resident_by_key, taken),
                    format!("{:.1}", taken.on_disk_by_key),
                    times(|taken| taken.on_disk_by_key, taken),
                    taken.rewritten_by_key.map_or(String::new(), |bytes| format!("{bytes:.1}")),
                    show_bytes(taken.empty.resident),
                    show_bytes(taken.empty.on_disk),
                ]
            };
            std::iter::once(&length.ours).chain(&length.redis).map(row).collect::<Vec<_>>()
        });
        let why = self.unavailable.iter().map(|why| format!("\n\n{why}"));
        format!(
            "bytes for a key of 16 bytes, in addition to those of an empty server; values are random; seed {}\n\
             {}\n{}\n\nused: used_memory of INFO; resident: of the process; on disk: blocks that the files occupy, \
             of Redis\nits append-only file as it was written, and as BGREWRITEAOF leaves it (rewritten: a \
             snapshot)\n\n{}{}\n\nall answers were checked",
            self.seed,
            self.machine,
            self.place,
            table(header, rows),
            why.collect::<String>()
        )
    }
}
