//! The smallest transaction: one is added to one word of an array.

use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use perdura::{Access, Purpose, Root, Tx};
use std::sync::atomic::{AtomicU64, Ordering};

const ROOT: &str = "bench.word";
/// The kind of this workload's root.
pub(crate) const KIND: u32 = 2_007;
const WORD: u64 = 8;

/// The workload.
#[derive(Debug)]
pub struct Word {
    entries: u64,
    added: AtomicU64,
}

impl Word {
    /// With an array of `entries` words.
    ///
    /// # Errors
    /// `Parameters` if there are none.
    pub fn new(entries: u64) -> Outcome<Self> {
        if entries == 0 {
            return Err(Failure::Parameters("there is no word in an array of none".to_owned()));
        }
        Ok(Word { entries, added: AtomicU64::new(0) })
    }

    fn array<S: Session>(session: &mut S) -> Outcome<u64> {
        let root = session.read(|tx| tx.root(ROOT))?;
        root.map(|root| root.at).ok_or_else(|| Failure::wrong("the array's root is gone"))
    }
}

impl Workload for Word {
    const KINDS: &'static [&'static str] = &["add"];

    fn load_size(&self) -> u64 {
        self.entries
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let bytes = vec![0; (self.entries * WORD) as usize];
        session.transaction(|tx| {
            let array = tx.allocate(Purpose::General, self.entries * WORD)?;
            tx.set_root(ROOT, Root { at: array.at(), kind: KIND })?;
            tx.write_fresh(array, 0, &bytes)
        })?;
        progress.loaded(self.entries)
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let array = Self::array(session)?;
        let before = recorder.done();
        for _ in 0..share.operations {
            if !recorder.go_on() {
                break;
            }
            let at = array + share.random.below(self.entries) * WORD;
            recorder.operation(0, || {
                session.transaction(|tx| {
                    let value = tx.read_word(at)?;
                    tx.write_word(at, value + 1)
                })
            })?;
        }
        self.added.fetch_add(recorder.done() - before, Ordering::Relaxed);
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let array = Self::array(session)?;
        let mut bytes = vec![0; (self.entries * WORD) as usize];
        session.read(|tx| tx.read_bytes(array, &mut bytes))?;
        let words = bytes.chunks_exact(WORD as usize);
        let value = |word: &[u8]| u64::from_le_bytes(word.try_into().expect("eight bytes"));
        let sum = words.map(value).fold(0, u64::wrapping_add);
        let added = self.added.load(Ordering::Relaxed);
        if sum != added {
            let what = format!("the words add up to {sum}, {added} additions were committed");
            return Err(Failure::Wrong(what));
        }
        Ok(())
    }
}
