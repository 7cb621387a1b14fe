//! The place for mechanisms in hardware: logging, checkpointing, transactions in the memory
//! controller.
//!
//! A [`Mechanism`] is consulted at each of the machine's moments. Every method does nothing
//! unless it is overridden, so that a mechanism says only what it changes; neither the caches nor
//! the controller name any. What it may use is [`Hardware`]: the clock, the home device, and the
//! lines beyond the program's that it has reserved for itself.

mod undo_log;

pub use undo_log::HardwareUndoLog;

use crate::hardware::Hardware;
use crate::{Cause, Ps};

/// What is to be done with a dirty line that is about to be written to its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Write it, now.
    Allow,
    /// Write it, and let it be durable no earlier than this.
    After(Ps),
    /// Write it to this line instead.
    Redirect(u64),
    /// Do not write it: the mechanism has kept it.
    Hold,
}

/// A mechanism in hardware. All methods run at [`Hardware::now`], with the time that they take
/// charged to the core that caused them.
pub trait Mechanism: Send {
    /// Its name in results.
    fn name(&self) -> &'static str;

    /// Lines of the home device that it needs for itself, beside `lines` of the program's.
    fn reserves(&self, lines: u64) -> u64 {
        let _ = lines;
        0
    }

    /// The machine is switched on; the reserved lines begin at `first`.
    fn start(&mut self, hardware: &mut Hardware, first: u64) {
        let _ = (hardware, first);
    }

    /// The caches fetch `line` for a core, which loads it or stores to it. Another line if that
    /// one of the home device holds what is wanted.
    fn load(&mut self, hardware: &mut Hardware, core: usize, line: u64) -> u64 {
        let _ = (hardware, core);
        line
    }

    /// A core has stored to `line`.
    fn store(&mut self, hardware: &mut Hardware, core: usize, line: u64) {
        let _ = (hardware, core, line);
    }

    /// A dirty line is about to leave the caches for its home.
    fn evict(&mut self, hardware: &mut Hardware, line: u64, cause: Cause) -> Verdict {
        let _ = (hardware, line, cause);
        Verdict::Allow
    }

    /// A core begins a transaction.
    fn begin(&mut self, hardware: &mut Hardware, core: usize) {
        let _ = (hardware, core);
    }

    /// A core commits its transaction.
    fn commit(&mut self, hardware: &mut Hardware, core: usize) {
        let _ = (hardware, core);
    }

    /// A core aborts its transaction.
    fn abort(&mut self, hardware: &mut Hardware, core: usize) {
        let _ = (hardware, core);
    }

    /// Whether it wants the epoch to end before the next access.
    fn wants_epoch_end(&self) -> bool {
        false
    }

    /// The epoch ends: all cores wait until this returns.
    fn end_epoch(&mut self, hardware: &mut Hardware) {
        let _ = hardware;
    }

    /// The power is cut: what it can still save, on the energy that is left, it saves into
    /// `home` (the program's lines, then the reserved ones).
    fn power_cut(&self, home: &mut [u64]) {
        let _ = home;
    }

    /// The power is back: brings `home` to a state that programs may see. May itself be cut
    /// short, after any of its stores, and begin again.
    fn recover(&self, home: &mut Home<'_>) {
        let _ = home;
    }

    /// Its figures, for the statistics.
    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// No mechanism.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Mechanism for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }
}

/// The home device while a mechanism recovers: each store is durable at once, and the power may
/// be cut after any of them.
pub struct Home<'a> {
    words: &'a mut [u64],
    first_reserved: u64,
    left: u64,
}

impl<'a> Home<'a> {
    /// A device with `words`, the reserved lines from `first_reserved` on; stores after the first
    /// `stores` are lost.
    pub fn new(words: &'a mut [u64], first_reserved: u64, stores: u64) -> Self {
        Home { words, first_reserved, left: stores }
    }

    /// The first line that is the mechanism's own.
    pub fn first_reserved(&self) -> u64 {
        self.first_reserved
    }

    /// Lines in all.
    pub fn lines(&self) -> u64 {
        self.words.len() as u64 / 8
    }

    /// A line.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn line(&self, line: u64) -> [u64; 8] {
        let first = line as usize * 8;
        self.words[first..first + 8].try_into().expect("eight words")
    }

    /// Stores a line.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn put(&mut self, line: u64, words: &[u64; 8]) {
        let first = line as usize * 8;
        if self.left > 0 {
            self.left -= 1;
            self.words[first..first + 8].copy_from_slice(words);
        }
    }

    /// Whether stores have been lost.
    pub fn is_cut(&self) -> bool {
        self.left == 0
    }
}
