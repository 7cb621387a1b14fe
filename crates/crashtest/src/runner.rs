//! Engines and structures behind a common trait, to be chosen at run time.

use crate::{Budget, Case, Failure, Family, Report, Subject, Watcher, explore};
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
        F::NAME
    }

    fn skips(&self) -> bool {
        F::SKIPS
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
