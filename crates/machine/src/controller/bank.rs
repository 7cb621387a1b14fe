//! A bank: a row buffer, and when it next takes commands.

use crate::Ps;
use crate::config::{Device, Page};

/// No row.
const CLOSED: u64 = u64::MAX;

/// A device's times.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceTiming {
    pub(super) column: Ps,
    pub(super) activate: Ps,
    pub(super) precharge: Ps,
    pub(super) row_open: Ps,
    pub(super) four_activates: Ps,
    pub(super) write: Ps,
    pub(super) write_through: bool,
    pub(super) closed_page: bool,
    pub(super) read_burst: Ps,
    pub(super) write_burst: Ps,
}

impl DeviceTiming {
    pub(super) fn new(device: &Device) -> Self {
        DeviceTiming {
            column: Ps::from_ns(device.row_hit_ns),
            activate: Ps::from_ns(device.activate_ns),
            precharge: Ps::from_ns(device.precharge_ns),
            row_open: Ps::from_ns(device.row_open_ns),
            four_activates: Ps::from_ns(device.four_activates_ns),
            write: Ps::from_ns(device.write_ns),
            write_through: device.write_through,
            closed_page: device.page == Page::Closed,
            read_burst: Ps::from_ns(device.read_burst_ns),
            write_burst: Ps::from_ns(device.write_burst_ns),
        }
    }
}

/// When the last four rows of a channel were opened.
#[derive(Default)]
pub(super) struct Activates {
    times: [Ps; 4],
    oldest: usize,
    any: usize,
}

impl Activates {
    #[inline]
    fn next(&mut self, ready: Ps, window: Ps) -> Ps {
        let free = self.any >= 4 && window > Ps(0);
        let at = if free { ready.max(self.times[self.oldest] + window) } else { ready };
        self.times[self.oldest] = at;
        self.oldest = (self.oldest + 1) % 4;
        self.any = (self.any + 1).min(4);
        at
    }
}

/// How an access found the row buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowState {
    Hit,
    /// No row was open.
    Miss,
    /// Another row was.
    Conflict,
}

/// A bank.
#[derive(Clone, Copy)]
pub(super) struct Bank {
    row: u64,
    /// Earliest next column command.
    column: Ps,
    /// Earliest closing of the open row; without an open row, earliest opening.
    close: Ps,
}

impl Bank {
    pub(super) const fn new() -> Self {
        Bank { row: CLOSED, column: Ps(0), close: Ps(0) }
    }

    /// When it takes the first command of an access to `row`.
    #[inline]
    pub(super) fn ready(&self, row: u64, straight: bool) -> Ps {
        if straight || self.row == row { self.column } else { self.close }
    }

    /// Opens `row`. Returns when it takes column commands, and how the access found the row buffer.
    #[inline]
    pub(super) fn open(
        &mut self,
        row: u64,
        now: Ps,
        timing: &DeviceTiming,
        activates: &mut Activates,
    ) -> (Ps, RowState) {
        if self.row == row {
            return (now.max(self.column), RowState::Hit);
        }
        let (ready, found) = match self.row {
            CLOSED => (now.max(self.close), RowState::Miss),
            _ => (now.max(self.close) + timing.precharge, RowState::Conflict),
        };
        let activated = activates.next(ready, timing.four_activates);
        self.row = row;
        self.column = activated + timing.activate;
        self.close = activated + timing.row_open;
        (self.column, found)
    }

    /// It is busy with a column command until `column`; its row may close from `close`.
    #[inline]
    pub(super) fn used(&mut self, column: Ps, close: Ps, timing: &DeviceTiming) {
        self.column = self.column.max(column);
        self.close = self.close.max(close);
        if timing.closed_page && self.row != CLOSED {
            self.row = CLOSED;
            self.close += timing.precharge;
        }
    }

    /// It writes to its cells until `end`, past the row buffer.
    #[inline]
    pub(super) fn busy(&mut self, end: Ps) {
        self.column = self.column.max(end);
        self.close = self.close.max(end);
    }
}
