//! String values: short ones in the entry, others in a blob.

use super::entry::{Entry, Form, INLINE, Kind};
use perdura::collections::Blob;
use perdura::{Purpose, Result, Tx};

/// Bytes up to which a write in the middle of a string goes through the log; a longer write
/// makes the string anew, in fresh memory, which needs no log.
const LOGGED: usize = 64 << 10;

fn blob(entry: Entry) -> Option<Blob> {
    (entry.form() == Form::Blob).then(|| Blob::new(entry.at()))
}

/// The length of a string.
pub(crate) fn len(tx: &mut dyn Tx, entry: Entry) -> Result<u64> {
    match blob(entry) {
        Some(blob) => blob.len(tx),
        None => Ok(entry.inline_bytes().len() as u64),
    }
}

/// Appends a string's bytes to `to`.
pub(crate) fn read_into(tx: &mut dyn Tx, entry: Entry, to: &mut Vec<u8>) -> Result<()> {
    match blob(entry) {
        Some(blob) => directly!(tx => blob.read_into(tx, to)),
        None => {
            to.extend_from_slice(entry.inline_bytes());
            Ok(())
        }
    }
}

/// Appends a string's bytes to `to`, after `before` was told the length and has appended what comes first; if it returns
/// false, nothing is appended.
pub(crate) fn read_into_after(
    tx: &mut dyn Tx,
    entry: Entry,
    to: &mut Vec<u8>,
    before: impl FnOnce(&mut Vec<u8>, u64) -> bool,
) -> Result<()> {
    match blob(entry) {
        Some(blob) => directly!(tx => blob.read_into_after(tx, to, before)),
        None => {
            if before(to, entry.inline_bytes().len() as u64) {
                to.extend_from_slice(entry.inline_bytes());
            }
            Ok(())
        }
    }
}

/// A string's bytes.
pub(crate) fn read(tx: &mut dyn Tx, entry: Entry) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read_into(tx, entry, &mut bytes)?;
    Ok(bytes)
}

/// A string's bytes from `from` on, at most `len` of them.
pub(crate) fn read_range(tx: &mut dyn Tx, entry: Entry, from: u64, len: u64) -> Result<Vec<u8>> {
    match blob(entry) {
        Some(blob) => blob.read_range(tx, from, len),
        None => {
            let bytes = entry.inline_bytes();
            let from = (from as usize).min(bytes.len());
            let to = from.saturating_add(len as usize).min(bytes.len());
            Ok(bytes[from..to].to_vec())
        }
    }
}

/// A string with these bytes, which never expires. `old`, a string, is used up.
pub(crate) fn store(tx: &mut dyn Tx, old: Option<Entry>, bytes: &[u8]) -> Result<Entry> {
    let old = old.and_then(blob);
    if bytes.len() <= INLINE {
        if let Some(old) = old {
            old.free(tx)?;
        }
        return Ok(Entry::inline(bytes));
    }
    let new = match old {
        Some(old) => directly!(tx => old.set(tx, bytes))?,
        None => Blob::create(tx, Purpose::Value, bytes)?,
    };
    Ok(outside(new))
}

fn outside(blob: Blob) -> Entry {
    Entry::outside(Kind::String, Form::Blob, blob.at())
}

/// A string with `more` bytes at its end. `old`, a string, is used up.
pub(crate) fn append(tx: &mut dyn Tx, old: Option<Entry>, more: &[u8]) -> Result<Entry> {
    match old {
        None => store(tx, None, more),
        Some(old) => match blob(old) {
            Some(blob) => Ok(outside(blob.append(tx, more)?).expiring(old.expires())),
            None => {
                let bytes = [old.inline_bytes(), more].concat();
                Ok(store(tx, Some(old), &bytes)?.expiring(old.expires()))
            }
        },
    }
}

/// A string with some bytes overwritten, filled up with zeros if it was shorter. `old`, a
/// string, is used up.
pub(crate) fn overwrite(
    tx: &mut dyn Tx,
    old: Option<Entry>,
    from: usize,
    bytes: &[u8],
) -> Result<Entry> {
    if let Some(old) = old
        && let Some(blob) = blob(old)
        && bytes.len() <= LOGGED
    {
        let (len, end) = (blob.len(tx)?, (from + bytes.len()) as u64);
        let blob = if len < end { blob.resize(tx, end)? } else { blob };
        blob.write_range(tx, from as u64, bytes)?;
        return Ok(outside(blob).expiring(old.expires()));
    }
    let mut whole = match old {
        Some(old) => read(tx, old)?,
        None => Vec::new(),
    };
    if whole.len() < from + bytes.len() {
        whole.resize(from + bytes.len(), 0);
    }
    whole[from..from + bytes.len()].copy_from_slice(bytes);
    let expires = old.and_then(Entry::expires);
    Ok(store(tx, old, &whole)?.expiring(expires))
}

/// Frees a string.
pub(super) fn free(tx: &mut dyn Tx, entry: Entry) -> Result<()> {
    match blob(entry) {
        Some(blob) => blob.free(tx),
        None => Ok(()),
    }
}
