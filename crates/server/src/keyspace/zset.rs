//! Sorted sets: a hash map from members to scores, and an ordered map of both.
//!
//! The entry leads to a block of two words, the offsets of the two. Only the ordered map counts
//! its entries: it must, for ranks.

use super::entry::{Entry, Form, Kind};
use super::{Database, Short};
use perdura::collections::ordered_map::Cursor;
use perdura::collections::{HashMap, OrderedMap, Pair, Total};
use perdura::{Error, Ptr, Purpose, Result, Tx, TxExt};

pub(super) type Scores = HashMap<Short, f64, false>;
type Order = OrderedMap<Pair<Total, Short>, (), true>;

/// A sorted set: a handle to it.
#[derive(Clone, Copy)]
pub(crate) struct SortedSet {
    at: u64,
    pub(super) scores: Scores,
    pub(super) order: Order,
}

/// A member's score, and its address.
#[derive(Clone, Copy)]
pub(crate) struct MemberScore {
    at: Ptr<f64>,
    pub(crate) score: f64,
}

/// A walk over members in order, one way or the other.
pub(crate) struct Walk {
    cursor: Cursor<Pair<Total, Short>, ()>,
    backwards: bool,
}

impl Walk {
    /// The next member and its score.
    pub(crate) fn next(&mut self, tx: &mut dyn Tx) -> Result<Option<(f64, Vec<u8>)>> {
        let next = if self.backwards { self.cursor.prev(tx)? } else { self.cursor.next(tx)? };
        Ok(next.map(|((score, member), ())| (score.0, member)))
    }
}

/// A place between members.
#[derive(Clone, Debug)]
pub(crate) enum Edge {
    /// Before all members of this score.
    Before(f64),
    /// After all members of this score.
    After(f64),
    /// Before this member.
    BeforeMember(f64, Vec<u8>),
    /// After this member.
    AfterMember(f64, Vec<u8>),
}

/// There is one zero: the order must not tell it from its negative.
fn plain(score: f64) -> f64 {
    score + 0.0
}

impl SortedSet {
    /// The sorted set of an entry.
    pub(crate) fn load(tx: &mut dyn Tx, entry: Entry) -> Result<Self> {
        Self::at_block(tx, entry.at())
    }

    /// The sorted set whose block is at `at`.
    pub(super) fn at_block(tx: &mut dyn Tx, at: u64) -> Result<Self> {
        let scores = Scores::new(tx.read_word(at)?);
        let order = Order::new(tx.read_word(at + 8)?);
        Ok(SortedSet { at, scores, order })
    }

    /// A new, empty one, to be put into `db`.
    pub(crate) fn create(tx: &mut dyn Tx, db: Database) -> Result<Self> {
        let order = Order::create(tx)?;
        let seed = db.seed_for(tx, order.at())?;
        let scores = Scores::create_seeded(tx, seed)?;
        let new = tx.allocate(Purpose::General, 16)?;
        tx.write_fresh(new, 0, bytemuck::bytes_of(&[scores.at(), order.at()]))?;
        Ok(SortedSet { at: new.at(), scores, order })
    }

    /// Its entry, which never expires.
    pub(crate) fn entry(self) -> Entry {
        Entry::outside(Kind::SortedSet, Form::Ranking, self.at)
    }

    pub(crate) fn len(self, tx: &mut dyn Tx) -> Result<u64> {
        self.order.len(tx)
    }

    pub(crate) fn score(self, tx: &mut dyn Tx, member: &[u8]) -> Result<Option<f64>> {
        directly!(tx => self.scores.get(tx, member))
    }

    /// Looks for a member.
    pub(crate) fn find(self, tx: &mut dyn Tx, member: &[u8]) -> Result<Option<MemberScore>> {
        directly!(tx => {
            let Some(at) = self.scores.slot(tx, member)? else { return Ok(None) };
            Ok(Some(MemberScore { at, score: tx.read(at)? }))
        })
    }

    /// Adds a member, or changes its score: `old` is what was [found](Self::find), since when no member was added or removed.
    pub(crate) fn set(
        self,
        tx: &mut dyn Tx,
        member: &[u8],
        old: Option<MemberScore>,
        score: f64,
    ) -> Result<()> {
        let score = plain(score);
        match old {
            None => directly!(tx => {
                self.order.set(tx, (Total(score), member), ())?;
                self.scores.set(tx, member, score)?;
                Ok(())
            }),
            Some(old) if old.score == score => Ok(()),
            Some(old) => directly!(tx => {
                if !self.order.set_first(tx, (Total(old.score), member), Total(score))? {
                    return Err(Error::corrupt("a sorted set that lacks a member's score", self.at));
                }
                tx.write(old.at, score)
            }),
        }
    }

    /// Removes a member. Whether it was there.
    pub(crate) fn remove(self, tx: &mut dyn Tx, member: &[u8]) -> Result<bool> {
        let Some(score) = self.scores.remove(tx, member)? else { return Ok(false) };
        self.order.remove(tx, (Total(score), member))?;
        Ok(true)
    }

    /// How many members are before a place.
    pub(crate) fn count_before(self, tx: &mut dyn Tx, edge: &Edge) -> Result<u64> {
        let (score, member) = match edge {
            Edge::Before(score) => (plain(*score), b"".as_slice()),
            // In the order of the map, this is all that comes after infinity.
            Edge::After(f64::INFINITY) => (f64::NAN, b"".as_slice()),
            Edge::After(score) => (score.next_up(), b"".as_slice()),
            Edge::BeforeMember(score, member) | Edge::AfterMember(score, member) => {
                (*score, member.as_slice())
            }
        };
        let (rank, there) = self.order.rank(tx, (Total(score), member))?;
        Ok(rank + u64::from(there && matches!(edge, Edge::AfterMember(..))))
    }

    /// Walks from before the member that has `rank` others before it; backwards, from after it.
    pub(crate) fn walk_at(self, tx: &mut dyn Tx, rank: u64, backwards: bool) -> Result<Walk> {
        let rank = if backwards { rank + 1 } else { rank };
        Ok(Walk { cursor: self.order.at_index(tx, rank)?, backwards })
    }

    /// The member that has `rank` others before it, and its score.
    pub(crate) fn nth(self, tx: &mut dyn Tx, rank: u64) -> Result<Option<(f64, Vec<u8>)>> {
        Ok(self.order.nth(tx, rank)?.map(|((score, member), ())| (score.0, member)))
    }

    /// The greatest score.
    pub(crate) fn greatest(self, tx: &mut dyn Tx) -> Result<Option<f64>> {
        Ok(self.order.last(tx)?.map(|((score, _), ())| score.0))
    }

    /// The least score.
    pub(crate) fn least(self, tx: &mut dyn Tx) -> Result<Option<f64>> {
        Ok(self.order.first(tx)?.map(|((score, _), ())| score.0))
    }

    /// About `count` members from the cursor on, and the cursor to go on with.
    #[allow(clippy::type_complexity)]
    pub(crate) fn scan(
        self,
        tx: &mut dyn Tx,
        cursor: u64,
        count: u64,
    ) -> Result<(u64, Vec<(Vec<u8>, f64)>)> {
        self.scores.scan(tx, cursor, count)
    }

    /// Where its block is.
    pub(super) fn at(self) -> u64 {
        self.at
    }
}
