//! The tests that concern transactions once more, on a pool of an engine whose transactions run beside one another.
//!
//! This program runs itself, with the tests of some of its files and one of another: their servers' new pools have the engine that
//! `PERDURA_TEST_ENGINE` names. It can be set for all tests as well.

use crate::common::ENGINE;
use std::process::Command;

/// The files, and of `connections`, whose tests are of the protocol, the one about several commands at once.
const TESTS: [&str; 12] = [
    "busy::",
    "clients::",
    "differential::",
    "durability::",
    "migrating::",
    "pausing::",
    "publishing::",
    "saving::",
    "scripts::",
    "tracking::",
    "transactions::",
    "connections::pipelines",
];

#[test]
fn transactions_beside_one_another() {
    if std::env::var_os(ENGINE).is_some() {
        return println!("skipped: the engine is given");
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let child =
        command.args(TESTS).env(ENGINE, perdura::EngineKind::CcStm.name()).output().unwrap();
    let said = [child.stdout, child.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(child.status.success(), "{ENGINE}=ccstm: {}{}", said[0], said[1]);
}
