//! The checks of an image: it recovers, to a committed prefix, with nothing leaked; and the pool is fit for more
//! transactions.

use crate::engine::{AnyFamily, heap_on};
use crate::failure::without_panic;
use crate::history::{Allowed, States};
use crate::{Subject, Trial};
use perdura::{AnyHeap, AnySession, Error, OpenError};
use perdura_memory::random::SplitMix64;
use std::sync::Arc;

/// Further transactions on a recovered pool.
const FURTHER: u64 = 2;
/// Characters of contents that are shown, and how many of them before the first difference.
const SHOWN: usize = 80;
const BEFORE: usize = 30;

/// The verdict on an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// One of the allowed states.
    State {
        /// Its number: see [`Expect::state`].
        index: usize,
        /// Deferred lines that were lost, and restored.
        corrected: u64,
    },
    /// Deferred lines are lost, and the pool reports it.
    Lost,
    /// A pool that is refused, which is allowed here.
    Refused,
}

/// The states that an image may hold.
pub(crate) struct Expect<'a, M> {
    pub(crate) states: &'a States<M>,
    pub(crate) allowed: Allowed<M>,
    /// Whether the pool may be refused: it had not been created yet.
    pub(crate) refusal: bool,
}

impl<M: PartialEq + Clone> Expect<'_, M> {
    /// The number of this state among the allowed ones.
    fn find(&self, state: &Option<M>) -> Option<usize> {
        match &self.allowed {
            Allowed::Prefixes(range) => {
                range.clone().find(|index| self.states.states[*index] == *state)
            }
            Allowed::Sets { states, .. } => {
                state.as_ref()?;
                states.iter().position(|known| known == state)
            }
        }
    }

    /// The state with this number.
    pub(crate) fn state(&self, index: usize) -> &Option<M> {
        match &self.allowed {
            Allowed::Prefixes(_) => &self.states.states[index],
            Allowed::Sets { states, .. } => &states[index],
        }
    }

    /// The states that may be durable if programs see the one with this number, which comes last.
    pub(crate) fn durable_of(&self, index: usize) -> Vec<Option<M>> {
        match &self.allowed {
            Allowed::Prefixes(range) => self.states.states[*range.start()..=index].to_vec(),
            Allowed::Sets { states, .. } => {
                let within = states.iter().enumerate().filter(|(other, _)| other & !index == 0);
                within.map(|(_, state)| state.clone()).filter(Option::is_some).collect()
            }
        }
    }

    /// Two numbers that identify the allowed states, within one history.
    pub(crate) fn range(&self) -> (usize, usize) {
        match &self.allowed {
            Allowed::Prefixes(range) => (*range.start(), *range.end()),
            Allowed::Sets { sure, states } => (*sure, sure + states.len().ilog2() as usize),
        }
    }
}

/// Recovers and checks the image that `trial` holds.
pub(crate) fn verify<S: Subject>(
    engine: &dyn AnyFamily,
    subject: &S,
    trial: &Arc<Trial>,
    expect: &Expect<'_, S::Model>,
    seed: u64,
) -> Result<Verdict, String> {
    without_panic(|| check(engine, subject, trial, expect, seed))
        .unwrap_or_else(|problem| Err(problem.what))
}

fn check<S: Subject>(
    engine: &dyn AnyFamily,
    subject: &S,
    trial: &Arc<Trial>,
    expect: &Expect<'_, S::Model>,
    seed: u64,
) -> Result<Verdict, String> {
    let heap = match heap_on(engine, trial, None) {
        Ok(heap) => heap,
        Err(OpenError::NotAPool { .. }) if expect.refusal => return Ok(Verdict::Refused),
        Err(OpenError::Contents { source: Error::Lost { .. }, .. }) if engine.skips() => {
            return Ok(Verdict::Lost);
        }
        Err(error) => return Err(format!("the pool cannot be opened: {error}")),
    };
    let corrected = heap.recovery().corrected;
    let mut session = heap.session().map_err(wrong)?;
    let state = session.read(|tx| subject.read(tx)).map_err(wrong)?;
    let Some(index) = expect.find(&state) else { return Err(unexpected(expect, &state)) };
    whole(subject, &*heap)?;
    let Some(mut model) = state else { return Ok(Verdict::State { index, corrected }) };
    go_on(subject, &mut session, &mut model, seed)?;
    drop(session);
    whole(subject, &*heap)?;
    heap.close().map_err(wrong)?;
    Ok(Verdict::State { index, corrected })
}

fn wrong(error: Error) -> String {
    format!("after recovery: {error}")
}

/// Describes which state it is, if any.
fn unexpected<M: PartialEq + Clone + std::fmt::Debug>(
    expect: &Expect<'_, M>,
    state: &Option<M>,
) -> String {
    let (first, last) = expect.range();
    if let Allowed::Sets { sure, states } = &expect.allowed {
        let least = states.iter().find(|state| state.is_some()).unwrap_or(&None);
        let (found, expected) = differing(state, least);
        return format!(
            "the contents are not those of the {sure} acknowledged commits and some of the {} that had begun: {found} instead of {expected}",
            last - first
        );
    }
    match expect.states.states.iter().position(|known| known == state) {
        Some(index) if index < first => format!(
            "acknowledged transactions are lost: {index} are there, {first} had been acknowledged"
        ),
        Some(index) => format!("{index} transactions are there, of which only {last} had begun"),
        None => {
            let (found, expected) = differing(state, &expect.states.states[first]);
            format!(
                "the contents are no committed prefix (of {first} to {last} commits): {found} instead of {expected}"
            )
        }
    }
}

/// Two values as text, from a little before the first difference on.
fn differing<M: std::fmt::Debug>(left: &Option<M>, right: &Option<M>) -> (String, String) {
    let [left, right] = [left, right].map(|value| match value {
        Some(value) => format!("{value:?}"),
        None => "nothing".to_owned(),
    });
    let same = left.chars().zip(right.chars()).take_while(|(left, right)| left == right).count();
    let from = same.saturating_sub(BEFORE);
    let part = |text: &str| {
        let dots = |there: bool| if there { "..." } else { "" };
        let part: String = text.chars().skip(from).take(SHOWN).collect();
        format!("{}{part}{}", dots(from > 0), dots(text.chars().count() > from + SHOWN))
    };
    (part(&left), part(&right))
}

/// Checks that the heap and the structure are whole, and every block has an owner.
fn whole<S: Subject>(subject: &S, heap: &dyn AnyHeap) -> Result<(), String> {
    let report = heap.check(&|tx, root, visit| subject.visit(tx, root, visit));
    match report.problems.first() {
        Some(problem) => Err(format!("the pool is damaged: {problem}")),
        None => match report.unreachable {
            None => Err("a root of an unknown kind".to_owned()),
            Some(0) => Ok(()),
            // No structure here keeps offsets of collections: they have lost their owner.
            Some(blocks) => Err(format!("{blocks} blocks have no owner")),
        },
    }
}

/// Runs more transactions, which must agree with the model.
fn go_on<S: Subject>(
    subject: &S,
    session: &mut AnySession,
    model: &mut S::Model,
    seed: u64,
) -> Result<(), String> {
    let mut random = SplitMix64::new(seed);
    let mut ops: Vec<S::Op> = (0..FURTHER).map(|_| subject.draw(&mut random, 0)).collect();
    ops.reverse();
    while let Some(op) = ops.pop() {
        let mut next = model.clone();
        let commits = subject.step(&mut next, &op);
        match session.transaction(|tx| subject.apply(tx, &op)) {
            Ok(()) if commits => *model = next,
            Err(Error::Aborted(_)) if !commits => {}
            Err(Error::Full { .. }) if subject.may_be_full() => {}
            Err(Error::TooLarge { .. }) if !subject.split(&op).is_empty() => {
                ops.extend(subject.split(&op).into_iter().rev());
            }
            Ok(()) => return Err(format!("{op:?} has committed and should have aborted")),
            Err(error) => return Err(format!("a further transaction, {op:?}: {error}")),
        }
    }
    let state = session.read(|tx| subject.read(tx)).map_err(wrong)?;
    if state.as_ref() != Some(model) {
        return Err("further transactions did not do what they should have done".to_owned());
    }
    Ok(())
}
