//! A run on a machine: the pool is opened, used by every core, and closed.

use crate::engine::{AnyFamily, Of};
use crate::engines::{Family, Redo, Undo};
use crate::history::{History, Transaction};
use crate::{Answers, Case, Start, Subject, Trial};
use perdura::superblock::{State, Superblock};
use perdura::{AnyHeap, AnySession, Engine, Error, Format, Mode, Recovery, Ticket, Tx};
use perdura_machine::{CallSite, Event, Keep, Kind, Machine, Options, Sites};
use perdura_memory::Domain;
use perdura_memory::random::SplitMix64;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Called after every event.
pub(crate) type Watch<'w> = &'w mut dyn FnMut(&Machine, Event) -> ControlFlow<()>;

/// How a pool is made for tests.
pub(crate) fn format(bytes: u64) -> Format {
    Format { limit: bytes, log: Some(0), id: 7, requires: None, checksums: false }
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
pub(crate) struct Lived<O> {
    pub(crate) history: History<O>,
    pub(crate) machine: Arc<Machine>,
}

/// Why a run did not end.
pub(crate) enum Stopped {
    /// Whoever watched has seen enough.
    Watched,
    /// It went wrong by itself.
    Problem(String),
}

/// A pool of this engine with the subject's structure in it, closed.
pub(crate) fn prepared<S: Subject>(
    engine: &dyn AnyFamily,
    subject: &S,
    domain: Domain,
    bytes: u64,
) -> Result<Vec<u64>, String> {
    let trial = Arc::new(Trial::new(64, bytes, domain));
    let heap = engine
        .on_trial(&trial, Some(format(bytes)))
        .map_err(|error| format!("no pool can be made: {error}"))?;
    let mut session = heap.session().map_err(text)?;
    session.transaction(|tx| subject.prepare(tx)).map_err(text)?;
    drop(session);
    heap.close().map_err(text)?;
    Ok(trial.contents())
}

/// The image that a case begins with.
pub(crate) fn first_image<S: Subject>(
    engine: &dyn AnyFamily,
    subject: &S,
    case: &Case,
    bytes: u64,
) -> Result<Vec<u64>, String> {
    match case.start {
        Start::New => Ok(vec![0; 8]),
        Start::Closed => prepared(engine, subject, case.domain, bytes),
        Start::Switched => {
            let image = prepared(&Of::<Undo>::ENGINE, subject, case.domain, bytes)?;
            let trial = Trial::new(image.len() as u64 * 8, bytes, case.domain);
            image.chunks_exact(8).zip((0..).step_by(64)).for_each(|(words, line)| {
                trial.set_line(line, words.try_into().expect("a line"));
            });
            let same = Superblock::read(&trial).is_ok_and(|header| header.engine == engine.name());
            if same {
                prepared(&Of::<Redo>::ENGINE, subject, case.domain, bytes)
            } else {
                Ok(image)
            }
        }
    }
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
    ) -> Result<Lived<S::Op>, Stopped> {
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
        let problem = RefCell::new(None);
        let heap = RefCell::new(None);
        let mut phase = |programs: Vec<Box<dyn FnOnce() + '_>>| -> Result<(), Stopped> {
            match &mut watch {
                Some(watch) => {
                    if machine
                        .run_watched(programs, |machine, event| watch(machine, event))
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
        let programs = (0..self.ops.len()).map(|core| {
            let (opened, history, machine, note) = (&opened, &history, &machine, &note);
            Box::new(move || {
                let worked = opened.session().and_then(|session| {
                    self.work(&**opened, session, answers, core, machine, history)
                });
                if let Err(error) = worked {
                    note("a transaction", &error);
                }
            }) as Box<dyn FnOnce() + '_>
        });
        phase(programs.collect())?;
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
        Ok(Lived { history, machine })
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

    /// One core's operations.
    fn work(
        &self,
        heap: &dyn AnyHeap,
        mut session: AnySession,
        answers: Answers,
        core: usize,
        machine: &Machine,
        history: &RefCell<History<S::Op>>,
    ) -> Result<(), Error> {
        let mut random = SplitMix64::new(self.seed ^ 0x6c61_7a79 ^ (core as u64) << 32);
        for (number, op) in self.ops[core].iter().enumerate() {
            if number > 0 && answers.tend(number - 1) {
                heap.tend()?;
            }
            let index = {
                let mut history = history.borrow_mut();
                let begun = machine.events();
                let op = op.clone();
                let (ticket, wrote, acknowledged) = (None, false, u64::MAX);
                history.transactions.push(Transaction { op, begun, ticket, wrote, acknowledged });
                history.transactions.len() - 1
            };
            // Who waits does so in the commit itself, or in a call of its own.
            let (waits, at_once) = (answers.wait(&mut random), random.below(2) == 0);
            let body = |tx: &mut dyn Tx| self.subject.apply(tx, op);
            let commits = session.counters().commits;
            let ended = if waits && at_once {
                session.run_awaited(Mode::Write, body)
            } else {
                session.run(Mode::Write, body)
            };
            let ticket = match ended {
                Ok(((), ticket)) => ticket,
                Err(Error::Aborted(_)) => continue,
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

fn text(error: Error) -> String {
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
