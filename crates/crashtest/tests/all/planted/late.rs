//! A memory that delays the fence behind a log record: until the next write-back or fence, by which time the words in
//! place have been stored.

use crate::planted::engines::{LATE_FENCE, bug};
use perdura_crashtest::Family;
use perdura_engine::{Counters, Engine, Recovery, Result, Sums, Ticket, Tuning};
use perdura_memory::{AnyMemory, Domain, Memory, Object, Survives, Touch};
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The memory `M`, which delays fences if the bug is planted.
pub(crate) struct Late<M> {
    inner: Arc<M>,
    late: bool,
    /// Whether something was streamed and not fenced.
    streamed: AtomicBool,
    /// Whether a fence is still to be made.
    owed: AtomicBool,
}

impl<M: Memory> Late<M> {
    fn pay(&self) {
        if self.owed.swap(false, Ordering::Relaxed) {
            self.inner.fence();
        }
    }
}

// SAFETY: a memory with less durability, as the test needs.
unsafe impl<M: Memory> Memory for Late<M> {
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
        // SAFETY: the caller's contract.
        unsafe { self.inner.load_unchecked(at) }
    }

    unsafe fn store_unchecked(&self, at: u64, value: u64) {
        // SAFETY: the caller's contract.
        unsafe { self.inner.store_unchecked(at, value) }
    }

    unsafe fn copy_out_unchecked(&self, at: u64, to: &mut [u8]) {
        // SAFETY: the caller's contract.
        unsafe { self.inner.copy_out_unchecked(at, to) }
    }

    unsafe fn copy_in_unchecked(&self, at: u64, from: &[u8]) {
        // SAFETY: the caller's contract.
        unsafe { self.inner.copy_in_unchecked(at, from) }
    }

    unsafe fn stream_unchecked(&self, at: u64, from: &[u64]) {
        self.pay();
        self.streamed.store(true, Ordering::Relaxed);
        // SAFETY: the caller's contract.
        unsafe { self.inner.stream_unchecked(at, from) }
    }

    fn compare_exchange(&self, at: u64, old: u64, new: u64) -> std::result::Result<u64, u64> {
        self.inner.compare_exchange(at, old, new)
    }

    fn write_back(&self, at: u64, len: u64) {
        self.pay();
        self.inner.write_back(at, len);
    }

    fn fence(&self) {
        if self.late && self.streamed.swap(false, Ordering::Relaxed) {
            self.owed.store(true, Ordering::Relaxed);
            return;
        }
        self.pay();
        self.inner.fence();
    }

    fn check_fence(&self) -> io::Result<()> {
        self.inner.check_fence()
    }

    fn pause(&self, turn: u32) {
        self.inner.pause(turn);
    }

    fn work(&self, cycles: u32) {
        self.inner.work(cycles);
    }

    fn object(&self, bytes: u64) -> Object {
        self.inner.object(bytes)
    }

    fn traces_own(&self) -> bool {
        self.inner.traces_own()
    }

    fn touch(&self, object: Object, at: u64, len: u64, access: Touch) {
        self.inner.touch(object, at, len, access);
    }

    fn last_level_cache(&self) -> u64 {
        self.inner.last_level_cache()
    }

    fn now(&self) -> u64 {
        self.inner.now()
    }
}

/// The engines of `F`, on a memory whose fences behind records are late, if that is the bug.
pub(crate) struct OnLate<F>(PhantomData<fn() -> F>);

impl<F: Family> Family for OnLate<F> {
    type Engine = Behind<F::Engine>;
}

/// The engine `E` on late memory; it is formatted and recovered as if it were not.
pub(crate) struct Behind<E> {
    inner: Arc<E>,
}

impl<E: Engine<AnyMemory>> Engine<AnyMemory> for Behind<E> {
    const NAME: &'static str = E::NAME;
    const NEEDS_FLUSHER: bool = E::NEEDS_FLUSHER;
    type Session = E::Session;

    fn format(memory: &AnyMemory, area: Range<u64>) {
        E::format(memory, area);
    }

    fn inspect(memory: &AnyMemory, area: Range<u64>) -> Result<Recovery> {
        E::inspect(memory, area)
    }

    fn recover(memory: &AnyMemory, area: Range<u64>) -> Result<Recovery> {
        E::recover(memory, area)
    }

    fn start_with_sums(
        memory: Arc<AnyMemory>,
        area: Range<u64>,
        sums: Option<Sums>,
    ) -> Result<Arc<Self>> {
        let (streamed, owed) = (AtomicBool::new(false), AtomicBool::new(false));
        let late = Late { inner: memory, late: bug() == LATE_FENCE, streamed, owed };
        let late = AnyMemory::new(Arc::new(late));
        Ok(Arc::new(Behind { inner: E::start_with_sums(Arc::new(late), area, sums)? }))
    }

    fn session(self: &Arc<Self>) -> Result<Self::Session> {
        self.inner.session()
    }

    fn reclaimable(&self) -> Ticket {
        self.inner.reclaimable()
    }

    fn flush_due(&self) -> Result<()> {
        self.inner.flush_due()
    }

    fn tune(&self, tuning: &Tuning) {
        self.inner.tune(tuning);
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn checkpoint(&self) -> Result<()> {
        self.inner.checkpoint()
    }
}
