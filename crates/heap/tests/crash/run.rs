//! One run, its cuts, and what must hold after them.

use crate::Cuttable;
use perdura::alloc::walk::walk;
use perdura::{
    Access, Domain, Engine, Error, Format, Heap, HeapSession, Memory, Opening, Purpose, Result,
    Root, Tx, TxExt, roots,
};
use perdura_memory::Reference;
use perdura_memory::reference::{Cut, SplitMix64};
use std::collections::BTreeSet;
use std::sync::Arc;

const BYTES: u64 = 176 << 10;
/// Slots of the root array: each holds a word, and a pointer to a block.
const SLOTS: u64 = 24;
const TRANSACTIONS: usize = 10;

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub seed: u64,
    pub domain: Domain,
    /// About how many of its events to cut it after.
    pub cuts: u64,
}

/// What came of it.
#[derive(Debug)]
pub enum Outcome {
    /// That many images were whole.
    Whole(u64),
    /// One was not.
    Broken(String),
}

/// What a program sees: for each slot the word and the block's bytes.
type State = Vec<(u64, Vec<u8>)>;

/// Cuts the run after its events, on memories made by `wrap`.
pub fn explore<M: Cuttable, E: Engine<M>>(
    run: Run,
    mut wrap: impl FnMut(Reference) -> M,
) -> Outcome {
    let start = prepared::<E, M>(run, &mut wrap);
    let mut states = Vec::new();
    let whole = wrap(Reference::from_image(&start, run.domain));
    let events = {
        let before = whole.inner().events();
        let (whole, _) = play::<M, E>(run, whole, Some(&mut states));
        whole.inner().events() - before
    };
    let mut images = 0;
    let step = (events / run.cuts).max(1);
    for cut_at in (run.seed % step..events).step_by(step as usize) {
        let memory = wrap(Reference::from_image(&start, run.domain));
        memory.inner().cut_after(cut_at);
        let (memory, acknowledged) = play::<M, E>(run, memory, None);
        let choices = [Cut::None, Cut::All, Cut::Seed(cut_at), Cut::Seed(!cut_at)];
        let mut seen = BTreeSet::new();
        for cut in choices {
            let image = memory.inner().power_cut(cut);
            if !seen.insert(image.clone()) {
                continue;
            }
            images += 1;
            let checked = recover_and_check::<M, E>(run, &image, &mut wrap, &states, acknowledged)
                .and_then(|()| {
                    // A second cut, inside recovery.
                    let memory = wrap(Reference::from_image(&image, run.domain));
                    memory.inner().cut_after(cut_at * 7 % 97);
                    let memory = Arc::new(memory);
                    let _ = Heap::<M, E>::open(memory.clone(), Opening::default());
                    let image = memory.inner().power_cut(cut);
                    recover_and_check::<M, E>(run, &image, &mut wrap, &states, acknowledged)
                        .map_err(|why| format!("cut again inside recovery: {why}"))
                });
            if let Err(why) = checked {
                return Outcome::Broken(format!(
                    "cut after event {cut_at} of {events}, {cut:?}: {why}"
                ));
            }
        }
    }
    Outcome::Whole(images)
}

/// A pool with the root array, closed.
fn prepared<E: Engine<M>, M: Cuttable>(run: Run, wrap: &mut impl FnMut(Reference) -> M) -> Vec<u8> {
    let memory = Arc::new(wrap(Reference::new(BYTES, run.domain)));
    let format = Format { limit: BYTES, log: Some(0), id: run.seed, requires: None };
    let heap = Heap::<M, E>::create(memory.clone(), format).expect("a heap");
    heap.session()
        .unwrap()
        .transaction(|tx| {
            let at = tx.new_bytes(Purpose::General, &[0; SLOTS as usize * 16])?;
            tx.set_root("slots", Root { at, kind: 1000 })
        })
        .unwrap();
    heap.close().unwrap();
    memory.inner().power_cut(Cut::All)
}

/// Plays the run. Returns the memory and how many transactions had returned before its cut;
/// collects the states after each.
fn play<M: Cuttable, E: Engine<M>>(
    run: Run,
    memory: M,
    mut states: Option<&mut Vec<State>>,
) -> (Arc<M>, usize) {
    let memory = Arc::new(memory);
    let heap = Heap::<M, E>::open(memory.clone(), Opening::default()).expect("a clean pool");
    let mut sessions = [heap.session().unwrap(), heap.session().unwrap()];
    let mut random = SplitMix64::new(run.seed);
    let mut acknowledged = 0;
    if let Some(states) = states.as_deref_mut() {
        states.push(read_state(&mut sessions[0]).unwrap());
    }
    for index in 0..TRANSACTIONS {
        let seed = random.next();
        let session = &mut sessions[seed as usize % 2];
        let result = session.transaction(|tx| transact(tx, seed, index == TRANSACTIONS / 2));
        assert!(matches!(result, Ok(()) | Err(Error::Aborted(_))), "{result:?}");
        if !memory.inner().was_cut() {
            acknowledged = index + 1;
        }
        if let Some(states) = states.as_deref_mut() {
            states.push(read_state(&mut sessions[0]).unwrap());
        }
    }
    drop(sessions);
    drop(heap);
    (memory, acknowledged)
}

fn transact(tx: &mut impl Tx, seed: u64, large: bool) -> Result<()> {
    let mut random = SplitMix64::new(seed);
    let slots = tx.root("slots")?.expect("prepared").at;
    if large {
        // More than a segment of log.
        let at = tx.new_bytes(Purpose::Value, &[9; 5000])?;
        tx.write_bytes(at, &vec![seed as u8; 5000])?;
        replace(tx, slots, at, 5000)?;
    }
    for _ in 0..=random.below(4) {
        let slot = slots + random.below(SLOTS) * 16;
        match random.below(4) {
            0 | 1 => tx.write_word(slot, tx_value(&mut random))?,
            2 => {
                let len = [8, 60, 200, 700, 1500][random.below(5) as usize];
                let block = [&(len as u64).to_ne_bytes()[..], &vec![seed as u8; len]].concat();
                let at = tx.new_bytes(Purpose::Value, &block)?;
                let old = tx.read_word(slot + 8)?;
                if old != 0 {
                    tx.free(old)?;
                }
                tx.write_word(slot + 8, at)?;
            }
            _ => {
                let old = tx.read_word(slot + 8)?;
                if old != 0 {
                    tx.free(old)?;
                    tx.write_word(slot + 8, 0)?;
                }
            }
        }
    }
    if random.below(8) == 0 { tx.abort("sometimes") } else { Ok(()) }
}

/// Puts a block with a length into the first slot.
fn replace(tx: &mut impl Tx, slot: u64, at: u64, len: u64) -> Result<()> {
    tx.write_word(at, len - 8)?;
    let old = tx.read_word(slot + 8)?;
    if old != 0 {
        tx.free(old)?;
    }
    tx.write_word(slot + 8, at)
}

fn tx_value(random: &mut SplitMix64) -> u64 {
    random.next()
}

fn read_state<M: Memory + 'static, E: Engine<M>>(session: &mut HeapSession<M, E>) -> Result<State> {
    session.read(|tx| {
        let slots = tx.root("slots")?.ok_or(Error::Invalid("no root"))?.at;
        (0..SLOTS)
            .map(|slot| {
                let word = tx.read_word(slots + slot * 16)?;
                let at = tx.read_word(slots + slot * 16 + 8)?;
                let mut bytes = Vec::new();
                if at != 0 {
                    let len = tx.read_word(at)?.min(10_000);
                    bytes.resize(len as usize, 0);
                    tx.read_bytes(at + 8, &mut bytes)?;
                }
                Ok((word, bytes))
            })
            .collect()
    })
}

/// Opens the image and compares; then runs another transaction on it.
fn recover_and_check<M: Cuttable, E: Engine<M>>(
    run: Run,
    image: &[u8],
    wrap: &mut impl FnMut(Reference) -> M,
    states: &[State],
    acknowledged: usize,
) -> Result<(), String> {
    let memory = Arc::new(wrap(Reference::from_image(image, run.domain)));
    let heap = Heap::<M, E>::open(memory.clone(), Opening::default())
        .map_err(|error| format!("cannot be opened: {error}"))?;
    let mut session = heap.session().map_err(|error| error.to_string())?;
    let state = read_state(&mut session).map_err(|error| error.to_string())?;
    // The transaction that was under way may be there, whole.
    let allowed = &states[acknowledged..(acknowledged + 2).min(states.len())];
    if !allowed.contains(&state) {
        let known = states.iter().position(|known| *known == state);
        let summary = |state: &State| -> Vec<String> {
            state
                .iter()
                .map(|(word, bytes)| {
                    let odd = bytes.iter().position(|byte| Some(byte) != bytes.first());
                    format!("{word:x}/{}x{:?}/{odd:?}", bytes.len(), bytes.first())
                })
                .collect()
        };
        let differing: Vec<_> = summary(&allowed[0])
            .into_iter()
            .zip(summary(&state))
            .enumerate()
            .filter(|(_, (wanted, found))| wanted != found)
            .collect();
        return Err(format!(
            "state {known:?} of {} where {acknowledged} were acknowledged; \
             slots (word/bytes/first odd byte) wanted and found: {differing:?}",
            states.len()
        ));
    }
    accounted(&heap, &mut session)?;
    session
        .transaction(|tx| transact(tx, run.seed ^ 0xAAAA, false))
        .or_else(|error| if matches!(error, Error::Aborted(_)) { Ok(()) } else { Err(error) })
        .map_err(|error| format!("a further transaction: {error}"))?;
    heap.checkpoint().map_err(|error| error.to_string())?;
    accounted(&heap, &mut session)
}

/// Every allocated block is reachable, and every reachable one allocated.
fn accounted<M: Memory + 'static, E: Engine<M>>(
    heap: &Heap<M, E>,
    session: &mut HeapSession<M, E>,
) -> Result<(), String> {
    let (blocks, problems) = walk(&**heap.memory(), heap.space().layout());
    if let Some(problem) = problems.first() {
        return Err(problem.to_string());
    }
    let reachable = session
        .read(|tx| {
            let slots = tx.root("slots")?.ok_or(Error::Invalid("no root"))?.at;
            let mut reachable: BTreeSet<u64> =
                roots::all(tx)?.iter().map(|named| named.entry).collect();
            reachable.insert(slots);
            for slot in 0..SLOTS {
                reachable.insert(tx.read_word(slots + slot * 16 + 8)?);
            }
            reachable.remove(&0);
            Ok(reachable)
        })
        .map_err(|error| error.to_string())?;
    let allocated: BTreeSet<u64> = blocks.iter().map(|block| block.at).collect();
    if reachable != allocated {
        let leaked: Vec<_> = allocated.difference(&reachable).collect();
        let lost: Vec<_> = reachable.difference(&allocated).collect();
        return Err(format!("leaked {leaked:x?}, lost {lost:x?}"));
    }
    Ok(())
}
