//! A run on a machine: the pool is opened, used by every core, and closed.

use crate::engine::{AnyFamily, World, heap_on, settled, text};
use crate::history::{History, Survivors, Transaction};
use crate::mechanisms::maker::Fitted;
use crate::polling::Poll;
use crate::readers::{self, Read};
use crate::{Answers, Case, Start, Subject};
use perdura::{AnyHeap, AnySession, Counters, Error, Format, Mode, Ticket, Tx};
use perdura_machine::{Event, Keep, Machine, Options, Ps};
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, Memory};
use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Called after every event.
pub(crate) type Watch<'w> = &'w mut dyn FnMut(&Machine, Event) -> ControlFlow<()>;

/// The format of test pools.
pub(crate) fn format(bytes: u64) -> Format {
    Format { limit: bytes, log: Some(0), id: 7, requires: None, checksums: false }
}

/// On a file, one life in this many meets a failing sync.
const FAILING: u64 = 3;
/// The last fence that may be chosen to fail.
const LAST_FENCE: u64 = 60;

/// The fence that fails in the life with this seed, if one does.
pub(crate) fn failing_fence(case: &Case, seed: u64) -> Option<u64> {
    let mut random = SplitMix64::new(seed ^ 0x6661_696c);
    // The few fences of the opening matter most.
    let last = if random.below(2) == 0 { LAST_FENCE } else { LAST_FENCE / 10 };
    (case.domain == Domain::Media && random.below(FAILING) == 0).then(|| 1 + random.below(last))
}

/// On a file, one life in this many never gives copies of pages back.
const KEEPING: u64 = 2;
/// The maximum number of pages that others have copies of before some are given back.
const SPARE_PAGES: u64 = 12;

/// After how many copied pages the life with this seed gives copies back, if it does.
fn spare_pages(case: &Case, seed: u64) -> Option<u64> {
    let mut random = SplitMix64::new(seed ^ 0x6769_7665);
    let gives = case.domain == Domain::Media && random.below(KEEPING) > 0;
    gives.then(|| 1 + random.below(SPARE_PAGES))
}

/// Whether cores are preempted for long in the life with this seed.
fn preempts(seed: u64) -> bool {
    SplitMix64::new(seed ^ 0x7072_6565).below(2) == 0
}

/// A run, which is the same each time.
pub(crate) struct Life<'a, S: Subject> {
    pub(crate) subject: &'a S,
    pub(crate) case: &'a Case,
    pub(crate) start: Start,
    /// The initial state.
    pub(crate) world: World,
    /// The operations of each core.
    pub(crate) ops: Vec<Vec<S::Op>>,
    pub(crate) seed: u64,
    /// Bytes that the pool can grow to.
    pub(crate) limit: u64,
    /// A mechanism in hardware, if one is under test.
    pub(crate) fitted: Option<Fitted<'a>>,
}

/// The outcome of a run that was not stopped.
pub(crate) struct LifeOutcome<O, M> {
    pub(crate) history: History<O>,
    /// The states that reading transactions saw.
    pub(crate) reads: Vec<Read<M>>,
    pub(crate) machine: Arc<Machine>,
    /// The engine's counts of the cores' transactions.
    pub(crate) counters: Counters,
}

/// The records made of a run while it goes on.
type Notes<'n, S> =
    (&'n RefCell<History<<S as Subject>::Op>>, &'n RefCell<Vec<Read<<S as Subject>::Model>>>);

/// Why a run did not reach its end.
pub(crate) enum Stopped {
    /// The watcher has stopped it.
    Watched,
    /// It went wrong by itself.
    Problem(String),
}

/// The operations of a case, each with its core and number. Neither the number of cores nor the choice of operations to
/// keep changes the others.
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
    /// Runs it, on a new machine.
    pub(crate) fn live(
        &self,
        engine: &dyn AnyFamily,
        watch: Option<Watch<'_>>,
        omit: Option<Event>,
    ) -> Result<LifeOutcome<S::Op, S::Model>, Stopped> {
        self.live_keeping(engine, watch, omit, Keep::Model)
    }

    /// Runs it, on a new machine that keeps the persistency model, or its own durable image.
    pub(crate) fn live_keeping(
        &self,
        engine: &dyn AnyFamily,
        mut watch: Option<Watch<'_>>,
        omit: Option<Event>,
        keep: Keep,
    ) -> Result<LifeOutcome<S::Op, S::Model>, Stopped> {
        let keeps_model = keep == Keep::Model;
        let options = Options {
            cores: Some(self.case.cores),
            limit: self.limit,
            seed: self.seed,
            schedule: self.case.schedule,
            keep,
            before_fences: keeps_model,
            at_arrivals: !keeps_model,
            omit,
            left: self.world.left.clone(),
            failing_fence: self.failing_fence(),
            spare_pages: spare_pages(self.case, self.seed),
            preempts: preempts(self.seed),
            transactions: self.case.speculation(self.seed).map_err(Stopped::Problem)?,
            // The test is to show which engines are not safe.
            accepts_unsafe: true,
            ..Options::default()
        };
        let options = match &self.fitted {
            Some(fitted) => fitted.fit(self.case, options).map_err(Stopped::Problem)?,
            None => options,
        };
        let polls = self.fitted.is_none();
        let modelled = polls && keeps_model;
        let config = self.case.config();
        let machine = Arc::new(Machine::from_words(config, self.world.visible.clone(), options));
        let history = RefCell::new(History::default());
        let (reads, poll) = (RefCell::default(), RefCell::<Poll>::default());
        let shown = Cell::new((0, 0));
        let problem = RefCell::new(None);
        let heap = RefCell::new(None);
        let mut phase = |programs: Vec<Box<dyn FnOnce() + '_>>| -> Result<(), Stopped> {
            match &mut watch {
                Some(watch) => {
                    if machine
                        .run_watched(programs, |machine, event| {
                            poll.borrow().ask(event.number, &history, &reads);
                            // Before a fence the last event is shown again.
                            let number = (event.number, event.arrival);
                            if shown.replace(number) == number {
                                return ControlFlow::Continue(());
                            }
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
            Err(error) if machine.check_fence().is_err() => drop(error),
            Err(error) => note("opening", &error),
        })])?;
        let Some(opened) = heap.take() else {
            let mut history = history.into_inner();
            (history.opened, history.events) = (u64::MAX, machine.events());
            let (reads, counters) = (reads.into_inner(), Counters::default());
            return Ok(LifeOutcome { history, reads, machine, counters });
        };
        if modelled {
            settled(&machine, "opening").map_err(Stopped::Problem)?;
        }
        history.borrow_mut().opened = machine.events();
        let (answers, survivors) =
            (self.case.answers(engine.groups()), engine.survivors(self.case.domain));
        opened.tune(&answers.tuning);
        if polls {
            poll.replace(Poll::of(&*opened, self.ops.len()));
        }
        let programs = (0..self.ops.len()).map(|core| {
            let (opened, notes, machine, note) = (&opened, (&history, &reads), &machine, &note);
            Box::new(move || {
                let worked = opened.session().and_then(|session| {
                    self.work(&**opened, session, (answers, survivors), core, machine, notes)
                });
                if let Err(error) = worked
                    && machine.check_fence().is_ok()
                {
                    note("a transaction", &error);
                }
            }) as Box<dyn FnOnce() + '_>
        });
        // A core that was cut off in a commit would be waited for, for ever.
        phase(programs.collect()).inspect_err(|_| opened.abandon())?;
        // A heap may be closed only without sessions.
        poll.take();
        let counters = opened.counters();
        phase(vec![Box::new(|| {
            if let Err(error) = opened.close()
                && machine.check_fence().is_ok()
            {
                note("closing", &error);
            }
        })])?;
        let mut history = history.into_inner();
        if machine.check_fence().is_err() {
            history.events = machine.events();
            return Ok(LifeOutcome { history, reads: reads.into_inner(), machine, counters });
        }
        // Fresh memory of an aborted transaction has no owner.
        if modelled && history.transactions.iter().all(|tx| tx.ticket.is_some() && !tx.again) {
            settled(&machine, "closing").map_err(Stopped::Problem)?;
        }
        history.events = machine.events();
        // Closing makes all of it durable.
        for tx in &mut history.transactions {
            tx.acknowledged = tx.acknowledged.min(history.events);
        }
        Ok(LifeOutcome { history, reads: reads.into_inner(), machine, counters })
    }

    fn failing_fence(&self) -> Option<u64> {
        failing_fence(self.case, self.seed)
    }

    fn open(
        &self,
        engine: &dyn AnyFamily,
        machine: &Arc<Machine>,
        history: &RefCell<History<S::Op>>,
    ) -> Result<Box<dyn AnyHeap>, String> {
        if self.start != Start::New {
            return heap_on(engine, machine, None).map_err(|e| e.to_string());
        }
        let new = Some(format(self.limit));
        // Until known.
        (history.borrow_mut().made, history.borrow_mut().prepared) = (u64::MAX, (0, u64::MAX));
        let heap = heap_on(engine, machine, new).map_err(|e| e.to_string())?;
        history.borrow_mut().made = machine.events();
        let mut session = heap.session().map_err(text)?;
        let begun = machine.events();
        history.borrow_mut().prepared = (begun, u64::MAX);
        session.transaction(|tx| self.subject.prepare(tx)).map_err(text)?;
        history.borrow_mut().prepared = (begun, machine.events());
        drop(session);
        heap.checkpoint().map_err(text)?;
        Ok(heap)
    }

    /// The work of one core: its operations, and the events besides.
    fn work(
        &self,
        heap: &dyn AnyHeap,
        mut session: AnySession,
        (answers, survivors): (Answers, Survivors),
        core: usize,
        machine: &Machine,
        (history, reads): Notes<'_, S>,
    ) -> Result<(), Error> {
        let seed = self.seed ^ (core as u64) << 32;
        let mut random = SplitMix64::new(seed ^ 0x6c61_7a79);
        let mut besides = SplitMix64::new(seed ^ 0x6265_7369_6465);
        let mut releases = SplitMix64::new(seed ^ 0x7265_6c65_6173);
        for (number, op) in self.ops[core].iter().enumerate() {
            if number > 0 && answers.flushes_after(number - 1) {
                heap.flush_due()?;
            }
            let (reads_all, checkpoints) = answers.besides(&mut besides);
            if reads_all {
                readers::read(self.subject, &mut session, machine, history, reads)?;
            }
            let mut one = |op: &S::Op| {
                let core = (core, &mut random);
                self.transaction(&mut session, op, (answers, survivors), core, machine, history)
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
                // Continues on another session: there are no more of them than needed.
                drop(session);
                // Releases some of the free pages, before more are free.
                for _ in 0..releases.below(3) {
                    heap.release_one()?;
                }
                if besides.below(2) == 0 {
                    heap.checkpoint()?
                } else {
                    _ = heap.empty_log()?
                }
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
        (answers, survivors): (Answers, Survivors),
        (core, random): (usize, &mut SplitMix64),
        machine: &Machine,
        history: &RefCell<History<S::Op>>,
    ) -> Result<(), Error> {
        let index = {
            let mut history = history.borrow_mut();
            let begun = machine.events();
            let op = op.clone();
            let (ticket, serial, acknowledged) = (None, None, u64::MAX);
            let (again, wrote, failed) = (false, false, false);
            let returned = Ps::default();
            let tx = Transaction {
                op,
                begun,
                ticket,
                serial,
                again,
                wrote,
                failed,
                acknowledged,
                returned,
            };
            history.transactions.push(tx);
            history.transactions.len() - 1
        };
        // The wait is part of the commit itself, or a call of its own: always so where it may fail, since it would take
        // the ticket of a transaction that has committed with it.
        let (waits, at_once) = (answers.wait(random), random.below(2) == 0);
        let waits = waits
            || survivors != Survivors::InOrder && history.borrow().is_crowded(self.case.cores);
        let at_once = at_once && self.failing_fence().is_none();
        let body = |tx: &mut dyn Tx| self.subject.apply(tx, op);
        let before = session.counters();
        let sound = machine.check_fence().is_ok();
        let ended = if waits && at_once {
            session.run_awaited(Mode::Write, body)
        } else {
            session.run(Mode::Write, body)
        };
        let ticket = match ended {
            Ok(((), ticket)) => ticket,
            Err(Error::Aborted(_)) => return Ok(()),
            // In a pool this small, most pages may be taken by other sessions.
            Err(Error::Full { .. }) if self.case.cores > 1 || self.subject.may_be_full() => {
                return Ok(());
            }
            Err(error) => {
                // Where cores commit at the same time, a sync that fails ends the commits of the others too.
                let met = match survivors {
                    Survivors::Any => sound && machine.check_fence().is_err(),
                    Survivors::InOrder | Survivors::ByTicket => machine.failed_on() == Some(core),
                };
                history.borrow_mut().transactions[index].failed = met;
                return Err(error);
            }
        };
        {
            let tx = &mut history.borrow_mut().transactions[index];
            let counted = session.counters() - before;
            (tx.ticket, tx.serial) = (Some(ticket.0), session.serial());
            tx.returned = machine.cut_time();
            let aborted = counted.aborts_conflict + counted.aborts_user > 0;
            (tx.wrote, tx.again) = (counted.commits > 0, aborted);
        }
        if waits {
            session.wait(ticket)?;
        }
        // Every report of the engine about a ticket counts as an acknowledgement.
        let unknown: Vec<(usize, u64)> = {
            let all = history.borrow();
            let unknown = all.transactions.iter().enumerate();
            let unknown = unknown.filter(|(_, tx)| tx.acknowledged == u64::MAX);
            unknown.filter_map(|(index, tx)| Some((index, tx.ticket?))).collect()
        };
        for (index, ticket) in unknown {
            // Asking takes time, in which other cores go on.
            if session.is_durable(Ticket(ticket)) {
                let tx = &mut history.borrow_mut().transactions[index];
                tx.acknowledged = tx.acknowledged.min(machine.events());
            }
        }
        Ok(())
    }
}
