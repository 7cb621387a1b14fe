//! The program whose power is cut: a few random transactions on a root array, the promises so far, and the contents
//! that must hold of its pool.

use crate::crash::Cuttable;
use crate::family::Family;
use perdura::alloc::walk::walk;
use perdura::{
    AnyHeap, AnySession, Error, Mode, OpenError, Purpose, Result, Root, Tx, TxExt, roots,
};
use perdura_memory::reference::SplitMix64;
use std::collections::BTreeSet;

/// Slots of the root array: each holds a word, and a pointer to a block.
const SLOTS: u64 = 8;
/// Blocks longer than this are taken for damage.
const LONGEST: u64 = 20_000;

/// The state that a program sees: for each slot the word and the block's bytes. Empty without the array.
pub(crate) type State = Vec<(u64, Vec<u8>)>;

/// Why a pool may be refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It may not be refused.
    #[default]
    Never,
    /// It is being created.
    Unfinished,
    /// It is in use without a log.
    InUse,
}

impl Refusal {
    /// Of a pool that is used with the engine.
    pub(crate) fn in_use(engine: Family) -> Self {
        if engine.crash_consistent { Refusal::Never } else { Refusal::InUse }
    }

    /// Whether the error is this refusal.
    pub(crate) fn allows(self, error: &OpenError) -> bool {
        match self {
            Refusal::Never => false,
            // With the engine that has no log, a pool is in use as soon as it is created.
            Refusal::Unfinished => {
                matches!(error, OpenError::NotAPool { .. } | OpenError::NotConsistent { .. })
            }
            Refusal::InUse => matches!(error, OpenError::NotConsistent { .. }),
        }
    }
}

/// The operations and promises of a program by the time of the power cut.
#[derive(Default)]
pub(crate) struct Trace {
    /// The power is cut after this many events.
    pub(crate) cut_at: Option<u64>,
    /// Transactions begun so far, before the cut or after it.
    count: usize,
    /// Transactions begun before the cut.
    pub(crate) begun: usize,
    /// The transactions up to this one must be there.
    pub(crate) acknowledged: usize,
    /// Whether the pool may be refused.
    pub(crate) refusal: Refusal,
    /// The first inconsistency found while it ran.
    pub(crate) problem: Option<String>,
    /// The state after each number of transactions, recorded in a run without a power cut.
    pub(crate) states: Vec<State>,
}

impl Trace {
    /// Of a memory whose power is cut after this many events.
    pub(crate) fn cut_after(events: u64) -> Self {
        Trace { cut_at: Some(events), ..Trace::default() }
    }

    /// Whether all events so far were before the cut.
    fn before_cut(&self, memory: &Cuttable) -> bool {
        self.cut_at.is_none_or(|cut_at| memory.inner.events() <= cut_at)
    }

    /// Records that a transaction begins.
    pub(crate) fn begin(&mut self, memory: &Cuttable) {
        self.count += 1;
        if self.before_cut(memory) {
            self.begun = self.count;
        }
    }

    /// Records that the engine has declared all transactions so far durable.
    pub(crate) fn durable(&mut self, memory: &Cuttable) {
        if self.before_cut(memory) {
            self.acknowledged = self.count;
        }
    }

    /// Records whether the pool may be refused from here on.
    pub(crate) fn may_refuse(&mut self, memory: &Cuttable, refusal: Refusal) {
        if self.before_cut(memory) {
            self.refusal = refusal;
        }
    }

    /// Records the present state. Causes no event.
    pub(crate) fn state(&mut self, session: &mut AnySession) {
        self.states.truncate(self.count);
        self.states.push(read_state(session).expect("a pool in use"));
    }
}

/// The transaction that makes the root array.
pub(crate) fn make_root(tx: &mut dyn Tx) -> Result<()> {
    let at = tx.new_bytes(Purpose::General, &[0; SLOTS as usize * 16])?;
    tx.set_root("slots", Root { at, kind: 1000 })
}

/// Runs `transactions` transactions and some checkpoints on two sessions. Most are waited for; some are only
/// submitted, and are durable with a later one.
pub(crate) fn transactions(
    heap: &dyn AnyHeap,
    memory: &Cuttable,
    seed: u64,
    transactions: usize,
    trace: &mut Trace,
) {
    let mut sessions = [heap.session().unwrap(), heap.session().unwrap()];
    let mut random = SplitMix64::new(seed);
    for index in 0..transactions {
        let seed = random.next();
        let session = &mut sessions[seed as usize % 2];
        trace.begin(memory);
        let large = index == transactions / 2;
        let submitted = session.run(Mode::Write, |tx| transact(tx, seed, large));
        assert!(matches!(submitted, Ok(_) | Err(Error::Aborted(_))), "{submitted:?}");
        if trace.acknowledged + 1 == trace.begun && submitted.is_err() {
            // It has nothing to wait for.
            trace.durable(memory);
        }
        match (random.below(4), submitted) {
            (1, Ok((_, ticket))) if !session.is_durable(ticket) => {}
            (2, Ok(_)) => {
                // A reader waits for everything that it has seen, so for the last transaction too.
                sessions[0].read(contents).unwrap();
                trace.durable(memory);
            }
            (_, Ok((_, ticket))) => {
                session.wait(ticket).unwrap();
                trace.durable(memory);
            }
            (_, Err(_)) => {}
        }
        trace.state(&mut sessions[0]);
        if random.below(4) == 0 {
            heap.checkpoint().unwrap();
            trace.durable(memory);
        }
    }
}

/// One transaction: words, new blocks, changed blocks, freed blocks; an abort now and then.
pub(crate) fn transact(tx: &mut dyn Tx, seed: u64, large: bool) -> Result<()> {
    let mut random = SplitMix64::new(seed);
    let slots = tx.root("slots")?.expect("prepared").at;
    if large {
        // More than a segment of log, and a run of pages whose last ones stay as allocated.
        let at = tx.new_bytes(Purpose::Value, &[9; 5200])?;
        tx.write_bytes(at, &vec![seed as u8; 5000])?;
        tx.write_word(at, 5200 - 8)?;
        replace(tx, slots, at)?;
    }
    for _ in 0..=random.below(5) {
        let slot = slots + random.below(SLOTS) * 16;
        let block = tx.read_word(slot + 8)?;
        match random.below(7) {
            0 | 1 => tx.write_word(slot, random.next())?,
            2 | 3 => {
                let len = [8, 200, 700, 1500, 1500][random.below(5) as usize];
                let bytes = [&(len as u64).to_ne_bytes()[..], &vec![seed as u8; len]].concat();
                let at = tx.new_bytes(Purpose::Value, &bytes)?;
                replace(tx, slot, at)?;
            }
            4 | 5 if block != 0 => tx.write_word(block + 8, random.next())?,
            _ => replace(tx, slot, 0)?,
        }
    }
    if random.below(8) == 0 { tx.abort("sometimes") } else { Ok(()) }
}

/// Puts the block at `at`, or none, into a slot, and frees the previous one.
fn replace(tx: &mut dyn Tx, slot: u64, at: u64) -> Result<()> {
    let old = tx.read_word(slot + 8)?;
    if old != 0 {
        tx.free(old)?;
    }
    tx.write_word(slot + 8, at)
}

/// Reads the state without an event, so that the images are not changed.
pub(crate) fn read_state(session: &mut AnySession) -> Result<State> {
    session.run(Mode::Read, contents).map(|(state, _)| state)
}

fn contents(tx: &mut dyn Tx) -> Result<State> {
    let Some(root) = tx.root("slots")? else { return Ok(State::new()) };
    let mut slot = |slot| {
        let word = tx.read_word(root.at + slot * 16)?;
        let at = tx.read_word(root.at + slot * 16 + 8)?;
        let mut bytes = Vec::new();
        if at != 0 {
            bytes.resize(tx.read_word(at)?.min(LONGEST) as usize, 0);
            tx.read_bytes(at + 8, &mut bytes)?;
        }
        Ok((word, bytes))
    };
    (0..SLOTS).map(&mut slot).collect()
}

/// The slots in which two states differ: word, bytes, and the first differing byte of each.
pub(crate) fn difference(wanted: &State, found: &State) -> String {
    let summary = |(word, bytes): &(u64, Vec<u8>)| {
        let odd = bytes.iter().position(|byte| Some(byte) != bytes.first());
        format!("{word:x}/{}x{:?}/{odd:?}", bytes.len(), bytes.first())
    };
    if wanted.len() != found.len() {
        return format!("{} slots wanted, {} found", wanted.len(), found.len());
    }
    let pairs = wanted.iter().zip(found).enumerate();
    let differing: Vec<_> = pairs
        .filter(|(_, (wanted, found))| wanted != found)
        .map(|(slot, (wanted, found))| (slot, summary(wanted), summary(found)))
        .collect();
    format!("slots wanted and found (word/bytes/first odd byte): {differing:?}")
}

/// Checks that exactly the allocated blocks are reachable.
pub(crate) fn accounted(
    heap: &dyn AnyHeap,
    memory: &Cuttable,
    session: &mut AnySession,
) -> Result<(), String> {
    let (blocks, problems) = walk(&memory.memory, heap.space().layout());
    if let Some(problem) = problems.first() {
        return Err(problem.to_string());
    }
    let wrong = heap.superblock().wrong_pages(&memory.memory);
    if !wrong.is_empty() {
        return Err(format!("pages that do not match their checksums: {wrong:x?}"));
    }
    let reach = |tx: &mut dyn Tx| {
        let mut reachable: BTreeSet<u64> =
            roots::all(tx)?.iter().map(|named| named.entry).collect();
        if let Some(root) = tx.root("slots")? {
            reachable.insert(root.at);
            for slot in 0..SLOTS {
                reachable.insert(tx.read_word(root.at + slot * 16 + 8)?);
            }
        }
        reachable.remove(&0);
        Ok(reachable)
    };
    let (reachable, _) = session.run(Mode::Read, reach).map_err(|error| error.to_string())?;
    let allocated: BTreeSet<u64> = blocks.iter().map(|block| block.at).collect();
    if reachable != allocated {
        let leaked: Vec<_> = allocated.difference(&reachable).collect();
        let lost: Vec<_> = reachable.difference(&allocated).collect();
        return Err(format!("leaked {leaked:x?}, lost {lost:x?}"));
    }
    Ok(())
}
