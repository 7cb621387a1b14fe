//! A memory known only at run time, with a hook that may drop durability requests.
//!
//! Code on it is compiled once, whatever the memory is: each access costs a virtual call. For tests, which would
//! otherwise compile every engine once for each memory, and for code whose native speed does not matter.

use crate::forward::forward;
use crate::site::{Site, pass, passed_or};
use crate::transactions::{HardwareAbort, HardwareTicket};
use crate::{Domain, Memory, Survives};
use std::io;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

/// A request on the way to durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// [`Memory::write_back`].
    WriteBack,
    /// [`Memory::stream`].
    Stream,
    /// [`Memory::fence`].
    Fence,
}

/// Sees each durability request made of an [`AnyMemory`], with its call site.
pub trait Watch: Send + Sync {
    /// Whether to drop the request. The words of a dropped stream are stored all the same.
    fn leaves_out(&self, asked: Asked, at: Site) -> bool;
}

/// Some memory. The inner one learns the call sites through [`passed_or`].
#[derive(Clone)]
pub struct AnyMemory {
    inner: Arc<dyn Memory>,
    watch: Option<Arc<dyn Watch>>,
}

impl AnyMemory {
    /// Wraps `memory`.
    pub fn new(memory: Arc<dyn Memory>) -> Self {
        AnyMemory { inner: memory, watch: None }
    }

    /// Wraps `memory`, with requests that `watch` may drop.
    pub fn watched(memory: Arc<dyn Memory>, watch: Arc<dyn Watch>) -> Self {
        AnyMemory { inner: memory, watch: Some(watch) }
    }

    #[inline]
    fn leaves_out(&self, asked: Asked, at: Site) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.leaves_out(asked, at))
    }
}

// SAFETY: every access is the inner memory's, under the same conditions. A watched memory is less durable than its
// domain promises, deliberately.
unsafe impl Memory for AnyMemory {
    forward!(inner);

    fn domain(&self) -> Domain {
        self.inner.domain()
    }

    fn survives(&self) -> Survives {
        self.inner.survives()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    unsafe fn load_unchecked(&self, at: u64) -> u64 {
        // SAFETY: the caller upholds the contract.
        unsafe { self.inner.load_unchecked(at) }
    }

    #[track_caller]
    unsafe fn store_unchecked(&self, at: u64, value: u64) {
        let site = passed_or(Location::caller());
        // SAFETY: the caller upholds the contract.
        pass(site, || unsafe { self.inner.store_unchecked(at, value) });
    }

    unsafe fn copy_out_unchecked(&self, at: u64, to: &mut [u8]) {
        // SAFETY: the caller upholds the contract.
        unsafe { self.inner.copy_out_unchecked(at, to) }
    }

    #[track_caller]
    unsafe fn copy_in_unchecked(&self, at: u64, from: &[u8]) {
        let site = passed_or(Location::caller());
        // SAFETY: the caller upholds the contract.
        pass(site, || unsafe { self.inner.copy_in_unchecked(at, from) });
    }

    #[track_caller]
    unsafe fn stream_unchecked(&self, at: u64, from: &[u64]) {
        let site = passed_or(Location::caller());
        if self.leaves_out(Asked::Stream, site) {
            // SAFETY: words are bytes, eight each.
            let bytes = unsafe { std::slice::from_raw_parts(from.as_ptr().cast(), from.len() * 8) };
            // SAFETY: in bounds by the caller's contract.
            pass(site, || unsafe { self.inner.copy_in_unchecked(at, bytes) });
        } else {
            // SAFETY: the caller upholds the contract.
            pass(site, || unsafe { self.inner.stream_unchecked(at, from) });
        }
    }

    #[track_caller]
    fn compare_exchange(&self, at: u64, old: u64, new: u64) -> Result<u64, u64> {
        let site = passed_or(Location::caller());
        pass(site, || self.inner.compare_exchange(at, old, new))
    }

    #[track_caller]
    fn write_back(&self, at: u64, len: u64) {
        let site = passed_or(Location::caller());
        if !self.leaves_out(Asked::WriteBack, site) {
            pass(site, || self.inner.write_back(at, len));
        }
    }

    #[track_caller]
    fn fence(&self) {
        let site = passed_or(Location::caller());
        if !self.leaves_out(Asked::Fence, site) {
            pass(site, || self.inner.fence());
        }
    }

    fn give_back_due(&self) -> bool {
        self.inner.give_back_due()
    }

    fn give_back(&self) -> bool {
        self.inner.give_back()
    }

    #[track_caller]
    fn release(&self, pages: Range<u64>) -> io::Result<bool> {
        let site = passed_or(Location::caller());
        pass(site, || self.inner.release(pages))
    }

    fn secure(&self, pages: Range<u64>) -> io::Result<()> {
        self.inner.secure(pages)
    }

    fn unsecured(&self) -> Vec<Range<u64>> {
        self.inner.unsecured()
    }

    #[track_caller]
    fn end_speculation(&self) -> Result<HardwareTicket, HardwareAbort> {
        let site = passed_or(Location::caller());
        pass(site, || self.inner.end_speculation())
    }

    fn prefetch(&self, at: u64) {
        self.inner.prefetch(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Cut;
    use crate::{Reference, conformance};

    /// Drops the request made at this line of the source.
    struct Line(u32);

    impl Watch for Line {
        fn leaves_out(&self, _: Asked, at: &'static Location<'static>) -> bool {
            at.line() == self.0
        }
    }

    #[test]
    fn it_is_the_memory_inside() {
        for domain in [Domain::Transient, Domain::Media] {
            conformance::run(&AnyMemory::new(Arc::new(Reference::new(conformance::NEEDS, domain))));
        }
    }

    /// Writes two lines back; what a power cut leaves of them when the request at `line` is dropped, and what is
    /// visible.
    fn without(line: u32) -> [u64; 3] {
        let inner = Arc::new(Reference::new(4096, Domain::Transient));
        let memory = AnyMemory::watched(inner.clone(), Arc::new(Line(line)));
        memory.store(0, 7);
        memory.write_back(0, 8);
        memory.stream(64, &[8; 8]);
        memory.fence();
        let left = inner.after_power_cut(Cut::None);
        [left.load(0), left.load(64), inner.load(64)]
    }

    #[test]
    fn omits_at_call_site() {
        let mut found: Vec<_> =
            (0..line!()).map(without).filter(|found| *found != [7, 8, 8]).collect();
        found.dedup();
        assert_eq!(found, [[0, 8, 8], [7, 0, 8], [0, 0, 8]]);
    }
}
