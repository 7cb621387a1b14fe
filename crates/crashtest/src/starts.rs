//! What a run begins with: pools that were made, and left, by this engine and others.

use crate::engine::{AnyFamily, Of};
use crate::engines::{Family, Redo, Undo};
use crate::life::{format, text};
use crate::{Case, Start, Subject, Trial};
use perdura::Error;
use perdura_memory::Domain;
use perdura_memory::random::SplitMix64;
use std::sync::Arc;

/// Sessions that use a pool one after the other before it is switched away and back, and operations
/// of each. Where sessions have segments of the log, each begins another one.
const SESSIONS: usize = 5;
const EACH: usize = 4;

/// An image, and what it holds; `None` before there is a pool.
pub(crate) type Begins<M> = (Vec<u64>, Option<M>);

/// The image that a case begins with.
pub(crate) fn first_image<S: Subject>(
    engine: &dyn AnyFamily,
    subject: &S,
    case: &Case,
    bytes: u64,
) -> Result<Begins<S::Model>, String> {
    let prepared = |engine| prepared(engine, subject, case.domain, bytes);
    let image = match case.start {
        Start::New => return Ok((vec![0; 8], None)),
        Start::Closed => prepared(engine)?,
        Start::Switched => prepared(other(engine)?)?,
        Start::SwitchedBack => {
            let image = prepared(engine)?;
            let mut model = subject.prepared();
            let mut random = SplitMix64::new(case.seed ^ 0x7377_6974_6368);
            let [first, second] = [(engine, SESSIONS), (other(engine)?, 1)];
            let image = used(first, subject, &mut model, image, &mut random, (case.domain, bytes))?;
            let image =
                used(second, subject, &mut model, image, &mut random, (case.domain, bytes))?;
            return Ok((image, Some(model)));
        }
    };
    Ok((image, Some(subject.prepared())))
}

/// Another engine than this one: which takes over what it leaves.
fn other(engine: &dyn AnyFamily) -> Result<&'static dyn AnyFamily, String> {
    Ok(if engine.name() == Undo::NAME { &Of::<Redo>::ENGINE } else { &Of::<Undo>::ENGINE })
}

/// A pool of this engine with the subject's structure in it, closed.
fn prepared<S: Subject>(
    engine: &dyn AnyFamily,
    subject: &S,
    domain: Domain,
    bytes: u64,
) -> Result<Vec<u64>, String> {
    let trial = Arc::new(Trial::new(64, bytes, domain));
    let heap = engine
        .on_trial(&trial, Some(format(bytes)))
        .map_err(|error| format!("no pool can be made: {error}"))?;
    let mut session = heap.session().map_err(text)?;
    session.transaction(|tx| subject.prepare(tx)).map_err(text)?;
    drop(session);
    heap.close().map_err(text)?;
    Ok(trial.contents())
}

/// The pool after so many sessions on this engine, closed.
fn used<S: Subject>(
    (engine, sessions): (&dyn AnyFamily, usize),
    subject: &S,
    model: &mut S::Model,
    image: Vec<u64>,
    random: &mut SplitMix64,
    (domain, bytes): (Domain, u64),
) -> Result<Vec<u64>, String> {
    let trial = Arc::new(Trial::of(&image, bytes, domain));
    let heap = engine.on_trial(&trial, None).map_err(|error| error.to_string())?;
    for _ in 0..sessions {
        let mut session = heap.session().map_err(text)?;
        for _ in 0..EACH {
            let op = subject.draw(random, 0);
            match session.transaction(|tx| subject.apply(tx, &op)) {
                Ok(()) => _ = subject.step(model, &op),
                Err(Error::Aborted(_) | Error::TooLarge { .. }) => {}
                Err(error) => return Err(text(error)),
            }
        }
    }
    heap.close().map_err(text)?;
    Ok(trial.contents())
}
