//! The rows at first: every column follows from the seed and the subscriber.
//!
//! ```text
//! SUBSCRIBER       s_id 4, unused 4, msc_location 4, vlr_location 4, sub_nbr 15, unused 1, bit 10, hex 10, byte2 10, unused 2
//! ACCESS_INFO      data1 1, data2 1, data3 3, data4 5             by s_id, ai_type
//! SPECIAL_FACILITY is_active 1, error_cntrl 1, data_a 1, data_b 5 by s_id, sf_type
//! CALL_FORWARDING  end_time 1, numberx 15                         by s_id, sf_type, start_time
//! ```

use crate::random::{Random, splitmix64};
use crate::{Failure, Outcome};
use std::ops::Range;

/// A row of SUBSCRIBER, which is a line.
pub type Subscriber = [u8; 64];
/// A row of ACCESS_INFO.
pub type Access = [u8; 10];
/// A row of SPECIAL_FACILITY.
pub type Facility = [u8; 8];
/// A row of CALL_FORWARDING.
pub type Forwarding = [u8; 16];
/// A telephone number: fifteen digits.
pub type Digits = [u8; 15];

/// Access and facility types of a subscriber: 1 to 4.
pub const TYPES: u8 = 4;
/// The times at which a forwarding can start.
pub const STARTS: [u8; 3] = [0, 8, 16];
/// A day's hours: the latest end of a forwarding.
pub(super) const HOURS: u64 = 24;

pub(super) const MSC: Range<usize> = 8..12;
pub(super) const VLR: Range<usize> = 12..16;
const NUMBER: Range<usize> = 16..31;
pub(super) const BIT_1: usize = 32;
const BITS: Range<usize> = 32..42;
const HEX: Range<usize> = 42..52;
const BYTES: Range<usize> = 52..62;
pub(super) const IS_ACTIVE: usize = 0;
pub(super) const DATA_A: usize = 2;
pub(super) const END: usize = 0;

/// Streams of a seed: threads count up from 0, other loads from 2^40.
const SUBSCRIBERS: u64 = 1 << 42;
const ACCESS: u64 = 2 << 42;
const FACILITIES: u64 = 3 << 42;

/// The subscribers with their rows.
#[derive(Clone, Copy, Debug)]
pub struct Population {
    subscribers: u64,
    seed: u64,
    /// Whether the other tables are empty.
    alone: bool,
}

/// A subscriber's rows in three tables, by type and start: `None` where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// By `ai_type`, from 1 on.
    pub access: [Option<Access>; TYPES as usize],
    /// By `sf_type`, from 1 on.
    pub facilities: [Option<Facility>; TYPES as usize],
    /// The same, then by start.
    pub forwardings: [[Option<Forwarding>; STARTS.len()]; TYPES as usize],
}

impl Population {
    /// `subscribers` subscribers, numbered from 1 on.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(subscribers: u64, seed: u64) -> Outcome<Self> {
        if subscribers == 0 || subscribers > u32::MAX.into() {
            let what = "TATP needs a subscriber at least, and 2^32 - 1 at most";
            return Err(Failure::Parameters(what.to_owned()));
        }
        Ok(Population { subscribers, seed, alone: false })
    }

    /// The same subscribers without rows in other tables than SUBSCRIBER.
    pub const fn alone(self) -> Self {
        Population { alone: true, ..self }
    }

    /// How many there are.
    pub const fn subscribers(&self) -> u64 {
        self.subscribers
    }

    /// The subscriber's own row.
    pub fn subscriber(&self, id: u64) -> Subscriber {
        let mut random = Random::new(self.seed, SUBSCRIBERS + id);
        let mut row = [0; 64];
        row[..4].copy_from_slice(&(id as u32).to_le_bytes());
        let places = random.word().to_le_bytes();
        row[MSC].copy_from_slice(&places[..4]);
        row[VLR].copy_from_slice(&places[4..]);
        row[NUMBER].copy_from_slice(&number(id));
        let (bits, hex) = (random.word(), random.word());
        for (index, bit) in row[BITS].iter_mut().enumerate() {
            *bit = (bits >> index & 1) as u8;
        }
        for (index, digit) in row[HEX].iter_mut().enumerate() {
            *digit = (hex >> (4 * index) & 15) as u8;
        }
        let bytes = [random.word(), random.word()].map(u64::to_le_bytes);
        row[BYTES].copy_from_slice(&bytes.as_flattened()[..BYTES.len()]);
        row
    }

    /// The subscriber's rows of ACCESS_INFO: 1 to 4 of the four types.
    pub fn access(&self, id: u64) -> [Option<Access>; TYPES as usize] {
        if self.alone {
            return [None; TYPES as usize];
        }
        let mut random = Random::new(self.seed, ACCESS + id);
        let count = random.between(1, TYPES.into());
        chosen(&mut random, count).map(|is_there| {
            is_there.then(|| {
                let mut row = [0; 10];
                row[..2].copy_from_slice(&random.word().to_le_bytes()[..2]);
                row[2..].fill_with(|| letter(&mut random));
                row
            })
        })
    }

    /// The subscriber's rows in all tables but SUBSCRIBER.
    pub fn home(&self, id: u64) -> Home {
        if self.alone {
            let forwardings = [[None; STARTS.len()]; TYPES as usize];
            return Home {
                access: self.access(id),
                facilities: [None; TYPES as usize],
                forwardings,
            };
        }
        let mut random = Random::new(self.seed, FACILITIES + id);
        let count = random.between(1, TYPES.into());
        let facilities = chosen(&mut random, count).map(|is_there| {
            is_there.then(|| {
                let mut row = [0; 8];
                row[IS_ACTIVE] = u8::from(random.below(100) < 85);
                row[1..3].copy_from_slice(&random.word().to_le_bytes()[..2]);
                row[3..].fill_with(|| letter(&mut random));
                row
            })
        });
        let forwardings = facilities.map(|facility| {
            if facility.is_none() {
                return [None; STARTS.len()];
            }
            let count = random.below(STARTS.len() as u64 + 1);
            let mut starts = STARTS.into_iter();
            chosen(&mut random, count).map(|is_there| {
                let start = starts.next().unwrap_or_default();
                is_there.then(|| {
                    let end = start + random.between(1, 8) as u8;
                    forwarding(end, &digits(&mut random))
                })
            })
        });
        Home { access: self.access(id), facilities, forwardings }
    }
}

/// A row of CALL_FORWARDING.
pub(super) fn forwarding(end: u8, to: &Digits) -> Forwarding {
    let mut row = [0; 16];
    row[END] = end;
    row[1..].copy_from_slice(to);
    row
}

/// The subscriber's number (`sub_nbr`): the identifier with leading zeros.
pub fn number(id: u64) -> Digits {
    let (mut digits, mut rest) = ([b'0'; 15], id);
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    digits
}

/// Any fifteen digits.
pub(super) fn digits(random: &mut Random) -> Digits {
    let mut digits = [0; 15];
    digits.fill_with(|| b'0' + random.below(10) as u8);
    digits
}

fn letter(random: &mut Random) -> u8 {
    b'A' + random.below(26) as u8
}

/// `count` of `N` places, each choice with the same chance.
fn chosen<const N: usize>(random: &mut Random, count: u64) -> [bool; N] {
    let mut chosen = std::array::from_fn(|index| (index as u64) < count);
    random.shuffle(&mut chosen);
    chosen
}

/// A share of the fingerprint of a subscriber's changeable columns: the sum over them, modulo 2^64.
pub(super) fn mark(column: Column, value: &[u8]) -> u64 {
    let seed = match column {
        Column::Location => 1,
        Column::Bit => 2,
        Column::Data(facility) => 3 + u64::from(facility),
        Column::Forwarding(facility, start) => 16 + u64::from(facility) * 32 + u64::from(start),
    };
    value.chunks(8).fold(splitmix64(seed), |mark, part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        splitmix64(mark ^ u64::from_le_bytes(word))
    })
}

/// A column that transactions change, or a row that they insert and delete.
#[derive(Clone, Copy, Debug)]
pub(super) enum Column {
    Location,
    Bit,
    Data(u8),
    Forwarding(u8, u8),
}

/// The fingerprint of a subscriber's changeable columns.
pub(super) fn fingerprint(row: &Subscriber, home: &Home) -> u64 {
    let mut sum = mark(Column::Location, &row[VLR]);
    sum = sum.wrapping_add(mark(Column::Bit, &[row[BIT_1]]));
    for (kind, (facility, forwardings)) in (1..).zip(home.facilities.iter().zip(&home.forwardings))
    {
        if let Some(facility) = facility {
            sum = sum.wrapping_add(mark(Column::Data(kind), &[facility[DATA_A]]));
        }
        for (start, forwarding) in STARTS.into_iter().zip(forwardings) {
            if let Some(forwarding) = forwarding {
                sum = sum.wrapping_add(mark(Column::Forwarding(kind, start), forwarding));
            }
        }
    }
    sum
}
