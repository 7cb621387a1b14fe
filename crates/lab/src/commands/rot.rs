//! `perdura-lab rot`: damages pools as a medium does, and tells whether wrong values are served unnoticed.

use crate::bench::options::Folder;
use crate::bench::site::Site;
use crate::bench::watch;
use crate::domain::DomainChoice;
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json, table};
use crate::quantity;
use crate::{commands::crash::quietly, interrupt};
use perdura_crashtest::rot::{self, Fate, Plan, RotReport};
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

/// Which kinds of pools are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Checksums {
    /// With checksums of all pages
    On,
    /// Without: only the page table and the named roots have some
    Off,
    /// Both, the same damages to each
    Both,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pools to damage, with each setting
    #[arg(long, value_name = "NUMBER", default_value = "3k", value_parser = quantity::count)]
    pools: u64,

    /// Whether the pools have checksums of all pages
    #[arg(long, value_enum, default_value_t = Checksums::Both)]
    checksums: Checksums,

    /// Persistence domain that the pools are used in: auto, transient, persistent, media or process
    #[arg(long, value_name = "DOMAIN", default_value = "process")]
    domain: DomainChoice,

    /// Root of everything random [default: from the clock; it is printed]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    #[command(flatten)]
    folder: Folder,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let seed = arguments.seed.unwrap_or_else(from_clock);
    let (site, progress) = (Site::within(arguments.folder.dir.as_deref())?, interrupt::progress()?);
    let settings: &[bool] = match arguments.checksums {
        Checksums::On => &[true],
        Checksums::Off => &[false],
        Checksums::Both => &[true, false],
    };
    let mut all = Vec::new();
    for &checksums in settings {
        let plan = Plan { pools: arguments.pools, seed, checksums, domain: arguments.domain.0 };
        progress.restart();
        let label = format!("checksums {}", if checksums { "on" } else { "off" });
        let found = watch::with_bar(&label, plan.pools, &progress, || {
            quietly(|| rot::run(&plan, site.folder(), &progress))
        });
        all.push((checksums, found.map_err(Failure::new)?));
    }
    if arguments.json {
        let settings: Vec<_> = all
            .iter()
            .map(|(checksums, found)| json!({ "checksums": checksums, "found": found }))
            .collect();
        print_json(&json!({
            "pools": arguments.pools,
            "seed": seed,
            "fates": Fate::ALL,
            "settings": settings,
        }))?;
    } else {
        print(format!("seed {seed}; {}", site.describe()))?;
        all.iter().try_for_each(|(checksums, found)| show(*checksums, found))?;
    }
    interrupt::check(&progress)?;
    let wrong = |found: &RotReport| found.count(Fate::Wrong);
    match all.iter().find(|(checksums, found)| *checksums && wrong(found) > 0) {
        Some((_, found)) => Err(Failure::new(format!(
            "{} pools with checksums served wrong values unnoticed; see them with --checksums on --json --seed {seed}",
            wrong(found)
        ))),
        None => Ok(()),
    }
}

fn show(checksums: bool, found: &RotReport) -> Outcome {
    let of = if checksums { "of all pages" } else { "of the page table and the named roots only" };
    let rows = found.fates.iter().map(|(kind, fates)| row(kind.to_string(), fates));
    let sums = Fate::ALL.map(|fate| found.count(fate));
    let header = [
        "damage",
        "pools",
        "refused",
        "a read fails",
        "`pool check` tells",
        "harmless",
        "WRONG, unnoticed",
    ];
    let table = table(header, rows.chain([row("all".to_owned(), &sums)]));
    let mut text = format!("\nChecksums {of}:\n\n{table}");
    if found.served_wrong > 0 {
        let served = found.served_wrong;
        text += &format!("\n{served} of those that `pool check` tells of served wrong values.");
    }
    for unnoticed in found.unnoticed.iter().filter(|_| checksums) {
        let left = if unnoticed.closed { "closed" } else { "left open" };
        text += &format!(
            "\nUNNOTICED: pool {}, engine {}, {left}: {}; {}",
            unnoticed.pool, unnoticed.engine, unnoticed.damage, unnoticed.wrong
        );
    }
    print(text)
}

fn row(name: String, fates: &[u64; 5]) -> [String; 7] {
    let [refused, fails, checked, harmless, wrong] = fates.map(|count| count.to_string());
    [name, fates.iter().sum::<u64>().to_string(), refused, fails, checked, harmless, wrong]
}

fn from_clock() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |since| since.as_nanos() as u64 % 1_000_000)
}
