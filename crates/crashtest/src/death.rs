//! The death of a process, in the place of a power cut: what another process finds, and how a
//! life goes on from there until the power is cut.
//!
//! What a dead process has left is visible, and durable only in part; so what recovery reads
//! proves nothing, until recovery itself has made it durable. On `media` that is what was written
//! to the page cache, on `transient` what is in the processor's caches. After a sync that failed it
//! is the same, but for the pages counting as clean: no sync writes them again.

use crate::candidates::Candidates;
use crate::explore::{Exploration, Explorer, mix};
use crate::life::World;
use crate::verify::{Expect, Found};
use crate::{Case, Subject};
use perdura_memory::Domain;
use perdura_memory::image::Image;
use perdura_memory::random::SplitMix64;
use std::collections::BTreeMap;

/// Of so many lives on a file one meets a sync that fails.
const FAILING: u64 = 3;
/// The last fence that may be the one.
const LAST_FENCE: u64 = 60;

/// The fence that fails in the life with this seed, if one does.
pub(crate) fn failing_fence(case: &Case, seed: u64) -> Option<u64> {
    let mut random = SplitMix64::new(seed ^ 0x6661_696c);
    // Few fences belong to the opening, and they matter most.
    let last = if random.below(2) == 0 { LAST_FENCE } else { LAST_FENCE / 10 };
    (case.failing && case.domain == Domain::Media && random.below(FAILING) == 0)
        .then(|| 1 + random.below(last))
}

/// What a process that dies leaves to the next one, and whether another died before it.
pub(crate) struct Death<'i> {
    pub(crate) image: &'i Image,
    /// The process has met a failed sync.
    pub(crate) failed: bool,
}

impl Death<'_> {
    /// Whether the process may die with the lines in these states: where lines are not evicted,
    /// the page cache holds whole steps of them.
    fn allows(&self, case: &Case, candidates: &Candidates, states: &[u16]) -> bool {
        case.domain != Domain::Media
            || candidates.lines.iter().zip(states).all(|(line, state)| *state <= line.most())
    }

    /// What the next process finds.
    fn world(
        &self,
        case: &Case,
        candidates: &Candidates,
        states: &[u16],
        visible: Vec<u64>,
        seed: u64,
    ) -> World {
        let steps: BTreeMap<u64, usize> = candidates
            .lines
            .iter()
            .zip(states)
            .map(|(line, state)| (line.at, line.steps.get(usize::from(*state)).copied()))
            .map(|(at, steps)| (at, steps.unwrap_or(0)))
            .collect();
        let kept = |line: u64| steps.get(&line).copied().unwrap_or(0);
        let synced = !self.failed && mix(seed, 0x73_796e_63).is_multiple_of(2);
        let left = self.image.after_death(kept, synced);
        debug_assert!(case.domain != Domain::Media || left.visible() == visible);
        World { visible, left: Some(left) }
    }
}

impl<S: Subject> Explorer<'_, S> {
    /// Whether the process dies at the cut with this seed.
    pub(crate) fn dies(&self, depth: usize, seed: u64) -> bool {
        let every = self.budget.deaths_every;
        every > 0
            && depth < self.budget.depth
            && mix(seed, 0x6465_6164).is_multiple_of(every)
            && matches!(self.case.domain, Domain::Media | Domain::Transient)
    }

    /// The process dies here; another one opens the pool, goes on with it, and its power is cut, or
    /// it dies, too.
    pub(crate) fn die(
        &mut self,
        exploration: &Exploration<'_, '_, S>,
        expect: &Expect<'_, S::Model>,
        candidates: &mut Candidates,
        death: &Death<'_>,
        seed: u64,
    ) -> Result<(), (String, Vec<u16>)> {
        let depth = exploration.depth;
        let states = if self.case.domain == Domain::Media {
            candidates.random_whole()
        } else {
            candidates.all_whole()
        };
        if expect.refusal || !death.allows(self.case, candidates, &states) {
            return Ok(());
        }
        let failed = |what| (what, states.clone());
        let found = self
            .verified(depth, expect, candidates, &states, seed)
            .map_err(|what| failed(format!("after the death of the process: {what}")))?;
        let Found::State { index, .. } = found else { return Ok(()) };
        // What was not acknowledged need not be durable before the next process has said that it
        // has opened the pool.
        let known = &expect.states.states[*expect.allowed.start()..=index];
        let known = known.to_vec();
        if !matches!(known.last(), Some(Some(_))) {
            return Ok(());
        }
        let visible = self.benches[depth].whole(candidates, &states);
        let world = death.world(self.case, candidates, &states, visible, seed);
        self.report.deaths += 1;
        self.again(exploration, world, known, mix(seed, 0x6c_6966_65))
            .map_err(|what| failed(format!("of a process that died: {what}")))
    }
}
