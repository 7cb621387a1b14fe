//! The `Memory` trait: loads, stores, write-backs and fences on a range of persistent bytes.

use crate::atomics::AtomicU64;
use crate::own::{Object, Touch};
use crate::transactions::{HardwareAbort, HardwareTicket, Speculation};
use crate::{Domain, LINE, Survives, WORD};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The assumed size of the last-level cache in bytes, if it is unknown.
pub(crate) const LAST_LEVEL_CACHE: u64 = 32 << 20;

/// A range of memory with a visible and a durable image, addressed by byte offsets from its start.
///
/// The contract (docs/persistency-model.md has it in full, with litmus tests):
/// - A store changes the visible image at once. From then on the line may reach the durable image at any moment
///   ([`Domain::evicts`]): any prefix of the stores to that line, eight bytes at a time. Lines are independent of one
///   another.
/// - [`write_back`](Memory::write_back) asks for lines to become durable; [`fence`](Memory::fence) returns when all
///   that this thread has asked for is, non-temporal stores included.
/// - Words are atomic. Accesses of two threads to the same word are ordered by the program's own synchronisation; a
///   load sees the latest store ordered before it.
///
/// The safe methods check bounds and alignment and panic on a violation: they are for offsets that the caller has
/// computed itself. Offsets that come from a pool's contents go through the `try_` methods.
///
/// # Safety
/// An implementation keeps the contract above, and its unchecked methods are sound for every offset that
/// [`contains`](Memory::contains) accepts. `len` never shrinks, except to 0 in a forked child.
pub unsafe trait Memory: Send + Sync {
    /// The persistence domain.
    fn domain(&self) -> Domain;

    /// What an acknowledged transaction on this memory really survives.
    fn survives(&self) -> Survives;

    /// Bytes that can be accessed now.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that [`grow`](Memory::grow) can reach.
    fn limit(&self) -> u64 {
        self.len()
    }

    /// Makes at least `len` bytes accessible; new bytes read as zero and are durable.
    ///
    /// # Errors
    /// When `len` is beyond [`limit`](Memory::limit), or the file cannot grow (a full disk).
    fn grow(&self, len: u64) -> io::Result<()> {
        if len <= self.len() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::OutOfMemory, "this memory cannot grow"))
    }

    /// Loads the word at `at`.
    ///
    /// # Safety
    /// `contains(at, 8)`, and `at` is a multiple of 8.
    unsafe fn load_unchecked(&self, at: u64) -> u64;

    /// Stores the word at `at`.
    ///
    /// # Safety
    /// `contains(at, 8)`, and `at` is a multiple of 8.
    unsafe fn store_unchecked(&self, at: u64, value: u64);

    /// Copies `to.len()` bytes out of memory.
    ///
    /// # Safety
    /// `contains(at, to.len())`.
    unsafe fn copy_out_unchecked(&self, at: u64, to: &mut [u8]);

    /// Copies `from` into memory. Its words have no order among themselves, in either image.
    ///
    /// # Safety
    /// `contains(at, from.len())`.
    unsafe fn copy_in_unchecked(&self, at: u64, from: &[u8]);

    /// Stores whole lines past the caches (non-temporal): the next fence makes them durable,
    /// with no write-back.
    ///
    /// # Safety
    /// `contains(at, from.len() * 8)`, `at` is a multiple of 64 and `from.len()` of 8.
    unsafe fn stream_unchecked(&self, at: u64, from: &[u64]);

    /// Atomically replaces the word at `at` by `new` if it is `old`; sequentially consistent.
    /// Returns what was there, as `Err` if it was not `old`.
    ///
    /// # Errors
    /// The word that was found instead of `old`.
    fn compare_exchange(&self, at: u64, old: u64, new: u64) -> Result<u64, u64>;

    /// Asks for every line of `[at, at + len)` to become durable, as it is now.
    ///
    /// # Panics
    /// Where the range is out of bounds, if the memory has a durable image.
    #[track_caller]
    fn write_back(&self, at: u64, len: u64);

    /// Returns when all that this thread has asked for is durable; on [`Domain::Media`], all that
    /// any thread has asked for before it began.
    ///
    /// # Panics
    /// Never; a [`Domain::Media`] memory whose sync failed returns the error from
    /// [`check_fence`](Memory::check_fence) from then on.
    #[track_caller]
    fn fence(&self);

    /// Whether every fence so far did what it promised. After a failed sync nothing more may be
    /// acknowledged, since what the device holds is unknown.
    ///
    /// # Errors
    /// The failure of the sync.
    fn check_fence(&self) -> io::Result<()> {
        Ok(())
    }

    /// Whether [`check_fence`](Memory::check_fence) does not already fail for another reason than a failed fence: the
    /// process was forked since the memory was opened, or its file was lost. Costs a load; engines ask before a commit
    /// stores anything.
    #[inline(always)]
    fn is_usable(&self) -> bool {
        true
    }

    /// Whether this process is a forked child of the one that opened the memory, whose it is: nothing can be done with
    /// it here, and it has no bytes.
    #[inline(always)]
    fn is_forked(&self) -> bool {
        false
    }

    /// Looks whether the durable image is still where it was when the memory was opened. If it is not, this and every
    /// later [`check_fence`](Memory::check_fence) fail: nothing more may be acknowledged. To be called now and then.
    ///
    /// # Errors
    /// As [`check_fence`](Memory::check_fence).
    fn look(&self) -> io::Result<()> {
        self.check_fence()
    }

    /// Whether so much ordinary memory is held in addition to the durable image that [`give_back`](Memory::give_back)
    /// should be called until it has no more to do. Reports it once.
    fn give_back_due(&self) -> bool {
        false
    }

    /// Gives back some of the ordinary memory that is held in addition to the durable image; neither image changes.
    /// Returns whether it should be called again.
    ///
    /// The caller ensures that no thread stores anything while this runs: it could be lost. Loads, write-backs and
    /// fences may go on.
    fn give_back(&self) -> bool {
        false
    }

    /// Gives the space of whole pages back to the file system. They read as zeros then, durably; a power cut meanwhile
    /// leaves each of their words at its old value or zero. False if this memory keeps its space: then nothing has
    /// happened.
    ///
    /// The caller ensures that nothing relies on the pages' contents, that no thread stores to them meanwhile, and that
    /// they are [secured](Memory::secure) before anything is stored to them again.
    ///
    /// # Errors
    /// When the file system fails: some of the pages may have been released.
    fn release(&self, pages: Range<u64>) -> io::Result<bool> {
        let _ = pages;
        Ok(false)
    }

    /// Allocates space again for whole pages that may have been released. Their contents do not change.
    ///
    /// # Errors
    /// When there is no space. Nothing may be stored to the pages then.
    fn secure(&self, pages: Range<u64>) -> io::Result<()> {
        let _ = pages;
        Ok(())
    }

    /// Ranges of whole pages that may have had no space of their own since the memory was opened, ascending.
    fn unsecured(&self) -> Vec<Range<u64>> {
        Vec::new()
    }

    /// Iteration `turn` (from 0) of a spin loop: natively backs off, in a simulator a scheduling point.
    fn pause(&self, turn: u32);

    /// Computation that a simulator should charge; nothing natively.
    fn work(&self, cycles: u32) {
        let _ = cycles;
    }

    /// Begins a transaction that the memory's own hardware may make atomic, isolated or durable
    /// ([`transactions`](crate::transactions)). It ends with [`tx_commit`](Self::tx_commit) or
    /// [`tx_abort`](Self::tx_abort), on the same core. May wait. Without such hardware the `tx_` methods do nothing.
    ///
    /// # Errors
    /// Why it cannot begin.
    #[inline(always)]
    fn tx_begin(&self) -> Result<(), HardwareAbort> {
        Ok(())
    }

    /// Commits the transaction, which is durable once [`tx_durable`](Self::tx_durable) has reached its ticket.
    ///
    /// # Errors
    /// Why it is aborted instead: its stores are undone.
    #[inline(always)]
    fn tx_commit(&self) -> Result<HardwareTicket, HardwareAbort> {
        Ok(HardwareTicket::DURABLE)
    }

    /// Aborts the transaction. Returns whether the hardware has undone its stores.
    #[inline(always)]
    fn tx_abort(&self) -> bool {
        false
    }

    /// Waits until all transactions that this core has committed are durable.
    #[inline(always)]
    fn tx_flush(&self) {}

    /// The last transaction such that it and all before it are durable.
    #[inline(always)]
    fn tx_durable(&self) -> HardwareTicket {
        HardwareTicket::LAST
    }

    /// What this memory's hardware does for [`speculate`](Self::speculate).
    #[inline(always)]
    fn speculation(&self) -> Speculation {
        Speculation::Absent
    }

    /// Whether its owner accepts engines that are not crash-sync-safe on it: for crash tests, which are to show why they
    /// are not, and for figures of their speed.
    #[inline(always)]
    fn accepts_unsafe(&self) -> bool {
        false
    }

    /// Begins a speculation ([`transactions`](crate::transactions)), which ends with
    /// [`end_speculation`](Self::end_speculation) or [`stop_speculating`](Self::stop_speculating), on the same core.
    /// Until then the program asks [`lost`](Self::lost) after each access.
    ///
    /// # Errors
    /// Why it cannot begin: always, without such hardware.
    #[inline(always)]
    fn speculate(&self) -> Result<(), HardwareAbort> {
        Err(HardwareAbort::Absent)
    }

    /// Commits the speculation: all its stores become visible at one moment. They are durable when this returns if the
    /// hardware makes [speculations durable](Speculation::Durable); otherwise their durability is the ticket's only where
    /// hardware makes transactions durable ([`tx_durable`](Self::tx_durable)).
    ///
    /// # Errors
    /// Why it is lost instead: its stores are undone.
    #[inline(always)]
    #[track_caller]
    fn end_speculation(&self) -> Result<HardwareTicket, HardwareAbort> {
        Err(HardwareAbort::Absent)
    }

    /// Gives the speculation up, with a code for the statistics, if it is not lost already: its stores are undone.
    #[inline(always)]
    fn stop_speculating(&self, code: u8) {
        let _ = code;
    }

    /// Why this core's speculation is lost, until the program ends it. Once it is lost, loads return anything, and
    /// nothing is stored.
    #[inline(always)]
    fn lost(&self) -> Option<HardwareAbort> {
        None
    }

    /// Registers an object of this many bytes of the program's [own memory](crate::own), at addresses of its own. It
    /// lives as long as this memory.
    #[inline(always)]
    fn object(&self, bytes: u64) -> Object {
        let _ = bytes;
        Object::NONE
    }

    /// Whether [`touch`](Self::touch) does anything. Natively it does not, and its arguments are not computed.
    #[inline(always)]
    fn traces_own(&self) -> bool {
        false
    }

    /// The program touches `[at, at + len)` of an object; offsets wrap around at its end. Nothing natively; in a
    /// simulator an access, and a scheduling point.
    #[inline(always)]
    fn touch(&self, object: Object, at: u64, len: u64, access: Touch) {
        let _ = (object, at, len, access);
    }

    /// Registers words of the program's own memory that a speculation may store to, at addresses of their own: a
    /// simulator puts them back when the speculation is lost. For [`OwnWords`](crate::own::OwnWords).
    #[inline(always)]
    fn words_object(&self, words: &Arc<[AtomicU64]>) -> Object {
        self.object(words.len() as u64 * WORD)
    }

    /// As [`touch`](Self::touch), together with the access that it stands for, `step`, as one step that no other core
    /// comes between. Returns whether it has taken place: not if the core's speculation is lost. `step` must not use
    /// this memory.
    #[inline(always)]
    fn touching(
        &self,
        object: Object,
        at: u64,
        len: u64,
        access: Touch,
        step: &mut dyn FnMut(),
    ) -> bool {
        self.touch(object, at, len, access);
        step();
        true
    }

    /// Bytes of the last-level cache in front of this memory, possibly a guess.
    fn last_level_cache(&self) -> u64 {
        LAST_LEVEL_CACHE
    }

    /// Prefetches the line of `at` into the caches without waiting. Out of bounds it does nothing.
    #[inline(always)]
    fn prefetch(&self, at: u64) {
        let _ = at;
    }

    /// This memory's clock, in nanoseconds from an arbitrary start.
    fn now(&self) -> u64;

    /// Whether `[at, at + len)` can be accessed.
    #[inline(always)]
    fn contains(&self, at: u64, len: u64) -> bool {
        let end = self.len();
        len <= end && at <= end - len
    }

    /// Loads the word at `at`, or `None` where there is no aligned word.
    #[inline(always)]
    fn try_load(&self, at: u64) -> Option<u64> {
        // SAFETY: bounds and alignment were checked.
        word_fits(self, at).then(|| unsafe { self.load_unchecked(at) })
    }

    /// Loads words that follow one another; false where they are out of bounds, or `at` is not aligned.
    #[inline(always)]
    fn try_load_words(&self, at: u64, to: &mut [u64]) -> bool {
        let fits = at.is_multiple_of(WORD) && self.contains(at, WORD * to.len() as u64);
        if fits {
            for (index, word) in to.iter_mut().enumerate() {
                // SAFETY: bounds and alignment were checked.
                *word = unsafe { self.load_unchecked(at + WORD * index as u64) };
            }
        }
        fits
    }

    /// Copies bytes out; false where they are out of bounds.
    #[inline]
    fn try_copy_out(&self, at: u64, to: &mut [u8]) -> bool {
        let fits = self.contains(at, to.len() as u64);
        if fits {
            // SAFETY: bounds were checked.
            unsafe { self.copy_out_unchecked(at, to) };
        }
        fits
    }

    /// Loads the word at `at`.
    ///
    /// # Panics
    /// Where there is no aligned word.
    #[inline(always)]
    fn load(&self, at: u64) -> u64 {
        if !word_fits(self, at) {
            out_of_bounds(at, WORD, self.len());
        }
        // SAFETY: bounds and alignment were checked.
        unsafe { self.load_unchecked(at) }
    }

    /// Stores the word at `at`.
    ///
    /// # Panics
    /// Where there is no aligned word.
    #[inline(always)]
    #[track_caller]
    fn store(&self, at: u64, value: u64) {
        if !word_fits(self, at) {
            out_of_bounds(at, WORD, self.len());
        }
        // SAFETY: bounds and alignment were checked.
        unsafe { self.store_unchecked(at, value) }
    }

    /// Copies bytes out of memory.
    ///
    /// # Panics
    /// Where they are out of bounds.
    #[inline]
    fn copy_out(&self, at: u64, to: &mut [u8]) {
        if !self.try_copy_out(at, to) {
            out_of_bounds(at, to.len() as u64, self.len());
        }
    }

    /// Copies bytes into memory.
    ///
    /// # Panics
    /// Where they are out of bounds.
    #[inline]
    #[track_caller]
    fn copy_in(&self, at: u64, from: &[u8]) {
        if !self.contains(at, from.len() as u64) {
            out_of_bounds(at, from.len() as u64, self.len());
        }
        // SAFETY: bounds were checked.
        unsafe { self.copy_in_unchecked(at, from) }
    }

    /// Stores the words of the line at `line` whose bits in `mask` are set.
    ///
    /// # Panics
    /// Where one of them is out of bounds, or `line` is no multiple of 64.
    #[inline(always)]
    #[track_caller]
    fn store_words(&self, line: u64, mask: u8, words: &[u64; 8]) {
        if mask == u8::MAX {
            return self.copy_in(line, bytes_of(words));
        }
        let mut mask = mask;
        while mask != 0 {
            let word = mask.trailing_zeros() as usize % words.len();
            mask &= mask - 1;
            self.store(line + word as u64 * WORD, words[word]);
        }
    }

    /// Stores the words of several lines, as [`store_words`](Self::store_words) does, and calls `stored` after each;
    /// `view` gives an element's line, mask and words.
    ///
    /// # Panics
    /// As [`store_words`](Self::store_words).
    #[inline(always)]
    #[track_caller]
    fn store_lines<'a, T>(
        &self,
        lines: &'a [T],
        view: impl Fn(&'a T) -> (u64, u8, &'a [u64; 8]),
        mut stored: impl FnMut(&'a T),
    ) where
        Self: Sized,
    {
        for element in lines {
            let (line, mask, words) = view(element);
            self.store_words(line, mask, words);
            stored(element);
        }
    }

    /// For stores of several words: what these have in common is looked up once.
    #[inline(always)]
    fn word_store(&self) -> impl WordStore
    where
        Self: Sized,
    {
        EachStore(self)
    }

    /// Stores whole lines past the caches.
    ///
    /// # Panics
    /// Where they are out of bounds, or are not whole lines.
    #[inline(always)]
    #[track_caller]
    fn stream(&self, at: u64, from: &[u64]) {
        let bytes = from.len() as u64 * WORD;
        if !self.contains(at, bytes) || !at.is_multiple_of(LINE) || !bytes.is_multiple_of(LINE) {
            out_of_bounds(at, bytes, self.len());
        }
        // SAFETY: bounds and alignment were checked.
        unsafe { self.stream_unchecked(at, from) }
    }
}

/// Stores words in a memory: see [`Memory::word_store`].
pub trait WordStore {
    /// Stores the word with the number `word`, of those in the memory.
    ///
    /// # Panics
    /// Where there is none.
    #[track_caller]
    fn store(&self, word: u64, value: u64);
}

/// Stores each word as [`Memory::store`] does.
struct EachStore<'m, M>(&'m M);

impl<M: Memory> WordStore for EachStore<'_, M> {
    #[inline(always)]
    fn store(&self, word: u64, value: u64) {
        self.0.store(word * WORD, value);
    }
}

/// Words as bytes.
#[inline(always)]
pub(crate) fn bytes_of(words: &[u64]) -> &[u8] {
    // SAFETY: words are bytes, eight each, of any value.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

#[inline(always)]
fn word_fits<M: Memory + ?Sized>(memory: &M, at: u64) -> bool {
    at.is_multiple_of(WORD) && memory.contains(at, WORD)
}

#[cold]
#[track_caller]
pub(crate) fn out_of_bounds(at: u64, len: u64, end: u64) -> ! {
    // A file's memory has no bytes in a forked child.
    let forked =
        if end == 0 { ", in a process that may have been forked since it was opened" } else { "" };
    panic!(
        "access to [{at:#x}, +{len}) outside of, or misaligned in, a memory of {end:#x} bytes{forked}"
    )
}

/// The native back-off: spin, then yield, then sleep.
pub fn back_off(turn: u32) {
    match turn {
        0..64 => std::hint::spin_loop(),
        64..2048 => std::thread::yield_now(),
        _ => std::thread::sleep(std::time::Duration::from_micros(50)),
    }
}
