//! A pool made of an export, or of a stream of Redis's commands.
//!
//! Invariant: memory grows with the bytes read, never with announced lengths.

use crate::error::Error;
use crate::export::Form;
use crate::fill::Filler;
use crate::json::{Line, RootLine};
use crate::{Going, Target};
use perdura::collections::untyped::{Description, Element};
use perdura::{Options, Pool};
use perdura_server::transfer::{Loaded, TransferError};
use serde::Serialize;
use std::io::{BufRead, Read};
use std::path::Path;

/// Bytes of a line of JSON: a byte string of half a GiB in base64, and more.
const LONGEST: u64 = 1 << 30;

/// The counts of what was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Imported {
    /// In which form.
    pub format: Form,
    /// Collections.
    pub roots: u64,
    /// Entries of these.
    pub entries: u64,
    /// Keys of the server's keyspace.
    pub keys: u64,
    /// Commands that were read.
    pub commands: u64,
    /// Whether the input marks its end, so that nothing can be missing. A stream of Redis's own does not:
    /// if it was cut between two commands, nothing shows that.
    pub has_end: bool,
    /// Bytes at the end of Redis's files that were left out: they are no whole command, or no whole transaction.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// Keys of Redis's snapshot that were left out: they have nothing in them.
    #[serde(skip_serializing_if = "is_zero")]
    pub empty: u64,
    /// Keys that are not there, since their time had come, or the stream deleted them.
    pub gone: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Makes a pool of what a Redis has left, or is writing: a snapshot, an append-only file, or the folder `appendonlydir`.
///
/// # Errors
/// See [`Error`]; the file of the target's name, if any, is unchanged then.
pub fn import_redis(
    path: &Path,
    target: &Target,
    going: &mut Going<'_>,
) -> Result<Imported, Error> {
    drop(target.draft(None)?);
    let fill = |pool: &Pool| {
        let loaded = perdura_server::transfer::import_redis(path, pool, going)?;
        Ok(imported_keys(&loaded))
    };
    fill_pool(target, fill)
}

/// Makes a pool of the export in `from`, in either form, which its first byte tells.
///
/// # Errors
/// See [`Error`]; the file of the target's name, if any, is unchanged then.
pub fn import(
    from: &mut dyn BufRead,
    target: &Target,
    going: &mut Going<'_>,
) -> Result<Imported, Error> {
    // Refused before anything is read, if the target cannot be made.
    drop(target.draft(None)?);
    let form = match from.fill_buf()?.first() {
        Some(b'{') => Form::Json,
        Some(b'*') => Form::Resp,
        Some(_) => {
            let what = "this is neither an export of perdura nor a stream of Redis's commands";
            return Err(Error::Line { line: 1, what: what.to_owned() });
        }
        None => return Err(Error::Nothing("there is nothing to import: the file is empty")),
    };
    fill_pool(target, |pool| match form {
        Form::Resp => commands(from, pool, going),
        Form::Json => lines(from, pool, going),
    })
}

fn fill_pool(
    target: &Target,
    fill: impl FnOnce(&Pool) -> Result<Imported, Error>,
) -> Result<Imported, Error> {
    let size = target.size.unwrap_or(perdura::pool::DEFAULT_SIZE);
    let mut options = Options::new().size(size);
    if let Some(engine) = target.engine {
        options = options.engine(engine);
    }
    let imported = target.fill(&options, target.mode, fill);
    imported.map_err(|error| match error {
        Error::Pool(perdura::Error::Full { .. }) => too_small(size),
        // As a command of Redis's files has it.
        Error::Keyspace(TransferError::Bad { what, .. }) if what.starts_with("OOM ") => {
            too_small(size)
        }
        other => other,
    })
}

fn too_small(size: u64) -> Error {
    Error::TooSmall { size, needs: "give it a larger size".to_owned() }
}

fn commands(
    mut from: &mut dyn BufRead,
    pool: &Pool,
    going: &mut Going<'_>,
) -> Result<Imported, Error> {
    let mut handle = pool.session()?;
    let loaded = perdura_server::transfer::import(&mut from, &mut handle, going)?;
    Ok(imported_keys(&loaded))
}

fn imported_keys(loaded: &Loaded) -> Imported {
    let Loaded { keys, commands, has_end, gone, left_out, empty, .. } = *loaded;
    let (format, roots, entries) = (Form::Resp, 0, 0);
    Imported { format, roots, entries, keys, commands, has_end, left_out, empty, gone }
}

/// Lines, with their numbers.
struct Lines<'a> {
    from: &'a mut dyn BufRead,
    buffer: Vec<u8>,
    number: u64,
    bytes: u64,
}

impl Lines<'_> {
    /// The next line; `None` at the end.
    fn next(&mut self) -> Result<Option<Line>, Error> {
        self.buffer.clear();
        let read = (&mut *self.from).take(LONGEST).read_until(b'\n', &mut self.buffer)?;
        self.number += 1;
        self.bytes += read as u64;
        if read == 0 {
            return Ok(None);
        }
        if self.buffer.last() != Some(&b'\n') {
            return Err(match read as u64 {
                LONGEST => self.bad(format!("the line has more than {LONGEST} bytes")),
                _ => self.cut(),
            });
        }
        serde_json::from_slice(&self.buffer).map(Some).map_err(|error| self.bad(said(&error)))
    }

    fn bad(&self, what: impl Into<String>) -> Error {
        Error::Line { line: self.number, what: what.into() }
    }

    fn cut(&self) -> Error {
        self.bad("the export is cut off here; get the whole file, or export it again")
    }

    /// Adds the place to the fault of a line.
    fn placed(&self, error: Error) -> Error {
        match error {
            Error::Pool(perdura::Error::Invalid(what)) => self.bad(what),
            other => other,
        }
    }
}

/// An error of the parser, with the place in the line.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    format!("{what} (at byte {} of the line)", error.column())
}

fn lines(from: &mut dyn BufRead, pool: &Pool, going: &mut Going<'_>) -> Result<Imported, Error> {
    let mut imported = Imported {
        format: Form::Json,
        roots: 0,
        entries: 0,
        keys: 0,
        commands: 0,
        has_end: true,
        left_out: 0,
        empty: 0,
        gone: 0,
    };
    let mut lines = Lines { from, buffer: Vec::new(), number: 0, bytes: 0 };
    loop {
        match lines.next()? {
            None => return Err(lines.cut()),
            Some(Line::Root(root)) => {
                imported.entries += collection(&mut lines, &root, pool, going)?;
                imported.roots += 1;
            }
            Some(Line::Total { roots }) if roots == imported.roots => break,
            Some(Line::Total { roots }) => {
                let found = imported.roots;
                return Err(lines.bad(format!(
                    "the export has {found} collections, and should have {roots}: it was damaged, or changed"
                )));
            }
            Some(Line::Entry(_) | Line::End { .. }) => {
                return Err(lines.bad("no collection has begun: there should be a root"));
            }
        }
    }
    match lines.next()? {
        None => Ok(imported),
        Some(_) => Err(lines.bad("something follows the export's end; give one export")),
    }
}

fn collection(
    lines: &mut Lines<'_>,
    root: &RootLine,
    pool: &Pool,
    going: &mut Going<'_>,
) -> Result<u64, Error> {
    let description = root.description().map_err(|what| lines.bad(what))?;
    let mut handle = pool.session()?;
    let mut filler = Filler::new(&mut handle, description)?;
    let (mut found, mut before) = (0, None);
    loop {
        match lines.next()? {
            None => return Err(lines.cut()),
            Some(Line::Entry(entry)) => {
                let (key, value) = entry.entry(&description).map_err(|what| lines.bad(what))?;
                check_order(lines, &description, &mut before, &key)?;
                filler.add(key, value).map_err(|error| lines.placed(error))?;
                found += 1;
                if !going(lines.bytes) {
                    return Err(Error::Stopped);
                }
            }
            Some(Line::End { entries }) if entries == found => {
                return filler.end(&root.name).map_err(|error| lines.placed(error));
            }
            Some(Line::End { entries }) => {
                return Err(lines.bad(format!(
                    "the collection has {found} entries, and should have {entries}: it was damaged, or changed"
                )));
            }
            Some(Line::Root(_) | Line::Total { .. }) => {
                return Err(lines.bad("the collection before has no end"));
            }
        }
    }
}

/// An ordered map has each key once. How keys compare, only their type knows.
fn check_order(
    lines: &Lines<'_>,
    description: &Description,
    before: &mut Option<Element>,
    key: &Element,
) -> Result<(), Error> {
    if !matches!(description, Description::OrderedMap(_)) {
        return Ok(());
    }
    if before.as_ref() == Some(key) {
        return Err(lines.bad("the ordered map has this key already"));
    }
    *before = Some(key.clone());
    Ok(())
}
