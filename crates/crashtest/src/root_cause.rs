//! Root causes: which stores a failing image lacks, and which it should not have yet.

use crate::candidates::{Candidates, Line};
use perdura_machine::{CallSite, Kind};
use perdura_memory::image::Image;

/// The root cause of an image's failure: the stores that decide.
#[derive(Debug, Default)]
pub(crate) struct RootCause {
    /// It would not fail with these.
    pub(crate) missing: Vec<String>,
    /// It would not fail without these.
    pub(crate) early: Vec<String>,
}

/// Makes as much of the failing image durable as possible, then removes all that is not needed for the failure: the
/// rest is the root cause.
pub(crate) fn root_cause(
    candidates: &Candidates,
    failing: &[u16],
    image: &Image,
    mut fails: impl FnMut(&[u16]) -> bool,
) -> RootCause {
    let mut states = failing.to_vec();
    let lines = &candidates.lines;
    let mut settle = |index: usize, wanted: &mut dyn Iterator<Item = u16>| {
        let before = states[index];
        for state in wanted.take_while(|state| *state != before) {
            states[index] = state;
            if fails(&states) {
                return;
            }
        }
        states[index] = before;
    };
    for (index, line) in lines.iter().enumerate() {
        settle(index, &mut (0..=line.most()).rev());
    }
    let lacking: Vec<usize> = (0..lines.len()).filter(|i| !lines[*i].is_most(states[*i])).collect();
    let missing = lacking.iter().map(|i| lack(&lines[*i], states[*i], image)).collect();
    let mut settle = |index: usize, state: u16| {
        let before = std::mem::replace(&mut states[index], state);
        if !fails(&states) {
            states[index] = before;
        }
    };
    let full: Vec<usize> = (0..lines.len()).filter(|index| !lacking.contains(index)).collect();
    full.iter().for_each(|index| settle(*index, 0));
    let present = full.into_iter().filter(|index| states[*index] != 0);
    let early = present.map(|index| last(&lines[index], image)).collect();
    RootCause { missing, early }
}

/// The first store that the line lacks.
fn lack(line: &Line, state: u16, image: &Image) -> String {
    let words = &line.states[usize::from(state)];
    let from = line.steps.get(usize::from(state)).copied().unwrap_or(0);
    let all = line.steps.last().copied().unwrap_or(0);
    // A store that changes nothing is not missing.
    let step = (from..all).find(|step| image.line(line.at, step + 1) != *words);
    named(line, step.unwrap_or(from), image)
}

/// The last store that the line has.
fn last(line: &Line, image: &Image) -> String {
    let all = line.steps.last().copied().unwrap_or(0);
    let step = (0..all).rev().find(|s| image.line(line.at, *s) != image.line(line.at, s + 1));
    named(line, step.unwrap_or(0), image)
}

fn named(line: &Line, step: usize, image: &Image) -> String {
    let Some((site, asked)) = image.site(line.at, step) else {
        return format!("the line at {:#x}", line.at);
    };
    let CallSite { file, line: number, .. } = CallSite::of(Kind::Store, site);
    let asked = if asked { "asked for, not fenced" } else { "not asked for" };
    format!("the line at {:#x}, stored at {file}:{number}, {asked}", line.at)
}

/// Whether a text names a store already.
pub(crate) fn is_named(text: &str) -> bool {
    text.contains("stored at")
}
