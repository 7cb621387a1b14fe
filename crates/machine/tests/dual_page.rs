//! Dual-page checkpoints: lines counted by hand, pools under pressure whose power is cut everywhere, and what look-ups
//! cost.

#![allow(missing_docs)]

mod common;

use common::{behind_dram, figure, tiny};
use perdura_machine::mechanism::{DualPage, DualPageConfig, Metadata, Mutant, list};
use perdura_machine::{
    AfterCut, Design, Kind, Machine, MachineConfig, Options, Ps, Schedule, presets,
};
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, LINE, Memory};
use perdura_testing::seeds;
use std::ops::ControlFlow;

/// Lines of a page.
const PAGE: u64 = 64;

fn dual_page(config: DualPageConfig) -> Box<dyn Design> {
    Box::new(DualPage::new(config, None).expect("figures"))
}

/// A machine of one core with `pages` pages, on `dual-page`.
fn machine(pages: u64, config: DualPageConfig) -> Machine {
    let options = Options { cores: Some(1), mechanism: dual_page(config), ..Options::default() };
    let preset = presets::load("dual-page").expect("a preset");
    Machine::from_words(preset, vec![0; (pages * PAGE * 8) as usize], options)
}

/// Stores to these lines of each of the pages, and ends the epoch. Returns the lines written to the home device.
fn epoch(machine: &Machine, pages: u64, lines: impl Iterator<Item = u64> + Clone) -> u64 {
    machine.start_measuring();
    for page in 0..pages {
        lines.clone().for_each(|line| machine.store((page * PAGE + line) * LINE, line + 1));
    }
    machine.end_epoch();
    assert_eq!(machine.power_cut(), machine.visible(), "the epoch is durable");
    machine.statistics().memory.home.writes
}

/// An epoch with n dirty lines of each of 10 pages writes 10 n lines, the two lines of the table that ten entries are
/// in, the count of special lines, 16 lines of a core's state (1 KB), and the pointer. A second one, with the same,
/// other or all lines, writes as many: nothing is copied. One that stores nothing still stores the two lines of the
/// table: the standby context does not have the last epoch's changes.
#[test]
fn an_epoch_writes_its_dirty_lines_and_entries() {
    const PAGES: u64 = 10;
    let beside = 2 + 1 + 16 + 1;
    for dirty in [1, 8, 32, 64] {
        let machine =
            machine(PAGES, DualPageConfig { pool_pages: 16, ..DualPageConfig::default() });
        assert_eq!(epoch(&machine, PAGES, 0..dirty), PAGES * dirty + beside, "{dirty} lines");
        assert_eq!(epoch(&machine, PAGES, 0..dirty), PAGES * dirty + beside, "the same");
        assert_eq!(epoch(&machine, PAGES, PAGE - dirty..PAGE), PAGES * dirty + beside, "others");
        assert_eq!(epoch(&machine, PAGES, 0..PAGE), PAGES * PAGE + beside, "all");
        assert_eq!(epoch(&machine, PAGES, 0..0), beside, "none");
        assert_eq!(epoch(&machine, PAGES, 0..0), beside - 2, "none again");
        assert_eq!(figure(&machine, "allocations_failed"), 0);
    }
}

/// Two pages and a derivative page: when the second one is dirtied, the first one's is reclaimed. Its k lines are
/// copied, and the context's entry is made void by one line; with no line in the derivative page, nothing is written.
#[test]
fn a_reclaim_copies_its_lines_and_makes_an_entry_void() {
    let beside = 1 + 1 + 16 + 1;
    for lines in [1, 8, 64] {
        let machine = machine(2, DualPageConfig { pool_pages: 1, ..DualPageConfig::default() });
        assert_eq!(epoch(&machine, 1, 0..lines), lines + beside);
        machine.start_measuring();
        machine.store(PAGE * LINE, 1);
        machine.end_epoch();
        assert_eq!(machine.statistics().memory.home.writes, 1 + beside + lines + 1);
        assert_eq!(figure(&machine, "lines_reclaimed"), lines);
        assert_eq!(figure(&machine, "entries_made_void"), 1);
        assert_eq!(machine.power_cut(), machine.visible());
        // Both positions of a line flipped: it is in the base page.
        machine.store(PAGE * LINE, 2);
        machine.end_epoch();
        machine.start_measuring();
        machine.store(0, 2);
        machine.end_epoch();
        assert_eq!(machine.statistics().memory.home.writes, 1 + beside, "nothing to be copied");
    }
}

/// Five derivative pages, taken by twos; the last one is taken alone, when the pool is full. What happened before the
/// measuring began is not forgotten: a pool that was full stays so. In a pool of 400 the same pages are all there are, and
/// one more is no growth to speak of.
#[test]
fn epochs_count_from_the_last_one_in_which_the_pool_has_grown() {
    let epochs = |pool_pages: u64, written: &[std::ops::Range<u64>]| {
        let config = DualPageConfig { pool_pages, ..DualPageConfig::default() };
        let machine = machine(400, config);
        let settled = |pages: &std::ops::Range<u64>| {
            pages.clone().for_each(|page| machine.store(page * PAGE * LINE, 1));
            machine.end_epoch();
            figure(&machine, "epochs_since_pool_settled")
        };
        let before: Vec<u64> = written.iter().map(settled).collect();
        machine.start_measuring();
        (before, [5..6, 0..0].map(|pages| settled(&pages)))
    };
    assert_eq!(epochs(5, &[0..2, 2..4, 0..4, 4..5, 0..0]), (vec![0, 0, 1, 0, 1], [1, 2]));
    assert_eq!(epochs(400, &[0..5, 0..1, 1..5]), (vec![0, 1, 2], [1, 2]));
}

/// What happened in runs under pressure.
#[derive(Debug, Default)]
struct Seen {
    runs: u64,
    images: u64,
    reclaims: u64,
    failures: u64,
    specials: u64,
    early: u64,
}

/// Stores of all kinds to a few pages, mostly near one another.
fn scrawl(machine: &Machine, lines: u64, seed: u64, steps: u64) -> Box<dyn FnOnce() + '_> {
    Box::new(move || {
        let mut random = SplitMix64::new(seed);
        for step in 1..=steps {
            let page = random.below(lines / PAGE).min(random.below(lines / PAGE));
            let line = (page * PAGE + random.below(PAGE)) * LINE;
            match random.below(20) {
                0 => machine.stream(line, &[step; 8]),
                1 => machine.write_back(line, 64),
                2 => machine.fence(),
                3..6 => _ = machine.load(line),
                _ => machine.store(line + random.below(8) * 8, step << 8 | seed & 0xff),
            }
        }
    })
}

/// Tiny caches, with DRAM of four blocks of a page or of a quarter of one, or none.
fn hosts() -> [MachineConfig; 3] {
    let mut plain = tiny(Domain::Transient);
    (plain.memory.home.channels, plain.memory.home.interleave_bytes) = (2, 64);
    plain.memory.controller.write_queue = 2;
    let cached = |block_bytes| behind_dram(&plain, 4, block_bytes);
    [cached(4096), cached(1024), plain.clone()]
}

/// Figures of a run under pressure, of each kind by turns.
fn figures(seed: u64, pool: u64) -> DualPageConfig {
    DualPageConfig {
        pool_pages: pool,
        lookup_cycles: 1,
        metadata: [Metadata::Split, Metadata::Controller, Metadata::Dram][seed as usize % 7 % 3],
        cached_entries: [1, 2, 3, 64][seed as usize % 4],
        state_bytes: 64,
        ..DualPageConfig::default()
    }
}

/// Two lives whose power is cut at every event and arrival, and in recovery.
fn lives(
    seed: u64,
    figures: &DualPageConfig,
    left_out: Option<&Mutant>,
    seen: &mut Seen,
) -> Result<(), String> {
    let pool = figures.pool_pages;
    let pages = pool + 1 + seed % 6;
    let cores = if seed.is_multiple_of(3) { 3 } else { 1 };
    let config = &hosts()[seed as usize % 5 % 3];
    let mut left =
        AfterCut { words: vec![7; (pages * PAGE * 8) as usize], own: Vec::new(), stores: 0 };
    for steps in [20 + seed % 40, 100 + 10 * pool] {
        let design = Box::new(DualPage::new(figures.clone(), left_out).expect("figures"));
        let options = Options {
            cores: Some(cores),
            seed,
            schedule: if seed.is_multiple_of(2) {
                Schedule::Clock
            } else {
                Schedule::Seeded { every: 4 }
            },
            mechanism: design,
            own: std::mem::take(&mut left.own),
            // Long enough to fill the pool.
            epoch: Some(Ps::from_ns(
                (4_000.0 + 2_000.0 * (seed % 8) as f64) * (1 + pool / 3) as f64,
            )),
            at_arrivals: true,
            ..Options::default()
        };
        let machine = Machine::from_words(config.clone(), left.words, options);
        let programs = (0..cores as u64)
            .map(|core| scrawl(&machine, pages * PAGE, seed * 10 + core, steps / cores as u64));
        let broken = machine.run_watched(programs.collect(), |machine, event| {
            let short = event.number % 11;
            let short = if matches!(event.kind, Kind::Arrival(_)) { short } else { short * 9 };
            for stores in [u64::MAX, short] {
                seen.images += 1;
                let left = machine.power_cut_in_recovery(stores);
                if let Some(word) = machine.broken_promise(&left) {
                    return ControlFlow::Break(format!("{event:?}, {stores} stores: word {word}"));
                }
            }
            ControlFlow::Continue(())
        });
        let happened = |name| u64::from(figure(&machine, name) > 0);
        seen.runs += 1;
        seen.reclaims += happened("entries_made_void");
        seen.failures += happened("allocations_failed");
        seen.specials += happened("special_lines");
        seen.early += happened("early_epochs");
        if let ControlFlow::Break(what) = broken {
            return Err(format!("pool of {pool}, seed {seed}: {what}"));
        }
        left = machine.cut(&[seed % 9, seed % 31]);
    }
    Ok(())
}

/// Pools so small that reclaims, failed allocations, the special buffer and early ends each happen in a tenth of the
/// runs at least.
#[test]
fn pools_under_pressure_lose_nothing() {
    for pool in [2, 3, 5, 16] {
        let mut seen = Seen::default();
        for seed in seeds(0, 16) {
            let run = lives(seed, &figures(seed, pool), None, &mut seen);
            run.unwrap_or_else(|what| panic!("{what}"));
        }
        println!("pool of {pool} pages: {seen:?}");
        let least = seen.runs.div_ceil(10);
        let Seen { reclaims, failures, specials, early, .. } = seen;
        for (what, times) in [
            ("reclaims", reclaims),
            ("failures", failures),
            ("special lines", specials),
            ("early ends", early),
        ] {
            assert!(times >= least, "pool of {pool}: {what} in {times} runs");
        }
    }
}

/// Copies of entries in the controller are lost with the power, and newer than those in DRAM: with room for fewer of them
/// than there are derivative pages, it is noticed if a changed one is not written to DRAM when it is replaced, or if a
/// context has what is in DRAM. Nothing is lost otherwise.
#[test]
fn few_cached_entries_lose_nothing() {
    let mutants = list::find("dual-page").expect("a mechanism").mutants;
    for (metadata, cached_entries) in
        [Metadata::Split, Metadata::Dram].into_iter().flat_map(|kind| [(kind, 1), (kind, 3)])
    {
        let figures = |seed| DualPageConfig { metadata, cached_entries, ..figures(seed, 5) };
        let run = |seed, left_out| lives(seed, &figures(seed), left_out, &mut Seen::default());
        for mutant in mutants.iter().filter(|mutant| ["stale", "cached"].contains(&mutant.name)) {
            let found = seeds(0, 40).find(|seed| run(*seed, Some(mutant)).is_err());
            let seed =
                found.unwrap_or_else(|| panic!("{metadata:?}, {cached_entries}: {mutant:?}"));
            run(seed, None).unwrap_or_else(|what| panic!("{metadata:?}, {cached_entries}: {what}"));
        }
    }
}

/// The time of loads that miss DRAM, by the cycles of a look-up: each miss waits for one.
#[test]
fn look_ups_take_their_cycles() {
    const MISSES: u64 = 1000;
    let time = |lookup_cycles| {
        let config = DualPageConfig { lookup_cycles, ..DualPageConfig::default() };
        let machine = machine(MISSES, config);
        for page in 0..MISSES {
            machine.load(page * PAGE * LINE);
            // The rest of the page has come, so that no miss waits for another one's.
            machine.work(10_000);
        }
        machine.time()
    };
    let (none, half, whole) = (time(0), time(16), time(32));
    // 16 cycles at 1.87 GHz.
    let cycles = Ps(16 * Ps::from_ns(1.0 / 1.87).0 * MISSES);
    assert_eq!((half.since(none), whole.since(half)), (cycles, cycles));
    println!(
        "{MISSES} misses: {none:?} without look-ups, {half:?} with 16 cycles, {whole:?} with 32"
    );
}

/// Vectors in DRAM cost a read of DRAM for each page that has an entry, which is not the cached one; with all of the
/// table there, each look-up does.
#[test]
fn the_tables_place_costs_reads_of_dram() {
    // Half of the pages have an entry, and none of them is in DRAM any more when it is wanted again.
    const PAGES: u64 = 64;
    let reads = |metadata| {
        let mut config = presets::load("dual-page").expect("a preset");
        config.memory.dram_cache.as_mut().expect("DRAM").bytes = 16 * 4096;
        let design = DualPageConfig { pool_pages: PAGES, metadata, ..DualPageConfig::default() };
        let options =
            Options { cores: Some(1), mechanism: dual_page(design), ..Options::default() };
        let words = vec![0; (2 * PAGES * PAGE * 8) as usize];
        let machine = Machine::from_words(config, words, options);
        let load = |pages: std::ops::Range<u64>, line: u64| {
            pages.for_each(|page| _ = machine.load((page * PAGE + line) * LINE));
        };
        epoch(&machine, PAGES, 0..1);
        load(PAGES..2 * PAGES, 5);
        let dram = || machine.statistics().memory.dram.expect("DRAM").reads;
        let before = dram();
        load(0..PAGES, 6);
        let with_entry = dram() - before;
        load(PAGES..2 * PAGES, 7);
        (with_entry, dram() - before - with_entry)
    };
    assert_eq!(reads(Metadata::Controller), (0, 0));
    assert_eq!(reads(Metadata::Split), (PAGES, 0));
    assert_eq!(reads(Metadata::Dram), (PAGES, PAGES));
}

/// What looking up pages with an entry costs, in two rounds.
#[derive(Debug, Default, PartialEq, Eq)]
struct RoundCosts {
    hits: u64,
    misses: u64,
    written_back: u64,
    /// Beyond those with all of the table in the controller.
    dram_reads: u64,
    dram_writes: u64,
}

/// Entries that the controller has copies of cost no reads, and outlive checkpoints; changed ones cost a write when they
/// are replaced, once. After an epoch that has written all pages, they are looked up in the same order, and then the
/// last half of them again.
#[test]
fn cached_entries_outlive_checkpoints_and_are_written_back_once() {
    const PAGES: u64 = 64;
    let rounds = |metadata, cached_entries| {
        let mut config = presets::load("dual-page").expect("a preset");
        config.memory.dram_cache.as_mut().expect("DRAM").bytes = 16 * 4096;
        let figures =
            DualPageConfig { pool_pages: PAGES, metadata, cached_entries, ..Default::default() };
        let options =
            Options { cores: Some(1), mechanism: dual_page(figures), ..Options::default() };
        let words = vec![0; (2 * PAGES * PAGE * 8) as usize];
        let machine = Machine::from_words(config, words, options);
        let load = |pages: std::ops::Range<u64>, line: u64| {
            pages.for_each(|page| _ = machine.load((page * PAGE + line) * LINE));
        };
        let now = || {
            let dram = machine.statistics().memory.dram.expect("DRAM");
            let figures = ["entry_hits", "entry_misses", "entries_written_back"];
            let [hits, misses, written_back] = figures.map(|name| figure(&machine, name));
            let (dram_reads, dram_writes) = (dram.reads, dram.writes);
            RoundCosts { hits, misses, written_back, dram_reads, dram_writes }
        };
        epoch(&machine, PAGES, 0..1);
        epoch(&machine, PAGES, 0..1);
        [(0..PAGES, 5), (PAGES / 2..PAGES, 6)].map(|(pages, line)| {
            // None of those pages is in DRAM. The look-ups of pages without an entry are not counted.
            load(PAGES..2 * PAGES, line);
            let before = now();
            load(pages, line);
            let after = now();
            RoundCosts {
                hits: after.hits - before.hits,
                misses: after.misses - before.misses,
                written_back: after.written_back - before.written_back,
                dram_reads: after.dram_reads - before.dram_reads,
                dram_writes: after.dram_writes - before.dram_writes,
            }
        })
    };
    let usual = rounds(Metadata::Controller, 1);
    let none = RoundCosts::default();
    for metadata in [Metadata::Split, Metadata::Dram] {
        let costs = |cached_entries| {
            let mut rounds = rounds(metadata, cached_entries);
            for (round, usual) in rounds.iter_mut().zip(&usual) {
                round.dram_reads -= usual.dram_reads;
                round.dram_writes -= usual.dram_writes;
            }
            rounds
        };
        let half = PAGES / 2;
        let hits = |hits| RoundCosts { hits, ..none };
        let misses = |misses, written_back| RoundCosts {
            misses,
            dram_reads: misses,
            written_back,
            dram_writes: written_back,
            ..none
        };
        assert_eq!(costs(PAGES as usize), [hits(PAGES), hits(half)], "{metadata:?}");
        // The half that is used least recently is always the one that is wanted next.
        assert_eq!(costs(half as usize), [misses(PAGES, half), hits(half)], "{metadata:?}");
        assert_eq!(costs(1), [misses(PAGES, 1), misses(half, 0)], "{metadata:?}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let preset = presets::load("dual-page").expect("a preset");
    assert!(list::design("dual-page", &preset, None).is_ok());
    for (figure, value, says) in [
        ("cached_entries", "0", "cached_entries"),
        (
            "special_lines",
            "10",
            "special_lines is 10, and must be 41216 at least for the caches of 4 cores",
        ),
        ("pool_pages", "10000000", "bytes of DRAM"),
        ("metadata", "\"nowhere\"", "unknown variant"),
    ] {
        let mut config = preset.clone();
        let table = config.mechanism.get_mut("dual-page").expect("a table");
        let value: toml::Value =
            format!("x = {value}").parse::<toml::Table>().expect("TOML")["x"].clone();
        table.insert(figure.to_owned(), value);
        let error = list::design("dual-page", &config, None).err().expect("an error").to_string();
        assert!(error.contains(says), "{error}");
    }
}
