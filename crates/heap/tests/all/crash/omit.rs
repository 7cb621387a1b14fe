//! A memory that leaves out the write-backs, streams or fences of one call site.

use crate::crash::Cuttable;
use perdura::{Domain, Memory, Survives};
use perdura_memory::Reference;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::panic::Location;
use std::sync::{Arc, Mutex};

/// A call of `write_back`, `stream` or `fence` in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Site {
    what: &'static str,
    file: &'static str,
    line: u32,
}

impl Site {
    /// Whether it makes durable what a process that has died may have left.
    pub(crate) fn is_for_the_dead(&self) -> bool {
        ["engine/src/log/left.rs", "heap/src/superblock.rs"]
            .iter()
            .any(|file| self.file.ends_with(file))
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.rsplit("crates/").next().unwrap_or_default();
        write!(f, "{} {file}:{}", self.what, self.line)
    }
}

/// The sites that a family of memories has met.
pub(crate) type Sites = Arc<Mutex<BTreeSet<Site>>>;

/// The memory.
pub(crate) struct Omitting {
    inner: Reference,
    omitted: Option<Site>,
    met: Sites,
    /// Events at which something was left out.
    left_out: Mutex<Vec<u64>>,
}

impl Omitting {
    /// Leaves out what `omitted` asks for, and notes all sites in `met`.
    pub(crate) fn new(inner: Reference, omitted: Option<Site>, met: &Sites) -> Self {
        Omitting { inner, omitted, met: met.clone(), left_out: Mutex::default() }
    }

    fn skips(&self, what: &'static str, at: &'static Location<'static>) -> bool {
        let site = Site { what, file: at.file(), line: at.line() };
        if self.omitted.is_none() {
            self.met.lock().unwrap().insert(site);
        }
        if self.omitted == Some(site) {
            self.left_out.lock().unwrap().push(self.inner.events());
        }
        self.omitted == Some(site)
    }
}

impl Cuttable for Omitting {
    fn inner(&self) -> &Reference {
        &self.inner
    }

    fn suspects(&self) -> Vec<u64> {
        self.left_out.lock().unwrap().clone()
    }
}

// SAFETY: a `Reference` with less durability, which is what is tested.
unsafe impl Memory for Omitting {
    fn domain(&self) -> Domain {
        self.inner.domain()
    }

    fn survives(&self) -> Survives {
        self.inner.survives()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn limit(&self) -> u64 {
        self.inner.limit()
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        self.inner.grow(len)
    }

    unsafe fn load_unchecked(&self, at: u64) -> u64 {
        self.inner.load(at)
    }

    unsafe fn store_unchecked(&self, at: u64, value: u64) {
        self.inner.store(at, value);
    }

    unsafe fn copy_out_unchecked(&self, at: u64, to: &mut [u8]) {
        self.inner.copy_out(at, to);
    }

    unsafe fn copy_in_unchecked(&self, at: u64, from: &[u8]) {
        self.inner.copy_in(at, from);
    }

    unsafe fn stream_unchecked(&self, at: u64, from: &[u64]) {
        self.inner.stream(at, from);
    }

    fn compare_exchange(&self, at: u64, old: u64, new: u64) -> Result<u64, u64> {
        self.inner.compare_exchange(at, old, new)
    }

    #[track_caller]
    fn write_back(&self, at: u64, len: u64) {
        if !self.skips("write-back", Location::caller()) {
            self.inner.write_back(at, len);
        }
    }

    /// Left out, the words are stored all the same, but nothing is asked for.
    #[track_caller]
    fn stream(&self, at: u64, from: &[u64]) {
        if self.skips("stream", Location::caller()) {
            self.inner.copy_in(at, bytemuck::cast_slice(from));
        } else {
            self.inner.stream(at, from);
        }
    }

    #[track_caller]
    fn fence(&self) {
        if !self.skips("fence", Location::caller()) {
            self.inner.fence();
        }
    }

    fn pause(&self, turn: u32) {
        self.inner.pause(turn);
    }

    fn now(&self) -> u64 {
        self.inner.now()
    }
}
