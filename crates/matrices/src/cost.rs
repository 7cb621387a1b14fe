//! Cost of writing back an object, of creating checksums for it, and of updating them: the
//! micro-benchmark of Archapt's Figure 6, on a memory of the caller's.
//!
//! Objects of one size lie in pages as the heap's slots do, and are accessed in random order. In
//! each object one word of every line is stored to, so that all of it is dirty. Timed are:
//!
//! - *flush*: all lines of each object, and a fence, as undo and redo logging do.
//! - *create*: batches of objects in random order become covered: announced, a fence, settled by
//!   difference, a fence.
//! - *packed*: the same, but with whole pages, all objects of each at once.
//! - *update*: covered objects have changed, and their sums are updated by difference; the old
//!   contents are at hand, as they are right after a store over them.
//!
//! The time of the stores themselves is never counted. Times are those of the median batch, since
//! other processes take whole time slices from some batches.

#[cfg(feature = "matrices")]
pub use crate::bench::Bench;
use perdura_memory::{LINE, Memory, PAGE};

/// Blocks of data in a page.
pub(crate) const BLOCKS: u64 = 49;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Bytes of an object: whole lines, and no more than a page has blocks.
    pub size: u64,
    /// Objects.
    pub objects: u64,
    /// Objects of a batch.
    pub batch: usize,
    /// Seed of the objects' order and contents.
    pub seed: u64,
}

/// When the work on an object is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Right after the stores, with the object in the nearest cache, as undo and redo logging write
    /// back.
    JustStored,
    /// A whole round of stores to all objects later, as Archapt creates checksums once it assumes that
    /// an object has left the cache. Small sets may still be in the last cache.
    LongAfter,
}

/// The cost for one object.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Cost {
    /// Time in the median batch.
    pub nanoseconds: f64,
    /// Lines written back.
    pub lines: f64,
}

/// The costs of the benchmark's parts.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Costs {
    /// Writing all of an object back.
    pub flush: Cost,
    /// Creating checksums of objects in random order.
    pub create: Cost,
    /// Creating checksums of all objects of a page at once.
    pub packed: Cost,
    /// Updating checksums; only [just stored](When::JustStored).
    pub update: Option<Cost>,
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The demand makes no sense.
    #[error("{0}")]
    Demand(&'static str),
    /// The checksums are not what they must be.
    #[error("wrong answer: the checksums of the page at {0:#x} do not cover it, or do not add up")]
    Wrong(u64),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
    /// Only the types are here.
    #[error(
        "this program is built without checksum matrices, which this figure alone has: run it as cargo run --release -p perdura-lab --features matrices -- reproduce archapt-fig6"
    )]
    NotBuilt,
}

impl When {
    /// Both.
    pub const ALL: [When; 2] = [When::JustStored, When::LongAfter];

    /// How often work on each object begins.
    pub const fn rounds(self) -> u64 {
        match self {
            When::JustStored => 4,
            When::LongAfter => 3,
        }
    }

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            When::JustStored => "just stored",
            When::LongAfter => "long after",
        }
    }
}

impl Demand {
    /// Whether it can be measured.
    ///
    /// # Errors
    /// `Demand`.
    pub fn validate(&self) -> Result<(), Failure> {
        if !(LINE..=BLOCKS * LINE).contains(&self.size) || !self.size.is_multiple_of(LINE) {
            return Err(Failure::Demand("an object has 64 to 3136 bytes, a multiple of 64"));
        }
        if self.objects == 0 || self.batch == 0 || self.objects > 1 << 40 {
            return Err(Failure::Demand(
                "there must be objects, 2^40 at most, and some in a batch",
            ));
        }
        Ok(())
    }

    /// Objects in a page.
    pub(crate) fn each(&self) -> u64 {
        BLOCKS / (self.size / LINE)
    }

    /// Bytes of memory that the objects need with their checksums, if the demand is valid.
    pub fn bytes(&self) -> u64 {
        self.objects.div_ceil(self.each()) * PAGE
    }
}

/// Called with a number of objects when work on them begins; false stops the benchmark.
pub type Watch<'a> = dyn Fn(usize) -> bool + 'a;

/// Fills `memory`, which must have [`Demand::bytes`], with objects, and measures.
///
/// # Errors
/// Any; `NotBuilt` without the feature `matrices`.
pub fn measure(
    memory: &impl Memory,
    demand: Demand,
    when: When,
    watch: &Watch<'_>,
) -> Result<Costs, Failure> {
    #[cfg(feature = "matrices")]
    return Bench::new(memory, demand, watch)?.measure(when);
    #[cfg(not(feature = "matrices"))]
    {
        let _ = (memory, demand, when, watch);
        Err(Failure::NotBuilt)
    }
}
