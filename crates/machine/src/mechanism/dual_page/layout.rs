//! Where the mechanism's lines are.
//!
//! A pointer; two contexts, of which the pointer's epoch chooses one; and the derivative pages. A context is a line that
//! counts the lines of its special buffer, the table, and the buffer: numbers of lines, eight to a line, and the lines.
//! Behind the pages there are two copies of the cores' states.

use super::config::DualPageConfig;
use super::entry::{ENTRIES_OF_LINE, PAGE_LINES};
use std::ops::Range;

/// Line numbers of the mechanism's own lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// The pointer: the number of finished epochs, and 1 if the contexts are void.
    pub(super) pointer: u64,
    /// Derivative pages, and so entries of the table.
    pub(super) entries: u64,
    /// Lines of a special buffer.
    pub(super) special: u64,
    /// Lines of the cores' states, in one copy.
    pub(super) states: u64,
}

impl Layout {
    /// For lines that begin with `own.start`, which is also the number of the program's lines.
    pub(super) fn new(config: &DualPageConfig, own: &Range<u64>) -> Self {
        let sized = Layout::sized(config, own.start);
        Layout { pointer: own.start, states: (own.end - own.start - sized.fixed()) / 2, ..sized }
    }

    fn sized(config: &DualPageConfig, lines: u64) -> Self {
        let pages = lines.div_ceil(PAGE_LINES);
        // 300 MB of 8 GB, as the paper has it, and four pages at least.
        let share = (lines * 300).div_ceil(8192 * PAGE_LINES).max(4);
        let entries = if config.pool_pages == 0 { share } else { config.pool_pages };
        Layout {
            pointer: 0,
            // Neither is ever larger than what the program has.
            entries: entries.min(pages).max(1),
            special: config.special_lines.min(lines),
            states: 0,
        }
    }

    /// Lines needed with `lines` of the program's, without the cores' states.
    pub(super) fn reserved(config: &DualPageConfig, lines: u64) -> u64 {
        Layout::sized(config, lines).fixed()
    }

    fn fixed(self) -> u64 {
        // The pool begins at a page's boundary.
        1 + 2 * self.context_lines() + PAGE_LINES - 1 + self.entries * PAGE_LINES
    }

    /// Lines of a table.
    pub(super) fn table_lines(self) -> u64 {
        self.entries.div_ceil(ENTRIES_OF_LINE)
    }

    fn context_lines(self) -> u64 {
        1 + self.table_lines() + self.special.div_ceil(8) + self.special
    }

    /// The line that counts the lines of a context's special buffer.
    pub(super) fn count(self, context: u64) -> u64 {
        self.pointer + 1 + context * self.context_lines()
    }

    /// A line of a context's table.
    pub(super) fn table_line(self, context: u64, line: u64) -> u64 {
        self.count(context) + 1 + line
    }

    /// The line with the numbers of eight lines of a context's special buffer, the one at `slot` among them.
    pub(super) fn numbers(self, context: u64, slot: u64) -> u64 {
        self.table_line(context, self.table_lines()) + slot / 8
    }

    /// A line of a context's special buffer.
    pub(super) fn special_line(self, context: u64, slot: u64) -> u64 {
        self.table_line(context, self.table_lines()) + self.special.div_ceil(8) + slot
    }

    /// The line of a derivative page for a line of its base page.
    pub(super) fn derivative(self, entry: u32, line: u64) -> u64 {
        self.pool() + u64::from(entry) * PAGE_LINES + line % PAGE_LINES
    }

    fn pool(self) -> u64 {
        (self.pointer + 1 + 2 * self.context_lines()).next_multiple_of(PAGE_LINES)
    }

    /// The lines of a context's copy of the cores' states.
    pub(super) fn state_lines(self, context: u64) -> Range<u64> {
        let first = self.pointer + self.fixed() + context * self.states;
        first..first + self.states
    }

    /// The program's lines whose bits are set in a page's vector.
    pub(super) fn lines_of(self, page: u64, bits: u64) -> impl Iterator<Item = u64> {
        let set = (0..PAGE_LINES).filter(move |bit| bits >> bit & 1 == 1);
        set.map(move |bit| page * PAGE_LINES + bit).filter(move |line| *line < self.pointer)
    }
}
