//! A channel of plain banks: its bus, its read queue, and its write-pending queue.
//!
//! Nothing ticks. Every call first sends the writes that banks would have begun before it while
//! there was no read, then places its own commands. A full queue, or one filled to the upper mark,
//! sends writes before any later read. Where lines are durable at the media only, each write is placed at once, and
//! reads go before those that have not begun ([`media`](super::media)).

use super::bank::{Activates, Bank, DeviceTiming, RowState};
use super::bus::{Bus, Direction};
use super::media::{PlacedWrite, PlacedWrites};
use super::queue::WriteQueue;
use super::stats::DeviceCounts;
use crate::Ps;
use crate::config::{ControllerConfig, Device, DurableAt};
use crate::finishes::Finishes;

/// A block that no read is answered from.
const NO_LINE: u64 = u64::MAX;

/// Where in a channel a line is.
#[derive(Clone, Copy, Debug)]
pub(super) struct BankRow {
    pub(super) bank: usize,
    pub(super) row: u64,
}

/// Sizes of queues and marks, in lines.
#[derive(Clone, Copy, Debug)]
struct QueueLimits {
    reads: usize,
    writes: usize,
    from: usize,
    to: usize,
    least: usize,
}

/// A channel.
pub(super) struct Channel {
    timing: DeviceTiming,
    limits: QueueLimits,
    accept: Ps,
    at_media: bool,
    /// Lines that come later must find a place that no line on its way to its bank has.
    counts_sent: bool,
    banks: Vec<Bank>,
    /// Where lines are durable at the media, and go there past the row buffer: each bank's writes.
    placed: Vec<PlacedWrites>,
    activates: Activates,
    bus: Bus,
    reads: Finishes,
    /// Writes that have been sent to their banks, until their data is there.
    sent: Finishes,
    waiting: WriteQueue,
    /// When the last read so far is over.
    reads_end: Ps,
    accepted_last: Ps,
    settled: Ps,
    pub(super) counts: DeviceCounts,
}

impl Channel {
    pub(super) fn new(controller: &ControllerConfig, device: &Device) -> Self {
        let writes = controller.write_queue;
        let mark = |share: f64| (share * writes as f64).round() as usize;
        Channel {
            timing: DeviceTiming::new(device),
            limits: QueueLimits {
                reads: controller.read_queue,
                writes,
                from: mark(controller.drain_from).max(1),
                to: mark(controller.drain_to),
                least: controller.drain_least,
            },
            accept: Ps::from_ns(controller.static_write_ns),
            at_media: controller.durable_at == DurableAt::Media,
            counts_sent: false,
            banks: vec![Bank::new(); device.banks],
            placed: match controller.durable_at {
                DurableAt::Media if device.write_through => {
                    std::iter::repeat_with(PlacedWrites::default).take(device.banks).collect()
                }
                _ => Vec::new(),
            },
            activates: Activates::default(),
            bus: Bus::new(Ps::from_ns(controller.turnaround_ns)),
            reads: Finishes::default(),
            sent: Finishes::default(),
            waiting: WriteQueue::new(device.banks),
            reads_end: Ps(0),
            accepted_last: Ps(0),
            settled: Ps(0),
            counts: DeviceCounts::default(),
        }
    }

    /// From now on a line that comes later takes a place in the queue only where there is one; otherwise lines that are
    /// on their way to their banks do not count for it.
    pub(super) fn count_sent(&mut self) {
        self.counts_sent = true;
    }

    /// Reads `lines` lines of a row. Returns when the first and the last of them are there.
    #[inline]
    pub(super) fn read(&mut self, line: u64, place: BankRow, lines: u64, now: Ps) -> (Ps, Ps) {
        self.advance(now);
        self.bus.forget(now);
        self.counts.reads += lines;
        if lines == 1
            && let Some(accepted) = self.queued(line, place.bank, now)
        {
            self.counts.forwarded += 1;
            let there = now.max(accepted);
            return (there, there);
        }
        let free = self.reads.place(now, self.limits.reads, 0);
        let begin = self.overtake(place.bank, free);
        let timing = &self.timing;
        let bank = &mut self.banks[place.bank];
        let (column, found) = bank.open(place.row, begin, timing, &mut self.activates);
        let length = Ps(timing.read_burst.0 * lines);
        let start = self.bus.reserve(column + timing.column, length, Direction::Read);
        let end = start + length;
        let command = start - timing.column;
        bank.used(command + length, command + length, timing);
        if let Some(placed) = self.placed.get_mut(place.bank) {
            placed.is_read(begin, bank.ready(place.row, true));
            self.settled = self.settled.max(placed.last());
        }
        self.reads.push(end);
        self.reads_end = self.reads_end.max(end);
        let unloaded = self.found(found) + self.timing.column;
        self.counts.read_wait(start.since(now + unloaded));
        (start + self.timing.read_burst, end)
    }

    /// As [`read`](Self::read), of a line that no program waits for. Where writes are placed at once it takes no place in
    /// the read queue, and reads that programs wait for go before it. Returns when it is there.
    pub(super) fn read_in_background(&mut self, line: u64, place: BankRow, now: Ps) -> Ps {
        if self.placed.is_empty() {
            return self.read(line, place, 1, now).0;
        }
        self.bus.forget(now);
        self.counts.reads += 1;
        if let Some(accepted) = self.queued(line, place.bank, now) {
            self.counts.forwarded += 1;
            return now.max(accepted);
        }
        let (opens, burst) = (self.timing.activate + self.timing.column, self.timing.read_burst);
        let (placed, bank) = (&mut self.placed[place.bank], &mut self.banks[place.bank]);
        placed.forget(now, bank);
        let begin = placed.room(now.max(bank.ready(place.row, false)), opens + burst);
        let end = self.bus.reserve(begin + opens, burst, Direction::Read) + burst;
        self.counts.row_misses += 1;
        // It takes the bank as a write does that is held back.
        placed.add(PlacedWrite { line: NO_LINE, accepted: now, held: true, start: begin, end });
        self.settled = self.settled.max(placed.last());
        end
    }

    /// When the write of a line that is still in the queue was accepted.
    #[inline]
    fn queued(&self, line: u64, bank: usize, now: Ps) -> Option<Ps> {
        match self.placed.get(bank) {
            Some(placed) => placed.queued(line, now).map(|write| write.accepted),
            None => self.waiting.find(line, bank),
        }
    }

    /// When a read of a bank can begin, not before `now`: before writes that have not begun, unless the queue is filled
    /// to the upper mark.
    #[inline]
    fn overtake(&mut self, bank: usize, now: Ps) -> Ps {
        if self.placed.is_empty() {
            return now;
        }
        self.placed[bank].forget(now, &mut self.banks[bank]);
        let drained = self.drained(now);
        self.placed[bank].overtake(now, drained)
    }

    /// When the last of those writes begins that go before reads, where each is placed at once.
    fn drained(&mut self, now: Ps) -> Ps {
        let QueueLimits { writes, from, to, least, .. } = self.limits;
        self.sent.forget(now);
        if self.sent.len() < from {
            return Ps::default();
        }
        let mut waiting: Vec<Ps> = self.placed.iter().flat_map(|own| own.waiting(now)).collect();
        if waiting.len() < from {
            return Ps::default();
        }
        self.counts.drains += 1;
        waiting.sort_unstable();
        let count = waiting.len().min(writes);
        let first = (count - to.min(count)).max(least).min(count);
        first.checked_sub(1).map_or(Ps::default(), |last| waiting[last])
    }

    /// Counts how an access found the row buffer. Returns the time that this costs.
    #[inline]
    fn found(&mut self, row: RowState) -> Ps {
        match row {
            RowState::Hit => {
                self.counts.row_hits += 1;
                Ps(0)
            }
            RowState::Miss => {
                self.counts.row_misses += 1;
                self.timing.activate
            }
            RowState::Conflict => {
                self.counts.row_conflicts += 1;
                self.timing.precharge + self.timing.activate
            }
        }
    }

    /// Takes a line into the write queue. Returns when it is in the queue, when it is durable, and
    /// whether it takes a write of its own (false if it coalesces with a queued one).
    ///
    /// `from` is when the line comes, `now` or later. If later, accesses that come before `from` do not wait for it,
    /// unless the queue is nearly full.
    #[inline]
    pub(super) fn write(&mut self, line: u64, place: BankRow, now: Ps, from: Ps) -> (Ps, Ps, bool) {
        self.bus.forget(now);
        self.counts.writes += 1;
        let arrival = from + self.accept;
        if !self.placed.is_empty() {
            return self.write_to_media(line, place, (now, arrival), from > now);
        }
        let QueueLimits { writes, from: mark, .. } = self.limits;
        let waiting = self.waiting.len();
        let sent_fit = || !self.counts_sent || self.sent.leaves_room(arrival, writes - waiting);
        if from > now && waiting + 1 < mark && sent_fit() {
            self.advance(now);
            return self.write_later(line, place, arrival);
        }
        self.advance(from);
        if self.waiting.find(line, place.bank).is_some() {
            // Coalesces with the queued write of the line, in order.
            self.counts.coalesced += 1;
            let accepted = arrival.max(self.accepted_last);
            self.accepted_last = accepted;
            return (accepted, accepted, false);
        }
        self.sent.forget(arrival);
        if self.sent.len() == 0 && self.waiting.len() >= writes {
            self.send_next();
        }
        let free = self.sent.place(arrival, writes, self.waiting.len());
        let accepted = free.max(self.accepted_last);
        self.accepted_last = accepted;
        self.counts.write_wait(accepted.since(arrival));
        self.waiting.push(line, place.bank, place.row, accepted);
        if self.at_media {
            let end = self.send(place.bank, accepted);
            return (accepted, end, true);
        }
        if self.waiting.len() >= mark {
            self.drain();
        }
        (accepted, accepted, true)
    }

    /// As [`write`](Self::write), where each write is placed at once. A line that comes `later` is held back by whatever
    /// hands it over, and takes no place in the queue before.
    fn write_to_media(
        &mut self,
        line: u64,
        place: BankRow,
        (now, arrival): (Ps, Ps),
        later: bool,
    ) -> (Ps, Ps, bool) {
        let placed = &mut self.placed[place.bank];
        placed.forget(now, &mut self.banks[place.bank]);
        let queued = placed.queued(line, arrival);
        let mut accepted = arrival;
        if !later {
            if queued.is_none() {
                self.sent.forget(arrival);
                accepted = self.sent.place(arrival, self.limits.writes, 0);
            }
            accepted = accepted.max(self.accepted_last);
            self.accepted_last = accepted;
        }
        if let Some(queued) = queued {
            // Coalesces with the queued write of the line.
            self.counts.coalesced += 1;
            return (accepted, accepted.max(queued.end), false);
        }
        self.counts.write_wait(accepted.since(arrival));
        (accepted, self.place((line, later), place, self.timing.write_burst, accepted), true)
    }

    /// Places a write to the media. Returns when it is there.
    fn place(&mut self, (line, held): (u64, bool), place: BankRow, length: Ps, accepted: Ps) -> Ps {
        let (write, bank) = (self.timing.write, &self.banks[place.bank]);
        let placed = &mut self.placed[place.bank];
        let ready = placed.room(accepted.max(bank.ready(place.row, true)), length + write);
        let start = self.bus.reserve(ready, length, Direction::Write);
        let end = start + length + write;
        placed.add(PlacedWrite { line, accepted, held, start, end });
        if !held {
            self.sent.push(start + length);
        }
        self.settled = self.settled.max(placed.last());
        end
    }

    /// Takes a line that arrives in the future into the write queue, which has room.
    fn write_later(&mut self, line: u64, place: BankRow, arrival: Ps) -> (Ps, Ps, bool) {
        let coalesces = self.waiting.find(line, place.bank).is_some_and(|there| there <= arrival);
        if coalesces {
            self.counts.coalesced += 1;
            return (arrival, arrival, false);
        }
        if self.at_media {
            // Its time of durability must be known now, so its bank's commands until then are placed now.
            return (arrival, self.put(place, 1, arrival), true);
        }
        self.waiting.push(line, place.bank, place.row, arrival);
        (arrival, arrival, true)
    }

    /// Sends writes before reads, down to the lower mark.
    #[cold]
    fn drain(&mut self) {
        self.counts.drains += 1;
        let QueueLimits { to, least, .. } = self.limits;
        let above = self.waiting.len().saturating_sub(to);
        for _ in 0..above.max(least).min(self.waiting.len()) {
            self.send_next();
        }
    }

    /// Writes `lines` lines of a row at once, past the queue: a block that fills a cache.
    pub(super) fn fill(&mut self, place: BankRow, lines: u64, now: Ps) {
        self.counts.writes += lines;
        if self.placed.is_empty() {
            self.put(place, lines, now);
        } else {
            self.place((NO_LINE, true), place, Ps(self.timing.write_burst.0 * lines), now);
        }
    }

    /// Sends the writes that would have begun before `now`.
    #[inline]
    fn advance(&mut self, now: Ps) {
        while self.waiting.banks() != 0 {
            let (bank, start) = self.next();
            let start = start.max(self.reads_end);
            if start >= now {
                break;
            }
            self.send(bank, start);
        }
    }

    /// The bank whose first waiting write can begin earliest, and when.
    #[inline]
    fn next(&self) -> (usize, Ps) {
        let mut best = (0, Ps(u64::MAX));
        let mut banks = self.waiting.banks();
        while banks != 0 {
            let bank = banks.trailing_zeros() as usize;
            banks &= banks - 1;
            let first = self.waiting.first(bank);
            let ready = self.banks[bank].ready(first.row, self.timing.write_through);
            let start = ready.max(first.accepted);
            if start < best.1 {
                best = (bank, start);
            }
        }
        best
    }

    fn send_next(&mut self) {
        let (bank, _) = self.next();
        self.send(bank, Ps(0));
    }

    /// Sends the first write that waits for `bank`, not before `from`. Returns when it is in the cells.
    fn send(&mut self, bank: usize, from: Ps) -> Ps {
        let first = self.waiting.pop(bank);
        self.put(BankRow { bank, row: first.row }, 1, first.accepted.max(from))
    }

    fn put(&mut self, place: BankRow, lines: u64, now: Ps) -> Ps {
        let timing = self.timing;
        let length = Ps(timing.write_burst.0 * lines);
        let bank = &mut self.banks[place.bank];
        if timing.write_through {
            let ready = now.max(bank.ready(place.row, true));
            let arrived = self.bus.reserve(ready, length, Direction::Write) + length;
            let end = arrived + timing.write;
            bank.busy(end);
            self.sent.push(arrived);
            self.settled = self.settled.max(end);
            return end;
        }
        let (column, found) = bank.open(place.row, now, &timing, &mut self.activates);
        let start = self.bus.reserve(column + timing.column, length, Direction::Write);
        let end = start + length + timing.write;
        bank.used(start - timing.column + length, end, &timing);
        self.found(found);
        self.sent.push(start + length);
        self.settled = self.settled.max(end);
        end
    }

    /// Sends all writes. Returns when they are in the cells.
    pub(super) fn settle(&mut self) -> Ps {
        while self.waiting.banks() != 0 {
            self.send_next();
        }
        self.settled
    }
}
