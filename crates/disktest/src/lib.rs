//! Crash-tests pools on a block device, with the calls that a real server makes.
//!
//! `perdura serve` runs on a pool in a real file system and records its writes to the pool's file and its syncs
//! ([`perdura_memory::mapped::record`]). It is killed under load, opened again, killed in the middle of its recovery,
//! its syncs are made to fail, again and again ([`lives`]); each acknowledgement is noted with the length of the trace
//! at that time ([`history`]). From the trace follows what the device may hold at any moment ([`device`]): what was
//! synced, and any part of the rest. Images of that are made ([`image`]), opened, and must hold everything
//! acknowledged, and nothing in part ([`verify`]).
//!
//! What always holds: an image is one that a power cut after a record of the trace may leave; and the same trace, crash
//! point and image seed make the same image.
//!
//! Reading order: [`trace`], [`device`], [`image`], [`work`] (the clients' transactions), [`history`], [`verify`],
//! [`mod@explore`], [`lives`].

#![forbid(unsafe_code)]

pub mod device;
pub mod explore;
pub mod history;
pub mod image;
pub mod lives;
pub mod redis;
pub mod trace;
pub mod verify;
pub mod work;

pub use explore::{FailedImage, Report, Watch, explore, replay};
pub use history::History;
pub use lives::{Recorded, Setting, record};
pub use trace::Trace;

use std::path::Path;

/// Why a test could not be run, which says nothing about the pool.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Trouble(String);

impl Trouble {
    /// A description of what happened and what to do.
    pub fn new(text: impl Into<String>) -> Self {
        Trouble(text.into())
    }

    /// For errors of file operations.
    pub(crate) fn at(path: &Path) -> impl Fn(std::io::Error) -> Trouble + '_ {
        move |error| Trouble(format!("{}: {error}", path.display()))
    }
}

/// A result, unless there was trouble.
pub type Outcome<T = ()> = std::result::Result<T, Trouble>;
