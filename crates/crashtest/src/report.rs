//! Reports: counts, and coverage by call site; and the progress shown meanwhile.

use perdura::Counters;
use perdura_machine::{CallSite, Event, Sites};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The progress of an exploration, for other threads to watch, and a request to stop it.
#[derive(Debug, Default)]
pub struct Watcher {
    /// Images checked.
    pub images: AtomicU64,
    /// Crash points so far.
    pub points: AtomicU64,
    /// Set to stop early.
    pub stop: AtomicBool,
    /// It stops once so many images are checked; 0: never.
    pub images_max: u64,
}

impl Watcher {
    /// Whether it should stop.
    pub fn is_stopped(&self) -> bool {
        let enough = || self.images.load(Ordering::Relaxed) >= self.images_max;
        self.stop.load(Ordering::Relaxed) || self.images_max > 0 && enough()
    }
}

/// How far one call site was explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Events there.
    pub met: u64,
    /// Crash points there.
    pub cuts: u64,
    /// Images checked at those.
    pub images: u64,
}

/// The counts of an exploration.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Images recovered and checked.
    pub images: u64,
    /// Of these, images of a recovered pool whose power was cut again, or during recovery.
    pub again: u64,
    /// Of these, images with lost deferred lines that were restored from checksums.
    pub corrected: u64,
    /// Of these, images with lost deferred lines for which the pool was refused.
    pub lost: u64,
    /// Processes that died instead of a power cut, and were followed by another one.
    pub deaths: u64,
    /// Of these, with a mechanism in hardware, images cut at an arrival.
    pub at_arrivals: u64,
    /// With a mechanism, images whose recovery was cut short, too.
    pub in_recovery: u64,
    /// With a mechanism, images whose memory differed from its initial contents.
    pub moved_on: u64,
    /// Images that were the same as one checked before.
    pub seen: u64,
    /// Images that differ from a checked one only in words that recovery and checks never read.
    pub unread: u64,
    /// Crash points: one run, one event each.
    pub points: u64,
    /// Events of the runs.
    pub events: u64,
    /// Crash points of which every combination of line states was checked.
    pub exhausted: u64,
    /// Combinations of line states that the model allows at the crash points, and how many were checked, counting those
    /// that cannot be told apart, as far as they were looked at.
    pub possible: f64,
    /// Runs.
    pub lives: u64,
    /// The engine's counts of the runs.
    pub counters: Counters,
    /// Call sites.
    pub sites: Sites,
    /// The counts of each.
    pub coverage: BTreeMap<CallSite, Coverage>,
    /// Crash points that differ in the call site, in the durable lines, or in those that could be: a hash for each.
    pub distinct: HashSet<u64>,
}

impl Report {
    /// Adds another report.
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
        self.counters += other.counters;
        self.sites.add(&other.sites);
        for (site, coverage) in &other.coverage {
            let sum = self.coverage.entry(site.clone()).or_default();
            sum.met += coverage.met;
            sum.cuts += coverage.cuts;
            sum.images += coverage.images;
        }
        self.distinct.extend(&other.distinct);
    }

    /// Records the call sites that a run met.
    pub(crate) fn meet(&mut self, sites: &Sites) {
        self.sites.add(sites);
        for (site, (_, count)) in sites.all() {
            self.coverage.entry(site).or_default().met += count;
        }
    }

    /// Records a crash point after an event.
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
