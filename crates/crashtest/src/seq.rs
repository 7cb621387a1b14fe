//! A sequential program as an engine: its stores go in place at once, with nothing for a power cut, and nothing that
//! keeps threads apart. It is the first row of [`table3`](crate::table3), which must be caught in every column, and no
//! engine for pools: only the tester knows it, and its pools are those of `plain`, which stores in the same way under a
//! lock.
//!
//! Each access is one of whole words, so that concurrent transactions see and overwrite each other's words, and lose
//! updates, as those of a program without locks do.

use perdura::{
    Access, Counters, Engine, EngineKind, Error, Memory, Mode, Recovery, Session, Ticket,
};
use perdura_engine::{Mark, SESSIONS, Sums, sums};
use perdura_memory::WORD;
use perdura_memory::lock::Slots;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

type Result<T> = std::result::Result<T, Error>;

/// The engine.
pub(crate) struct Seq<M> {
    memory: Arc<M>,
    sums: Option<Sums>,
    lanes: Slots<()>,
    /// The number of transactions that have stored something, in the order in which they ended.
    commits: AtomicU64,
    /// A transaction that had stored was rolled back, which cannot be done.
    spoilt: AtomicBool,
}

/// One thread's transactions.
pub(crate) struct SeqSession<M> {
    engine: Arc<Seq<M>>,
    lane: usize,
    mode: Option<Mode>,
    /// Stores of the transaction.
    stored: usize,
    serial: u64,
    counters: Counters,
}

impl<M: Memory + 'static> Engine<M> for Seq<M> {
    const NAME: &'static str = EngineKind::Plain.name();
    const CRASH_CONSISTENT: bool = false;
    const ROLLS_BACK: bool = false;
    const IN_ORDER: bool = false;
    const KEEPS_CHECKSUMS: bool = false;
    type Session = SeqSession<M>;

    fn format(_memory: &M, _area: Range<u64>) {}

    fn inspect(_memory: &M, _area: Range<u64>) -> Result<Recovery> {
        Ok(Recovery::default())
    }

    fn recover(_memory: &M, _area: Range<u64>) -> Result<Recovery> {
        Ok(Recovery::default())
    }

    fn start_with_sums(memory: Arc<M>, _area: Range<u64>, sums: Option<Sums>) -> Result<Arc<Self>> {
        Ok(Arc::new(Seq {
            memory,
            sums,
            lanes: Slots::new(SESSIONS),
            commits: AtomicU64::new(0),
            spoilt: AtomicBool::new(false),
        }))
    }

    fn session(self: &Arc<Self>) -> Result<Self::Session> {
        let lane = self.lanes.take(|| ()).map(|(lane, _)| lane);
        Ok(SeqSession {
            lane: lane.ok_or(Error::Sessions { limit: SESSIONS as u64 })?,
            engine: self.clone(),
            mode: None,
            stored: 0,
            serial: 0,
            counters: Counters::default(),
        })
    }

    fn reclaimable(&self) -> Ticket {
        Ticket(u64::MAX)
    }

    fn checkpoint(&self) -> Result<()> {
        self.check_whole()?;
        self.memory.write_back(0, self.memory.len());
        self.memory.fence();
        Ok(self.memory.check_fence()?)
    }
}

impl<M> Seq<M> {
    fn check_whole(&self) -> Result<()> {
        match self.spoilt.load(Ordering::Relaxed) {
            true => Err(Error::Invalid("a transaction that had stored was rolled back")),
            false => Ok(()),
        }
    }
}

impl<M: Memory> SeqSession<M> {
    fn finish(&mut self) {
        (self.mode, self.stored) = (None, 0);
    }
}

impl<M: Memory> Access for SeqSession<M> {
    fn read_word(&mut self, at: u64) -> Result<u64> {
        self.engine.memory.try_load(at).ok_or_else(|| Error::outside(at))
    }

    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        let memory = &*self.engine.memory;
        if self.mode != Some(Mode::Write) {
            return Err(Error::ReadOnly);
        }
        if !at.is_multiple_of(WORD) || !memory.contains(at, WORD) {
            return Err(Error::outside(at));
        }
        self.stored += 1;
        let place = self.engine.sums.as_ref().and_then(|sums| sums.places().of(at));
        if let Some(place) = place {
            let change = sums::change(at, memory.load(at), value);
            memory.store(place, memory.load(place).wrapping_add(change));
        }
        memory.store(at, value);
        Ok(())
    }

    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        match self.engine.memory.try_copy_out(at, to) {
            true => Ok(()),
            false => Err(Error::outside(at)),
        }
    }

    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        let (mut at, mut rest) = (at, from);
        while !rest.is_empty() {
            let (word, skip) = (at - at % WORD, (at % WORD) as usize);
            let count = rest.len().min(WORD as usize - skip);
            let mut bytes = self.read_word(word)?.to_ne_bytes();
            bytes[skip..skip + count].copy_from_slice(&rest[..count]);
            self.write_word(word, u64::from_ne_bytes(bytes))?;
            (at, rest) = (word + WORD, &rest[count..]);
        }
        Ok(())
    }

    fn mode(&self) -> Mode {
        self.mode.unwrap_or(Mode::Read)
    }

    fn lane(&self) -> u32 {
        self.lane as u32
    }
}

impl<M: Memory + 'static> Session for SeqSession<M> {
    fn begin(&mut self, mode: Mode) {
        match self.mode {
            Some(_) => self.abort(),
            None => self.mode = Some(mode),
        }
    }

    fn serial(&self) -> Option<u64> {
        Some(self.serial)
    }

    fn mark(&mut self) -> Mark {
        Mark(self.stored)
    }

    fn rollback_to(&mut self, mark: Mark) {
        if self.stored > mark.0 {
            self.engine.spoilt.store(true, Ordering::Relaxed);
        }
    }

    fn commit(&mut self) -> Result<Ticket> {
        if self.mode.is_none() {
            return Err(Error::Invalid("a commit outside of a transaction"));
        }
        self.engine.check_whole()?;
        let wrote = u64::from(self.stored > 0);
        self.serial = self.engine.commits.fetch_add(wrote, Ordering::Relaxed) + wrote;
        self.counters.commits += wrote;
        self.counters.read_only += 1 - wrote;
        self.finish();
        Ok(Ticket(0))
    }

    fn abort(&mut self) {
        self.counters.aborts_user += u64::from(self.mode.is_some());
        self.rollback_to(Mark(0));
        self.finish();
    }

    fn is_durable(&self, _ticket: Ticket) -> bool {
        true
    }

    fn wait_durable(&mut self, _ticket: Ticket) -> Result<()> {
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<()> {
        Ok(())
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl<M> Drop for SeqSession<M> {
    fn drop(&mut self) {
        self.engine.lanes.give_back(self.lane);
    }
}
