//! The required contents of the accounts: a function of how many operations each writer has committed.

use super::layout::{ACCOUNTS, FIRST, MOST_WRITERS};
use crate::case::mix;
use perdura_memory::random::SplitMix64;

/// Takes an amount from one account and adds it to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) amount: u64,
}

/// The transfers of operation `number` of a writer; they commute. Numbers begin with 1.
pub(super) fn transfers(writer: usize, number: u64) -> impl Iterator<Item = Transfer> {
    let mut random = SplitMix64::new(mix(0x7374_7265_7373 ^ writer as u64, number));
    let count = 1 + random.below(3);
    (0..count).map(move |_| {
        let from = random.below(ACCOUNTS);
        // Mostly near one another: in one line, or the next.
        let apart = if random.below(4) == 0 { ACCOUNTS - 1 } else { 12 };
        let to = (from + 1 + random.below(apart)) % ACCOUNTS;
        Transfer { from, to, amount: random.below(100) }
    })
}

/// The accounts after some operations of each writer.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    accounts: Vec<u64>,
    counts: [u64; MOST_WRITERS],
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger { accounts: vec![FIRST; ACCOUNTS as usize], counts: [0; MOST_WRITERS] }
    }
}

impl Ledger {
    /// The accounts after these operations, which are no fewer than before.
    ///
    /// # Errors
    /// The writer whose operations are fewer.
    pub(super) fn move_to(&mut self, counts: &[u64; MOST_WRITERS]) -> Result<&[u64], usize> {
        for (writer, (old, new)) in self.counts.iter_mut().zip(counts).enumerate() {
            if new < old {
                return Err(writer);
            }
            for number in *old + 1..=*new {
                for Transfer { from, to, amount } in transfers(writer, number) {
                    let accounts = &mut self.accounts;
                    accounts[from as usize] = accounts[from as usize].wrapping_sub(amount);
                    accounts[to as usize] = accounts[to as usize].wrapping_add(amount);
                }
            }
            *old = *new;
        }
        Ok(&self.accounts)
    }

    /// Operations, of all writers together.
    pub(super) fn operations(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(super) fn counts(&self) -> &[u64; MOST_WRITERS] {
        &self.counts
    }
}

/// The sum of all accounts, at any time.
pub(super) const TOTAL: u64 = ACCOUNTS * FIRST;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_keep_the_sum_and_depend_on_nothing_else() {
        let mut counts = [0; MOST_WRITERS];
        (counts[0], counts[3]) = (500, 70);
        let mut ledger = Ledger::default();
        let accounts = ledger.move_to(&counts).expect("more of them").to_vec();
        assert_eq!(accounts.iter().fold(0, |sum: u64, one| sum.wrapping_add(*one)), TOTAL);
        assert_ne!(accounts, vec![FIRST; ACCOUNTS as usize]);
        let mut slowly = Ledger::default();
        for count in 0..=500 {
            slowly
                .move_to(&[count, 0, 0, count.min(70), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
                .unwrap();
        }
        assert_eq!(slowly.accounts, accounts);
        assert_eq!(ledger.move_to(&[0; MOST_WRITERS]), Err(0));
    }
}
