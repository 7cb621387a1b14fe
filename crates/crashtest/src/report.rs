//! What was explored: counts, and coverage by call site.

use perdura_machine::{CallSite, Event, Sites};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// How far one call site was explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Events there.
    pub met: u64,
    /// Events after which the power was cut.
    pub cuts: u64,
    /// Images checked of those cuts.
    pub images: u64,
}

/// What was explored.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Images recovered and checked.
    pub images: u64,
    /// Of these, images of a recovered pool that was cut again, recovery included.
    pub again: u64,
    /// Of these, images of which lines that had been left to the caches were lost, and restored
    /// from checksums.
    pub corrected: u64,
    /// Of these, images of which such lines were lost, and the pool was refused for it.
    pub lost: u64,
    /// Processes that died in the place of a power cut, and were followed by another one.
    pub deaths: u64,
    /// Of these, with a mechanism in hardware, images of a cut at what arrives by itself.
    pub at_arrivals: u64,
    /// And images of which its recovery was cut, too.
    pub in_recovery: u64,
    /// And images of which memory was not as it was at first.
    pub moved_on: u64,
    /// Images that were the same as one checked before.
    pub seen: u64,
    /// Images that differ from one checked before only in what recovery and checks never read.
    pub unread: u64,
    /// Cuts: one run, one event each.
    pub points: u64,
    /// Events of the runs.
    pub events: u64,
    /// Cuts of which every combination of line states was covered.
    pub exhausted: u64,
    /// Combinations of line states that the model allows at the cuts, and how many were covered,
    /// counting those that cannot be told apart, as far as they were looked at.
    pub possible: f64,
    /// Runs.
    pub lives: u64,
    /// Call sites.
    pub sites: Sites,
    /// What was explored of each.
    pub coverage: BTreeMap<CallSite, Coverage>,
    /// Cuts that differ in the call site, in what was durable, or in the lines that could be: a
    /// number for each.
    pub distinct: HashSet<u64>,
}

impl Report {
    /// Adds another's.
    pub fn add(&mut self, other: &Report) {
        self.images += other.images;
        self.again += other.again;
        self.corrected += other.corrected;
        self.lost += other.lost;
        self.deaths += other.deaths;
        self.at_arrivals += other.at_arrivals;
        self.in_recovery += other.in_recovery;
        self.moved_on += other.moved_on;
        self.seen += other.seen;
        self.unread += other.unread;
        self.points += other.points;
        self.events += other.events;
        self.exhausted += other.exhausted;
        self.possible += other.possible;
        self.lives += other.lives;
        self.sites.add(&other.sites);
        for (site, coverage) in &other.coverage {
            let sum = self.coverage.entry(site.clone()).or_default();
            sum.met += coverage.met;
            sum.cuts += coverage.cuts;
            sum.images += coverage.images;
        }
        self.distinct.extend(&other.distinct);
    }

    /// Notes the call sites that a run met.
    pub(crate) fn meet(&mut self, sites: &Sites) {
        self.sites.add(sites);
        for (site, (_, count)) in sites.all() {
            self.coverage.entry(site).or_default().met += count;
        }
    }

    /// Notes a cut after an event.
    pub(crate) fn cut(&mut self, event: &Event, images: u64) {
        self.points += 1;
        let coverage = self.coverage.entry(CallSite::of(event.kind, event.site)).or_default();
        coverage.cuts += 1;
        coverage.images += images;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { images, again, deaths, seen, unread, points, lives, events, .. } = self;
        write!(
            f,
            "{images} images checked, {again} of them of pools that were opened again after a cut \
             or one of {deaths} deaths of a process; {seen} were the same as others, {unread} differ \
             only in what is not read; {points} cuts of {events} events in {lives} runs"
        )?;
        if self.corrected + self.lost > 0 {
            let Report { corrected, lost, .. } = self;
            write!(f, "; {corrected} had lost lines restored, {lost} were refused for lost lines")?;
        }
        Ok(())
    }
}
