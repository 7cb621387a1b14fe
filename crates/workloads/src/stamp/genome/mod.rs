//! genome: assembles a gene from overlapping segments of it (STAMP).
//!
//! ```text
//! root     buckets of segments, tables, entries; buckets in each, entries; the gene's place, its length
//! segment  next, its nucleotides (two words)
//! table    of one length of overlap: buckets, lists of entries by the hash of their segment's beginning
//! entry    segment, whether it begins a chain, the chain's first entry (in its last), its last (in its first),
//!          the entry after this one, nucleotides that the two have in common, the chain's length (in its first)
//! ```
//!
//! Threads put all segments into a set, 12 in a transaction; when all have, they give each one an entry, and put the
//! entry into a table for each length of overlap. Then, from the longest overlap down, in rounds that begin together,
//! a thread looks for entries whose beginnings are the ends of its own chains, and joins the chains. The first thread
//! writes down the one chain that is left, the gene. Invariants: an entry is in one chain.

mod gene;
mod join;
mod set;
#[cfg(test)]
mod tests;

use super::Input;
use super::block::{self, WORD, word};
use super::list::List;
use super::party::{Meeting, Party};
use crate::zeroed;
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use gene::{Gene, Segment};
use join::{ENTRY, Entries};
use perdura::collections::Visit;
use perdura::{Access, Error, Purpose, Result, Root, Tx};
use set::Set;

const ROOT: &str = "bench.genome";
/// The kind of this workload's root.
pub(crate) const KIND: u32 = 2_015;
const ROOT_WORDS: usize = 7;
/// In the root's block.
const SEQUENCE: u64 = 5;
/// Segments inserted by one transaction.
const TOGETHER: usize = 12;
/// Entries read by one transaction.
const READ_TOGETHER: u64 = 64;

/// The gene and its segments: STAMP's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// `-g`: nucleotides of the gene.
    pub gene: u64,
    /// `-s`: nucleotides of a segment.
    pub segment: u64,
    /// `-n`: segments; a few more are added where these leave gaps.
    pub segments: u64,
}

impl Parameters {
    /// Those of the input.
    pub const fn of(input: Input) -> Self {
        let (gene, segment, segments) = match input {
            Input::Small => (64, 16, 600),
            Input::Plain => (256, 16, 16_384),
            Input::Plus => (512, 32, 32_768),
            Input::Native => (16_384, 64, 16_777_216),
        };
        Parameters { gene, segment, segments }
    }

    /// With this many segments, of a gene that is shorter or longer in proportion.
    pub fn with_segments(self, segments: u64) -> Self {
        let gene =
            (u128::from(self.gene) * u128::from(segments) / u128::from(self.segments)) as u64;
        Parameters { gene: gene.max(2 * self.segment), segments, ..self }
    }
}

/// The workload.
#[derive(Debug)]
pub struct Genome {
    gene: Gene,
    meeting: Meeting,
}

/// Where things are in the heap.
#[derive(Clone, Copy, Debug)]
struct Places {
    root: u64,
    set: Set,
    /// Tables of buckets, one after the other: the first is of an overlap of one.
    tables: u64,
    buckets: u64,
    entries: Entries,
}

impl Places {
    fn of(root: u64, words: [u64; ROOT_WORDS]) -> Self {
        let [set, tables, entries, buckets, count, ..] = words;
        let (set, entries) = (Set { at: set, buckets }, Entries { at: entries, count });
        Places { root, set, tables, buckets, entries }
    }

    /// The list of entries whose segments may have a beginning with this hash.
    const fn beginning(&self, overlap: u64, hash: u64) -> List {
        List(word(self.tables, (overlap - 1) * self.buckets + hash % self.buckets))
    }
}

impl Genome {
    /// With the gene that follows from `seed`.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(parameters: Parameters, seed: u64) -> Outcome<Self> {
        Ok(Genome { gene: Gene::drawn(parameters, seed)?, meeting: Meeting::default() })
    }

    /// Upper bound of its bytes.
    pub const fn bytes(&self) -> u64 {
        let (gene, segment) = (self.gene.len(), self.gene.segment_len());
        gene * (2 * WORD + ENTRY) + segment * gene * 5 * WORD
    }

    fn open<S: Session>(session: &mut S) -> Outcome<Places> {
        let (root, words) = block::of_root::<S, ROOT_WORDS>(session, ROOT)?;
        Ok(Places::of(root, words))
    }

    /// Puts this thread's segments into the set.
    fn insert<S: Session>(
        &self,
        session: &mut S,
        at: Places,
        share: &Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome<bool> {
        let mine = share.part_of(self.gene.segments().len() as u64);
        let mine = &self.gene.segments()[mine.start as usize..mine.end as usize];
        let computation = &session.computation();
        for together in mine.chunks(TOGETHER) {
            if !recorder.go_on() {
                return Ok(false);
            }
            recorder.operations(0, together.len() as u64, || {
                session.transaction(|tx| {
                    let mut put = |segment| at.set.insert(tx, segment, computation).map(drop);
                    together.iter().try_for_each(|segment| put(*segment))
                })
            })?;
        }
        Ok(true)
    }

    /// Gives each segment of this thread's buckets an entry, and puts that into all tables.
    fn index<S: Session>(
        &self,
        session: &mut S,
        at: Places,
        share: &Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome<bool> {
        let computation = session.computation();
        let mut from = share.part_of(at.entries.count).start;
        for bucket in share.part_of(at.buckets) {
            for (node, segment) in
                session.read(|tx| at.set.bucket(tx, bucket, self.gene.segment_len()))?
            {
                if !recorder.go_on() {
                    return Ok(false);
                }
                let claim = || session.transaction(|tx| at.entries.claim(tx, from, node));
                let index = recorder.operations(1, 0, claim)?;
                from = (index + 1) % at.entries.count;
                let mut hash = 0;
                let overlaps = 1..self.gene.segment_len();
                for (overlap, letter) in overlaps.zip(segment.letters(0)) {
                    hash = gene::hashed_on(hash, letter);
                    computation.charge(1);
                    let (list, entry) = (at.beginning(overlap, hash), at.entries.place(index));
                    let put = || session.transaction(|tx| list.insert(tx, entry, hash));
                    recorder.operations(2, 0, put)?;
                }
            }
        }
        Ok(true)
    }

    /// This thread's entries, each of them the end of a chain of one.
    fn ends<S: Session>(
        &self,
        session: &mut S,
        at: Places,
        share: &Share,
    ) -> Outcome<Vec<(u64, Segment)>> {
        let (mut ends, mine) = (Vec::new(), share.part_of(at.entries.count));
        for first in mine.clone().step_by(READ_TOGETHER as usize) {
            let part = first..mine.end.min(first + READ_TOGETHER);
            ends.extend(
                session.read(|tx| at.entries.taken(tx, part.clone(), self.gene.segment_len()))?,
            );
        }
        Ok(ends)
    }

    /// Joins the chain at one of this thread's ends with a chain that begins as it ends. Returns whether there was one.
    fn join<S: Session>(
        &self,
        session: &mut S,
        at: Places,
        (end, segment): (u64, Segment),
        overlap: u64,
        recorder: &mut Recorder<'_>,
    ) -> Outcome<bool> {
        let (ending, computation) = (segment.ending(overlap), session.computation());
        let hash = ending.hash();
        computation.charge(overlap);
        let list = at.beginning(overlap, hash);
        // The tables do not change any more: the transaction need only check whether a chain still begins there.
        let (beginning, segment_len) = ((ending, hash), self.gene.segment_len());
        let others = session
            .read(|tx| Entries::beginning_with(tx, list, beginning, segment_len, &computation))?;
        for other in others {
            let join = || session.transaction(|tx| Entries::join(tx, end, other, overlap));
            if recorder.operations(3, 0, join)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn phases<S: Session>(
        &self,
        session: &mut S,
        share: &Share,
        party: Party<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let at = Self::open(session)?;
        if !self.insert(session, at, share, recorder)? || !party.wait(session) {
            return Ok(());
        }
        if !self.index(session, at, share, recorder)? || !party.wait(session) {
            return Ok(());
        }
        let mut ends = self.ends(session, at, share)?;
        for overlap in (1..self.gene.segment_len()).rev() {
            let mut left = Vec::with_capacity(ends.len());
            for end in ends {
                if !recorder.go_on() {
                    return Ok(());
                }
                if !self.join(session, at, end, overlap, recorder)? {
                    left.push(end);
                }
            }
            ends = left;
            if !party.wait(session) {
                return Ok(());
            }
        }
        if share.thread == 0 {
            Self::write_down(session, at, self.gene.segment_len())?;
        }
        party.end();
        Ok(())
    }

    /// Writes the chains' nucleotides down, one chain after the other.
    fn write_down<S: Session>(session: &mut S, at: Places, segment_len: u64) -> Outcome {
        let sequence = session.read(|tx| at.entries.chains(tx, segment_len))?;
        session.transaction(|tx| {
            let new = tx.allocate(Purpose::General, (sequence.len() as u64).max(1))?;
            tx.write_fresh(new, 0, &sequence)?;
            tx.write_word(word(at.root, SEQUENCE), new.at())?;
            tx.write_word(word(at.root, SEQUENCE + 1), sequence.len() as u64)
        })?;
        Ok(())
    }
}

super::listed! {
    Genome: "genome", "STAMP: a gene put together from segments, to the end",
    "segments" segments by Parameters::with_segments, Parameters::of, Genome, |values| values.entries()
}

impl Workload for Genome {
    const KINDS: &'static [&'static str] = &["segments", "entry", "table", "match"];
    const ENDS: bool = true;

    fn load_size(&self) -> u64 {
        self.gene.len()
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let (buckets, entries) = (self.gene.len(), self.gene.len());
        let tables = (self.gene.segment_len() - 1) * buckets;
        session.transaction(|tx| {
            let set = zeroed::allocate(tx, buckets * WORD)?;
            let tables = zeroed::allocate(tx, tables.max(1) * WORD)?;
            let entries = Entries::create(tx, entries, self.gene.segment_len())?;
            let words = [set, tables, entries.at, buckets, entries.count, 0, 0];
            let at = block::new(tx, words)?;
            tx.set_root(ROOT, Root { at, kind: KIND })
        })?;
        progress.loaded(self.gene.len())
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        self.phases(session, &share, self.meeting.join(share.threads), recorder)
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        if self.meeting.was_left() {
            return Ok(());
        }
        let (_, words) = block::of_root::<S, ROOT_WORDS>(session, ROOT)?;
        let (at, len) = (words[SEQUENCE as usize], words[SEQUENCE as usize + 1]);
        let gene = self.gene.nucleotides();
        let mut sequence = vec![0; len.min(2 * gene.len() as u64) as usize];
        session.read(|tx| tx.read_bytes(at, &mut sequence))?;
        if sequence != gene {
            let what = format!("a sequence of {len} nucleotides is not the gene of {}", gene.len());
            return Err(Failure::Wrong(what));
        }
        Ok(())
    }
}

/// Checks the structure at the root, and reports its blocks.
///
/// # Errors
/// `Corrupt` if it is damaged; the errors of `visit`.
pub fn check_blocks(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    visit(at)?;
    let mut words = [0; ROOT_WORDS];
    block::read(tx, at, &mut words)?;
    let places = Places::of(at, words);
    words[..3].iter().try_for_each(|block| visit(*block))?;
    if words[SEQUENCE as usize] != 0 {
        visit(words[SEQUENCE as usize])?;
    }
    let fits = |tx: &mut dyn Tx, block, words| Ok::<_, Error>(tx.usable(block)? / WORD >= words);
    if !fits(tx, places.set.at, places.buckets)? {
        return Err(Error::corrupt("a set of more segments than it has room for", at));
    }
    for bucket in 0..places.buckets {
        for (node, _) in places.set.bucket(tx, bucket, 1)? {
            visit(node)?;
        }
    }
    let lists = tx.usable(places.tables)? / WORD;
    let tables = lists / places.buckets.max(1);
    (0..tables * places.buckets).try_for_each(|list| {
        let list = List(word(places.tables, list));
        list.check(tx, visit, |_, _| Ok(()))
    })
}
