//! Mechanisms in hardware under the tester: what a machine leaves of a mechanism's memory is compared with what the
//! mechanism promises.
//!
//! Where hardware orders programs' stores, the images of the persistency model do not apply, and the machine's own
//! images are used instead: after events, at arrivals (inside an epoch's end, a background write, a hardware commit),
//! and again while the mechanism recovers, after any of its stores, once and twice. For each image
//! [`Machine::broken_promise`](perdura_machine::Machine::broken_promise) checks that memory is as it was at the end of
//! the last durable epoch, or after all stores in their order. The programs are the tester's structures, on an engine
//! that need not persist anything. Some images are lived on by a new machine, which begins with the image, including
//! the mechanism's own lines, and is cut again.
//!
//! [`check_mechanism`] does that with a custom mechanism. Here is one that keeps no promise:
//!
//! ```
//! use perdura_crashtest::mechanisms::check_mechanism;
//! use perdura_machine::mechanism::{Design, Mechanism, Plain, Promise};
//!
//! struct Careless;
//!
//! impl Design for Careless {
//!     fn name(&self) -> &'static str {
//!         "careless"
//!     }
//!     fn promises(&self) -> Promise {
//!         Promise::Order // Lines leave the caches as they like.
//!     }
//!     fn build(&self, _: &mut perdura_machine::Hardware, _: std::ops::Range<u64>) -> Box<dyn Mechanism> {
//!         Box::new(Plain)
//!     }
//! }
//!
//! let failure = check_mechanism(|| Box::new(Careless)).expect_err("it promises too much");
//! assert!(failure.what.contains("is not as careless promises"), "{failure}");
//! ```
//!
//! Reading order: `maker`, this file, [`settings`] (on which machines), `program` (the running program), `explore` (a
//! case), [`mutants`], `check`.

mod check;
mod explore;
pub(crate) mod maker;
pub mod mutants;
mod program;
pub mod settings;

pub use check::{CheckMechanism, check_mechanism, replay};
pub use maker::Maker;
pub use settings::Settings;

use crate::engine::AnyFamily;
use crate::engines::family;
use crate::subjects::{WithSubject, with_subject};
use crate::{Budget, Case, Failure, Report, Runner, Subject, Watcher};
use perdura_memory::Domain;

/// The default limit of images checked per crash point: one whose recovery runs to its end, one where it is cut short,
/// and one where it is cut short twice.
pub const EACH: u64 = 3;

/// The default budget: about half of the images are of later lives.
pub fn budget() -> Budget {
    Budget { images: EACH, again_every: 100, ..Budget::default() }
}

/// The structure `S` on an engine, on a machine with a mechanism.
struct Equipped<S> {
    subject: S,
    engine: &'static dyn AnyFamily,
    maker: Maker,
}

/// A structure on an engine, on a machine with a mechanism. The default engine is `plain`, or for a structure whose
/// operations abort `volatile`. None if there is no such engine or structure.
pub fn find(maker: Maker, engine: Option<&str>, subject: &str) -> Option<Box<dyn Runner>> {
    struct On<'e>(Maker, Option<&'e str>);
    impl WithSubject for On<'_> {
        type Output = Option<Box<dyn Runner>>;
        fn with<S: Subject + Send + 'static>(self, subject: S) -> Self::Output {
            let On(maker, engine) = self;
            let usual = if subject.aborts() { "volatile" } else { "plain" };
            let engine = family(engine.unwrap_or(usual))?;
            Some(Box::new(Equipped { subject, engine, maker }))
        }
    }
    with_subject(subject, On(maker, engine)).flatten()
}

impl<S: Subject + Send> Runner for Equipped<S> {
    fn subject(&self) -> &str {
        self.subject.name()
    }

    fn engine(&self) -> &'static str {
        self.engine.name()
    }

    fn mechanism(&self) -> Option<&str> {
        Some(self.maker.name())
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
        let answers = Some(case.answers(self.engine.groups()));
        let case = &Case { answers, domain: Domain::Transient, ..case.clone() };
        explore::explore((&self.subject, self.engine, &self.maker), case, budget, watcher)
    }
}
