//! Initial states of runs: pools that were created and left by this engine and others.

use crate::engine::{AnyFamily, Family, heap_on, text};
use crate::engines::{Redo, Undo};
use crate::life::format;
use crate::{Case, Start, Subject, Trial};
use perdura::Error;
use perdura_memory::Domain;
use perdura_memory::random::SplitMix64;
use std::sync::Arc;

/// Sessions that use a pool one after the other before it is switched to another engine and back, and operations of
/// each. They end together: those that keep a segment of the log have one each.
const SESSIONS: usize = 5;
const EACH: usize = 4;

/// An image, and its contents; `None` before there is a pool.
pub(crate) type Begins<M> = (Vec<u64>, Option<M>);

/// The initial image of a case.
pub(crate) fn first_image<S: Subject>(
    engine: &dyn AnyFamily,
    subject: &S,
    case: &Case,
    bytes: u64,
) -> Result<Begins<S::Model>, String> {
    let space = (case.domain, bytes);
    let (maker, used) = match case.start {
        Start::New => return Ok((vec![0; 8], None)),
        Start::Closed => (engine, false),
        Start::Switched => (other(engine)?, false),
        Start::SwitchedBack => (engine, true),
    };
    let mut model = subject.prepared();
    let mut random = SplitMix64::new(case.seed ^ 0x7377_6974_6368);
    let mut work = Work { subject, model: &mut model, random: &mut random };
    let mut image = work.life(maker, Origin::Made, if used { SESSIONS } else { 0 }, space)?;
    if used {
        image = work.life(other(engine)?, Origin::Opened(image), 1, space)?;
    }
    Ok((image, Some(model)))
}

/// An engine other than this one, which takes over its pool.
fn other(engine: &dyn AnyFamily) -> Result<&'static dyn AnyFamily, String> {
    Ok(if engine.name() == Undo::value().name() { Redo::value() } else { Undo::value() })
}

/// How a life of a pool begins.
enum Origin {
    Made,
    Opened(Vec<u64>),
}

/// The sessions that use a pool before a case begins, and its contents after them.
struct Work<'a, S: Subject> {
    subject: &'a S,
    model: &'a mut S::Model,
    random: &'a mut SplitMix64,
}

impl<S: Subject> Work<'_, S> {
    /// A life of the pool on this engine, closed at its end: sessions one after the other, after the subject's
    /// structure was created if the life creates the pool. They use the pool in the life in which its log was
    /// formatted, so that their records have the salt that formatting chose.
    fn life(
        &mut self,
        engine: &dyn AnyFamily,
        from: Origin,
        sessions: usize,
        (domain, bytes): (Domain, u64),
    ) -> Result<Vec<u64>, String> {
        let (trial, made) = match from {
            Origin::Made => (Trial::new(64, bytes, domain), true),
            Origin::Opened(image) => (Trial::of(&image, bytes, domain), false),
        };
        let trial = Arc::new(trial);
        let heap = heap_on(engine, &trial, made.then(|| format(bytes)))
            .map_err(|error| format!("a pool to begin with: {error}"))?;
        if made {
            let mut session = heap.session().map_err(text)?;
            session.transaction(|tx| self.subject.prepare(tx)).map_err(text)?;
        }
        let sessions = (0..sessions).map(|_| heap.session().map_err(text));
        for session in &mut sessions.collect::<Result<Vec<_>, _>>()? {
            for _ in 0..EACH {
                let op = self.subject.draw(self.random, 0);
                match session.transaction(|tx| self.subject.apply(tx, &op)) {
                    Ok(()) => _ = self.subject.step(self.model, &op),
                    Err(Error::Aborted(_) | Error::TooLarge { .. }) => {}
                    Err(Error::Full { .. }) if self.subject.may_be_full() => {}
                    Err(error) => return Err(text(error)),
                }
            }
        }
        heap.close().map_err(text)?;
        Ok(trial.contents())
    }
}
