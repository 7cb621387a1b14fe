//! The conformance suite on every memory of this crate.

mod common;

use common::{block, in_memory};
use perdura_memory::conformance::{self, NEEDS, speculation};
use perdura_memory::elision::ElisionCounts;
use perdura_memory::reference::Cut;
use perdura_memory::speculation::{Emulated, Emulation};
use perdura_memory::{
    Domain, HardwareAbort, MapOptions, Mapped, Memory, Ram, Reference, Speculation,
};
use std::path::Path;

const DOMAINS: [Domain; 4] =
    [Domain::Transient, Domain::Persistent, Domain::Media, Domain::Process];

#[test]
fn ram() {
    conformance::run(&Ram::new(NEEDS));
}

#[test]
fn reference_in_every_domain() {
    for domain in DOMAINS {
        conformance::run(&Reference::new(NEEDS, domain));
        conformance::grows(&Reference::new(NEEDS, domain).with_limit(4 * NEEDS));
        for cut in [Cut::None, Cut::All, Cut::Seed(1), Cut::Seed(2)] {
            let memory = Reference::new(NEEDS, domain);
            conformance::keeps_what_was_fenced(memory, |memory| memory.after_power_cut(cut));
        }
    }
}

fn mapped(directory: &Path, domain: Option<Domain>) {
    let path = directory.join("conformance");
    let options = MapOptions { domain, limit: 16 * NEEDS };
    let memory = Mapped::create(&path, NEEDS, options).expect("create");
    assert!(domain.is_none_or(|domain| domain == memory.domain()));
    conformance::run(&memory);
    conformance::grows(&memory);
    drop(memory);
    let memory = Mapped::open(&path, options).expect("open");
    assert_eq!(memory.len(), memory.limit(), "it has grown to the limit");
    conformance::keeps_what_was_fenced(memory, |memory| {
        drop(memory);
        Mapped::open(&path, options).expect("open again")
    });
}

#[test]
fn mapped_in_memory_in_every_domain() {
    let Some(directory) = in_memory() else { return };
    for domain in DOMAINS.map(Some).into_iter().chain([None]) {
        let _ = std::fs::remove_file(directory.path().join("conformance"));
        mapped(directory.path(), domain);
    }
}

#[test]
fn mapped_block_file_as_media() {
    mapped(block().path(), Some(Domain::Media));
}

#[test]
fn mapped_block_file_as_process() {
    mapped(block().path(), Some(Domain::Process));
}

#[test]
fn mapped_block_file_as_emulated_persistent_memory() {
    for domain in [Domain::Transient, Domain::Persistent] {
        mapped(block().path(), Some(domain));
    }
}

#[test]
fn mapped_read_only() {
    let directory = block();
    let path = directory.path().join("pool");
    drop(Mapped::create(&path, NEEDS, MapOptions::default()).expect("create"));
    let before = std::fs::read(&path).expect("the file");
    conformance::run(&Mapped::open_read_only(&path).expect("open"));
    assert!(std::fs::read(&path).expect("the file") == before, "looking at a pool changed it");
}

/// Runs each program on a thread of its own.
fn on_threads(programs: &[&(dyn Fn() + Sync)]) {
    std::thread::scope(|scope| {
        programs.iter().for_each(|program| drop(scope.spawn(program)));
    });
}

/// With losses drawn never, seldom and often.
#[test]
fn emulated_speculations() {
    for (seed, lost_percent) in [(1, 0), (2, 5), (3, 50)] {
        let emulation = Emulation { seed, lost_percent, ..Emulation::default() };
        conformance::run(&Emulated::new(Ram::new(NEEDS), emulation));
        let memory = Emulated::new(Ram::new(NEEDS), emulation);
        let counts = speculation::speculates(&memory, &on_threads, 2_000);
        let sum = |of: fn(&ElisionCounts) -> u64| counts.iter().map(of).sum::<u64>();
        let (hardware, locked) = (sum(|counts| counts.hardware), sum(|counts| counts.locked));
        assert!(
            hardware > 600 && locked > 300,
            "{lost_percent} %: {hardware} in hardware, {locked} under the lock"
        );
        let drawn = sum(|counts| counts.capacity);
        assert_eq!(
            drawn > 0,
            lost_percent > 0,
            "{lost_percent} %: {drawn} losses that nobody has caused"
        );
    }
}

/// The processor's own, where it has them.
#[test]
fn speculations_of_the_processor() {
    let Some(directory) = in_memory() else { return };
    let path = directory.path().join("conformance");
    let options = MapOptions { domain: Some(Domain::Process), limit: NEEDS };
    let memory = Mapped::create(&path, NEEDS, options).expect("create");
    if memory.speculation() == Speculation::Absent {
        assert_eq!(memory.speculate(), Err(HardwareAbort::Absent));
        eprintln!("not measured: this processor has no restricted transactional memory");
        return;
    }
    let counts = speculation::speculates(&memory, &on_threads, 20_000);
    assert!(counts.iter().map(|counts| counts.hardware).sum::<u64>() > 30_000, "{counts:?}");
}
