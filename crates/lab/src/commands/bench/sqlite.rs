//! `perdura-lab bench sqlite`: programs of SQLite on databases in pools, beside stock SQLite's on the same medium.

use crate::bench::knobs::Knobs;
use crate::bench::options::{Common, Folder, require};
use crate::bench::sqlite::contest::{Contest, Figures, contest};
use crate::bench::sqlite::database::{Kind, PoolSetting, STOCK};
use crate::bench::sqlite::programs::{Program, Workload};
use crate::bench::stage::Stage;
use crate::failure::Outcome;
use crate::machine::Machine;
use crate::output::{print, print_json, table};
use crate::quantity::{self, plural, show_bytes, show_count, show_ns};
use perdura::EngineKind;
use serde::Serialize;

/// Unless the user names some.
const ENGINES: [EngineKind; 2] = [EngineKind::Redo, EngineKind::ArchaptRedo];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only these programs [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAMES")]
    program: Vec<Name>,

    /// Puts of one connection, and of all threads together
    #[arg(long, value_name = "NUMBER", default_value = "20k", value_parser = quantity::count)]
    puts: u64,

    /// Different keys that are put
    #[arg(long, value_name = "NUMBER", default_value = "100k", value_parser = quantity::count)]
    keys: u64,

    /// Transactions of 1,000 rows
    #[arg(long, value_name = "NUMBER", default_value = "100", value_parser = quantity::count)]
    batches: u64,

    /// Connections that put, on threads, each number a program of its own
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,8", value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: Vec<u32>,

    /// Bytes of the table that is updated, and of the database that is vacuumed
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = quantity::bytes)]
    bytes: u64,

    /// Seconds for which the cursor is open
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    seconds: f64,

    /// Operations of a workload in SQL, all threads together
    #[arg(long = "operations", alias = "ops", value_name = "NUMBER", default_value = "5k", value_parser = quantity::count)]
    operations: u64,

    /// LinkBench's nodes, and YCSB's records; TPC-C has a small warehouse for each thread
    #[arg(long, value_name = "NUMBER", default_value = "10k", value_parser = quantity::count)]
    entries: u64,

    /// Leave stock SQLite's databases out
    #[arg(long)]
    only_pools: bool,

    #[command(flatten)]
    knobs: Knobs,

    #[command(flatten)]
    folder: Folder,

    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Name {
    /// REPLACE of 100 bytes, each a transaction
    Puts,
    /// Transactions of 1,000 rows
    Batches,
    /// UPDATE of all rows of a table
    Update,
    /// VACUUM of a database, a tenth of which was deleted
    Vacuum,
    /// Puts while a cursor is open
    Cursor,
    /// LinkBench, by connections on threads
    Linkbench,
    /// OLTP-bench's YCSB, by connections on threads
    Ycsb,
    /// TPC-C in SQL, by connections on threads
    Tpcc,
}

#[derive(Serialize)]
struct Report {
    machine: Machine,
    place: String,
    seed: u64,
    repeat: u32,
    sqlite: String,
    #[serde(flatten)]
    contest: Contest,
}

impl Arguments {
    fn programs(&self) -> Vec<Program> {
        let (keys, bytes) = (self.keys, self.bytes);
        let puts = self.threads.iter().map(|&threads| {
            (Name::Puts, Program::Puts { puts: self.puts.max(threads.into()), keys, threads })
        });
        let others = [
            (Name::Batches, Program::Batches { batches: self.batches, keys }),
            (Name::Update, Program::Update { bytes }),
            (Name::Vacuum, Program::Vacuum { bytes }),
            (Name::Cursor, Program::Cursor { seconds: self.seconds }),
        ];
        let named = [
            (Name::Linkbench, Workload::LinkBench),
            (Name::Ycsb, Workload::Ycsb),
            (Name::Tpcc, Workload::Tpcc),
        ];
        let workloads = named.into_iter().flat_map(|(asked, name)| {
            self.threads.iter().map(move |&threads| {
                let Arguments { entries, operations, .. } = *self;
                (asked, Program::Workload { name, entries, operations, threads })
            })
        });
        let all = puts.chain(others).chain(workloads);
        let asked = |name| self.program.is_empty() || self.program.contains(&name);
        all.filter(|(name, _)| asked(*name)).map(|(_, program)| program).collect()
    }

    fn kinds(&self) -> Vec<Kind> {
        let common = &self.common;
        let engines = if common.engines.is_empty() { ENGINES.to_vec() } else { common.engines() };
        let ours = engines
            .into_iter()
            .flat_map(|engine| [false, true].map(|exclusive| Kind::Pool { engine, exclusive }));
        let stock = STOCK.into_iter().filter(|_| !self.only_pools);
        stock.chain(ours).collect()
    }
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { common, knobs, .. } = arguments;
    let Arguments { puts, keys, batches, operations, .. } = *arguments;
    let least = puts.min(keys).min(batches).min(operations);
    require(least > 0, "there is nothing to compare in 0 puts, keys, batches or operations")?;
    let most = arguments.threads.iter().max().copied().unwrap_or(1);
    require(arguments.keys >= u64::from(most), "each thread needs a key: give --keys more")?;
    let sane = (0.001..=86_400.0).contains(&arguments.seconds);
    require(sane, "the seconds of a cursor are between 0.001 and 86400")?;
    require(!common.csv, "this benchmark prints no comma-separated values; use --json")?;
    let stage = Stage::within(&arguments.folder)?;
    let setting = |program: Program| PoolSetting {
        limit: common.pool_bytes(program.data(), knobs),
        domain: common.domain.0,
        knobs: *knobs,
    };
    let (seed, programs) = (common.seed(), arguments.programs());
    let turns = (common.repeat, seed);
    let contest = contest(&arguments.kinds(), &programs, turns, setting, &stage)?;
    let report = Report {
        machine: Machine::here(),
        place: stage.site.describe(),
        seed,
        repeat: common.repeat,
        sqlite: rusqlite::version().to_owned(),
        contest,
    };
    if common.json { print_json(&report) } else { print(report.text()) }
}

impl Report {
    fn text(&self) -> String {
        let Report { machine, place, seed, repeat, sqlite, contest } = self;
        let header = [
            "program",
            "database",
            "a second",
            "times WAL",
            "bytes each",
            "of WAL's",
            "longest",
            "kept",
        ];
        let rows = contest.rounds.iter().flat_map(|round| {
            let figures = contest.entrants.iter().zip(&round.figures);
            let ran = figures.filter_map(|(entrant, figures)| Some((entrant, figures.as_ref()?)));
            ran.map(|(entrant, figures)| row(&round.program.name(), &entrant.name, figures))
        });
        let settings = contest.entrants.iter().map(|one| format!("{}: {}", one.name, one.settings));
        let settings: Vec<_> = settings.collect();
        format!(
            "SQLite {sqlite}, in pools and its own files: {}, interleaved; seed {seed}\n{machine}\n{place}\n\n\
             {}\n\n{}\n\neach database was closed, opened again, checked by SQLite and compared with a model",
            plural(u64::from(*repeat), "repetition"),
            table(header, rows),
            settings.join("\n"),
        )
    }
}

fn row(program: &str, entrant: &str, figures: &Figures) -> [String; 8] {
    let rate = |rate: f64| match rate {
        slow if slow < 100.0 => format!("{slow:.3}"),
        fast => show_count(fast as u64),
    };
    let bytes = |bytes: f64| show_bytes(bytes as u64);
    let optional = |text: Option<String>| text.unwrap_or_default();
    [
        program.to_owned(),
        entrant.to_owned(),
        figures.per_second.show(rate),
        optional(figures.ratio.map(|ratio| format!("{ratio:.2}"))),
        optional(figures.bytes_each.map(|spread| bytes(spread.median))),
        optional(figures.bytes_saved.map(|saved| format!("1/{saved:.1}"))),
        optional(figures.longest_ns.map(|spread| spread.show(show_ns))),
        optional(figures.kept_bytes.map(|spread| bytes(spread.median))),
    ]
}
