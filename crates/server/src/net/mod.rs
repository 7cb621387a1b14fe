//! Sockets and threads: each worker polls its own connections and works in turns.

mod budget;
mod busy;
mod connection;
mod fetch;
pub(crate) mod http;
mod slots;
mod spin;
mod turn;
mod waiters;
mod worker;

pub(crate) use worker::{Inbox, Worker};
