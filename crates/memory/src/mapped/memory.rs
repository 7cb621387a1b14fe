//! The `Memory` trait on a mapped file: every load is a plain load, whatever the domain.

use super::media::Media;
use super::{Backing, Mapped, PoolFile, Unusable, WriteBackMode, file, flush};
use crate::memory::{WordStore, back_off, bytes_of, out_of_bounds};
use crate::{Domain, LINE, Memory, PAGE, Survives, WORD, copy, line_of, lines_in};
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

impl Mapped {
    #[inline(always)]
    fn at(&self, at: u64) -> *mut u8 {
        self.base.wrapping_add(at as usize)
    }

    fn file(&self) -> &File {
        match &self.mode {
            WriteBackMode::Lines(_, file)
            | WriteBackMode::Stores(file)
            | WriteBackMode::ReadOnly(file)
            | WriteBackMode::Unflushed(file) => file,
            WriteBackMode::Media(media) => &media.device().file,
        }
    }

    /// Whether space can be given back. Not with a recorder, since a trace has no holes; not on persistent memory,
    /// where a store must not wait for the file system; not on a file system in memory, where a load from a hole takes
    /// space, of which there may be none.
    fn releases(&self) -> bool {
        let recorded = match &self.mode {
            WriteBackMode::Media(media) => media.device().recorder.is_some(),
            WriteBackMode::ReadOnly(_) => true,
            WriteBackMode::Lines(..) | WriteBackMode::Stores(_) | WriteBackMode::Unflushed(_) => {
                false
            }
        };
        !recorded && self.backing == Backing::Block && !self.keeps_space.load(Ordering::Relaxed)
    }

    /// # Errors
    /// In a forked child.
    pub(super) fn check_owner(&self) -> io::Result<()> {
        if self.owner.is_forked() { Err(Unusable::Forked.into()) } else { Ok(()) }
    }

    /// Why nothing can be made durable any more; `failure` is what a sync said, if one has failed.
    #[cold]
    fn unusable(&self, failure: Option<io::Error>) -> io::Result<()> {
        self.check_owner()?;
        // A sync fails if the file is lost, and its words are about media.
        if let Some(what) = self.place.damage(self.file()) {
            self.set_lost(what);
        }
        match (self.lost.get(), failure) {
            (Some(what), _) => Err(Unusable::Lost(what.clone()).into()),
            (None, Some(failure)) => Err(failure),
            (None, None) => Ok(()),
        }
    }

    #[inline(never)]
    fn check_media(&self, media: &Media<PoolFile>) -> io::Result<()> {
        media.check().or_else(|failure| self.unusable(Some(failure)))
    }

    /// As `stream_unchecked`, where no store goes past the caches.
    ///
    /// # Safety
    /// As for `stream_unchecked`.
    #[inline(never)]
    unsafe fn stream_in_caches(&self, at: u64, from: &[u64]) {
        let WriteBackMode::Media(media) = &self.mode else {
            // SAFETY: in bounds by the caller's contract.
            return unsafe { self.copy_in_unchecked(at, bytes_of(from)) };
        };
        for (index, word) in from.iter().enumerate() {
            // SAFETY: in bounds and aligned by the caller's contract.
            unsafe { self.store_unchecked(at + index as u64 * 8, *word) };
        }
        // SAFETY: in bounds by the caller's contract.
        unsafe { media.write_back(self.base, at, from.len() as u64 * 8) };
    }

    fn set_lost(&self, what: String) {
        self.lost.get_or_init(|| what);
        self.owner.set_lost();
    }

    fn check_pages(&self, pages: &Range<u64>) {
        let whole = pages.start.is_multiple_of(PAGE) && pages.end.is_multiple_of(PAGE);
        if !whole || pages.start >= pages.end || pages.end > self.len() {
            out_of_bounds(pages.start, pages.end.wrapping_sub(pages.start), self.len());
        }
    }

    /// Makes everything durable that has reached the file.
    pub(super) fn sync_all(&self) -> io::Result<()> {
        match &self.mode {
            WriteBackMode::Media(media) => media.sync_file(),
            _ => Ok(rustix::fs::fsync(self.file())?),
        }
    }

    /// Makes a new length of the file durable, if the domain makes anything durable.
    pub(super) fn sync_growth(&self) -> io::Result<()> {
        match &self.mode {
            WriteBackMode::Media(media) => media.sync_file(),
            _ if self.survives == Survives::Power => Ok(rustix::fs::fdatasync(self.file())?),
            _ => Ok(()),
        }
    }
}

// SAFETY: [base, base + len) is mapped as long as `self` lives, and accessed by atomics only; `len` only ever grows.
// Each mode keeps the durable image: `Lines` flushes and fences, `Stores` has caches that persist (or a domain that
// promises nothing beyond the process), `Media` writes and syncs, and `ReadOnly` and `Unflushed` survive nothing and
// say so.
unsafe impl Memory for Mapped {
    #[inline(always)]
    fn domain(&self) -> Domain {
        self.domain
    }

    fn survives(&self) -> Survives {
        self.survives
    }

    #[inline(always)]
    fn len(&self) -> u64 {
        self.owner.len()
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn last_level_cache(&self) -> u64 {
        self.features.last_level_cache.unwrap_or(crate::memory::LAST_LEVEL_CACHE)
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        self.check_owner()?;
        let _one_at_a_time = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.len();
        if len <= old {
            return Ok(());
        }
        if self.is_read_only() {
            let text = "the pool is open read-only and cannot grow";
            return Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, text));
        }
        if len > self.limit {
            let text = format!(
                "the pool cannot grow to {len} bytes, beyond its limit of {}; \
                 open it with a higher limit",
                self.limit
            );
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, text));
        }
        let len = len.next_multiple_of(PAGE);
        if let Some(what) = self.place.damage(self.file()) {
            self.set_lost(what);
            return self.unusable(None);
        }
        // Bytes beyond the old end may be stale; truncate, so that the extension reads as zero.
        rustix::fs::ftruncate(self.file(), old)?;
        file::extend(self.file(), old, len).map_err(|errno| {
            let kind = io::Error::from(errno).kind();
            io::Error::new(kind, format!("the pool cannot grow to {len} bytes: {errno}"))
        })?;
        if let WriteBackMode::Media(media) = &self.mode {
            media.device().grown(len)?;
        }
        self.sync_growth()?;
        // The page that holds the old end is mapped already, and must stay: it may have private stores.
        let from = old.next_multiple_of(PAGE);
        // SAFETY: that page is mapped to its end, no thread accesses it beyond `len`, and the file now reaches beyond
        // it.
        unsafe { copy::copy_in(self.at(old), &[0; PAGE as usize][..(from - old) as usize]) };
        // SAFETY: whole pages within the limit.
        unsafe { self.reservation.open_up(from, len)? };
        self.place.grown(len);
        self.owner.set_len(len);
        Ok(())
    }

    #[inline(always)]
    unsafe fn load_unchecked(&self, at: u64) -> u64 {
        // SAFETY: in bounds and aligned by the caller's contract.
        unsafe { (*self.at(at).cast::<AtomicU64>()).load(Ordering::Acquire) }
    }

    #[inline(always)]
    unsafe fn store_unchecked(&self, at: u64, value: u64) {
        // SAFETY: in bounds and aligned by the caller's contract.
        unsafe { (*self.at(at).cast::<AtomicU64>()).store(value, Ordering::Release) };
    }

    #[inline(always)]
    fn prefetch(&self, at: u64) {
        flush::prefetch(self.at(at));
    }

    #[inline]
    unsafe fn copy_out_unchecked(&self, at: u64, to: &mut [u8]) {
        // SAFETY: in bounds by the caller's contract; all accesses are atomic.
        unsafe { copy::copy_out(self.at(at), to) }
    }

    #[inline]
    unsafe fn copy_in_unchecked(&self, at: u64, from: &[u8]) {
        // SAFETY: in bounds by the caller's contract; all accesses are atomic.
        unsafe { copy::copy_in(self.at(at), from) }
    }

    #[inline(always)]
    unsafe fn stream_unchecked(&self, at: u64, from: &[u64]) {
        if matches!(self.mode, WriteBackMode::Media(_) | WriteBackMode::Unflushed(_)) {
            // SAFETY: the caller's contract is the same.
            return unsafe { self.stream_in_caches(at, from) };
        }
        // SAFETY: in bounds and whole lines by the caller's contract; the features are this machine's.
        unsafe { flush::stream(self.features.flush, self.at(at), from) };
    }

    #[inline(always)]
    fn store_words(&self, line: u64, mask: u8, words: &[u64; 8]) {
        self.store_lines(&[()], |()| (line, mask, words), |()| {});
    }

    #[inline(always)]
    fn store_lines<'a, T>(
        &self,
        lines: &'a [T],
        view: impl Fn(&'a T) -> (u64, u8, &'a [u64; 8]),
        mut stored: impl FnMut(&'a T),
    ) {
        // Both in registers: the length never shrinks in the process that stores. It is one of whole lines.
        let (base, len) = (self.base, self.len());
        for element in lines {
            let (line, mut mask, words) = view(element);
            if line >= len || !line.is_multiple_of(LINE) {
                out_of_bounds(line, LINE, len);
            }
            let to = base.wrapping_add(line as usize).cast::<AtomicU64>();
            while mask != 0 {
                let word = mask.trailing_zeros() as usize % words.len();
                mask &= mask - 1;
                // SAFETY: a word of a line whose bounds and alignment were checked.
                unsafe { (*to.add(word)).store(words[word], Ordering::Release) };
            }
            stored(element);
        }
    }

    #[inline(always)]
    fn word_store(&self) -> impl WordStore {
        // Both in registers: the length never shrinks in the process that stores.
        MappedStore { base: self.base, words: self.len() / WORD, memory: PhantomData }
    }

    #[inline(always)]
    fn try_load(&self, at: u64) -> Option<u64> {
        // SAFETY: the length is one of whole lines, so that an aligned word is inside if its first byte is.
        (at.is_multiple_of(WORD) && at < self.len()).then(|| unsafe { self.load_unchecked(at) })
    }

    #[inline]
    fn compare_exchange(&self, at: u64, old: u64, new: u64) -> Result<u64, u64> {
        if !at.is_multiple_of(8) || !self.contains(at, 8) {
            out_of_bounds(at, 8, self.len());
        }
        // SAFETY: bounds and alignment were checked.
        let word = unsafe { &*self.at(at).cast::<AtomicU64>() };
        word.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst)
    }

    #[inline]
    fn write_back(&self, at: u64, len: u64) {
        if !self.contains(at, len) {
            out_of_bounds(at, len, self.len());
        }
        match &self.mode {
            WriteBackMode::Lines(kind, _) => {
                let line = self.at(line_of(at));
                // SAFETY: in bounds as just checked, and so are the whole lines, since the
                // length is a multiple of `LINE`; the kind was detected on this machine.
                unsafe { flush::write_back(*kind, line, lines_in(at, len)) };
            }
            // SAFETY: as above; the base is aligned to far more than a line.
            WriteBackMode::Media(media) => unsafe { media.write_back(self.base, at, len) },
            WriteBackMode::Stores(_) | WriteBackMode::ReadOnly(_) | WriteBackMode::Unflushed(_) => {
            }
        }
    }

    #[inline(always)]
    fn fence(&self) {
        match &self.mode {
            // Also where caches persist: non-temporal stores are not in them yet.
            WriteBackMode::Lines(..) | WriteBackMode::Stores(_) => flush::fence(),
            WriteBackMode::Media(media) if !self.owner.is_forked() => media.fence(),
            WriteBackMode::Media(_) | WriteBackMode::ReadOnly(_) | WriteBackMode::Unflushed(_) => {}
        }
    }

    #[inline(always)]
    fn check_fence(&self) -> io::Result<()> {
        if !self.owner.is_intact() {
            return self.unusable(None);
        }
        match &self.mode {
            WriteBackMode::Media(media) => self.check_media(media),
            _ => Ok(()),
        }
    }

    #[inline(always)]
    fn is_usable(&self) -> bool {
        self.owner.is_intact()
    }

    #[inline(always)]
    fn is_forked(&self) -> bool {
        self.owner.is_forked()
    }

    fn look(&self) -> io::Result<()> {
        if self.owner.is_intact()
            && !self.is_read_only()
            && self.draft().is_none()
            && let Some(what) = self.place.problem(self.file())
        {
            self.set_lost(what);
        }
        self.check_fence()
    }

    fn give_back_due(&self) -> bool {
        match &self.mode {
            WriteBackMode::Media(media) => media.give_back_due(),
            _ => false,
        }
    }

    fn give_back(&self) -> bool {
        let WriteBackMode::Media(media) = &self.mode else { return false };
        if self.owner.is_forked() {
            return false;
        }
        let _same_length = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: this mode maps its file privately, from the base on up to its length.
        unsafe { media.give_back(self.base, self.len(), self.file()) }
    }

    fn release(&self, pages: Range<u64>) -> io::Result<bool> {
        self.check_owner()?;
        self.check_pages(&pages);
        if !self.releases() {
            return Ok(false);
        }
        // No line kept for a fence may be written into the hole later.
        self.fence();
        self.check_fence()?;
        let _same_length = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let released = match &self.mode {
            // SAFETY: this mode maps its file privately, from the base on up to its length.
            WriteBackMode::Media(media) => unsafe { media.release(self.base, pages, self.file())? },
            _ => file::punch(self.file(), pages)?,
        };
        if !released {
            self.keeps_space.store(true, Ordering::Relaxed);
        }
        Ok(released)
    }

    fn secure(&self, pages: Range<u64>) -> io::Result<()> {
        self.check_owner()?;
        self.check_pages(&pages);
        if self.is_read_only() {
            return Ok(());
        }
        file::allocate(self.file(), pages.clone()).map_err(|errno| {
            let bytes = pages.end - pages.start;
            let kind = io::Error::from(errno).kind();
            let text =
                format!("the pool cannot take {bytes} bytes back from its file system: {errno}");
            io::Error::new(kind, text)
        })
    }

    fn unsecured(&self) -> Vec<Range<u64>> {
        if self.is_read_only() {
            return Vec::new();
        }
        let all = 0..self.len().next_multiple_of(PAGE);
        // If that cannot be determined, all pages may be holes.
        file::holes(self.file(), self.len()).unwrap_or_else(|_| std::iter::once(all).collect())
    }

    fn pause(&self, turn: u32) {
        back_off(turn);
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// Stores words in a mapped file.
struct MappedStore<'m> {
    base: *mut u8,
    /// How many can be accessed.
    words: u64,
    memory: PhantomData<&'m Mapped>,
}

impl WordStore for MappedStore<'_> {
    #[inline(always)]
    fn store(&self, word: u64, value: u64) {
        if word >= self.words {
            out_of_bounds(word.wrapping_mul(WORD), WORD, self.words * WORD);
        }
        // SAFETY: an aligned word whose bounds were checked, of a mapping that lives as long as `self`.
        unsafe {
            (*self.base.cast::<AtomicU64>().add(word as usize)).store(value, Ordering::Release)
        };
    }
}

const _: () = assert!(PAGE.is_multiple_of(LINE));
