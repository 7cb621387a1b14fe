//! The persistency model made executable: a memory that keeps the visible and the durable image, and whose power can be
//! cut at any event.
//!
//! - All threads count as one: a fence completes the write-backs of every thread. So a forgotten
//!   fence is not noticed here if another thread's fence happens to follow.
//! - Everything is deterministic: the same operations and the same seed give the same image.
//! - It is slow (a lock for every access), and meant for tests.
//!
//! ```
//! use perdura_memory::{Domain, Memory, reference::{Cut, Reference}};
//!
//! let memory = Reference::new(4096, Domain::Transient);
//! memory.store(0, 1);
//! memory.write_back(0, 8);
//! memory.fence();
//! memory.store(64, 2); // Not written back: may be lost, or not.
//! let after = memory.after_power_cut(Cut::Seed(7));
//! assert_eq!(after.load(0), 1);
//! assert!(after.load(64) == 0 || after.load(64) == 2);
//! ```

pub use crate::image::Cut;
pub use crate::random::SplitMix64;

use crate::image::{Image, Piece, PrivateCopies, Site, lines_of, patch, words_of};
use crate::memory::{back_off, out_of_bounds};
use crate::{Domain, LINE, Memory, PAGE, Survives, WORD, line_of, lines_in};
use std::collections::BTreeSet;
use std::io;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The thread that the image takes all stores to be by.
const THREAD: usize = 0;
/// Pages examined in one call of `give_back`.
const SLICE: u64 = 16;

/// What [`Reference::while_giving_back`] runs.
type Meanwhile = Box<dyn Fn(&[u64]) + Send + Sync>;

/// A call site for the image to note; nothing asks for it here.
fn no_site() -> Site {
    Location::caller()
}

/// The executable model.
pub struct Reference {
    state: Mutex<ReferenceState>,
    domain: Domain,
    limit: u64,
    len: AtomicU64,
    /// Counts accesses, work and waiting, in place of the time.
    clock: AtomicU64,
    meanwhile: OnceLock<Meanwhile>,
}

struct ReferenceState {
    visible: Vec<u64>,
    /// The durable image, and the stores that may be durable.
    image: Image,
    events: u64,
    /// The number of events until the requested power cut; at zero the image no longer changes.
    left: Option<u64>,
    /// Draws the order of a copy's pieces where each store is durable at once.
    order: SplitMix64,
    /// Used on `Media`.
    copies: PrivateCopies,
}

impl Reference {
    /// Makes a zeroed memory of at least `len` bytes (rounded up to whole lines), all of it durable.
    pub fn new(len: u64, domain: Domain) -> Self {
        let words = vec![0; (len.next_multiple_of(LINE) / WORD) as usize];
        Self::from_words(words, domain)
    }

    /// Makes a memory with the contents `image`, all durable, rounded up to whole lines with zeros.
    pub fn from_image(image: &[u8], domain: Domain) -> Self {
        Self::from_words(words_of(image), domain)
    }

    /// The same memory, able to grow to `limit` bytes.
    #[must_use]
    pub fn with_limit(mut self, limit: u64) -> Self {
        self.limit = limit.max(self.len()).next_multiple_of(LINE);
        self
    }

    fn from_words(words: Vec<u64>, domain: Domain) -> Self {
        let len = words.len() as u64 * WORD;
        Reference {
            state: Mutex::new(ReferenceState {
                image: Image::new(words.clone(), domain),
                visible: words,
                events: 0,
                left: None,
                order: SplitMix64::new(0x6f72_6465_7273),
                copies: PrivateCopies::default(),
            }),
            domain,
            limit: len,
            len: AtomicU64::new(len),
            clock: AtomicU64::new(0),
            meanwhile: OnceLock::new(),
        }
    }

    /// Calls `run` in each [`give_back`](Memory::give_back), between the comparison of pages with the file and the drop
    /// of their copies, with the numbers of these pages: what is stored to them there is lost, as natively.
    ///
    /// # Panics
    /// If it was called before.
    pub fn while_giving_back(&self, run: impl Fn(&[u64]) + Send + Sync + 'static) {
        assert!(self.meanwhile.set(Box::new(run)).is_ok(), "one thing is run meanwhile");
    }

    /// Events so far: stores, write-backs and fences, one per call. Where stores are durable at once, a copy is one
    /// event for each of its pieces (whole words, and the bytes of torn ones), so that a power cut can fall between
    /// them.
    pub fn events(&self) -> u64 {
        self.state().events
    }

    /// Cuts the power after `events` more events. Stores after that moment are visible and counted, but change nothing
    /// in what [`power_cut`](Self::power_cut) may return.
    pub fn cut_after(&self, events: u64) {
        self.state().left = Some(events);
    }

    /// Whether the power cut requested by [`cut_after`](Self::cut_after) has happened.
    pub fn was_cut(&self) -> bool {
        self.state().left == Some(0)
    }

    /// An image that a power cut may leave, chosen by `cut`: a power cut now, or the one requested by
    /// [`cut_after`](Self::cut_after) if it has happened. Under `Process` all stores, as the process's death leaves them.
    pub fn power_cut(&self, cut: Cut) -> Vec<u8> {
        let words = self.state().image.cut(cut);
        let mut image = vec![0; words.len() * size_of::<u64>()];
        let (pieces, _) = image.as_chunks_mut();
        pieces.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_ne_bytes());
        image
    }

    /// A memory of the same domain with the contents that [`power_cut`](Self::power_cut) returns.
    pub fn after_power_cut(&self, cut: Cut) -> Reference {
        let words = self.state().image.cut(cut);
        Self::from_words(words, self.domain).with_limit(self.limit)
    }

    /// The memory that another process finds if this process dies now, in the same domain: see [`Image::after_death`],
    /// also for `synced`. On `Media`, `kept` chooses which write-backs without a fence have reached the page cache, as it
    /// would choose what a power cut leaves of them.
    ///
    /// # Panics
    /// If [`cut_after`](Self::cut_after) was called.
    pub fn after_process_death(&self, kept: Cut, synced: bool) -> Reference {
        let state = self.state();
        assert!(state.left.is_none(), "a process dies, or the power is cut, not both");
        let words = state.image.cut(kept);
        let steps = |line: u64| state.image.steps_of(line, &words);
        let image = state.image.after_death(steps, synced);
        let mut next = Self::from_words(image.visible(), self.domain).with_limit(self.limit);
        next.state.get_mut().unwrap_or_else(PoisonError::into_inner).image = image;
        next
    }

    /// Every combination of values that a power cut may leave in the words at `words`.
    ///
    /// # Panics
    /// Where there is no aligned word, or if the combinations are too many to list.
    pub fn outcomes(&self, words: &[u64]) -> BTreeSet<Vec<u64>> {
        for at in words {
            self.check(*at, WORD, WORD);
        }
        self.state().image.outcomes(words)
    }

    fn state(&self) -> MutexGuard<'_, ReferenceState> {
        self.clock.fetch_add(1, Ordering::Relaxed);
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    fn check(&self, at: u64, len: u64, align: u64) {
        if !at.is_multiple_of(align) || !self.contains(at, len) {
            out_of_bounds(at, len, self.len());
        }
    }
}

impl ReferenceState {
    /// Counts an event, and applies it to the image unless the power is off.
    fn event(&mut self, change: impl FnOnce(&mut Image)) {
        self.events += 1;
        if self.left != Some(0) {
            change(&mut self.image);
            self.left = self.left.map(|left| left - 1);
        }
    }

    /// Whether the page's copy has the file's bytes, and no line of it waits for a fence.
    fn is_as_in_file(&mut self, page: u64) -> bool {
        !self.image.keeps_aside(page)
            && lines_of(page).all(|line| self.image.in_file(line)[..] == *self.visible_line(line))
    }

    fn visible_line(&mut self, line: u64) -> &mut [u64] {
        let first = (line / WORD) as usize;
        &mut self.visible[first..first + (LINE / WORD) as usize]
    }

    fn see_file(&mut self, line: u64) {
        let words = self.image.in_file(line);
        self.visible_line(line).copy_from_slice(&words);
    }

    fn drop_copy(&mut self, page: u64) {
        self.image.drop_copy(page);
        lines_of(page).for_each(|line| self.see_file(line));
        self.copies.dropped(page);
    }

    fn store(&mut self, at: u64, value: u64) {
        self.copies.stored(at);
        self.visible[(at / WORD) as usize] = value;
        self.event(|image| image.store(&[Piece::word(at, value)], no_site()));
    }

    /// Stores pieces in no order: one event, or, where each store is durable at once, one for each.
    fn copy(&mut self, mut pieces: Vec<Piece>, at_once: bool) {
        for piece in &pieces {
            self.copies.stored(piece.at());
            patch(&mut self.visible, piece);
        }
        if at_once {
            self.order.shuffle(&mut pieces);
            for piece in pieces {
                self.event(|image| image.store(&[piece], no_site()));
            }
        } else {
            self.event(|image| image.store(&pieces, no_site()));
        }
    }
}

// SAFETY: every access goes through a lock and checks its bounds; `Image` implements the contract.
unsafe impl Memory for Reference {
    fn domain(&self) -> Domain {
        self.domain
    }

    fn survives(&self) -> Survives {
        match self.domain {
            Domain::Process => Survives::Process,
            _ => Survives::Power,
        }
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        if len > self.limit {
            let text = "the reference memory cannot grow beyond its limit";
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, text));
        }
        let mut state = self.state();
        let words = (len.next_multiple_of(LINE) / WORD) as usize;
        if words > state.visible.len() {
            state.visible.resize(words, 0);
            // Not an event: a file's length is the file system's, and durable when `grow` returns.
            if state.left != Some(0) {
                state.image.grow(words);
            }
            self.len.store(words as u64 * WORD, Ordering::Release);
        }
        Ok(())
    }

    unsafe fn load_unchecked(&self, at: u64) -> u64 {
        self.state().visible[(at / WORD) as usize]
    }

    unsafe fn store_unchecked(&self, at: u64, value: u64) {
        self.state().store(at, value);
    }

    unsafe fn copy_out_unchecked(&self, at: u64, to: &mut [u8]) {
        let state = self.state();
        for (index, byte) in to.iter_mut().enumerate() {
            let at = at + index as u64;
            *byte = state.visible[(at / WORD) as usize].to_ne_bytes()[(at % WORD) as usize];
        }
    }

    unsafe fn copy_in_unchecked(&self, at: u64, from: &[u8]) {
        let at_once = !self.domain.needs_write_back();
        self.state().copy(Piece::of_bytes(at, from), at_once);
    }

    unsafe fn stream_unchecked(&self, at: u64, from: &[u64]) {
        let words = from.iter().enumerate();
        let pieces: Vec<_> =
            words.map(|(index, word)| Piece::word(at + index as u64 * WORD, *word)).collect();
        if self.domain == Domain::Process {
            return self.state().copy(pieces, true);
        }
        let mut state = self.state();
        for piece in &pieces {
            state.copies.stored(piece.at());
            patch(&mut state.visible, piece);
        }
        state.event(|image| image.stream(THREAD, &pieces, no_site()));
    }

    fn compare_exchange(&self, at: u64, old: u64, new: u64) -> Result<u64, u64> {
        self.check(at, WORD, WORD);
        let mut state = self.state();
        let found = state.visible[(at / WORD) as usize];
        if found != old {
            return Err(found);
        }
        state.store(at, new);
        Ok(old)
    }

    fn write_back(&self, at: u64, len: u64) {
        self.check(at, len, 1);
        let first = line_of(at);
        let lines = (0..lines_in(at, len)).map(|index| first + index * LINE);
        self.state().event(|image| image.write_back(THREAD, lines));
    }

    fn fence(&self) {
        let mut state = self.state();
        let ReferenceState { image, copies, .. } = &*state;
        let shared = |line: &u64| self.domain == Domain::Media && !copies.has(*line);
        let lines: Vec<u64> = image.kept_aside().filter(shared).collect();
        state.event(|image| image.fence(THREAD));
        // The file changes, and pages without copies with it.
        lines.into_iter().for_each(|line| state.see_file(line));
    }

    fn give_back(&self) -> bool {
        let run = {
            let mut state = self.state();
            // After a power cut the image is not the file any more.
            let gives = self.domain == Domain::Media && state.left != Some(0);
            let Some(run) = gives.then(|| state.copies.next_run(SLICE)).flatten() else {
                return false;
            };
            run.start..run.end.min(self.len() / PAGE).max(run.start)
        };
        let same: Vec<u64> = run.filter(|page| self.state().is_as_in_file(*page)).collect();
        if let Some(run) = self.meanwhile.get().filter(|_| !same.is_empty()) {
            run(&same);
        }
        same.into_iter().for_each(|page| self.state().drop_copy(page));
        true
    }

    fn pause(&self, turn: u32) {
        self.clock.fetch_add(1000, Ordering::Relaxed);
        back_off(turn);
    }

    fn work(&self, cycles: u32) {
        self.clock.fetch_add(u64::from(cycles), Ordering::Relaxed);
    }

    /// A count instead of a time, so that runs of one thread are the same each time.
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }
}
