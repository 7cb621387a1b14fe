//! intruder: reassembles packets of a network, and searches them for attacks (STAMP).
//!
//! ```text
//! root     queue of packets, map of flows, queue of texts
//! flow     list of packets by fragment, packets so far, packets in all
//! text     flow, bytes; then the bytes
//! ```
//!
//! For each packet a thread has three transactions: it takes the packet from the queue; it adds it to the others of
//! its flow, which become a text when they are complete; and it takes a text, if there is one. Texts are searched
//! outside transactions. Invariants: a packet is in the queue, in its flow, or part of a text that is searched
//! once.

mod flows;
#[cfg(test)]
mod tests;

use super::Input;
use super::block::{self, WORD, word};
use super::list::List;
use super::party::{Meeting, Party};
use super::queue::Queue;
use crate::rbtree::RbTree;
use crate::toggle::KeySet;
use crate::{Computation, Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use flows::{Flows, Packet};
use perdura::collections::Visit;
use perdura::{Error, Purpose, Result, Root, Tx};
use std::collections::BTreeSet;
use std::sync::Mutex;

const ROOT: &str = "bench.intruder";
/// The kind of this workload's root.
pub(crate) const KIND: u32 = 2_014;
/// In a flow's block.
const SO_FAR: u64 = 1;
const IN_ALL: u64 = 2;
/// No text is longer.
const LONGEST: u64 = 1 << 20;

/// The traffic: STAMP's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// `-a`: flows with an attack, in percent.
    pub attack_percent: u64,
    /// `-l`: the longest text of another flow.
    pub longest: u64,
    /// `-n`: flows.
    pub flows: u64,
}

impl Parameters {
    /// That of the input.
    pub const fn of(input: Input) -> Self {
        let (longest, flows) = match input {
            Input::Small => (8, 128),
            Input::Plain => (4, 2_048),
            Input::Plus => (16, 4_096),
            Input::Native => (128, 262_144),
        };
        Parameters { attack_percent: 10, longest, flows }
    }
}

/// The workload.
#[derive(Debug)]
pub struct Intruder {
    flows: Flows,
    /// The texts that threads have searched, and those with an attack.
    seen: Mutex<Seen>,
    meeting: Meeting,
}

#[derive(Debug, Default)]
struct Seen {
    flows: BTreeSet<u64>,
    attacks: BTreeSet<u64>,
}

/// Where things are in the heap.
#[derive(Clone, Copy, Debug)]
struct Places {
    packets: Queue,
    flows: RbTree,
    texts: Queue,
}

impl Places {
    fn of([packets, flows, texts]: [u64; 3]) -> Self {
        Places { packets: Queue(packets), flows: RbTree::open(flows), texts: Queue(texts) }
    }
}

impl Intruder {
    /// With the packets that follow from `seed`.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(parameters: Parameters, seed: u64) -> Outcome<Self> {
        let Parameters { attack_percent, longest, flows } = parameters;
        if attack_percent > 100 || longest == 0 || longest > LONGEST || flows == 0 {
            let what = "intruder needs a flow, with a byte (2^20 at most), and up to 100 percent of attacks";
            return Err(Failure::Parameters(what.to_owned()));
        }
        let flows = Flows::drawn(attack_percent, longest, flows, seed);
        Ok(Intruder { flows, seen: Mutex::default(), meeting: Meeting::default() })
    }

    /// Upper bound of its bytes.
    pub fn bytes(&self) -> u64 {
        // For each packet its place in the queue and a node; for each flow a node, a block and its text.
        self.flows.packets().len() as u64 * 5 * WORD + self.flows.len() * 256
    }

    fn open<S: Session>(session: &mut S) -> Outcome<Places> {
        Ok(Places::of(block::of_root::<S, 3>(session, ROOT)?.1))
    }

    /// Adds a packet to the others of its flow.
    fn reassemble<T: Tx + ?Sized>(&self, tx: &mut T, at: Places, number: u64) -> Result<()> {
        let packet = self.packet(number)?;
        let flow = match at.flows.get(tx, packet.flow)? {
            None if packet.fragments == 1 => {
                return at.push_text(tx, packet.flow, self.flows.bytes(packet));
            }
            None => {
                let flow = block::new(tx, [0, 0, packet.fragments])?;
                at.flows.insert(tx, packet.flow, flow)?;
                flow
            }
            Some(flow) => flow,
        };
        if tx.read_word(word(flow, IN_ALL))? != packet.fragments
            || !List(flow).insert(tx, packet.fragment, number)?
        {
            return Err(Error::corrupt("a flow with a packet twice or of another", flow));
        }
        let so_far = tx.read_word(word(flow, SO_FAR))? + 1;
        if so_far < packet.fragments {
            return tx.write_word(word(flow, SO_FAR), so_far);
        }
        let mut text = Vec::new();
        List(flow).each(tx, |_, _, _, number| {
            text.extend_from_slice(self.flows.bytes(self.packet(number)?));
            Ok(())
        })?;
        List(flow).destroy(tx)?;
        at.flows.remove(tx, packet.flow)?;
        tx.free(flow)?;
        at.push_text(tx, packet.flow, &text)
    }

    fn packet(&self, number: u64) -> Result<&Packet> {
        let packet = self.flows.packets().get(number as usize);
        packet.ok_or_else(|| Error::corrupt("a packet that was never sent", number))
    }

    /// Searches a text, which must be as it was sent.
    fn look(&self, flow: u64, text: &[u8], computation: &Computation) -> Outcome {
        if self.flows.text(flow) != Some(text) {
            let text = String::from_utf8_lossy(text);
            return Err(Failure::Wrong(format!("flow {flow} was never {text:?}")));
        }
        let (is_attack, looked_at) = flows::search(text);
        computation.charge(looked_at);
        let mut seen = self.seen.lock().expect("no thread panics here");
        if !seen.flows.insert(flow) {
            return Err(Failure::Wrong(format!("flow {flow} was looked at twice")));
        }
        if is_attack {
            seen.attacks.insert(flow);
        }
        Ok(())
    }

    fn packets<S: Session>(
        &self,
        session: &mut S,
        party: Party<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let (at, computation) = (Self::open(session)?, session.computation());
        while recorder.go_on() {
            let pop = || session.transaction(|tx| at.packets.pop(tx));
            let Some(packet) = recorder.operations(1, 0, pop)? else {
                party.end();
                return Ok(());
            };
            recorder.operation(0, || session.transaction(|tx| self.reassemble(tx, at, packet)))?;
            let take = || session.transaction(|tx| at.pop_text(tx));
            if let Some((flow, text)) = recorder.operations(2, 0, take)? {
                self.look(flow, &text, &computation)?;
            }
        }
        Ok(())
    }
}

impl Places {
    fn push_text<T: Tx + ?Sized>(self, tx: &mut T, flow: u64, text: &[u8]) -> Result<()> {
        let new = tx.allocate(Purpose::Value, 2 * WORD + text.len() as u64)?;
        let head = [flow, text.len() as u64].map(u64::to_ne_bytes);
        tx.write_fresh(new, 0, head.as_flattened())?;
        tx.write_fresh(new, 2 * WORD, text)?;
        self.texts.push(tx, new.at())
    }

    /// Takes a text, which is gone from the heap then.
    fn pop_text<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Option<(u64, Vec<u8>)>> {
        let Some(at) = self.texts.pop(tx)? else { return Ok(None) };
        let (flow, len) = (tx.read_word(at)?, tx.read_word(word(at, 1))?);
        if len > LONGEST {
            return Err(Error::corrupt("a text that is too long", at));
        }
        let mut text = vec![0; len as usize];
        tx.read_bytes(word(at, 2), &mut text)?;
        tx.free(at)?;
        Ok(Some((flow, text)))
    }
}

super::listed! {
    Intruder: "intruder", "STAMP: packets put together, and looked at for attacks, to the end", "flows" flows,
    Parameters::of, Intruder, |values| values.entries()
}

impl Workload for Intruder {
    const KINDS: &'static [&'static str] = &["reassemble", "packet", "text"];
    const ENDS: bool = true;

    fn load_size(&self) -> u64 {
        self.flows.packets().len() as u64
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let packets: Vec<u64> = (0..self.load_size()).collect();
        session.transaction(|tx| {
            let queue = Queue::create(tx, &packets)?;
            let flows = RbTree::create(tx, 0, 0)?;
            let texts = Queue::create(tx, &[])?;
            let at = block::new(tx, [queue.0, flows.at(), texts.0])?;
            tx.set_root(ROOT, Root { at, kind: KIND })
        })?;
        progress.loaded(self.load_size())
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        self.packets(session, self.meeting.join(share.threads), recorder)
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        if self.meeting.was_left() {
            return Ok(());
        }
        let at = Self::open(session)?;
        let left = session.read(|tx| {
            let mut flows = 0;
            at.flows.check(tx, &mut |_| Ok(()), &mut |_, _| {
                flows += 1;
                Ok(())
            })?;
            Ok([at.packets.len(tx)?, flows, at.texts.len(tx)?])
        })?;
        if left != [0; 3] {
            let what = format!("{left:?} packets, flows and texts are left");
            return Err(Failure::Wrong(what));
        }
        let seen = self.seen.lock().expect("no thread panics here");
        if seen.flows.len() as u64 != self.flows.len() || seen.attacks != *self.flows.attacks() {
            let what = format!(
                "{} of {} flows were seen, and {} attacks found of {}",
                seen.flows.len(),
                self.flows.len(),
                seen.attacks.len(),
                self.flows.attacks().len(),
            );
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
    let mut words = [0; 3];
    block::read(tx, at, &mut words)?;
    let (places, mut flows) = (Places::of(words), Vec::new());
    places.packets.check(tx, visit, |_, _, _| Ok(()))?;
    places.texts.check(tx, visit, |_, visit, text| visit(text))?;
    places.flows.check(tx, visit, &mut |_, flow| {
        flows.push(flow);
        Ok(())
    })?;
    for flow in flows {
        visit(flow)?;
        let mut packets = 0;
        List(flow).check(tx, visit, |_, _| {
            packets += 1;
            Ok(())
        })?;
        if tx.read_word(word(flow, SO_FAR))? != packets {
            return Err(Error::corrupt("a flow that does not count its packets", flow));
        }
    }
    Ok(())
}
