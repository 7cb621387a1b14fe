//! The keyspace: the server's data in the pool.
//!
//! A root named `redis` leads to a header with sixteen databases. A database is a hash map from
//! keys to [`Entry`]s, and an ordered map of the keys that expire, by time. The value of a
//! deleted key may be huge: it goes to a list in the pool, from which it is freed bit by bit in later
//! transactions ([`garbage`]).
//!
//! Every operation takes the transaction that it runs in. Callers check whether a key has expired:
//! [`Database::find`] also finds expired keys.

/// Runs code that accesses many words with the transaction's own type, if it is one on a pool
/// ([`on_pool`](perdura::Tx::on_pool)). The code is compiled twice: only for what most requests do.
macro_rules! directly {
    ($tx:ident => $code:expr) => {
        match $tx.on_pool() {
            Some(mut own) => {
                let $tx = &mut own;
                $code
            }
            None => $code,
        }
    };
}

mod ahead;
mod check;
mod chunk;
pub(crate) mod compact;
mod database;
mod entry;
pub(crate) mod followed;
pub(crate) mod functions;
pub(crate) mod garbage;
pub(crate) mod hash;
mod header;
mod image;
#[cfg(test)]
mod lines_tests;
pub(crate) mod list;
mod list_change;
#[cfg(test)]
mod list_tests;
pub(crate) mod set;
pub(crate) mod size;
pub(crate) mod stream;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod zset;

pub(crate) use ahead::{Ahead, Reached};
pub use check::{Findings, check, check_root};
pub use chunk::End;
pub(crate) use database::{Database, Found, unguessable};
pub(crate) use entry::{Entry, Kind, now};
pub(crate) use header::{DATABASES, KIND, find, open, turn, turns};

pub(crate) use perdura::collections::hash_map::Hint;
use perdura::collections::{Bytes, HashMap, OrderedMap, Pair};

/// A stored byte string that is usually short: up to 23 bytes are inline.
pub(crate) type Short = Bytes<3>;
/// A database's keys.
pub(crate) type Keys = HashMap<Short, Entry>;
/// A database's keys that expire, by the time in milliseconds.
pub(crate) type Expiries = OrderedMap<Pair<u64, Short>, ()>;
