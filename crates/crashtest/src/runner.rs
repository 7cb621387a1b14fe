//! Engines and structures behind a common trait, to be chosen at run time.

use crate::engine::AnyFamily;
use crate::explore::explore_on;
use crate::subjects::{WithSubject, with_subject};
use crate::{Budget, Case, Failure, Family, Report, Subject, Watcher, engines, explore};
use std::marker::PhantomData;

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

    /// Explores a case: see [`explore`].
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

/// The structure `S` on the engine `F`.
pub struct On<F, S> {
    subject: S,
    family: PhantomData<fn() -> F>,
}

impl<F: Family, S: Subject> On<F, S> {
    /// Wraps a structure.
    pub fn new(subject: S) -> Self {
        On { subject, family: PhantomData }
    }
}

impl<F: Family, S: Subject + Send> Runner for On<F, S> {
    fn subject(&self) -> &str {
        self.subject.name()
    }

    fn engine(&self) -> &'static str {
        F::value().name()
    }

    fn skips(&self) -> bool {
        F::value().skips()
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
        explore::<F, S>(&self.subject, case, budget, watcher)
    }
}

/// A structure on an engine that may promise nothing for a power cut.
struct OnAny<S> {
    subject: S,
    engine: &'static dyn AnyFamily,
}

impl<S: Subject + Send> Runner for OnAny<S> {
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

        /// A structure on the engine of this name.
        pub(crate) fn on_engine<'a, S: Subject + Send + 'a>(
            name: &str,
            subject: S,
        ) -> Option<Box<dyn Runner + 'a>> {
            match name {
                $($name => Some(Box::new(On::<engines::$family, S>::new(subject))),)*
                _ => None,
            }
        }
    };
}
perdura_engine::crash_consistent_engines!(consistent! {});

/// A structure on an engine, by their names.
pub fn find(engine: &str, subject: &str) -> Option<Box<dyn Runner>> {
    struct OnEngine<'e>(&'e str);
    impl WithSubject for OnEngine<'_> {
        type Output = Option<Box<dyn Runner>>;
        fn with<S: Subject + Send + 'static>(self, subject: S) -> Self::Output {
            on_engine(self.0, subject)
        }
    }
    with_subject(subject, OnEngine(engine)).flatten()
}

/// As [`find`], with the engines that promise nothing for a power cut too: they are to fail. `None` also for a structure
/// whose operations abort, on an engine that cannot roll back.
pub fn find_any(engine: &str, subject: &str) -> Option<Box<dyn Runner>> {
    struct On(&'static dyn AnyFamily);
    impl WithSubject for On {
        type Output = Option<Box<dyn Runner>>;
        fn with<S: Subject + Send + 'static>(self, subject: S) -> Self::Output {
            let able = self.0.rolls_back() || !subject.aborts();
            able.then(|| Box::new(OnAny { subject, engine: self.0 }) as _)
        }
    }
    with_subject(subject, On(engines::family(engine)?)).flatten()
}
