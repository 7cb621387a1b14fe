//! Transactions that are durable in a non-volatile last-level cache: what accesses, evictions, commits and aborts do to
//! the window, the cache, and the log of lines that do not fit into it.

use super::log::LogAfterCut;
use super::nonvolatile::{KeptContents, Nonvolatile};
use super::tracked::{Tracked, drop_version};
use super::window::{Block, Number, PriorWriter, Undone};
use super::{APPLY, Acknowledged, HOME, LogConfig, OLDER, RECORD, Waits};
use crate::Ps;
use crate::hardware::Hardware;
use crate::mechanism::Mutant;
use crate::mechanism::{
    Accessed, Effect, HeldVersion, Home, Leaving, Mechanism, Moments, Verdict, Version, VictimRule,
};
use perdura_memory::{HardwareAbort, HardwareTicket};
use std::ops::Range;

/// Settings of such a mechanism.
#[derive(Clone, Debug)]
pub(in crate::mechanism) struct CachingSettings {
    /// Transactions of a window.
    pub(in crate::mechanism) degree: u64,
    /// Time of a write to the cache, and how many writes can overlap.
    pub(in crate::mechanism) write_ns: f64,
    pub(in crate::mechanism) banks: usize,
    /// Whether contents that a transaction overwrites stay in the cache too; otherwise they go home first.
    pub(in crate::mechanism) keeps_older: bool,
    /// Blocks of the cache that there is room for.
    pub(in crate::mechanism) slots: u64,
    pub(in crate::mechanism) log: LogConfig,
    pub(in crate::mechanism) left_out: Option<Mutant>,
}

/// The mechanism.
pub(in crate::mechanism) struct Caching {
    settings: CachingSettings,
    tracked: Tracked,
    cache: Nonvolatile,
    /// Transactions below this number have their commit bits.
    recorded: Number,
    /// When the last of these bits is durable.
    persisted: Ps,
    /// When the last window's logged lines are home.
    home: Ps,
    /// When programs go on.
    over: Ps,
    stalled: Ps,
    older: u64,
    older_home: u64,
}

impl CachingSettings {
    /// Its own lines, divided into those of the cache and those of the log.
    pub(in crate::mechanism) fn places(&self, own: &Range<u64>) -> (Range<u64>, Range<u64>) {
        let middle = own.start + Nonvolatile::lines(self.slots);
        (own.start..middle, middle..own.end)
    }

    /// The number of its own lines.
    pub(in crate::mechanism) fn lines(&self) -> u64 {
        Nonvolatile::lines(self.slots) + super::LogArea::lines(self.log.area_bytes)
    }
}

impl Caching {
    pub(in crate::mechanism) fn new(
        settings: CachingSettings,
        hardware: &mut Hardware,
        own: &Range<u64>,
    ) -> Self {
        let (cache, log) = settings.places(own);
        let tracked = Tracked::new(settings.log.clone(), settings.left_out, hardware, &log);
        // Uncommitted lines may not leave the cache while there is anything else (Kiln).
        let last = hardware.config().caches.len() - 1;
        let rule = VictimRule { lines: 0, versions: 1, marked: 2, oldest_version: true };
        hardware.caches().set_victim_rule(last, rule);
        Caching {
            cache: Nonvolatile::new(&cache, Ps::from_ns(settings.write_ns), settings.banks),
            recorded: tracked.next(),
            settings,
            tracked,
            persisted: Ps::default(),
            home: Ps::default(),
            over: Ps::default(),
            stalled: Ps::default(),
            older: 0,
            older_home: 0,
        }
    }

    /// A store of the running transaction.
    fn store(&mut self, hardware: &mut Hardware, access: &Accessed<'_>) -> Effect {
        let Some(met) = self.tracked.meet(hardware, access) else { return Effect::Lost };
        if met == PriorWriter::Own {
            return Effect::Happens;
        }
        let line = access.line;
        hardware.caches().mark(line);
        if let PriorWriter::Version(writer) = met {
            self.tracked.keep_version(hardware, access, writer);
        }
        match self.cache.kept(line) {
            Some(kept) if self.tracked.window.place(line).is_none() => {
                self.older += 1;
                let last = hardware.config().caches.len() - 1;
                if self.tracked.leaves_out(OLDER) {
                    let now = hardware.now();
                    self.cache.give_up(hardware, line, now);
                } else if !(self.settings.keeps_older
                    && hardware.put_version(access.core, last, line, Version(kept.number)))
                {
                    self.send_home(hardware, line);
                }
            }
            None if met == PriorWriter::New => self.tracked.save_before(hardware, access),
            _ => {}
        }
        Effect::Happens
    }

    /// Sends the committed contents of a line that the cache keeps home, past newer contents in the caches.
    fn send_home(&mut self, hardware: &mut Hardware, line: u64) {
        let Some(kept) = self.cache.kept(line) else { return };
        self.older_home += 1;
        if self.log_kept(hardware, line, kept) {
            return;
        }
        let home = hardware.write_home("older contents", line, kept.words, kept.committed);
        self.give_up(hardware, line, home);
    }

    /// The kept contents of a line are home at `home`, and are given up. Not before the log head that is on its way is
    /// durable: until then recovery still reads blocks that this head makes dead, and must find newer contents than an
    /// older such block of this line.
    fn give_up(&mut self, hardware: &mut Hardware, line: u64, home: Ps) {
        let dead = self.tracked.log.moved();
        self.cache.give_up(hardware, line, home.max(dead));
    }

    /// Moves the kept contents of a line into the log, if they are of this window and the log is not empty: otherwise
    /// recovery might overwrite the line at home with an earlier transaction's block in the log.
    fn log_kept(&mut self, hardware: &mut Hardware, line: u64, kept: KeptContents) -> bool {
        let log = &self.tracked.log;
        if log.is_empty() || kept.number < log.head().first {
            return false;
        }
        let durable = self.tracked.log_again(hardware, line, kept.number, kept.words);
        self.cache.give_up(hardware, line, durable);
        true
    }

    /// Writes committed transactions' lines into the cache, and then their commit bits. Returns when the bits are
    /// durable.
    fn persist(&mut self, hardware: &mut Hardware) -> Ps {
        let now = hardware.now();
        let (mut from, mut last) = (now, now);
        // By line, as the blocks.
        let mut settled: Vec<(u64, KeptContents)> = Vec::new();
        for block in self.tracked.window.unlogged() {
            from += hardware.cycles(self.settings.log.block_cycles);
            let Block { line, writer, words } = block;
            let words = words.unwrap_or_else(|| hardware.visible_line(line));
            let moves = self.is_nearer(hardware, writer, line);
            let written = self.cache.write(hardware, (line, words), writer, (from, moves));
            if let Some((kept, durable)) = written {
                self.tracked.window.logged(&block, None);
                last = last.max(durable);
                settled.push((line, kept));
            } else {
                self.tracked.append(hardware, &block, from);
            }
        }
        // Commit bits replace dependency pairs and counts.
        self.tracked.window.take_pairs();
        self.tracked.log.seal(hardware, from);
        let below = self.tracked.window.committed();
        if below == self.recorded {
            return self.persisted.max(last);
        }
        let whole =
            if self.tracked.leaves_out(RECORD) { now } else { self.tracked.log.durable(last) };
        // Another core's clock may be ahead: these bits must follow those that it has written. They must also follow
        // the last window's lines, since the head written here makes that window's log dead.
        let home = if self.tracked.leaves_out(HOME) { now } else { self.home };
        let durable = whole.max(self.persisted).max(home) + self.cache.write_time();
        self.persisted = durable;
        self.tracked.log.record_kept(hardware, below, durable);
        self.recorded = below;
        self.tracked.announce(durable);
        hardware.caches().retain_versions(|held| {
            let at = settled.binary_search_by_key(&held.line, |(line, _)| *line);
            at.is_err() || at.is_ok_and(|at| held.version.0 > settled[at].1.number)
        });
        for (line, kept) in settled {
            self.cache.settle(hardware, line, kept, durable);
        }
        durable
    }

    /// Whether a cache nearer to the core than the last one has the line.
    fn is_nearer(&self, hardware: &mut Hardware, writer: Number, line: u64) -> bool {
        let core = self.tracked.window.transaction(writer).core;
        let last = hardware.config().caches.len() - 1;
        let caches = hardware.caches();
        (0..last).any(|level| caches.contains(core, level, line))
    }

    /// Ends the window: its transactions become durable, and their logged lines go home. Sets when the next window may
    /// begin.
    fn end(&mut self, hardware: &mut Hardware, skipped: u64) {
        let durable = self.persist(hardware);
        let mut home = durable;
        let lines = self.tracked.window.lines();
        self.tracked.on_way.forget(hardware.now());
        for (line, at) in lines {
            hardware.caches().unmark(line);
            let Some(at) = at else { continue };
            let from = durable.max(hardware.read_home_in_background(at));
            self.tracked.on_way.add(line, at, from);
            hardware.caches().write_back(0, line, true);
            let words = hardware.visible_line(line);
            let there = hardware.write_through("line in place", line, words, from);
            if let Some(kept) = self.cache.kept(line) {
                drop_version(hardware, line, kept.number);
            }
            // The log must stay valid until no older contents of the line are in the cache.
            home = home.max(self.cache.give_up(hardware, line, there));
            self.tracked.counts.home += 1;
        }
        self.home = self.home.max(home);
        let dead = if self.tracked.log.is_empty() && skipped == 0 {
            self.tracked.counts.windows += 1;
            self.tracked.window.close(0);
            home
        } else {
            let dead = self.tracked.end(hardware, home, skipped);
            self.recorded = self.tracked.next();
            dead
        };
        self.over = match self.settings.log.acknowledged {
            _ if skipped > 0 => dead,
            Acknowledged::Truncated => dead,
            Acknowledged::Home => home,
            Acknowledged::Logged => durable,
        };
    }

    fn undo(&mut self, hardware: &mut Hardware) {
        self.tracked.counts.aborted += 1;
        self.tracked.too_large = false;
        let (undone, logged) = self.tracked.window.abort();
        for Undone { line, words, version } in undone {
            hardware.restore_line(line, words);
            if !self.tracked.window.has(line) {
                hardware.caches().unmark(line);
            }
            let cached = hardware.caches().anywhere(line);
            match (version, self.cache.kept(line)) {
                // The line, restored, takes the version's place: it is still to be written.
                (Some(writer), _) if cached => drop_version(hardware, line, writer),
                (Some(writer), _) => self.tracked.rescue(hardware, (line, words), writer),
                (None, Some(kept)) if self.tracked.window.place(line).is_none() => {
                    drop_version(hardware, line, kept.number);
                    if !cached {
                        self.send_home(hardware, line);
                    }
                }
                (None, _) => hardware.caches().drop_line(line),
            }
        }
        if logged {
            self.end(hardware, 1);
        }
    }
}

impl Mechanism for Caching {
    fn moments(&self) -> Moments {
        Moments::STORE | Moments::FILL | Moments::EVICTION | Moments::CACHES
    }

    fn accessed(&mut self, hardware: &mut Hardware, access: &Accessed<'_>) -> Effect {
        if self.tracked.is_its_store(access) {
            self.store(hardware, access)
        } else {
            Effect::Happens
        }
    }

    fn filled(&mut self, hardware: &mut Hardware, _: usize, line: u64) -> u64 {
        self.tracked.source(hardware, line)
    }

    fn displaced(&mut self, hardware: &mut Hardware, version: &HeldVersion) {
        let kept = self.cache.kept(version.line);
        if !self.tracked.move_version(hardware, version)
            && kept.is_some_and(|kept| Version(kept.number) == version.version)
        {
            self.send_home(hardware, version.line);
        }
    }

    fn evicted(&mut self, hardware: &mut Hardware, leaving: &Leaving) -> Verdict {
        let line = leaving.line;
        match self.tracked.window.evict(line) {
            Some(Some(block)) => return self.tracked.spill(hardware, leaving, block),
            Some(None) if self.tracked.window.place(line).is_some() => {
                return Verdict::Hold(leaving.from);
            }
            _ => {}
        }
        let Some(kept) = self.cache.kept(line) else { return Verdict::Allow };
        let words = leaving.words;
        if self.log_kept(hardware, line, KeptContents { words, ..kept }) {
            return Verdict::Hold(leaving.from);
        }
        // Not before its transaction is durable: its commit bit may be on its way.
        let from = leaving.from.max(kept.committed);
        let home = hardware.write_through("line of the cache", line, leaving.words, from);
        self.give_up(hardware, line, home);
        Verdict::Hold(home)
    }

    fn begin(&mut self, hardware: &mut Hardware, core: usize) -> Result<(), HardwareAbort> {
        self.tracked.may_begin(core)?;
        if self.tracked.len() > 0 && self.tracked.is_full() {
            self.end(hardware, 0);
        }
        self.stalled += self.over.since(hardware.now());
        hardware.wait_until(core, self.over);
        self.tracked.window.begin(core);
        Ok(())
    }

    fn commit(
        &mut self,
        hardware: &mut Hardware,
        core: usize,
    ) -> Result<HardwareTicket, HardwareAbort> {
        if self.tracked.window.running() != Some(core) {
            return Err(HardwareAbort::Nested);
        }
        if self.tracked.too_large {
            self.undo(hardware);
            if self.tracked.len() > 0 {
                // When it runs again, it may fit alone.
                self.end(hardware, 0);
            }
            return Err(HardwareAbort::Capacity);
        }
        if self.tracked.commit(hardware) && self.tracked.len() as u64 >= self.settings.degree {
            self.end(hardware, 0);
            if self.settings.log.waits == Waits::Commit {
                self.stalled += self.over.since(hardware.now());
                hardware.wait_until(core, self.over);
            }
        }
        Ok(self.tracked.ticket())
    }

    fn abort(&mut self, hardware: &mut Hardware, core: usize) -> bool {
        let runs = self.tracked.window.running() == Some(core);
        if runs {
            self.undo(hardware);
        }
        runs
    }

    fn flush(&mut self, hardware: &mut Hardware, core: usize) {
        if self.tracked.window.committed() > self.recorded {
            self.persist(hardware);
        }
        hardware.wait_until(core, self.tracked.last_durable());
    }

    fn durable(&mut self, hardware: &mut Hardware) -> HardwareTicket {
        HardwareTicket(self.tracked.known(hardware.now()))
    }

    fn start_measuring(&mut self) {
        self.tracked.start_measuring();
        (self.cache.writes, self.older, self.older_home) = (0, 0, 0);
        self.stalled = Ps::default();
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let mut figures = self.tracked.figures();
        figures.extend([
            ("cache_writes", self.cache.writes),
            ("older_contents", self.older),
            ("older_contents_home", self.older_home),
            ("stalled_ns", self.stalled.as_ns() as u64),
        ]);
        figures
    }
}

/// Brings home the lines, in the cache and in the log, of transactions that have their commit bits.
pub(in crate::mechanism) fn recover_cache(home: &mut Home<'_>, settings: &CachingSettings) {
    let (cache, log) = settings.places(&home.own());
    let found = LogAfterCut::new(home, &log);
    let head = found.head;
    let kept = Nonvolatile::found(home, &cache, (head.kept, head.recorded));
    // Within one transaction, contents in the cache are newer than those in the log.
    let mut all: Vec<_> = kept.into_iter().map(|(n, line, at)| (n, usize::MAX, line, at)).collect();
    for (index, (tag, at)) in found.blocks.iter().enumerate() {
        let number = head.first + u64::from(tag.id.wrapping_sub(head.first as u8));
        if !tag.pairs && number < head.recorded {
            all.push((number, index, u64::from(tag.line), *at));
        }
    }
    all.sort_unstable();
    if settings.left_out == Some(APPLY) {
        all.pop();
    }
    for (_, _, line, at) in all {
        let words = home.line(at);
        home.put(line, &words);
    }
    found.truncate(home, head.first.max(head.recorded) + super::recover::VALID);
}
