//! The machine's own images, where its hardware makes transactions durable by a log (`cc-htm`).
//!
//! In the persistency model such a commit is one event, and certain when it ends. Here the same life runs once more on a
//! machine that keeps what has reached its home device, and the power is cut at events and at arrivals: while log entries,
//! the tail, the lines and the reset are on their way. The hardware's recovery comes first, whole or cut short and begun
//! again, then the engine's. What must hold is the same, but by the clocks of the cores: a commit is acknowledged from the
//! time at which it has returned.
//!
//! Where several cores take turns in a random order, one may see what another one has stored at a later time by its
//! clock, and no image of one time has both. So this is for one core, or for cores that take turns by their clocks.

use crate::case::{Points, mix};
use crate::explore::{Exploration, Explorer};
use crate::failure::{Problem, without_panic};
use crate::life::Stopped;
use crate::root_cause::RootCause;
use crate::verify::{Expect, verify};
use crate::{Place, Subject, Trial};
use perdura_machine::{CallSite, Event, Keep, Kind, Machine, Schedule};
use perdura_memory::random::SplitMix64;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use xxhash_rust::xxh3::xxh3_64;

impl<S: Subject> Explorer<'_, S> {
    /// Whether the machine's own images are checked, in the first life.
    pub(crate) fn cuts_machine(&self, depth: usize) -> bool {
        let in_time = self.case.cores == 1 || self.case.schedule == Schedule::Clock;
        let logs = || {
            let design = self.case.speculation(self.case.seed);
            self.case.transactions.is_some()
                && design.is_ok_and(|design| design.reserves_for_each_core() > 0)
        };
        depth == 0 && in_time && self.case.points != Points::Last && logs()
    }

    /// Runs the life again, and cuts the power at events and arrivals.
    pub(crate) fn machine_images(
        &mut self,
        exploration: &Exploration<'_, '_, S>,
    ) -> Result<(), Problem> {
        let (life, events) = (exploration.life, exploration.history.events);
        let seed = mix(life.seed, 0x6172_7269_7665);
        let chosen = |event: &Event| match exploration.points {
            Points::All => true,
            Points::One(number) => event.number == number,
            Points::At(place) => place.is_at(event),
            Points::Last => false,
            // There are about as many arrivals as events.
            Points::Random(count) => {
                mix(seed, Place::of(event).number()) % (2 * events).max(1) < count
            }
        };
        let (engine, omit) = (self.engine, self.case.omit);
        let mut problem = None;
        let mut watch = |machine: &Machine, event: Event| {
            if !chosen(&event) {
                return ControlFlow::Continue(());
            }
            match self.machine_image(exploration, machine, &event) {
                Ok(()) if self.watcher.is_stopped() => ControlFlow::Break(()),
                Ok(()) => ControlFlow::Continue(()),
                Err(what) => {
                    let name =
                        format!("{} on core {}", CallSite::of(event.kind, event.site), event.core);
                    let (cut, root_cause) =
                        (Some((event.number, events, name)), RootCause::default());
                    problem = Some(Problem { what, cut, root_cause, place: None });
                    ControlFlow::Break(())
                }
            }
        };
        let lived =
            without_panic(|| life.live_keeping(engine, Some(&mut watch), omit, Keep::Durable))?;
        match (problem, lived) {
            (Some(problem), _) => Err(problem),
            (None, Ok(lived)) if lived.history.events != events => Err(Problem::plain(
                "a run with the machine's own images differs: the tester is at fault".to_owned(),
            )),
            (None, Err(Stopped::Problem(what))) => Err(Problem::plain(what)),
            (None, _) => Ok(()),
        }
    }

    /// Images of one moment: with the hardware's recovery whole, and cut short after some of its stores.
    fn machine_image(
        &mut self,
        exploration: &Exploration<'_, '_, S>,
        machine: &Machine,
        event: &Event,
    ) -> Result<(), String> {
        let Exploration { states, history, life, .. } = exploration;
        let time = machine.cut_time();
        let Some(allowed) = states.allowed_at(self.subject, history, event, time) else {
            return Ok(());
        };
        let expect = Expect { states, allowed, refusal: false };
        let number = Place::of(event).number();
        let mut random = SplitMix64::new(mix(life.seed, number));
        let whole = machine.cut(&[]);
        let mut images = vec![(whole.words, false)];
        if whole.stores > 0 {
            images.push((machine.cut(&[random.below(whole.stores)]).words, true));
        }
        for (words, in_recovery) in images {
            let trial = Arc::new(Trial::of(&words, life.limit, self.case.domain));
            verify(self.engine, self.subject, &trial, &expect, mix(life.seed, number))
                .map_err(|what| format!("after the hardware's recovery: {what}"))?;
            self.report.images += 1;
            self.report.at_arrivals += u64::from(matches!(event.kind, Kind::Arrival(_)));
            self.report.in_recovery += u64::from(in_recovery);
            self.report.distinct.insert(xxh3_64(bytemuck::cast_slice(&words)));
            self.watcher.images.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
