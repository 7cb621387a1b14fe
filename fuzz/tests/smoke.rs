//! Mutants of each target's seeds: none may cause a panic, a hang, or unbounded use of memory.
//!
//! A mutant that fails is repeated by `PERDURA_TEST_SEED=n`.

use perdura_fuzz::{Mutator, Target, target};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// No mutant may take longer, even in a debug build on a slow machine.
const LONGEST: Duration = Duration::from_secs(30);
/// Address space of the test, in bytes.
const SPACE: u64 = 8 << 30;

fn fuzz(name: &str, usual: u64) {
    let limit = rustix::process::Rlimit { current: Some(SPACE), maximum: Some(SPACE) };
    rustix::process::setrlimit(rustix::process::Resource::As, limit).expect("a lower limit");
    let target = target(name).expect("a target");
    let seeds = (target.seeds)();
    for seed in &seeds {
        (target.run)(seed);
    }
    let (sender, receiver) = channel();
    let runner = std::thread::spawn(move || {
        for seed in perdura_testing::seeds(0, usual) {
            let bytes = Mutator::new(seed).mutant(&seeds, target.words);
            sender.send((seed, bytes.clone())).expect("the test waits");
            run(target, seed, &bytes);
        }
    });
    watch(name, &receiver);
    runner.join().expect("no mutant panics");
}

fn run(target: &Target, seed: u64, bytes: &[u8]) {
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes)));
    if outcome.is_err() {
        let file = std::env::temp_dir().join(format!("perdura-fuzz-{}-{seed}", target.name));
        let _ = std::fs::write(&file, bytes);
        panic!(
            "{}: PERDURA_TEST_SEED={seed} panics; its bytes are in {}",
            target.name,
            file.display()
        );
    }
}

/// Returns when there are no more mutants; fails when one takes too long.
fn watch(name: &str, mutants: &std::sync::mpsc::Receiver<(u64, Vec<u8>)>) {
    let mut last = None;
    let mut since = Instant::now();
    loop {
        match mutants.recv_timeout(LONGEST) {
            Ok((seed, _)) => (last, since) = (Some(seed), Instant::now()),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                panic!("{name}: PERDURA_TEST_SEED={last:?} has taken {:?}", since.elapsed())
            }
        }
    }
}

#[test]
fn requests() {
    fuzz("requests", 2000);
}

#[test]
fn commands() {
    fuzz("commands", 1000);
}

#[test]
fn log() {
    fuzz("log", 1000);
}

#[test]
fn pool() {
    fuzz("pool", 1000);
}

#[test]
fn import() {
    fuzz("import", 300);
}

#[test]
fn machine() {
    fuzz("machine", 500);
}

#[test]
fn graph() {
    fuzz("graph", 2000);
}

#[test]
fn sqlite() {
    fuzz("sqlite", 300);
}

#[test]
fn vectors() {
    fuzz("vectors", 2000);
}
