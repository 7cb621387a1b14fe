//! What a power cut may leave: for each line its certainly durable contents, and the stores that may be durable.
//!
//! This is the persistency model itself, as data: [`Reference`](crate::Reference) is built on it, and the simulated
//! machine keeps one alongside its caches, to know which images the model allows, where the caches leave only one of
//! them.

use crate::{Domain, LINE, WORD, line_of};
use std::collections::{BTreeMap, BTreeSet};

mod copies;
mod cut;
mod piece;

pub use copies::{PrivateCopies, lines_of};
pub use cut::Cut;
pub use piece::{Piece, patch, patch_line, words_of};

use cut::between;

const WORDS: usize = (LINE / WORD) as usize;
/// The most pending stores of a line that no write-back asks for; beyond it the older half are joined into one.
const MOST_PENDING: usize = 128;
/// A flag in a group's number: its pieces become durable together.
const WHOLE: u64 = 1 << 63;

pub use crate::site::Site;

/// The contents of a line.
pub type LineWords = [u64; WORDS];

/// A piece that is not yet certainly durable.
#[derive(Clone, Copy, Debug)]
struct PendingStore {
    /// Adjacent stores with the same number are unordered among themselves.
    group: u64,
    piece: Piece,
    site: Site,
}

/// A line's stores that are not yet certainly durable, oldest first.
#[derive(Clone, Debug, Default)]
struct PendingStores {
    stores: Vec<PendingStore>,
    /// For each thread that has asked, how many of them its next fence makes durable.
    asked: Vec<(usize, usize)>,
    /// How many of them were left by a dead process: see [`Image::after_death`].
    left: usize,
}

impl PendingStores {
    fn ask(&mut self, thread: usize) {
        let all = self.stores.len();
        match self.asked.iter_mut().find(|(by, _)| *by == thread) {
            Some((_, upto)) => *upto = all,
            None => self.asked.push((thread, all)),
        }
    }

    /// How many of the stores some thread has written back.
    fn most_asked(&self) -> usize {
        self.asked.iter().map(|(_, upto)| *upto).max().unwrap_or(0)
    }

    /// How many of the stores may be durable where no line is evicted.
    fn reached(&self) -> usize {
        self.most_asked().max(self.left)
    }

    /// Joins the older half of the stores that no thread has written back into one.
    fn join_oldest(&mut self) {
        let first = self.reached();
        let middle = first + (self.stores.len() - first) / 2;
        let group = self.stores[middle].group;
        let end = middle + self.stores[middle..].iter().take_while(|s| s.group == group).count();
        let PendingStore { group, site, .. } = self.stores[end - 1];
        let mut joined: BTreeMap<u64, Piece> = BTreeMap::new();
        for PendingStore { piece, .. } in self.stores.drain(first..end) {
            let into = joined.entry(piece.at).or_insert(Piece { mask: 0, value: 0, ..piece });
            piece.onto(&mut into.value);
            into.mask |= piece.mask;
        }
        let joined =
            joined.into_values().map(|piece| PendingStore { group: group | WHOLE, piece, site });
        self.stores.splice(first..first, joined);
    }
}

/// The durable image, as far as it is known. Threads are numbers; a write-back is awaited by its own thread's fences.
#[derive(Clone)]
pub struct Image {
    durable: Vec<u64>,
    pending: BTreeMap<u64, PendingStores>,
    /// For each thread, the lines that it has written back since its last fence.
    asked: Vec<BTreeSet<u64>>,
    groups: u64,
    domain: Domain,
    /// Whether a sync makes the dead process's writes to the file durable.
    syncs_left: bool,
}

impl Image {
    /// An image of which everything is durable.
    pub fn new(durable: Vec<u64>, domain: Domain) -> Self {
        let asked = Vec::new();
        Image { durable, pending: BTreeMap::new(), asked, groups: 0, domain, syncs_left: false }
    }

    /// The image that a process finds when it opens the memory after another process died now. It sees what the dead
    /// process left visible:
    /// - on [`Domain::Media`], of each line the first `kept(line)` steps of [`pending`](Self::pending), which have
    ///   reached the page cache; other stores, whether written back or not, died with the process;
    /// - elsewhere all stores: they are in the processor's caches or on their way to memory. `kept` is not called.
    ///
    /// All of that may be durable, and none certainly is; no fence waits for it until its line is written back again.
    /// If `synced`, the next fence on `Media` does make it durable, as a sync does with pages that another process has
    /// dirtied; if not, the state is that after a failed sync: the pages count as clean, and no later sync writes them.
    #[must_use]
    pub fn after_death(&self, kept: impl Fn(u64) -> usize, synced: bool) -> Image {
        let mut after = Image::new(self.durable.clone(), self.domain);
        after.groups = self.groups;
        // Where caches persist, only streamed lines are pending, and these leave the core when it stops.
        if !self.domain.needs_write_back() {
            for pending in self.pending.values() {
                pending.stores.iter().for_each(|store| patch(&mut after.durable, &store.piece));
            }
            return after;
        }
        for (line, pending) in &self.pending {
            let steps = if self.domain.evicts() { usize::MAX } else { kept(*line) };
            let stores: Vec<PendingStore> =
                self.candidates(pending).take(steps).flatten().copied().collect();
            if !stores.is_empty() {
                let left = stores.len();
                after.pending.insert(*line, PendingStores { stores, asked: Vec::new(), left });
            }
        }
        let has_left = self.pending.values().any(|pending| pending.left > 0);
        after.syncs_left = synced && (self.syncs_left || !has_left);
        after
    }

    /// The most steps of a line that `words`, an image given by [`cut`](Self::cut), has whole.
    pub fn steps_of(&self, line: u64, words: &[u64]) -> usize {
        let first = (line / WORD) as usize;
        let most = self.pending.get(&line).map_or(0, |pending| self.candidates(pending).count());
        let has = |steps: &usize| self.line(line, *steps) == words[first..first + WORDS];
        (0..=most).rev().find(has).unwrap_or(0)
    }

    /// Whether the line holds stores left by a dead process that are not yet certainly durable.
    pub fn is_left(&self, line: u64) -> bool {
        self.pending.get(&line).is_some_and(|pending| pending.left > 0)
    }

    /// The contents that a program sees if all pending stores are visible: the case after a death.
    pub fn visible(&self) -> Vec<u64> {
        let mut words = self.durable.clone();
        for pending in self.pending.values() {
            pending.stores.iter().for_each(|store| patch(&mut words, &store.piece));
        }
        words
    }

    /// Adds words of zero, durable.
    pub fn grow(&mut self, words: usize) {
        self.durable.resize(words, 0);
    }

    /// Stores without order among themselves.
    pub fn store(&mut self, pieces: &[Piece], site: Site) {
        self.groups += 1;
        for piece in pieces {
            if self.domain.needs_write_back() {
                let pending = self.pending.entry(line_of(piece.at)).or_default();
                pending.stores.push(PendingStore { group: self.groups, piece: *piece, site });
            } else {
                // Coherence: earlier streams to this line are in the caches by now.
                self.settle_all(line_of(piece.at));
                patch(&mut self.durable, piece);
            }
        }
        if let [piece] = pieces
            && let Some(pending) = self.pending.get_mut(&line_of(piece.at))
            && pending.stores.len() - pending.reached() > MOST_PENDING
        {
            pending.join_oldest();
        }
    }

    /// Stores past the caches: they need a fence but no write-back.
    pub fn stream(&mut self, thread: usize, pieces: &[Piece], site: Site) {
        self.groups += 1;
        for piece in pieces {
            let line = line_of(piece.at);
            let pending = self.pending.entry(line).or_default();
            pending.stores.push(PendingStore { group: self.groups, piece: *piece, site });
            pending.ask(thread);
            self.asked_by(thread).insert(line);
        }
    }

    /// A thread writes lines back.
    pub fn write_back(&mut self, thread: usize, lines: impl Iterator<Item = u64>) {
        for line in lines {
            if let Some(pending) = self.pending.get_mut(&line) {
                pending.ask(thread);
                self.asked_by(thread).insert(line);
            }
        }
    }

    /// This thread's write-backs are durable; on a block device, those of all threads.
    pub fn fence(&mut self, thread: usize) {
        if self.domain == Domain::Media {
            for by in 0..self.asked.len() {
                self.fence_one(by);
            }
            if std::mem::take(&mut self.syncs_left) {
                let lines: Vec<u64> = self.pending.keys().copied().collect();
                lines.into_iter().for_each(|line| self.settle_first(line, |line| line.left));
            }
        } else {
            self.fence_one(thread);
        }
    }

    fn fence_one(&mut self, thread: usize) {
        for line in std::mem::take(self.asked_by(thread)) {
            self.settle(line, thread);
        }
    }

    fn asked_by(&mut self, thread: usize) -> &mut BTreeSet<u64> {
        if self.asked.len() <= thread {
            self.asked.resize_with(thread + 1, BTreeSet::new);
        }
        &mut self.asked[thread]
    }

    /// Makes a thread's write-backs of a line durable.
    fn settle(&mut self, line: u64, thread: usize) {
        let Some(pending) = self.pending.get_mut(&line) else { return };
        let Some(index) = pending.asked.iter().position(|(by, _)| *by == thread) else { return };
        let (_, upto) = pending.asked.swap_remove(index);
        self.settle_first(line, |_| upto);
    }

    /// Makes the first `upto` stores of a line durable.
    fn settle_first(&mut self, line: u64, upto: impl FnOnce(&PendingStores) -> usize) {
        let Some(pending) = self.pending.get_mut(&line) else { return };
        let upto = upto(pending);
        for PendingStore { piece, .. } in pending.stores.drain(..upto) {
            patch(&mut self.durable, &piece);
        }
        pending.asked.iter_mut().for_each(|(_, other)| *other = other.saturating_sub(upto));
        pending.left = pending.left.saturating_sub(upto);
        if pending.stores.is_empty() {
            self.pending.remove(&line);
        }
    }

    /// Makes all threads' write-backs of a line durable.
    fn settle_all(&mut self, line: u64) {
        let threads: Vec<usize> = match self.pending.get(&line) {
            Some(pending) => pending.asked.iter().map(|(by, _)| *by).collect(),
            None => return,
        };
        threads.into_iter().for_each(|thread| self.settle(line, thread));
    }

    /// The stores of `pending` that may be durable, as groups in order.
    fn candidates<'a>(
        &self,
        pending: &'a PendingStores,
    ) -> impl Iterator<Item = &'a [PendingStore]> {
        let upto = if self.domain.evicts() { pending.stores.len() } else { pending.reached() };
        pending.stores[..upto].chunk_by(|left, right| left.group == right.group)
    }

    /// The certainly durable contents, as words.
    pub fn certain(&self) -> &[u64] {
        &self.durable
    }

    /// The lines that a power cut may leave in more than one state, ascending, each with the number of steps between
    /// the least (0) and the most.
    pub fn pending(&self) -> impl Iterator<Item = (u64, usize)> {
        self.pending.iter().map(|(line, pending)| (*line, self.candidates(pending).count()))
    }

    /// A line after the first `steps` of its steps.
    pub fn line(&self, line: u64, steps: usize) -> LineWords {
        let first = (line / WORD) as usize;
        let mut words: LineWords =
            self.durable[first..first + WORDS].try_into().expect("a whole line");
        if let Some(pending) = self.pending.get(&line) {
            for PendingStore { piece, .. } in self.candidates(pending).take(steps).flatten() {
                piece.onto(&mut words[((piece.at - line) / WORD) as usize]);
            }
        }
        words
    }

    /// Where the store was made that is step number `step` (from 0) of a line, and whether its
    /// write-back has been asked for.
    pub fn site(&self, line: u64, step: usize) -> Option<(Site, bool)> {
        let pending = self.pending.get(&line)?;
        let before: usize = self.candidates(pending).take(step).map(<[PendingStore]>::len).sum();
        let store = pending.stores.get(before)?;
        Some((store.site, before < pending.most_asked()))
    }

    /// Whether a power cut may leave `words` in a line.
    pub fn allows(&self, line: u64, words: &LineWords) -> bool {
        let Some(pending) = self.pending.get(&line) else { return self.line(line, 0) == *words };
        let mut groups = self.candidates(pending);
        let mut state = self.line(line, 0);
        loop {
            if state == *words {
                return true;
            }
            let Some(group) = groups.next() else { return false };
            let mut whole = state;
            for PendingStore { piece, .. } in group {
                piece.onto(&mut whole[((piece.at - line) / WORD) as usize]);
            }
            // Part of an unordered group: each piece is there or not, independently.
            if group[0].group & WHOLE == 0
                && group.len() > 1
                && between(&state, &whole, words, group, line)
            {
                return true;
            }
            state = whole;
        }
    }
}
