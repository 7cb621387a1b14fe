//! Programs on simulated cores: stackful coroutines that take turns on one thread.
//!
//! A program is suspended only inside its accesses to the machine, when its turn is over. So it
//! must not hold, across an access, a lock of the operating system that another program waits for.

use crate::Machine;
use crate::sites::Event;
use crate::state::{MachineState, Turn};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::ptr::NonNull;

/// Bytes of a program's stack.
const STACK: usize = 1 << 20;

type Core = Coroutine<(), Turn, (), DefaultStack>;
type Watch<'w> = &'w mut dyn FnMut(&Machine, Event) -> ControlFlow<()>;

type Running = (NonNull<Machine>, NonNull<Yielder<(), Turn>>);

thread_local! {
    /// The program that runs on this thread: its machine, and how it is suspended.
    static RUNNING: Cell<Option<Running>> = const { Cell::new(None) };
}

/// Suspends the program that calls, if it runs on a core of `machine`.
pub(crate) fn suspend(machine: &Machine, turn: Turn) {
    if let Some((on, yielder)) = RUNNING.get()
        && on == NonNull::from(machine)
    {
        // SAFETY: it was set by the coroutine that runs on this thread, whose yielder lives as
        // long as it does, and is taken back whenever another one is resumed.
        unsafe { yielder.as_ref() }.suspend(turn);
        RUNNING.set(Some((on, yielder)));
    }
}

/// Whether the caller is a program on a core of `machine`.
pub(crate) fn is_program_of(machine: &Machine) -> bool {
    RUNNING.get().is_some_and(|(on, _)| on == NonNull::from(machine))
}

/// Takes the programs off the machine when dropped.
struct WithPrograms<'m>(&'m Machine);

impl<'m> WithPrograms<'m> {
    fn enter(machine: &'m Machine, programs: usize, watched: bool) -> Self {
        let mut state = machine.state();
        let already = std::mem::replace(&mut state.inside, true);
        if already {
            drop(state);
            panic!("programs run on this machine already");
        }
        state.watched = watched;
        let holds = watched && state.at_arrivals;
        state.hardware.data.hold(holds);
        state.alive = u64::MAX.checked_shr(64 - programs as u32).unwrap_or(0);
        (state.busy, state.waited) = (state.alive, 0);
        let by_the_clock = state.scheduler.is_by_the_clock();
        state.spins.start(programs, by_the_clock);
        WithPrograms(machine)
    }
}

impl Drop for WithPrograms<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        (state.inside, state.watched) = (false, false);
        state.hardware.data.hold(false);
        state.spins.start(0, false);
        // A program that was not continued has not ended its speculation.
        state.hardware.end_speculations();
        state.turn_of(0, u64::MAX);
    }
}

impl Machine {
    /// Runs each program on a core of its own, until all have ended.
    ///
    /// # Panics
    /// When a program panics, when there are more programs than cores, when all of them wait for
    /// ever, or when programs run on the machine already.
    pub fn run<'a>(&self, programs: Vec<Box<dyn FnOnce() + 'a>>) {
        let _ = run(self, programs, None);
    }

    /// As [`run`](Self::run), calling `watch` after every event (see [`Kind`](crate::Kind)), with all cores
    /// standing still. When it breaks, the programs are not continued: their stacks are unwound.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn run_watched<'a, B>(
        &self,
        programs: Vec<Box<dyn FnOnce() + 'a>>,
        mut watch: impl FnMut(&Machine, Event) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut broken = None;
        let mut step = |machine: &Machine, event| match watch(machine, event) {
            ControlFlow::Continue(()) => ControlFlow::Continue(()),
            ControlFlow::Break(value) => {
                broken = Some(value);
                ControlFlow::Break(())
            }
        };
        let _ = run(self, programs, Some(&mut step));
        broken.map_or(ControlFlow::Continue(()), ControlFlow::Break)
    }
}

/// Runs each program on a core until all have ended, or `watch` breaks.
fn run<'a>(
    machine: &Machine,
    programs: Vec<Box<dyn FnOnce() + 'a>>,
    mut watch: Option<Watch<'_>>,
) -> ControlFlow<()> {
    assert!(programs.len() <= machine.cores(), "more programs than cores");
    let mut cores: Vec<Core> =
        programs.into_iter().map(|program| start(machine, program)).collect();
    let inside = WithPrograms::enter(machine, cores.len(), watch.is_some());
    let mut result = ControlFlow::Continue(());
    'turns: while let Some(core) = next(machine) {
        loop {
            match resume(&mut cores[core]) {
                CoroutineResult::Return(()) => {
                    let mut state = machine.state();
                    state.busy &= !(1 << core);
                    state.alive &= !(1 << core);
                    drop(state);
                    continue 'turns;
                }
                CoroutineResult::Yield(Turn::Show) => {
                    let event = machine.state().last;
                    if let (Some(watch), Some(event)) = (&mut watch, event) {
                        result = show_arrivals(machine, &event, watch);
                        if result.is_continue() {
                            result = watch(machine, event);
                        }
                    }
                    if result.is_break() {
                        break 'turns;
                    }
                    if machine.state().switch() == Turn::Switch {
                        continue 'turns;
                    }
                }
                CoroutineResult::Yield(_) => continue 'turns,
            }
        }
    }
    // Suspended programs are unwound without taking turns.
    drop(inside);
    drop(cores);
    result
}

/// Shows the watcher what has arrived before an event, each arrival at its time, if arrivals are watched.
fn show_arrivals(machine: &Machine, next: &Event, watch: &mut Watch<'_>) -> ControlFlow<()> {
    let mut state = machine.state();
    if !state.at_arrivals {
        return ControlFlow::Continue(());
    }
    let arrivals = state.take_arrivals(next);
    drop(state);
    let mut result = ControlFlow::Continue(());
    for (time, event) in arrivals {
        machine.state().cut_at = Some(time);
        result = watch(machine, event);
        if result.is_break() {
            break;
        }
    }
    let mut state = machine.state();
    state.cut_at = None;
    state.hardware.data.let_land();
    result
}

/// Chooses the core that runs next, and gives it the turn.
fn next(machine: &Machine) -> Option<usize> {
    let mut state = machine.state();
    if state.alive == 0 {
        return None;
    }
    let alive = state.alive;
    state.spins.let_one_go_on(alive);
    let runnable = state.alive & !state.spins.asleep();
    let MachineState { scheduler, hardware, .. } = &mut *state;
    let (core, horizon) = scheduler.next(runnable, |core| hardware.cores[core].clock.0);
    state.turn_of(core, horizon);
    Some(core)
}

fn resume(core: &mut Core) -> CoroutineResult<Turn, ()> {
    // Also when the program panics: the catching code may itself be a program, of another machine.
    let _outer = RestoreRunning(RUNNING.get());
    core.resume(())
}

/// Restores the run that was on this thread before, when dropped.
struct RestoreRunning(Option<Running>);

impl Drop for RestoreRunning {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

fn start<'a>(machine: &Machine, program: Box<dyn FnOnce() + 'a>) -> Core {
    let stack = DefaultStack::new(STACK).expect("memory for a program's stack");
    let machine = NonNull::from(machine);
    let body = move |yielder: &Yielder<(), Turn>, ()| {
        let yielder = NonNull::from(yielder);
        RUNNING.set(Some((machine, yielder)));
        program();
    };
    // SAFETY: `run` drops the coroutine before it returns, and so before anything that the
    // program borrows ends; the coroutine never leaves this thread.
    unsafe { Coroutine::with_stack_unchecked(stack, body) }
}
