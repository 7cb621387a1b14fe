//! The environment of a benchmark: a place for its files, and the flag that stops it.

use super::options::{Folder, Place};
use super::site::Site;
use crate::failure::Outcome;
use crate::interrupt;
use perdura_workloads::Progress;

/// Created once for each command.
pub(crate) struct Stage {
    pub(crate) site: Site,
    pub(crate) progress: Progress,
}

impl Stage {
    /// For one pool, where the user wants it.
    pub(crate) fn at(place: &Place) -> Outcome<Self> {
        Ok(Stage { site: Site::new(place.pool.as_deref())?, progress: interrupt::progress()? })
    }

    /// For many pools, in a folder of the user's choice.
    pub(crate) fn within(folder: &Folder) -> Outcome<Self> {
        let site = Site::within(folder.dir.as_deref())?;
        Ok(Stage { site, progress: interrupt::progress()? })
    }
}
