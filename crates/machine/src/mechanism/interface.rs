//! The interface of mechanisms: a [`Design`], and the [`Mechanism`] that it builds.

use super::epochs::{AwaitedEpoch, EpochTickets};
use super::home::Home;
use super::moments::{Accessed, Dirtied, Effect, Flush, Leaving, Moments, Verdict};
use super::promise::Promise;
use crate::cache::{Departure, HeldVersion};
use crate::controller::Fetch;
use crate::hardware::Hardware;
use crate::{MachineConfig, Ps};
use perdura_memory::{HardwareAbort, HardwareTicket, Speculation};
use std::ops::Range;

/// A mechanism's design, which exists whether the power is on or not.
pub trait Design: Send + Sync {
    /// Its name in results.
    fn name(&self) -> &'static str;

    /// Lines of the home device that it needs for itself, on a machine with `lines` lines of the program's.
    fn reserves(&self, lines: u64) -> u64 {
        let _ = lines;
        0
    }

    /// Lines that it needs beside those for each core of the machine.
    fn reserves_for_each_core(&self) -> u64 {
        0
    }

    /// Bytes of the DRAM in front of the home device that it needs for itself: the cache there has so much less. Nothing on
    /// a machine without such a cache.
    fn reserves_dram(&self) -> u64 {
        0
    }

    /// Whether it can be part of this machine, which has as many cores as programs will run on.
    ///
    /// # Errors
    /// The figure of the machine or of the mechanism that forbids it, and what to change.
    fn fits(&self, machine: &MachineConfig) -> Result<(), String> {
        let _ = machine;
        Ok(())
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

/// A mechanism in a machine that runs. All methods run at [`Hardware::now`], with the time that they take charged to
/// the core that caused them.
pub trait Mechanism: Send {
    /// The frequent moments at which it is called.
    fn moments(&self) -> Moments {
        Moments::NONE
    }

    /// A core accesses words of a line, in the caches or not; the stores have not changed the data yet. The mechanism in
    /// the place for persistence is told of a speculation's stores when it commits, line by line.
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

    /// A dirty line has come into the DRAM cache; without one, it has left the caches.
    fn dirtied(&mut self, hardware: &mut Hardware, dirtied: &Dirtied) {
        let _ = (hardware, dirtied);
    }

    /// A dirty line is about to be written to the home device.
    fn leaves(&mut self, hardware: &mut Hardware, leaving: &Leaving) -> Verdict {
        let _ = (hardware, leaving);
        Verdict::Allow
    }

    /// A core begins a speculation, which the mechanism in the place for transactions makes. From
    /// [`Hardware::hold_stores`], which it calls, until the commit, or until it calls [`Hardware::lose`], the core's
    /// stores are held back.
    ///
    /// # Errors
    /// Why it cannot begin now; [`Absent`](HardwareAbort::Absent) if the mechanism makes none.
    fn speculate(&mut self, hardware: &mut Hardware, core: usize) -> Result<(), HardwareAbort> {
        let _ = (hardware, core);
        Err(HardwareAbort::Absent)
    }

    /// What it does for speculations.
    fn speculation(&self) -> Speculation {
        Speculation::Absent
    }

    /// A core that speculates has stored these words of the pool, given by their offsets and as they are now.
    fn held(&mut self, hardware: &mut Hardware, core: usize, words: &[(u64, u64)]) {
        let _ = (hardware, core, words);
    }

    /// A core's program wants to commit its speculation. Other cores go on between this and [`prepare`](Self::prepare),
    /// at which it may still be lost. Called if [speculations are durable](Speculation::Durable).
    fn complete(&mut self, hardware: &mut Hardware, core: usize) {
        let _ = (hardware, core);
    }

    /// A core is about to commit its speculation. If the mechanism does not [lose](Hardware::lose) it here, its
    /// [`commit`](Self::commit) cannot fail; it may still be [lost](Self::is_lost) where the other mechanism refuses.
    fn prepare(&mut self, hardware: &mut Hardware, core: usize) {
        let _ = (hardware, core);
    }

    /// A core's speculation is lost, by something that this mechanism has not noticed.
    fn is_lost(&mut self, hardware: &mut Hardware, core: usize, why: HardwareAbort) {
        let _ = (hardware, core, why);
    }

    /// A core's program has learned that its speculation is lost: the mechanism charges what that takes.
    fn ended(&mut self, hardware: &mut Hardware, core: usize) {
        let _ = (hardware, core);
    }

    /// A core begins a transaction, in the place for persistence; a speculation is one too.
    ///
    /// # Errors
    /// Why it cannot begin now.
    fn begin(&mut self, hardware: &mut Hardware, core: usize) -> Result<(), HardwareAbort> {
        let _ = (hardware, core);
        Ok(())
    }

    /// A core commits its transaction or, in the place for transactions, its speculation, which is durable when
    /// [`durable`](Self::durable) says so; a mechanism that does not make transactions durable reports it at once. From
    /// here on lines that leave the caches have the speculation's stores; programs see them as committed when this
    /// returns.
    ///
    /// # Errors
    /// Why it is aborted instead. Its stores are not visible then.
    fn commit(
        &mut self,
        hardware: &mut Hardware,
        core: usize,
    ) -> Result<HardwareTicket, HardwareAbort> {
        let _ = hardware;
        Ok(self.tickets().map_or(HardwareTicket::DURABLE, |tickets| tickets.commit(core)))
    }

    /// A core aborts its transaction, if it has one. Returns whether its stores are undone.
    fn abort(&mut self, hardware: &mut Hardware, core: usize) -> bool {
        let _ = (hardware, core);
        false
    }

    /// A core waits until its committed transactions are durable.
    fn flush(&mut self, hardware: &mut Hardware, core: usize) {
        match self.tickets().map(|tickets| tickets.awaited(core)) {
            Some(AwaitedEpoch::Open) => hardware.await_epoch_end(core),
            Some(AwaitedEpoch::Ended(durable)) => hardware.wait_until(core, durable),
            None => {}
        }
    }

    /// The last ticket that is durable, with all before it.
    fn durable(&mut self, hardware: &mut Hardware) -> HardwareTicket {
        let now = hardware.now();
        self.tickets().map_or(HardwareTicket::LAST, |tickets| tickets.durable(now))
    }

    /// Its epochs, if it makes them durable: a commit is as durable as its epoch then.
    fn tickets(&mut self) -> Option<&mut EpochTickets> {
        None
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
    /// was [`Flush::Everything`]. If it was [`Flush::Caches`], a DRAM cache has them.
    fn epoch_is_home(&mut self, hardware: &mut Hardware, home: Ps) {
        let _ = (hardware, home);
    }

    /// The power is cut: the mechanism saves into `home` (the program's lines, then the reserved ones) what residual
    /// energy allows.
    fn power_cut(&self, home: &mut [u64]) {
        let _ = home;
    }

    /// Measuring begins: whatever its [figures](Self::figures) count is counted, and each maximum taken, from here on.
    fn start_measuring(&mut self) {}

    /// Its figures, for the statistics.
    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
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
