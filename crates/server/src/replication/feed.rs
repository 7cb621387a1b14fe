//! The stream of effects that replicas follow: in the order of their transactions' numbers, each since it is durable.
//!
//! The last bytes of it are kept (the *backlog*): each replica's thread sends from there what its replica lacks, and one
//! that was away for a moment goes on where it was. The stream has a name, which is new whenever the feed begins: places
//! in another stream mean nothing.

use crate::keyspace::unguessable;
use crate::transfer::resp;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::warn;

/// Numbers whose places are known.
const PLACES: usize = 1 << 16;

/// The effects of a transaction that is committed, and its number.
pub(crate) struct Sealed {
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
}

/// The stream.
pub(crate) struct Feed {
    on: AtomicBool,
    state: Mutex<FeedState>,
    changed: Condvar,
}

struct FeedState {
    /// The stream's name, 40 digits.
    id: String,
    /// The last bytes, and where in the stream they end.
    backlog: VecDeque<u8>,
    end: u64,
    /// Bytes that are kept.
    most: usize,
    /// The number of the last transaction in the stream; `None` before the first one.
    last: Option<u64>,
    /// Where the last transactions end, up to `last`.
    places: VecDeque<u64>,
    /// Transactions whose predecessors are missing, and their bytes.
    pending: BTreeMap<u64, Vec<u8>>,
    pending_bytes: usize,
}

/// Why there is nothing to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Nothing new, within the time.
    Nothing,
    /// What is lacking is not kept any more.
    Lost,
}

impl Feed {
    /// A feed that keeps so many bytes, and is off.
    pub(crate) fn new(most: usize) -> Self {
        let state = FeedState::new(0, most);
        Feed { on: AtomicBool::new(false), state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether effects are noted.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::SeqCst)
    }

    /// Effects are noted from the transaction on that follows, which is to be the [first](Self::begin).
    pub(crate) fn turn_on(&self) {
        self.on.store(true, Ordering::SeqCst);
    }

    /// Nobody follows any more: what is noted from here on is lost, and the stream has another name when it begins again.
    pub(crate) fn turn_off(&self) {
        self.on.store(false, Ordering::SeqCst);
        let mut state = self.state();
        *state = FeedState::new(state.end, state.most);
    }

    /// The transaction with this number is the first one, and is committed.
    pub(crate) fn begin(&self, number: u64) {
        let mut state = self.state();
        if state.last.is_none() {
            state.last = Some(number);
            // Of transactions before it there may be effects.
            state.pending.retain(|one, _| is_after(*one, number));
            state.pending_bytes = state.pending.values().map(Vec::len).sum();
            state.places = VecDeque::from([state.end]);
            state.merge();
            self.changed.notify_all();
        }
    }

    /// Adds effects that are durable.
    pub(crate) fn add(&self, effects: Vec<Sealed>) {
        if effects.is_empty() || !self.is_on() {
            return;
        }
        let mut state = self.state();
        let last = state.last;
        let new =
            effects.into_iter().filter(|one| last.is_none_or(|last| is_after(one.number, last)));
        for one in new {
            state.pending_bytes += one.bytes.len();
            state.pending.insert(one.number, one.bytes);
        }
        state.merge();
        let is_too_much = state.last.is_some() && state.pending_bytes > state.most;
        drop(state);
        if is_too_much {
            // Replicas begin anew.
            warn!("replicas are given up: a thread keeps back what comes before the rest");
            self.turn_off();
        }
        self.changed.notify_all();
    }

    /// Adds a command that is no effect.
    pub(crate) fn say(&self, args: &[&[u8]]) {
        let mut bytes = Vec::new();
        resp::command(&mut bytes, args);
        let mut state = self.state();
        state.append(&bytes);
        self.changed.notify_all();
    }

    /// Where the transaction with this number ends, once it is in the stream.
    pub(crate) fn place_of(&self, number: u64) -> Option<u64> {
        self.state().place_of(number)
    }

    /// The same, with the stream's name; waits for it, at most this long.
    pub(crate) fn await_place(&self, number: u64, most: Duration) -> Option<(String, u64)> {
        let until = Instant::now() + most;
        let mut state = self.state();
        loop {
            if let Some(place) = state.place_of(number) {
                return Some((state.id.clone(), place));
            }
            let left =
                until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The stream's name, where it ends, and where the backlog begins.
    pub(crate) fn facts(&self) -> (String, u64, u64) {
        let state = self.state();
        (state.id.clone(), state.end, state.start())
    }

    /// Bytes that are kept at most.
    pub(crate) fn most(&self) -> usize {
        self.state().most
    }

    /// Whether a replica that has the stream `id` up to `place` can go on there.
    pub(crate) fn has(&self, id: &[u8], place: u64) -> bool {
        let state = self.state();
        let is_there = (state.start()..=state.end).contains(&place);
        self.is_on() && id == state.id.as_bytes() && is_there
    }

    /// Copies bytes from `place` on to `to`, at most `count`; waits for some, at most `most`. Returns how many.
    pub(crate) fn read(
        &self,
        id: &str,
        place: u64,
        count: usize,
        most: Duration,
        to: &mut Vec<u8>,
    ) -> Result<usize, Lack> {
        let nothing_new = |state: &mut FeedState| state.id == id && state.end <= place;
        let waited = self.changed.wait_timeout_while(self.state(), most, nothing_new);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if state.id != id || place < state.start() {
            return Err(Lack::Lost);
        }
        let from = (place - state.start()) as usize;
        let len = state.backlog.len().saturating_sub(from).min(count);
        if len == 0 {
            return Err(Lack::Nothing);
        }
        to.clear();
        let (one, other) = state.backlog.as_slices();
        to.extend(one.iter().skip(from).take(len));
        let left = len - to.len();
        to.extend(other.iter().skip(from.saturating_sub(one.len())).take(left));
        Ok(len)
    }

    /// Those who wait for the stream look at it.
    pub(crate) fn wake(&self) {
        self.changed.notify_all();
    }
}

impl FeedState {
    /// A stream without anything in it, that begins at `end`.
    fn new(end: u64, most: usize) -> Self {
        FeedState {
            id: fresh_id(),
            backlog: VecDeque::new(),
            end,
            most,
            last: None,
            places: VecDeque::new(),
            pending: BTreeMap::new(),
            pending_bytes: 0,
        }
    }

    /// Where the backlog begins.
    fn start(&self) -> u64 {
        self.end - self.backlog.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) {
        self.end += bytes.len() as u64;
        let kept = &bytes[bytes.len().saturating_sub(self.most)..];
        let gone = (self.backlog.len() + kept.len()).saturating_sub(self.most);
        self.backlog.drain(..gone.min(self.backlog.len()));
        self.backlog.extend(kept);
    }

    fn merge(&mut self) {
        let Some(mut last) = self.last else { return };
        while let Some(bytes) = self.pending.remove(&last.wrapping_add(1)) {
            last = last.wrapping_add(1);
            self.pending_bytes -= bytes.len();
            self.append(&bytes);
            self.places.push_back(self.end);
        }
        self.last = Some(last);
        let gone = self.places.len().saturating_sub(PLACES);
        self.places.drain(..gone);
    }

    fn place_of(&self, number: u64) -> Option<u64> {
        let before = self.last?.wrapping_sub(number) as i64;
        match usize::try_from(before) {
            // It is yet to come.
            Err(_) => None,
            // One that is long gone ends before those that are known.
            Ok(before) => {
                let index = self.places.len().saturating_sub(before + 1);
                self.places.get(index).copied()
            }
        }
    }
}

/// Whether a number is after another one.
const fn is_after(number: u64, other: u64) -> bool {
    number.wrapping_sub(other) as i64 > 0
}

/// A name of 40 digits that nobody else has.
pub(crate) fn fresh_id() -> String {
    format!("{:016x}{:016x}{:08x}", unguessable(), unguessable(), unguessable() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(number: u64, text: &str) -> Sealed {
        Sealed { number, bytes: text.into() }
    }

    fn read(feed: &Feed, place: u64) -> Result<String, Lack> {
        let (id, ..) = feed.facts();
        let mut bytes = Vec::new();
        feed.read(&id, place, 100, Duration::ZERO, &mut bytes)?;
        Ok(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn the_stream_has_the_order_of_numbers() {
        let feed = Feed::new(100);
        feed.turn_on();
        // Numbers go on after the greatest one.
        let first = u64::MAX - 1;
        feed.add(vec![sealed(first.wrapping_add(2), "b")]);
        assert_eq!(read(&feed, 0), Err(Lack::Nothing));
        feed.add(vec![sealed(first.wrapping_sub(1), "before")]);
        feed.begin(first);
        feed.add(vec![sealed(first.wrapping_sub(2), "before"), sealed(first, "first")]);
        feed.add(vec![sealed(first.wrapping_add(3), "c")]);
        assert_eq!(feed.place_of(first.wrapping_add(3)), None);
        feed.add(vec![sealed(first.wrapping_add(1), "aa")]);
        assert_eq!(read(&feed, 0).as_deref(), Ok("aabc"));
        assert!(feed.state().pending.is_empty());
        assert_eq!(read(&feed, 3).as_deref(), Ok("c"));
        let places = (0..4).map(|ahead| feed.place_of(first.wrapping_add(ahead)));
        assert_eq!(places.collect::<Vec<_>>(), [Some(0), Some(2), Some(3), Some(4)]);
    }

    #[test]
    fn the_backlog_keeps_the_last_bytes() {
        let feed = Feed::new(8);
        feed.turn_on();
        feed.begin(7);
        for number in 8..28 {
            feed.add(vec![sealed(number, "xyz")]);
            let (id, end, start) = feed.facts();
            assert!(
                end - start <= 8 && feed.has(id.as_bytes(), start) && feed.has(id.as_bytes(), end)
            );
            assert!(!feed.has(id.as_bytes(), end + 1) && !feed.has(b"another", end));
            assert!(start == 0 || !feed.has(id.as_bytes(), start - 1));
        }
        assert_eq!(read(&feed, 60 - 8).as_deref(), Ok("yzxyzxyz"));
        assert_eq!(read(&feed, 60 - 9), Err(Lack::Lost));
        let (id, ..) = feed.facts();
        feed.turn_off();
        assert!(!feed.has(id.as_bytes(), 60) && feed.facts().0 != id);
    }
}
