//! A checkpoint, from an epoch's end until its number is durable, in the time of nobody.
//!
//! Pages take turns. A page of which a program's line comes into DRAM or leaves it, or which is fetched again, has its turn
//! at once: so DRAM has one version of each line, and nothing is read from a place before it is written there.

use super::controller::{Checkpoint, DirtyLines, Stage, ThyNvmController, WaitingPage};
use super::mutants::{AS_OF, DATA, ENTRY, FREE, MAPPING, MOVE, NUMBER, STALL, STANDBY};
use super::tables::{ENTRIES, block_word, page_word};
use crate::Ps;
use crate::by_number::ByNumber;
use crate::hardware::Hardware;
use crate::mechanism::epoch_number;

impl ThyNvmController {
    /// The epoch's lines are in DRAM: what they are, and where they will go.
    pub(super) fn begin(&mut self, hardware: &mut Hardware, home: Ps) {
        let mut pages = ByNumber::<WaitingPage>::default();
        for block in hardware.dirty_blocks() {
            for (line, words) in hardware.take_dirty(block) {
                let still = DirtyLines::after(hardware, line, Some(block));
                let (to, copies) = self.assign(line, &still);
                let page = pages.entry(self.layout.page_of(line) as u64).or_default();
                page.ready = page.ready.max(block.ready);
                page.lines.push((line, words, to));
                page.copies.extend(copies);
            }
        }
        self.switch();
        self.move_home(&mut pages);
        let changed = self.places.begin();
        if self.design.leaves_out(FREE) {
            self.places.replace_last(&changed);
        }
        let mut turns: Vec<u64> = pages.keys().copied().collect();
        turns.sort_unstable();
        let durable = home.max(hardware.all_durable());
        self.checkpoint = Some(Checkpoint {
            epoch: self.epoch,
            stage: Stage::Lines,
            turns: turns.into(),
            pages,
            durable,
            changed,
        });
        self.epoch += 1;
        self.tickets.ends();
        self.next_step.schedule(hardware, home);
    }

    /// Blocks that the epoch has not written go home if the table is nearly full.
    fn move_home(&mut self, pages: &mut ByNumber<WaitingPage>) {
        let least = (self.design.config.moves_when_free * self.layout.entries as f64) as u64;
        if self.places.free() >= least {
            return;
        }
        for copy in self.places.move_home(self.epoch, 2 * least - self.places.free()) {
            self.counts.moved += 1;
            if !self.design.leaves_out(MOVE) {
                pages.entry(self.layout.page_of(copy.line) as u64).or_default().copies.push(copy);
            }
        }
    }

    /// A page that waits for its turn has it now.
    pub(super) fn take_turn(&mut self, hardware: &mut Hardware, line: u64) {
        let number = self.layout.page_of(line) as u64;
        let waiting = self.checkpoint.as_mut().and_then(|it| it.pages.remove(&number));
        if let Some(page) = waiting {
            self.counts.turns += 1;
            self.write_page(hardware, page);
        }
    }

    /// Writes what waits of a page. Returns when it is durable.
    fn write_page(&mut self, hardware: &mut Hardware, page: WaitingPage) -> Ps {
        let mut durable = hardware.now();
        let from = durable.max(page.ready);
        for (line, words, to) in page.lines {
            let words =
                if self.design.leaves_out(AS_OF) { hardware.visible_line(line) } else { words };
            let read = hardware.read_dram(line, from).max(self.committed);
            durable = durable.max(hardware.write_home("checkpoint", to, words, read));
        }
        durable = durable.max(self.copy(hardware, &page.copies, None));
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.durable = checkpoint.durable.max(durable);
        }
        durable
    }

    fn next_page(&mut self) -> Option<WaitingPage> {
        let checkpoint = self.checkpoint.as_mut()?;
        std::iter::from_fn(|| checkpoint.turns.pop_front())
            .find_map(|page| checkpoint.pages.remove(&page))
    }

    /// The next step, at its time.
    pub(super) fn go_on(&mut self, hardware: &mut Hardware) {
        let now = hardware.now();
        let Some(checkpoint) = &mut self.checkpoint else { return };
        match checkpoint.stage {
            Stage::Lines => match self.next_page() {
                Some(page) => {
                    let durable = self.write_page(hardware, page);
                    self.next_step.schedule(hardware, durable);
                }
                None => {
                    let waits = !self.design.leaves_out(DATA);
                    let durable = self.end_lines();
                    self.next_step.schedule(hardware, if waits { durable } else { now });
                }
            },
            Stage::Tables => {
                let done = self.store_tables(hardware, now);
                self.next_step.schedule(hardware, done);
            }
            Stage::Number(done) => self.commit(done),
        }
    }

    fn end_lines(&mut self) -> Ps {
        self.checkpoint.as_mut().map_or(Ps(0), |checkpoint| {
            checkpoint.stage = Stage::Tables;
            checkpoint.durable
        })
    }

    /// An epoch ends while a checkpoint is being made: all cores wait for that.
    pub(super) fn finish(&mut self, hardware: &mut Hardware) {
        while let Some(page) = self.next_page() {
            self.write_page(hardware, page);
        }
        let done = match self.checkpoint.as_ref().map(|checkpoint| &checkpoint.stage) {
            None => return,
            Some(Stage::Number(done)) => *done,
            Some(Stage::Lines | Stage::Tables) => {
                let durable = self.end_lines();
                let waits = !self.design.leaves_out(DATA);
                let from = if waits { durable } else { hardware.now() };
                self.store_tables(hardware, from)
            }
        };
        let stalls = !self.design.leaves_out(STALL);
        if stalls {
            hardware.all_wait_until(done);
        }
        self.commit(if stalls { done } else { Ps(0) });
    }

    /// Stores the changed entries from `from` on, and then the epoch's number. Returns when that is durable.
    fn store_tables(&mut self, hardware: &mut Hardware, from: Ps) -> Ps {
        let Some(checkpoint) = &self.checkpoint else { return from };
        let epoch = checkpoint.epoch;
        // The older copy lacks the changes of the epoch before too.
        let both = !self.design.leaves_out(STANDBY);
        let all = |own: &[u64], before: &[u64]| {
            let before = if both { before } else { &[] };
            let mut all = [own, before].concat();
            all.sort_unstable();
            all.dedup();
            all
        };
        let entries = all(&checkpoint.changed.entries, &self.before.entries);
        let pages = all(&checkpoint.changed.pages, &self.before.pages);
        self.counts.entries_stored += (entries.len() + pages.len()) as u64;
        let (layout, copy) = (self.layout, epoch % 2);
        let blocks = entries.iter().map(|&entry| {
            let (line, place) = self.places.made_block(entry);
            (layout.block_entry(copy, entry), entry, block_word(line, epoch, place))
        });
        let pages = pages.iter().map(|&page| {
            let word = page_word(epoch, self.places.made_page(page));
            (layout.page_entry(copy, page), page, word)
        });
        let words: Vec<_> = blocks.chain(pages).collect();
        let mut mapped = from;
        for words in words.chunk_by(|one, next| one.0 == next.0) {
            let mut line = hardware.home_line(words[0].0);
            for (_, entry, word) in words {
                if !(self.design.leaves_out(ENTRY) && entry % 4 == 3) {
                    line[(entry % ENTRIES) as usize] = *word;
                }
            }
            mapped = mapped.max(hardware.write_home("mapping", words[0].0, line, from));
        }
        let from = if self.design.leaves_out(MAPPING) { from } else { mapped };
        let skips = self.design.leaves_out(NUMBER);
        let done = epoch_number::store(hardware, layout.header, epoch, from, skips);
        self.tickets.is_durable(done);
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.stage = Stage::Number(done);
        }
        done
    }

    /// The epoch's number is durable: the checkpoint is the last one.
    fn commit(&mut self, done: Ps) {
        let Some(checkpoint) = self.checkpoint.take() else { return };
        self.places.commit(&checkpoint.changed);
        self.before = checkpoint.changed;
        self.committed = done;
        self.counts.checkpoints += 1;
    }
}
