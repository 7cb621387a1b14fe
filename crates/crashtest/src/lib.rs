//! Finds what is missing: cuts the power of a simulated machine everywhere, and checks what is
//! left.
//!
//! A [`Subject`] is a structure in a pool with its operations and its model. A [`Case`] runs it
//! with an engine on a simulated machine (cores, caches, a replacement policy), twice: once to
//! see what happens, and once more, the same by its seed, with the power cut after its events.
//! Of what a cut may leave, chosen images are recovered and must hold a committed prefix: every
//! acknowledged transaction whole, no other in part. Some are lived on, and cut again.
//!
//! [`check()`] does all of that with a sensible set of cases. This is a counter of one's own:
//!
//! ```
//! use perdura_crashtest::prelude::*;
//!
//! #[derive(Clone)]
//! struct Counter;
//!
//! impl Subject for Counter {
//!     type Op = u64; // What is added.
//!     type Model = u64;
//!
//!     fn name(&self) -> &str {
//!         "counter"
//!     }
//!     fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
//!         let at = tx.new_object(Purpose::General, 0_u64)?.at();
//!         tx.set_root("counter", Root { at, kind: 1000 })
//!     }
//!     fn prepared(&self) -> u64 {
//!         0
//!     }
//!     fn draw(&self, random: &mut SplitMix64, _core: usize) -> u64 {
//!         random.below(100)
//!     }
//!     fn apply(&self, tx: &mut dyn Tx, more: &u64) -> Result<()> {
//!         let counter = Ptr::<u64>::new(tx.root("counter")?.expect("it was prepared").at);
//!         let sum = tx.read(counter)? + more;
//!         tx.write(counter, sum)
//!     }
//!     fn step(&self, model: &mut u64, more: &u64) -> bool {
//!         *model += more;
//!         true
//!     }
//!     fn read(&self, tx: &mut dyn Tx) -> Result<Option<u64>> {
//!         let Some(root) = tx.root("counter")? else { return Ok(None) };
//!         tx.read_word(root.at).map(Some)
//!     }
//! }
//!
//! let report = check(&Counter)?; // Or the failure, shrunk.
//! assert!(report.images > 1_000);
//! # Ok::<(), Box<Failure>>(())
//! ```
//!
//! Reading order: [`subject`], [`case`], [`answers`], `history` (what must be there), `life` (a run on a
//! machine), `candidates` (what a cut may leave), `verify` (what must hold), `explore` (a case),
//! `cut` (one of its cuts); `guilt` (which stores decide), [`mod@shrink`] and [`failure`] for what
//! is found, [`replay`] to see it again; [`mod@check`] for everything at once; [`mutants`] for who
//! watches the watchman; [`mechanisms`] for hardware that orders what programs store, whose images are
//! the machine's own; [`rot`] for damaged media, which is apart from all that.

pub mod answers;
mod bench;
mod candidates;
pub mod case;
pub mod check;
mod cut;
mod death;
mod engine;
mod engines;
mod explore;
pub mod failure;
mod guilt;
mod history;
mod life;
mod losses;
pub mod mechanisms;
pub mod mutants;
mod place;
mod polling;
pub mod prelude;
mod readers;
pub mod replay;
pub mod report;
pub mod rot;
pub mod runner;
pub mod shrink;
mod starts;
pub mod subject;
pub mod subjects;
mod trial;
mod verify;

pub use answers::Answers;
pub use case::{Case, Points, STARTS, Start};
pub use check::{Check, check};
pub use engines::*;
pub use explore::{Budget, Watcher, explore};
pub use failure::Failure;
pub use losses::{Losses, losses};
pub use place::Place;
pub use report::Report;
pub use runner::{On, Runner};
pub use shrink::{Effort, Shrunk, Size, shrink};
pub use subject::Subject;
pub use trial::Trial;
