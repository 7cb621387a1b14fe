//! The order of writes and fences that makes a power cut leave whole transactions: one half of an engine, the other
//! being its [synchronisation](crate::sync).
//!
//! A transaction's writes wait in a [`WriteSet`](crate::writes::WriteSet) until commit, for undo as for redo logging:
//! the log is then written in one go and fenced once, instead of once for each range. Engines differ in what the log
//! holds and when what is fenced: the [`Consistency`].
//!
//! Reading order: `number` and `core` (what the sessions of an engine share), `writer`, `append` and `alone` (how a
//! transaction is logged), `snapshots` (of readers that read for long), `protocol` (what a consistency and groups are),
//! `choice` and `shared` (group commit); then each consistency in a file of its own: `redo`, `undo`, `undo_each`, `swal`,
//! `eager`, `atlas` (and its `room`); and `none`, which logs nothing and stands apart, with `plain`, which keeps nothing either.

pub(crate) mod alone;
pub(crate) mod append;
pub(crate) mod atlas;
pub(crate) mod choice;
pub(crate) mod core;
pub(crate) mod eager;
pub(crate) mod none;
mod number;
pub(crate) mod plain;
pub(crate) mod protocol;
pub(crate) mod redo;
pub(crate) mod room;
pub(crate) mod shared;
pub(crate) mod snapshots;
pub(crate) mod swal;
mod touched;
pub(crate) mod undo;
pub(crate) mod undo_each;
pub(crate) mod writer;
