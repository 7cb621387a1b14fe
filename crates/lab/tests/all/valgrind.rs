//! Programs with pools run under valgrind, as those who profile them do.

use crate::common::text;
use std::process::Command;

/// A pool that grows after it was created, and is then closed: valgrind 3.19 does not survive every order of mappings
/// that the kernel allows.
#[test]
fn a_pool_that_grew_is_unmapped() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("not run: there is no valgrind");
        return;
    }
    let bench = "bench --workload sps --engine redo --entries 4096 --operations 200 --warm-up 0 --repeat 1 --sample 0";
    let ended = Command::new("valgrind")
        .args(["--quiet", "--tool=none", env!("CARGO_BIN_EXE_perdura-lab")])
        .args(bench.split(' '))
        .output()
        .expect("valgrind starts");
    let (out, complaint) = (text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success(), "{:?}\n{out}\n{complaint}", ended.status);
    assert!(out.contains("| redo") && !complaint.contains("FATAL"), "{out}\n{complaint}");
}
