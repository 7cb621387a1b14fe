//! Engines as the tester uses them: [`Family`], the same engine on the machine's memory, to run the program, and on
//! another memory, to recover its images; and [`AnyFamily`], the same as an object-safe trait, so that exploring is
//! compiled once for each structure, and not again for each engine.

use crate::{Case, Trial};
use perdura::superblock::{State, Superblock};
use perdura::{AnyHeap, Engine, Error, Format, Heap, Memory, OpenError, Opening, Recovery};
use perdura_machine::{CallSite, Keep, Kind, Machine, Options, Sites};
use perdura_memory::AnyMemory;
use perdura_memory::image::Image;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;

/// An engine, for any memory.
pub trait Family: Sync + 'static {
    /// Its name.
    const NAME: &'static str;

    /// Whether transactions that are not waited for share a group: its cases draw their [`Answers`](crate::Answers).
    const GROUPS: bool = false;

    /// Whether write-backs are skipped: losses that the pool reports are no failure.
    const SKIPS: bool = false;

    /// Whether a power cut leaves all commits up to some ticket: see [`Engine::IN_ORDER`].
    const IN_ORDER: bool = true;

    /// The engine on the memory `M`.
    type On<M: Memory + 'static>: Engine<M>;

    /// The family as a value: this crate's own families are compiled here, and not again wherever they are used.
    #[doc(hidden)]
    #[inline(never)]
    fn value() -> &'static dyn AnyFamily
    where
        Self: Sized,
    {
        &Of::<Self>::ENGINE
    }
}

/// The memory that a life begins with.
#[derive(Clone)]
pub struct World {
    /// The pool's contents, as programs see them.
    pub(crate) visible: Vec<u64>,
    /// How much of that is durable, if a dead process has left it.
    pub(crate) left: Option<Image>,
}

impl World {
    /// All of it is durable.
    pub(crate) fn durable(visible: Vec<u64>) -> Self {
        World { visible, left: None }
    }
}

/// A [`Family`] chosen at run time: an engine that opens pools on the machine and on images.
pub trait AnyFamily: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// See [`Family::GROUPS`].
    fn groups(&self) -> bool;

    /// See [`Family::SKIPS`].
    fn skips(&self) -> bool;

    /// See [`Family::IN_ORDER`].
    fn in_order(&self) -> bool;

    /// Opens the heap in a machine's memory, or creates one of the format `new`.
    fn on_machine(
        &self,
        machine: &Arc<Machine>,
        new: Option<Format>,
    ) -> Result<Box<dyn AnyHeap>, OpenError>;

    /// Opens the heap in an image that is being verified, or creates one of the format `new`.
    fn on_trial(
        &self,
        trial: &Arc<Trial>,
        new: Option<Format>,
    ) -> Result<Box<dyn AnyHeap>, OpenError>;

    /// See [`recover_alone`].
    fn recover_alone(&self, case: &Case, world: World) -> Result<Sites, String>;
}

/// The family `F` as a value.
pub(crate) struct Of<F>(PhantomData<fn() -> F>);

impl<F> Of<F> {
    pub(crate) const ENGINE: Self = Of(PhantomData);
}

impl<F: Family> AnyFamily for Of<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn groups(&self) -> bool {
        F::GROUPS
    }

    fn skips(&self) -> bool {
        F::SKIPS
    }

    fn in_order(&self) -> bool {
        F::IN_ORDER
    }

    fn on_machine(
        &self,
        machine: &Arc<Machine>,
        new: Option<Format>,
    ) -> Result<Box<dyn AnyHeap>, OpenError> {
        heap_on::<F, _>(machine, new)
    }

    fn on_trial(
        &self,
        trial: &Arc<Trial>,
        new: Option<Format>,
    ) -> Result<Box<dyn AnyHeap>, OpenError> {
        // Compiled with the heap, once: an image's memory need not know call sites.
        heap_on::<F, _>(&Arc::new(AnyMemory::new(trial.clone())), new)
    }

    fn recover_alone(&self, case: &Case, world: World) -> Result<Sites, String> {
        recover_alone::<F>(case, world)
    }
}

fn heap_on<F: Family, M: Memory + 'static>(
    memory: &Arc<M>,
    new: Option<Format>,
) -> Result<Box<dyn AnyHeap>, OpenError> {
    let heap = match new {
        None => Heap::<M, F::On<M>>::open(memory.clone(), Opening::default()),
        Some(format) => Heap::create(memory.clone(), format),
    };
    Ok(Box::new(heap?))
}

/// Runs the engine's recovery by itself: everything must be durable when it returns, and a second recovery must have
/// nothing to do. Returns the call sites that it met.
pub(crate) fn recover_alone<F: Family>(case: &Case, world: World) -> Result<Sites, String> {
    let (left, omit) = (world.left, case.omit);
    let options = Options { keep: Keep::Model, seed: case.seed, omit, left, ..Options::default() };
    let machine = Machine::from_words(case.config(), world.visible, options);
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

/// Everything reported as durable is durable: nothing is left to a later fence, or to chance. Leftovers of a dead
/// process that the next one does not need may be either.
pub(crate) fn settled(machine: &Machine, what: &str) -> Result<(), String> {
    machine.model(|image, _| {
        let unsettled = image.pending().find(|(line, steps)| {
            !image.is_left(*line) && image.line(*line, 0) != image.line(*line, *steps)
        });
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
