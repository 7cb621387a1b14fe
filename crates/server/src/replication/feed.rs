//! The stream that replicas follow.
//!
//! A master's is made of effects, in the order of their transactions' numbers, each since it is durable. A server that
//! follows another one passes on that one's stream, byte for byte and by the same name, each part since what it does is
//! durable here: so a replica may go on from either of them.
//!
//! The last bytes of it are kept (the *backlog*): each replica's thread sends from there what its replica lacks, and one
//! that was away for a moment goes on where it was. Places in a stream of another name mean nothing, but for one: when a
//! server becomes the master, its stream gets a new name, and is the same as the old one up to there.

use crate::keyspace::unguessable;
use crate::transfer::resp;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU8, Ordering};
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

/// Where the stream comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Source {
    /// There is none: nobody follows.
    Nothing,
    /// The effects of this server's transactions.
    Effects,
    /// A master's stream, which is passed on.
    Master,
}

/// The stream.
pub(crate) struct Feed {
    /// A [`Source`]; changed while `state` is locked.
    source: AtomicU8,
    state: Mutex<FeedState>,
    changed: Condvar,
}

struct FeedState {
    /// The stream's name, 40 digits.
    id: String,
    /// The name that it had before, and up to where.
    before: Option<(String, u64)>,
    /// The last bytes, and where in the stream they end.
    backlog: VecDeque<u8>,
    end: u64,
    /// Bytes of a master's stream that were performed, and are not known to be durable.
    ahead: Vec<u8>,
    /// Bytes that are kept.
    most: usize,
    /// The number of the last transaction in the stream; `None` before the first one.
    last: Option<u64>,
    /// Whether effects are noted, and the first transaction is yet to be told by the thread that [prepares](Feed::prepare).
    prepares: bool,
    /// Where the last transactions end, up to `last`.
    places: VecDeque<u64>,
    /// Transactions whose predecessors are missing, and their bytes.
    pending: BTreeMap<u64, Vec<u8>>,
    pending_bytes: usize,
}

/// The facts about the stream.
#[derive(Clone, Debug)]
pub(crate) struct FeedFacts {
    pub(crate) id: String,
    /// The name that it had before, and up to where.
    pub(crate) before: Option<(String, u64)>,
    /// Where the backlog begins.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Whether there is one.
    pub(crate) is_kept: bool,
}

/// Why there is nothing to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Nothing new, within the time.
    Nothing,
    /// What is lacking is not kept any more.
    Lost,
    /// The stream has another name by now, or is another one.
    Renamed,
}

/// Whether a replica can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GoOn {
    /// It can, in the stream of this name.
    Yes(String),
    /// It has more of this stream than is here, as yet.
    Ahead,
    No,
}

impl Feed {
    /// A feed that keeps so many bytes, and is off.
    pub(crate) fn new(most: usize) -> Self {
        let state = FeedState::new(0, most);
        let source = AtomicU8::new(Source::Nothing as u8);
        Feed { source, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn comes_from(&self, source: Source) -> bool {
        self.source.load(Ordering::SeqCst) == source as u8
    }

    fn set_source(&self, source: Source) {
        self.source.store(source as u8, Ordering::SeqCst);
    }

    /// Whether effects are noted.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.comes_from(Source::Effects)
    }

    /// Whether a master's stream is passed on.
    pub(crate) fn is_passed_on(&self) -> bool {
        self.comes_from(Source::Master)
    }

    /// Effects are noted from the transaction on that follows, which is to be the [first](Self::begin). Returns the stream's
    /// name; `None` if a master's is passed on. Waits while the server becomes the master.
    pub(crate) fn turn_on(&self) -> Option<String> {
        let waited = self.changed.wait_while(self.state(), |state| state.prepares);
        let state = waited.unwrap_or_else(PoisonError::into_inner);
        if self.comes_from(Source::Master) {
            return None;
        }
        self.set_source(Source::Effects);
        Some(state.id.clone())
    }

    /// Nobody follows any more: what is noted from here on is lost, and the stream has another name when it begins again.
    pub(crate) fn turn_off(&self) {
        let mut state = self.state();
        if self.is_on() {
            self.end(&mut state);
        }
    }

    fn end(&self, state: &mut FeedState) {
        self.set_source(Source::Nothing);
        *state = FeedState::new(state.end, state.most);
        self.changed.notify_all();
    }

    /// The transaction with this number is the first one, and is committed.
    pub(crate) fn begin(&self, number: u64) {
        let mut state = self.state();
        if self.is_on() && state.last.is_none() && !state.prepares {
            state.begin(number);
            self.changed.notify_all();
        }
    }

    /// Adds effects that are durable.
    pub(crate) fn add(&self, effects: Vec<Sealed>) {
        if effects.is_empty() || !self.is_on() {
            return;
        }
        let mut state = self.state();
        if !self.is_on() {
            return;
        }
        let last = state.last;
        let new =
            effects.into_iter().filter(|one| last.is_none_or(|last| is_after(one.number, last)));
        for one in new {
            state.pending_bytes += one.bytes.len();
            state.pending.insert(one.number, one.bytes);
        }
        state.merge();
        let is_too_much = state.last.is_some() && state.pending_bytes > state.most;
        if is_too_much {
            // Replicas begin anew.
            warn!("replicas are given up: a thread keeps back what comes before the rest");
            self.end(&mut state);
        }
        self.changed.notify_all();
    }

    /// Adds a command that is no effect.
    pub(crate) fn say(&self, args: &[&[u8]]) {
        let mut bytes = Vec::new();
        resp::command(&mut bytes, args);
        let mut state = self.state();
        if self.is_on() && state.last.is_some() {
            state.append(&bytes);
            self.changed.notify_all();
        }
    }

    /// Where the transaction with this number ends, once it is in the stream; a place behind that, if it is long gone.
    pub(crate) fn place_of(&self, number: u64) -> Option<u64> {
        self.state().place_of(number)
    }

    /// The same, or the stream's beginning without a number, and the stream's name.
    pub(crate) fn named_place_of(&self, number: Option<u64>) -> Option<(String, u64)> {
        let state = self.state();
        let place = number.map_or(Some(0), |number| state.place_of(number))?;
        Some((state.id.clone(), place))
    }

    /// Where exactly it ends in the stream of this name; waits for it, at most this long.
    pub(crate) fn await_place(&self, id: &str, number: u64, most: Duration) -> Result<u64, Lack> {
        let until = Instant::now() + most;
        let mut state = self.state();
        loop {
            if state.id != id || !self.is_on() {
                return Err(Lack::Renamed);
            }
            if let Some(after) = state.count_after(number) {
                let index = state.places.len().checked_sub(after + 1);
                return index.map(|index| state.places[index]).ok_or(Lack::Lost);
            }
            state = self.wait(state, until).ok_or(Lack::Nothing)?;
        }
    }

    /// Waits for a change; `None` when the time is over.
    fn wait<'a>(
        &self,
        state: MutexGuard<'a, FeedState>,
        until: Instant,
    ) -> Option<MutexGuard<'a, FeedState>> {
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        let waited = self.changed.wait_timeout(state, left);
        Some(waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// The facts about the stream.
    pub(crate) fn facts(&self) -> FeedFacts {
        let state = self.state();
        FeedFacts {
            id: state.id.clone(),
            before: state.before.clone(),
            start: state.start(),
            end: state.end,
            is_kept: !self.comes_from(Source::Nothing),
        }
    }

    /// Bytes that are kept at most.
    pub(crate) fn most(&self) -> usize {
        self.state().most
    }

    /// Whether a replica that has the stream `id` up to `place` can go on there.
    pub(crate) fn go_on(&self, id: &[u8], place: u64) -> GoOn {
        let state = self.state();
        let is_named = id == state.id.as_bytes();
        let before = state.before.as_ref().filter(|(name, _)| id == name.as_bytes());
        let is_same = is_named || before.is_some_and(|(_, end)| place <= *end);
        match () {
            () if self.comes_from(Source::Nothing) || !is_same || place < state.start() => GoOn::No,
            () if place <= state.end => GoOn::Yes(state.id.clone()),
            () if self.comes_from(Source::Master) => GoOn::Ahead,
            () => GoOn::No,
        }
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
        if state.id != id {
            return Err(Lack::Renamed);
        }
        if place < state.start() {
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

/// A master's stream.
impl Feed {
    /// The server is no master any longer; `number` is that of its last transaction. Waits for the effects before it, at
    /// most this long. Returns the stream's name and where that transaction ends, if that is where the data is: if there is a
    /// stream, and nothing was written after that transaction.
    pub(crate) fn hold(&self, number: u64, most: Duration) -> Option<(String, u64)> {
        let until = Instant::now() + most;
        self.add(vec![Sealed { number, bytes: Vec::new() }]);
        let mut state = self.state();
        while self.is_on() && state.last.is_some_and(|last| is_after(number, last)) {
            match self.wait(state, until) {
                Some(again) => state = again,
                None => state = self.state(),
            }
            if Instant::now() >= until {
                break;
            }
        }
        let is_last = self.is_on() && state.last == Some(number) && state.pending.is_empty();
        let place = state.places.back().copied().filter(|_| is_last);
        self.set_source(Source::Master);
        if place.is_none() {
            state.restart(fresh_id(), 0);
        }
        state.stop_noting();
        self.changed.notify_all();
        place.map(|place| (state.id.clone(), place))
    }

    /// Nothing of the master's stream is here, as yet; replicas of this server begin anew.
    pub(crate) fn forget(&self) {
        self.restart(fresh_id(), 0);
    }

    /// The master's stream of this name is passed on from here.
    pub(crate) fn restart(&self, id: String, at: u64) {
        let mut state = self.state();
        self.set_source(Source::Master);
        state.restart(id, at);
        self.changed.notify_all();
    }

    /// The stream `old` is passed on from `at`, by the name `new` from there on.
    pub(crate) fn resume(&self, old: &str, new: &str, at: u64) {
        let mut state = self.state();
        self.set_source(Source::Master);
        let is_here = state.id == old && (state.start()..=state.tip()).contains(&at);
        if !is_here {
            state.restart(old.to_owned(), at);
        }
        if old != new {
            // What comes after that place is another master's.
            state.cut(at);
            state.before = Some((old.to_owned(), at));
            state.id = new.to_owned();
        }
        self.changed.notify_all();
    }

    /// Takes bytes of the master's stream, from `from` on, that were performed: those that are not here already.
    pub(crate) fn pass(&self, from: u64, bytes: &[u8]) {
        let mut state = self.state();
        if !self.comes_from(Source::Master) {
            return;
        }
        if from > state.tip() {
            let id = state.id.clone();
            state.restart(id, from);
        }
        let known = state.tip().saturating_sub(from).min(bytes.len() as u64) as usize;
        state.ahead.extend_from_slice(&bytes[known..]);
    }

    /// All that was performed is durable: replicas get it.
    pub(crate) fn release(&self) {
        let mut state = self.state();
        if !state.ahead.is_empty() {
            state.release();
            self.changed.notify_all();
        }
    }

    /// The server is about to become the master. From the next transaction on effects are noted; then it is
    /// [promoted](Self::promote), or [not](Self::stay), or is the master [as before](Self::lead_on).
    pub(crate) fn prepare(&self) {
        let mut state = self.state();
        state.stop_noting();
        state.prepares = true;
        self.set_source(Source::Effects);
    }

    /// The server is the master as before, from the transaction with this number on: what was [held](Self::hold) is all that
    /// there is before it.
    pub(crate) fn lead_on(&self, number: u64) {
        self.state().begin(number);
        self.changed.notify_all();
    }

    /// It has become the master, and nothing of the old one's stream is here.
    pub(crate) fn lead_anew(&self) {
        self.end(&mut self.state());
    }

    /// It does not become the master.
    pub(crate) fn stay(&self) {
        let mut state = self.state();
        self.set_source(Source::Master);
        state.stop_noting();
        self.changed.notify_all();
    }

    /// It has become the master, by the transaction with this number, which is durable: the stream goes on by another name.
    pub(crate) fn promote(&self, number: u64) {
        let mut state = self.state();
        state.release();
        state.before = Some((std::mem::replace(&mut state.id, fresh_id()), state.end));
        // Each transaction's effects begin and end there.
        let mut bytes = Vec::new();
        resp::command(&mut bytes, &[b"SELECT", b"0"]);
        state.append(&bytes);
        state.begin(number);
        self.changed.notify_all();
    }
}

impl FeedState {
    /// A stream without anything in it, that begins at `end`.
    fn new(end: u64, most: usize) -> Self {
        FeedState {
            id: fresh_id(),
            before: None,
            backlog: VecDeque::new(),
            end,
            ahead: Vec::new(),
            most,
            last: None,
            prepares: false,
            places: VecDeque::new(),
            pending: BTreeMap::new(),
            pending_bytes: 0,
        }
    }

    /// Where the backlog begins.
    fn start(&self) -> u64 {
        self.end - self.backlog.len() as u64
    }

    /// Up to where the stream was performed.
    fn tip(&self) -> u64 {
        self.end + self.ahead.len() as u64
    }

    fn restart(&mut self, id: String, at: u64) {
        // There is no stream that is as long.
        let at = at.min(i64::MAX as u64);
        *self = FeedState { id, ..FeedState::new(at, self.most) };
    }

    /// Drops what comes after `at`, which is in the stream.
    fn cut(&mut self, at: u64) {
        self.ahead.truncate(at.saturating_sub(self.end) as usize);
        let gone = self.end.saturating_sub(at).min(self.backlog.len() as u64);
        self.backlog.truncate(self.backlog.len() - gone as usize);
        self.end -= gone;
    }

    fn release(&mut self) {
        let bytes = std::mem::take(&mut self.ahead);
        self.append(&bytes);
    }

    fn stop_noting(&mut self) {
        self.last = None;
        self.prepares = false;
        self.places.clear();
        self.pending.clear();
        self.pending_bytes = 0;
    }

    fn begin(&mut self, number: u64) {
        self.last = Some(number);
        self.prepares = false;
        // Of transactions before it there may be effects.
        self.pending.retain(|one, _| is_after(*one, number));
        self.pending_bytes = self.pending.values().map(Vec::len).sum();
        self.places = VecDeque::from([self.end]);
        self.merge();
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

    /// Where the transaction with this number ends, or a place behind that, if it is in the stream.
    fn place_of(&self, number: u64) -> Option<u64> {
        let after = self.count_after(number)?;
        // One that is long gone ends before those that are known.
        self.places.get(self.places.len().saturating_sub(after + 1)).copied()
    }

    /// How many transactions of the stream are after the one with this number; `None` if that one is yet to come.
    fn count_after(&self, number: u64) -> Option<usize> {
        usize::try_from(self.last?.wrapping_sub(number) as i64).ok()
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
        let id = feed.facts().id;
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
            let FeedFacts { id, end, start, .. } = feed.facts();
            let has = |id: &[u8], place| feed.go_on(id, place) != GoOn::No;
            assert!(end - start <= 8 && has(id.as_bytes(), start) && has(id.as_bytes(), end));
            assert!(!has(id.as_bytes(), end + 1) && !has(b"another", end));
            assert!(start == 0 || !has(id.as_bytes(), start - 1));
        }
        assert_eq!(read(&feed, 60 - 8).as_deref(), Ok("yzxyzxyz"));
        assert_eq!(read(&feed, 60 - 9), Err(Lack::Lost));
        let id = feed.facts().id;
        feed.turn_off();
        assert!(feed.go_on(id.as_bytes(), 60) == GoOn::No && feed.facts().id != id);
    }

    #[test]
    fn a_master_s_stream_is_passed_on_when_it_is_durable() {
        let feed = Feed::new(100);
        feed.restart("x".repeat(40), 1000);
        let old = feed.facts().id;
        feed.pass(1000, b"abcd");
        assert_eq!(read(&feed, 1000), Err(Lack::Nothing));
        assert_eq!(feed.go_on(old.as_bytes(), 1004), GoOn::Ahead);
        feed.release();
        // It comes a second time.
        feed.pass(1002, b"cdef");
        feed.release();
        assert_eq!(read(&feed, 1001).as_deref(), Ok("bcdef"));
        // Another server is the master: its stream is the same up to a place.
        feed.resume(&old, &"y".repeat(40), 1004);
        assert_eq!(feed.facts().end, 1004);
        assert_eq!(feed.go_on(old.as_bytes(), 1004), GoOn::Yes("y".repeat(40)));
        assert_eq!(feed.go_on(old.as_bytes(), 1005), GoOn::No);
        feed.pass(1004, b"gh");
        feed.release();
        assert_eq!(read(&feed, 1000).as_deref(), Ok("abcdgh"));
        assert_eq!(feed.go_on(old.as_bytes(), 1003), GoOn::Yes("y".repeat(40)));
        // A gap: those before it begin anew.
        feed.pass(1010, b"z");
        feed.release();
        assert_eq!(read(&feed, 1010).as_deref(), Ok("z"));
        assert_eq!(feed.go_on(&[b'y'; 40], 1006), GoOn::No);
        feed.forget();
        assert_eq!(feed.go_on(&[b'y'; 40], 1010), GoOn::No);
    }

    #[test]
    fn a_stream_goes_on_when_the_master_changes() {
        let feed = Feed::new(100);
        feed.restart("x".repeat(40), 50);
        feed.pass(50, b"ab");
        assert!(feed.turn_on().is_none() && !feed.is_on());
        feed.prepare();
        feed.add(vec![sealed(6, "own"), sealed(4, "before")]);
        feed.promote(5);
        let FeedFacts { id, before, end, .. } = feed.facts();
        assert_eq!(before, Some(("x".repeat(40), 52)));
        assert_eq!(read(&feed, 50).as_deref(), Ok("ab*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\nown"));
        assert_eq!(feed.go_on(&[b'x'; 40], 52), GoOn::Yes(id.clone()));
        assert_eq!(feed.go_on(&[b'x'; 40], 53), GoOn::No);
        // Nothing was written after its last transaction; then something was.
        assert_eq!(feed.hold(7, Duration::ZERO), Some((id.clone(), end)));
        assert_eq!(feed.go_on(id.as_bytes(), end), GoOn::Yes(id.clone()));
        feed.prepare();
        feed.promote(8);
        feed.add(vec![sealed(10, "y")]);
        assert_eq!(feed.hold(9, Duration::ZERO), None);
        assert_eq!(feed.go_on(id.as_bytes(), end), GoOn::No);
        assert!(!feed.is_on() && feed.turn_on().is_none());
    }

    #[test]
    fn a_stream_that_is_not_here_begins_where_it_goes_on() {
        let feed = Feed::new(100);
        let (x, y, z) = ("x".repeat(40), "y".repeat(40), "z".repeat(40));
        feed.restart(x, 50);
        feed.pass(50, b"ab");
        feed.release();
        feed.resume(&y, &y, 51);
        let FeedFacts { id, start, end, .. } = feed.facts();
        assert_eq!((id, start, end), (y.clone(), 51, 51));
        // What was performed, and is not durable, may come after the place, too.
        feed.pass(51, b"cdef");
        feed.resume(&y, &z, 53);
        feed.pass(53, b"gh");
        feed.release();
        assert_eq!(read(&feed, 51).as_deref(), Ok("cdgh"));
        assert_eq!(feed.go_on(y.as_bytes(), 54), GoOn::No);
    }

    #[test]
    fn the_end_of_a_master_s_stream_waits_for_effects_that_are_yet_to_come() {
        let feed = std::sync::Arc::new(Feed::new(100));
        let id = feed.turn_on().unwrap();
        feed.begin(4);
        let own = std::sync::Arc::clone(&feed);
        let holds = std::thread::spawn(move || own.hold(6, Duration::from_secs(20)));
        std::thread::sleep(Duration::from_millis(50));
        feed.add(vec![sealed(5, "late")]);
        assert_eq!(holds.join().unwrap(), Some((id, 4)));
    }

    #[test]
    fn a_replica_that_is_not_promoted_notes_nothing() {
        let feed = Feed::new(100);
        feed.restart("x".repeat(40), 50);
        feed.prepare();
        assert!(feed.is_on());
        feed.stay();
        assert!(feed.is_passed_on() && !feed.is_on());
        feed.pass(50, b"ab");
        feed.release();
        assert_eq!(read(&feed, 50).as_deref(), Ok("ab"));
    }

    #[test]
    fn a_master_that_follows_nobody_after_all_keeps_its_stream() {
        let feed = Feed::new(100);
        feed.turn_on();
        feed.begin(4);
        feed.add(vec![sealed(5, "a")]);
        let FeedFacts { id, .. } = feed.facts();
        assert_eq!(feed.hold(6, Duration::ZERO), Some((id.clone(), 1)));
        feed.prepare();
        feed.lead_on(7);
        feed.add(vec![sealed(8, "b")]);
        assert_eq!((read(&feed, 0).as_deref(), feed.facts().id), (Ok("ab"), id.clone()));
        // It is not known any more where that one ended.
        assert_eq!(feed.await_place(&id, 5, Duration::ZERO), Err(Lack::Lost));
        assert_eq!(feed.await_place(&id, 8, Duration::ZERO), Ok(2));
        assert_eq!(feed.await_place(&id, 9, Duration::ZERO), Err(Lack::Nothing));
    }

    #[test]
    fn a_snapshot_s_place_is_exact() {
        let feed = Feed::new(1 << 20);
        let id = feed.turn_on().unwrap();
        feed.begin(0);
        let all: Vec<_> = (1..=PLACES as u64).map(|number| sealed(number, "x")).collect();
        feed.add(all);
        assert_eq!(feed.await_place(&id, 1, Duration::ZERO), Ok(1));
        assert_eq!(feed.await_place(&id, 0, Duration::ZERO), Err(Lack::Lost));
        // For WAIT any place behind it will do.
        assert_eq!(feed.place_of(0), Some(1));
    }

    /// A replica's snapshot may begin while the server becomes the master.
    #[test]
    fn no_snapshot_begins_the_stream_of_a_new_master() {
        let feed = Feed::new(100);
        feed.restart("x".repeat(40), 50);
        feed.prepare();
        // The snapshot's transaction, behind the one by which the server becomes the master.
        feed.begin(6);
        feed.add(vec![sealed(6, "")]);
        feed.promote(5);
        feed.add(vec![sealed(7, "y")]);
        assert_eq!(read(&feed, 50).as_deref(), Ok("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\ny"));
        // One that comes meanwhile waits.
        let feed = std::sync::Arc::new(Feed::new(100));
        feed.restart("x".repeat(40), 50);
        feed.prepare();
        let own = std::sync::Arc::clone(&feed);
        let comes = std::thread::spawn(move || own.turn_on());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!comes.is_finished());
        feed.promote(5);
        assert_eq!(comes.join().unwrap(), Some(feed.facts().id));
    }
}
