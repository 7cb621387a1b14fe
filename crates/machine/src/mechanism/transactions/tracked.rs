//! Logged transactions in a running machine: what accesses, evictions, commits and aborts do to the window and the log.

use super::log::{BlockTag, DependencyPair, LeftOut, LogArea, PAIRS_OF_A_BLOCK, TransactionLog};
use super::on_way::OnWay;
use super::window::{Block, Number, PriorWriter, Undone, Window};
use super::{
    Acknowledged, EVICTED, HEAD, LOGGED, LogConfig, METADATA, ONE_LESS, PAIR, TX_STATE_ENTRIES,
    UNDONE, VERSION,
};
use crate::hardware::Hardware;
use crate::mechanism::Mutant;
use crate::mechanism::{Accessed, HeldVersion, How, Leaving, Verdict, Version, VictimRule};
use crate::{Cause, Ps};
use perdura_memory::image::LineWords;
use perdura_memory::{HardwareAbort, HardwareTicket};
use std::collections::VecDeque;
use std::ops::Range;

/// `TxCnt` has sixteen bits.
const MOST_BLOCKS: u64 = u16::MAX as u64;
/// Times of durability that are kept: more than cores' clocks are apart.
const ANNOUNCED: usize = 512;

/// Statistics.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TransactionCounts {
    pub(super) transactions: u64,
    pub(super) aborted: u64,
    pub(super) windows: u64,
    overlapped: u64,
    pub(super) versions: u64,
    pub(super) displaced: u64,
    pub(super) evicted: u64,
    pub(super) rescued: u64,
    pub(super) home: u64,
}

/// A window whose lines are on their way home.
struct Going {
    /// When they are there.
    home: Ps,
    /// The first group of the log behind it, and the first transaction.
    behind: (u64, Number),
}

/// The window, and its log.
pub(in crate::mechanism) struct Tracked {
    pub(in crate::mechanism) config: LogConfig,
    left_out: Option<Mutant>,
    pub(super) window: Window,
    pub(super) log: TransactionLog,
    /// Windows that are acknowledged, and not home yet: the log's head moves behind each when it is.
    going: VecDeque<Going>,
    pub(super) on_way: OnWay,
    /// Times from which all transactions below a number are durable; both ascend.
    durable: VecDeque<(Ps, Number)>,
    /// Transactions below this number were durable before the first of these times.
    known: Number,
    /// The line being stored to, and when. Keeping a version of it may push the line itself out of the caches before
    /// the store has reached it.
    storing: Option<(u64, Ps)>,
    /// The log has no room for the running transaction.
    pub(super) too_large: bool,
    pub(super) counts: TransactionCounts,
}

impl Tracked {
    pub(in crate::mechanism) fn new(
        config: LogConfig,
        left_out: Option<Mutant>,
        hardware: &mut Hardware,
        own: &Range<u64>,
    ) -> Self {
        let order = left_out == Some(METADATA);
        let log = TransactionLog::new(LogArea::new(own), hardware, LeftOut { order });
        for level in 0..hardware.config().caches.len() {
            // Among versions the oldest is replaced first (LOC 3.3); versions and lines have the same rank.
            let rule = VictimRule { oldest_version: true, ..VictimRule::default() };
            hardware.caches().set_victim_rule(level, rule);
        }
        let first = log.head().first;
        Tracked {
            config,
            left_out,
            window: Window::new(first),
            log,
            going: VecDeque::new(),
            on_way: OnWay::default(),
            durable: VecDeque::new(),
            known: first,
            storing: None,
            too_large: false,
            counts: TransactionCounts::default(),
        }
    }

    pub(super) fn leaves_out(&self, mutant: Mutant) -> bool {
        self.left_out == Some(mutant)
    }

    /// Transactions of the window.
    pub(in crate::mechanism) fn len(&self) -> usize {
        self.window.len()
    }

    /// The number that the next transaction gets.
    pub(in crate::mechanism) fn next(&self) -> Number {
        self.window.next()
    }

    /// Whether the window must end, before the log runs out of room.
    pub(in crate::mechanism) fn is_full(&self) -> bool {
        self.log.is_filling()
    }

    /// A store of the running transaction. Returns the line's prior writer, or `None` if the transaction is too large.
    pub(super) fn meet(
        &mut self,
        hardware: &Hardware,
        access: &Accessed<'_>,
    ) -> Option<PriorWriter> {
        // All blocks not logged yet must fit into the log, with pairs and partly filled groups.
        let pairs = self.window.most_pairs().div_ceil(PAIRS_OF_A_BLOCK as u64);
        let needed = self.window.left() + pairs + 8 * super::log::DATA;
        let transaction = self.window.transaction(self.window.next() - 1);
        self.too_large |= self.log.room() <= needed || transaction.blocks >= MOST_BLOCKS;
        if self.too_large {
            return None;
        }
        self.storing = Some((access.line, hardware.now()));
        Some(self.window.store(access.line, access.before))
    }

    /// Keeps an earlier transaction's contents of a line as a version, or logs them.
    pub(super) fn keep_version(
        &mut self,
        hardware: &mut Hardware,
        access: &Accessed<'_>,
        writer: Number,
    ) {
        self.counts.versions += 1;
        if !hardware.put_version(access.core, 0, access.line, Version(writer)) {
            self.log_version(hardware, access.line, writer);
        }
    }

    /// A version must leave its cache: it moves to the next level, or to the log. Returns whether it is one of the
    /// window's.
    pub(super) fn move_version(&mut self, hardware: &mut Hardware, version: &HeldVersion) -> bool {
        let HeldVersion { line, version: Version(writer), level, core } = *version;
        if self.window.displaced(line, writer).is_none() {
            return false;
        }
        let farther = level + 1 < hardware.config().caches.len();
        if !(farther && hardware.put_version(core, level + 1, line, version.version)) {
            self.log_version(hardware, line, writer);
        }
        true
    }

    /// Whether an access is a store of the running transaction.
    pub(super) fn is_its_store(&self, access: &Accessed<'_>) -> bool {
        let stores = access.how != How::Load && !access.stores.is_empty();
        stores && self.window.running() == Some(access.core)
    }

    /// Whether a core may begin a transaction.
    pub(super) fn may_begin(&self, core: usize) -> Result<(), HardwareAbort> {
        match self.window.running() {
            Some(running) if running == core => Err(HardwareAbort::Nested),
            Some(_) => Err(HardwareAbort::Busy),
            None => Ok(()),
        }
    }

    /// Commits the running transaction, and drops versions of its lines. Returns whether it has written anything.
    pub(super) fn commit(&mut self, hardware: &mut Hardware) -> bool {
        let next = self.window.next();
        for (line, writer) in self.window.commit() {
            drop_version(hardware, line, writer);
        }
        let wrote = self.window.next() == next;
        self.counts.transactions += u64::from(wrote);
        wrote
    }

    /// The ticket of the last transaction: it is durable when all below the next one are.
    pub(super) fn ticket(&self) -> HardwareTicket {
        HardwareTicket(self.window.next())
    }

    /// The line that a line is fetched from: of the log, if only that has its contents.
    pub(super) fn source(&self, hardware: &Hardware, line: u64) -> u64 {
        let logged = self.window.place(line).or_else(|| self.on_way.place(line, hardware.now()));
        logged.unwrap_or(line)
    }

    /// When everything announced is durable.
    pub(super) fn last_durable(&self) -> Ps {
        self.durable.back().map_or(Ps::default(), |(time, _)| *time)
    }

    /// Writes the line's contents before the transaction home, if only the caches have them: an abort restores these.
    pub(super) fn save_before(&mut self, hardware: &mut Hardware, access: &Accessed<'_>) {
        if hardware.caches().write_back(access.core, access.line, true) {
            let now = hardware.now();
            hardware.write_through("line before", access.line, access.before, now);
        }
    }

    pub(super) fn log_version(&mut self, hardware: &mut Hardware, line: u64, writer: Number) {
        let Some(block) = self.window.displaced(line, writer) else { return };
        self.counts.displaced += 1;
        if self.leaves_out(VERSION) {
            let now = hardware.now();
            hardware.write_through("version", line, block.words.unwrap_or_default(), now);
        }
        self.append(hardware, &block, hardware.now());
    }

    /// Logs a block.
    pub(super) fn append(&mut self, hardware: &mut Hardware, block: &Block, from: Ps) {
        let words = block.words.unwrap_or_else(|| hardware.visible_line(block.line));
        let tag = BlockTag {
            core: self.window.transaction(block.writer).core as u64,
            id: block.writer as u8,
            count: self.counted(self.window.count(block.writer)),
            line: block.line as u32,
            pairs: false,
        };
        let at = self.log.append(hardware, tag, words, from);
        self.window.logged(block, Some(at));
    }

    /// Logs a block that was persistent elsewhere. Returns when it is durable.
    pub(super) fn log_again(
        &mut self,
        hardware: &mut Hardware,
        line: u64,
        writer: Number,
        words: LineWords,
    ) -> Ps {
        let now = hardware.now();
        let core = self.window.transaction(writer).core as u64;
        let (id, count) = (writer as u8, 0);
        let tag = BlockTag { core, id, count, line: line as u32, pairs: false };
        let at = self.log.append(hardware, tag, words, now);
        self.log.seal(hardware, now);
        self.window.moved(line, writer, at);
        self.log.durable(now)
    }

    /// `TxCnt` as it is logged.
    fn counted(&self, blocks: u64) -> u16 {
        blocks.saturating_sub(u64::from(self.leaves_out(ONE_LESS))) as u16
    }

    /// Logs the blocks of committed transactions that are not logged yet. Returns when all are durable in the log.
    pub(in crate::mechanism) fn persist(&mut self, hardware: &mut Hardware) -> Ps {
        let now = hardware.now();
        let mut from = now;
        for block in self.window.unlogged() {
            from += hardware.cycles(self.config.block_cycles);
            self.append(hardware, &block, from);
        }
        self.log_pairs(hardware, from);
        self.log.seal(hardware, from);
        self.log.durable(now)
    }

    /// Announces that all committed transactions are durable from `time` on, or from when earlier ones are, if that is
    /// later.
    pub(in crate::mechanism) fn announce(&mut self, time: Ps) {
        if !self.has_unannounced() {
            return;
        }
        let (time, below) = (time.max(self.last_durable()), self.window.committed());
        self.durable.push_back((time, below));
        if self.durable.len() > ANNOUNCED {
            self.known = self.durable.pop_front().map_or(self.known, |(_, below)| below);
        }
    }

    /// Whether a transaction has committed since the last [`announce`](Self::announce).
    pub(in crate::mechanism) fn has_unannounced(&self) -> bool {
        self.durable.back().is_none_or(|(_, known)| *known < self.window.committed())
    }

    fn log_pairs(&mut self, hardware: &mut Hardware, from: Ps) {
        let mut pairs = self.window.take_pairs();
        if self.leaves_out(PAIR) {
            pairs.pop();
        }
        for some in pairs.chunks(PAIRS_OF_A_BLOCK) {
            let mut words: LineWords = [0; 8];
            for (word, &(earlier, later, n)) in words.iter_mut().zip(some) {
                self.counts.overlapped += n;
                let count = self.counted(self.window.transaction(earlier).blocks);
                let (earlier, later) = (earlier as u8, later as u8);
                *word = DependencyPair { earlier, later, n: n as u16, count }.word();
            }
            let tag = BlockTag { pairs: true, ..BlockTag::default() };
            self.log.append(hardware, tag, words, from);
        }
    }

    /// Writes, not before `from`, a commit record of all transactions below this number. Returns when it is durable.
    pub(in crate::mechanism) fn record(
        &mut self,
        hardware: &mut Hardware,
        below: Number,
        from: Ps,
    ) -> Ps {
        self.log.record(hardware, below, from)
    }

    /// Writes the window's lines in place, not before `logged`. Returns when they are home.
    fn go_home(&mut self, hardware: &mut Hardware, logged: Ps) -> Ps {
        let now = hardware.now();
        let logged = if self.leaves_out(LOGGED) { now } else { logged };
        let mut home = logged;
        self.on_way.forget(now);
        for (line, at) in self.window.lines() {
            let mut from = logged;
            if let Some(at) = at.filter(|_| !hardware.caches().anywhere(line)) {
                // Only the log has the newest contents.
                from = from.max(hardware.read_home_in_background(at));
            }
            if let Some(at) = at {
                self.on_way.add(line, at, from);
            }
            hardware.caches().write_back(0, line, true);
            let words = hardware.visible_line(line);
            home = home.max(hardware.write_through("line in place", line, words, from));
            self.counts.home += 1;
        }
        home
    }

    /// Ends the window, whose lines are home at `home`: the log is dead. Returns when the head that says so is durable.
    fn truncate(&mut self, hardware: &mut Hardware, home: Ps) -> Ps {
        self.end(hardware, home, 0)
    }

    /// Ends the window, which is durable in the log from `logged` on, as the configuration has it. Returns when programs
    /// go on.
    pub(in crate::mechanism) fn finish(&mut self, hardware: &mut Hardware, logged: Ps) -> Ps {
        let home = self.go_home(hardware, logged);
        match self.config.acknowledged {
            Acknowledged::Truncated => self.truncate(hardware, home),
            Acknowledged::Home => {
                self.truncate(hardware, home);
                home
            }
            Acknowledged::Logged => {
                self.leave_behind(hardware, home);
                logged
            }
        }
    }

    /// Ends the window, whose lines will be home at `home`: then the log's head moves.
    fn leave_behind(&mut self, hardware: &mut Hardware, home: Ps) {
        if self.leaves_out(HEAD) {
            self.truncate(hardware, home);
            return;
        }
        self.counts.windows += 1;
        self.window.close(0);
        // Windows are home in their order.
        let home = self.going.back().map_or(home, |last| home.max(last.home));
        self.going.push_back(Going { home, behind: (self.log.end(), self.window.next()) });
        hardware.schedule(home, 0);
    }

    /// The log's head moves behind the windows that are home at `now`.
    pub(super) fn retire(&mut self, hardware: &mut Hardware, now: Ps) {
        let home = self.going.partition_point(|one| one.home <= now);
        if let Some(last) = self.going.drain(..home).next_back() {
            self.log.truncate_before(hardware, last.behind, last.home);
        }
    }

    /// A core is about to begin a transaction of a window of `degree`: it waits while the numbers that are valid at a
    /// time, or half of the log, are taken by windows that are on their way home.
    pub(in crate::mechanism) fn wait_for_room(
        &mut self,
        hardware: &mut Hardware,
        core: usize,
        degree: u64,
    ) {
        let last = self.window.next() + degree.saturating_sub(self.window.len() as u64);
        loop {
            let (first, later) = self.log.dead(hardware.now());
            let numbers = last.saturating_sub(first) <= TX_STATE_ENTRIES;
            if numbers && (self.going.is_empty() || !self.is_full()) {
                return;
            }
            let Some(next) = self.going.front().map(|one| one.home).or(later) else { return };
            hardware.wait_until(core, next);
            self.retire(hardware, next);
        }
    }

    /// The log's head moves behind all windows that are on their way home, once they are.
    pub(in crate::mechanism) fn retire_all(&mut self, hardware: &mut Hardware) {
        if let Some(last) = self.going.drain(..).next_back() {
            self.log.truncate_before(hardware, last.behind, last.home);
        }
    }

    pub(super) fn end(&mut self, hardware: &mut Hardware, home: Ps, skipped: u64) -> Ps {
        self.counts.windows += 1;
        self.window.close(skipped);
        let home = self.going.drain(..).map(|one| one.home).fold(home, Ps::max);
        let from = if self.leaves_out(HEAD) { hardware.now() } else { home };
        let dead = self.log.truncate(hardware, self.window.next(), from);
        if skipped > 0 {
            // No program waits for an aborted transaction.
            self.announce(dead);
        }
        dead
    }

    /// Undoes the running transaction. If it has left blocks in the log, the window ends; returns when that is over.
    pub(super) fn undo(&mut self, hardware: &mut Hardware) -> Option<Ps> {
        self.counts.aborted += 1;
        self.too_large = false;
        let (undone, logged) = self.window.abort();
        for Undone { line, words, version } in undone {
            hardware.restore_line(line, words);
            match version {
                // The caches fetch the old contents again, from home or from the log.
                None => hardware.caches().drop_line(line),
                Some(writer) => self.rescue(hardware, (line, words), writer),
            }
        }
        logged.then(|| {
            let durable = self.persist(hardware);
            self.announce(durable);
            let home = self.go_home(hardware, durable);
            // Recovery stops at its number until the head makes its blocks dead.
            self.end(hardware, home, 1)
        })
    }

    /// Logs an earlier transaction's contents of a line at once (LOC 3.3).
    pub(super) fn rescue(
        &mut self,
        hardware: &mut Hardware,
        (line, words): (u64, LineWords),
        writer: Number,
    ) {
        drop_version(hardware, line, writer);
        self.counts.rescued += 1;
        let block = Block { line, writer, words: Some(words) };
        if self.leaves_out(UNDONE) {
            // The mutant: counted as logged.
            return self.window.logged(&block, None);
        }
        self.append(hardware, &block, hardware.now());
    }

    /// A dirty line leaves the caches.
    pub(super) fn evict(&mut self, hardware: &mut Hardware, leaving: &Leaving) -> Verdict {
        match self.window.evict(leaving.line) {
            None => Verdict::Allow,
            Some(Some(block)) => self.spill(hardware, leaving, block),
            // The log has it.
            Some(None) => Verdict::Hold(leaving.from),
        }
    }

    /// A block of a transaction leaves the caches: it is logged.
    pub(super) fn spill(
        &mut self,
        hardware: &mut Hardware,
        leaving: &Leaving,
        block: Block,
    ) -> Verdict {
        self.counts.evicted += u64::from(leaving.cause == Cause::Eviction);
        let block = Block { words: Some(leaving.words), ..block };
        self.append(hardware, &block, leaving.from);
        let stores = self.storing == Some((leaving.line, hardware.now()));
        if stores && leaving.cause == Cause::Eviction {
            // The logged contents are those before the store, which will be logged once more.
            self.window.store(leaving.line, leaving.words);
        }
        if self.leaves_out(EVICTED) { Verdict::Allow } else { Verdict::Hold(leaving.from) }
    }

    /// Whatever its figures count is counted from here on.
    pub(super) fn start_measuring(&mut self) {
        self.counts = TransactionCounts::default();
        (self.log.blocks, self.log.metadata) = (0, 0);
    }

    /// The statistics.
    pub(super) fn figures(&self) -> Vec<(&'static str, u64)> {
        let Tracked { counts, log, .. } = self;
        vec![
            ("transactions", counts.transactions),
            ("aborted", counts.aborted),
            ("windows", counts.windows),
            ("log_blocks", log.blocks),
            ("log_metadata_blocks", log.metadata),
            ("overlapped_blocks", counts.overlapped),
            ("versions", counts.versions),
            ("displaced_versions", counts.displaced),
            ("evicted_blocks", counts.evicted),
            ("rescued_blocks", counts.rescued),
            ("lines_in_place", counts.home),
        ]
    }

    /// All transactions below this number are durable at `now`, which may be before the time of an earlier call by a
    /// core whose clock is ahead.
    pub(super) fn known(&self, now: Ps) -> Number {
        let count = self.durable.partition_point(|(time, _)| *time <= now);
        count.checked_sub(1).map_or(self.known, |last| self.durable[last].1)
    }
}

/// Drops a version from any core's cache.
pub(super) fn drop_version(hardware: &mut Hardware, line: u64, writer: Number) {
    hardware.caches().drop_version_everywhere(line, Version(writer));
}
