//! Bugs that `perdura-lab crash` finds on the simulated machine, most in less than a second, each of a kind that had escaped it:
//! memory that a running transaction may still see is reclaimed; a word that two commits change is not locked; a right is
//! revoked without waiting; a record holds what no commit stored; memory is reachable before it is durable.
//!
//! `perdura-lab crash --planted NAME --engine NAME` finds them too, with all structures; here the structure is named.
//! `stress.rs` has those that threads find.

use crate::common::{run, text};
use std::time::Instant;

/// The bug is found on this engine, with this structure.
fn finds(bug: &str, engine: &str, structure: &str, more: &[&str]) {
    let begun = Instant::now();
    let mut arguments = vec!["crash", "--planted", bug, "--engine", engine];
    arguments.extend([
        "--workload",
        structure,
        "--start",
        "closed",
        "--no-shrink",
        "--threads",
        "1",
        "--images",
        "50k",
    ]);
    arguments.extend(more);
    let output = run(&arguments);
    let (found, seconds) = (text(&output.stdout), begun.elapsed().as_secs_f64());
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {found}{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("failed the crash test"), "{}", text(&output.stderr));
    println!("{bug} in {engine}: {seconds:.1} s: {}", found.lines().next().unwrap_or_default());
}

const ONE: &[&str] = &["--domain", "transient", "--cores", "1"];
const THREE: &[&str] = &["--domain", "transient", "--cores", "3"];
const FILE: &[&str] = &["--domain", "media", "--cores", "1"];
const FILE_THREE: &[&str] = &["--domain", "media", "--cores", "3"];

/// Many brief lives on this domain: as those that follow each case by default.
fn brief(domain: &str) -> [&str; 8] {
    ["--domain", domain, "--cores", "4", "--points", "random:2", "--each", "1"]
}

#[test]
fn a_right_is_revoked_without_waiting() {
    for engine in ["redo", "undo", "eager"] {
        for bug in ["BiasNotAwaited", "SlotSkipped", "OneReaderOverlooked"] {
            finds(bug, engine, "sps", THREE);
        }
    }
    finds("SnapshotAmongCommits", "ccstm", "sps", THREE);
    finds("AloneAmongCommits", "ccstm", "hash-map", &brief("transient"));
}

#[test]
fn a_word_of_two_commits_is_not_locked() {
    finds("FirstLineLocked", "ccstm", "sps", THREE);
    finds("FirstLineLocked", "ccstm-undo", "sps", THREE);
    finds("LockedInTwoSteps", "ccstm", "bytes", &brief("transient"));
    finds("TickedInTwoSteps", "ccstm", "sps", &brief("transient"));
}

#[test]
fn a_record_holds_what_no_commit_stored() {
    for engine in ["redo", "eager", "archapt-redo", "s-wal"] {
        finds("OldWordsLogged", engine, "sps", ONE);
        finds("WordTooMuchLogged", engine, "bytes", ONE);
        finds("TornRecordTaken", engine, "sps", ONE);
    }
    for engine in ["redo", "undo", "ccstm-undo"] {
        finds("PartsMissing", engine, "wide", THREE);
    }
    finds("LoggedBeforeChecked", "ccstm", "sps", THREE);
    finds("LoggedBeforeChecked", "ccstm", "sps", FILE_THREE);
    finds("GapOverlooked", "ccstm", "sps", &brief("media"));
}

#[test]
fn memory_is_reachable_before_it_is_durable() {
    for engine in ["redo", "undo", "s-wal", "eager", "archapt-redo", "ccstm", "ccstm-undo"] {
        finds("FreshForgotten", engine, "churn", ONE);
    }
    for engine in ["redo", "ccstm", "eager"] {
        finds("FreshUnfenced", engine, "churn", ONE);
    }
    // Only larger pools have memory that goes past the log of a file, and pieces of more than 64 KiB.
    for engine in ["redo", "ccstm"] {
        finds("FreshForgotten", engine, "roomy", FILE);
        finds("FreshCutShort", engine, "roomy", ONE);
    }
}
