//! Embedded stores compared: durable puts by other libraries and by our engines, taking turns, each in a fresh store.
//!
//! All give the same promise at the same moment: where a put of the others is durable by a sync, so is ours.

use super::knobs::Knobs;
use super::options::{plenty, require};
use super::series;
use super::spread::Spread;
use super::stage::Stage;
use super::watch;
use crate::failure::Outcome;
use crate::interrupt;
use perdura::collections::{Bytes, HashMap, kind};
use perdura::{Domain, EngineKind, Handle, Options, Pool, Root, Survives};
use perdura_baselines::puts::{self, Key, Library, Put, Puts, Session, Store, Work};
use perdura_baselines::{Error, Result};
use perdura_memory::{Backing, Memory};
use serde::Serialize;
use std::path::Path;

const ROOT: &str = "bench.puts";

/// The results of all stores for the same puts.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PutsResult {
    #[serde(flatten)]
    pub(crate) puts: Puts,
    pub(crate) stores: Vec<StoreFigures>,
}

/// The result of one store.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StoreFigures {
    pub(crate) per_second: Spread,
    /// Bytes that the file system has allocated for the closed store.
    pub(crate) bytes_on_disk: Spread,
}

/// The competitors, and their settings.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entrant {
    pub(crate) name: String,
    pub(crate) settings: String,
    /// Whether it is one of our engines.
    pub(crate) ours: bool,
}

/// All rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StoreContest {
    /// The failures that an acknowledged put outlives.
    pub(crate) memory: String,
    /// Whether the folder is in memory, where a sync costs nothing.
    pub(crate) in_memory: bool,
    pub(crate) line_and_fence_ns: Spread,
    pub(crate) entrants: Vec<Entrant>,
    pub(crate) rounds: Vec<PutsResult>,
}

impl StoreContest {
    /// Median puts per second of the fastest store that is not ours.
    pub(crate) fn best_other(&self, result: &PutsResult) -> f64 {
        let stores = self.entrants.iter().zip(&result.stores);
        let theirs = stores.filter(|(entrant, _)| !entrant.ours);
        theirs.map(|(_, figures)| figures.per_second.median).fold(0.0, f64::max)
    }
}

/// One of our engines: a hash map in a pool, through the interface of programs.
struct Ours {
    engine: EngineKind,
    name: String,
    domain: Option<Domain>,
}

impl Ours {
    fn failed(&self, error: impl std::fmt::Display) -> Error {
        Error::failed(&self.name, error.to_string())
    }
}

type Map = HashMap<Key, Bytes>;

/// A pool, and the map in it.
struct Opened<'a> {
    ours: &'a Ours,
    pool: Pool,
    map: Map,
}

impl Library for Ours {
    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> &str {
        "each transaction waited for"
    }

    fn open(&self, folder: &Path, puts: &Puts, work: Work<'_>) -> Result<()> {
        let limit = plenty(puts.data_bytes(), &Knobs::default());
        let options = Options::new().engine(self.engine).domain(self.domain).size(limit);
        let pool =
            options.open_or_create(folder.join("pool")).map_err(|error| self.failed(error))?;
        let mut session = pool.session().map_err(|error| self.failed(error))?;
        let map = session.transaction(|tx| match tx.root(ROOT)? {
            Some(root) => Ok(Map::new(root.at)),
            None => {
                let map = Map::create(tx)?;
                tx.set_root(ROOT, Root { at: map.at(), kind: kind::HASH_MAP })?;
                Ok(map)
            }
        });
        let map = map.map_err(|error| self.failed(error))?;
        drop(session);
        let opened = Opened { ours: self, pool, map };
        work(&opened)?;
        opened.pool.close().map_err(|error| self.failed(error))
    }
}

impl Store for Opened<'_> {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let handle = self.pool.session().map_err(|error| self.ours.failed(error))?;
        Ok(Box::new(OurSession { opened: self, handle }))
    }
}

struct OurSession<'a> {
    opened: &'a Opened<'a>,
    handle: Handle,
}

impl Session for OurSession<'_> {
    fn put(&mut self, batch: &[Put]) -> Result<()> {
        let map = self.opened.map;
        let all = self.handle.transaction(|tx| {
            batch.iter().try_for_each(|put| map.set(tx, put.key, &put.value).map(drop))
        });
        all.map_err(|error| self.opened.ours.failed(error))
    }

    fn get(&mut self, key: &Key) -> Result<Option<Vec<u8>>> {
        let map = self.opened.map;
        let value = self.handle.read(|tx| map.get(tx, *key));
        value.map_err(|error| self.opened.ours.failed(error))
    }
}

/// Runs all rounds `repeat` times; in each, `others` and our engines take turns.
pub(crate) fn contest(
    others: Vec<Box<dyn Library>>,
    engines: &[EngineKind],
    rounds: &[Puts],
    repeat: u32,
    domain: Option<Domain>,
    stage: &Stage,
) -> Outcome<StoreContest> {
    let Stage { site, progress } = stage;
    let (memory, in_memory, equal) =
        series::with_area(site, domain, series::BASELINE_BYTES, |memory| {
            let survives = memory.backing().survives(memory.domain());
            let equal = memory.backing() != Backing::Block || survives == Survives::Power;
            (memory.describe(), memory.backing() == Backing::Memory, equal)
        })?;
    require(
        equal,
        "on a disk the other stores' puts outlive a power cut: leave out --domain, or --domain media",
    )?;
    let theirs = others.len();
    let mut libraries = others;
    for &engine in engines {
        let name = format!("perdura {engine}");
        libraries.push(Box::new(Ours { engine, name, domain }));
    }
    let steps = rounds.len() * libraries.len() * repeat as usize;
    let bar = watch::steps("against stores", steps);
    let mut figures = vec![vec![Vec::new(); libraries.len()]; rounds.len()];
    let mut baseline = Vec::new();
    for repetition in 0..u64::from(repeat) {
        baseline.push(series::line_and_fence(site, domain)?);
        for (round, figures) in rounds.iter().zip(&mut figures) {
            let seed = round.seed.wrapping_add(repetition * series::SEED_STEP);
            let puts = Puts { seed, ..*round };
            for (library, figures) in libraries.iter().zip(figures) {
                let figure = puts::run(&**library, &puts, site.folder(), progress);
                interrupt::check(progress)?;
                figures.push(figure?);
                bar.inc(1);
            }
        }
    }
    let entrants = libraries.iter().enumerate().map(|(index, library)| Entrant {
        name: library.name().to_owned(),
        settings: library.settings().to_owned(),
        ours: index >= theirs,
    });
    let spreads = |figures: Vec<puts::PutFigure>| StoreFigures {
        per_second: Spread::of(figures.iter().map(|one| 1e9 / one.figure.ns_per_operation())),
        bytes_on_disk: Spread::of(figures.iter().map(|one| one.bytes as f64)),
    };
    let results = rounds.iter().zip(figures).map(|(&puts, figures)| PutsResult {
        puts,
        stores: figures.into_iter().map(spreads).collect(),
    });
    Ok(StoreContest {
        memory,
        in_memory,
        line_and_fence_ns: Spread::of(baseline),
        entrants: entrants.collect(),
        rounds: results.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::options::Folder;

    /// Our engines as stores, without others: the run itself checks the answers.
    #[test]
    fn our_engines_put_and_find_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let stage =
            Stage::within(&Folder { dir: Some(folder.path().to_owned()) }).expect("a stage");
        let one = Puts {
            puts: 300,
            keys: 100,
            value_bytes: 100,
            batch: 1,
            threads: 1,
            shared: false,
            seed: 4,
        };
        let rounds = [one, Puts { threads: 2, batch: 3, shared: true, ..one }];
        let engines = [EngineKind::Redo, EngineKind::ArchaptRedo];
        let contest =
            contest(Vec::new(), &engines, &rounds, 2, None, &stage).expect("right answers");
        assert_eq!(contest.rounds.len(), 2);
        for result in &contest.rounds {
            assert_eq!(result.stores.len(), 2);
            assert!(result.stores.iter().all(|store| store.per_second.least > 0.0));
            assert!(result.stores.iter().all(|store| store.bytes_on_disk.least > 0.0));
        }
        assert!(contest.entrants.iter().all(|entrant| entrant.ours));
    }
}
