//! A run on a machine: the pool is opened, used by every core, and closed.

use crate::engine::AnyFamily;
use crate::engines::Family;
use crate::history::{History, Transaction};
use crate::polling::Poll;
use crate::readers::{self, Read};
use crate::{Answers, Case, Start, Subject};
use perdura::superblock::{State, Superblock};
use perdura::{AnyHeap, AnySession, Engine, Error, Format, Mode, Recovery, Ticket, Tx};
use perdura_machine::{CallSite, Event, Keep, Kind, Machine, Options, Sites};
use perdura_memory::random::SplitMix64;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Called after every event.
pub(crate) type Watch<'w> = &'w mut dyn FnMut(&Machine, Event) -> ControlFlow<()>;

/// How a pool is made for tests.
pub(crate) fn format(bytes: u64) -> Format {
    Format { limit: bytes, log: Some(0), id: 7, requires: None }
}

/// A run to be done, the same each time.
pub(crate) struct Life<'a, S: Subject> {
    pub(crate) subject: &'a S,
    pub(crate) case: &'a Case,
    pub(crate) start: Start,
    /// What the pool holds.
    pub(crate) image: Vec<u64>,
    /// The operations of each core.
    pub(crate) ops: Vec<Vec<S::Op>>,
    pub(crate) seed: u64,
    /// Bytes that the pool can grow to.
    pub(crate) limit: u64,
}

/// What came of a run that was not stopped.
pub(crate) struct Lived<O, M> {
    pub(crate) history: History<O>,
    /// What was read meanwhile.
    pub(crate) reads: Vec<Read<M>>,
    pub(crate) machine: Arc<Machine>,
}

/// What is noted of a run while it goes on.
type Notes<'n, S> = (
    &'n RefCell<History<<S as Subject>::Op>>,
    &'n RefCell<Vec<Read<<S as Subject>::Model>>>,
);

/// Why a run did not end.
pub(crate) enum Stopped {
    /// Whoever watched has seen enough.
    Watched,
    /// It went wrong by itself.
    Problem(String),
}

/// The operations of a case, each with its core and number. Neither the number of cores nor what
/// is kept changes what the others are.
pub(crate) fn numbered<S: Subject>(
    subject: &S,
    case: &Case,
) -> impl Iterator<Item = (usize, usize, S::Op)> {
    let mut root = SplitMix64::new(case.seed);
    (0..case.cores).flat_map(move |core| {
        let mut random = SplitMix64::new(root.next());
        let draw = move |index| (core, index, subject.draw(&mut random, core));
        (0..case.operations).map(draw).filter(|(core, index, _)| case.keeps(*core, *index))
    })
}

/// The same, by core.
pub(crate) fn draw<S: Subject>(subject: &S, case: &Case) -> Vec<Vec<S::Op>> {
    let mut ops: Vec<Vec<S::Op>> = (0..case.cores).map(|_| Vec::new()).collect();
    numbered(subject, case).for_each(|(core, _, op)| ops[core].push(op));
    ops
}

impl<S: Subject> Life<'_, S> {
    /// Lives it, on a new machine.
    pub(crate) fn live(
        &self,
        engine: &dyn AnyFamily,
        mut watch: Option<Watch<'_>>,
        omit: Option<Event>,
    ) -> Result<Lived<S::Op, S::Model>, Stopped> {
        let options = Options {
            cores: Some(self.case.cores),
            limit: self.limit,
            seed: self.seed,
            schedule: self.case.schedule,
            keep: Keep::Model,
            omit,
            ..Options::default()
        };
        let config = self.case.config();
        let machine = Arc::new(Machine::from_words(config, self.image.clone(), options));
        let history = RefCell::new(History::default());
        let (reads, poll) = (RefCell::default(), RefCell::<Poll>::default());
        let problem = RefCell::new(None);
        let heap = RefCell::new(None);
        let mut phase = |programs: Vec<Box<dyn FnOnce() + '_>>| -> Result<(), Stopped> {
            match &mut watch {
                Some(watch) => {
                    if machine
                        .run_watched(programs, |machine, event| {
                            poll.borrow().ask(event.number, &history, &reads);
                            watch(machine, event)
                        })
                        .is_break()
                    {
                        return Err(Stopped::Watched);
                    }
                }
                None => machine.run(programs),
            }
            match problem.take() {
                Some(problem) => Err(Stopped::Problem(problem)),
                None => Ok(()),
            }
        };
        let note = |what: &str, error: &dyn std::fmt::Display| {
            *problem.borrow_mut() = Some(format!("{what}: {error}"));
        };

        phase(vec![Box::new(|| match self.open(engine, &machine, &history) {
            Ok(opened) => *heap.borrow_mut() = Some(opened),
            Err(error) => note("opening", &error),
        })])?;
        settled(&machine, "opening").map_err(Stopped::Problem)?;
        let opened = heap.take().expect("it was opened");
        let answers = self.case.answers(engine.groups());
        opened.tune(&answers.tuning);
        poll.replace(Poll::of(&*opened));
        let programs = (0..self.ops.len()).map(|core| {
            let (opened, notes, machine, note) = (&opened, (&history, &reads), &machine, &note);
            Box::new(move || {
                let worked = opened.session().and_then(|session| {
                    self.work(&**opened, session, answers, core, machine, notes)
                });
                if let Err(error) = worked {
                    note("a transaction", &error);
                }
            }) as Box<dyn FnOnce() + '_>
        });
        phase(programs.collect())?;
        // A heap that is closed has no sessions.
        poll.take();
        phase(vec![Box::new(|| {
            if let Err(error) = opened.close() {
                note("closing", &error);
            }
        })])?;
        let mut history = history.into_inner();
        // What a transaction stored to fresh memory and then aborted is nobody's.
        if history.transactions.iter().all(|tx| tx.ticket.is_some()) {
            settled(&machine, "closing").map_err(Stopped::Problem)?;
        }
        history.events = machine.events();
        // Closing makes all of it durable.
        for tx in &mut history.transactions {
            tx.acknowledged = tx.acknowledged.min(history.events);
        }
        Ok(Lived { history, reads: reads.into_inner(), machine })
    }

    fn open(
        &self,
        engine: &dyn AnyFamily,
        machine: &Arc<Machine>,
        history: &RefCell<History<S::Op>>,
    ) -> Result<Box<dyn AnyHeap>, String> {
        if self.start != Start::New {
            return engine.on_machine(machine, None).map_err(|e| e.to_string());
        }
        let new = Some(format(self.limit));
        let heap = engine.on_machine(machine, new).map_err(|e| e.to_string())?;
        history.borrow_mut().made = machine.events();
        let mut session = heap.session().map_err(text)?;
        let begun = machine.events();
        session.transaction(|tx| self.subject.prepare(tx)).map_err(text)?;
        history.borrow_mut().prepared = (begun, machine.events());
        drop(session);
        heap.checkpoint().map_err(text)?;
        Ok(heap)
    }

    /// One core's operations, and what it does beside them.
    fn work(
        &self,
        heap: &dyn AnyHeap,
        mut session: AnySession,
        answers: Answers,
        core: usize,
        machine: &Machine,
        (history, reads): Notes<'_, S>,
    ) -> Result<(), Error> {
        let seed = self.seed ^ (core as u64) << 32;
        let mut random = SplitMix64::new(seed ^ 0x6c61_7a79);
        let mut besides = SplitMix64::new(seed ^ 0x6265_7369_6465);
        for (number, op) in self.ops[core].iter().enumerate() {
            if number > 0 && answers.tend(number - 1) {
                heap.tend()?;
            }
            let (reads_all, checkpoints) = answers.besides(&mut besides);
            if reads_all {
                readers::read(self.subject, &mut session, machine, history, reads)?;
            }
            let mut one = |op: &S::Op| {
                self.transaction(&mut session, op, answers, &mut random, machine, history)
            };
            match one(op) {
                Err(error @ Error::TooLarge { .. }) => {
                    let parts = self.subject.split(op);
                    if parts.is_empty() {
                        return Err(error);
                    }
                    parts.iter().try_for_each(one)?;
                }
                other => other?,
            }
            if checkpoints {
                // Another session goes on: there are no more of them than needed.
                drop(session);
                if besides.below(2) == 0 { heap.checkpoint()? } else { _ = heap.empty_log()? }
                session = heap.session()?;
            }
        }
        Ok(())
    }

    /// One transaction of a core.
    fn transaction(
        &self,
        session: &mut AnySession,
        op: &S::Op,
        answers: Answers,
        random: &mut SplitMix64,
        machine: &Machine,
        history: &RefCell<History<S::Op>>,
    ) -> Result<(), Error> {
        let index = {
            let mut history = history.borrow_mut();
            let begun = machine.events();
            let op = op.clone();
            let (ticket, wrote, acknowledged) = (None, false, u64::MAX);
            history.transactions.push(Transaction { op, begun, ticket, wrote, acknowledged });
            history.transactions.len() - 1
        };
        // Who waits does so in the commit itself, or in a call of its own.
        let (waits, at_once) = (answers.wait(random), random.below(2) == 0);
        let body = |tx: &mut dyn Tx| self.subject.apply(tx, op);
        let commits = session.counters().commits;
        let ended = if waits && at_once {
            session.run_awaited(Mode::Write, body)
        } else {
            session.run(Mode::Write, body)
        };
        let ticket = match ended {
            Ok(((), ticket)) => ticket,
            Err(Error::Aborted(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        {
            let tx = &mut history.borrow_mut().transactions[index];
            tx.ticket = Some(ticket.0);
            tx.wrote = session.counters().commits > commits;
        }
        if waits {
            session.wait(ticket)?;
        }
        // Whatever the engine says of a ticket counts as an answer.
        let events = machine.events();
        for tx in &mut history.borrow_mut().transactions {
            let durable = |ticket| session.is_durable(Ticket(ticket));
            if tx.acknowledged == u64::MAX && tx.ticket.is_some_and(durable) {
                tx.acknowledged = events;
            }
        }
        Ok(())
    }
}

/// The engine's recovery by itself keeps its word: all of it is durable when it returns, and a
/// second one has nothing to do. Returns the call sites that it met.
pub(crate) fn recover_alone<F: Family>(case: &Case, image: Vec<u64>) -> Result<Sites, String> {
    let options =
        Options { keep: Keep::Model, seed: case.seed, omit: case.omit, ..Options::default() };
    let machine = Machine::from_words(case.config(), image, options);
    let header = Superblock::read(&machine).map_err(|error| error.to_string())?;
    if header.engine != F::NAME || header.state != State::Open {
        return Ok(Sites::default());
    }
    let mut recovered = Ok(Recovery::default());
    let log = header.log.clone();
    let program = Box::new(|| recovered = F::On::<Machine>::recover(&machine, log.clone()));
    let _ = machine.run_watched::<()>(vec![program], |_, _| ControlFlow::Continue(()));
    match recovered {
        Err(Error::Lost { .. }) if F::SKIPS => return Ok(machine.sites()),
        other => other.map_err(text)?,
    };
    settled(&machine, "recovery")?;
    let left = F::On::<Machine>::inspect(&machine, log).map_err(text)?;
    if left.replayed + left.rolled_back + left.discarded > 0 {
        return Err(format!("recovery left records that count: {left:?}"));
    }
    Ok(machine.sites())
}

pub(crate) fn text(error: Error) -> String {
    error.to_string()
}

/// What has promised to be durable is: nothing is left for a fence, or for chance.
fn settled(machine: &Machine, what: &str) -> Result<(), String> {
    machine.model(|image, _| {
        let unsettled =
            image.pending().find(|(line, steps)| image.line(*line, 0) != image.line(*line, *steps));
        match unsettled.and_then(|(line, steps)| Some((line, image.site(line, steps - 1)?))) {
            None => Ok(()),
            Some((line, (site, asked))) => {
                let CallSite { file, line: number, .. } = CallSite::of(Kind::Store, site);
                let asked = if asked { "asked for, not fenced" } else { "not asked for" };
                Err(format!(
                    "{what} has returned, and the line at {line:#x} is not durable: stored at \
                     {file}:{number}, {asked}"
                ))
            }
        }
    })
}
