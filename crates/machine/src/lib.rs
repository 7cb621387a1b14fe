//! A simulated computer that is a [`Memory`](perdura_memory::Memory): the same engines,
//! collections and workloads run on it unchanged. Its clock can be read, and its power can be
//! cut.
//!
//! Reading order: [`config`] (what a machine is made of), [`cache`] (who has which line),
//! [`controller`] (what a line costs beyond the caches, and where durability begins).

pub mod cache;
pub mod config;
pub mod controller;
pub mod time;

pub use config::{ConfigError, MachineConfig};
pub use time::Ps;
