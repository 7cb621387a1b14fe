//! `perdura-lab bench versus --only stores`: durable puts, compared with embedded stores.

use super::Arguments;
use crate::bench::options::require;
use crate::bench::stage::Stage;
use crate::bench::stores::{self, Entrant, PutsResult, StoreContest};
use crate::failure::Outcome;
use crate::output::table;
use crate::quantity::{plural, show_bytes, show_count, show_ns};
use perdura::EngineKind;
use perdura_baselines::puts::{Library, Puts};

/// Our engines, unless the user names some: the general default, and the one with grouped commits.
const ENGINES: [EngineKind; 2] = [EngineKind::Redo, EngineKind::ArchaptRedo];

/// Options for embedded stores alone.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct StoreOptions {
    /// Puts of each run against embedded stores, all threads together
    #[arg(long, value_name = "NUMBER", default_value = "20k", value_parser = crate::quantity::count)]
    puts: u64,

    /// Threads that put into an embedded store, each number a run of its own
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,2", value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: Vec<u32>,

    /// Puts in a transaction of an embedded store
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    batch: u64,

    /// Threads put the same keys into an embedded store; without it each has keys of its own
    #[arg(long)]
    shared_keys: bool,
}

pub(super) fn against(
    arguments: &Arguments,
    others: Vec<Box<dyn Library>>,
    seed: u64,
    stage: &Stage,
) -> Outcome<StoreContest> {
    let (options, common) = (&arguments.stores, &arguments.common);
    let engines = if common.engines.is_empty() { ENGINES.to_vec() } else { common.engines() };
    let durable = |engine: &EngineKind| engine.is_crash_consistent();
    let engines: Vec<_> = engines.into_iter().filter(durable).collect();
    require(!engines.is_empty(), "plain and volatile make no put durable: name another engine")?;
    let most = options.threads.iter().copied().max().unwrap_or(1);
    require(arguments.keys >= u64::from(most), "each thread needs a key: give --keys more")?;
    require(options.puts > 0, "there is nothing to compare in 0 puts; give --puts more")?;
    let round = |&threads: &u32| Puts {
        puts: options.puts,
        keys: arguments.keys,
        value_bytes: arguments.value_bytes,
        batch: options.batch,
        threads,
        shared: options.shared_keys,
        seed,
    };
    let rounds: Vec<_> = options.threads.iter().map(round).collect();
    stores::contest(others, &engines, &rounds, common.repeat, common.domain.0, stage)
}

pub(super) fn text(contest: &StoreContest) -> String {
    let header = ["threads", "store", "puts/s", "to the best baseline", "on disk"];
    let rows = contest.rounds.iter().flat_map(|result| {
        let best = contest.best_other(result);
        contest.entrants.iter().zip(&result.stores).map(move |(entrant, figures)| {
            [
                result.puts.threads.to_string(),
                entrant.name.clone(),
                figures.per_second.show(|rate| show_count(rate as u64)),
                format!("{:.2}", figures.per_second.median / best),
                show_bytes(figures.bytes_on_disk.median as u64),
            ]
        })
    });
    let heading = contest.rounds.first().map(heading).unwrap_or_default();
    format!(
        "{heading}:\n\n{}\n\n{}\n{}\n{}\none line written back and a fence, in this run: {}",
        table(header, rows),
        contest.entrants.iter().map(settings).collect::<Vec<_>>().join("\n"),
        meaning(contest),
        contest.memory,
        contest.line_and_fence_ns.show(show_ns),
    )
}

fn heading(result: &PutsResult) -> String {
    let Puts { puts, keys, value_bytes, batch, shared, .. } = result.puts;
    let transaction = match batch {
        1 => "each a durable transaction".to_owned(),
        batch => format!("each {} of them a durable transaction", show_count(batch)),
    };
    format!(
        "{} of {} under {} of 16 bytes drawn at random, {transaction}; threads have {}; every key \
         read back after the store was closed and opened again",
        plural(puts, "put"),
        show_bytes(value_bytes as u64),
        plural(keys, "key"),
        if shared { "the same keys" } else { "keys of their own" },
    )
}

fn settings(entrant: &Entrant) -> String {
    format!("{}: {}", entrant.name, entrant.settings)
}

/// How to read figures from this folder.
fn meaning(contest: &StoreContest) -> &'static str {
    if contest.in_memory {
        "This folder is in memory: a sync there costs the other stores no more than the call, and what \
         they show is their software. Perdura's write-backs and fences are real, as on persistent memory. \
         Nobody's puts outlive a power cut here."
    } else {
        "Everybody's puts are on the device when they return."
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::spread::Spread;
    use crate::bench::stores::StoreFigures;

    fn contest(in_memory: bool) -> StoreContest {
        let entrant = |name: &str, ours| Entrant {
            name: name.to_owned(),
            settings: format!("{name} syncs"),
            ours,
        };
        let figures = |rate: f64| StoreFigures {
            per_second: Spread::of([rate]),
            bytes_on_disk: Spread::of([2048.0]),
        };
        let puts = Puts {
            puts: 10,
            keys: 5,
            value_bytes: 100,
            batch: 4,
            threads: 2,
            shared: true,
            seed: 1,
        };
        StoreContest {
            memory: "tmpfs".to_owned(),
            in_memory,
            line_and_fence_ns: Spread::of([100.0]),
            entrants: vec![entrant("slow", false), entrant("fast", false), entrant("own", true)],
            rounds: vec![PutsResult { puts, stores: [10.0, 200.0, 500.0].map(figures).into() }],
        }
    }

    #[test]
    fn ratios_are_to_the_best_of_the_others() {
        let text = text(&contest(true));
        let row = |name: &str| {
            let row = text.lines().find(|line| line.starts_with('|') && line.contains(name));
            row.expect("a row").to_owned()
        };
        assert!(row("slow").contains("0.05"), "{text}");
        assert!(row("fast").contains("1.00"), "{text}");
        assert!(row("own").contains("2.50") && row("own").contains("2 KiB"), "{text}");
        assert!(text.contains("each 4 of them") && text.contains("the same keys"), "{text}");
        assert!(text.contains("slow: slow syncs"), "{text}");
    }

    #[test]
    fn memory_and_disk_are_told_apart() {
        assert!(text(&contest(true)).contains("a sync there costs the other stores no more"));
        assert!(text(&contest(false)).contains("on the device"));
    }
}
