//! Everything that a custom structure and its check need: `use perdura_crashtest::prelude::*`.

pub use crate::check::{Check, check, replay};
pub use crate::{Failure, Report, Subject};
pub use perdura::collections::{self, Visit};
pub use perdura::{Access, Error, Ptr, Purpose, Result, Root, Tx, TxExt};
pub use perdura_memory::random::SplitMix64;
