//! Power cuts: what a block device may hold of a recorded run, over several lives of the process.

use crate::child::{Acknowledgement, create, read, start, verify};
use crate::common::Folder;
use perdura::{Domain, Options};
use perdura_disktest::Trace;
use perdura_disktest::device::DeviceState;
use perdura_disktest::image::{ImageChoice, ImageSeed};
use perdura_disktest::trace::settle;
use perdura_memory::mapped::record::{Faults, Recorder};
use perdura_memory::random::SplitMix64;

const LIVES: u64 = 3;

/// `PERDURA_TEST_BUDGET=1000` checks as many thousand images as this does tens.
#[test]
fn a_power_cut_leaves_each_acknowledged_commit_of_both_databases() {
    for seed in perdura_testing::seeds(1, 2) {
        check(seed, 40);
    }
}

fn check(seed: u64, images: u64) {
    let folder = Folder::new();
    let path = folder.path().join("trace");
    let mut random = SplitMix64::new(seed);
    create(&folder.pool(), Some(Recorder::append_to(&path, Faults::default()).unwrap()));
    let created = Trace::read(&path).unwrap().len();
    let mut acknowledged: Vec<Acknowledgement> = Vec::new();
    for _ in 0..LIVES {
        let mut child = start(&folder.pool(), Some((&path, 20 + random.below(400))));
        acknowledged.extend(read(&mut child));
        settle(&path, &folder.pool()).unwrap();
    }
    assert!(!acknowledged.is_empty(), "seed {seed}");
    let trace = Trace::read(&path).unwrap();
    let image = folder.path().join("image.pool");
    for number in 0..images {
        let cut = created + random.below((trace.len() - created) as u64 + 1) as usize;
        let which = ImageSeed(random.next() >> 16);
        let mut state = DeviceState::new(which.unit());
        state.advance(&trace, cut);
        let choice = ImageChoice::draw(&state, which);
        std::fs::write(&image, choice.bytes(&state, &trace)).unwrap();
        let position = trace.position(cut);
        let before: Vec<Acknowledgement> =
            acknowledged.iter().copied().filter(|(_, _, at)| *at <= position).collect();
        let options = Options::new().domain(Some(Domain::Process)).accept_weaker(true);
        let served = perdura_sqlite::serve(options.open(&image).unwrap());
        let verdict = verify(&image, &before);
        drop(served);
        let report = perdura::check::check(&image, &perdura_sqlite::check_root).unwrap();
        let verdict = verdict.and(match report.problems.first() {
            Some(problem) => Err(problem.clone()),
            None if report.unreachable != Some(0) => Err("blocks have leaked".to_owned()),
            None => Ok(()),
        });
        if let Err(what) = verdict {
            panic!(
                "seed {seed}, image {number}, cut after record {cut} of {}: {what} ({choice})",
                trace.len()
            );
        }
    }
}
