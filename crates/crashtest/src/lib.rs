//! The crash tester: cuts the power of a simulated machine at every point of a program, and checks the images.
//!
//! A [`Subject`] is a structure in a pool with its operations and its model. A [`Case`] runs it with an engine on a
//! simulated machine (cores, caches, a replacement policy), twice: once to record its events, and once more, identical
//! by its seed, with power cuts after its events. At each such *crash point*, chosen images of those that may be left
//! are recovered and must hold a committed prefix: every acknowledged transaction whole, no other in part. Some images
//! are *lived on*: used for more operations, and cut again.
//!
//! [`check()`] does all of that with a sensible set of cases. This is a custom counter:
//!
//! ```
//! use perdura_crashtest::prelude::*;
//!
//! #[derive(Clone)]
//! struct Counter;
//!
//! impl Subject for Counter {
//!     type Op = u64; // The added number.
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
//! # // A small part of the default cases.
//! # use perdura_crashtest::{Case, Points};
//! # let case = Case { points: Points::Random(5), ..Case::default() };
//! # let few = Check { case, seeds: 1, ..Check::default() };
//! # let check = |counter: &Counter| few.run(counter);
//! let report = check(&Counter)?; // Or the failure, shrunk.
//! assert!(report.images > 1_000);
//! # Ok::<(), Box<Failure>>(())
//! ```
//!
//! Reading order: [`subject`], [`case`], [`answers`], `history` (the required states), `life` (a run on a
//! machine), `candidates` (the possible images), `verify` (their checks), `explore` (a case),
//! `crash_point` (one of its crash points), `machine_images` (crash points inside a commit of the hardware's); `root_cause` (which stores decide), [`mod@shrink`] and [`failure`] for
//! failures, [`replay`] to reproduce them; [`mod@check`] for everything at once; [`mutants`] for testing the tester;
//! [`table3`] for a paper's table of what is safe where, with `seq`, its unsynchronised row; [`mechanisms`] for hardware that orders programs' stores, where the images are the machine's own. Independent of
//! the rest: [`rot`] for damaged media, [`stress`] for threads on real pools.

pub mod answers;
mod bench;
mod candidates;
pub mod case;
pub mod check;
mod crash_point;
mod death;
mod engine;
mod engines;
mod explore;
pub mod failure;
mod history;
mod life;
mod losses;
mod machine_images;
pub mod mechanisms;
pub mod mutants;
mod place;
mod polling;
pub mod prelude;
mod readers;
pub mod replay;
pub mod report;
mod root_cause;
pub mod rot;
pub mod runner;
pub mod shrink;
mod starts;
pub mod stress;
pub mod subject;
pub mod subjects;
pub mod table3;
mod trial;
mod verify;

pub use answers::Answers;
pub use case::{Budget, Case, Points, STARTS, Start};
pub use check::{Check, check};
pub use engine::Family;
pub use engines::*;
pub use explore::explore;
pub use failure::Failure;
pub use history::Survivors;
pub use losses::{Losses, losses};
pub use place::Place;
pub use report::{Report, Watcher};
pub use runner::{ENGINES, On, Runner};
pub use shrink::{Effort, Shrunk, Size, shrink};
pub use subject::Subject;
pub use trial::Trial;
