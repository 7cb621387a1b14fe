//! TATP on a heap: the rates of failures as the data changes, and planted errors, which the check notices.

use crate::heap;
use perdura::collections::HashMap;
use perdura::{AnySession, EngineKind, Result, Tx};
use perdura_workloads::tatp::{Distribution, Tatp, number};
use perdura_workloads::{Failure, Plan, Progress, Store, Workload};
use std::collections::BTreeMap;

const SUBSCRIBERS: u64 = 500;
const SEED: u64 = 9;

fn workload() -> Tatp {
    Tatp::new(SUBSCRIBERS, Distribution::NonUniform, SEED).expect("valid parameters")
}

fn plan(operations: u64) -> Plan {
    Plan {
        threads: 2,
        operations,
        warm_up: 0,
        seed: SEED,
        sample_every: 0,
        per_second: None,
        pinned: false,
        window: 1,
    }
}

/// Forwardings come and go, and half of those that can be are there in the long run: insertions and deletions go on
/// to fail at the same rate.
#[test]
fn rates_of_failures_stay() {
    let (heap, workload, progress) =
        (heap::in_ram(EngineKind::Redo), workload(), Progress::default());
    perdura_workloads::load(&workload, &*heap, &progress).expect("it loads");
    let measured = perdura_workloads::measure(&workload, &*heap, &plan(40_000), &progress);
    let measured = measured.expect("it runs");
    workload.check(&mut Store::session(&*heap).expect("a session")).expect("what was done");
    let counts: BTreeMap<_, _> = measured.counts.iter().copied().collect();
    assert_eq!(counts.values().sum::<u64>(), 40_000);
    for (kind, share, success, tolerance) in [
        ("get-subscriber-data", 0.35, 1.0, 0.0),
        ("get-new-destination", 0.10, 0.17, 0.05),
        ("get-access-data", 0.35, 0.625, 0.03),
        ("update-subscriber-data", 0.02, 0.625, 0.08),
        ("update-location", 0.14, 1.0, 0.0),
        ("insert-call-forwarding", 0.02, 0.3125, 0.08),
        ("delete-call-forwarding", 0.02, 0.3125, 0.08),
    ] {
        let (done, failed) = (counts[kind], counts[format!("failed {kind}").as_str()]);
        let all = (done + failed) as f64;
        let rate = done as f64 / all;
        println!("{kind}: {rate:.4} of {all}");
        assert!((all / 40_000.0 - share).abs() < 0.01, "{kind}: {all}");
        assert!((rate - success).abs() <= tolerance, "{kind}: {rate}");
    }
    let failed = ["update-subscriber-data", "insert-call-forwarding", "delete-call-forwarding"];
    let failed: u64 = failed.iter().map(|kind| counts[format!("failed {kind}").as_str()]).sum();
    assert_eq!(measured.counters.aborts_user, failed, "failed ones that write are rolled back");
}

/// An error in each table, as a workload that went wrong might leave it.
#[test]
fn the_check_notices_an_error_in_each_table() {
    type Plant = fn(&mut AnySession) -> Result<()>;
    fn at(tx: &mut dyn Tx, name: &str) -> Result<u64> {
        Ok(tx.root(name)?.expect("a root").at)
    }
    fn first<V: Copy>(found: Vec<(u64, V)>) -> (u64, V) {
        found.into_iter().min_by_key(|(key, _)| *key).expect("a row")
    }
    let plants: [(&str, Plant); 8] = [
        ("a location", |session| {
            session.transaction(|tx| {
                let table = HashMap::<u64, [u8; 64], false>::new(at(tx, "tatp.subscriber")?);
                let mut row = table.get(tx, 7)?.expect("a subscriber");
                row[12] ^= 1;
                table.set(tx, 7, row).map(drop)
            })
        }),
        ("a column that never changes", |session| {
            session.transaction(|tx| {
                let table = HashMap::<u64, [u8; 64], false>::new(at(tx, "tatp.subscriber")?);
                let mut row = table.get(tx, 7)?.expect("a subscriber");
                row[45] ^= 1;
                table.set(tx, 7, row).map(drop)
            })
        }),
        ("a number that leads elsewhere", |session| {
            session.transaction(|tx| {
                let index = HashMap::<[u8; 15], u64, false>::new(at(tx, "tatp.sub_nbr")?);
                index.set(tx, number(3), 4).map(drop)
            })
        }),
        ("a subscriber too many", |session| {
            session.transaction(|tx| {
                let table = HashMap::<u64, [u8; 64], false>::new(at(tx, "tatp.subscriber")?);
                table.set(tx, SUBSCRIBERS + 1, [0; 64]).map(drop)
            })
        }),
        ("a lost access", |session| {
            session.transaction(|tx| {
                let table = HashMap::<u64, [u8; 10], false>::new(at(tx, "tatp.access_info")?);
                let (key, _) = first(table.scan(tx, 0, 9)?.1);
                table.remove(tx, key).map(drop)
            })
        }),
        ("a facility's column", |session| {
            session.transaction(|tx| {
                let table = HashMap::<u64, [u8; 8], false>::new(at(tx, "tatp.special_facility")?);
                let (key, mut row) = first(table.scan(tx, 0, 9)?.1);
                row[2] = row[2].wrapping_add(1);
                table.set(tx, key, row).map(drop)
            })
        }),
        ("a lost forwarding", |session| {
            session.transaction(|tx| {
                let table = HashMap::<u64, [u8; 16], false>::new(at(tx, "tatp.call_forwarding")?);
                let (key, _) = first(table.scan(tx, 0, 9)?.1);
                table.remove(tx, key).map(drop)
            })
        }),
        ("a forwarding of no subscriber", |session| {
            session.transaction(|tx| {
                let table = HashMap::<u64, [u8; 16], false>::new(at(tx, "tatp.call_forwarding")?);
                table.set(tx, (SUBSCRIBERS + 1) << 16 | 1 << 8, [1; 16]).map(drop)
            })
        }),
    ];
    for (what, plant) in plants {
        let (heap, workload, progress) =
            (heap::in_ram(EngineKind::Redo), workload(), Progress::default());
        perdura_workloads::load(&workload, &*heap, &progress).expect("it loads");
        perdura_workloads::measure(&workload, &*heap, &plan(1_000), &progress).expect("it runs");
        let mut session = Store::session(&*heap).expect("a session");
        workload.check(&mut session).expect("what was done");
        plant(&mut session).expect("a change");
        let verdict = workload.check(&mut session);
        assert!(matches!(verdict, Err(Failure::Wrong(_))), "{what}: {verdict:?}");
    }
}

/// As docs/workloads.md says: a subscriber with all rows. Hash tables grow by doubling, so that it varies with the number
/// of subscribers; a pool is made for the largest.
#[test]
fn bytes_of_a_subscriber() {
    let mut each = Vec::new();
    for subscribers in [10_000, 13_000, 16_000, 19_000] {
        let heap = heap::of_bytes(EngineKind::Volatile, 64 << 20);
        let workload = Tatp::new(subscribers, Distribution::Uniform, SEED).expect("subscribers");
        perdura_workloads::load(&workload, &*heap, &Progress::default()).expect("it loads");
        each.push(heap::allocated(&*heap) / subscribers);
        println!("{subscribers} subscribers: {} bytes each", each[each.len() - 1]);
    }
    let most = perdura_workloads::tatp::BYTES_PER_SUBSCRIBER;
    assert!(each.iter().all(|bytes| (500..=most).contains(bytes)), "{each:?}");
}
