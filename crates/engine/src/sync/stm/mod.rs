//! Software transactional memory: transactions run concurrently, and one whose reads another has changed meanwhile runs
//! again.
//!
//! Word-based, with an ownership record for each line (by a hash), buffered writes, locks taken at commit, and
//! invisible reads that are checked against a clock: TL2 (Dice, Shalev and Shavit, DISC 2006), with LSA's extension of
//! a transaction's moment (Riegel, Felber and Fetzer, DISC 2006), on which Mnemosyne and Trinity-TL2 build too. Two
//! things differ, so that no word is written by every transaction:
//! - *The clock is moved only when it matters.* A commit takes the number after the clock's, and leaves the clock as it
//!   is (TL2's GV5). Reading another session's word with a later number than the transaction's moment moves the clock
//!   to that number; reading words of its own session never does. Sessions that share nothing never write the clock.
//! - *Waiting is by priority*, so that there are no cycles: a commit waits for the lock of a session with a higher
//!   number, and gives way to one with a lower number. After some conflicts in a row a transaction runs [alone](lanes).
//!
//! What always holds:
//! - A running transaction has seen one committed state, whether it commits or not (opacity).
//! - Of two commits that touch the same word, one of which writes it, the later one has the later [stamp](Stamp); and
//!   the commits with numbers up to any one are closed: none of them has seen one with a higher number, nor overwritten
//!   anything of one, and what they have read was changed, if at all, by commits with higher numbers.
//! - Locks are held until the commit is durable, if it is to be: everything that has been seen is durable. (Except on a
//!   block device, where a commit that has seen another has a later [ticket](crate::optimistic).)
//! - A word is stored in place only while its ownership record is locked; or in memory that no running transaction can
//!   reach ([`Lanes::horizon`]).
//!
//! Reading order: `stamp`, `clock`, `records`, `lanes` (sessions, and the exclusion of commits); snapshots read
//! [`Versions`](crate::writes::Versions); the transaction itself is in [`optimistic`](crate::optimistic).

mod clock;
mod lanes;
mod records;
mod stamp;

pub(crate) use clock::{Clock, Moment};
pub(crate) use lanes::{Begun, Lane, Lanes};
pub(crate) use records::{Locked, RecordWord, Records, RecordsView};
pub(crate) use stamp::Stamp;

/// Software transactional memory, as half of a pair. Its transactions can fence before they make their stores visible,
/// so that it is safe wherever a lock is.
pub struct Stm;

/// Which transactions run concurrently, and how: the other half of a pair.
pub trait Concurrency: Send + Sync + 'static {
    /// Whether bodies run in the memory's hardware, where it has some.
    const SPECULATES: bool = false;
}

impl Concurrency for Stm {}
