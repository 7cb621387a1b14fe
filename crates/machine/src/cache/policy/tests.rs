//! Each policy's choice of a victim among some ways, compared with a small model; among all ways, compared with the
//! choice without a mask and with the same random numbers.

use super::{Policy, Replace, Replacement};
use perdura_memory::reference::SplitMix64;
use std::collections::BTreeMap;

/// A set as lists and maps, of ways without lines.
enum Model {
    /// Most recent first; bimodal insertion with numbers to draw.
    List(Vec<usize>, Option<SplitMix64>),
    /// The half that each range of ways points to, true for the right one.
    Tree(BTreeMap<(usize, usize), bool>),
    Any(SplitMix64),
    /// Notation, ages, numbers to draw.
    Ages(String, Vec<u8>, SplitMix64),
}

impl Model {
    fn new(policy: &str, ways: usize, seed: u64) -> Self {
        let random = SplitMix64::new(seed);
        match policy {
            "lru" => Model::List((0..ways).collect(), None),
            "bimodal" => Model::List((0..ways).collect(), Some(random)),
            "tree-plru" => Model::Tree(BTreeMap::new()),
            "random" => Model::Any(random),
            notation => Model::Ages(notation.to_owned(), vec![3; ways], random),
        }
    }

    fn used(&mut self, way: usize, new: bool) {
        match self {
            Model::List(order, random) => {
                let often = |random: &mut SplitMix64| random.below(32) != 0;
                let last = new && random.as_mut().is_some_and(often);
                order.retain(|&other| other != way);
                order.insert(if last { order.len() } else { 0 }, way);
            }
            Model::Tree(bits) => {
                let (mut first, mut size) = (0, 64);
                while size > 1 {
                    size /= 2;
                    let right = way >= first + size;
                    bits.insert((first, size), !right);
                    first += if right { size } else { 0 };
                }
            }
            Model::Any(_) => {}
            Model::Ages(notation, ages, random) => {
                let digits = |part: usize| {
                    let part = notation.split('_').nth(part).unwrap();
                    part.bytes().filter(u8::is_ascii_digit).map(|d| d - b'0').collect::<Vec<_>>()
                };
                ages[way] = match (new, ages[way], &digits(1)[..]) {
                    (false, 3, _) => digits(0)[0],
                    (false, 2, _) => digits(0)[1],
                    (false, ..) => 0,
                    (true, _, [often, rare]) => [*often, *rare][usize::from(random.below(16) == 0)],
                    (true, _, rule) => rule[0],
                };
                if !notation.ends_with("UMO") {
                    raise(notation, ages, Some(way));
                }
            }
        }
    }

    /// The victim among the ways of a list, ascending.
    fn victim(&mut self, among: &[usize]) -> usize {
        let leftmost = |which: &dyn Fn(usize) -> bool| among.iter().copied().find(|&w| which(w));
        match self {
            Model::List(order, _) => *order.iter().rfind(|way| among.contains(way)).unwrap(),
            Model::Tree(bits) => {
                let (mut first, mut size) = (0, 64);
                while size > 1 {
                    size /= 2;
                    let (first_half, middle) = (first..first + size, first + size);
                    let left = among.iter().any(|way| first_half.contains(way));
                    let right = among.iter().any(|way| (middle..middle + size).contains(way));
                    let points_right = bits.get(&(first, size)) == Some(&true);
                    first = if right && (points_right || !left) { middle } else { first };
                }
                first
            }
            Model::Any(random) => among[random.below(among.len() as u64) as usize],
            Model::Ages(notation, ages, _) => {
                if notation.ends_with("UMO") {
                    raise(notation, ages, None);
                }
                let oldest = among.iter().map(|&way| ages[way]).max().unwrap();
                let any = notation.contains("_R1") && oldest < 3;
                leftmost(&|way| any || ages[way] == oldest).unwrap()
            }
        }
    }
}

/// Ages as rule `U` of the notation has it.
fn raise(notation: &str, ages: &mut [u8], accessed: Option<usize>) {
    let (_, rule) = notation.split_once("_U").unwrap();
    let spared = if rule.starts_with(['1', '3']) { accessed } else { None };
    let raised = |way: usize| Some(way) != spared;
    let oldest = |ages: &[u8], whose: &dyn Fn(usize) -> bool| {
        (0..ages.len()).filter(|&way| whose(way)).map(|way| ages[way]).max().unwrap_or(3)
    };
    let by = match rule.as_bytes()[0] {
        b'0' | b'1' => 3 - oldest(ages, &raised),
        _ => u8::from(oldest(ages, &|_| true) < 3),
    };
    ages.iter_mut().enumerate().filter(|(way, _)| raised(*way)).for_each(|(_, age)| *age += by);
}

const POLICIES: [&str; 14] = [
    "lru",
    "bimodal",
    "tree-plru",
    "random",
    "H11_M1_R1_U2",
    "H11_M1_R0_U0",
    "H00_M1_R2_U1",
    "H00_M1_R0_U1",
    "H00_M2_R0_U0_UMO",
    "H21_MR32_R1_U3",
    "H20_MR20_R1_U2_UMO",
    "H10_MR10_R2_U1_UMO",
    "H21_M3_R0_U0",
    "H11_M0_R1_U3_UMO",
];

const SETS: usize = 2;

fn replacement(policy: &str, ways: usize, seed: u64) -> Replacement {
    let policy: Policy = policy.parse().unwrap();
    Replacement::new(policy, SETS, ways, SplitMix64::new(seed))
}

fn all(ways: usize) -> u64 {
    u64::MAX >> (64 - ways)
}

#[test]
fn among_some_ways_it_is_the_models_choice() {
    for (policy, ways) in POLICIES.iter().flat_map(|policy| (1..=64).map(move |w| (policy, w))) {
        let seed = ways as u64;
        let (mut real, mut model) =
            (replacement(policy, ways, seed), Model::new(policy, ways, seed));
        let mut random = SplitMix64::new(!seed);
        for n in 0..400 {
            if random.below(3) == 0 {
                let way = random.below(ways as u64) as usize;
                real.hit(1, way);
                model.used(way, false);
                continue;
            }
            // Few ways, half of them, all.
            let mask = match random.below(3) {
                0 => random.next() & random.next() & random.next(),
                1 => random.next(),
                _ => u64::MAX,
            };
            let mask = Some(mask & all(ways)).filter(|&mask| mask != 0).unwrap_or(1);
            let among: Vec<usize> = (0..ways).filter(|way| mask >> way & 1 != 0).collect();
            let (chosen, expected) = (real.victim_among(1, mask), model.victim(&among));
            assert_eq!(chosen, expected, "{policy}, {ways} ways, step {n}, among {among:?}");
            real.fill(1, chosen);
            model.used(chosen, true);
        }
    }
}

#[test]
fn among_all_ways_it_is_the_choice_without_a_mask() {
    for (policy, ways) in POLICIES.iter().flat_map(|policy| (1..=64).map(move |w| (policy, w))) {
        let (mut plain, mut masked) = (replacement(policy, ways, 7), replacement(policy, ways, 7));
        let mut random = SplitMix64::new(ways as u64);
        for n in 0..1000 {
            let set = random.below(SETS as u64) as usize;
            if random.below(2) == 0 {
                let way = random.below(ways as u64) as usize;
                plain.hit(set, way);
                masked.hit(set, way);
                continue;
            }
            let way = plain.victim(set);
            let chosen = masked.victim_among(set, all(ways));
            assert_eq!(chosen, way, "{policy}, {ways} ways, step {n}");
            plain.fill(set, way);
            masked.fill(set, way);
        }
    }
}
