//! The moments at which mechanisms are called: what they are told, and what they answer.

use crate::controller::InDram;
use crate::{Cause, Ps};
use perdura_memory::image::{LineWords, Piece};
use std::ops::{BitOr, Range};

/// Moments too frequent to call a mechanism at without need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moments(u16);

impl Moments {
    /// None of them.
    pub const NONE: Moments = Moments(0);
    /// [`Mechanism::accessed`](super::Mechanism::accessed).
    pub const ACCESS: Moments = Moments(1);
    /// [`Mechanism::filled`](super::Mechanism::filled).
    pub const FILL: Moments = Moments(2);
    /// [`Mechanism::evicted`](super::Mechanism::evicted).
    pub const EVICTION: Moments = Moments(4);
    /// [`Mechanism::fetched`](super::Mechanism::fetched), [`Mechanism::dirtied`](super::Mechanism::dirtied), [`Mechanism::leaves`](super::Mechanism::leaves).
    pub const HOME: Moments = Moments(8);
    /// [`Mechanism::departed`](super::Mechanism::departed), [`Mechanism::displaced`](super::Mechanism::displaced).
    pub const CACHES: Moments = Moments(16);
    /// [`Mechanism::accessed`](super::Mechanism::accessed) for stores alone, exchanges and streams included.
    pub const STORE: Moments = Moments(32);

    /// [`Mechanism::accessed`](super::Mechanism::accessed) for programs' own memory too, whose lines are behind those of
    /// the home device; and [`Mechanism::departed`](super::Mechanism::departed), with [`CACHES`](Self::CACHES).
    pub const OWN: Moments = Moments(64);
    /// [`Mechanism::accessed`](super::Mechanism::accessed) for prefetches and write-backs.
    pub const REQUEST: Moments = Moments(128);
    /// [`Mechanism::held`](super::Mechanism::held), in the place for transactions.
    pub const HELD: Moments = Moments(256);

    /// Whether these include some of `others`.
    #[inline(always)]
    pub const fn have(self, others: Moments) -> bool {
        self.0 & others.0 != 0
    }
}

impl BitOr for Moments {
    type Output = Moments;

    fn bitor(self, other: Moments) -> Moments {
        Moments(self.0 | other.0)
    }
}

/// What a core does to a line.
#[derive(Clone, Copy, Debug)]
pub struct Accessed<'a> {
    /// The core.
    pub core: usize,
    /// The line's number.
    pub line: u64,
    /// How.
    pub how: How,
    /// The stores, word by word or byte by byte; empty for loads.
    pub stores: &'a [Piece],
    /// The line's contents before, without the stores of cores that speculate.
    pub before: LineWords,
}

/// How a line is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is loaded.
    Load,
    /// It is stored to.
    Store,
    /// By a locked instruction.
    Exchange,
    /// It is stored past the caches.
    Stream,
    /// It is fetched by a core that does not wait ([`Moments::REQUEST`]).
    Prefetch,
    /// It is written back ([`Moments::REQUEST`]).
    WriteBack,
}

/// What becomes of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It takes place.
    Happens,
    /// Nothing is stored: the core's transaction is lost, and its commit will fail. A prefetch is dropped.
    Lost,
}

/// A dirty line on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// Its number.
    pub line: u64,
    /// Its contents.
    pub words: LineWords,
    /// Why it leaves; [`Cause::Eviction`] also if the DRAM cache needs its room.
    pub cause: Cause,
    /// When it can be written: now, or once it has been read out of the DRAM cache.
    pub from: Ps,
    /// The block of the DRAM cache that it leaves with, with its dirty lines when the first of them left; `None` if the
    /// line leaves alone, as one that a program writes back.
    pub block: Option<InDram>,
}

/// A dirty line that has come into the DRAM cache, or, without one, is about to leave for the home device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirtied {
    /// Its number.
    pub line: u64,
    /// The lines of its block; only itself without a DRAM cache.
    pub block: Range<u64>,
    /// Whether the block was clean before.
    pub first: bool,
}

/// What becomes of a dirty line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Write it.
    Allow,
    /// Write it, no earlier than this.
    After(Ps),
    /// Write it to this line instead.
    Redirect(u64),
    /// Write it to this line instead, no earlier than this.
    RedirectAfter(u64, Ps),
    /// Do not write it: the mechanism has kept it. From this time it is as durable as the mechanism makes it, and a
    /// program that waits for its durability goes on.
    Hold(Ps),
}

/// What the machine writes home at the end of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Nothing.
    Nothing,
    /// Every dirty line of the caches, into volatile DRAM where that caches the home device.
    Caches,
    /// Every dirty line: those of the caches as above, then those in volatile DRAM, block by block.
    Everything,
}
