//! The queue of a channel's waiting writes.

use crate::Ps;

const NONE: u16 = u16::MAX;

#[derive(Clone, Copy)]
struct WaitingSlot {
    line: u64,
    row: u64,
    accepted: Ps,
    next: u16,
}

/// A write that waits for its bank.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingWrite {
    pub(super) row: u64,
    pub(super) accepted: Ps,
}

/// Writes that wait, in order of acceptance for each bank.
pub(super) struct WriteQueue {
    slots: Vec<WaitingSlot>,
    free: Vec<u16>,
    heads: Vec<u16>,
    tails: Vec<u16>,
    /// Banks with waiting writes, as bits.
    mask: u64,
    len: usize,
    /// How many waiting lines hash to each value, so that most look-ups end here.
    sieve: [u16; 256],
}

impl WriteQueue {
    pub(super) fn new(banks: usize) -> Self {
        WriteQueue {
            slots: Vec::new(),
            free: Vec::new(),
            heads: vec![NONE; banks],
            tails: vec![NONE; banks],
            mask: 0,
            len: 0,
            sieve: [0; 256],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Banks with writes that wait, as bits.
    #[inline]
    pub(super) fn banks(&self) -> u64 {
        self.mask
    }

    #[inline]
    fn hash(line: u64) -> usize {
        (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
    }

    /// When the waiting write of `line` was accepted.
    #[inline]
    pub(super) fn find(&self, line: u64, bank: usize) -> Option<Ps> {
        if self.sieve[Self::hash(line)] == 0 {
            return None;
        }
        let mut at = self.heads[bank];
        while at != NONE {
            let slot = &self.slots[at as usize];
            if slot.line == line {
                return Some(slot.accepted);
            }
            at = slot.next;
        }
        None
    }

    pub(super) fn push(&mut self, line: u64, bank: usize, row: u64, accepted: Ps) {
        let slot = WaitingSlot { line, row, accepted, next: NONE };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u16
            }
        };
        let before = self.before(bank, accepted);
        let next = match before {
            NONE => std::mem::replace(&mut self.heads[bank], at),
            before => std::mem::replace(&mut self.slots[before as usize].next, at),
        };
        match next {
            NONE => self.tails[bank] = at,
            next => self.slots[at as usize].next = next,
        }
        self.mask |= 1 << bank;
        self.len += 1;
        self.sieve[Self::hash(line)] += 1;
    }

    /// The last write waiting for a bank that was accepted by then: usually the last of all.
    #[inline]
    fn before(&self, bank: usize, accepted: Ps) -> u16 {
        let tail = self.tails[bank];
        if tail == NONE || self.slots[tail as usize].accepted <= accepted {
            return tail;
        }
        let (mut before, mut at) = (NONE, self.heads[bank]);
        while at != NONE && self.slots[at as usize].accepted <= accepted {
            (before, at) = (at, self.slots[at as usize].next);
        }
        before
    }

    /// The first write that waits for a bank whose bit is set in [`banks`](Self::banks).
    #[inline]
    pub(super) fn first(&self, bank: usize) -> WaitingWrite {
        let WaitingSlot { row, accepted, .. } = self.slots[self.heads[bank] as usize];
        WaitingWrite { row, accepted }
    }

    /// Takes it out.
    pub(super) fn pop(&mut self, bank: usize) -> WaitingWrite {
        let waiting = self.first(bank);
        let at = self.heads[bank];
        let WaitingSlot { line, next, .. } = self.slots[at as usize];
        self.heads[bank] = next;
        if next == NONE {
            self.tails[bank] = NONE;
            self.mask &= !(1 << bank);
        }
        self.free.push(at);
        self.len -= 1;
        self.sieve[Self::hash(line)] -= 1;
        waiting
    }
}
