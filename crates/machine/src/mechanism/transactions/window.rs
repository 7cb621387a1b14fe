//! The speculation window (LOC 3.3, 4.2): which transactions are in it, which lines they have written, and where the
//! contents of these lines are. It knows no time and no hardware: it returns to the caller what must be done.
//!
//! What always holds:
//! - At most one transaction runs, the newest of the window; the others have committed, in the order of their
//!   numbers.
//! - The newest contents of a line that the window has written are its writer's. Only while the writer runs are older
//!   contents kept, those of the previous writer: once a later transaction has committed, an earlier one's contents are
//!   never needed again (LOC 3.3).
//! - A transaction's contents of a line are a *block*. It is in the caches, persistent (in the log, or in a
//!   non-volatile cache), or overlapped, once a later transaction of the window that has overwritten it has committed.
//!   `blocks` counts all three, `left` those in the caches: `blocks - left` are persistent or overlapped.

use crate::by_number::ByNumber;
use perdura_memory::image::LineWords;
use std::collections::BTreeMap;

/// A transaction's number; its `TxID` is the lowest eight bits of it.
pub(super) type Number = u64;

/// A transaction of the window: an entry of the transaction state table.
#[derive(Clone, Debug, Default)]
pub(super) struct Transaction {
    pub(super) core: usize,
    pub(super) committed: bool,
    /// `TxCnt`: its blocks so far. A line stored to again after it was logged counts once more.
    pub(super) blocks: u64,
    /// Its blocks that are neither logged nor overlapped.
    pub(super) left: u64,
    /// Its blocks that a later transaction has overlapped: `<this, later, n>`; only pairs not logged yet.
    pub(super) pairs: BTreeMap<Number, u64>,
    /// The lines that it has written, in the order of its first stores, with their contents before these.
    lines: Vec<(u64, LineWords)>,
}

/// Where some contents of a line are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ContentsPlace {
    writer: Number,
    /// Whether they are still to be logged (`TxDirty`).
    dirty: bool,
    /// The line of the log with the newest logged contents of it.
    at: Option<u64>,
}

/// A line that transactions of the window have written.
#[derive(Clone, Debug)]
struct WrittenLine {
    newest: ContentsPlace,
    /// Its contents when its writer, which runs, first stored to it, if another transaction of the window wrote those.
    older: Option<(ContentsPlace, LineWords)>,
}

/// Which transaction of the window has written the line of a store before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PriorWriter {
    /// No transaction of the window has written the line.
    New,
    /// This one has.
    Own,
    /// An earlier one has; its contents are in the log.
    Logged,
    /// An earlier one has; its contents are only in the caches, and become a version.
    Version(Number),
}

/// A block to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) line: u64,
    pub(super) writer: Number,
    /// Its contents, if they differ from the visible contents of the line.
    pub(super) words: Option<LineWords>,
}

/// A line of an aborted transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Undone {
    pub(super) line: u64,
    /// Its contents before that transaction's first store.
    pub(super) words: LineWords,
    /// The earlier transaction that wrote those, if they were kept as a version: they must be rescued.
    pub(super) version: Option<Number>,
}

/// The window.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// In the order of their numbers, which have no gaps.
    transactions: Vec<Transaction>,
    /// The number of the first one.
    first: Number,
    lines: ByNumber<WrittenLine>,
    /// The sums of the transactions' `left`, and of their numbers of pairs.
    left: u64,
    pairs: u64,
}

impl Window {
    /// Empty; the next transaction has this number.
    pub(super) fn new(first: Number) -> Self {
        Window { first, ..Window::default() }
    }

    /// Transactions in it, the running one included.
    pub(super) fn len(&self) -> usize {
        self.transactions.len()
    }

    /// The number that the next transaction gets.
    pub(super) fn next(&self) -> Number {
        self.first + self.transactions.len() as u64
    }

    /// Transactions below this number have committed.
    pub(super) fn committed(&self) -> Number {
        self.next() - u64::from(self.running().is_some())
    }

    /// Whether a transaction of it has written a line.
    pub(super) fn has(&self, line: u64) -> bool {
        self.lines.contains_key(&line)
    }

    /// The core of the running transaction.
    pub(super) fn running(&self) -> Option<usize> {
        self.transactions.last().filter(|last| !last.committed).map(|last| last.core)
    }

    pub(super) fn transaction(&self, number: Number) -> &Transaction {
        &self.transactions[(number - self.first) as usize]
    }

    fn transaction_mut(&mut self, number: Number) -> &mut Transaction {
        &mut self.transactions[(number - self.first) as usize]
    }

    /// Blocks that are still to be logged.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// The most pairs to log once the running transaction has committed.
    pub(super) fn most_pairs(&self) -> u64 {
        self.pairs + self.transactions.len() as u64
    }

    /// A core begins a transaction. None may be running.
    pub(super) fn begin(&mut self, core: usize) -> Number {
        debug_assert_eq!(self.running(), None, "one runs at a time");
        self.transactions.push(Transaction { core, ..Transaction::default() });
        self.next() - 1
    }

    /// The running transaction is about to store to a line with the contents `before`.
    pub(super) fn store(&mut self, line: u64, before: LineWords) -> PriorWriter {
        let number = self.next() - 1;
        let dirty = ContentsPlace { writer: number, dirty: true, at: None };
        let (met, adds) = match self.lines.get_mut(&line) {
            None => {
                self.lines.insert(line, WrittenLine { newest: dirty, older: None });
                (PriorWriter::New, true)
            }
            Some(known) if known.newest.writer == number => {
                let adds = !known.newest.dirty;
                known.newest.dirty = true;
                (PriorWriter::Own, adds)
            }
            Some(known) => {
                let older = known.newest;
                // The newest contents in the log are the older ones until this transaction's are logged.
                known.newest = ContentsPlace { at: older.at, ..dirty };
                known.older = Some((older, before));
                (
                    if older.dirty {
                        PriorWriter::Version(older.writer)
                    } else {
                        PriorWriter::Logged
                    },
                    true,
                )
            }
        };
        let transaction = self.transaction_mut(number);
        if adds {
            transaction.blocks += 1;
            transaction.left += 1;
        }
        let lines = &mut transaction.lines;
        if met != PriorWriter::Own {
            lines.push((line, before));
        }
        self.left += u64::from(adds);
        met
    }

    /// A dirty line leaves the caches. `None` if no transaction of the window has written it; otherwise the block to
    /// log, if it is not logged already.
    pub(super) fn evict(&self, line: u64) -> Option<Option<Block>> {
        let newest = self.lines.get(&line)?.newest;
        Some(newest.dirty.then_some(Block { line, writer: newest.writer, words: None }))
    }

    /// A version has left the caches. Returns the block to log, if it is still needed.
    pub(super) fn displaced(&self, line: u64, writer: Number) -> Option<Block> {
        let (older, words) = self.lines.get(&line)?.older.as_ref()?;
        let wanted = older.writer == writer && older.dirty;
        wanted.then_some(Block { line, writer, words: Some(*words) })
    }

    /// The `TxCnt` to log with a block of this transaction: the number of its blocks for the last block of a committed
    /// transaction, otherwise 0.
    pub(super) fn count(&self, writer: Number) -> u64 {
        let transaction = self.transaction(writer);
        let last = transaction.committed && transaction.left == 1;
        if last { transaction.blocks } else { 0 }
    }

    /// A block is persistent: in this line of the log, or (`None`) in a non-volatile cache.
    pub(super) fn logged(&mut self, block: &Block, at: Option<u64>) {
        self.transaction_mut(block.writer).left -= 1;
        self.left -= 1;
        let known = self.lines.get_mut(&block.line).expect("a line of the window");
        match &mut known.older {
            Some((older, _)) if older.writer == block.writer => {
                (older.dirty, older.at) = (false, at);
            }
            _ => (known.newest.dirty, known.newest.at) = (false, at),
        }
    }

    /// A transaction's contents of a line are in this line of the log from now on.
    pub(super) fn moved(&mut self, line: u64, writer: Number, at: u64) {
        let Some(known) = self.lines.get_mut(&line) else { return };
        match &mut known.older {
            Some((older, _)) if older.writer == writer => older.at = Some(at),
            _ if known.newest.writer == writer => known.newest.at = Some(at),
            _ => {}
        }
    }

    /// The line of the log with the newest logged contents of a line, which the home device does not have. Newer
    /// contents may be in the caches.
    pub(super) fn place(&self, line: u64) -> Option<u64> {
        self.lines.get(&line)?.newest.at
    }

    /// Commits the running transaction, whose lines overlap older contents. Returns the versions that the caches need
    /// no longer keep. A transaction that has written nothing leaves the window, and the next one gets its number.
    pub(super) fn commit(&mut self) -> Vec<(u64, Number)> {
        let number = self.next() - 1;
        let index = (number - self.first) as usize;
        if self.transactions[index].blocks == 0 {
            self.transactions.pop();
            return Vec::new();
        }
        self.transactions[index].committed = true;
        let mut versions = Vec::new();
        for (line, _) in std::mem::take(&mut self.transactions[index].lines) {
            let known = self.lines.get_mut(&line).expect("a line of the window");
            let Some((older, _)) = known.older.take() else { continue };
            if older.dirty {
                let earlier = self.transaction_mut(older.writer);
                earlier.left -= 1;
                let n = earlier.pairs.entry(number).or_default();
                *n += 1;
                let new = *n == 1;
                self.left -= 1;
                self.pairs += u64::from(new);
                versions.push((line, older.writer));
            }
        }
        let transaction = &mut self.transactions[index];
        if transaction.left == 0 {
            // All its blocks are logged already, without its `TxCnt`: an empty pair has it.
            transaction.pairs.insert(number, 0);
            self.pairs += 1;
        }
        versions
    }

    /// Aborts the running transaction. Returns its lines, to be restored, and whether some of its blocks are in the
    /// log: then its number stays taken, and those blocks never become a whole transaction.
    pub(super) fn abort(&mut self) -> (Vec<Undone>, bool) {
        let aborted = self.transactions.pop().expect("a transaction that runs");
        self.left -= aborted.left;
        let mut undone = Vec::with_capacity(aborted.lines.len());
        for (line, before) in aborted.lines {
            let known = self.lines.get_mut(&line).expect("a line of the window");
            match known.older.take() {
                None => {
                    self.lines.remove(&line);
                    undone.push(Undone { line, words: before, version: None });
                }
                Some((older, words)) => {
                    known.newest = older;
                    let version = older.dirty.then_some(older.writer);
                    undone.push(Undone { line, words, version });
                }
            }
        }
        (undone, aborted.blocks > aborted.left)
    }

    /// The blocks of committed transactions that are not logged, by line.
    pub(super) fn unlogged(&self) -> Vec<Block> {
        let blocks = self.lines.iter().filter_map(|(&line, known)| match known.older {
            // The line's writer runs.
            Some((older, words)) => {
                older.dirty.then_some(Block { line, writer: older.writer, words: Some(words) })
            }
            None if !self.transaction(known.newest.writer).committed => None,
            None => {
                let writer = known.newest.writer;
                known.newest.dirty.then_some(Block { line, writer, words: None })
            }
        });
        let mut blocks: Vec<Block> = blocks.collect();
        blocks.sort_unstable_by_key(|block| block.line);
        blocks
    }

    /// The pairs that are not logged, of earlier transactions first: `(earlier, later, n)`.
    pub(super) fn take_pairs(&mut self) -> Vec<(Number, Number, u64)> {
        let mut all = Vec::new();
        self.pairs = 0;
        for (earlier, transaction) in (self.first..).zip(&mut self.transactions) {
            let pairs = std::mem::take(&mut transaction.pairs);
            all.extend(pairs.into_iter().map(|(later, n)| (earlier, later, n)));
        }
        all
    }

    /// The lines that it has written, ascending, with the log line of the newest logged contents.
    pub(super) fn lines(&self) -> Vec<(u64, Option<u64>)> {
        let lines = self.lines.iter().map(|(&line, known)| (line, known.newest.at));
        let mut lines: Vec<(u64, Option<u64>)> = lines.collect();
        lines.sort_unstable_by_key(|(line, _)| *line);
        lines
    }

    /// Ends the window; the next one begins empty, after `skipped` numbers left out.
    pub(super) fn close(&mut self, skipped: u64) {
        debug_assert_eq!(self.running(), None, "a transaction runs");
        *self = Window::new(self.next() + skipped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: LineWords = [0; 8];

    /// A transaction that stores to these lines and commits.
    fn commit(window: &mut Window, lines: &[u64]) -> Vec<(u64, Number)> {
        window.begin(0);
        lines.iter().for_each(|line| _ = window.store(*line, [*line; 8]));
        window.commit()
    }

    fn log_all(window: &mut Window) -> Vec<(u64, Number, u64)> {
        let blocks = window.unlogged();
        let log = |block: &Block| {
            let count = window.count(block.writer);
            window.logged(block, Some(100 + block.line));
            (block.line, block.writer, count)
        };
        blocks.iter().map(log).collect()
    }

    /// Figure 5: of four transactions that write A B C D, A E, B C, B C D only the newest contents are logged.
    #[test]
    fn only_the_newest_of_overlapped_writes_are_logged() {
        let mut window = Window::new(7);
        let [a, b, c, d, e] = [1, 2, 3, 4, 5];
        assert_eq!(commit(&mut window, &[a, b, c, d]), []);
        assert_eq!(commit(&mut window, &[a, e]), [(a, 7)]);
        assert_eq!(commit(&mut window, &[b, c]), [(b, 7), (c, 7)]);
        assert_eq!(commit(&mut window, &[b, c, d]), [(b, 9), (c, 9), (d, 7)]);
        assert_eq!(window.left(), 5);
        // Each transaction's last block has its count.
        let logged = log_all(&mut window);
        assert_eq!(logged, [(a, 8, 0), (b, 10, 0), (c, 10, 0), (d, 10, 3), (e, 8, 2)]);
        let pairs = [(7, 8, 1), (7, 9, 2), (7, 10, 1), (9, 10, 2)];
        assert_eq!(window.take_pairs(), pairs);
        assert_eq!((window.take_pairs(), window.left()), (vec![], 0), "they are logged once");
        window.close(0);
        assert_eq!((window.len(), window.next(), window.lines()), (0, 11, vec![]));
    }

    #[test]
    fn abort_restores_versions() {
        let mut window = Window::new(0);
        commit(&mut window, &[1]);
        window.begin(0);
        assert_eq!(window.store(1, [5; 8]), PriorWriter::Version(0));
        assert_eq!(
            (window.store(1, NONE), window.store(2, [6; 8])),
            (PriorWriter::Own, PriorWriter::New)
        );
        assert_eq!(window.displaced(1, 0).expect("it is wanted").words, Some([5; 8]));
        let (undone, logged) = window.abort();
        let rescued = Undone { line: 1, words: [5; 8], version: Some(0) };
        assert_eq!(undone, [rescued, Undone { line: 2, words: [6; 8], version: None }]);
        assert!(!logged);
        assert_eq!((window.next(), window.left()), (1, 1), "its number is the next one's");
        assert_eq!(log_all(&mut window), [(1, 0, 1)]);
    }

    #[test]
    fn evictions_are_logged_once() {
        let mut window = Window::new(0);
        window.begin(0);
        window.store(1, NONE);
        assert_eq!((window.evict(2), window.place(1)), (None, None));
        let block = window.evict(1).flatten().expect("a block");
        assert_eq!(window.count(block.writer), 0, "it runs: how many there will be is not known");
        window.logged(&block, Some(50));
        assert_eq!((window.evict(1), window.place(1)), (Some(None), Some(50)));
        window.store(1, NONE);
        assert_eq!(window.transaction(0).blocks, 2);
        assert_eq!(window.unlogged(), [], "its writer runs");
        window.commit();
        assert_eq!(log_all(&mut window), [(1, 0, 2)]);
        assert_eq!(window.take_pairs(), []);
        // A later one's store finds it in the log: nothing is overlapped, and nothing is kept in the caches.
        window.begin(0);
        assert_eq!(window.store(1, [9; 8]), PriorWriter::Logged);
        assert_eq!((window.commit(), window.take_pairs()), (vec![], vec![]));
        assert_eq!(window.place(1), Some(101), "until it is logged again");
    }

    /// The paper's `TxCnt` goes with a transaction's last block, and here there is none after its commit.
    #[test]
    fn a_transaction_that_is_logged_when_it_commits_has_its_count_too() {
        let mut window = Window::new(0);
        window.begin(0);
        window.store(1, NONE);
        let block = window.evict(1).flatten().expect("a block");
        window.logged(&block, Some(50));
        window.commit();
        assert_eq!(window.take_pairs(), [(0, 0, 0)]);
    }

    #[test]
    fn while_one_runs_what_it_has_overwritten_can_be_logged() {
        let mut window = Window::new(0);
        commit(&mut window, &[1]);
        window.begin(1);
        window.store(1, [3; 8]);
        assert_eq!(log_all(&mut window), [(1, 0, 1)]);
        assert_eq!((window.running(), window.displaced(1, 0)), (Some(1), None));
        assert_eq!(window.commit(), []);
        assert_eq!((window.take_pairs(), log_all(&mut window)), (vec![], vec![(1, 1, 1)]));
    }

    #[test]
    fn readers_have_no_number() {
        let mut window = Window::new(3);
        window.begin(0);
        assert_eq!((window.commit(), window.next(), window.len()), (vec![], 3, 0));
    }
}
