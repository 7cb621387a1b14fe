//! What a heap says of itself when it ends: a checkpoint that failed leaves no clean pool, a commit that
//! has happened is not told to have failed, and what a transaction may not write it cannot.

use perdura::superblock::{CATALOGUE, State, Superblock};
use perdura::{
    Access, AnyTx, Engine, Error, Format, Heap, Memory, OpenError, Opening, Purpose, RedoEngine,
    Root, Survives, Ticket, Tx, TxExt, Volatile,
};
use perdura_engine::on_each_engine;
use perdura_memory::reference::Cut;
use perdura_memory::{Domain, PAGE, Reference};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const LIMIT: u64 = 4 << 20;

/// A memory whose fences can be made to panic.
struct Panicking {
    inner: Reference,
    panics: AtomicBool,
}

// SAFETY: a `Reference`, whose fences can be told to panic.
unsafe impl Memory for Panicking {
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
        self.inner.store(at, value);
    }

    unsafe fn copy_out_unchecked(&self, at: u64, to: &mut [u8]) {
        self.inner.copy_out(at, to);
    }

    unsafe fn copy_in_unchecked(&self, at: u64, from: &[u8]) {
        self.inner.copy_in(at, from);
    }

    unsafe fn stream_unchecked(&self, at: u64, from: &[u64]) {
        self.inner.stream(at, from);
    }

    fn compare_exchange(&self, at: u64, old: u64, new: u64) -> Result<u64, u64> {
        self.inner.compare_exchange(at, old, new)
    }

    fn write_back(&self, at: u64, len: u64) {
        self.inner.write_back(at, len);
    }

    fn fence(&self) {
        assert!(!self.panics.load(Ordering::Relaxed), "as planned");
        self.inner.fence();
    }

    fn pause(&self, turn: u32) {
        self.inner.pause(turn);
    }

    fn now(&self) -> u64 {
        self.inner.now()
    }
}

fn on<M: From<Reference>>(inner: Reference) -> Arc<M> {
    Arc::new(M::from(inner))
}

impl From<Reference> for Panicking {
    fn from(inner: Reference) -> Self {
        Panicking { inner, panics: AtomicBool::new(false) }
    }
}

fn create<E: Engine<Panicking>>(domain: Domain) -> (Arc<Panicking>, Heap<Panicking, E>) {
    let memory = on::<Panicking>(Reference::new(LIMIT, domain));
    let format = Format { limit: LIMIT, log: None, id: 1, requires: None, checksums: false };
    (memory.clone(), Heap::create(memory, format).unwrap())
}

fn name<T: Tx + ?Sized>(tx: &mut T, value: u64) -> perdura::Result<()> {
    let at = tx.new_bytes(Purpose::General, &value.to_ne_bytes())?;
    tx.set_root("value", Root { at, kind: 1000 })
}

/// The named value of what is left of a pool, and the state that its header told.
fn opened<E: Engine<Panicking>>(image: &[u8], domain: Domain) -> (Option<u64>, State) {
    let memory = on::<Panicking>(Reference::from_image(image, domain));
    let state = Superblock::read(&*memory).unwrap().state;
    let heap = Heap::<Panicking, E>::open(memory, Opening::default()).unwrap();
    let value = heap.session().unwrap().read(|tx| match tx.root("value")? {
        Some(root) => tx.read_word(root.at).map(Some),
        None => Ok(None),
    });
    (value.unwrap(), state)
}

/// A checkpoint panics, and the program goes on, ends the heap, or closes it: what was acknowledged is
/// there, and the pool is not marked as closed.
fn a_panic_in_a_checkpoint<E: Engine<Panicking>>(domain: Domain) {
    for close in [false, true] {
        let (memory, heap) = create::<E>(domain);
        heap.session().unwrap().transaction(|tx| name(tx, 7)).unwrap();
        memory.panics.store(true, Ordering::Relaxed);
        let checkpoint = catch_unwind(AssertUnwindSafe(|| heap.checkpoint()));
        memory.panics.store(false, Ordering::Relaxed);
        assert!(checkpoint.is_err(), "{} {domain}", E::NAME);
        if close {
            assert!(heap.close().is_err(), "{} {domain}: what is durable is unknown", E::NAME);
        } else {
            drop(heap);
        }
        let found = opened::<E>(&memory.inner.power_cut(Cut::None), domain);
        assert_eq!(found, (Some(7), State::Open), "{} {domain}", E::NAME);
    }
}

#[test]
fn a_failed_checkpoint_leaves_no_clean_pool() {
    for domain in [Domain::Transient, Domain::Process, Domain::Media] {
        on_each_engine!(crash_consistent a_panic_in_a_checkpoint::<_>(domain));
    }
    let (memory, heap) = create::<Volatile<_>>(Domain::Transient);
    memory.panics.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| heap.checkpoint())).is_err());
    memory.panics.store(false, Ordering::Relaxed);
    assert!(heap.close().is_err());
    assert_eq!(Superblock::read(&*memory).unwrap().state, State::Open);
}

/// A header that says what is not so: the log is looked at all the same.
fn marked_clean<E: Engine<Panicking>>() {
    let domain = Domain::Transient;
    let (memory, heap) = create::<E>(domain);
    let mut session = heap.session().unwrap();
    session.transaction(|tx| name(tx, 7)).unwrap();
    let left = Reference::from_image(&memory.inner.power_cut(Cut::None), domain);
    let mut superblock = Superblock::read(&left).unwrap();
    superblock.state = State::Clean;
    superblock.write(&left);
    let found = opened::<E>(&left.power_cut(Cut::All), domain);
    assert_eq!(found, (Some(7), State::Clean), "{}", E::NAME);
}

#[test]
fn recovery_does_not_take_the_headers_word() {
    on_each_engine!(crash_consistent marked_clean::<_>());
}

/// What a transaction freed waits for a checkpoint, and that fails: the transaction has committed.
fn a_checkpoint_after_a_commit<E: Engine<Panicking>>() {
    let (memory, heap) = create::<E>(Domain::Transient);
    let mut session = heap.session().unwrap();
    let mut kept = Vec::new();
    session
        .transaction(|tx| {
            kept = (0..20)
                .map(|_| tx.allocate(Purpose::Value, 4 * PAGE).map(|new| new.at()))
                .collect::<Result<_, _>>()?;
            Ok(())
        })
        .unwrap();
    memory.panics.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| heap.engine().checkpoint())).is_err());
    memory.panics.store(false, Ordering::Relaxed);
    let committed: Result<((), Ticket), Error> = session.submit(|tx| {
        kept.iter().try_for_each(|at| tx.free(*at))?;
        name(tx, 8)
    });
    let seen = session.read(|tx| tx.root("value"));
    // An engine that commits nothing any more says so, and nothing is to be seen.
    let happened = matches!(seen, Ok(Some(_)));
    assert_eq!(committed.is_ok(), happened, "{}: {committed:?}, {seen:?}", E::NAME);
    assert!(happened || E::NAME.starts_with("archapt") || E::NAME == "s-wal", "{}", E::NAME);
}

#[test]
fn a_commit_that_has_happened_is_not_told_to_have_failed() {
    on_each_engine!(crash_consistent a_checkpoint_after_a_commit::<_>());
}

/// Every write before the pages is refused, whichever way it takes; the transaction may go on.
fn before_the_pages<E: Engine<Panicking>>() {
    let (memory, heap) = create::<E>(Domain::Transient);
    let superblock = heap.superblock();
    let (log, layout) = (superblock.log, superblock.layout);
    let mut session = heap.session().unwrap();
    session
        .transaction(|tx| {
            name(tx, 1)?;
            let places = [
                0,
                8,
                PAGE,
                CATALOGUE,
                log.start,
                log.start + 64,
                log.end - 8,
                layout.entry(0),
                layout.entry(3) + 8,
                layout.pages - 8,
            ];
            for at in places {
                let is_refused = |result| matches!(result, Err(Error::Invalid(_)));
                let what = format!("{}, a write at {at:#x}", E::NAME);
                assert!(is_refused(tx.write_word(at, 3)), "{what}");
                assert!(is_refused(tx.write_bytes(at, &[3; 100])), "{what}");
                assert!(is_refused(tx.write_bytes(at + 7, &[3])), "{what}");
                let mut any = AnyTx::new(tx);
                assert!(is_refused(any.write_word(at, 3)), "{what}");
                assert!(is_refused(any.write_bytes(at, &vec![3; 2 << 20])), "{what}");
            }
            name(tx, 2)
        })
        .unwrap();
    drop(session);
    heap.close().unwrap();
    let image = memory.inner.power_cut(Cut::All);
    assert_eq!(opened::<E>(&image, Domain::Transient), (Some(2), State::Clean), "{}", E::NAME);
}

#[test]
fn a_transaction_writes_to_the_pages_only() {
    on_each_engine!(crash_consistent before_the_pages::<_>());
    before_the_pages::<Volatile<_>>();
}

/// A header whose count has no next one, though its check is right.
#[test]
fn a_header_that_counts_too_far_is_damage() {
    let (memory, heap) = create::<RedoEngine<_>>(Domain::Transient);
    drop(heap);
    let mut superblock = Superblock::read(&*memory).unwrap();
    superblock.sequence = u64::MAX - 1;
    superblock.write(&*memory);
    let image = memory.inner.power_cut(Cut::All);
    let left = on::<Panicking>(Reference::from_image(&image, Domain::Transient));
    let opened = Heap::<Panicking, RedoEngine<_>>::open(left.clone(), Opening::default());
    assert!(matches!(opened, Err(OpenError::Damaged { .. })), "{:?}", opened.err());
    assert_eq!(left.inner.power_cut(Cut::All), image, "nothing is written");
}
