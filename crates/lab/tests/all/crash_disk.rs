//! `perdura-lab crash-disk`: the power is cut anywhere in a real server's writes and syncs; planted bugs are found.

use crate::common::{arg, fail, succeed};
use perdura::EngineKind;
use perdura_disktest::trace::Trace;
use perdura_disktest::{Recorded, Setting, Watch, explore, record};
use perdura_memory::mapped::record::Record;
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

#[test]
fn every_engine_survives_on_a_disk() {
    let folder = TempDir::new().expect("a folder");
    let arguments = ["crash-disk", "--accept-memory", "--images", "60", "--lives", "6", "--json"];
    let report = succeed(&[&arguments[..], &["--dir", arg(folder.path())]].concat());
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["failures"], 0);
    let engines = report["engines"].as_array().expect("engines");
    let whole = EngineKind::ALL.into_iter().filter(|kind| kind.is_crash_consistent());
    assert_eq!(engines.len(), whole.count(), "all but plain and volatile");
    for engine in engines {
        assert_eq!(engine["images"], 60, "{engine}");
        assert!(engine["acknowledged"].as_u64() > Some(0), "{engine}");
    }
    let left = std::fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, 0, "a run that is well leaves nothing behind");
}

/// A run of the undo engine, whose recovery relies on durable data only.
fn recorded(folder: &Path) -> Recorded {
    let program = env!("CARGO_BIN_EXE_perdura-lab").into();
    let setting = Setting { program, engine: "undo".to_owned(), lives: 3, seed: 5 };
    record(&setting, folder, &|| false).expect("a run").expect("nothing lost without a power cut")
}

/// Failing images of a run, out of a hundred.
fn bad(run: &Recorded, folder: &Path) -> u64 {
    let watch = Watch { stopped: &|| false, checked: &|| () };
    let report = explore(run, 100, 1, folder, &watch).expect("images");
    assert_eq!(report.images, 100);
    assert_eq!(report.found.is_empty(), report.bad == 0);
    report.bad
}

#[test]
fn planted_faults_are_found() {
    let folder = TempDir::new().expect("a folder");
    let run = recorded(folder.path());
    assert_eq!(bad(&run, folder.path()), 0);
    let again = Recorded::read(folder.path()).expect("the run that was left there");
    assert_eq!(again.trace.len(), run.trace.len());

    let mut early = run.clone();
    for attempt in early.history.connections.iter_mut().flatten() {
        attempt.answered = attempt.answered.map(|_| attempt.sent);
    }
    assert!(bad(&early, folder.path()) > 0, "answers that came before the sync");

    let mut lying = run.clone();
    let records = (0..run.trace.len()).map(|number| match run.trace.record(number) {
        Record::Synced(_) if number > 20 => Record::Synced(false),
        record => record,
    });
    lying.trace = Trace::new(records.flat_map(|record| record.encode()).collect());
    assert!(bad(&lying, folder.path()) > 0, "a device whose syncs do nothing");
}

#[test]
fn refuses_impossible_options() {
    let folder = TempDir::new().expect("a folder");
    let complaint = fail(&["crash-disk", "--engine", "volatile"]);
    assert!(complaint.contains("promises nothing"), "{complaint}");
    let missing = folder.path().join("missing");
    assert!(fail(&["crash-disk", "--dir", arg(&missing)]).contains("missing"));
    let replay = ["crash-disk", "--replay", arg(folder.path()), "--cut", "1", "--image", "1"];
    assert!(fail(&replay).contains("history.json"));
    if let Ok(memory) = TempDir::new_in("/dev/shm") {
        let complaint = fail(&["crash-disk", "--dir", arg(memory.path())]);
        assert!(complaint.contains("in memory"), "{complaint}");
    }
}

#[test]
fn recording_needs_a_block_devices_domain() {
    let folder = TempDir::new().expect("a folder");
    let (pool, trace) = (folder.path().join("pool"), folder.path().join("trace"));
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--domain", "process", "--size", "4M"];
    let files = ["--pool", arg(&pool), "--record-writes", arg(&trace)];
    let complaint = fail(&[&arguments[..], &files].concat());
    assert!(complaint.contains("'media' only"), "{complaint}");
    assert!(!pool.exists(), "no pool is left");
}
