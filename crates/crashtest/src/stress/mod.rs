//! Native stress: real threads on real pools in files, with invariants that are checked while they run and after the
//! pool was opened again, also when its process was killed.
//!
//! The simulated machine of the crash tester sees every order of stores that the model allows, on small pools, at a
//! million images a minute; it switches cores only where they touch memory. Here nothing is simulated: the loss
//! is the power cut (a killed process loses no page cache), the gain is the processor's own order of loads and
//! stores, preemption at any instruction, pools of some megabytes and lives of a million commits.
//!
//! A [`Round`] is one process that uses a pool: writers, readers and one thread of upkeep. It ends by itself, or is
//! killed at a random moment. Invariants:
//! - writer `w` commits its operations in order, and the pool says how many there were; operation `n` of `w` transfers
//!   amounts that `w` and `n` alone determine. So the accounts are known exactly from the writers' counts, and their sum
//!   never changes: each reader checks that, however long it takes;
//! - each key is in exactly one of three maps, between which writers move it;
//! - each block has the contents that its header determines; blocks of 16 bytes to half a megabyte are freed and
//!   allocated all the time;
//! - an operation whose ticket is durable, as a writer or a reader was told, is known to a [`Witness`] outside of the
//!   process, and must be there after it was killed;
//! - no block of the pool is lost, and none has two owners.
//!
//! Reading order: `layout` (the contents of a pool), `ledger` (those of the accounts), `blocks`, `writer`, `reader`,
//! `upkeep` (the threads), `live` (a round), `audit` (after it), [`run()`] (rounds, killed and not).

mod audit;
mod blocks;
mod layout;
mod ledger;
mod live;
mod pace;
mod reader;
mod run;
mod upkeep;
mod witness;
mod writer;

pub use live::live;
pub use run::{EngineReport, Plan, StressFailure, StressReport, run};
pub use witness::{PipeWitness, Witness};

use perdura::{Domain, EngineKind, Options, Tuning};
use perdura_memory::random::SplitMix64;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Bytes of a small pool and of a large one: see `Space::is_large`.
const SIZES: [u64; 2] = [14 << 20, 40 << 20];
/// Commits in a row after which a session has the bias; the default last.
const BIAS: [Option<u64>; 4] = [Some(0), Some(2), Some(16), None];
/// Words after which a reader continues on a snapshot; the default last.
const SNAPSHOT: [Option<u64>; 4] = [Some(1), Some(16), None, None];
/// Sessions that keep a log segment; the default last.
const KEPT: [Option<u64>; 3] = [Some(0), Some(2), None];
const SHARE: [Option<bool>; 3] = [Some(true), Some(false), None];
const WINDOW: [Option<u64>; 3] = [Some(8), None, None];

/// A process that uses a pool: everything that determines it, except for the order in which its threads run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// The pool's file, which is created if there is none.
    pub pool: PathBuf,
    /// The engine's name.
    pub engine: String,
    /// The persistence domain's name; by default that of the file's backing.
    pub domain: Option<String>,
    /// The root of everything random.
    pub seed: u64,
    /// The root of the values chosen when the pool is created.
    pub pool_seed: u64,
    /// Threads that write or read.
    pub threads: usize,
    /// Milliseconds after which it ends.
    pub millis: u64,
}

impl Round {
    /// How its pool is created, or opened.
    fn options(&self) -> Result<Options, String> {
        let engine: EngineKind = self.engine.parse()?;
        let domain = self.domain.as_deref().map(str::parse::<Domain>);
        let domain = domain.transpose()?;
        let mut of_pool = SplitMix64::new(self.pool_seed);
        let size = SIZES[of_pool.below(SIZES.len() as u64) as usize];
        // Concurrent transactions would conflict on the sums of pages.
        let may_check = engine.keeps_checksums();
        let checksums = may_check && of_pool.below(3) == 0;
        let new = Options::new().engine(engine).domain(domain).log(size / 8).size(size);
        Ok(new.checksums(checksums).tuning(self.tuning()))
    }

    /// The engine's settings, under which rare events become frequent.
    fn tuning(&self) -> Tuning {
        let mut random = SplitMix64::new(self.seed ^ 0x7475_6e69_6e67);
        let mut one = |len: usize| random.below(len as u64) as usize;
        Tuning {
            bias_after: BIAS[one(BIAS.len())],
            snapshot_after: SNAPSHOT[one(SNAPSHOT.len())],
            share: SHARE[one(SHARE.len())],
            window: WINDOW[one(WINDOW.len())],
            kept_segments: KEPT[one(KEPT.len())],
            ..Tuning::default()
        }
    }

    /// Writers, of its threads; at least one of the others reads.
    fn writers(&self) -> usize {
        (self.threads / 2 + 1).min(layout::MOST_WRITERS)
    }

    /// Readers.
    fn readers(&self) -> usize {
        self.threads.saturating_sub(self.writers()).max(1)
    }
}
