//! Sockets and threads: each worker polls its own connections and works in turns.

mod budget;
mod connection;
pub(crate) mod http;
mod slots;
mod spin;
mod turn;
mod waiters;
mod worker;

pub(crate) use worker::{Inbox, Worker};
