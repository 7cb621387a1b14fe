//! The host's libraries of functions: the host keeps them in memory, and the pool has a copy.

use super::api::{self, RawContext};
use super::with;
use crate::node::FUNCTIONS;
use std::cell::Cell;

#[derive(Clone, Copy, PartialEq)]
enum Libraries {
    /// The host has none yet: those of the pool are to be given to it.
    ToBeGiven,
    /// The pool may have others.
    Changed,
    Kept,
}

thread_local! {
    static LIBRARIES: Cell<Libraries> = const { Cell::new(Libraries::ToBeGiven) };
}

/// The host is about to change them, or has.
pub(super) fn changed() {
    LIBRARIES.set(Libraries::Changed);
}

/// A turn ends, before its transactions are made durable. The first one begins before the host takes commands: it has its
/// engine of scripts by then, which it has not everywhere when the module is loaded.
pub(super) fn keep(context: RawContext) {
    match LIBRARIES.replace(Libraries::Kept) {
        Libraries::Kept => {}
        Libraries::Changed => {
            let Some(libraries) = api::functions(context) else { return };
            with(|node| match node.kept(FUNCTIONS)? {
                Some(kept) if kept == libraries => Ok(()),
                _ => node.keep(FUNCTIONS, Some(&libraries)),
            });
            // The call has passed the filter.
            LIBRARIES.set(Libraries::Kept);
        }
        Libraries::ToBeGiven => {
            let Some(libraries) = with(|node| node.kept(FUNCTIONS)) else { return };
            if !api::restore_functions(context, &libraries) {
                super::die("the host does not take the libraries of functions that the pool has");
            }
            // The call has passed the filter.
            LIBRARIES.set(Libraries::Kept);
        }
    }
}
