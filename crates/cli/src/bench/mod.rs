//! What the benchmarks share: where pools lie, which engines run in which order, and how the
//! figures are added up and shown.
//!
//! Engines are interleaved: each repetition runs all of them, one after the other, each on a
//! pool of its own, and measures the baseline first. Figures are medians over repetitions.
//!
//! Reading order: [`options`], [`window`], [`knobs`], [`stage`], [`site`], [`engine`], [`series`], [`report`].

pub(crate) mod clients;
pub(crate) mod embedded;
pub(crate) mod engine;
pub(crate) mod keyspace;
pub(crate) mod knobs;
pub(crate) mod options;
pub(crate) mod report;
pub(crate) mod series;
pub(crate) mod servers;
pub(crate) mod site;
pub(crate) mod spread;
pub(crate) mod stage;
pub(crate) mod stores;
pub(crate) mod watch;
pub(crate) mod window;
