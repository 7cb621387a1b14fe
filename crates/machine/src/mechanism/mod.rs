//! Mechanisms in hardware: logging, checkpointing, transactions in caches and memory controller.
//!
//! A mechanism is two types. Its [`Design`] exists before the power is on and after a power cut: its name, its figures,
//! the lines that it needs, and its recovery. Its [`Mechanism`] is built from the design in a running machine, and is
//! gone with the power. It is called at these moments, nearest to the core first:
//!
//! | moment | where | asked for |
//! |---|---|---|
//! | [`accessed`](Mechanism::accessed) | a core, before the data changes, hits too | [`Moments::ACCESS`] |
//! | [`filled`](Mechanism::filled) | the caches want a line that none of them has | [`Moments::FILL`] |
//! | [`departed`](Mechanism::departed), [`displaced`](Mechanism::displaced) | a marked line, or a version, leaves a cache | [`Moments::CACHES`] |
//! | [`evicted`](Mechanism::evicted) | a dirty line leaves the caches | [`Moments::EVICTION`] |
//! | [`fetched`](Mechanism::fetched), [`dirtied`](Mechanism::dirtied), [`leaves`](Mechanism::leaves) | between the DRAM cache, or the caches where there is none, and the home device | [`Moments::HOME`] |
//! | [`begin`](Mechanism::begin), [`commit`](Mechanism::commit), [`abort`](Mechanism::abort), [`flush`](Mechanism::flush) | a program's transaction | always |
//! | [`due`](Mechanism::due) | a scheduled time | always |
//! | [`end_epoch`](Mechanism::end_epoch), [`epoch_is_home`](Mechanism::epoch_is_home) | the end of an epoch | always |
//!
//! Every method does nothing unless it is overridden; a moment that a mechanism does not ask for costs the machine one
//! test of a bit. Neither the caches nor the controller name any mechanism. A mechanism may use [`Hardware`].
//!
//! A machine has two places for mechanisms: one for transactions, which is nearer to the cores and is called first,
//! and one for persistence. A mechanism is never called about what it does itself.
//!
//! Reading order: this file, [`home`] (recovery), [`list`](mod@list) (all mechanisms by name), then any mechanism.

mod copy_on_write;
mod h_wal;
pub mod home;
mod in_order;
mod kiln;
pub mod list;
mod loc_wal;
mod transactions;
mod undo_log;

pub use copy_on_write::{CopyOnWrite, CopyOnWriteConfig};
pub use h_wal::HardwareWal;
pub use home::Home;
pub use in_order::{InOrder, InOrderConfig};
pub use kiln::{Kiln, KilnConfig, LocKilnConfig};
pub use list::{Kind, Mutant};
pub use loc_wal::{LocConfig, LooseOrdering};
pub use transactions::{CacheTag, LogConfig, Overhead, TX_STATE_ENTRIES};
pub use undo_log::{HardwareUndoLog, UndoLogConfig};

pub use crate::cache::{Departure, DepartureReason, HeldVersion, Version, VictimRule};
pub use crate::controller::Fetch;

use crate::hardware::Hardware;
use crate::{Cause, Ps};
use perdura_memory::image::{LineWords, Piece};
use perdura_memory::{HardwareAbort, HardwareTicket};
use std::ops::{BitOr, Range};

/// A mechanism's design, which exists whether the power is on or not.
pub trait Design: Send + Sync {
    /// Its name in results.
    fn name(&self) -> &'static str;

    /// Lines of the home device that it needs for itself, on a machine with `lines` lines of the program's.
    fn reserves(&self, lines: u64) -> u64 {
        let _ = lines;
        0
    }

    /// What memory is like after a power cut and recovery.
    fn promises(&self) -> Promise {
        Promise::Nothing
    }

    /// Builds the mechanism when the machine is switched on, after [`recover`](Self::recover) if it was used before.
    /// `own` are its reserved lines, after all lines that the program's memory can grow to: zero, or as recovery has
    /// left them.
    fn build(&self, hardware: &mut Hardware, own: Range<u64>) -> Box<dyn Mechanism>;

    /// Recovery when the power is back: brings the home device to a state that programs may see. The power may be cut
    /// again after any of its stores; then it begins again.
    fn recover(&self, home: &mut Home<'_>) {
        let _ = home;
    }
}

/// What a mechanism promises about memory after recovery, whatever write-backs and fences programs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// What the persistency model says.
    Nothing,
    /// Memory as at the end of the last durable epoch ([`Hardware::promise`]).
    Epoch,
    /// Memory as after some store: all stores of all cores up to that one, and none after it. Nothing that a fence has
    /// waited for is lost.
    Order,
    /// Memory as after some transaction's commit: all transactions committed up to it, and nothing of any later
    /// one. No transaction is lost that was acknowledged as durable. Nothing is promised about words that are stored to
    /// outside transactions.
    Transactions,
}

/// A mechanism in a machine that runs. All methods run at [`Hardware::now`], with the time that they take charged to
/// the core that caused them.
pub trait Mechanism: Send {
    /// The frequent moments at which it is called.
    fn moments(&self) -> Moments {
        Moments::NONE
    }

    /// A core accesses words of a line, in the caches or not; the stores have not changed the data yet.
    fn accessed(&mut self, hardware: &mut Hardware, access: &Accessed<'_>) -> Effect {
        let _ = (hardware, access);
        Effect::Happens
    }

    /// The caches fetch `line` for a core's load or store. Returns the line that holds its contents, usually `line`.
    fn filled(&mut self, hardware: &mut Hardware, core: usize, line: u64) -> u64 {
        let _ = (hardware, core);
        line
    }

    /// A [marked](crate::cache::Hierarchy::mark) line has left a cache of some level. Other caches may still have it
    /// ([`anywhere`](crate::cache::Hierarchy::anywhere)).
    fn departed(&mut self, hardware: &mut Hardware, departure: &Departure) {
        let _ = (hardware, departure);
    }

    /// A [version](Hardware::put_version) was replaced in its cache. It is gone, unless the mechanism puts it
    /// elsewhere.
    fn displaced(&mut self, hardware: &mut Hardware, version: &HeldVersion) {
        let _ = (hardware, version);
    }

    /// A dirty line is about to leave the caches.
    fn evicted(&mut self, hardware: &mut Hardware, leaving: &Leaving) -> Verdict {
        let _ = (hardware, leaving);
        Verdict::Allow
    }

    /// A block is fetched from the home device, for the DRAM cache, or a single line for the caches. `places` has the
    /// block's own lines, and may be changed to the lines that hold their contents; the last of them may be beyond the
    /// program's lines. Returns when fetching may begin: [`Fetch::now`], or later.
    fn fetched(&mut self, hardware: &mut Hardware, fetch: &Fetch, places: &mut [u64]) -> Ps {
        let _ = (hardware, places);
        fetch.now
    }

    /// A block of the DRAM cache, with these lines, has got its first dirty line; without a DRAM cache, a line has left
    /// the caches.
    fn dirtied(&mut self, hardware: &mut Hardware, block: Range<u64>) {
        let _ = (hardware, block);
    }

    /// A dirty line is about to be written to the home device.
    fn leaves(&mut self, hardware: &mut Hardware, leaving: &Leaving) -> Verdict {
        let _ = (hardware, leaving);
        Verdict::Allow
    }

    /// A core begins a transaction.
    ///
    /// # Errors
    /// Why it cannot begin now.
    fn begin(&mut self, hardware: &mut Hardware, core: usize) -> Result<(), HardwareAbort> {
        let _ = (hardware, core);
        Ok(())
    }

    /// A core commits its transaction, which is durable when [`durable`](Self::durable) says so; a mechanism that does
    /// not make transactions durable reports it at once.
    ///
    /// # Errors
    /// Why it is aborted instead. Its stores are not visible then.
    fn commit(
        &mut self,
        hardware: &mut Hardware,
        core: usize,
    ) -> Result<HardwareTicket, HardwareAbort> {
        let _ = (hardware, core);
        Ok(HardwareTicket::DURABLE)
    }

    /// A core aborts its transaction, if it has one. Returns whether its stores are undone.
    fn abort(&mut self, hardware: &mut Hardware, core: usize) -> bool {
        let _ = (hardware, core);
        false
    }

    /// A core waits until its committed transactions are durable.
    fn flush(&mut self, hardware: &mut Hardware, core: usize) {
        let _ = (hardware, core);
    }

    /// The last ticket that is durable, with all before it.
    fn durable(&mut self, hardware: &mut Hardware) -> HardwareTicket {
        let _ = hardware;
        HardwareTicket::LAST
    }

    /// Called at the time, and with the number, given to [`Hardware::schedule`].
    fn due(&mut self, hardware: &mut Hardware, number: u64) {
        let _ = (hardware, number);
    }

    /// An epoch ends. Returns what the machine is to write home now, while all cores wait. Each of those lines
    /// [leaves](Self::leaves) before [`epoch_is_home`](Self::epoch_is_home).
    fn end_epoch(&mut self, hardware: &mut Hardware) -> Flush {
        let _ = hardware;
        Flush::Nothing
    }

    /// The flush that [`end_epoch`](Self::end_epoch) has requested is over at `home`; all lines are durable then if it
    /// was [`Flush::Everything`].
    fn epoch_is_home(&mut self, hardware: &mut Hardware, home: Ps) {
        let _ = (hardware, home);
    }

    /// The power is cut: the mechanism saves into `home` (the program's lines, then the reserved ones) what residual
    /// energy allows.
    fn power_cut(&self, home: &mut [u64]) {
        let _ = home;
    }

    /// Its figures, for the statistics.
    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Moments too frequent to call a mechanism at without need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moments(u8);

impl Moments {
    /// None of them.
    pub const NONE: Moments = Moments(0);
    /// [`Mechanism::accessed`].
    pub const ACCESS: Moments = Moments(1);
    /// [`Mechanism::filled`].
    pub const FILL: Moments = Moments(2);
    /// [`Mechanism::evicted`].
    pub const EVICTION: Moments = Moments(4);
    /// [`Mechanism::fetched`], [`Mechanism::dirtied`], [`Mechanism::leaves`].
    pub const HOME: Moments = Moments(8);
    /// [`Mechanism::departed`], [`Mechanism::displaced`].
    pub const CACHES: Moments = Moments(16);

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
    /// The line's contents before.
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
}

/// What becomes of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It takes place.
    Happens,
    /// Nothing is stored: the core's transaction is lost, and its commit will fail.
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
    /// Every dirty line, those in volatile DRAM included.
    Everything,
}

/// No mechanism.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Design for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn build(&self, _: &mut Hardware, _: Range<u64>) -> Box<dyn Mechanism> {
        Box::new(Plain)
    }
}

impl Mechanism for Plain {}
