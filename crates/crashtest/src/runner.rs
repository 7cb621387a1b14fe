//! Engines and structures behind a common trait, to be chosen at run time.

use crate::engine::AnyFamily;
use crate::explore::explore_on;
use crate::subjects::{WithSubject, with_subject};
use crate::{Budget, Case, Failure, Family, Report, Subject, Watcher, engines};

/// An engine with a structure.
pub trait Runner: Send + Sync {
    /// The structure's name.
    fn subject(&self) -> &str;

    /// The engine's name.
    fn engine(&self) -> &'static str;

    /// The name of the mechanism in hardware under test, if any.
    fn mechanism(&self) -> Option<&str> {
        None
    }

    /// Whether the engine skips write-backs: the resources for that run out only in long lives.
    fn skips(&self) -> bool;

    /// As [`Subject::most_operations`].
    fn most_operations(&self) -> usize;

    /// Explores a case: see [`explore`](fn@crate::explore).
    ///
    /// # Errors
    /// The first failure.
    fn explore(
        &self,
        case: &Case,
        budget: Budget,
        watcher: &Watcher,
    ) -> Result<Report, Box<Failure>>;
}

/// The structure `S` on an engine.
pub struct On<S> {
    subject: S,
    engine: &'static dyn AnyFamily,
}

impl<S: Subject> On<S> {
    /// Wraps a structure, on the engine `F`.
    pub fn new<F: Family>(subject: S) -> Self {
        On { subject, engine: F::value() }
    }
}

impl<S: Subject + Send> Runner for On<S> {
    fn subject(&self) -> &str {
        self.subject.name()
    }

    fn engine(&self) -> &'static str {
        self.engine.name()
    }

    fn skips(&self) -> bool {
        self.engine.skips()
    }

    fn most_operations(&self) -> usize {
        self.subject.most_operations()
    }

    fn explore(
        &self,
        case: &Case,
        budget: Budget,
        watcher: &Watcher,
    ) -> Result<Report, Box<Failure>> {
        explore_on(self.engine, &self.subject, case, budget, watcher)
    }
}

macro_rules! consistent {
    ({} $($(#[$doc:meta])* $family:ident $name:literal $engine:ident $made:tt;)*) => {
        /// The names of the engines.
        pub const ENGINES: [&str; [$($name),*].len()] = [$($name),*];
    };
}
perdura_engine::crash_consistent_engines!(consistent! {});

/// The engine of this name, if a power cut leaves its pools intact.
fn consistent(engine: &str) -> Option<&'static dyn AnyFamily> {
    ENGINES.contains(&engine).then(|| engines::family(engine)).flatten()
}

/// A structure on the engine of this name.
pub(crate) fn on_engine<'a, S: Subject + Send + 'a>(
    engine: &str,
    subject: S,
) -> Option<Box<dyn Runner + 'a>> {
    Some(Box::new(On { subject, engine: consistent(engine)? }))
}

/// A structure on an engine, by their names.
pub fn find(engine: &str, subject: &str) -> Option<Box<dyn Runner>> {
    find_on(consistent(engine)?, subject)
}

/// As [`find`], with the engines that promise nothing for a power cut too: they are to fail. `None` also for a structure
/// whose operations abort, on an engine that cannot roll back.
pub fn find_any(engine: &str, subject: &str) -> Option<Box<dyn Runner>> {
    find_on(engines::family(engine)?, subject)
}

fn find_on(engine: &'static dyn AnyFamily, subject: &str) -> Option<Box<dyn Runner>> {
    struct OnEngine(&'static dyn AnyFamily);
    impl WithSubject for OnEngine {
        type Output = Option<Box<dyn Runner>>;
        fn with<S: Subject + Send + 'static>(self, subject: S) -> Self::Output {
            let OnEngine(engine) = self;
            let able = engine.rolls_back() || !subject.aborts();
            able.then(|| Box::new(On { subject, engine }) as _)
        }
    }
    with_subject(subject, OnEngine(engine)).flatten()
}
