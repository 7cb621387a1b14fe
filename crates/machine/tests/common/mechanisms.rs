//! Mechanisms for tests.

use perdura_machine::mechanism::{Home, list};
use perdura_machine::{Design, Hardware, Mechanism};
use perdura_memory::Domain;
use std::ops::Range;

/// A design for a test: the mechanism that it builds, and how many lines it needs.
pub(crate) struct Test<F> {
    pub(crate) build: F,
    pub(crate) reserves: fn(u64) -> u64,
    pub(crate) recover: fn(&mut Home<'_>),
}

impl<F: Fn(Range<u64>) -> Box<dyn Mechanism> + Send + Sync> Design for Test<F> {
    fn name(&self) -> &'static str {
        "a test"
    }

    fn reserves(&self, lines: u64) -> u64 {
        (self.reserves)(lines)
    }

    fn build(&self, _: &mut Hardware, own: Range<u64>) -> Box<dyn Mechanism> {
        (self.build)(own)
    }

    fn recover(&self, home: &mut Home<'_>) {
        (self.recover)(home);
    }
}

/// A mechanism that needs no lines and recovers nothing.
pub(crate) fn small<M: Mechanism + 'static>(
    build: impl Fn() -> M + Send + Sync + 'static,
) -> Box<dyn Design> {
    let build = move |_| Box::new(build()) as Box<dyn Mechanism>;
    Box::new(Test { build, reserves: |_| 0, recover: |_| () })
}

/// The undo log, perhaps as a mutant.
pub(crate) fn undo_log(mutant: Option<&str>) -> Box<dyn Design> {
    by_name("undo-log", mutant)
}

/// Any mechanism, perhaps as a mutant.
pub(crate) fn by_name(name: &str, mutant: Option<&str>) -> Box<dyn Design> {
    list::design(name, &super::tiny(Domain::Transient), mutant).expect("a mechanism")
}
