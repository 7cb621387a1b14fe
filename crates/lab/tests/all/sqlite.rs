//! `perdura-lab bench sqlite`, small: each program on each kind of database.

use crate::common::{arg, fail, succeed, text};
use serde_json::Value;

fn report(more: &[&str]) -> Value {
    let small =
        ["--puts", "200", "--keys", "50", "--batches", "2", "--bytes", "1M", "--seconds", "0.2"];
    let once = ["--ops", "200", "--entries", "300", "--repeat", "1", "--seed", "5", "--json"];
    let asked = [&["bench", "sqlite"], &small[..], &once, more].concat();
    serde_json::from_str(&succeed(&asked)).expect("JSON")
}

fn figures<'a>(report: &'a Value, program: usize, entrant: &str) -> &'a Value {
    let entrants = report["entrants"].as_array().expect("entrants");
    let index = entrants.iter().position(|one| one["name"] == entrant).expect("it takes part");
    &report["rounds"][program]["figures"][index]
}

#[test]
fn every_program_on_every_database() {
    let folder = tempfile::tempdir().expect("a folder");
    for place in ["/dev/shm", text(folder.path().as_os_str().as_encoded_bytes()).as_str()] {
        let report = report(&["--threads", "1,3", "--dir", place]);
        assert_eq!(report["entrants"].as_array().map(Vec::len), Some(8));
        let rounds = report["rounds"].as_array().expect("rounds");
        assert_eq!(rounds.len(), 12, "{place}");
        for (program, round) in rounds.iter().enumerate() {
            let ran = round["figures"].as_array().expect("figures").iter();
            let ran: Vec<_> = ran.filter(|figures| !figures.is_null()).collect();
            // Those of several connections are for databases that more than one can have.
            let expected = match program {
                0 | 2..5 => 8,
                5 => 3,
                _ => 4,
            };
            assert_eq!(ran.len(), expected, "{round}");
            assert!(ran.iter().all(|one| one["per_second"]["median"].as_f64() > Some(0.0)));
        }
        // What is counted does not depend on the day: a put changes parts of two pages; a write-ahead log has a whole one.
        let bytes = |entrant| figures(&report, 0, entrant)["bytes_each"]["median"].as_f64();
        let (ours, wal) = (bytes("pool, redo").expect("bytes"), bytes("WAL").expect("bytes"));
        assert!(wal > 4_096.0 && ours > 200.0 && ours < wal / 2.0, "{place}: {ours} of {wal}");
        assert_eq!(figures(&report, 0, ":memory:")["bytes_each"], Value::Null);
        assert_eq!(figures(&report, 0, "WAL")["ratio"], 1.0);
        // The cursor holds back pages, and no commits.
        let beside = figures(&report, 5, "pool, redo");
        assert!(beside["kept_bytes"]["median"].as_f64() > Some(0.0), "{beside}");
        assert!(beside["longest_ns"]["median"].as_f64() > Some(0.0), "{beside}");
    }
}

#[test]
fn engines_and_programs_are_chosen() {
    let asked = ["bench", "sqlite", "--program", "batches", "--engine", "undo", "--only-pools"];
    let small = ["--batches", "2", "--repeat", "1", "--keys", "10"];
    let printed = succeed(&[&asked[..], &small].concat());
    assert!(printed.contains("pool, undo, exclusive") && !printed.contains("WAL:"), "{printed}");
    assert!(printed.contains("1,000 rows") && !printed.contains("VACUUM"), "{printed}");
    let refused = fail(&["bench", "sqlite", "--threads", "8", "--keys", "7"]);
    assert!(refused.contains("give --keys more"), "{refused}");
}

/// SQLite's bars of Archapt's figures, small.
#[test]
fn figures_have_their_workloads() {
    for name in ["archapt-sqlite-table1", "archapt-sqlite-fig7", "archapt-sqlite-fig9"] {
        let report = crate::reproduce::report(name, &[]);
        let workloads: Vec<_> = report["plan"]["workloads"].as_array().expect("workloads").clone();
        assert_eq!(workloads, ["sqlite-linkbench", "sqlite-ycsb", "sqlite-tpcc"], "{name}");
    }
}

#[test]
fn power_cuts_lose_nothing_that_is_not_corrected() {
    // So few operations of the others fill no group: no line's write-back is skipped, and no power is cut.
    let folder = tempfile::tempdir().expect("a folder");
    let small = ["--quick", "--workload", "sqlite-tpcc", "--json", "--out", arg(folder.path())];
    let printed = succeed(&[&["reproduce", "archapt-sqlite-table4"], &small[..]].concat());
    let report: Value = serde_json::from_str(&printed).expect("JSON");
    let comparisons = report["comparisons"].as_array().expect("comparisons");
    let uncorrected = comparisons.iter().find(|one| one["quantity"] == "uncorrected");
    assert_eq!(uncorrected.expect("it is compared")["ours"], 0.0, "{report}");
}
