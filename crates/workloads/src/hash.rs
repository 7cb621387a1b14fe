//! A chained hash table in the classic way: an array of bucket heads, and nodes of next, key and
//! value. Nothing counts its entries, and it never grows.
//!
//! ```text
//! header  number of buckets, then the head of each
//! node    next, key, value
//! ```

use crate::toggle::{KeySet, ListedSet, Pairs, value_of};
use crate::zeroed;
use perdura::collections::Visit;
use perdura::{Error, Purpose, Result, Tx};

const WORD: u64 = 8;
const NODE: u64 = 3 * WORD;
const KEY: u64 = WORD;
const VALUE: u64 = 2 * WORD;
/// A chain of more nodes than this runs in a circle.
const LONGEST: u64 = 4096;

/// The table whose header is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(u64);

impl Hash {
    fn buckets<T: Tx + ?Sized>(self, tx: &mut T) -> Result<u64> {
        match tx.read_word(self.0)? {
            0 => Err(Error::corrupt("a hash table without buckets", self.0)),
            buckets => Ok(buckets),
        }
    }

    /// Where the head of bucket `index` is.
    fn head(self, index: u64) -> u64 {
        self.0.wrapping_add(WORD).wrapping_add(index.wrapping_mul(WORD))
    }

    /// Walks the chain that begins with the link at `link` up to the node that `is_it` accepts.
    /// Returns the last link and the node that it points to, 0 at the end.
    fn follow<T: Tx + ?Sized>(
        tx: &mut T,
        mut link: u64,
        mut is_it: impl FnMut(&mut T, u64) -> Result<bool>,
    ) -> Result<(u64, u64)> {
        for _ in 0..LONGEST {
            let node = tx.read_word(link)?;
            if node == 0 || is_it(tx, node)? {
                return Ok((link, node));
            }
            link = node;
        }
        Err(Error::corrupt("a bucket that never ends", link))
    }
}

/// The bucket of a key.
fn bucket_of(key: u64, buckets: u64) -> u64 {
    let mixed = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((u128::from(mixed) * u128::from(buckets)) >> 64) as u64
}

impl ListedSet for Hash {
    const LINE: &'static str = "keys toggled in a chained hash table";
    const OPS_PER_TX: u64 = 4;
}

impl KeySet for Hash {
    const NAME: &'static str = "hash";
    const KIND: u32 = 2_003;
    const BYTES_PER_ENTRY: u64 = 48;

    fn create<T: Tx + ?Sized>(tx: &mut T, entries: u64, _below: u64) -> Result<Self> {
        let buckets = entries.max(1);
        let at = zeroed::allocate(tx, WORD + buckets * WORD)?;
        tx.write_word(at, buckets)?;
        Ok(Hash(at))
    }

    fn open(at: u64) -> Self {
        Hash(at)
    }

    fn at(self) -> u64 {
        self.0
    }

    fn toggle<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<bool> {
        let head = self.head(bucket_of(key, self.buckets(tx)?));
        let is_key = |tx: &mut T, node: u64| Ok(tx.read_word(node.wrapping_add(KEY))? == key);
        let (link, node) = Self::follow(tx, head, is_key)?;
        if node != 0 {
            let next = tx.read_word(node)?;
            tx.write_word(link, next)?;
            tx.free(node)?;
            return Ok(false);
        }
        let new = tx.allocate(Purpose::General, NODE)?;
        let words = [tx.read_word(head)?, key, value_of(key)];
        tx.write_fresh(new, 0, words.map(u64::to_ne_bytes).as_flattened())?;
        tx.write_word(head, new.at())?;
        Ok(true)
    }

    fn check<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        visit: &mut Visit<'_>,
        pair: &mut Pairs<'_>,
    ) -> Result<()> {
        visit(self.0)?;
        let buckets = self.buckets(tx)?;
        if buckets > tx.usable(self.0)? / WORD - 1 {
            return Err(Error::corrupt(
                "a hash table of more buckets than it has room for",
                self.0,
            ));
        }
        for index in 0..buckets {
            Self::follow(tx, self.head(index), |tx, node| {
                let key = tx.read_word(node.wrapping_add(KEY))?;
                if bucket_of(key, buckets) != index {
                    return Err(Error::corrupt("a key in another's bucket", node));
                }
                visit(node)?;
                pair(key, tx.read_word(node.wrapping_add(VALUE))?)?;
                Ok(false)
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Hash;
    use crate::toggle::tests;

    #[test]
    fn as_the_model() {
        tests::as_the_model::<Hash>(1, 300, 6_000);
        tests::as_the_model::<Hash>(2, 1, 200);
    }

    #[test]
    fn damage_is_an_error() {
        tests::damage_is_an_error::<Hash>(3, 60, 1_000);
    }
}
