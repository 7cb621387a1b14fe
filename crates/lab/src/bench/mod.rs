//! Shared by the benchmarks: where pools lie, which engines run in which order, and how the figures are summarised and
//! shown.
//!
//! Engines are interleaved: each repetition measures the baseline first, then runs all engines one after the other,
//! each on a pool of its own. Figures are medians over repetitions.
//!
//! Reading order: [`options`], [`window`], [`knobs`], [`stage`], [`site`], [`engine`], [`series`], [`report`]; [`readme`],
//! which runs the commands made of these.

pub(crate) mod clients;
pub(crate) mod embedded;
pub(crate) mod engine;
pub(crate) mod keyspace;
pub(crate) mod knobs;
pub(crate) mod options;
pub(crate) mod readme;
pub(crate) mod report;
pub(crate) mod series;
pub(crate) mod servers;
pub(crate) mod site;
pub(crate) mod spread;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
pub(crate) mod stage;
pub(crate) mod stores;
pub(crate) mod watch;
pub(crate) mod window;
