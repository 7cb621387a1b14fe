//! The memory that images are checked on: one copy of the pool, set to an image and restored by undoing. It records
//! which lines were read, since words that are not read cannot matter.

use perdura_memory::image::LineWords;
use perdura_memory::{Domain, LINE, Memory, Survives, WORD, line_of, lines_in};
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

const WORDS: usize = (LINE / WORD) as usize;
/// The number of turns of waiting, in a single thread, after which it counts as waiting for ever.
const STUCK: u32 = 100_000;

/// The memory. One thread at a time uses it.
pub struct Trial {
    words: Box<[AtomicU64]>,
    len: AtomicU64,
    base_len: AtomicU64,
    domain: Domain,
    /// The number of the current image: a line was read, or written to, in this one if its mark equals it.
    image: AtomicU32,
    read: Box<[AtomicU32]>,
    written: Box<[AtomicU32]>,
    /// The previous contents of lines that were written to.
    old: Mutex<Vec<(u64, LineWords)>>,
    clock: AtomicU64,
}

impl Trial {
    /// A zeroed memory of `len` bytes that can grow to `limit`; both whole lines.
    pub fn new(len: u64, limit: u64, domain: Domain) -> Self {
        let lines = limit / LINE;
        Trial {
            words: (0..limit / WORD).map(|_| AtomicU64::new(0)).collect(),
            len: AtomicU64::new(len),
            base_len: AtomicU64::new(len),
            domain,
            image: AtomicU32::new(1),
            read: (0..lines).map(|_| AtomicU32::new(0)).collect(),
            written: (0..lines).map(|_| AtomicU32::new(0)).collect(),
            old: Mutex::default(),
            clock: AtomicU64::new(1),
        }
    }

    /// A memory with these contents, which can grow to `limit`.
    pub(crate) fn of(words: &[u64], limit: u64, domain: Domain) -> Self {
        let trial = Trial::new(words.len() as u64 * WORD, limit, domain);
        for (words, line) in words.chunks_exact(WORDS).zip((0..).step_by(LINE as usize)) {
            trial.set_line(line, words.try_into().expect("a line"));
        }
        trial
    }

    /// Changes a line permanently; not while an image is being checked.
    pub fn set_line(&self, line: u64, words: &LineWords) {
        for (index, word) in words.iter().enumerate() {
            self.words[(line / WORD) as usize + index].store(*word, Ordering::Relaxed);
        }
    }

    /// Changes the length permanently.
    pub fn set_len(&self, len: u64) {
        self.base_len.store(len, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
    }

    /// Begins an image: these lines differ from the base.
    pub fn begin(&self, lines: impl Iterator<Item = (u64, LineWords)>) {
        self.image.fetch_add(1, Ordering::Relaxed);
        self.clock.store(1, Ordering::Relaxed);
        for (line, words) in lines {
            self.save(line);
            self.set_line(line, &words);
        }
    }

    /// Ends an image: restores the base.
    pub fn end(&self) {
        let mut old = self.old.lock().unwrap_or_else(PoisonError::into_inner);
        for (line, words) in old.drain(..) {
            self.set_line(line, &words);
        }
        self.len.store(self.base_len.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Whether the line has been read since the image began.
    pub fn was_read(&self, line: u64) -> bool {
        self.read[(line / LINE) as usize].load(Ordering::Relaxed)
            == self.image.load(Ordering::Relaxed)
    }

    /// All its words.
    pub fn contents(&self) -> Vec<u64> {
        let words = (self.len() / WORD) as usize;
        self.words[..words].iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }

    #[inline]
    fn note_read(&self, at: u64) {
        let image = self.image.load(Ordering::Relaxed);
        self.read[(at / LINE) as usize].store(image, Ordering::Relaxed);
    }

    /// The word that contains this byte.
    fn word_of(&self, at: u64) -> &AtomicU64 {
        &self.words[(at / WORD) as usize]
    }

    #[inline]
    fn save(&self, at: u64) {
        let image = self.image.load(Ordering::Relaxed);
        if self.written[(at / LINE) as usize].swap(image, Ordering::Relaxed) != image {
            let line = line_of(at);
            let first = (line / WORD) as usize;
            let words: LineWords =
                std::array::from_fn(|index| self.words[first + index].load(Ordering::Relaxed));
            self.old.lock().unwrap_or_else(PoisonError::into_inner).push((line, words));
        }
    }
}

const _: () = assert!(WORDS == 8);

/// How many of the `len` bytes at `at` come before the first whole word. Words are copied whole: byte by byte, copying
/// took a third of the tester's time.
fn before_a_word(at: u64, len: usize) -> usize {
    len.min((at.next_multiple_of(WORD) - at) as usize)
}

// SAFETY: words are atomics, indexed with bounds checked; everything is durable at once, which
// every domain allows.
unsafe impl Memory for Trial {
    fn domain(&self) -> Domain {
        self.domain
    }

    fn survives(&self) -> Survives {
        Survives::Power
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    fn limit(&self) -> u64 {
        self.words.len() as u64 * WORD
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        if len > self.limit() {
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, "beyond the trial's limit"));
        }
        let old = self.len();
        let len = len.next_multiple_of(LINE);
        if len > old {
            for line in (old..len).step_by(LINE as usize) {
                self.save(line);
                self.set_line(line, &[0; WORDS]);
            }
            self.len.store(len, Ordering::Relaxed);
        }
        Ok(())
    }

    unsafe fn load_unchecked(&self, at: u64) -> u64 {
        self.note_read(at);
        self.words[(at / WORD) as usize].load(Ordering::Relaxed)
    }

    unsafe fn store_unchecked(&self, at: u64, value: u64) {
        self.save(at);
        self.words[(at / WORD) as usize].store(value, Ordering::Relaxed);
    }

    unsafe fn copy_out_unchecked(&self, at: u64, to: &mut [u8]) {
        for index in 0..lines_in(at, to.len() as u64) {
            self.note_read(line_of(at) + index * LINE);
        }
        let (head, rest) = to.split_at_mut(before_a_word(at, to.len()));
        let (middle, tail) = rest.as_chunks_mut::<{ WORD as usize }>();
        let first = at + head.len() as u64;
        let words = &self.words[(first / WORD) as usize..][..middle.len()];
        let last = first + words.len() as u64 * WORD;
        for (at, byte) in (at..).zip(head).chain((last..).zip(tail)) {
            *byte = self.word_of(at).load(Ordering::Relaxed).to_ne_bytes()[(at % WORD) as usize];
        }
        for (word, bytes) in words.iter().zip(middle) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
    }

    unsafe fn copy_in_unchecked(&self, at: u64, from: &[u8]) {
        for index in 0..lines_in(at, from.len() as u64) {
            self.save(line_of(at) + index * LINE);
        }
        let (head, rest) = from.split_at(before_a_word(at, from.len()));
        let (middle, tail) = rest.as_chunks::<{ WORD as usize }>();
        let first = at + head.len() as u64;
        let words = &self.words[(first / WORD) as usize..][..middle.len()];
        let last = first + words.len() as u64 * WORD;
        for (at, byte) in (at..).zip(head).chain((last..).zip(tail)) {
            let word = self.word_of(at);
            let mut bytes = word.load(Ordering::Relaxed).to_ne_bytes();
            bytes[(at % WORD) as usize] = *byte;
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        for (word, bytes) in words.iter().zip(middle) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
    }

    unsafe fn stream_unchecked(&self, at: u64, from: &[u64]) {
        for (index, word) in from.iter().enumerate() {
            // SAFETY: in bounds and aligned by the caller's contract.
            unsafe { self.store_unchecked(at + index as u64 * WORD, *word) };
        }
    }

    fn compare_exchange(&self, at: u64, old: u64, new: u64) -> Result<u64, u64> {
        let found = self.load(at);
        if found != old {
            return Err(found);
        }
        self.store(at, new);
        Ok(old)
    }

    fn write_back(&self, at: u64, len: u64) {
        assert!(self.contains(at, len), "a write-back out of bounds");
    }

    fn fence(&self) {}

    fn pause(&self, turn: u32) {
        assert!(turn < STUCK, "waiting for ever");
    }

    /// Counts calls, so that every image sees the same times.
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_leaves_no_trace() {
        let trial = Trial::new(1024, 4096, Domain::Transient);
        trial.set_line(64, &[7; 8]);
        let before = trial.contents();
        trial.begin([(128, [9; 8])].into_iter());
        assert_eq!([trial.load(128), trial.load(72)], [9, 7]);
        assert!(trial.was_read(64) && trial.was_read(128) && !trial.was_read(192));
        trial.store(64, 1);
        trial.copy_in(130, &[3; 200]);
        trial.stream(512, &[5; 16]);
        trial.grow(4096).unwrap();
        trial.store(4088, 1);
        trial.end();
        assert_eq!((trial.contents(), trial.len()), (before, 1024));
        trial.begin(std::iter::empty());
        assert!(!trial.was_read(64), "marks are of one image");
        trial.grow(4096).unwrap();
        assert_eq!(trial.load(4088), 0);
        trial.end();
    }

    /// At every offset in a word and with every length: neighbouring bytes stay.
    #[test]
    fn bytes_are_copied_wherever_they_begin_and_end() {
        let trial = Trial::new(64, 64, Domain::Transient);
        let mut expected: Vec<u8> = (1..=64).collect();
        trial.copy_in(0, &expected);
        for at in 0..24 {
            for len in 0..40 {
                let new: Vec<u8> = (0..len).map(|index| (at * 7 + len * 3 + index) as u8).collect();
                trial.copy_in(at as u64, &new);
                expected[at..at + len].copy_from_slice(&new);
                let (mut all, mut part) = ([0; 64], vec![0; len]);
                trial.copy_out(0, &mut all);
                trial.copy_out(at as u64, &mut part);
                assert_eq!((&all[..], &part), (&expected[..], &new), "{len} bytes at {at}");
                assert_eq!(trial.load(8).to_ne_bytes(), expected[8..16]);
            }
        }
    }
}
