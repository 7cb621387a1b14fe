//! TPC-C's random values: non-uniform numbers, last names, texts.

use super::Scale;
use crate::random::Random;

/// The constant A of last names; C comes from `Constants`.
const LAST_NAME_A: u64 = 255;
const CUSTOMER_A: u64 = 1023;
const ITEM_A: u64 = 8191;
/// The stream of a seed that the constants come from: threads count up from 0, loads from 2^40.
const STREAM: u64 = 1 << 41;

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// A last name, filled up with spaces.
pub(super) type LastName = [u8; 16];

/// The last name with this number, of three digits.
pub(super) fn last_name(number: u32) -> LastName {
    let digits = [number / 100 % 10, number / 10 % 10, number % 10];
    fixed(&digits.map(|digit| SYLLABLES[digit as usize]).concat())
}

/// A text filled up with spaces, or cut.
pub(super) fn fixed<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [b' '; N];
    let len = text.len().min(N);
    bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
    bytes
}

/// The constants C of the non-uniform numbers: the same for all threads of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constants {
    last_name_load: u64,
    last_name_run: u64,
    customer: u64,
    item: u64,
}

impl Constants {
    /// Those that follow from a seed. C of last names while running differs from C at the load
    /// by 65 to 119, but neither 96 nor 112.
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, STREAM);
        let load = random.below(LAST_NAME_A + 1);
        let distance = loop {
            let distance = random.between(65, 119);
            if distance != 96 && distance != 112 {
                break distance;
            }
        };
        let (below, above) = (load.checked_sub(distance), load + distance);
        let run = match below {
            Some(below) if above > LAST_NAME_A || random.below(2) == 0 => below,
            _ => above,
        };
        Constants {
            last_name_load: load,
            last_name_run: run,
            customer: random.below(CUSTOMER_A + 1),
            item: random.below(ITEM_A + 1),
        }
    }

    /// The number of a last name for the load.
    pub(super) fn loaded_name(&self, random: &mut Random) -> u32 {
        non_uniform(random, LAST_NAME_A, self.last_name_load, 0, 999)
    }

    /// The number of a last name that a transaction asks for: one that a customer has.
    pub(super) fn name(&self, random: &mut Random, scale: Scale) -> u32 {
        non_uniform(random, LAST_NAME_A, self.last_name_run, 0, scale.names() - 1)
    }

    /// A customer of a district.
    pub(super) fn customer(&self, random: &mut Random, scale: Scale) -> u32 {
        non_uniform(random, CUSTOMER_A, self.customer, 1, scale.customers)
    }

    /// An item.
    pub(super) fn item(&self, random: &mut Random, scale: Scale) -> u32 {
        non_uniform(random, ITEM_A, self.item, 1, scale.items)
    }
}

/// TPC-C's NURand(a, low, high).
fn non_uniform(random: &mut Random, a: u64, c: u64, low: u32, high: u32) -> u32 {
    let range = u64::from(high - low) + 1;
    let drawn = random.below(a + 1) | random.between(u64::from(low), u64::from(high));
    ((drawn + c) % range) as u32 + low
}

/// A number in `low..=high`.
pub(super) fn uniform(random: &mut Random, low: u32, high: u32) -> u32 {
    random.between(u64::from(low), u64::from(high)) as u32
}

/// Fills `to` with letters and digits, up to a length of `least` or more; spaces follow. Returns
/// the length.
fn fill(random: &mut Random, to: &mut [u8], least: usize) -> usize {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789AB";
    let len = random.between(least as u64, to.len() as u64) as usize;
    for part in to[..len].chunks_mut(10) {
        let mut bits = random.word();
        for byte in part {
            *byte = LETTERS[(bits % 64) as usize];
            bits >>= 6;
        }
    }
    to[len..].fill(b' ');
    len
}

/// Letters and digits, `least` or more.
pub(super) fn text<const N: usize>(random: &mut Random, least: usize) -> [u8; N] {
    let mut text = [0; N];
    fill(random, &mut text, least);
    text
}

/// Digits.
pub(super) fn digits<const N: usize>(random: &mut Random) -> [u8; N] {
    let mut text = [0; N];
    text.fill_with(|| b'0' + random.below(10) as u8);
    text
}

/// Four digits and five ones.
pub(super) fn zip(random: &mut Random) -> [u8; 9] {
    let mut zip = [b'1'; 9];
    zip[..4].copy_from_slice(&digits::<4>(random));
    zip
}

/// The word that makes an item's brand.
const ORIGINAL: &[u8] = b"ORIGINAL";

/// 26 to 50 letters and digits; in one of ten there is the word ORIGINAL.
pub(super) fn data(random: &mut Random) -> [u8; 50] {
    let mut data = [0; 50];
    let len = fill(random, &mut data, 26);
    if random.below(10) == 0 {
        let at = random.between(0, (len - ORIGINAL.len()) as u64) as usize;
        data[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
    data
}

/// Whether there is the word ORIGINAL in it.
pub(super) fn is_original(data: &[u8]) -> bool {
    data.windows(ORIGINAL.len()).any(|part| part == ORIGINAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_three_syllables() {
        assert_eq!(&last_name(0), b"BARBARBAR       ");
        assert_eq!(&last_name(371), b"PRICALLYOUGHT   ");
        assert_eq!(&last_name(999), b"EINGEINGEING    ");
        assert_eq!(&last_name(778), b"CALLYCALLYATION ");
    }

    #[test]
    fn constants_keep_their_distance() {
        for seed in 0..2_000 {
            let Constants { last_name_load: load, last_name_run: run, .. } = Constants::new(seed);
            let distance = load.abs_diff(run);
            assert!(load <= 255 && run <= 255, "{load} {run}");
            assert!((65..=119).contains(&distance) && distance != 96 && distance != 112);
        }
    }

    /// The shares of section 1 of the workloads' specification, computed for C = 0.
    #[test]
    fn non_uniform_numbers_are_as_skewed_as_they_should_be() {
        for (a, low, high, tenth) in [(255, 0, 999, 0.54), (1023, 1, 3000, 0.62)] {
            let mut counts = vec![0_u32; high as usize + 1];
            let mut random = Random::new(a, 0);
            let draws = 400_000;
            for _ in 0..draws {
                counts[non_uniform(&mut random, a, 0, low, high) as usize] += 1;
            }
            counts.sort_unstable_by(|one, other| other.cmp(one));
            let hottest: u32 = counts[..(high as usize + 1) / 10].iter().sum();
            let share = f64::from(hottest) / f64::from(draws);
            assert!((share - tenth).abs() < 0.02, "{a}: {share}");
        }
    }

    #[test]
    fn one_of_ten_data_is_original() {
        let mut random = Random::new(3, 0);
        let originals = (0..10_000).filter(|_| is_original(&data(&mut random))).count();
        assert!((900..1_100).contains(&originals), "{originals}");
    }
}
