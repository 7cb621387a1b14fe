//! `perdura-lab crash --mechanism` finds bugs of a mechanism in hardware, and reports nothing without them.

use crate::common::{arg, fail, run, succeed, text};
use serde_json::Value;
use std::process::Command;

const SMALL: [&str; 12] = [
    "crash",
    "--workload",
    "sps",
    "--operations",
    "4",
    "--points",
    "random:30",
    "--policy",
    "lru",
    "--threads",
    "1",
    "--json",
];

#[test]
fn promises_are_kept() {
    let both = ["--mechanism", "undo-log,in-order", "--images", "600", "--cores", "1,2"];
    let with = |seed| {
        let report = succeed(&[&SMALL[..], &both, &["--seed", seed]].concat());
        let mut report: Value = serde_json::from_str(&report).expect("JSON");
        report["seconds"] = Value::Null;
        report["images_per_minute"] = Value::Null;
        report
    };
    let report = with("19");
    assert_eq!((&report["failures"], &report["machine"]), (&0.into(), &"tiny,tiny-dram".into()));
    let runs = report["runs"].as_array().expect("runs");
    let names: Vec<_> = runs.iter().map(|run| [&run["mechanism"], &run["engine"]]).collect();
    assert_eq!(names, [["undo-log", "plain"], ["in-order", "plain"]]);
    let count = |name: &str| report["total"][name].as_u64().expect("a number");
    assert!(count("images") >= 600 && count("at_arrivals") > 50 && count("recovery_cut") > 50);
    assert_eq!(report, with("19"));
}

/// Both mechanisms' mutants are found; the printed command repeats the failure, and reports nothing without the
/// mutant.
#[test]
fn mutants_are_found_and_replayed() {
    let mutants =
        ["--mechanism", "undo-log,in-order", "--mutants", "--images", "20k", "--seed", "19"];
    let report: Value =
        serde_json::from_str(&succeed(&[&SMALL[..], &mutants].concat())).expect("JSON");
    let rows = report["mutants"].as_array().expect("mutants");
    assert_eq!(report["mutants_found"], rows.len());
    assert!(rows.len() >= 8);
    for row in [&rows[0], &rows[rows.len() - 1]] {
        let (again, found) = (row["again"].as_str().expect("a command"), row["found"].as_str());
        let shown = |command: &str| {
            Command::new("sh")
                .args(["-c", &command.replacen("perdura-lab", "exec \"$PERDURA\"", 1)])
                .env("PERDURA", env!("CARGO_BIN_EXE_perdura-lab"))
                .output()
                .expect("a shell")
        };
        let failed = shown(&format!("{again} --no-shrink"));
        assert_eq!(failed.status.code(), Some(1), "{again}: {}", text(&failed.stderr));
        assert!(text(&failed.stdout).contains(found.expect("what failed")), "{again}");
        let mutant = format!("--mutant {} ", row["mutant"].as_str().expect("a name"));
        let clean = shown(&again.replace(&mutant, ""));
        assert!(clean.status.success(), "{again}: {}", text(&clean.stdout));
    }
}

/// A machine whose special buffer is too small for the caches of as many cores is refused before the first run.
#[test]
fn refuses_more_cores_than_a_mechanism_has_room_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("machine.toml");
    let tiny = include_str!("../../../../machines/tiny-dram.toml");
    // Lines of the shared cache, of three cores' own, and 256.
    let table = tiny.replace("special_lines = 65536", "special_lines = 344");
    assert_ne!(table, tiny);
    std::fs::write(&file, table).expect("a file");
    let machine = ["--machine", arg(&file), "--mechanism", "dual-page", "--images", "200"];
    let with = |cores: &'static str| [&SMALL[..], &machine, &["--cores", cores]].concat();
    succeed(&with("3"));
    let refused = fail(&with("1,4"));
    let needed = "special_lines is 344, and must be 352 at least for the caches of 4 cores";
    assert!(refused.contains(needed), "{refused}");
}

/// A failure is shrunk, and reported with its place.
#[test]
fn a_failure_is_shrunk() {
    let broken = ["--mechanism", "in-order", "--mutant", "hold", "--images", "20k"];
    let found = run(&[&SMALL[..], &broken].concat());
    assert_eq!(found.status.code(), Some(1), "{}", text(&found.stderr));
    assert!(text(&found.stderr).contains("the mechanism failed the crash test"));
    let found: Value = serde_json::from_slice(&found.stdout).expect("JSON");
    assert_eq!((&found["mechanism"], &found["mutant"]), (&"in-order".into(), &"hold".into()));
    assert!(
        found["failed"].as_str().is_some_and(|what| what.contains("is not as in-order promises"))
    );
    assert!(found["operations"].as_array().is_some_and(|operations| operations.len() <= 3));
    let again = found["again"].as_str().expect("a command");
    assert!(again.contains(&format!("--points {}", found["place"].as_str().expect("a place"))));
}

#[test]
fn refuses_impossible_options() {
    let with = |more: &[&str]| fail(&[&SMALL[..], more].concat());
    assert!(with(&["--mechanism", "plain"]).contains("promises nothing for a power cut"));
    assert!(with(&["--mechanism", "x"]).contains("plain, undo-log, in-order"));
    assert!(with(&["--mechanism", "in-order", "--mutant", "x"]).contains("wait, hold, fence"));
    let persistent = ["--mechanism", "in-order", "--domain", "persistent"];
    assert!(with(&persistent).contains("one of transient"));
    assert!(with(&["--mechanism", "in-order", "--epoch-us", "0"]).contains("1 to 1000000"));
    assert!(with(&["--mechanism", "in-order", "--omit", "x"]).contains("--mutant"));
    assert!(with(&["--machine", "tiny,pcm"]).contains("for --mechanism"));
}
