//! Archapt (Wu, Ren and Li, *Architecture-Aware, High Performance Transaction for Persistent
//! Memory*): transactions that leave write-backs to the caches where they can.

pub mod checksum;
