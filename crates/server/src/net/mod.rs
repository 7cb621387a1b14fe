//! Sockets and threads: each worker polls its own connections and works in turns.

mod budget;
mod busy;
mod connection;
mod door;
mod fetch;
pub(crate) mod http;
mod route;
mod slots;
mod socket;
mod spin;
mod turn;
mod waiters;
mod worker;

pub(crate) use door::{Door, UnixDoor};
pub(crate) use waiters::recheck;
pub(crate) use worker::{DOORS_MAX, Inbox, Worker};
