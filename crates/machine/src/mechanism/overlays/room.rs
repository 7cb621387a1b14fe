//! Room for the lines that leave: a page's overlay of the epoch, and its move to a larger segment.

use super::mutants::GROW;
use super::segments::Overlay;
use super::state::{NONE, PageOverlaysController};
use crate::hardware::Hardware;
use crate::mechanism::InDram;

impl PageOverlaysController {
    /// The page's overlay of this epoch, with room for these lines of the page.
    pub(super) fn overlay_for(&mut self, hardware: &mut Hardware, page: u64, lines: u64) -> u32 {
        let number = self.pages[page as usize].now;
        if number == NONE {
            let overlay =
                Overlay::new(page, (self.segments.take(lines.count_ones()), self.layout.page));
            let number = match self.unused.pop() {
                Some(number) => {
                    self.overlays[number as usize] = overlay;
                    number
                }
                None => {
                    self.overlays.push(overlay);
                    self.overlays.len() as u32 - 1
                }
            };
            self.pages[page as usize].now = number;
            self.now.push(number);
            self.counts.overlays += 1;
            return number;
        }
        let needed = self.overlays[number as usize].lines() | lines;
        if u64::from(needed.count_ones()) > self.overlays[number as usize].slots() {
            self.grow(hardware, number, needed.count_ones());
        }
        number
    }

    /// An overlay moves to a larger segment.
    fn grow(&mut self, hardware: &mut Hardware, number: u32, lines: u32) {
        let larger = self.segments.take(lines);
        let old = self.overlays[number as usize].clone();
        let outgrown = self.overlays[number as usize].move_to(larger);
        let first = old.page() * self.layout.page;
        let (mut copied, mut leave_out) = (old.copied, self.design.leaves_out(GROW));
        for index in old.indices() {
            if std::mem::take(&mut leave_out) {
                continue;
            }
            let from = self.layout.pool() + old.first_line() + old.slot(index).unwrap_or_default();
            let Some(to) = self.in_overlay(number, first + index) else { continue };
            let words = hardware.home_line(from);
            // A program's line waits for these.
            let read = hardware.read_home(from).max(self.committed);
            copied = copied.max(hardware.write_home("overlay copy", to, words, read));
            self.counts.moved += 1;
        }
        self.overlays[number as usize].copied = copied;
        // No table names it.
        outgrown.into_iter().for_each(|segment| self.segments.give_back(segment));
        self.counts.growths += 1;
    }

    /// The dirty lines of a page that leave with a line of it, itself included, as bits.
    pub(super) fn with(&self, line: u64, block: Option<InDram>) -> u64 {
        let page = self.layout.page;
        let (first, own) = (line - line % page, 1 << (line % page));
        let Some(block) = block else { return own };
        let bits = match block.first.checked_sub(first) {
            Some(after) => block.dirty << after,
            None => block.dirty >> (first - block.first),
        };
        let mask = if page == 64 { u64::MAX } else { (1 << page) - 1 };
        bits & mask | own
    }
}
