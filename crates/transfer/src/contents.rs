//! The contents of a pool: its named roots, each with its kind if that is known.

use crate::error::Error;
use perdura::collections::untyped::{self, Description};
use perdura::source::Source;
use perdura::{OpenError, Root, Tx, roots};
use perdura_server::transfer::is_keyspace;
use std::path::Path;

/// A named root.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Where it leads.
    pub root: Root,
    /// The object there.
    pub what: What,
}

/// The object that a root leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// One of the heap's collections.
    Collection(Description),
    /// The server's keyspace.
    Keyspace,
    /// Something that only its program knows.
    Unknown,
}

/// Opens a pool to read it.
///
/// # Errors
/// When it cannot be opened.
pub fn open(path: &Path) -> Result<Source, Error> {
    let path_buf = || path.to_path_buf();
    Source::open(path).map_err(|source| match source {
        OpenError::NotConsistent { engine, .. } => Error::Undefined { path: path_buf(), engine },
        source => Error::Open { path: path_buf(), source },
    })
}

/// The roots of a pool, in the order in which they were made.
///
/// # Errors
/// `Corrupt` where they are damaged.
pub fn named(tx: &mut dyn Tx) -> perdura::Result<Vec<Named>> {
    let mut all = Vec::new();
    for found in roots::all(tx)?.into_iter().rev() {
        let what = match untyped::describe(tx, found.root)? {
            Some(description) => What::Collection(description),
            None if is_keyspace(found.root) => What::Keyspace,
            None => What::Unknown,
        };
        let name = String::from_utf8(found.name)
            .map_err(|_| perdura::Error::corrupt("named root that is no text", found.entry))?;
        all.push(Named { name, root: found.root, what });
    }
    Ok(all)
}

/// The roots of a pool all of whose contents are known and whole: all that is allocated belongs to them.
///
/// # Errors
/// `UnknownRoot`, `Hidden`, which say `advice`, or `Damaged`.
pub fn known(source: &Source, advice: &'static str) -> Result<Vec<Named>, Error> {
    let all = source.read(named).map_err(|error| Error::Damaged(error.to_string()))?;
    if let Some(unknown) = all.iter().find(|one| one.what == What::Unknown) {
        let (name, kind) = (unknown.name.clone(), unknown.root.kind);
        return Err(Error::UnknownRoot { name, kind, advice });
    }
    let report = source.check(&|tx, root, visit| perdura_server::check_root(tx, root, visit));
    let found = report.by_offset;
    let hidden = |blocks| {
        let what =
            if found.blocks > 0 { format!(" ({})", found.in_words()) } else { String::new() };
        Error::Hidden { blocks, what, advice }
    };
    match (report.problems.first(), report.unreachable) {
        (None, Some(blocks)) if blocks > 0 => Err(hidden(blocks)),
        (None, _) => Ok(all),
        // Blocks whose offsets are stored nowhere, or in a form of the program's own.
        (Some(_), Some(blocks)) if blocks > found.blocks && report.problems.len() == 1 => {
            Err(hidden(blocks))
        }
        (Some(first), _) => Err(Error::Damaged(first.clone())),
    }
}
