//! The volatile state of the mechanism: lost when the power is cut.

use super::config::PageOverlays;
use super::segments::{Overlay, Segments};
use super::tables::Layout;
use crate::Ps;
use crate::mechanism::EpochTickets;
use crate::mechanism::cached::CachedEntries;
use crate::mechanism::epoch_number::NextStep;
use std::collections::VecDeque;

pub(super) const NONE: u32 = u32::MAX;

/// The overlays of a page: that of this epoch, and that of the last one until it is merged.
#[derive(Clone, Copy)]
pub(super) struct PageState {
    pub(super) now: u32,
    pub(super) old: u32,
}

/// The mechanism's counters.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) overlays: u64,
    pub(super) most: u64,
    pub(super) growths: u64,
    pub(super) moved: u64,
    pub(super) merges: u64,
    pub(super) merged: u64,
    pub(super) late: u64,
    pub(super) misses: u64,
}

/// The mechanism.
pub(super) struct PageOverlaysController {
    pub(super) design: PageOverlays,
    pub(super) layout: Layout,
    pub(super) epoch: u64,
    pub(super) pages: Vec<PageState>,
    pub(super) overlays: Vec<Overlay>,
    pub(super) unused: Vec<u32>,
    pub(super) segments: Segments,
    /// The overlays of this epoch, and those of the last checkpoint.
    pub(super) now: Vec<u32>,
    pub(super) old: Vec<u32>,
    /// Those of the last checkpoint that are not merged yet.
    pub(super) to_merge: VecDeque<u32>,
    /// Pages whose entries the controller holds.
    pub(super) cached: CachedEntries<()>,
    pub(super) next_merge: NextStep,
    /// When the last checkpoint became durable: what it has replaced is not overwritten before, though a core's clock may
    /// be behind.
    pub(super) committed: Ps,
    pub(super) counts: Counts,
    pub(super) tickets: EpochTickets,
    /// Epochs that had ended when measuring began.
    pub(super) unmeasured: u64,
}

impl PageOverlaysController {
    pub(super) fn new(design: PageOverlays, layout: Layout, epoch: u64) -> Self {
        let cached = CachedEntries::new(design.config.cached_entries);
        PageOverlaysController {
            design,
            layout,
            epoch,
            pages: vec![PageState { now: NONE, old: NONE }; layout.pages() as usize],
            overlays: Vec::new(),
            unused: Vec::new(),
            segments: Segments::new(layout.page),
            now: Vec::new(),
            old: Vec::new(),
            to_merge: VecDeque::new(),
            cached,
            next_merge: NextStep::default(),
            committed: Ps(0),
            counts: Counts::default(),
            tickets: EpochTickets::default(),
            unmeasured: 0,
        }
    }

    /// Where an overlay has a line; `None` if it does not have it.
    pub(super) fn in_overlay(&self, overlay: u32, line: u64) -> Option<u64> {
        let overlay = self.overlays.get(overlay as usize)?;
        let slot = overlay.slot(line % self.layout.page)?;
        Some(self.layout.pool() + overlay.first_line() + slot)
    }

    /// Where the newest version of a program's line is.
    pub(super) fn working(&self, line: u64) -> u64 {
        let PageState { now, old } = self.pages[(line / self.layout.page) as usize];
        let overlay = self.in_overlay(now, line).or_else(|| self.in_overlay(old, line));
        overlay.unwrap_or(line)
    }
}
