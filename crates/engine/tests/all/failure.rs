//! A failing medium: every commit reports the failure, whatever it was about to need. And a slow one: readers do not
//! wait for it.

use crate::is_concurrent;
use perdura_engine::area::SMALLEST;
use perdura_engine::{
    Access, ArchaptRedoEngine, ArchaptUndoEngine, Engine, Error, Mode, Session, SkippingRedoEngine,
    SkippingUndoEngine, Tuning, on_each_engine,
};
use perdura_memory::reference::Cut;
use perdura_memory::{AnyMemory, Domain, Memory, Reference, Survives};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

struct Failing {
    inner: Reference,
    failed: AtomicBool,
    /// Whether fences panic.
    panics: AtomicBool,
    /// This many more fences succeed, and all later ones fail.
    fences_left: AtomicU64,
    /// This many stores, write-backs and fences later, one panics.
    left: AtomicU64,
    /// Runs during the next fence.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Failing {
    /// A memory that works until told otherwise.
    fn new(inner: Reference) -> Self {
        let (failed, panics) = (AtomicBool::new(false), AtomicBool::new(false));
        let [left, fences_left] = [(); 2].map(|()| AtomicU64::new(u64::MAX));
        Failing { inner, failed, panics, fences_left, left, meanwhile: Mutex::new(None) }
    }

    fn count(&self) {
        let before = self.left.load(Ordering::Relaxed);
        assert!(before != 0, "as planned");
        self.left.store(before.saturating_sub(u64::from(before != u64::MAX)), Ordering::Relaxed);
    }
}

// SAFETY: a `Reference`, whose fences can be made to report a failure.
unsafe impl Memory for Failing {
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
        self.inner.load(at)
    }

    unsafe fn store_unchecked(&self, at: u64, value: u64) {
        self.count();
        self.inner.store(at, value);
    }

    unsafe fn copy_out_unchecked(&self, at: u64, to: &mut [u8]) {
        self.inner.copy_out(at, to);
    }

    unsafe fn copy_in_unchecked(&self, at: u64, from: &[u8]) {
        self.count();
        self.inner.copy_in(at, from);
    }

    unsafe fn stream_unchecked(&self, at: u64, from: &[u64]) {
        self.count();
        self.inner.stream(at, from);
    }

    fn compare_exchange(&self, at: u64, old: u64, new: u64) -> Result<u64, u64> {
        self.inner.compare_exchange(at, old, new)
    }

    fn write_back(&self, at: u64, len: u64) {
        self.count();
        self.inner.write_back(at, len);
    }

    fn fence(&self) {
        assert!(!self.panics.load(Ordering::Relaxed), "as planned");
        self.count();
        match self.fences_left.load(Ordering::Relaxed) {
            u64::MAX => {}
            0 => self.failed.store(true, Ordering::Relaxed),
            more => self.fences_left.store(more - 1, Ordering::Relaxed),
        }
        let meanwhile = self.meanwhile.lock().unwrap().take();
        meanwhile.into_iter().for_each(|meanwhile| meanwhile());
        self.inner.fence();
    }

    fn check_fence(&self) -> io::Result<()> {
        if self.failed.load(Ordering::Relaxed) { Err(io::Error::other("broken")) } else { Ok(()) }
    }

    fn pause(&self, turn: u32) {
        self.inner.pause(turn);
    }

    fn now(&self) -> u64 {
        self.inner.now()
    }
}

fn any(memory: &Arc<Failing>) -> Arc<AnyMemory> {
    Arc::new(AnyMemory::new(memory.clone()))
}

/// Also if a segment is needed and none is free: that does not mean that the transaction is too large.
fn says_io<E: Engine<AnyMemory>>(lines: u64) {
    let inner = Reference::new(1 << 20, Domain::Media);
    let memory = Arc::new(Failing::new(inner));
    E::format(&any(&memory), 0..SMALLEST);
    let engine = E::start(any(&memory), 0..SMALLEST).unwrap();
    let mut session = engine.session().unwrap();
    let mut commit = |round: u64| {
        session.begin(Mode::Write);
        for line in 0..lines {
            session.write_word(SMALLEST + line * 64, round).unwrap();
        }
        let ticket = session.commit()?;
        session.wait_durable(ticket)
    };
    commit(0).unwrap();
    memory.failed.store(true, Ordering::Relaxed);
    for round in 1..400 {
        let error = commit(round).unwrap_err();
        assert!(matches!(error, Error::Io(_)), "commit {round} of {lines} lines: {error}");
    }
}

#[test]
fn a_failed_medium_is_not_taken_for_a_large_transaction() {
    for lines in [1, 100, 1000] {
        on_each_engine!(crash_consistent says_io::<AnyMemory>(lines));
    }
}

/// A checkpoint that panics may have forgotten lines that are not durable: no later one may succeed, and none may wait
/// for it.
fn stays_whole<E: Engine<AnyMemory>>(domain: Domain) {
    let memory = Arc::new(Failing::new(Reference::new(SMALLEST + 4096, domain)));
    E::format(&any(&memory), 0..SMALLEST);
    let engine = E::start(any(&memory), 0..SMALLEST).unwrap();
    let mut session = engine.session().unwrap();
    session.begin(Mode::Write);
    session.write_word(SMALLEST, 1).unwrap();
    let ticket = session.commit().unwrap();
    session.wait_durable(ticket).unwrap();
    memory.panics.store(true, Ordering::Relaxed);
    let checkpoint = std::panic::AssertUnwindSafe(|| _ = engine.checkpoint());
    assert!(std::panic::catch_unwind(checkpoint).is_err());
    memory.panics.store(false, Ordering::Relaxed);
    assert!(matches!(engine.checkpoint(), Err(Error::Io(_))), "{} {domain}", E::NAME);
    session.begin(Mode::Write);
    session.write_word(SMALLEST, 2).unwrap();
    let ticket = session.commit();
    // Committing needs no checkpoint, or reports that it failed; the words are whole in any case.
    let committed = ticket.and_then(|ticket| session.wait_durable(ticket)).is_ok();
    drop((session, engine));
    let left = Reference::from_image(&memory.inner.power_cut(Cut::None), domain);
    let left = AnyMemory::new(Arc::new(left));
    E::recover(&left, 0..SMALLEST).unwrap();
    let found = left.load(SMALLEST);
    assert!(found == 2 || found == 1 && !committed, "{} {domain}: {found}", E::NAME);
}

/// A fence that panics while a group is being made durable: no session may take what is left of the group for a whole
/// one, and none may hang.
fn a_group_is_whole<E: Engine<AnyMemory>>(domain: Domain) {
    let memory = Arc::new(Failing::new(Reference::new(SMALLEST + 4096, domain)));
    E::format(&any(&memory), 0..SMALLEST);
    let engine = E::start(any(&memory), 0..SMALLEST).unwrap();
    let mut session = engine.session().unwrap();
    let mut write = |value| {
        session.begin(Mode::Write);
        session.write_word(SMALLEST, value).unwrap();
        session.write_word(SMALLEST + 1024, value).unwrap();
        session.commit()
    };
    write(1).unwrap();
    engine.checkpoint().unwrap();
    write(2).unwrap();
    let last = write(3).unwrap();
    memory.panics.store(true, Ordering::Relaxed);
    let waiting = std::panic::AssertUnwindSafe(|| _ = session.wait_durable(last));
    assert!(std::panic::catch_unwind(waiting).is_err());
    memory.panics.store(false, Ordering::Relaxed);
    let answered = session.wait_durable(last).is_ok();
    session.begin(Mode::Write);
    session.write_word(SMALLEST, 4).unwrap();
    assert!(session.commit().is_err(), "{} {domain}: what is durable is unknown", E::NAME);
    drop((session, engine));
    for cut in [Cut::None, Cut::All] {
        let left = Reference::from_image(&memory.inner.power_cut(cut), domain);
        let left = AnyMemory::new(Arc::new(left));
        E::recover(&left, 0..SMALLEST).unwrap();
        let found = [left.load(SMALLEST), left.load(SMALLEST + 1024)];
        assert!(found == [3, 3] || found == [1, 1] && !answered, "{} {domain}: {found:?}", E::NAME);
    }
}

#[test]
fn a_group_cut_short_by_a_panic_is_whole_or_not_there() {
    for domain in [Domain::Transient, Domain::Persistent, Domain::Process] {
        a_group_is_whole::<ArchaptUndoEngine<AnyMemory>>(domain);
        a_group_is_whole::<ArchaptRedoEngine<AnyMemory>>(domain);
    }
}

#[test]
fn a_checkpoint_that_panics_is_the_last_one() {
    for domain in [Domain::Transient, Domain::Persistent] {
        on_each_engine!(crash_consistent stays_whole::<AnyMemory>(domain));
    }
}

/// Readers enter while a group is on its way into the log, and see its words.
fn readers_do_not_wait<E: Engine<AnyMemory>>() {
    let inner = Reference::new(SMALLEST + 4096, Domain::Transient);
    let memory = Arc::new(Failing::new(inner));
    E::format(&any(&memory), 0..SMALLEST);
    let engine = E::start(any(&memory), 0..SMALLEST).unwrap();
    let mut session = engine.session().unwrap();
    session.begin(Mode::Write);
    session.write_word(SMALLEST, 7).unwrap();
    let ticket = session.commit().unwrap();
    let (found, finds) = mpsc::channel();
    let mut reader = engine.session().unwrap();
    *memory.meanwhile.lock().unwrap() = Some(Box::new(move || {
        // Another thread, so that one which waits for the fence fails the test.
        let (read, reads) = mpsc::channel();
        std::thread::spawn(move || {
            reader.begin(Mode::Read);
            let value = reader.read_word(SMALLEST).unwrap();
            reader.commit().unwrap();
            let _ = read.send(value);
        });
        let _ = found.send(reads.recv_timeout(Duration::from_secs(10)));
    }));
    session.wait_durable(ticket).unwrap();
    assert_eq!(finds.recv().unwrap(), Ok(7), "{}", E::NAME);
}

#[test]
fn readers_do_not_wait_for_a_group_to_be_written_down() {
    readers_do_not_wait::<ArchaptUndoEngine<AnyMemory>>();
    readers_do_not_wait::<ArchaptRedoEngine<AnyMemory>>();
    readers_do_not_wait::<SkippingUndoEngine<AnyMemory>>();
    readers_do_not_wait::<SkippingRedoEngine<AnyMemory>>();
}

/// The words of a transaction, in lines of their own.
const WORDS: [u64; 3] = [SMALLEST, SMALLEST + 1024, SMALLEST + 2048];

/// The words, if the reading transaction may commit.
fn read<S: Session>(session: &mut S) -> Option<[u64; 3]> {
    session.begin(Mode::Read);
    let found = WORDS.map(|word| session.read_word(word).unwrap());
    session.commit().ok().map(|_| found)
}

fn write<S: Session>(session: &mut S, value: u64) -> perdura_engine::Result<()> {
    session.begin(Mode::Write);
    WORDS.iter().try_for_each(|word| session.write_word(*word, value))?;
    let ticket = session.commit_awaited()?;
    session.wait_durable(ticket)
}

/// A transaction that panics at an event of its end, its session not dropped. Returns whether it did.
fn others_go_on<E: Engine<AnyMemory>>(domain: Domain, events: u64) -> bool {
    let what = format!("{} on {domain}, a panic after {events} events", E::NAME);
    let memory = Arc::new(Failing::new(Reference::new(4 * SMALLEST, domain)));
    E::format(&any(&memory), 0..SMALLEST);
    let engine = E::start(any(&memory), 0..SMALLEST).unwrap();
    engine.tune(&Tuning { answer_within_ns: Some(u64::MAX), ..Tuning::default() });
    let mut session = engine.session().unwrap();
    write(&mut session, 1).unwrap();
    session.begin(Mode::Write);
    WORDS.iter().for_each(|word| session.write_word(*word, 2).unwrap());
    memory.left.store(events, Ordering::Relaxed);
    let ends =
        std::panic::AssertUnwindSafe(|| match E::CRASH_CONSISTENT || is_concurrent::<_, E>() {
            true => session.commit_awaited().is_ok(),
            // Without a panic it commits, or an abort undoes its stores in place.
            false => {
                session.abort();
                false
            }
        });
    let ended = std::panic::catch_unwind(ends);
    memory.left.store(u64::MAX, Ordering::Relaxed);
    let mut other = engine.session().unwrap();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let read = read(&mut other);
        let written = write(&mut other, 3);
        let _ = tell.send((read, written));
    });
    let (read, written) = told.recv_timeout(Duration::from_secs(20)).expect(&what);
    if let Some(read) = read {
        assert!(read == [1; 3] || read == [2; 3], "{what}: {read:?} was read");
    }
    assert!(ended.is_err() || written.is_ok(), "{what}: {written:?}");
    // The session itself gets the error as well, and hangs no more than others.
    let again = write(&mut session, 4);
    assert_eq!(again.is_ok(), written.is_ok(), "{what}: {again:?}");
    let checkpoint = engine.checkpoint();
    drop((session, engine));
    for cut in [Cut::None, Cut::All] {
        let left = Reference::from_image(&memory.inner.power_cut(cut), domain);
        let left = AnyMemory::new(Arc::new(left));
        if !E::CRASH_CONSISTENT {
            assert!(ended.is_ok() || checkpoint.is_err() || left.load(WORDS[0]) == 4, "{what}");
            continue;
        }
        E::recover(&left, 0..SMALLEST).unwrap();
        let found = WORDS.map(|word| left.load(word));
        let (least, most) = if again.is_ok() { (4, 4) } else { (1, 2) };
        let whole = found == [found[0]; 3] && (least..=most).contains(&found[0]);
        assert!(whole, "{what}, {cut:?}: {found:?}, after {again:?}");
    }
    ended.is_err()
}

fn panics_keep_no_lock<E: Engine<AnyMemory>>() {
    for domain in [Domain::Transient, Domain::Process, Domain::Media] {
        let panicked = (0..).take_while(|events| others_go_on::<E>(domain, *events)).count();
        let commits_late =
            domain == Domain::Media || E::NAME == ArchaptUndoEngine::<AnyMemory>::NAME;
        assert!(panicked >= 3 || commits_late, "{} {domain}: {panicked} events", E::NAME);
    }
}

#[test]
fn a_commit_that_panics_keeps_no_lock() {
    on_each_engine!(rolling_back panics_keep_no_lock::<AnyMemory>());
}

/// Wherever a commit meets a sync that fails, no later transaction's reads are reported as durable, unless they are the
/// contents from before it.
fn tells_nothing_after_a_failure<E: Engine<AnyMemory>>() {
    for fences in 0..6 {
        let area = 0..SMALLEST;
        let memory = Reference::new(SMALLEST + 4096, Domain::Media);
        let memory = Arc::new(Failing::new(memory));
        E::format(&any(&memory), area.clone());
        let engine = E::start(any(&memory), area).expect("an empty log");
        let mut session = engine.session().expect("the first session");
        memory.fences_left.store(fences, Ordering::Relaxed);
        session.begin(Mode::Write);
        session.write_word(SMALLEST, 1).expect("a write");
        let committed = session.commit();
        let told = committed.and_then(|ticket| session.wait_durable(ticket));
        assert!(told.is_ok() || memory.failed.load(Ordering::Relaxed), "{}", E::NAME);
        session.begin(Mode::Read);
        let seen = session.read_word(SMALLEST).expect("a read");
        let read = session.commit().and_then(|ticket| session.wait_durable(ticket));
        let known = if told.is_ok() { 1 } else { 0 };
        assert!(
            read.is_err() || seen == known,
            "{}: {seen} is said to be durable after {fences} fences",
            E::NAME
        );
    }
}

#[test]
fn failed_commit_is_not_durable() {
    on_each_engine!(crash_consistent tells_nothing_after_a_failure::<AnyMemory>());
}
