//! The Redis protocol on a Perdura pool.

mod protocol;
