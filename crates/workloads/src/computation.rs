//! Private computation: a program's work on data of its thread alone, between accesses to the heap.
//!
//! Natively it takes its own time, for it is really done. A simulated machine sees accesses only: a workload reports the
//! computation to it in *steps*, and the machine's configuration has the cycles of a step (`cores.step_cycles`). A step
//! is one turn of an inner loop: a coordinate's difference squared and added, a byte hashed or compared, an edge
//! compared, a neighbour of a cell looked at.

use std::fmt;
use std::sync::Arc;

/// Where a thread reports its steps.
#[derive(Clone, Default)]
pub struct Computation(Option<Arc<dyn Fn(u64) + Send + Sync>>);

/// Steps of drawing a random number and bringing it into its range: a mixing function and a division.
pub(crate) const DRAW: u64 = 8;

impl Computation {
    /// Calls `charge` with the steps of each report.
    pub fn charged_by(charge: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Computation(Some(Arc::new(charge)))
    }

    /// The thread has done `steps` steps. Natively this does nothing.
    #[inline(always)]
    pub fn charge(&self, steps: u64) {
        if let Some(charge) = &self.0 {
            charge(steps);
        }
    }
}

impl fmt::Debug for Computation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "charged" } else { "not charged" })
    }
}
