//! Each policy, on a single set, behaves as its model; and the quad-age policies of real processors as
//! worked out by hand.

use crate::models::{AgedSet, Any, List, Model, Tree, TreeSet};
use crate::{single_set, store};
use perdura_machine::cache::{NamedPolicy, Policy, QuadAge};
use perdura_memory::reference::SplitMix64;

/// Stores and drops lines at random in both: equal hits and victims.
fn compare(policy: Policy, ways: u32, accesses: usize, mut model: impl Model) {
    let seed = u64::from(ways);
    let mut set = single_set(ways, policy, seed);
    let mut random = SplitMix64::new(!seed);
    for n in 0..accesses {
        // Half of all draws from few lines: hits of all kinds, and sometimes none for long.
        let among = if random.below(2) == 0 { ways / 2 + 1 } else { 2 * ways + 1 };
        let line = random.below(u64::from(among)) + 1000;
        if random.below(32) == 0 {
            match random.below(2) {
                0 => set.drop_line(line),
                _ => _ = set.write_back(0, line, false),
            }
            model.remove(line);
        } else {
            let (real, expected) = (store(&mut set, line), model.access(line));
            assert_eq!(real, expected, "{policy}, {ways} ways, access {n}, line {line}");
        }
    }
}

#[test]
fn lru_is_a_list() {
    for ways in 1..=64 {
        let model = List { ways: ways as usize, lines: Vec::new(), bimodal: None };
        compare(Policy::Lru, ways, 5000, model);
    }
}

#[test]
fn bimodal_is_a_list_too() {
    for ways in 1..=64 {
        let bimodal = Some(SplitMix64::new(u64::from(ways)));
        let model = List { ways: ways as usize, lines: Vec::new(), bimodal };
        compare(Policy::Bimodal, ways, 5000, model);
    }
}

#[test]
fn random_replaces_what_it_draws() {
    for ways in 1..=64 {
        let random = SplitMix64::new(u64::from(ways));
        compare(Policy::Random, ways, 5000, Any { ways: vec![None; ways as usize], random });
    }
}

#[test]
fn tree_plru_is_a_tree() {
    for ways in 1..=64usize {
        let tree = Tree::new(0, ways.next_power_of_two(), ways);
        compare(Policy::TreePlru, ways as u32, 5000, TreeSet { ways: vec![None; ways], tree });
    }
}

/// All notations.
fn notations() -> Vec<String> {
    let mut all = Vec::new();
    for hit in ["H21", "H20", "H11", "H10", "H00"] {
        for miss in ["M0", "M1", "M2", "M3", "MR32", "MR31", "MR30", "MR21", "MR20", "MR10"] {
            let rest = ["R0_U0", "R0_U1", "R1_U0", "R1_U1", "R1_U2", "R1_U3", "R2_U0", "R2_U1"];
            for rest in rest {
                all.push(format!("{hit}_{miss}_{rest}"));
                all.push(format!("{hit}_{miss}_{rest}_UMO"));
            }
        }
    }
    all
}

#[test]
fn quad_age_follows_its_notation() {
    for notation in notations() {
        for ways in [1, 2, 4, 8, 11, 16, 64] {
            let model = AgedSet::new(&notation, ways as usize, u64::from(ways));
            compare(notation.parse().unwrap(), ways, 300, model);
        }
    }
}

/// Stores the lines of `trace` (a letter each) into four ways. Returns the line that each replaces, `.` for
/// nothing, `+` for a hit.
fn replaced(policy: QuadAge, trace: &str) -> String {
    let mut set = single_set(4, Policy::QuadAge(policy), 1);
    let outcome = |line: u8| match store(&mut set, line.into()) {
        (true, None) => '+',
        (false, None) => '.',
        (_, Some(out)) => char::from(out as u8),
    };
    trace.bytes().map(outcome).collect()
}

#[test]
fn ivy_bridge_l3_by_hand() {
    // ABCD: 1111, none is 3: 2222. A is hit: 1222, so 2333. E for B: 2133, F for C: 2113, G for
    // D: 2111, so 3222. H for A: 1222, so 2333. I for E.
    assert_eq!(replaced(QuadAge::IVY_BRIDGE_L3, "ABCDAEFGHI"), "....+BCDAE");
    // 2222. A: 2333, B: 2133, B: 2033, C: 2013, C: 2003, A: 1003, A: 0003, D: 0001, so 1112.
    // E finds no 3: A, in way 0, goes: 1112, so 2223. F for D.
    assert_eq!(replaced(QuadAge::IVY_BRIDGE_L3, "ABCDABBCCAADEF"), "....++++++++AD");
}

#[test]
fn coffee_lake_l3_by_hand() {
    // ABCD: 1111, raised to 3333. A: 1333. E for B: 1133. A: 0133. F for C: 0113. G for D: 0111,
    // so 2333. H for E: 2133, I for F: 2113, J for G: 2111, so 3222. K for A.
    assert_eq!(replaced(QuadAge::COFFEE_LAKE_L3, "ABCDAEAFGHIJK"), "....+B+CDEFGA");
}

#[test]
fn coffee_lake_l2_by_hand() {
    // Filled from the right: DCBA 1111, others raised: 1333. E for C: 1133, F for B: 1113. D is
    // hit: 0113. G for A: 0111, others raised by 2: 2331. H for E: 2131, I for F: 2111, others
    // by 1: 3212. J for D.
    assert_eq!(replaced(QuadAge::COFFEE_LAKE_L2, "ABCDEFDGHIJ"), "....CB+AEFD");
}

#[test]
fn ice_lake_l2_by_hand() {
    // ABCD 1111, others raised: 3331. E for A: 1331. B is hit: 1031. F for C: 1011, others by 2:
    // 3213. G for E: 1213, H for D: 1211, others by 1: 2321. I for B.
    assert_eq!(replaced(QuadAge::ICE_LAKE_L2, "ABCDEBFGHI"), "....A+CEDB");
}

#[test]
fn srrip_by_hand() {
    // ABCD 2222. A: 0222. E: raised first, 1333, for B: 1233, F for C: 1223, G for D: 1222. H:
    // 2333, for E: 2233, I for F, J for G: 2222. K: 3333, for A.
    assert_eq!(replaced(QuadAge::SRRIP, "ABCDAEFGHIJK"), "....+BCDEFGA");
}

#[test]
fn names_are_read_and_written() {
    for NamedPolicy { name, policy: own, .. } in Policy::NAMED {
        let policy: Policy = serde_json::from_str(&format!("\"{name}\"")).unwrap();
        assert_eq!(policy, own);
        assert_eq!(serde_json::to_string(&policy).unwrap(), format!("\"{name}\""));
    }
    for notation in notations() {
        let policy: QuadAge = notation.parse().unwrap();
        assert_eq!(policy.to_string(), notation);
    }
    let known = |name: &str| name.parse::<Policy>().unwrap();
    assert_eq!(known("quad-age"), known("H11_M1_R1_U2"));
    assert_eq!(known("H00_M2_R0_U0_UMO"), Policy::QuadAge(QuadAge::SRRIP));
    assert_eq!(known("H11_M1_R0_U0"), Policy::QuadAge(QuadAge::COFFEE_LAKE_L3));
    assert_eq!(known("H00_M1_R2_U1"), Policy::QuadAge(QuadAge::COFFEE_LAKE_L2));
    assert_eq!(known("H00_M1_R0_U1"), Policy::QuadAge(QuadAge::ICE_LAKE_L2));
    let bad = ["", "LRU", "H11", "H11_M1_R0_U2", "H11_M1_R3_U0", "H31_M1_R0_U0", "H1_M1_R0_U0"];
    let worse = ["H11_M1_R0_U0_", "H11_M4_R0_U0", "UMO", "H11_M1_R0_U0_UMO_UMO", "H11_M12_R0_U0"];
    for name in bad.into_iter().chain(worse) {
        let message = name.parse::<Policy>().unwrap_err().to_string();
        assert!(message.contains(&format!("'{name}'")), "{message}");
    }
}
