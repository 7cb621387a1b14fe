//! Which cache has which line: levels of cache, their replacement policies, coherence between cores.
//!
//! Tags only: data is elsewhere. Lines are numbers (address / 64).
//!
//! What always holds:
//! - A line that was stored to is dirty in exactly one cache until [`Hierarchy::evicted`] names
//!   it, [`Hierarchy::write_back`] returns true for it, or [`Hierarchy::drop_line`] drops it.
//! - A core whose own caches have a line dirty is the only core that has it.
//! - A line in the caches above an inclusive one is in that one too.
//! - A version that was put into a cache is there until [`Hierarchy::displaced`] names it, or it is dropped.
//!
//! Reading order: `policy` (which line goes), `set_cache` (one cache), `hierarchy` (several),
//! `coherence` and `directory` (several cores). Only hardware mechanisms use `extras` (state that other machines do not
//! have): `versions` (further copies of lines; `version_table`), `marks` (lines that are watched) and `victims` (which kind of line goes
//! first).
//!
//! To add a policy: one file in `cache/policy` that implements `Replace`; a member of [`Policy`]
//! with its name, and of `Replacement` with its constructor, both in `policy/mod.rs`; a small,
//! obviously right model of it in `tests/cache/models.rs`.

mod coherence;
mod directory;
mod extras;
mod hierarchy;
mod marks;
mod policy;
mod set_cache;
mod stats;
mod version_table;
mod versions;
mod victims;

pub use extras::{Departure, DepartureReason, HeldVersion, VictimRule};
pub use hierarchy::{Access, Hierarchy, Outcome};
pub use policy::{NamedPolicy, Policy, QuadAge, UnknownPolicy};
pub use stats::{CacheStats, LevelStats};
pub use version_table::Version;
