//! Walks over the whole keyspace, for `perdura pool check`.

use super::entry::{Entry, Form};
use super::hash::Fields;
use super::image::Image;
use super::list::{self, List};
use super::set::Members;
use super::stream::{self, Id, Stream};
use super::zset::SortedSet;
use super::{Database, Expiries, Keys, garbage, header};
use perdura::collections::{Blob, OrderedMap, Visit};
use perdura::{Error, Result, Root, Tx};

/// The counts of [`check`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Findings {
    /// Keys in all databases.
    pub keys: u64,
    /// Those of them that expire.
    pub expiring: u64,
    /// Deleted things that are still to be freed.
    pub garbage: u64,
}

/// Checks everything that hangs from the root `redis`, and reports every block of it to `visit`;
/// `None` if the pool has no such root. Takes one transaction, in which nothing is written.
///
/// # Errors
/// `Corrupt` with the fault and its place; the errors of `visit`.
pub fn check(tx: &mut dyn Tx, visit: &mut Visit<'_>) -> Result<Option<Findings>> {
    let Ok(Some(header)) = header::find(tx)? else { return Ok(None) };
    visit(header)?;
    let mut findings = Findings::default();
    for index in 0..super::DATABASES {
        check_database(tx, Database::new(header, index), &mut findings, visit)?;
    }
    super::functions::check(tx, header, visit)?;
    super::followed::check(tx, header, visit)?;
    findings.garbage = check_garbage(tx, header, visit)?;
    Ok(Some(findings))
}

/// As [`check`], for the root `root`; false if it is not a keyspace.
///
/// # Errors
/// As [`check`].
pub fn check_root(tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
    Ok(root.kind == header::KIND && check(tx, visit)?.is_some())
}

fn check_database(
    tx: &mut dyn Tx,
    db: Database,
    findings: &mut Findings,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let mut expiring = 0;
    if let Some(keys) = db.keys(tx)? {
        keys.check(tx, visit)?;
        let mut cursor = 0;
        loop {
            let (next, entries) = keys.scan(tx, cursor, 256)?;
            for (key, entry) in entries {
                check_entry(tx, entry.checked(keys.at())?, visit)?;
                findings.keys += 1;
                if let Some(time) = entry.expires() {
                    expiring += 1;
                    check_expiry(tx, db, time, &key)?;
                }
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
    }
    let mut listed = 0;
    if let Some(expiries) = db.expiries(tx)? {
        expiries.check(tx, visit)?;
        listed = expiries.len(tx)?;
    }
    if listed != expiring {
        return Err(Error::corrupt("a list of expiring keys", db.word()));
    }
    findings.expiring += expiring;
    Ok(())
}

fn check_expiry(tx: &mut dyn Tx, db: Database, time: u64, key: &[u8]) -> Result<()> {
    let listed = match db.expiries(tx)? {
        Some(expiries) => expiries.contains(tx, (time, key))?,
        None => false,
    };
    if listed { Ok(()) } else { Err(Error::corrupt("an expiring key that no list has", db.word())) }
}

/// Checks an entry's value.
fn check_entry(tx: &mut dyn Tx, entry: Entry, visit: &mut Visit<'_>) -> Result<()> {
    match entry.form() {
        Form::Inline => Ok(()),
        Form::Blob => Blob::new(entry.at()).check(tx, visit),
        Form::Image => {
            Image::load(tx, entry.at())?;
            visit(entry.at())
        }
        Form::MemberImage => {
            let image = Image::load(tx, entry.at())?;
            if image.iter().any(|(_, value)| !value.is_empty()) {
                return Err(Error::corrupt("a small set whose members have values", entry.at()));
            }
            visit(entry.at())
        }
        Form::Fields => Fields::new(entry.at()).check(tx, visit),
        Form::Members => Members::new(entry.at()).check(tx, visit),
        Form::Chunk | Form::Chain => List::load(tx, Some(entry))?.check(tx, visit),
        Form::Stream => Stream::load(tx, entry)?.check(tx, visit),
        Form::Ranking => {
            let set = SortedSet::load(tx, entry)?;
            check_ranking(tx, set, visit)
        }
    }
}

fn check_ranking(tx: &mut dyn Tx, set: SortedSet, visit: &mut Visit<'_>) -> Result<()> {
    visit(set.at())?;
    set.scores.check(tx, visit)?;
    set.order.check(tx, visit)?;
    if set.scores.len(tx)? != set.order.len(tx)? {
        return Err(Error::corrupt("a sorted set whose two halves differ", set.at()));
    }
    let mut cursor = 0;
    loop {
        let (next, members) = set.scores.scan(tx, cursor, 256)?;
        for (member, score) in members {
            if !set.order.contains(tx, (perdura::collections::Total(score), &member))? {
                return Err(Error::corrupt("a member that a sorted set does not rank", set.at()));
            }
        }
        cursor = next;
        if cursor == 0 {
            return Ok(());
        }
    }
}

/// Checks the garbage list and the garbage on it. Returns its length.
fn check_garbage(tx: &mut dyn Tx, header: u64, visit: &mut Visit<'_>) -> Result<u64> {
    let (mut block, mut count) = (tx.read_word(header + garbage::GARBAGE)?, 0);
    while block != 0 {
        // A block that was visited before ends a walk in circles.
        visit(block)?;
        let (what, at) = (tx.read_word(block)?, tx.read_word(block + 8)?);
        let next = tx.read_word(block + 16)?;
        if what != garbage::NOTHING {
            check_garbage_of(tx, what, at, visit)?;
            count += 1;
        } else if next != 0 {
            return Err(Error::corrupt("the garbage list", block));
        }
        block = next;
    }
    Ok(count)
}

fn check_garbage_of(tx: &mut dyn Tx, what: u64, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    match what {
        garbage::KEYS => {
            let keys = Keys::new(at);
            keys.check(tx, visit)?;
            let mut cursor = 0;
            loop {
                let (next, entries) = keys.scan(tx, cursor, 256)?;
                for (_, entry) in entries {
                    let entry = entry.checked(at)?;
                    match entry.form() {
                        // It may be freed in part.
                        Form::Ranking => check_garbage_of(tx, garbage::RANKING, entry.at(), visit)?,
                        Form::Chain => check_garbage_of(tx, garbage::CHUNKS, entry.at(), visit)?,
                        Form::Stream => check_garbage_of(tx, garbage::STREAM, entry.at(), visit)?,
                        Form::Chunk
                        | Form::Inline
                        | Form::Blob
                        | Form::Image
                        | Form::Fields
                        | Form::MemberImage
                        | Form::Members => {
                            check_entry(tx, entry, visit)?;
                        }
                    }
                }
                cursor = next;
                if cursor == 0 {
                    return Ok(());
                }
            }
        }
        garbage::EXPIRIES => Expiries::new(at).check(tx, visit),
        garbage::FIELDS => Fields::new(at).check(tx, visit),
        garbage::MEMBERS => Members::new(at).check(tx, visit),
        garbage::CHUNKS => list::check_swept(tx, at, visit),
        garbage::STREAM => stream::check_swept(tx, at, visit),
        garbage::INDEX => OrderedMap::<Id, u64>::new(at).check(tx, visit),
        garbage::GROUP => stream::check_swept_group(tx, at, visit),
        garbage::RANKING => {
            let set = SortedSet::at_block(tx, at)?;
            visit(at)?;
            if set.order.at() != 0 {
                set.order.check(tx, visit)?;
            }
            set.scores.check(tx, visit)
        }
        _ => Err(Error::corrupt("the garbage list", at)),
    }
}
