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
    assert!(acknowledged.len() as u64 > 10 * kills, "{} transactions", acknowledged.len());
}
