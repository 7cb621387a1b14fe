//! A controller that persists in order: the smallest useful mechanism, and the example of CONTRIBUTING.md.
//!
//! Every store of every core goes home on its own, one after the other: strict persistency (Pelley, Chen and Wenisch,
//! "Memory Persistency", ISCA 2014, 4.1). So programs need no write-backs and no fences for the order of what they
//! store, only to know when it is durable. Lines that leave the caches are home already.

use super::mutant::Mutant;
use super::{Accessed, Design, Effect, Leaving, Mechanism, Moments, Promise, Verdict};
use crate::Ps;
use crate::hardware::Hardware;
use perdura_memory::image::patch_line;
use serde::{Deserialize, Serialize};
use std::ops::Range;

const WAIT: Mutant = Mutant { name: "wait", what: "a store does not wait for the one before it" };
const HOLD: Mutant = Mutant { name: "hold", what: "lines that leave the caches are written too" };
const FENCE: Mutant =
    Mutant { name: "fence", what: "a fence does not wait for the stores before it" };

/// Its mutants.
pub(super) const MUTANTS: &[Mutant] = &[WAIT, HOLD, FENCE];

/// Its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InOrderConfig {
    /// Where they are from.
    pub source: String,
    /// Stores that can be on their way; a core waits if its store finds no room.
    pub buffer: usize,
}

impl Default for InOrderConfig {
    fn default() -> Self {
        InOrderConfig { source: "assumed".to_owned(), buffer: 32 }
    }
}

/// The design.
#[derive(Clone, Debug, Default)]
pub struct InOrder {
    config: InOrderConfig,
    left_out: Option<Mutant>,
}

/// The mechanism.
struct InOrderController {
    design: InOrder,
    /// When the stores on their way are durable, ascending.
    stores: std::collections::VecDeque<Ps>,
    /// When the last store is durable.
    last: Ps,
    written: u64,
}

impl InOrder {
    /// With these figures, and perhaps as a mutant.
    ///
    /// # Errors
    /// There is no buffer.
    pub fn new(config: InOrderConfig, left_out: Option<&Mutant>) -> Result<Self, String> {
        if config.buffer == 0 {
            return Err("buffer must be at least 1".to_owned());
        }
        Ok(InOrder { config, left_out: left_out.copied() })
    }

    fn leaves_out(&self, mutant: Mutant) -> bool {
        self.left_out == Some(mutant)
    }
}

impl Design for InOrder {
    fn name(&self) -> &'static str {
        "in-order"
    }

    fn promises(&self) -> Promise {
        Promise::Order
    }

    fn build(&self, _: &mut Hardware, _: Range<u64>) -> Box<dyn Mechanism> {
        let (design, stores) = (self.clone(), Default::default());
        Box::new(InOrderController { design, stores, last: Ps::default(), written: 0 })
    }
}

impl InOrderController {
    /// When there is room for one more store.
    fn room(&mut self, now: Ps) -> Ps {
        while self.stores.front().is_some_and(|durable| *durable <= now) {
            self.stores.pop_front();
        }
        let full = self.stores.len() >= self.design.config.buffer;
        if full { self.stores.pop_front().unwrap_or(now) } else { now }
    }
}

impl Mechanism for InOrderController {
    fn moments(&self) -> Moments {
        Moments::ACCESS | Moments::HOME
    }

    fn accessed(&mut self, hardware: &mut Hardware, access: &Accessed<'_>) -> Effect {
        if access.stores.is_empty() {
            return Effect::Happens;
        }
        let room = self.room(hardware.now());
        hardware.wait_until(access.core, room);
        let mut words = access.before;
        access.stores.iter().for_each(|piece| patch_line(&mut words, piece));
        let from = if self.design.leaves_out(WAIT) { room } else { room.max(self.last) };
        let durable = hardware.write_through("store", access.line, words, from);
        self.last = self.last.max(durable);
        self.stores.push_back(self.last);
        self.written += 1;
        Effect::Happens
    }

    fn leaves(&mut self, _: &mut Hardware, leaving: &Leaving) -> Verdict {
        match () {
            () if self.design.leaves_out(HOLD) => Verdict::Allow,
            () if self.design.leaves_out(FENCE) => Verdict::Hold(leaving.from),
            () => Verdict::Hold(self.last.max(leaving.from)),
        }
    }

    fn start_measuring(&mut self) {
        self.written = 0;
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![("stores_written", self.written)]
    }
}
