//! Processes that are killed while four threads write.

use crate::child::{create, read, start, verify};
use crate::common::Folder;
use perdura_memory::random::SplitMix64;
use std::time::Duration;

/// `PERDURA_TEST_BUDGET=100` kills a thousand.
#[test]
fn a_killed_process_leaves_each_acknowledged_commit_and_none_in_part() {
    let folder = Folder::new();
    create(&folder.pool(), None);
    let mut random = SplitMix64::new(1);
    let (mut acknowledged, kills) = (Vec::new(), perdura_testing::times(10));
    for kill in 0..kills {
        let mut child = start(&folder.pool(), None);
        std::thread::sleep(Duration::from_millis(30 + random.below(150)));
        child.kill().unwrap();
        acknowledged.extend(read(&mut child));
        if let Err(what) = verify(&folder.pool(), &acknowledged) {
            panic!("after kill {kill}: {what}");
        }
        folder.check();
    }
    // A few each, also on a disk that others keep busy.
    assert!(acknowledged.len() as u64 > kills, "{} transactions", acknowledged.len());
}

/// What a pool is compared with: each file has a log of its own, and the process is killed between the two commits.
#[test]
fn ordinary_databases_are_left_with_a_transaction_in_one_of_them() {
    let folder = Folder::new();
    let path = folder.path().join("ordinary.db");
    create(&path, None);
    let mut random = SplitMix64::new(1);
    for kill in 1..=300 {
        let mut child = start(&path, None);
        std::thread::sleep(Duration::from_millis(30 + random.below(100)));
        child.kill().unwrap();
        let acknowledged = read(&mut child);
        if let Err(found) = verify(&path, &acknowledged) {
            println!("after kill {kill}: {found}");
            assert!(found.contains("rows that"), "{found}");
            return;
        }
    }
    panic!("300 kills have left both databases with the same transactions");
}
