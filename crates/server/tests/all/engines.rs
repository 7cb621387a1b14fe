//! The tests that concern transactions once more, on a pool of an engine whose transactions run beside one another.
//!
//! This program runs itself, with the tests of some of its files: their servers' new pools have the engine that
//! `PERDURA_TEST_ENGINE` names. It can be set for all tests as well.

use crate::common::ENGINE;
use std::process::Command;

/// The files.
const FILES: [&str; 6] =
    ["clients::", "connections::", "differential::", "durability::", "saving::", "transactions::"];

#[test]
fn transactions_beside_one_another() {
    if std::env::var_os(ENGINE).is_some() {
        return println!("skipped: the engine is given");
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(FILES)
        .env(ENGINE, perdura::EngineKind::CcStm.name())
        .output()
        .unwrap();
    let said = [child.stdout, child.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(child.status.success(), "{ENGINE}=ccstm: {}{}", said[0], said[1]);
}
