//! A mechanism's own mutants, each of which must be found.

use super::Maker;
use crate::{Budget, Case, Failure, Runner, Watcher};
use perdura_machine::mechanism::{Mutant, list};

/// The mutants that a mechanism lists; none for a custom one.
pub fn of(maker: &Maker) -> &'static [Mutant] {
    list::find(maker.name()).map_or(&[], |kind| kind.mutants)
}

/// A mutant that was tried.
#[derive(Debug)]
pub struct TriedMutant {
    /// The mutant.
    pub mutant: &'static Mutant,
    /// Images checked until it was found, or in all.
    pub images: u64,
    /// The failure that reveals it.
    pub found: Option<Box<Failure>>,
}

/// Tries cases with a mutant, until one fails, `most` images are checked or the watcher stops.
///
/// # Errors
/// A failure of the case that revealed it, even without the mutant.
pub fn find<'r>(
    mutant: &'static Mutant,
    cases: impl Iterator<Item = (&'r dyn Runner, Case)>,
    budget: Budget,
    most: u64,
    stop: &Watcher,
) -> Result<TriedMutant, Box<Failure>> {
    let mut images = 0;
    for (runner, case) in cases {
        if images >= most || stop.is_stopped() {
            break;
        }
        let watcher = Watcher::default();
        let without = Case { mutant: Some(mutant.name.to_owned()), ..case.clone() };
        let explored = runner.explore(&without, budget, &watcher);
        images += watcher.images.into_inner();
        if let Err(failure) = explored {
            runner.explore(&case, budget, stop)?;
            return Ok(TriedMutant { mutant, images, found: Some(failure) });
        }
    }
    Ok(TriedMutant { mutant, images, found: None })
}
