//! A heap's report when it ends: after a failed checkpoint the pool is not clean, a commit that has happened is
//! not reported as failed, and a transaction cannot write where it may not.

use crate::family::Family;
use perdura::superblock::{CATALOGUE, State, Superblock};
use perdura::{
    Access, AnyHeap, AnyTx, Error, Format, Mode, OpenError, Purpose, RedoEngine, Root, Ticket, Tx,
    TxExt, Volatile,
};
use perdura_memory::any::{Asked, Watch};
use perdura_memory::reference::Cut;
use perdura_memory::{AnyMemory, Domain, PAGE, Reference};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const LIMIT: u64 = 4 << 20;
const REDO: Family = Family::of::<RedoEngine<AnyMemory>>();

/// A switch that makes fences panic.
#[derive(Default)]
struct Panicking(AtomicBool);

impl Watch for Panicking {
    fn leaves_out(&self, asked: Asked, _: &'static Location<'static>) -> bool {
        assert!(asked != Asked::Fence || !self.0.load(Ordering::Relaxed), "as planned");
        false
    }
}

/// A memory whose fences can be made to panic.
struct Tried {
    memory: AnyMemory,
    inner: Arc<Reference>,
    panicking: Arc<Panicking>,
}

impl Tried {
    fn new(memory: Reference) -> Self {
        let (inner, panicking) = (Arc::new(memory), Arc::new(Panicking::default()));
        let memory = AnyMemory::watched(inner.clone(), panicking.clone());
        Tried { memory, inner, panicking }
    }

    /// Returns the result of `run` while fences panic.
    fn panicking<R>(&self, run: impl FnOnce() -> R) -> std::thread::Result<R> {
        self.panicking.0.store(true, Ordering::Relaxed);
        let result = catch_unwind(AssertUnwindSafe(run));
        self.panicking.0.store(false, Ordering::Relaxed);
        result
    }
}

fn create(engine: Family, domain: Domain) -> (Tried, Box<dyn AnyHeap>) {
    let tried = Tried::new(Reference::new(LIMIT, domain));
    let format = Format { limit: LIMIT, log: None, id: 1, requires: None, checksums: false };
    let heap = engine.create(&tried.memory, format).unwrap();
    (tried, heap)
}

fn name<T: Tx + ?Sized>(tx: &mut T, value: u64) -> perdura::Result<()> {
    let at = tx.new_bytes(Purpose::General, &value.to_ne_bytes())?;
    tx.set_root("value", Root { at, kind: 1000 })
}

/// The named value of the pool that is left, and the state in its header.
fn opened(engine: Family, image: &[u8], domain: Domain) -> (Option<u64>, State) {
    let memory = Tried::new(Reference::from_image(image, domain)).memory;
    let state = Superblock::read(&memory).unwrap().state;
    let heap = engine.open(&memory).unwrap();
    let value = heap.session().unwrap().read(|tx| match tx.root("value")? {
        Some(root) => tx.read_word(root.at).map(Some),
        None => Ok(None),
    });
    (value.unwrap(), state)
}

/// A checkpoint panics, and the program goes on, drops the heap, or closes it: the acknowledged transactions are
/// there, and the pool is not marked as closed.
fn a_panic_in_a_checkpoint(engine: Family, domain: Domain) {
    for close in [false, true] {
        let (memory, heap) = create(engine, domain);
        heap.session().unwrap().transaction(|tx| name(tx, 7)).unwrap();
        assert!(memory.panicking(|| heap.checkpoint()).is_err(), "{} {domain}", engine.name);
        if close {
            assert!(heap.close().is_err(), "{} {domain}: what is durable is unknown", engine.name);
        } else {
            drop(heap);
        }
        let found = opened(engine, &memory.inner.power_cut(Cut::None), domain);
        assert_eq!(found, (Some(7), State::Open), "{} {domain}", engine.name);
    }
}

#[test]
fn a_failed_checkpoint_leaves_no_clean_pool() {
    for domain in [Domain::Transient, Domain::Process, Domain::Media] {
        for engine in Family::crash_consistent() {
            a_panic_in_a_checkpoint(engine, domain);
        }
    }
    let (memory, heap) = create(Family::of::<Volatile<_>>(), Domain::Transient);
    assert!(memory.panicking(|| heap.checkpoint()).is_err());
    assert!(heap.close().is_err());
    assert_eq!(Superblock::read(&memory.memory).unwrap().state, State::Open);
}

/// A header that wrongly says closed: the log is read all the same.
fn marked_clean(engine: Family) {
    let domain = Domain::Transient;
    let (memory, heap) = create(engine, domain);
    let mut session = heap.session().unwrap();
    session.transaction(|tx| name(tx, 7)).unwrap();
    let left = Reference::from_image(&memory.inner.power_cut(Cut::None), domain);
    let mut superblock = Superblock::read(&left).unwrap();
    superblock.state = State::Closed;
    superblock.write(&left);
    let found = opened(engine, &left.power_cut(Cut::All), domain);
    assert_eq!(found, (Some(7), State::Closed), "{}", engine.name);
}

#[test]
fn recovery_does_not_take_the_headers_word() {
    for engine in Family::crash_consistent() {
        marked_clean(engine);
    }
}

/// A checkpoint that should free space after a transaction fails: the transaction has committed.
fn a_checkpoint_after_a_commit(engine: Family) {
    let (memory, heap) = create(engine, Domain::Transient);
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
    assert!(memory.panicking(|| heap.checkpoint()).is_err());
    let committed: Result<((), Ticket), Error> = session.run(Mode::Write, |tx| {
        kept.iter().try_for_each(|at| tx.free(*at))?;
        name(tx, 8)
    });
    let seen = session.read(|tx| tx.root("value"));
    // An engine that no longer commits says so, and no effect is visible.
    let happened = matches!(seen, Ok(Some(_)));
    assert_eq!(committed.is_ok(), happened, "{}: {committed:?}, {seen:?}", engine.name);
    assert!(
        happened
            || engine.name.starts_with("archapt")
            || ["s-wal", "htm-redo"].contains(&engine.name),
        "{}",
        engine.name
    );
}

#[test]
fn a_commit_that_has_happened_is_not_told_to_have_failed() {
    for engine in Family::crash_consistent() {
        a_checkpoint_after_a_commit(engine);
    }
}

/// Every write before the pages is refused, by whichever way; the transaction may go on.
fn before_the_pages(engine: Family) {
    let (memory, heap) = create(engine, Domain::Transient);
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
                let what = format!("{}, a write at {at:#x}", engine.name);
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
    assert_eq!(
        opened(engine, &image, Domain::Transient),
        (Some(2), State::Closed),
        "{}",
        engine.name
    );
}

#[test]
fn a_transaction_writes_to_the_pages_only() {
    for engine in Family::crash_consistent() {
        before_the_pages(engine);
    }
    before_the_pages(Family::of::<Volatile<_>>());
}

/// A header whose sequence number is the last one, with a right check.
#[test]
fn a_header_that_counts_too_far_is_damage() {
    let (memory, heap) = create(REDO, Domain::Transient);
    drop(heap);
    let mut superblock = Superblock::read(&memory.memory).unwrap();
    superblock.sequence = u64::MAX - 1;
    superblock.write(&memory.memory);
    let image = memory.inner.power_cut(Cut::All);
    let left = Tried::new(Reference::from_image(&image, Domain::Transient));
    let opened = REDO.open(&left.memory);
    assert!(matches!(opened, Err(OpenError::Damaged { .. })), "{:?}", opened.err());
    assert_eq!(left.inner.power_cut(Cut::All), image, "nothing is written");
}
