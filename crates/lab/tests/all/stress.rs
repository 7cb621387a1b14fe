//! `perdura-lab stress`: all engines pass a short run, its options work, and it finds planted bugs.
//!
//! The program under test has the feature `planted` here, by a dependency of the tests.

use crate::common::{arg, command, fail, run, succeed, text};
use perdura_testing::{budget, times};
use serde_json::Value;
use std::time::Instant;
use tempfile::tempdir;

/// Seconds for a planted bug, at most: it ends as soon as something is wrong.
fn most_seconds() -> String {
    times(60).to_string()
}

/// All engines, a round each, and more of some.
#[test]
fn nothing_is_wrong() {
    for domain in ["transient", "media"] {
        let folder = tempdir().expect("a folder");
        let json = succeed(&[
            "stress",
            "--seconds",
            "1",
            "--round",
            "250",
            "--threads",
            "4",
            "--seed",
            "3",
            "--json",
            "--domain",
            domain,
            "--dir",
            arg(folder.path()),
        ]);
        let report: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(report["bad"], 0, "{report}");
        let engines = report["engines"].as_array().expect("engines");
        let sum = |what: &str| engines.iter().map(|row| row[what].as_u64().unwrap()).sum::<u64>();
        assert_eq!(engines.len(), perdura_crashtest::ENGINES.len());
        assert!(engines.iter().all(|row| row["rounds"].as_u64() > Some(0)), "{report}");
        assert!(sum("killed") > 2 && sum("rounds") > sum("killed"), "{report}");
        assert!(sum("operations") > 100 && sum("acknowledged") > 100, "{report}");
        let left = std::fs::read_dir(folder.path()).expect("the folder").count();
        assert_eq!(left, 0, "files are left");
    }
}

#[test]
fn options_are_checked() {
    assert!(fail(&["stress", "--engine", "volatile"]).contains("unknown engine 'volatile'"));
    assert!(fail(&["stress", "--planted", "Nothing"]).contains("there is no bug 'Nothing'"));
    let out = run(&["stress", "--minutes", "1", "--seconds", "1"]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
}

/// Ctrl-C ends it with the counts.
#[test]
fn interrupted_with_its_counts() {
    let folder = tempdir().expect("a folder");
    let child = command(&["stress", "--engine", "redo", "--dir", arg(folder.path())])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    std::thread::sleep(std::time::Duration::from_millis(700));
    let pid = child.id().to_string();
    let killed = std::process::Command::new("kill").args(["-INT", &pid]).status();
    assert!(killed.expect("kill").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("verdict: 0 bad"), "{}", text(&output.stdout));
}

/// The bug is found by threads on this engine.
fn finds(bug: &str, engine: &str, more: &[&str]) {
    let (folder, begun, seconds) = (tempdir().expect("a folder"), Instant::now(), most_seconds());
    let mut arguments = vec!["stress", "--planted", bug, "--engine", engine, "--seed", "1"];
    arguments.extend(["--seconds", &seconds, "--dir", arg(folder.path())]);
    arguments.extend(more);
    let complaint = fail(&arguments);
    println!("{bug} in {engine}: {:.1} s: {complaint}", begun.elapsed().as_secs_f64());
    assert!(complaint.contains("perdura-lab stress --engine"), "{complaint}");
}

#[test]
fn memory_in_use_is_reclaimed() {
    finds("HorizonIgnoresRunning", "ccstm", &["--domain", "transient"]);
    finds("VersionsForgotten", "ccstm", &["--domain", "transient"]);
    finds("UnknownBirthsLate", "ccstm", &["--domain", "transient"]);
    finds("NotesStay", "ccstm", &["--domain", "transient"]);
}

#[test]
fn a_word_of_two_commits_is_not_locked() {
    finds("SumsUnlocked", "ccstm", &["--domain", "transient"]);
    finds("SumsUnlocked", "ccstm", &["--domain", "media"]);
    finds("FirstLineLocked", "ccstm", &["--domain", "media"]);
    finds("FirstLineLocked", "ccstm-undo", &["--domain", "transient"]);
}

#[test]
fn a_right_is_revoked_without_waiting() {
    finds("BiasNotAwaited", "redo", &["--domain", "transient"]);
    finds("BiasNotAwaited", "undo", &["--domain", "transient"]);
}

/// Those that take threads seconds, up to a minute where others have the processors: only with a larger budget.
#[test]
fn slow_ones() {
    if budget() == 1 {
        return;
    }
    finds("HorizonIgnoresRunning", "ccstm", &["--domain", "media"]);
    for engine in ["redo", "undo", "s-wal", "eager"] {
        finds("ReclaimedUnderSnapshots", engine, &["--domain", "transient"]);
    }
    for engine in ["redo", "archapt-redo"] {
        finds("JoinedUnpinned", engine, &["--domain", "transient"]);
        finds("UnknownBirthsLate", engine, &["--domain", "transient"]);
        finds("NotesStay", engine, &["--domain", "transient"]);
    }
    finds("LaneBiasNotAwaited", "ccstm", &["--domain", "transient"]);
    finds("BiasNotAwaited", "s-wal", &["--domain", "transient"]);
    finds("BiasNotAwaited", "eager", &["--domain", "transient"]);
    finds("TwoWriters", "eager", &["--domain", "transient"]);
    finds("LoggedBeforeChecked", "ccstm", &["--domain", "transient"]);
}
