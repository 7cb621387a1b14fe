//! A pool's data written down, without the pool's format: the server's keyspace as commands of Redis, collections as
//! lines of JSON.

use crate::Going;
use crate::contents::{self, Named, What};
use crate::error::{EXPORT_NOT, Error, with_cause};
use crate::json::{EntryLine, Line, RootLine};
use perdura::Tx;
use perdura::collections::untyped;
use perdura::draft::Draft;
use perdura::source::Source;
use serde::Serialize;
use std::io::{BufWriter, IntoInnerError, Write};
use std::path::Path;

/// The form of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Commands of Redis.
    Resp,
    /// Lines of JSON.
    Json,
}

/// The counts of what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Exported {
    /// In which form.
    pub format: Form,
    /// Collections.
    pub roots: u64,
    /// Entries of these.
    pub entries: u64,
    /// Keys of the server's keyspace.
    pub keys: u64,
}

/// The plan of an export of a pool: its known roots, and the form, if it is not given the only one that there is
/// something for.
///
/// # Errors
/// When there is nothing in this form, or something in both; as [`contents::known`].
pub fn plan(source: &Source, form: Option<Form>) -> Result<(Vec<Named>, Form), Error> {
    let roots = contents::known(source, EXPORT_NOT)?;
    let served = roots.iter().any(|named| named.what == What::Keyspace);
    let others = roots.iter().any(|named| matches!(named.what, What::Collection(_)));
    let form = match (form, served, others) {
        (None, true, true) => return Err(Error::TwoForms),
        (None, true, false) => Form::Resp,
        (None, false, true) => Form::Json,
        (None, false, false) => {
            return Err(Error::Nothing("the pool has no data: there is nothing to export"));
        }
        (Some(Form::Resp), false, _) => {
            return Err(Error::Nothing(
                "the pool has no server's data; export its collections (`perdura pool export --format json`)",
            ));
        }
        (Some(Form::Json), _, false) => {
            return Err(Error::Nothing(
                "the pool has no collections; export its server's data (`perdura pool export --format resp`)",
            ));
        }
        (Some(form), ..) => form,
    };
    Ok((roots, form))
}

/// Writes to `to` the roots that [`plan`] has found.
///
/// # Errors
/// See [`Error`].
pub fn export(
    source: &Source,
    (roots, format): (&[Named], Form),
    to: &mut dyn Write,
    going: &mut Going<'_>,
) -> Result<Exported, Error> {
    let mut exported = Exported { format, roots: 0, entries: 0, keys: 0 };
    match format {
        Form::Resp => {
            let mut keys = Ok(0);
            source.read(|tx| {
                keys = perdura_server::transfer::export(tx, to, going);
                Ok(())
            })?;
            exported.keys = keys?;
        }
        Form::Json => {
            let mut before = 0;
            for named in roots {
                let What::Collection(description) = &named.what else { continue };
                write_line(to, &Line::Root(RootLine::of(&named.name, description)))?;
                let (mut entries, mut bytes) = (0, before);
                with_cause(|check| {
                    source.read(|tx: &mut dyn Tx| {
                        untyped::for_each(tx, description, named.root.at, &mut |key, value| {
                            entries += 1;
                            bytes += (key.bytes() + value.bytes()) as u64;
                            check(write_line(to, &Line::Entry(EntryLine::of(key, value))))?;
                            check(if going(bytes) { Ok(()) } else { Err(Error::Stopped) })
                        })
                    })
                })?;
                write_line(to, &Line::End { entries })?;
                before = bytes;
                exported.roots += 1;
                exported.entries += entries;
            }
            write_line(to, &Line::Total { roots: exported.roots })?;
        }
    }
    to.flush()?;
    Ok(exported)
}

/// As [`export`], to a file of this name, which it has when it is whole and durable; one that is there is replaced, or
/// refused.
///
/// # Errors
/// See [`Error`]; an old file at `path` is still there then.
pub fn export_file(
    source: &Source,
    plan: (&[Named], Form),
    (path, force): (&Path, bool),
    going: &mut Going<'_>,
) -> Result<Exported, Error> {
    let draft = Draft::start(path, force)?.of_mode(source.mode());
    let mut to = BufWriter::new(draft.create()?);
    let exported = export(source, plan, &mut to, going)?;
    let file = to.into_inner().map_err(IntoInnerError::into_error)?;
    draft.publish(Some(file))?;
    Ok(exported)
}

fn write_line(to: &mut dyn Write, line: &Line) -> Result<(), Error> {
    serde_json::to_writer(&mut *to, line).map_err(std::io::Error::from)?;
    Ok(to.write_all(b"\n")?)
}
