//! The death of a process, instead of a power cut: the image for the next process, and how a life goes on from there
//! until the power is cut.
//!
//! The stores of a dead process are visible, but only partly durable; so the words that recovery reads prove nothing,
//! until recovery itself has made it durable. On `media` that is what was written to the page cache, on `transient`
//! what is in the processor's caches. After a sync that failed it is the same, except that the pages count as clean: no
//! sync writes them again.

use crate::Subject;
use crate::candidates::Candidates;
use crate::case::mix;
use crate::engine::World;
use crate::explore::{Exploration, Explorer};
use crate::verify::{Expect, Verdict};
use perdura_memory::Domain;
use perdura_memory::image::Image;
use std::collections::BTreeMap;

/// The image for the next process if the lines are in these states at the death of this one; `synced` as in
/// [`Image::after_death`].
fn world(
    image: &Image,
    candidates: &Candidates,
    states: &[u16],
    visible: Vec<u64>,
    synced: bool,
) -> World {
    let kept = candidates.lines.iter().zip(states);
    let kept = kept.map(|(line, state)| (line.at, line.steps[usize::from(*state)]));
    let kept: BTreeMap<u64, usize> = kept.collect();
    let left = image.after_death(|line| kept.get(&line).copied().unwrap_or(0), synced);
    World { visible, left: Some(left) }
}

impl<S: Subject> Explorer<'_, S> {
    /// Whether the process dies at the crash point with this seed.
    pub(crate) fn dies(&self, depth: usize, seed: u64) -> bool {
        let every = self.budget.deaths_every;
        every > 0
            && depth < self.budget.depth
            && mix(seed, 0x6465_6164).is_multiple_of(every)
            && matches!(self.case.domain, Domain::Media | Domain::Transient)
    }

    /// The process dies here; another one opens the pool and continues until its power is cut or it dies too. `failed`:
    /// a sync of the first one has failed.
    pub(crate) fn die(
        &mut self,
        exploration: &Exploration<'_, '_, S>,
        expect: &Expect<'_, S::Model>,
        candidates: &Candidates,
        (image, failed): (&Image, bool),
        seed: u64,
    ) -> Result<(), (String, Vec<u16>)> {
        let depth = exploration.depth;
        let states = match self.case.domain {
            Domain::Media => candidates.random_whole(seed),
            _ => candidates.all_whole(),
        };
        if expect.refusal {
            return Ok(());
        }
        let wrong = |what| (what, states.clone());
        let found = self
            .verified(depth, expect, candidates, &states, seed)
            .map_err(|what| wrong(format!("after the death of the process: {what}")))?;
        let Verdict::State { index, .. } = found else { return Ok(()) };
        // Unacknowledged transactions need not be durable before the next process has reported the pool as open.
        let known = expect.durable_of(index);
        if !matches!(known.last(), Some(Some(_))) {
            return Ok(());
        }
        let visible = self.benches[depth].whole(candidates, &states);
        let synced = !failed && mix(seed, 0x7379_6e63).is_multiple_of(2);
        let world = world(image, candidates, &states, visible, synced);
        self.report.deaths += 1;
        self.again(exploration, world, known, mix(seed, 0x6c69_6665))
            .map_err(|what| wrong(format!("of a process that died: {what}")))
    }
}
