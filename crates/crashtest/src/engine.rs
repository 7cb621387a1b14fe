//! Engines as the tester uses them: [`Family`] names one, [`AnyFamily`] is the same as an object-safe trait. Engines run
//! on [`AnyMemory`], the machine's and that of its images, so that each is compiled once.

use crate::{Case, Survivors};
use perdura::superblock::{State, Superblock};
use perdura::{
    AnyHeap, Engine, EngineKind, Error, Format, Heap, Memory, OpenError, Opening, Recovery,
};
use perdura_machine::{CallSite, Keep, Kind, Machine, Options, Sites};
use perdura_memory::image::Image;
use perdura_memory::{AnyMemory, Domain};
use std::marker::PhantomData;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// An engine under test.
pub trait Family: Sync + 'static {
    /// The engine.
    type Engine: Engine<AnyMemory>;

    /// Its name for the tester; its pools have the engine's.
    const NAME: &'static str = <Self::Engine as Engine<AnyMemory>>::NAME;

    /// The family as a value.
    #[doc(hidden)]
    fn value() -> &'static dyn AnyFamily
    where
        Self: Sized,
    {
        &Of::<Self>::ENGINE
    }
}

/// The memory that a life begins with.
#[derive(Clone)]
pub(crate) struct World {
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

/// A [`Family`] chosen at run time.
pub trait AnyFamily: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Whether transactions that are not waited for share a group: its cases draw their [`Answers`](crate::Answers).
    fn groups(&self) -> bool;

    /// Whether write-backs are skipped: losses that the pool reports are no failure.
    fn skips(&self) -> bool;

    /// Whether a transaction that has stored can be rolled back.
    fn rolls_back(&self) -> bool;

    /// Which commits a power cut leaves on this domain.
    fn survivors(&self, domain: Domain) -> Survivors;

    /// Opens the heap in a memory, or creates one of the format `new`.
    fn heap(
        &self,
        memory: Arc<AnyMemory>,
        new: Option<Format>,
    ) -> Result<Box<dyn AnyHeap>, OpenError>;

    /// As [`Engine::recover`].
    fn recover(&self, memory: &AnyMemory, log: Range<u64>) -> Result<Recovery, Error>;

    /// As [`Engine::inspect`].
    fn inspect(&self, memory: &AnyMemory, log: Range<u64>) -> Result<Recovery, Error>;
}

/// One of the heap's own engines, which are compiled there.
pub(crate) struct Listed(pub(crate) EngineKind);

impl AnyFamily for Listed {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn groups(&self) -> bool {
        self.0.needs_flusher()
    }

    fn skips(&self) -> bool {
        self.0.skips()
    }

    fn rolls_back(&self) -> bool {
        self.0.rolls_back()
    }

    fn survivors(&self, domain: Domain) -> Survivors {
        Survivors::of(self.0.is_in_order(), self.0.leaves_prefix(domain))
    }

    fn heap(
        &self,
        memory: Arc<AnyMemory>,
        new: Option<Format>,
    ) -> Result<Box<dyn AnyHeap>, OpenError> {
        match new {
            None => <dyn AnyHeap>::open(self.0, memory, opening(self.0.is_crash_consistent())),
            Some(format) => <dyn AnyHeap>::create(self.0, memory, format),
        }
    }

    fn recover(&self, memory: &AnyMemory, log: Range<u64>) -> Result<Recovery, Error> {
        <dyn AnyHeap>::recover(self.0, memory, log)
    }

    fn inspect(&self, memory: &AnyMemory, log: Range<u64>) -> Result<Recovery, Error> {
        <dyn AnyHeap>::inspect(self.0, memory, log)
    }
}

/// How pools are opened. A pool left open by an engine that promises nothing is opened by force: its contents are the
/// counterexample, not a refusal to open it.
fn opening(is_crash_consistent: bool) -> Opening {
    Opening { force: !is_crash_consistent, ..Opening::default() }
}

/// The family `F` as a value.
struct Of<F>(PhantomData<fn() -> F>);

impl<F> Of<F> {
    const ENGINE: Self = Of(PhantomData);
}

impl<F: Family> AnyFamily for Of<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn groups(&self) -> bool {
        F::Engine::NEEDS_FLUSHER
    }

    fn skips(&self) -> bool {
        F::Engine::SKIPS
    }

    fn rolls_back(&self) -> bool {
        F::Engine::ROLLS_BACK
    }

    fn survivors(&self, domain: Domain) -> Survivors {
        Survivors::of(F::Engine::IN_ORDER, F::Engine::leaves_prefix(domain))
    }

    fn heap(
        &self,
        memory: Arc<AnyMemory>,
        new: Option<Format>,
    ) -> Result<Box<dyn AnyHeap>, OpenError> {
        let heap = match new {
            None => Heap::<_, F::Engine>::open(memory, opening(F::Engine::CRASH_CONSISTENT)),
            Some(format) => Heap::create(memory, format),
        };
        Ok(Box::new(heap?))
    }

    fn recover(&self, memory: &AnyMemory, log: Range<u64>) -> Result<Recovery, Error> {
        F::Engine::recover(memory, log)
    }

    fn inspect(&self, memory: &AnyMemory, log: Range<u64>) -> Result<Recovery, Error> {
        F::Engine::inspect(memory, log)
    }
}

/// Opens the heap in a memory, or creates one of the format `new`.
pub(crate) fn heap_on(
    engine: &dyn AnyFamily,
    memory: &Arc<impl Memory + 'static>,
    new: Option<Format>,
) -> Result<Box<dyn AnyHeap>, OpenError> {
    engine.heap(Arc::new(AnyMemory::new(memory.clone())), new)
}

/// Runs the engine's recovery by itself: everything must be durable when it returns, and a second recovery must have
/// nothing to do. Returns the call sites that it met.
pub(crate) fn recover_alone(
    engine: &dyn AnyFamily,
    case: &Case,
    world: World,
) -> Result<Sites, String> {
    let (left, omit) = (world.left, case.omit);
    let options = Options { keep: Keep::Model, seed: case.seed, omit, left, ..Options::default() };
    let machine = Arc::new(Machine::from_words(case.config(), world.visible, options));
    let memory = AnyMemory::new(machine.clone());
    let header = Superblock::read(&memory).map_err(|error| error.to_string())?;
    if header.engine != engine.name() || header.state != State::Open {
        return Ok(Sites::default());
    }
    let mut recovered = Ok(Recovery::default());
    let log = header.log.clone();
    let program = Box::new(|| recovered = engine.recover(&memory, log.clone()));
    let _ = machine.run_watched::<()>(vec![program], |_, _| ControlFlow::Continue(()));
    match recovered {
        Err(Error::Lost { .. }) if engine.skips() => return Ok(machine.sites()),
        other => other.map_err(text)?,
    };
    settled(&machine, "recovery")?;
    let left = engine.inspect(&memory, log).map_err(text)?;
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
