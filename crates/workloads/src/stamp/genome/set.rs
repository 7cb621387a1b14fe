//! A set of segments: a bucket for each nucleotide of the gene, chains in the segments' order.

use super::gene::Segment;
use crate::Computation;
use crate::stamp::block::{self, word};
use perdura::{Error, Result, Tx};

/// A longer chain has a cycle.
const LONGEST: usize = 1 << 24;

/// The set whose buckets are there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Set {
    pub(super) at: u64,
    pub(super) buckets: u64,
}

impl Set {
    /// Inserts a segment; false if it is there. Its nucleotides are hashed one by one, and it is compared as a whole.
    pub(super) fn insert<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        segment: Segment,
        computation: &Computation,
    ) -> Result<bool> {
        let [high, low] = segment.words();
        computation.charge(segment.len());
        let mut link = word(self.at, segment.hash() % self.buckets);
        for _ in 0..LONGEST {
            let node = tx.read_word(link)?;
            let here = if node == 0 { None } else { Some(Self::words(tx, node)?) };
            computation.charge(1);
            match here {
                Some(here) if here == [high, low] => return Ok(false),
                Some(here) if here < [high, low] => link = node,
                _ => {
                    let new = block::new(tx, [node, high, low])?;
                    tx.write_word(link, new)?;
                    return Ok(true);
                }
            }
        }
        Err(self.endless())
    }

    fn words<T: Tx + ?Sized>(tx: &mut T, node: u64) -> Result<[u64; 2]> {
        Ok([tx.read_word(word(node, 1))?, tx.read_word(word(node, 2))?])
    }

    /// The segment of a node.
    pub(super) fn segment<T: Tx + ?Sized>(tx: &mut T, node: u64, len: u64) -> Result<Segment> {
        Ok(Segment::from_words(Self::words(tx, node)?, len))
    }

    /// The nodes and segments of a bucket.
    pub(super) fn bucket<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        bucket: u64,
        len: u64,
    ) -> Result<Vec<(u64, Segment)>> {
        let (mut all, mut node) = (Vec::new(), tx.read_word(word(self.at, bucket))?);
        while node != 0 {
            if all.len() == LONGEST {
                return Err(self.endless());
            }
            all.push((node, Self::segment(tx, node, len)?));
            node = tx.read_word(node)?;
        }
        Ok(all)
    }

    #[cold]
    fn endless(self) -> Error {
        Error::corrupt("a chain of segments without an end", self.at)
    }
}
