//! How often each line, or block of the media, was written.

use super::stats::WearStats;
use crate::by_number::ByNumber;

const PAGE: u64 = 64;

/// Pages below this one are found without hashing: 4 GiB of lines.
const NEAR: u64 = 1 << 20;
const NONE: u32 = u32::MAX;

/// Counts of writes per unit. Neighbouring units share a page of counters.
pub(super) struct Wear {
    unit_bytes: u64,
    near: Vec<u32>,
    far: ByNumber<u32>,
    counters: Vec<[u32; PAGE as usize]>,
    /// The page looked up last.
    last: (u64, u32),
    written: u64,
    total: u64,
    most: u64,
}

impl Wear {
    pub(super) fn new(unit_bytes: u64) -> Self {
        Wear {
            unit_bytes,
            near: Vec::new(),
            far: ByNumber::default(),
            counters: Vec::new(),
            last: (u64::MAX, 0),
            written: 0,
            total: 0,
            most: 0,
        }
    }

    /// Counts a write of a unit. Returns its writes so far.
    #[inline]
    pub(super) fn count(&mut self, unit: u64) -> u64 {
        let page = unit / PAGE;
        if self.last.0 != page {
            self.last = (page, self.find(page));
        }
        let counter = &mut self.counters[self.last.1 as usize][(unit % PAGE) as usize];
        *counter = counter.saturating_add(1);
        let count = u64::from(*counter);
        self.written += u64::from(count == 1);
        self.total += 1;
        self.most = self.most.max(count);
        count
    }

    /// Where the counters of a page are.
    #[inline]
    fn find(&mut self, page: u64) -> u32 {
        let place = if page < NEAR {
            let page = page as usize;
            if page >= self.near.len() {
                self.near.resize((page + 1).next_power_of_two(), NONE);
            }
            &mut self.near[page]
        } else {
            self.far.entry(page).or_insert(NONE)
        };
        if *place == NONE {
            *place = self.counters.len() as u32;
            self.counters.push([0; PAGE as usize]);
        }
        *place
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Wear::new(self.unit_bytes);
    }

    /// Adds these counts to `stats`. No unit may be in both.
    pub(super) fn add_to(&self, stats: &mut WearStats) {
        let total = stats.mean * stats.written as f64 + self.total as f64;
        stats.unit_bytes = self.unit_bytes;
        stats.written += self.written;
        stats.mean = if stats.written == 0 { 0.0 } else { total / stats.written as f64 };
        stats.most = stats.most.max(self.most);
    }
}
