//! Records on the heap's own collections.
//!
//! A root leads to a hash map from keys to blocks of three words. A hash's block has its tag and
//! a hash map of fields; a sorted set's has its tag, a hash map from members to scores, and an
//! ordered map of both. Removed data is freed in the same transaction.

use super::{EachPair, Records, Rooted};
use perdura::collections::{Bytes, HashMap, OrderedMap, Pair, Total, Visit};
use perdura::{Error, Ptr, Purpose, Result, Root, Tx, TxExt};

const ROOT: &str = "bench.records";
/// The kind of the root: the header of the map of keys.
pub(crate) const KIND: u32 = 2_010;

/// Names up to 23 bytes lie in the maps themselves.
type Name = Bytes<3>;
type Keys = HashMap<Name, u64>;
type Fields = HashMap<Name, Bytes<2>>;
type Scores = HashMap<Name, f64>;
type Order = OrderedMap<Pair<Total, Name>, ()>;

/// Tags: a block's first word.
const HASH: u64 = 0xC5 << 56 | 1;
const SORTED: u64 = 0xC5 << 56 | 2;

/// Called with a hash's key, a field and its value.
pub type EachField<'a> = dyn FnMut(&[u8], &[u8], &[u8]) + 'a;
/// Called with a sorted set's key, a score and a member.
pub type EachMember<'a> = dyn FnMut(&[u8], f64, &[u8]) + 'a;

/// A handle to the store.
#[derive(Clone, Copy, Debug)]
pub struct Plain {
    keys: Keys,
}

/// A key's value.
#[derive(Clone, Copy)]
enum Value {
    Hash(Fields),
    Sorted(Scores, Order),
}

impl Value {
    fn load(tx: &mut dyn Tx, at: u64) -> Result<Self> {
        let [tag, first, second]: [u64; 3] = tx.read(Ptr::new(at))?;
        match tag {
            HASH => Ok(Value::Hash(Fields::new(first))),
            SORTED => Ok(Value::Sorted(Scores::new(first), Order::new(second))),
            _ => Err(Error::corrupt("a block of the records", at)),
        }
    }

    fn save(self, tx: &mut dyn Tx) -> Result<u64> {
        let words = match self {
            Value::Hash(fields) => [HASH, fields.at(), 0],
            Value::Sorted(scores, order) => [SORTED, scores.at(), order.at()],
        };
        tx.new_object(Purpose::General, words).map(Ptr::at)
    }

    fn destroy(self, tx: &mut dyn Tx) -> Result<()> {
        match self {
            Value::Hash(fields) => fields.destroy(tx),
            Value::Sorted(scores, order) => {
                scores.destroy(tx)?;
                order.destroy(tx)
            }
        }
    }

    fn check(self, tx: &mut dyn Tx, visit: &mut Visit<'_>) -> Result<()> {
        let (scores, order) = match self {
            Value::Hash(fields) => return fields.check(tx, visit),
            Value::Sorted(scores, order) => (scores, order),
        };
        scores.check(tx, visit)?;
        order.check(tx, visit)?;
        let mut ranked = Vec::new();
        order.for_each(tx, &mut |pair, ()| {
            ranked.push(pair);
            Ok(())
        })?;
        let mut agree = scores.len(tx)? == ranked.len() as u64;
        for (score, member) in ranked {
            agree &= scores.get(tx, &member)? == Some(score.0);
        }
        if agree { Ok(()) } else { Err(Error::corrupt("a sorted set's two halves", order.at())) }
    }
}

impl Plain {
    /// Calls `field` with every hash's key, and each field and value of it, and `member` with
    /// every sorted set's key, score and member: keys in no order, members in theirs.
    ///
    /// # Errors
    /// `Corrupt` if the store is damaged.
    pub fn for_each(
        self,
        tx: &mut dyn Tx,
        field: &mut EachField<'_>,
        member: &mut EachMember<'_>,
    ) -> Result<()> {
        for (key, at) in self.entries(tx)? {
            match Value::load(tx, at)? {
                Value::Hash(fields) => fields.for_each(tx, &mut |name, value| {
                    field(&key, &name, &value);
                    Ok(())
                })?,
                Value::Sorted(_, order) => order.for_each(tx, &mut |(score, name), ()| {
                    member(&key, score.0, &name);
                    Ok(())
                })?,
            }
        }
        Ok(())
    }

    /// Every key, and where its block is.
    fn entries(self, tx: &mut dyn Tx) -> Result<Vec<(Vec<u8>, u64)>> {
        let mut entries = Vec::new();
        self.keys.for_each(tx, &mut |key, at| {
            entries.push((key, at));
            Ok(())
        })?;
        Ok(entries)
    }

    fn value(self, tx: &mut dyn Tx, key: &[u8]) -> Result<Option<Value>> {
        match self.keys.get(tx, key)? {
            Some(at) => Value::load(tx, at).map(Some),
            None => Ok(None),
        }
    }

    fn hash(self, tx: &mut dyn Tx, key: &[u8]) -> Result<Option<Fields>> {
        match self.value(tx, key)? {
            Some(Value::Hash(fields)) => Ok(Some(fields)),
            Some(Value::Sorted(..)) => {
                Err(Error::Invalid("the key holds a sorted set, not a hash: choose another key"))
            }
            None => Ok(None),
        }
    }

    fn sorted(self, tx: &mut dyn Tx, key: &[u8]) -> Result<Option<(Scores, Order)>> {
        match self.value(tx, key)? {
            Some(Value::Sorted(scores, order)) => Ok(Some((scores, order))),
            Some(Value::Hash(_)) => {
                Err(Error::Invalid("the key holds a hash, not a sorted set: choose another key"))
            }
            None => Ok(None),
        }
    }

    fn make(self, tx: &mut dyn Tx, key: &[u8], value: Value) -> Result<()> {
        let at = value.save(tx)?;
        self.keys.set(tx, key, at).map(drop)
    }
}

impl Records for Plain {
    fn set_fields(&self, tx: &mut dyn Tx, key: &[u8], fields: &[(&[u8], &[u8])]) -> Result<()> {
        let hash = match self.hash(tx, key)? {
            Some(hash) => hash,
            None if fields.is_empty() => return Ok(()),
            None => {
                let hash = Fields::create(tx)?;
                self.make(tx, key, Value::Hash(hash))?;
                hash
            }
        };
        for (field, value) in fields {
            hash.set(tx, field, value)?;
        }
        Ok(())
    }

    fn field(&self, tx: &mut dyn Tx, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.hash(tx, key)? {
            Some(hash) => hash.get(tx, field),
            None => Ok(None),
        }
    }

    fn fields(&self, tx: &mut dyn Tx, key: &[u8], each: &mut EachPair<'_>) -> Result<bool> {
        let Some(hash) = self.hash(tx, key)? else { return Ok(false) };
        hash.for_each(tx, &mut |field, value| {
            each(&field, &value);
            Ok(())
        })?;
        Ok(true)
    }

    fn remove(&self, tx: &mut dyn Tx, key: &[u8]) -> Result<bool> {
        let Some(at) = self.keys.remove(tx, key)? else { return Ok(false) };
        Value::load(tx, at)?.destroy(tx)?;
        tx.free(at)?;
        Ok(true)
    }

    fn add(&self, tx: &mut dyn Tx, key: &[u8], score: f64, member: &[u8]) -> Result<bool> {
        if score.is_nan() {
            return Err(Error::Invalid("a score must be a number"));
        }
        // Turns -0.0 into 0.0: the order must not distinguish them.
        let score = score + 0.0;
        let (scores, order) = match self.sorted(tx, key)? {
            Some(parts) => parts,
            None => {
                let (scores, order) = (Scores::create(tx)?, Order::create(tx)?);
                self.make(tx, key, Value::Sorted(scores, order))?;
                (scores, order)
            }
        };
        let old = scores.get(tx, member)?;
        if old == Some(score) {
            return Ok(false);
        }
        if let Some(old) = old {
            order.remove(tx, (Total(old), member))?;
        }
        order.set(tx, (Total(score), member), ())?;
        scores.set(tx, member, score)
    }

    fn take(&self, tx: &mut dyn Tx, key: &[u8], member: &[u8]) -> Result<bool> {
        let Some((scores, order)) = self.sorted(tx, key)? else { return Ok(false) };
        let Some(score) = scores.remove(tx, member)? else { return Ok(false) };
        order.remove(tx, (Total(score), member))?;
        if scores.is_empty(tx)? {
            self.remove(tx, key)?;
        }
        Ok(true)
    }

    fn range(
        &self,
        tx: &mut dyn Tx,
        key: &[u8],
        from: f64,
        each: &mut dyn FnMut(f64, &[u8]) -> bool,
    ) -> Result<()> {
        let Some((_, order)) = self.sorted(tx, key)? else { return Ok(()) };
        let first = (Total(from + 0.0), b"".as_slice());
        let mut cursor = order.cursor(tx, first..)?;
        while let Some(((score, member), ())) = cursor.next(tx)? {
            if !each(score.0, &member) {
                break;
            }
        }
        Ok(())
    }

    fn members(&self, tx: &mut dyn Tx, key: &[u8]) -> Result<u64> {
        match self.sorted(tx, key)? {
            Some((scores, _)) => scores.len(tx),
            None => Ok(0),
        }
    }
}

impl Rooted for Plain {
    fn create(tx: &mut dyn Tx) -> Result<Self> {
        let keys = Keys::create(tx)?;
        tx.set_root(ROOT, Root { at: keys.at(), kind: KIND })?;
        Ok(Plain { keys })
    }

    fn find(tx: &mut dyn Tx) -> Result<Option<Self>> {
        Ok(tx.root(ROOT)?.map(|root| Plain { keys: Keys::new(root.at) }))
    }
}

/// Checks the store whose keys are at `at`, and reports its blocks to `visit`.
pub(crate) fn check_blocks(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    let keys = Keys::new(at);
    keys.check(tx, visit)?;
    for (_, at) in (Plain { keys }).entries(tx)? {
        visit(at)?;
        Value::load(tx, at)?.check(tx, visit)?;
    }
    Ok(())
}
