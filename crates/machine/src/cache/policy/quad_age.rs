//! Quad-age LRU: two bits of age for each line, 3 the oldest, which goes first.
//!
//! The rules and their notation are those of nanoBench (Abel and Reineke, "nanoBench: a
//! low-overhead tool for running microbenchmarks on x86 systems", ISPASS 2020; its
//! `cacheSim.py`): ages are 3 to begin with, an emptied way keeps its age, and the ages of empty
//! ways count as those of others do.

use super::{Replace, UnknownPolicy};
use perdura_memory::reference::SplitMix64;
use std::fmt;
use std::str::FromStr;

/// With `MRxy`, one new line in this many gets age y.
const ONE_IN: u64 = 16;

/// A quad-age policy, written as `H11_M1_R1_U2`:
/// - `Hxy`: on a hit, age 3 becomes x, 2 becomes y, others 0;
/// - `Mx`: the age of a new line; `MRxy`: y with probability 1/16, else x;
/// - `R0`: the first empty way is filled, else the leftmost of age 3; `R1`: likewise, and way 0
///   if none has age 3; `R2`: the last empty way, else the leftmost of age 3;
/// - `U0`: after each access all ages are raised until the oldest is 3; `U1`: those of the other
///   ways are; `U2`: all are raised by 1 if none is 3; `U3`: those of the other ways are;
/// - `_UMO`: they are raised on misses only, before a way is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuadAge {
    hit: [u8; 2],
    miss: u8,
    rarely: Option<u8>,
    replace: u8,
    update: u8,
    on_miss_only: bool,
}

impl QuadAge {
    /// Ivy Bridge's last level: `H11_M1_R1_U2`.
    pub const IVY_BRIDGE_L3: Self = Self::new([1, 1], 1, 1, 2);
    /// Coffee Lake's last level: `H11_M1_R0_U0`.
    pub const COFFEE_LAKE_L3: Self = Self::new([1, 1], 1, 0, 0);
    /// Coffee Lake's second level: `H00_M1_R2_U1`.
    pub const COFFEE_LAKE_L2: Self = Self::new([0, 0], 1, 2, 1);
    /// Ice Lake's second level: `H00_M1_R0_U1`.
    pub const ICE_LAKE_L2: Self = Self::new([0, 0], 1, 0, 1);
    /// Static re-reference interval prediction with hit priority (Jaleel et al., ISCA 2010):
    /// `H00_M2_R0_U0_UMO`.
    pub const SRRIP: Self = Self { on_miss_only: true, ..Self::new([0, 0], 2, 0, 0) };

    const fn new(hit: [u8; 2], miss: u8, replace: u8, update: u8) -> Self {
        QuadAge { hit, miss, rarely: None, replace, update, on_miss_only: false }
    }
}

impl Default for QuadAge {
    fn default() -> Self {
        Self::IVY_BRIDGE_L3
    }
}

impl fmt::Display for QuadAge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QuadAge { hit: [three, two], miss, replace, update, .. } = self;
        write!(f, "H{three}{two}_M")?;
        match self.rarely {
            Some(rare) => write!(f, "R{miss}{rare}")?,
            None => write!(f, "{miss}")?,
        }
        write!(f, "_R{replace}_U{update}{}", if self.on_miss_only { "_UMO" } else { "" })
    }
}

impl FromStr for QuadAge {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        parse(text).ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<QuadAge> {
    /// The digits after `key`, if there are `N` of them and none is above 3.
    fn digits<const N: usize>(part: &str, key: &str) -> Option<[u8; N]> {
        let digits: [u8; N] = part.strip_prefix(key)?.as_bytes().try_into().ok()?;
        digits.iter().all(|d| (b'0'..=b'3').contains(d)).then(|| digits.map(|d| d - b'0'))
    }
    let parts: Vec<&str> = text.split('_').collect();
    let (parts, on_miss_only) = match parts.as_slice() {
        [parts @ .., "UMO"] => (parts, true),
        parts => (parts, false),
    };
    let [hit, miss, replace, update] = parts else { return None };
    let hit = digits::<2>(hit, "H")?;
    let ([miss], rarely) = match digits::<2>(miss, "MR") {
        Some([often, rare]) => ([often], Some(rare)),
        None => (digits::<1>(miss, "M")?, None),
    };
    let ([replace], [update]) = (digits::<1>(replace, "R")?, digits::<1>(update, "U")?);
    // R0 and R2 need a way of age 3, which U2 and U3 do not guarantee.
    let sound = replace == 1 || (replace < 3 && update < 2);
    let known = hit[0] <= 2 && hit[1] <= 1;
    (sound && known).then_some(QuadAge { hit, miss, rarely, replace, update, on_miss_only })
}

/// The ages of a set, as two planes of bits: way `n` has age `2 * high + low` of bits `n`.
#[derive(Clone, Copy)]
struct Planes {
    low: u64,
    high: u64,
}

impl Planes {
    fn put(&mut self, way: usize, age: u8) {
        let bit = 1 << way;
        self.low = (self.low & !bit) | (u64::from(age & 1) << way);
        self.high = (self.high & !bit) | (u64::from(age >> 1) << way);
    }

    fn get(&self, way: usize) -> u64 {
        (self.low >> way & 1) | (self.high >> way & 1) << 1
    }

    fn oldest(&self) -> u64 {
        self.low & self.high
    }

    /// Raises the ages of `ways` until one of them is 3.
    fn raise(&mut self, ways: u64) {
        let (low, high) = (self.low & ways, self.high & ways);
        if low & high != 0 {
        } else if high != 0 {
            self.increment(ways);
        } else if low != 0 {
            self.high |= ways;
        } else {
            self.low |= ways;
            self.high |= ways;
        }
    }

    /// Adds 1 to the ages of `ways`, none of which is 3.
    fn increment(&mut self, ways: u64) {
        self.high ^= self.low & ways;
        self.low ^= ways;
    }
}

pub(in crate::cache) struct Ages {
    rules: QuadAge,
    all: u64,
    random: SplitMix64,
    sets: Vec<Planes>,
}

impl Ages {
    pub(super) fn new(rules: QuadAge, sets: usize, ways: usize, random: SplitMix64) -> Self {
        let all = u64::MAX >> (64 - ways);
        Ages { rules, all, random, sets: vec![Planes { low: all, high: all }; sets] }
    }

    /// Ages the lines of a set; `way` is the one accessed, if that is known.
    #[inline(always)]
    fn age(&mut self, set: usize, way: Option<usize>) {
        let (ages, others) = (&mut self.sets[set], self.all & !way.map_or(0, |way| 1 << way));
        match self.rules.update {
            0 => ages.raise(self.all),
            1 => ages.raise(others),
            _ if ages.oldest() != 0 => {}
            2 => ages.increment(self.all),
            _ => ages.increment(others),
        }
    }

    fn after(&mut self, set: usize, way: usize) {
        if !self.rules.on_miss_only {
            self.age(set, Some(way));
        }
    }

    fn before_miss(&mut self, set: usize) {
        if self.rules.on_miss_only {
            self.age(set, None);
        }
    }
}

impl Replace for Ages {
    fn hit(&mut self, set: usize, way: usize) {
        let [of_3, of_2] = self.rules.hit;
        let age = [0, 0, of_2, of_3][self.sets[set].get(way) as usize];
        self.sets[set].put(way, age);
        self.after(set, way);
    }

    fn fill(&mut self, set: usize, way: usize) {
        let age = match self.rules.rarely {
            Some(rare) if self.random.below(ONE_IN) == 0 => rare,
            _ => self.rules.miss,
        };
        self.sets[set].put(way, age);
        self.after(set, way);
    }

    fn victim(&mut self, set: usize) -> usize {
        self.before_miss(set);
        match self.sets[set].oldest() {
            0 => 0,
            oldest => oldest.trailing_zeros() as usize,
        }
    }

    /// The leftmost of the ways with age 3. If none of them has age 3: with `R1` the leftmost (as `victim` takes way
    /// 0); else, since the policy ages lines until one is 3, the leftmost of the oldest of them. Their ages do not
    /// change.
    fn victim_among(&mut self, set: usize, ways: u64) -> usize {
        self.before_miss(set);
        let ages = self.sets[set];
        let by_age = match self.rules.replace {
            1 => [ages.oldest(), u64::MAX, 0, 0],
            _ => [ages.oldest(), ages.high, ages.low, u64::MAX],
        };
        let mut candidates = by_age.map(|old| old & ways).into_iter();
        candidates.find(|&old| old != 0).unwrap_or(ways).trailing_zeros() as usize
    }

    fn vacancy(&mut self, set: usize, empty: u64) -> usize {
        self.before_miss(set);
        match self.rules.replace {
            2 => empty.ilog2() as usize,
            _ => empty.trailing_zeros() as usize,
        }
    }
}
