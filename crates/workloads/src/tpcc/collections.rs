//! Rows and sorted sets in the heap's own collections.
//!
//! - A hash is one block: its fields in turn, each as the length of its name (one byte), the
//!   length of its value (two), name and value. A field of an unchanged length is overwritten in
//!   place. A map has where each hash is.
//! - All sorted sets are one ordered map, whose keys are the set's name with its length before
//!   it, the score in an order-preserving form, and the member. A map has each member's score.

use super::Home;
use crate::Records;
use crate::records::EachPair;
use perdura::collections::{Blob, Bytes, HashMap, OrderedMap, Visit};
use perdura::{Error, Ptr, Purpose, Result, Root, Tx, TxExt};
use std::ops::{Bound, Range};

const ROOT: &str = "bench.tpcc";
/// The kind of the root: an object with pointers to the three maps.
pub(crate) const KIND: u32 = 2_011;

/// Bytes of a field's two lengths.
const LENGTHS: usize = 3;
/// Bytes of a score, and of the length of a set's name.
const SCORE: usize = 8;
const NAME: usize = 2;

type Rows = HashMap<Bytes<4>, u64, false>;
type Scores = HashMap<Bytes<6>, u64, false>;
type Ranks = OrderedMap<Bytes<7>, ()>;

/// Told of a hash's name, a field and its value.
pub type EachField<'a> = dyn FnMut(&[u8], &[u8], &[u8]) + 'a;
/// Told of a sorted set's name, a score and a member.
pub type EachMember<'a> = dyn FnMut(&[u8], f64, &[u8]) + 'a;

/// [`Records`] in the heap's own collections: a handle to them.
#[derive(Clone, Copy, Debug)]
pub struct Collections {
    rows: Rows,
    scores: Scores,
    ranks: Ranks,
}

/// Where TPC-C's tables are if they are in the heap's own collections.
#[derive(Clone, Copy, Debug, Default)]
pub struct InCollections;

impl Home for InCollections {
    type Records = Collections;

    fn create(&self, tx: &mut dyn Tx) -> Result<Collections> {
        let made = Collections {
            rows: Rows::create(tx)?,
            scores: Scores::create(tx)?,
            ranks: Ranks::create(tx)?,
        };
        let parts = [made.rows.at(), made.scores.at(), made.ranks.at()];
        let at = tx.new_object(Purpose::General, parts)?.at();
        tx.set_root(ROOT, Root { at, kind: KIND })?;
        Ok(made)
    }

    fn open(&self, tx: &mut dyn Tx) -> Result<Option<Collections>> {
        match tx.root(ROOT)? {
            Some(root) => Collections::at(tx, root.at).map(Some),
            None => Ok(None),
        }
    }
}

impl Collections {
    fn at(tx: &mut dyn Tx, at: u64) -> Result<Self> {
        let [rows, scores, ranks]: [u64; 3] = tx.read(Ptr::new(at))?;
        let (rows, scores) = (Rows::new(rows), Scores::new(scores));
        Ok(Collections { rows, scores, ranks: Ranks::new(ranks) })
    }

    /// Calls `field` with every hash's name, and each field and value of it, in no order, and
    /// `member` with every sorted set's name, score and member.
    ///
    /// # Errors
    /// `Corrupt` if they are damaged.
    pub fn for_each(
        &self,
        tx: &mut dyn Tx,
        field: &mut EachField<'_>,
        member: &mut EachMember<'_>,
    ) -> Result<()> {
        let mut rows = Vec::new();
        self.rows.for_each(tx, &mut |key, at| {
            rows.push((key, at));
            Ok(())
        })?;
        for (key, at) in rows {
            let bytes = Blob::new(at).read(tx)?;
            for (name, value) in fields_of(&bytes, at)? {
                field(&key, &bytes[name], &bytes[value]);
            }
        }
        self.ranks.for_each(tx, &mut |rank, ()| {
            let (key, score, rest) = split(&rank)?;
            member(key, score, rest);
            Ok(())
        })
    }
}

/// Checks the collections at `at`, and reports every block of them to `visit`.
pub(crate) fn check_blocks(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    visit(at)?;
    let Collections { rows, scores, ranks } = Collections::at(tx, at)?;
    rows.check(tx, visit)?;
    scores.check(tx, visit)?;
    ranks.check(tx, visit)?;
    let mut blobs = Vec::new();
    rows.for_each(tx, &mut |_, at| {
        blobs.push(at);
        Ok(())
    })?;
    for at in blobs {
        Blob::new(at).check(tx, visit)?;
        let bytes = Blob::new(at).read(tx)?;
        fields_of(&bytes, at)?;
    }
    Ok(())
}

/// Where the names and values of a row's fields are.
fn fields_of(bytes: &[u8], at: u64) -> Result<Vec<(Range<usize>, Range<usize>)>> {
    let (mut fields, mut start) = (Vec::new(), 0);
    while start < bytes.len() {
        let Some(&[name, low, high]) = bytes[start..].first_chunk::<LENGTHS>() else {
            return Err(Error::corrupt("a row's field that is cut short", at));
        };
        let name = start + LENGTHS..start + LENGTHS + usize::from(name);
        let value = name.end..name.end + usize::from(u16::from_le_bytes([low, high]));
        if value.end > bytes.len() {
            return Err(Error::corrupt("a row's field that is cut short", at));
        }
        start = value.end;
        fields.push((name, value));
    }
    Ok(fields)
}

/// Appends a field to a row.
fn push_field(row: &mut Vec<u8>, name: &[u8], value: &[u8]) -> Result<()> {
    let (Ok(name_len), Ok(value_len)) = (u8::try_from(name.len()), u16::try_from(value.len()))
    else {
        return Err(Error::Invalid("a field's name has up to 255 bytes, and its value 65,535"));
    };
    row.push(name_len);
    row.extend_from_slice(&value_len.to_le_bytes());
    row.extend_from_slice(name);
    row.extend_from_slice(value);
    Ok(())
}

/// A name with its length before it: no other name begins so.
fn prefix(key: &[u8]) -> Result<Vec<u8>> {
    let len = u16::try_from(key.len())
        .map_err(|_| Error::Invalid("a sorted set's name has up to 65,535 bytes"))?;
    Ok([&len.to_be_bytes(), key].concat())
}

/// A score as eight bytes that are in the order of scores.
fn score_bytes(score: f64) -> [u8; SCORE] {
    // Minus zero is zero.
    let bits = (score + 0.0).to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    ordered.to_be_bytes()
}

fn score_of(bytes: [u8; SCORE]) -> f64 {
    let ordered = u64::from_be_bytes(bytes);
    f64::from_bits(if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered })
}

/// A sorted set's name, a score and a member.
fn split(rank: &[u8]) -> Result<(&[u8], f64, &[u8])> {
    let parts = || {
        let (len, rest) = rank.split_first_chunk::<NAME>()?;
        let (key, rest) = rest.split_at_checked(u16::from_be_bytes(*len).into())?;
        let (score, member) = rest.split_first_chunk::<SCORE>()?;
        Some((key, score_of(*score), member))
    };
    parts().ok_or(Error::corrupt("a sorted set's entry that is cut short", 0))
}

impl Records for Collections {
    fn set_fields(&self, tx: &mut dyn Tx, key: &[u8], fields: &[(&[u8], &[u8])]) -> Result<()> {
        let Some(at) = self.rows.get(tx, key)? else {
            let mut row = Vec::new();
            fields.iter().try_for_each(|(name, value)| push_field(&mut row, name, value))?;
            let blob = Blob::create(tx, Purpose::Value, &row)?;
            return self.rows.set(tx, key, blob.at()).map(drop);
        };
        let blob = Blob::new(at);
        let old = blob.read(tx)?;
        let known = fields_of(&old, at)?;
        let place = |name: &[u8]| known.iter().find(|(known, _)| old[known.clone()] == *name);
        let in_place = |(name, value): &(&[u8], &[u8])| {
            place(name).is_some_and(|(_, known)| known.len() == value.len())
        };
        if fields.iter().all(in_place) {
            return fields.iter().try_for_each(|(name, value)| match place(name) {
                Some((_, known)) => blob.write_range(tx, known.start as u64, value),
                None => Ok(()),
            });
        }
        let mut row = Vec::with_capacity(old.len());
        for (name, value) in &known {
            let name = &old[name.clone()];
            let new = fields.iter().find(|(new, _)| *new == name);
            push_field(&mut row, name, new.map_or(&old[value.clone()], |(_, value)| value))?;
        }
        let new = fields.iter().filter(|(name, _)| place(name).is_none());
        new.into_iter().try_for_each(|(name, value)| push_field(&mut row, name, value))?;
        let moved = blob.set(tx, &row)?;
        if moved.at() == at { Ok(()) } else { self.rows.set(tx, key, moved.at()).map(drop) }
    }

    fn field(&self, tx: &mut dyn Tx, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        self.fields(tx, key, &mut |name, value| {
            if name == field {
                found = Some(value.to_vec());
            }
        })?;
        Ok(found)
    }

    fn fields(&self, tx: &mut dyn Tx, key: &[u8], each: &mut EachPair<'_>) -> Result<bool> {
        let Some(at) = self.rows.get(tx, key)? else { return Ok(false) };
        let bytes = Blob::new(at).read(tx)?;
        for (name, value) in fields_of(&bytes, at)? {
            each(&bytes[name], &bytes[value]);
        }
        Ok(true)
    }

    fn remove(&self, tx: &mut dyn Tx, key: &[u8]) -> Result<bool> {
        if let Some(at) = self.rows.remove(tx, key)? {
            Blob::new(at).free(tx)?;
            return Ok(true);
        }
        let mut members = Vec::new();
        self.range(tx, key, f64::NEG_INFINITY, &mut |_, member| {
            members.push(member.to_vec());
            true
        })?;
        for member in &members {
            self.take(tx, key, member)?;
        }
        Ok(!members.is_empty())
    }

    fn add(&self, tx: &mut dyn Tx, key: &[u8], score: f64, member: &[u8]) -> Result<bool> {
        if score.is_nan() {
            return Err(Error::Invalid("a score must be a number"));
        }
        let prefix = prefix(key)?;
        let score = score_bytes(score);
        let old =
            self.scores.insert(tx, &[&prefix[..], member].concat(), u64::from_be_bytes(score))?;
        if let Some(old) = old {
            if old.to_be_bytes() == score {
                return Ok(false);
            }
            self.ranks.remove(tx, &[&prefix[..], &old.to_be_bytes(), member].concat())?;
        }
        self.ranks.set(tx, &[&prefix[..], &score, member].concat(), ())?;
        Ok(old.is_none())
    }

    fn take(&self, tx: &mut dyn Tx, key: &[u8], member: &[u8]) -> Result<bool> {
        let prefix = prefix(key)?;
        let Some(score) = self.scores.remove(tx, &[&prefix[..], member].concat())? else {
            return Ok(false);
        };
        self.ranks.remove(tx, &[&prefix[..], &score.to_be_bytes(), member].concat())?;
        Ok(true)
    }

    fn range(
        &self,
        tx: &mut dyn Tx,
        key: &[u8],
        from: f64,
        each: &mut dyn FnMut(f64, &[u8]) -> bool,
    ) -> Result<()> {
        let prefix = prefix(key)?;
        let first = [&prefix[..], &score_bytes(from)].concat();
        let mut cursor = self.ranks.range(tx, Bound::Included(&first), Bound::Unbounded)?;
        while let Some((rank, ())) = cursor.next(tx)? {
            if !rank.starts_with(&prefix) {
                break;
            }
            let (_, score, member) = split(&rank)?;
            if !each(score, member) {
                break;
            }
        }
        Ok(())
    }

    fn members(&self, tx: &mut dyn Tx, key: &[u8]) -> Result<u64> {
        let mut count = 0;
        self.range(tx, key, f64::NEG_INFINITY, &mut |_, _| {
            count += 1;
            true
        })?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura::testing::TestHeap;

    #[test]
    fn scores_keep_their_order() {
        let scores = [f64::NEG_INFINITY, -3.5, -1.0, 0.0, 1e-9, 2.0, 1e300, f64::INFINITY];
        for pair in scores.windows(2) {
            assert!(score_bytes(pair[0]) < score_bytes(pair[1]), "{pair:?}");
        }
        assert!(scores.iter().all(|score| score_of(score_bytes(*score)) == *score));
        assert_eq!(score_bytes(-0.0), score_bytes(0.0));
    }

    #[test]
    fn hashes_and_sorted_sets() -> Result<()> {
        let mut heap = TestHeap::new();
        let tx: &mut dyn Tx = &mut heap;
        let records = InCollections.create(tx)?;
        records.set_fields(tx, b"row", &[(b"a", b"one"), (b"b", b"two")])?;
        records.set_fields(tx, b"row", &[(b"b", b"2nd"), (b"a", b"1st")])?;
        records.set_fields(tx, b"row", &[(b"c", b"new"), (b"a", b"longer")])?;
        let fields = [(b"a", Some(&b"longer"[..])), (b"b", Some(b"2nd")), (b"c", Some(b"new"))];
        for (name, value) in fields.into_iter().chain([(b"d", None)]) {
            assert_eq!(records.field(tx, b"row", name)?.as_deref(), value);
        }
        for (score, member) in [(2.0, b"x"), (-1.0, b"y"), (3.0, b"x"), (3.0, b"x"), (0.0, b"z")] {
            records.add(tx, b"set", score, member)?;
        }
        // Another set's entries are next to its own.
        records.add(tx, b"seu", 1.0, b"w")?;
        let mut found = Vec::new();
        records.range(tx, b"set", -0.5, &mut |score, member| {
            found.push((score, member.to_vec()));
            true
        })?;
        assert_eq!(found, [(0.0, b"z".to_vec()), (3.0, b"x".to_vec())]);
        assert_eq!(records.members(tx, b"set")?, 3);
        assert!(records.take(tx, b"set", b"z")? && !records.take(tx, b"set", b"z")?);
        assert!(records.remove(tx, b"set")? && !records.remove(tx, b"set")?);
        assert!(records.remove(tx, b"row")? && !records.fields(tx, b"row", &mut |_, _| {})?);
        assert_eq!(records.members(tx, b"seu")?, 1);
        heap.commit();
        let root = heap.root(ROOT)?.expect("it was created");
        let mut blocks = Vec::new();
        check_blocks(&mut heap, root.at, &mut |at| {
            blocks.push(at);
            Ok(())
        })?;
        blocks.sort_unstable();
        assert_eq!(blocks, heap.live_blocks(), "a leak");
        Ok(())
    }
}
