//! Cuts the power after a story's events, and checks the images that are left.

use crate::crash::program::{
    Refusal, State, Trace, accounted, difference, make_root, read_state, transact,
};
use crate::crash::{BYTES, Cuttable, Outcome};
use crate::family::Family;
use perdura::superblock::{State as Left, Superblock};
use perdura::{AnyHeap, Domain, Error};
use perdura_memory::reference::Cut;
use perdura_memory::{LINE, Reference};
use std::collections::BTreeSet;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How a story is explored.
pub(crate) struct Bench<'a> {
    /// Makes the memory under test from a reference memory.
    pub(crate) wrap: &'a dyn Fn(Reference) -> Cuttable,
    /// About how many of the story's events are crash points.
    pub(crate) cuts: u64,
    /// At most how many events of a recovery are crash points.
    pub(crate) nested: u64,
}

/// The contents that a pool's memory must have after a power cut.
pub(crate) struct Expect<'a> {
    domain: Domain,
    /// Whether the pool may be refused instead.
    refusal: Refusal,
    /// The state must be one of these.
    allowed: &'a [State],
    all: &'a [State],
}

/// One of this many crash points has one image whose recovery is cut, too.
const NESTED_EACH: usize = 16;
/// Number of suspected events with extra crash points around them.
const MOST_SUSPECTS: usize = 12;
/// A bit of a salt: the image's recovery is cut.
const NESTED: u64 = 1 << 63;

type Play<'a> = dyn Fn(&Cuttable, &mut Trace) + 'a;

/// A run to be cut.
pub(crate) struct Story<'a> {
    pub(crate) name: String,
    pub(crate) domain: Domain,
    /// The image that it begins with.
    pub(crate) start: Vec<u8>,
    pub(crate) play: Box<Play<'a>>,
    /// The engines that open and check an image; each crash point takes the next one.
    pub(crate) verify: Vec<Family>,
}

impl Bench<'_> {
    pub(crate) fn memory(&self, image: &[u8], domain: Domain) -> Cuttable {
        (self.wrap)(Reference::from_image(image, domain).with_limit(BYTES))
    }

    /// Cuts the power after the story's events.
    pub(crate) fn explore(&self, story: &Story<'_>) -> Outcome {
        let mut whole = Trace::default();
        let memory = self.memory(&story.start, story.domain);
        (story.play)(&memory, &mut whole);
        if let Some(problem) = whole.problem {
            return Outcome::Broken(problem);
        }
        let events = memory.inner.events();
        let step = (events / self.cuts).max(1);
        let first = xxh3_64_with_seed(story.name.as_bytes(), 0) % step;
        let (mut images, mut seen) = (0, BTreeSet::new());
        let mut positions = around(&memory.suspects(), events);
        let suspected = positions.len();
        positions.extend((first..events).step_by(step as usize).chain([events]));
        for (index, &cut_at) in positions.iter().enumerate() {
            let mut nested = self.nested > 0 && index % NESTED_EACH == NESTED_EACH / 2;
            let choice = index / NESTED_EACH % 4;
            let mut trace = Trace::cut_after(cut_at);
            let memory = self.memory(&story.start, story.domain);
            memory.inner.cut_after(cut_at);
            (story.play)(&memory, &mut trace);
            let Trace { acknowledged, begun, refusal, .. } = trace;
            let expect = Expect {
                domain: story.domain,
                refusal,
                allowed: &whole.states[acknowledged..=begun],
                all: &whole.states,
            };
            for (turn, cut) in choices(cut_at, index < suspected).enumerate() {
                let image = memory.inner.power_cut(cut);
                let promised = (acknowledged * 1000 + begun) as u64 * 3 + refusal as u64;
                if !seen.insert(xxh3_64_with_seed(&image, promised)) {
                    continue;
                }
                let engine = story.verify[index % story.verify.len()];
                let salt = if nested && turn >= choice { cut_at | NESTED } else { cut_at };
                nested &= salt == cut_at;
                match verify(self, engine, &image, &expect, salt) {
                    Ok(checked) => images += checked,
                    Err(why) => {
                        let name = &story.name;
                        return Outcome::Broken(format!(
                            "{name}: cut after event {cut_at} of {events}, {cut:?}: {why}"
                        ));
                    }
                }
            }
        }
        Outcome::Whole(images)
    }
}

/// Cuts the power soon after the suspected events, some events or a whole header later.
fn around(suspects: &[u64], end: u64) -> Vec<u64> {
    let each = (suspects.len() / MOST_SUSPECTS).max(1);
    let after = [1, 2, 3, 4, 5, 6, 8, 16, 32, 33];
    let positions = suspects.iter().step_by(each);
    positions.flat_map(|event| after.map(|after| event + after)).filter(|at| *at < end).collect()
}

/// Which lines a power cut leaves: the extremes, and random ones; more of them where a bug is suspected.
fn choices(seed: u64, suspected: bool) -> impl Iterator<Item = Cut> {
    (0..if suspected { 24 } else { 4 }).map(move |index| choice(seed, index))
}

fn choice(seed: u64, index: usize) -> Cut {
    match index {
        0 => Cut::None,
        1 => Cut::All,
        _ => Cut::Seed(seed ^ (index as u64) << 40),
    }
}

/// The verification by an engine: opens the image, compares, goes on, and is cut again; with `NESTED` in `salt` it is
/// cut inside recovery. Returns how many images were opened.
fn verify(
    bench: &Bench<'_>,
    engine: Family,
    image: &[u8],
    expect: &Expect<'_>,
    salt: u64,
) -> Result<u64, String> {
    let domain = expect.domain;
    let memory = bench.memory(image, domain);
    let heap = match engine.open(&memory.memory) {
        Err(error) if expect.refusal.allows(&error) => {
            if memory.inner.events() > 0 {
                return Err(format!("a refused pool was written to ({error})"));
            }
            return Ok(1);
        }
        Err(error) => return Err(format!("cannot be opened: {error}")),
        Ok(heap) => heap,
    };
    let recovery = memory.inner.events();
    let suspects = memory.suspects();
    settled(&memory, "opening")?;
    let mut session = heap.session().map_err(|error| error.to_string())?;
    let state = read_state(&mut session).map_err(|error| error.to_string())?;
    if !expect.allowed.contains(&state) {
        return Err(format!(
            "state {:?} where {} were allowed, the first of them {:?}; {}",
            expect.all.iter().position(|known| *known == state),
            expect.allowed.len(),
            expect.all.iter().position(|known| *known == expect.allowed[0]),
            difference(&expect.allowed[0], &state),
        ));
    }
    accounted(&*heap, &memory, &mut session)?;
    drop(session);
    let (further, stray) = go_on(bench, engine, (&*heap, &memory), salt, domain)?;
    let mut images = 1 + further;
    drop(heap);
    if !stray {
        settled(&memory, "closing")?;
    }
    if salt & NESTED != 0 {
        recovers_alone(bench, engine, image, domain)?;
        let step = (recovery / bench.nested).max(1);
        let mut positions = around(&suspects, recovery).repeat(6);
        positions.extend(((salt & !NESTED) % step..recovery).step_by(step as usize));
        for (index, cut_at) in positions.into_iter().enumerate() {
            let memory = bench.memory(image, domain);
            memory.inner.cut_after(cut_at);
            let _ = engine.open(&memory.memory);
            let image = memory.inner.power_cut(choice(cut_at ^ salt, index % 16));
            let same = [state.clone()];
            let expect = Expect {
                domain,
                refusal: Refusal::in_use(engine),
                allowed: &same,
                all: expect.all,
            };
            images += verify(bench, engine, &image, &expect, cut_at)
                .map_err(|why| format!("recovery cut after event {cut_at}: {why}"))?;
        }
    }
    Ok(images)
}

/// Runs further transactions, which reuse the ticket numbers of lost ones, and cuts the power again, after them or
/// inside them: the acknowledged ones must be there, and nothing of the lost ones. Returns the number of images, and
/// whether the memory may hold more than is durable: the power is off, or a rolled-back transaction has left stores in
/// free memory.
fn go_on(
    bench: &Bench<'_>,
    engine: Family,
    (heap, memory): (&dyn AnyHeap, &Cuttable),
    salt: u64,
    domain: Domain,
) -> Result<(u64, bool), String> {
    let mut session = heap.session().map_err(|error| error.to_string())?;
    let wrong = |error: Error| format!("a further transaction: {error}");
    if read_state(&mut session).map_err(wrong)?.is_empty() {
        session.transaction(make_root).map_err(wrong)?;
    }
    let mut states = vec![read_state(&mut session).map_err(wrong)?];
    let mut acknowledged = 0;
    let mut stray = salt.is_multiple_of(3);
    let cut_at = if stray { salt / 3 % 67 } else { u64::MAX / 2 };
    let before = memory.inner.events();
    memory.inner.cut_after(cut_at);
    for seed in 0..=salt % 2 {
        match session.transaction(|tx| transact(tx, salt ^ seed << 32, false)) {
            Ok(()) => {}
            Err(Error::Aborted(_)) => stray = true,
            Err(error) => return Err(wrong(error)),
        }
        states.push(read_state(&mut session).map_err(wrong)?);
        if memory.inner.events() - before <= cut_at {
            acknowledged = states.len() - 1;
        }
    }
    let mut images = 0;
    if engine.crash_consistent {
        let image = memory.inner.power_cut(choice(salt, salt as usize / 2 % 4));
        let again = bench.memory(&image, domain);
        let heap = engine
            .open(&again.memory)
            .map_err(|error| format!("cut again, cannot be opened: {error}"))?;
        let mut session = heap.session().map_err(wrong)?;
        let found = read_state(&mut session).map_err(wrong)?;
        if !states[acknowledged..].contains(&found) {
            let wanted = difference(&states[acknowledged], &found);
            return Err(format!("after a further cut: {wanted}"));
        }
        accounted(&*heap, &again, &mut session)?;
        images += 1;
    }
    heap.checkpoint().map_err(wrong)?;
    if !stray {
        settled(memory, "a checkpoint")?;
    }
    accounted(heap, memory, &mut session)?;
    Ok((images, stray))
}

/// Recovery itself is durable when it returns, and a second recovery has nothing to do.
fn recovers_alone(
    bench: &Bench<'_>,
    engine: Family,
    image: &[u8],
    domain: Domain,
) -> Result<(), String> {
    let memory = bench.memory(image, domain);
    let superblock = Superblock::read(&memory.memory).map_err(|error| error.to_string())?;
    if superblock.engine != engine.name || superblock.state == Left::Formatting {
        return Ok(());
    }
    engine.recover(&memory.memory, superblock.log.clone()).map_err(|error| error.to_string())?;
    settled(&memory, "recovery")?;
    let once = engine
        .inspect(&memory.memory, superblock.log.clone())
        .map_err(|error| error.to_string())?;
    if once.replayed + once.rolled_back + once.discarded > 0 {
        return Err(format!("recovery left records that count: {once:?}"));
    }
    Ok(())
}

/// The word of the log, after its segments, that holds the acknowledged ticket.
const ACKNOWLEDGED: usize = (3 + 17) * 4096;

/// Checks that everything promised to be durable is, whatever the next fence or evictions do.
pub(crate) fn settled(memory: &Cuttable, what: &str) -> Result<(), String> {
    let [least, most] = [Cut::None, Cut::All].map(|cut| memory.inner.power_cut(cut));
    // The acknowledged ticket itself is written lazily.
    let acknowledged = ACKNOWLEDGED..ACKNOWLEDGED + 8;
    let lines = least.chunks(LINE as usize).zip(most.chunks(LINE as usize)).enumerate();
    let mut differ = lines.filter(|(_, (least, most))| least != most).flat_map(|(line, _)| {
        (line * LINE as usize..(line + 1) * LINE as usize).filter(|at| least[*at] != most[*at])
    });
    match differ.find(|at| !acknowledged.contains(at)) {
        None => Ok(()),
        Some(at) => Err(format!("{what} has returned, and {at:#x} is not durable")),
    }
}
