//! Values as they are written: in the oldest of the forms that a type has, so that every Redis reads them.

use super::{form, push_len, push_string, streams};
use crate::command::{Failure, Outcome};
use crate::keyspace::hash::Hash;
use crate::keyspace::list::List;
use crate::keyspace::set::Set;
use crate::keyspace::stream::Stream;
use crate::keyspace::zset::SortedSet;
use crate::keyspace::{Entry, Kind, text};
use perdura::Tx;

/// Writes the value of a key, its form first, as long as `has_room` allows for so many bytes.
///
/// # Errors
/// As reads of it.
pub(crate) fn write(
    tx: &mut dyn Tx,
    entry: Entry,
    to: &mut Vec<u8>,
    has_room: &mut dyn FnMut(usize) -> bool,
) -> Outcome {
    match entry.kind() {
        Kind::String => {
            to.push(form::STRING);
            let len = text::len(tx, entry)?;
            push_len(to, len);
            if has_room(len as usize) {
                text::read_into(tx, entry, to)?;
            }
        }
        Kind::List => {
            let list = List::load(tx, Some(entry))?;
            to.push(form::LIST);
            push_len(to, list.len());
            list.walk(tx, 0, false, &mut |tx, item| {
                push_string(to, &item.read(tx)?);
                Ok::<bool, Failure>(has_room(to.len()))
            })?;
        }
        Kind::Set => {
            let set = Set::load(tx, Some(entry))?;
            to.push(form::SET);
            push_len(to, set.len(tx)?);
            set.walk(tx, &mut |_, member| {
                push_string(to, member);
                Ok::<bool, Failure>(has_room(to.len()))
            })?;
        }
        Kind::Hash => {
            let hash = Hash::load(tx, Some(entry))?;
            to.push(form::HASH);
            push_len(to, hash.len(tx)?);
            hash.for_each(tx, &mut |field, value| {
                if has_room(to.len()) {
                    push_string(to, field);
                    push_string(to, value);
                }
            })?;
        }
        Kind::Stream => {
            let stream = Stream::load(tx, entry)?;
            streams::write(tx, &stream, to, has_room)?;
        }
        Kind::SortedSet => {
            let set = SortedSet::load(tx, entry)?;
            to.push(form::SORTED_SET);
            let len = set.len(tx)?;
            push_len(to, len);
            let mut walk = set.walk_at(tx, 0, false)?;
            while let Some((score, member)) = walk.next(tx)? {
                push_string(to, &member);
                to.extend_from_slice(&score.to_le_bytes());
                if !has_room(to.len()) {
                    break;
                }
            }
        }
    }
    Ok(())
}
