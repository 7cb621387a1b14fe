//! Finds what is missing: cuts the power of a simulated machine everywhere, and checks what is
//! left.
//!
//! A [`Subject`] is a structure in a pool with its operations and its model. A [`Case`] runs it
//! with an engine on a simulated machine (cores, caches, a replacement policy), twice: once to
//! see what happens, and once more, the same by its seed, with the power cut after its events.
//! Of what a cut may leave, chosen images are recovered and must hold a committed prefix: every
//! acknowledged transaction whole, no other in part. Some are lived on, and cut again.
//!
//! Reading order: [`subject`], [`case`], `history` (what must be there), `life` (a run on a
//! machine), `candidates` (what a cut may leave), `verify` (what must hold), `explore`;
//! [`shrink`] and [`failure`] for what is found, [`mutants`] for who watches the watchman.

mod bench;
mod candidates;
pub mod case;
pub mod check;
mod cut;
mod engines;
mod explore;
pub mod failure;
mod guilt;
mod history;
mod life;
pub mod mutants;
pub mod prelude;
pub mod replay;
pub mod report;
pub mod runner;
pub mod shrink;
pub mod subject;
pub mod subjects;
mod trial;
mod verify;

pub use case::{Case, Points, Start};
pub use check::{Check, check};
pub use engines::{Family, Redo, Undo};
pub use explore::{Budget, Watcher, explore};
pub use failure::Failure;
pub use report::Report;
pub use runner::{On, Runner};
pub use shrink::{Effort, Shrunk, Size, shrink};
pub use subject::Subject;
pub use trial::Trial;
