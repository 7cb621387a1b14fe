//! Chooses pages of slots that are mostly free, to be emptied so that they become free pages.
//!
//! The owners of the objects in them move these; here the pages are only chosen. Invariant: no slot is taken from a
//! page that is being emptied, and the objects in all such pages of a class fit into the class's other pages.

use super::layout::Class;
use super::space::Space;
use crate::tx::Purpose;
use perdura_memory::PAGE;
use std::collections::HashMap;

impl Space {
    /// Chooses the pages to be emptied, and returns how many: none if that is fewer than `least`, or if an emptying is
    /// under way ([ended](Self::stop_emptying) by a call). After an emptying, nothing is tried before `least` further
    /// pages' worth of slots is free.
    pub fn start_emptying(&self, least: u64) -> u64 {
        let mut state = self.state();
        if !state.sparse.is_empty() {
            return 0;
        }
        state.scattered = state.scattered.min(state.free_slots);
        if state.free_slots - state.scattered < least * PAGE {
            return 0;
        }
        let mut classes: HashMap<(Purpose, usize), Vec<(u32, u64)>> = HashMap::new();
        for (page, found) in state.states.iter().enumerate() {
            let Some(found) = found.filter(|found| !found.owned && found.free != 0) else {
                continue;
            };
            let key = (found.purpose, found.class.number());
            classes.entry(key).or_default().push((found.free.count_ones(), page as u64));
        }
        let mut chosen = Vec::new();
        for ((_, class), mut pages) in classes {
            let Some(class) = Class::from_number(class as u64) else { continue };
            // The emptiest first, since fewest objects are moved for each.
            pages.sort_unstable_by_key(|&(free, page)| (std::cmp::Reverse(free), page));
            let mut room: u64 = pages.iter().map(|&(free, _)| u64::from(free)).sum();
            let mut moved = 0;
            for (free, page) in pages {
                moved += u64::from(class.slots() - free);
                room -= u64::from(free);
                if moved > room {
                    break;
                }
                chosen.push(page);
            }
        }
        if (chosen.len() as u64) < least.max(1) {
            state.scattered = state.free_slots;
            return 0;
        }
        for &page in &chosen {
            if let Some(Some(found)) = state.states.get_mut(page as usize) {
                found.sparse = true;
            }
        }
        state.sparse = chosen;
        state.sparse.len() as u64
    }

    /// Ends the emptying: the pages' remaining objects stay, and their free slots are used again. Returns how many
    /// pages are empty.
    pub fn stop_emptying(&self) -> u64 {
        let mut state = self.state();
        let (pages, mut left) = (std::mem::take(&mut state.sparse), 0);
        for &page in &pages {
            if let Some(Some(found)) = state.states.get_mut(page as usize)
                && found.sparse
            {
                left += 1;
                found.sparse = false;
                state.settle(page);
            }
        }
        if !pages.is_empty() {
            state.scattered = state.free_slots;
        }
        pages.len() as u64 - left
    }

    /// Whether the slot at `at` is in a page that is being emptied.
    pub fn is_sparse(&self, at: u64) -> bool {
        let page = at.wrapping_sub(self.layout().pages) / PAGE;
        let state = self.state();
        !state.sparse.is_empty()
            && state
                .states
                .get(page as usize)
                .is_some_and(|found| found.is_some_and(|found| found.sparse))
    }
}
