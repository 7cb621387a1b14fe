//! Inputs of the seven transactions: drawn before they begin, since a body may run more than once.

use super::population::{Digits, HOURS, STARTS, TYPES, digits, number};
use crate::random::Random;
use std::ops::Range;

/// The kinds of transactions, in the order of TATP's specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads a subscriber's row.
    GetSubscriberData,
    /// Reads where a call is forwarded to.
    GetNewDestination,
    /// Reads a row of ACCESS_INFO.
    GetAccessData,
    /// Changes a bit of a subscriber, and a column of one of the facilities.
    UpdateSubscriberData,
    /// Changes a subscriber's location.
    UpdateLocation,
    /// Adds a forwarding.
    InsertCallForwarding,
    /// Removes a forwarding.
    DeleteCallForwarding,
}

impl Kind {
    /// All, with how many of a hundred transactions are of each.
    pub const MIX: [(Kind, u64); 7] = [
        (Kind::GetSubscriberData, 35),
        (Kind::GetNewDestination, 10),
        (Kind::GetAccessData, 35),
        (Kind::UpdateSubscriberData, 2),
        (Kind::UpdateLocation, 14),
        (Kind::InsertCallForwarding, 2),
        (Kind::DeleteCallForwarding, 2),
    ];

    /// Whether it only reads.
    pub const fn only_reads(self) -> bool {
        matches!(self, Kind::GetSubscriberData | Kind::GetNewDestination | Kind::GetAccessData)
    }
}

/// How subscribers are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// TATP's non-uniform numbers.
    NonUniform,
    /// All with the same chance.
    Uniform,
}

/// The input of a transaction. Those that find the subscriber by its number have the number; the rest of the input is
/// what TATP's clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// The transaction.
    pub kind: Kind,
    /// The subscriber, from 1 on.
    pub id: u64,
    /// The subscriber's number.
    pub number: Digits,
    /// The type of an access or a facility: 1 to 4.
    pub of_type: u8,
    /// A start time.
    pub start: u8,
    /// An end time: 1 to 24.
    pub end: u8,
    /// A new value of `bit_1`.
    pub bit: u8,
    /// A new value of `data_a`.
    pub data: u8,
    /// A new location.
    pub location: u32,
    /// The number that calls are forwarded to.
    pub to: Digits,
}

/// Draws inputs.
#[derive(Clone, Copy, Debug)]
pub struct Desk {
    /// The number of the first subscriber that is drawn, counted from 0.
    first: u64,
    subscribers: u64,
    distribution: Distribution,
    /// The only kind drawn, in place of the mix.
    only: Option<Kind>,
}

impl Desk {
    /// Inputs for this many subscribers.
    pub const fn new(subscribers: u64, distribution: Distribution) -> Self {
        Desk { first: 0, subscribers, distribution, only: None }
    }

    /// The same with transactions of one kind alone.
    pub const fn only(self, kind: Kind) -> Self {
        Desk { only: Some(kind), ..self }
    }

    /// The same for the subscribers of this range alone, which is not empty and counts from 0.
    pub const fn within(self, range: Range<u64>) -> Self {
        Desk { first: range.start, subscribers: range.end - range.start, ..self }
    }

    /// Whether some of the transactions fail, as those of the mix do.
    pub fn fails(&self) -> bool {
        self.only != Some(Kind::UpdateLocation)
    }

    /// Draws a transaction of the mix, or of the only kind.
    pub fn draw(&self, random: &mut Random) -> Input {
        if let Some(kind) = self.only {
            return self.draw_of(random, kind);
        }
        let mut left = random.below(100);
        let (kind, _) = Kind::MIX
            .into_iter()
            .find(|(_, share)| {
                let is_it = left < *share;
                left = left.saturating_sub(*share);
                is_it
            })
            .expect("the shares add up to 100");
        self.draw_of(random, kind)
    }

    /// Draws a transaction of this kind.
    pub fn draw_of(&self, random: &mut Random, kind: Kind) -> Input {
        let id = self.first + self.draw_subscriber(random);
        let word = random.word().to_le_bytes();
        Input {
            kind,
            id,
            number: number(id),
            of_type: random.between(1, TYPES.into()) as u8,
            start: STARTS[random.below(STARTS.len() as u64) as usize],
            end: random.between(1, HOURS) as u8,
            bit: word[0] & 1,
            data: word[1],
            location: u32::from_le_bytes([word[4], word[5], word[6], word[7]]),
            to: match kind {
                Kind::InsertCallForwarding => digits(random),
                _ => [b'0'; 15],
            },
        }
    }

    fn draw_subscriber(&self, random: &mut Random) -> u64 {
        let uniform = random.between(1, self.subscribers);
        match self.distribution {
            Distribution::Uniform => uniform,
            Distribution::NonUniform => {
                (random.below(self.a() + 1) | uniform) % self.subscribers + 1
            }
        }
    }

    /// The constant A of the non-uniform numbers.
    const fn a(&self) -> u64 {
        match self.subscribers {
            0..=1_000_000 => 65_535,
            1_000_001..=10_000_000 => 1_048_575,
            _ => 2_097_151,
        }
    }
}
