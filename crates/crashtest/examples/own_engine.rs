//! An engine of one's own under the crash tester: undo logging of single words; with `-- --bug`, with a fence left out,
//! which the tester finds.
//!
//! It needs no change to this project: another program depends on `perdura-engine` and implements [`Engine`] and
//! [`Session`]. `perdura_workloads::measure` times a `Heap<M, OwnEngine<M, false>>` as it does any other.

#[allow(dead_code, unreachable_pub)] // It is a program, not a module.
#[path = "own_structure.rs"]
pub mod own_structure;

use own_structure::Bank;
use perdura_crashtest::{Budget, Case, Family, On, Points, Report, Runner, Watcher};
use perdura_engine::{
    Access, Counters, Engine, Error, Mark, Mode, Recovery, Result, Session, Sums, Ticket, sums,
};
use perdura_memory::{AnyMemory, Domain, LINE, Memory, WORD};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The log: the number of entries in its first word, and from the second line on the entries, each an address and the
/// word that was there. With `BUG`, entries are not durable before the number is.
pub struct OwnEngine<M, const BUG: bool> {
    memory: Arc<M>,
    log: Range<u64>,
    /// The sums of pages that every engine keeps right, whatever the pool: those of its page table.
    sums: Option<Sums>,
    busy: AtomicBool,
    commits: AtomicU64,
}

/// The address of an entry.
fn entry(log: &Range<u64>, index: u64) -> u64 {
    log.start + LINE + index * 2 * WORD
}

/// Checks the log's entries.
fn entries<M: Memory>(memory: &M, log: &Range<u64>) -> Result<Vec<(u64, u64)>> {
    let count = memory.load(log.start);
    if count > (log.end - log.start - LINE) / (2 * WORD) {
        return Err(Error::corrupt("the number of entries", log.start));
    }
    let all = (0..count).map(|index| {
        let at = entry(log, index);
        let (of, word) = (memory.load(at), memory.load(at + WORD));
        memory.try_load(of).map(|_| (of, word)).ok_or(Error::corrupt("an entry's address", at))
    });
    all.collect()
}

/// Makes words durable, with one fence.
fn persist<M: Memory>(memory: &M, words: impl Iterator<Item = u64>) {
    words.for_each(|at| memory.write_back(at, WORD));
    memory.fence();
}

/// Writes the number of entries, durably.
fn set_count<M: Memory>(memory: &M, log: &Range<u64>, count: u64) {
    memory.store(log.start, count);
    persist(memory, std::iter::once(log.start));
}

/// Puts the old words back, the newest first, and makes them durable.
fn restore<M: Memory>(memory: &M, old: &[(u64, u64)]) {
    old.iter().rev().for_each(|(at, word)| memory.store(*at, *word));
    persist(memory, old.iter().map(|(at, _)| *at));
}

impl<M: Memory + 'static, const BUG: bool> Engine<M> for OwnEngine<M, BUG> {
    const NAME: &'static str = "own-undo";
    const KEEPS_CHECKSUMS: bool = false;
    type Session = OwnSession<M, BUG>;

    fn refusal(memory: &M) -> Option<&'static str> {
        (memory.domain() == Domain::Media).then_some("it does not look whether a sync has failed")
    }

    fn format(memory: &M, area: Range<u64>) {
        set_count(memory, &area, 0);
    }

    fn inspect(memory: &M, area: Range<u64>) -> Result<Recovery> {
        let rolled_back = u64::from(!entries(memory, &area)?.is_empty());
        Ok(Recovery { rolled_back, ..Recovery::default() })
    }

    fn recover(memory: &M, area: Range<u64>) -> Result<Recovery> {
        let found = Self::inspect(memory, area.clone())?;
        restore(memory, &entries(memory, &area)?);
        set_count(memory, &area, 0);
        Ok(found)
    }

    fn start_with_sums(memory: Arc<M>, log: Range<u64>, sums: Option<Sums>) -> Result<Arc<Self>> {
        if memory.load(log.start) != 0 {
            return Err(Error::corrupt("the number of entries", log.start));
        }
        let (busy, commits) = (AtomicBool::new(false), AtomicU64::new(0));
        Ok(Arc::new(OwnEngine { memory, log, sums, busy, commits }))
    }

    fn session(self: &Arc<Self>) -> Result<Self::Session> {
        let (engine, old, counters) = (self.clone(), Vec::new(), Counters::default());
        Ok(OwnSession { engine, mode: None, old, counters })
    }

    /// A commit leaves nothing in the log.
    fn reclaimable(&self) -> Ticket {
        Ticket(self.commits.load(Ordering::Acquire))
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(())
    }
}

/// A thread's transactions: one at a time among all sessions.
pub struct OwnSession<M: Memory, const BUG: bool> {
    engine: Arc<OwnEngine<M, BUG>>,
    mode: Option<Mode>,
    /// The entries of the running transaction.
    old: Vec<(u64, u64)>,
    counters: Counters,
}

impl<M: Memory, const BUG: bool> OwnSession<M, BUG> {
    fn undo_to(&mut self, mark: usize) {
        if mark < self.old.len() {
            let OwnEngine { memory, log, .. } = &*self.engine;
            restore(&**memory, &self.old.split_off(mark));
            set_count(&**memory, log, mark as u64);
        }
    }

    /// Stores a word, after its old one is in the log.
    fn log_and_store(&mut self, at: u64, old: u64, new: u64) -> Result<()> {
        let OwnEngine { memory, log, .. } = &*self.engine;
        let (count, place) = (self.old.len() as u64, entry(log, self.old.len() as u64));
        if place + 2 * WORD > log.end {
            let [needed, available] = [place + 2 * WORD, log.end].map(|end| end - log.start);
            return Err(Error::TooLarge { needed, available });
        }
        memory.store(place, at);
        memory.store(place + WORD, old);
        if !BUG {
            persist(&**memory, [place, place + WORD].into_iter());
        }
        set_count(&**memory, log, count + 1);
        memory.store(at, new);
        self.old.push((at, old));
        Ok(())
    }

    fn finish(&mut self) {
        if self.mode.take().is_some() {
            self.engine.busy.store(false, Ordering::Release);
        }
    }
}

impl<M: Memory, const BUG: bool> Access for OwnSession<M, BUG> {
    fn read_word(&mut self, at: u64) -> Result<u64> {
        self.engine.memory.try_load(at).ok_or(Error::outside(at))
    }

    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        if self.mode != Some(Mode::Write) {
            return Err(Error::ReadOnly);
        }
        let old = self.read_word(at)?;
        let engine = self.engine.clone();
        if let Some(sum) = engine.sums.as_ref().and_then(|sums| sums.places().of(at)) {
            let before = engine.memory.load(sum);
            let after = before.wrapping_add(sums::change(at, old, value));
            self.log_and_store(sum, before, after)?;
        }
        self.log_and_store(at, old, value)
    }

    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        if self.engine.memory.try_copy_out(at, to) { Ok(()) } else { Err(Error::outside(at)) }
    }

    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        let (mut at, mut rest) = (at, from);
        while !rest.is_empty() {
            let within = (at % WORD) as usize;
            let (now, later) = rest.split_at(rest.len().min(WORD as usize - within));
            let mut bytes = self.read_word(at - within as u64)?.to_ne_bytes();
            bytes[within..within + now.len()].copy_from_slice(now);
            self.write_word(at - within as u64, u64::from_ne_bytes(bytes))?;
            (at, rest) = (at + now.len() as u64, later);
        }
        Ok(())
    }

    fn mode(&self) -> Mode {
        self.mode.unwrap_or(Mode::Read)
    }
}

impl<M: Memory, const BUG: bool> Session for OwnSession<M, BUG> {
    fn begin(&mut self, mode: Mode) {
        if self.mode.is_some() {
            return self.abort();
        }
        let mut turn = 0;
        while self.engine.busy.swap(true, Ordering::Acquire) {
            // On a simulated machine another core runs meanwhile.
            self.engine.memory.pause(turn);
            turn += 1;
        }
        self.mode = Some(mode);
    }

    fn mark(&mut self) -> Mark {
        Mark(self.old.len())
    }

    fn rollback_to(&mut self, mark: Mark) {
        self.undo_to(mark.0);
    }

    fn commit(&mut self) -> Result<Ticket> {
        if self.mode.is_none() {
            return Err(Error::Invalid("no transaction is running"));
        }
        let OwnEngine { memory, log, commits, .. } = &*self.engine;
        if !self.old.is_empty() {
            persist(&**memory, self.old.drain(..).map(|(at, _)| at));
            set_count(&**memory, log, 0);
        }
        let ticket = Ticket(commits.fetch_add(1, Ordering::AcqRel) + 1);
        self.counters.commits += 1;
        self.finish();
        Ok(ticket)
    }

    fn abort(&mut self) {
        self.undo_to(0);
        self.finish();
    }

    fn is_durable(&self, _: Ticket) -> bool {
        true
    }

    fn wait_durable(&mut self, _: Ticket) -> Result<()> {
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<()> {
        Ok(())
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl<M: Memory, const BUG: bool> Drop for OwnSession<M, BUG> {
    fn drop(&mut self) {
        self.abort();
    }
}

/// The engine, for the machine that runs a program and for the images after its power cuts.
pub struct Own<const BUG: bool>;

impl<const BUG: bool> Family for Own<BUG> {
    type Engine = OwnEngine<AnyMemory, BUG>;
}

/// Cuts the power of machines with one core and with three.
///
/// # Errors
/// The first failure.
pub fn test<const BUG: bool>() -> std::result::Result<Report, Box<perdura_crashtest::Failure>> {
    let (runner, mut all) = (On::new::<Own<BUG>>(Bank(false)), Report::default());
    for seed in 0..6 {
        let (points, cores) = (Points::Random(40), [1, 3][seed as usize % 2]);
        let case = Case { points, cores, seed, ..Case::default() };
        all.add(&runner.explore(&case, Budget::default(), &Watcher::default())?);
    }
    Ok(all)
}

fn main() {
    let bug = std::env::args().any(|argument| argument == "--bug");
    match if bug { test::<true>() } else { test::<false>() } {
        Ok(report) => println!("no failure: {report}"),
        Err(failure) => {
            println!("{failure}");
            std::process::exit(1);
        }
    }
}
