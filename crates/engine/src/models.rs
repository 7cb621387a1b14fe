//! Models for loom, which runs each in every order that threads can take, and with every value that
//! a load may return under the memory model: the lock, and the overlay that is read beside a writer.
//!
//!     RUSTFLAGS="--cfg loom" cargo test -p perdura-engine --lib --target-dir target/loom models
//!
//! [`Guarded`] is loom's cell here: it fails when one thread may reach in while another does, and when
//! nothing orders their accesses.

use crate::guarded::Guarded;
use crate::lock::SharedLock;
use crate::overlay::Overlay;
use crate::writes::LineWrite;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;
use perdura_memory::Ram;

/// Preemptions in one run, unless LOOM_MAX_PREEMPTIONS says otherwise: with each more the models take
/// five times as long, and errors need few.
const PREEMPTIONS: usize = 2;

/// A lock, and what it guards.
struct Rig {
    lock: SharedLock,
    ram: Ram,
    value: Guarded<u64>,
}

impl Rig {
    fn new(slots: usize) -> Self {
        Rig { lock: SharedLock::new(slots), ram: Ram::new(64), value: Guarded::new(0) }
    }

    /// A transaction that reads; what it has read.
    fn read(&self, slot: usize) -> u64 {
        self.lock.read(slot, &self.ram);
        // SAFETY: a reader, and only writers that are alone change it.
        let value = unsafe { *self.value.get() };
        self.lock.done_reading(slot);
        value
    }

    /// A transaction that adds one. It reads beside readers, and stores alone.
    fn add(&self) {
        self.lock.write(&self.ram);
        // SAFETY: the writer.
        let value = unsafe { *self.value.get() };
        self.lock.be_alone(&self.ram);
        // SAFETY: the writer, and alone.
        unsafe { *self.value.get_mut() = value + 1 };
        self.lock.done_writing();
    }
}

/// Checks `model` in every run with few preemptions.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS));
    builder.check(model);
}

#[test]
fn a_reader_and_a_writer() {
    check(|| {
        let rig = Arc::new(Rig::new(1));
        let slot = rig.lock.register().expect("a slot");
        let other = rig.clone();
        let writer = thread::spawn(move || {
            other.add();
            other.add();
        });
        let (first, second) = (rig.read(slot), rig.read(slot));
        assert!(first <= second, "{second} after {first}");
        writer.join().expect("no panic");
        assert_eq!(rig.read(slot), 2);
    });
}

#[test]
fn two_writers() {
    check(|| {
        let rig = Arc::new(Rig::new(1));
        let other = rig.clone();
        let writer = thread::spawn(move || other.add());
        rig.add();
        writer.join().expect("no panic");
        let slot = rig.lock.register().expect("a slot");
        assert_eq!(rig.read(slot), 2);
    });
}

/// A writer that leaves lets readers in before it lets the next writer in, and never after.
#[test]
fn two_writers_and_a_reader() {
    check(|| {
        let rig = Arc::new(Rig::new(1));
        let slot = rig.lock.register().expect("a slot");
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let rig = rig.clone();
                thread::spawn(move || rig.add())
            })
            .collect();
        assert!(rig.read(slot) <= 2);
        for writer in writers {
            writer.join().expect("no panic");
        }
        assert_eq!(rig.read(slot), 2);
    });
}

#[test]
fn two_readers_and_a_writer() {
    check(|| {
        let rig = Arc::new(Rig::new(2));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (rig, slot) = (rig.clone(), rig.lock.register().expect("a slot"));
                thread::spawn(move || rig.read(slot))
            })
            .collect();
        rig.add();
        for reader in readers {
            assert!(reader.join().expect("no panic") <= 1);
        }
    });
}

/// Sessions come and go while there is a writer.
#[test]
fn slots_are_taken_beside_a_writer() {
    check(|| {
        let rig = Arc::new(Rig::new(1));
        let other = rig.clone();
        let session = thread::spawn(move || {
            let slot = other.lock.register().expect("a slot");
            other.read(slot);
            other.lock.unregister(slot);
        });
        rig.add();
        session.join().expect("no panic");
        assert_eq!(rig.lock.register(), Some(0));
    });
}

/// A slot is used by one session after the other, on different threads.
#[test]
fn slots_are_handed_over() {
    check(|| {
        let rig = Arc::new(Rig::new(1));
        let other = rig.clone();
        // What a session keeps in its slot's name.
        let mine = Arc::new(Guarded::new(0));
        let theirs = mine.clone();
        let session = thread::spawn(move || {
            if let Some(slot) = other.lock.register() {
                // SAFETY: one session at a time has the only slot.
                unsafe { *theirs.get_mut() += 1 };
                other.lock.unregister(slot);
            }
        });
        if let Some(slot) = rig.lock.register() {
            // SAFETY: as above.
            unsafe { *mine.get_mut() += 1 };
            rig.lock.unregister(slot);
        }
        session.join().expect("no panic");
    });
}

/// The writer stays, and readers come in again; then it is alone a second time.
#[test]
fn readers_are_let_in_between() {
    check(|| {
        let rig = Arc::new(Rig::new(1));
        let slot = rig.lock.register().expect("a slot");
        let other = rig.clone();
        let writer = thread::spawn(move || {
            other.lock.write(&other.ram);
            for value in 1..=2 {
                other.lock.be_alone(&other.ram);
                // SAFETY: the writer, and alone.
                unsafe { *other.value.get_mut() = value };
                other.lock.let_readers_in();
            }
            other.lock.done_writing();
        });
        let (first, second) = (rig.read(slot), rig.read(slot));
        assert!(first <= second, "{second} after {first}");
        writer.join().expect("no panic");
    });
}

const LINES: [u64; 2] = [0, 640];

/// Lets the transaction join that stores `value` in a word of both lines.
fn join(overlay: &Overlay, value: u64) {
    for line in LINES {
        let mut words = [0; 8];
        words[value as usize % 2] = value;
        overlay.add(&LineWrite { line, mask: 1 << (value % 2), words });
    }
    overlay.join();
}

/// Reads everything as of now: all of it must be of one moment.
fn look(overlay: &Overlay) -> u64 {
    let snapshot = overlay.joined();
    for line in LINES {
        for word in 0..2 {
            // The last transaction up to the snapshot that stored to this word.
            let wanted = (1..=snapshot).rev().find(|value| value % 2 == word);
            let found = overlay.may_have(line).then(|| overlay.find(line, snapshot)).flatten();
            let got = found.and_then(|found| overlay.word(found, line + word * 8));
            assert_eq!(got, wanted, "word {word} of line {line} as of {snapshot}");
        }
    }
    snapshot
}

#[test]
fn snapshots_beside_a_writer() {
    check(|| {
        let overlay = Arc::new(Overlay::default());
        let other = overlay.clone();
        let writer = thread::spawn(move || {
            join(&other, 1);
            join(&other, 2);
        });
        let (first, second) = (look(&overlay), look(&overlay));
        assert!(first <= second, "{second} after {first}");
        writer.join().expect("no panic");
        assert_eq!(look(&overlay), 2);
    });
}

/// The overlay is emptied by a writer that is alone, and filled again.
#[test]
fn emptied_alone() {
    struct Rig {
        lock: SharedLock,
        ram: Ram,
        overlay: Guarded<Overlay>,
    }
    check(|| {
        let overlay = Guarded::new(Overlay::default());
        let rig = Arc::new(Rig { lock: SharedLock::new(1), ram: Ram::new(64), overlay });
        let slot = rig.lock.register().expect("a slot");
        let other = rig.clone();
        let writer = thread::spawn(move || {
            other.lock.write(&other.ram);
            // SAFETY: the writer.
            join(unsafe { other.overlay.get() }, 1);
            other.lock.be_alone(&other.ram);
            // SAFETY: the writer, and alone.
            unsafe { other.overlay.get_mut() }.clear();
            other.lock.let_readers_in();
            // SAFETY: the writer.
            join(unsafe { other.overlay.get() }, 1);
            other.lock.done_writing();
        });
        rig.lock.read(slot, &rig.ram);
        // SAFETY: a reader, and only writers that are alone empty it.
        look(unsafe { rig.overlay.get() });
        rig.lock.done_reading(slot);
        writer.join().expect("no panic");
    });
}
