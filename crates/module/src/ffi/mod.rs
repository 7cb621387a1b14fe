//! The host's side: its API, and the functions that it calls. All `unsafe` code of the module is here.
//!
//! What makes it safe, said once: the host calls on its one thread (but `free`), with pointers that are good until the
//! call returns; [`api`] keeps none of them. The node is a variable of that thread, and is borrowed only while the
//! host is not called ([`with`]), since the host may call back.

mod api;
mod commands;
mod events;
mod filter;
mod functions;
mod load;
mod reply;
mod rights;
mod shield;
mod values;

use crate::node::Node;
use perdura::Result;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};

thread_local! {
    static NODE: RefCell<Option<Node>> = const { RefCell::new(None) };
}

/// Uses the node. A failure ends the process: something that clients are about to be told would not be durable. What was
/// acknowledged is, and the next start finds it.
fn with<R>(act: impl FnOnce(&mut Node) -> Result<R>) -> R {
    let done = NODE.with_borrow_mut(|node| node.as_mut().map(act));
    match done {
        Some(Ok(done)) => done,
        Some(Err(error)) => die(&format!("the pool failed: {error}")),
        None => die("the host has called a module that is not loaded"),
    }
}

/// Whether this is the host's own thread. Another module may call commands on one of its own, while the host waits.
fn is_home() -> bool {
    NODE.with_borrow(Option::is_some)
}

/// A line of the host's log, the first time.
fn log_once(text: &str) {
    use std::cell::Cell;
    thread_local! {
        static SAID: Cell<bool> = const { Cell::new(false) };
    }
    if !SAID.replace(true) {
        api::log("warning", text);
    }
}

/// Ends the process with a sentence in the host's log.
fn die(why: &str) -> ! {
    api::log(
        "warning",
        // Of a pool whose file was deleted the error says that all is lost.
        &format!(
            "{why}. The server ends; all that it has acknowledged is in the pool, if this does not \
             say otherwise."
        ),
    );
    std::process::exit(1)
}

/// Runs what the host calls: no panic may reach it.
fn guarded<R>(act: impl FnOnce() -> R) -> R {
    match panic::catch_unwind(AssertUnwindSafe(act)) {
        Ok(done) => done,
        Err(_) => die("the module has broken an invariant of its own"),
    }
}
