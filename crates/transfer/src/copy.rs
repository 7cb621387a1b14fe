//! A copy by contents: all that the roots lead to is read, and made anew in another pool. So the new pool may have any
//! size and engine, and has neither gaps nor deleted data.

use crate::contents::{self, Named, What};
use crate::error::{COPY_PAGES, Error, with_cause};
use crate::fill::Filler;
use crate::{Going, Target};
use perdura::collections::untyped;
use perdura::source::Source;
use perdura::{Options, Pool, Tx};
use serde::Serialize;

/// The counts of what was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Copied {
    /// Named roots.
    pub roots: u64,
    /// Entries of collections.
    pub entries: u64,
    /// Keys of the server's keyspace.
    pub keys: u64,
    /// Whether all offsets stay as they are.
    pub offsets_kept: bool,
}

/// Copies the contents of `source` to a new pool, which has the same engine, size and checksums unless `target` says
/// otherwise.
///
/// # Errors
/// See [`Error`]; the file of the target's name, if any, is unchanged then.
pub fn copy(source: &Source, target: &Target, going: &mut Going<'_>) -> Result<Copied, Error> {
    // Refused before anything is made, if the target cannot be made.
    drop(target.draft(None)?);
    let roots = contents::known(source, COPY_PAGES)?;
    let header = source.superblock();
    let engine = target.engine_for(source)?;
    let size = target.size.unwrap_or(header.limit);
    let options = Options::new().engine(engine).size(size).checksums(header.checksums);
    let copied =
        target.fill(&options, Some(source.mode()), |pool| fill(source, &roots, pool, going));
    copied.map_err(|error| match error {
        Error::Pool(perdura::Error::Full { .. }) => {
            let used = source.used();
            let needs = format!(
                "it takes {used} bytes where it is, and a pool needs room for its log and page table besides; give it a larger size"
            );
            Error::TooSmall { size, needs }
        }
        other => other,
    })
}

fn fill(
    source: &Source,
    roots: &[Named],
    pool: &Pool,
    going: &mut Going<'_>,
) -> Result<Copied, Error> {
    let mut copied = Copied { roots: roots.len() as u64, ..Copied::default() };
    let mut before = 0;
    for named in roots {
        let mut moved = 0;
        let mut going = |bytes| {
            moved = bytes;
            going(before + bytes)
        };
        match named.what {
            What::Collection(_) => {
                copied.entries += collection(source, named, pool, &mut going)?;
            }
            What::Keyspace => {
                let mut handle = pool.session()?;
                let mut loaded = Ok(());
                source.read(|tx| {
                    let done = perdura_server::transfer::copy(tx, &mut handle, &mut going);
                    loaded = done.map(|done| copied.keys += done.keys);
                    Ok(())
                })?;
                loaded?;
            }
            What::Unknown => {}
        }
        before += moved;
    }
    Ok(copied)
}

fn collection(
    source: &Source,
    named: &Named,
    pool: &Pool,
    going: &mut Going<'_>,
) -> Result<u64, Error> {
    let What::Collection(description) = named.what else { return Ok(0) };
    let mut handle = pool.session()?;
    let mut filler = Filler::new(&mut handle, description)?;
    let (mut expected, mut bytes) = (0, 0);
    with_cause(|check| {
        source.read(|tx: &mut dyn Tx| {
            untyped::for_each(tx, &description, named.root.at, &mut |key, value| {
                expected += 1;
                bytes += (key.bytes() + value.bytes()) as u64;
                check(filler.add(key, value))?;
                check(if going(bytes) { Ok(()) } else { Err(Error::Stopped) })
            })
        })
    })?;
    match filler.end(&named.name)? {
        found if found == expected => Ok(found),
        found => Err(Error::Count { name: named.name.clone(), found, expected }),
    }
}
