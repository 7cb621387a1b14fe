//! Software transactional memory: transactions run concurrently, and one that has read what another one has
//! changed meanwhile runs again.
//!
//! Word-based, with an ownership record for each line (a hash of it), buffered writes, locks taken at commit, and
//! invisible reads that are checked against a clock: TL2 (Dice, Shalev and Shavit, DISC 2006), with the extension of a
//! transaction's moment of LSA (Riegel, Felber and Fetzer, DISC 2006), as Mnemosyne and Trinity-TL2 build on. Two things
//! differ, so that no word is written by every transaction:
//! - *The clock is only moved when it matters.* A commit takes the number after the clock's, and leaves the clock as it
//!   is (TL2's GV5). What a transaction reads of another session with a later number than its own moment moves the
//!   clock there; what it reads of its own session never does. Sessions that share nothing never write the clock.
//! - *Waiting is by priority*, so that it cannot become a circle: a commit waits for the lock of a session with a higher
//!   number, and gives way to one with a lower number. After some conflicts in a row a transaction runs [alone](lanes).
//!
//! What always holds:
//! - A transaction that is running has seen one committed state, whatever becomes of it (opacity).
//! - Of two commits that touch the same word, one of which writes it, the later one has the later [stamp](Stamp); and
//!   the commits with numbers up to any one are closed: none of them has seen one with a higher number, nor was
//!   overtaken by it (what it has read, one with a higher number has changed, if any).
//! - Locks are held until the commit is durable, where it is to be: what has been seen is durable. (But on a block device:
//!   what has seen it has a later [ticket](crate::optimistic) there.)
//! - A word is stored in place only while its ownership record is locked; or in memory that no transaction which is
//!   running can reach ([`Lanes::horizon`]).
//!
//! Reading order: `stamp`, `clock`, `records`, `lanes` (sessions, and what excludes them); what snapshots read is
//! [`Versions`](crate::writes::Versions); the transaction itself is [`optimistic`](crate::optimistic).

mod clock;
mod lanes;
mod records;
mod stamp;

pub(crate) use clock::{Clock, Moment};
pub(crate) use lanes::{Begun, Lane, Lanes};
pub(crate) use records::{Locked, Records, Word};
pub(crate) use stamp::Stamp;

/// Software transactional memory, as half of a pair. Its transactions can fence before they let others see what they
/// have stored, so that it is safe wherever a lock is.
pub struct Stm;
