//! Every benchmark runs, small, checks its data, and prints its report.

use crate::common::{arg, command, fail, run, succeed, text};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::tempdir;

fn json(arguments: &[&str]) -> Value {
    let arguments = [&["bench"], arguments, &["--json"]].concat();
    serde_json::from_str(&succeed(&arguments)).expect("JSON")
}

/// Common to all reports.
fn assert_report(report: &Value, engines: &[&str]) {
    assert!(report["line_and_fence_ns"]["median"].as_f64().is_some_and(|ns| ns > 0.0));
    assert_eq!(report["seed"], 5);
    let found: Vec<&str> = report["engines"]
        .as_array()
        .expect("engines")
        .iter()
        .map(|engine| engine["engine"].as_str().expect("a name"))
        .collect();
    assert_eq!(found, engines);
    for engine in report["engines"].as_array().expect("engines") {
        assert!(engine["multiple"]["median"].as_f64().is_some_and(|multiple| multiple > 0.0));
        for run in engine["runs"].as_array().expect("runs") {
            assert!(run["operations"].as_u64().is_some_and(|operations| operations > 0));
            assert!(run["latencies"][0]["p50_ns"].as_u64().is_some());
            assert!(run["counters"]["commits"].as_u64().is_some());
        }
    }
}

#[test]
fn sps_on_all_engines_and_two_threads() {
    let report = json(&[
        "sps",
        "--swaps",
        "2",
        "--entries",
        "2k",
        "--ops",
        "3k",
        "--threads",
        "2",
        "--disjoint",
        "--repeat",
        "2",
        "--seed",
        "5",
    ]);
    let all = perdura::EngineKind::ALL.map(perdura::EngineKind::name);
    assert_report(&report, &all);
    assert_eq!(report["engines"][0]["runs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn ycsb_from_a_to_f() {
    for workload in ["a", "b", "c", "d", "e", "f"] {
        let report = json(&[
            "ycsb",
            "--workload",
            workload,
            "--records",
            "500",
            "--ops",
            "1000",
            "--engine",
            "redo",
            "--repeat",
            "1",
            "--seed",
            "5",
        ]);
        assert_report(&report, &["redo"]);
    }
}

#[test]
fn ycsb_over_the_store() {
    for workload in ["a", "b", "c", "d", "e", "f"] {
        let records = ["ycsb", "--workload", workload, "--over", "store", "--records", "300"];
        let small = ["--ops", "600", "--engine", "undo", "--repeat", "1", "--seed", "5"];
        let report = json(&[&records[..], &small].concat());
        assert_report(&report, &["undo"]);
        assert_eq!(report["parameters"]["over"], "store");
    }
    let plain = ["ycsb", "--over", "plain", "--records", "300", "--ops", "600"];
    let once = ["--engine", "redo", "--repeat", "1", "--seed", "5"];
    assert_report(&json(&[&plain[..], &once].concat()), &["redo"]);
    // With this many fields, each record is a hash map.
    let wide = ["ycsb", "--over", "store", "--fields", "50", "--records", "100", "--ops", "200"];
    let printed = succeed(&[&["bench"], &wide[..], &["--repeat", "1", "--seed", "5"]].concat());
    assert!(printed.contains("YCSB a over the store"), "{printed}");
}

#[test]
fn a_window_is_told() {
    let sps = ["sps", "--entries", "2k", "--ops", "3k", "--engine", "redo", "--window", "16"];
    let once = ["--domain", "media", "--repeat", "1", "--seed", "5"];
    let report = json(&[&sps[..], &once].concat());
    assert_report(&report, &["redo"]);
    assert_eq!(report["window"], 16);
    let run = &report["engines"][0]["runs"][0];
    let each = |counter: &str| run["counters"][counter].as_f64().expect("a number") / 3_000.0;
    assert!(each("fences") < 0.2, "transactions share fences: {}", each("fences"));
    let printed = succeed(&[&["bench"], &sps[..], &once].concat());
    assert!(printed.contains("up to 16 transactions unanswered in each"), "{printed}");
    let paced = [&["bench"], &sps[..], &["--rate", "1k"]].concat();
    assert!(fail(&paced).contains("leave out --window"));
}

#[test]
fn knobs_are_told_and_work() {
    let sps = ["sps", "--entries", "2k", "--ops", "3k", "--engine", "archapt-undo", "--seed", "5"];
    let late = ["--answer-within", "never", "--group", "1M", "--queue", "1M", "--log", "32M"];
    let all = [&sps[..], &late, &["--window", "all", "--repeat", "1"]].concat();
    let report = json(&all);
    assert_report(&report, &["archapt-undo"]);
    assert_eq!(
        (&report["window"], &report["tuning"]["answer_within_ns"]),
        (&"all".into(), &"never".into())
    );
    assert_eq!(report["tuning"]["log_bytes"], 32 << 20);
    let fences = report["engines"][0]["runs"][0]["counters"]["fences"].as_f64().expect("a number");
    assert!(fences < 30.0, "nobody waits, and groups are large: {fences} fences");
    let printed = succeed(&[&["bench"], &all[..]].concat());
    assert!(printed.contains("a log of 32 MiB") && printed.contains("until the end"), "{printed}");
    let too_large = [&["bench"], &sps[..], &["--log", "100T"]].concat();
    assert!(fail(&too_large).contains("at most half"));
}

#[test]
fn maps_and_values() {
    let small = ["--ops", "2k", "--engine", "undo", "--repeat", "1", "--seed", "5"];
    for kind in ["hash-map", "ordered-map"] {
        let report = json(&[&[kind, "--keys", "1k"][..], &small].concat());
        assert_report(&report, &["undo"]);
        assert_eq!(report["parameters"]["bench"], kind);
    }
    let report = json(&[&["overwrite", "--values", "100", "--bytes", "256"][..], &small].concat());
    assert_report(&report, &["undo"]);
}

#[test]
fn toggles_and_churn() {
    let small = ["--ops", "500", "--ops-per-tx", "3", "--repeat", "1", "--seed", "5"];
    let two = ["--engine", "undo", "--engine", "archapt-redo", "--threads", "2"];
    for name in ["hash", "rbtree", "bptree"] {
        let report = json(&[&[name, "--entries", "1k"][..], &small, &two].concat());
        assert_report(&report, &["undo", "archapt-redo"]);
        assert_eq!(report["parameters"]["bench"], name);
    }
    for sized in [["sdg", "--vertices", "100"], ["sqlite-pages", "--rows", "500"]] {
        let report = json(&[&sized[..], &small, &two].concat());
        assert_report(&report, &["undo", "archapt-redo"]);
        assert_eq!(report["parameters"]["bench"], sized[0]);
    }
    let report = json(&[&["churn", "--slots", "100"][..], &small, &two].concat());
    assert_report(&report, &["undo", "archapt-redo"]);
}

#[test]
fn tpc_c() {
    let small = ["tpcc", "--scale", "small", "--ops", "300", "--repeat", "1", "--seed", "5"];
    let report = json(&[&small[..], &["--engine", "redo", "--threads", "2"]].concat());
    assert_report(&report, &["redo"]);
    assert_eq!(report["parameters"]["warehouses"], 2, "one for each thread");
    assert_eq!(report["parameters"]["over"], "store");
    let plain = json(&[&small[..], &["--over", "plain", "--engine", "undo"]].concat());
    assert_eq!(plain["parameters"]["over"], "plain");
    let counts = report["engines"][0]["runs"][0]["counts"].as_array().expect("counts");
    let names: Vec<_> = counts.iter().filter_map(|count| count["name"].as_str()).collect();
    let kinds = ["new-order", "payment", "order-status", "delivery", "stock-level", "rolled back"];
    assert_eq!(names, kinds);
    assert_eq!(counts.iter().filter_map(|count| count["count"].as_u64()).sum::<u64>(), 300);
    let printed = succeed(&[&["bench"], &small[..], &["--engine", "undo"]].concat());
    assert!(printed.contains("no tpmC") && printed.contains("stock-level"), "{printed}");
    assert!(fail(&["bench", "tpcc", "--warehouses", "0"]).contains("1 to 10,000 warehouses"));
    assert!(fail(&["bench", "tpcc", "--over", "table"]).contains("over store or plain"));
}

#[test]
fn applications_of_stamp_and_maps_of_pmdk() {
    let once =
        ["--engine", "redo", "--threads", "2", "--repeat", "1", "--seed", "5", "--sample", "1"];
    for bench in ["vacation", "kmeans", "ssca2", "intruder", "genome", "labyrinth", "yada", "bayes"]
    {
        let report = json(&[&[bench, "--input", "small"][..], &once].concat());
        assert_report(&report, &["redo"]);
        assert_eq!(report["parameters"]["input"], "small");
    }
    let high = json(&[&["kmeans", "--contention", "high", "--entries", "60"][..], &once].concat());
    assert_eq!(high["parameters"]["bench"], "kmeans-high");
    assert_eq!(high["parameters"]["entries"], 60);
    for bench in ["ctree", "hashmap-tx"] {
        for op in ["insert", "remove", "get"] {
            let report = json(&[&[bench, "--op", op, "--keys", "200"][..], &once].concat());
            assert_report(&report, &["redo"]);
            assert_eq!(report["engines"][0]["runs"][0]["operations"], 200);
        }
    }
    let refused = run(&["bench", "genome", "--input", "huge"]);
    assert!(text(&refused.stderr).contains("small, plain, plus"));
    assert!(fail(&["bench", "ssca2", "--entries", "1"]).contains("vertices"));
}

#[test]
fn limits() {
    let report = json(&["limit", "--ops", "1k", "--repeat", "1"]);
    assert!(report["primitives"].as_array().is_some_and(|primitives| primitives.len() > 10));
    let transactions = report["transactions"].as_array().expect("a list");
    assert_eq!(transactions.len(), 4);
    let bare = |transaction: &Value| transaction["bare_log_ns"]["median"].as_f64();
    assert!(transactions.iter().all(|transaction| bare(transaction).is_some_and(|ns| ns > 0.0)));
}

#[test]
fn tables_say_what_they_are() {
    let printed = succeed(&[
        "bench",
        "sps",
        "--entries",
        "1k",
        "--ops",
        "1k",
        "--repeat",
        "1",
        "--seed",
        "5",
    ]);
    for part in ["seed 5", "x line and fence", "p99.9", "temporary pools", "checked", "fences"] {
        assert!(printed.contains(part), "{part} is missing in:\n{printed}");
    }
}

/// Without Redis: only our server.
#[test]
fn a_key_takes_what_space_says() {
    let small = ["--keys", "2k", "--value-bytes", "10,1000", "--size", "32M"];
    let report = json(&[&["space"], &small[..]].concat());
    let lengths = report["lengths"].as_array().expect("lengths");
    for (length, bytes) in lengths.iter().zip([10.0, 1000.0]) {
        assert_eq!(
            (&length["value_bytes"], &length["keys"]),
            (&(bytes as u64).into(), &2000.into())
        );
        for who in ["ours", "redis"] {
            let taken = &length[who];
            if who == "redis" && taken.is_null() {
                assert!(report["unavailable"].is_string(), "{report}");
                continue;
            }
            let used = taken["used_by_key"].as_f64().expect("a number");
            assert!(used > bytes + 16.0 && used < 2.0 * bytes + 200.0, "{length}");
            let on_disk = &taken["full"]["on_disk"];
            assert!(on_disk.as_f64().is_some_and(|all| all > 2000.0 * (bytes + 16.0)), "{length}");
        }
    }
    assert_eq!(lengths.len(), 2);
    assert!(fail(&["bench", "space", "--keys", "0"]).contains("0 keys"));
}

/// Beside an idle reader, commits go on under engines that have snapshots.
#[test]
fn an_idle_reader_holds_no_benchmark_up() {
    let report = json(&[
        "idle-reader",
        "--engine",
        "redo,undo,eager,archapt-redo",
        "--seconds",
        "0.2",
        "--repeat",
        "1",
        "--seed",
        "3",
    ]);
    let engines = report["engines"].as_array().expect("engines");
    assert_eq!(engines.len(), 4);
    for engine in engines {
        let rate = |phase: &str| engine[phase]["commits_per_second"]["median"].as_f64();
        // A writer that waits for the reader commits nothing at all.
        assert!(rate("beside") > rate("alone").map(|rate| rate / 100.0), "{engine}");
    }
    assert!(fail(&["bench", "idle-reader", "--seconds", "0"]).contains("seconds"));
}

/// Skipped where libpmemobj is not installed.
#[test]
fn libpmemobj_runs_the_same_work() {
    let arguments = [
        "bench",
        "versus",
        "--only",
        "pmemobj",
        "--ops",
        "2k",
        "--entries",
        "2k",
        "--repeat",
        "1",
        "--json",
    ];
    let output = crate::common::run(&arguments);
    if !output.status.success() {
        let complaint = crate::common::text(&output.stderr);
        assert!(complaint.contains("not available"), "{complaint}");
        return eprintln!("skipped: {complaint}");
    }
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["embedded"]["rounds"].as_array().map(Vec::len), Some(5));
    let competitors = report["embedded"]["competitors"].as_array().map(Vec::len);
    let ours = perdura::EngineKind::ALL.len();
    assert_eq!(competitors, Some(1 + ours), "libpmemobj and our engines");
}

#[test]
fn a_named_pool_is_left_behind_and_sound() {
    let folder = tempdir().expect("a folder");
    for bench in [
        &["ycsb", "--workload", "d", "--records", "300"][..],
        &["ycsb", "--workload", "f", "--records", "300", "--over", "store"],
        &["hash", "--entries", "500"],
        &["rbtree", "--entries", "500"],
        &["bptree", "--entries", "500"],
        &["sdg", "--vertices", "100"],
        &["sqlite-pages", "--rows", "500"],
        &["churn", "--slots", "100"],
        &["vacation", "--input", "small"],
    ] {
        left_behind_and_sound(folder.path(), bench);
    }
}

fn left_behind_and_sound(folder: &Path, bench: &[&str]) {
    let pool = folder.join(bench[0]);
    let short = ["--ops", "600", "--repeat", "1", "--engine", "s-wal", "--pool", arg(&pool)];
    succeed(&[&["bench"], bench, &short].concat());
    let checked = succeed(&["pool", "check", arg(&pool)]);
    assert!(checked.contains("named roots lead to all of them"), "{checked}");
    std::fs::remove_file(&pool).expect("the pool");
    let left: Vec<_> = std::fs::read_dir(folder).expect("a folder").collect();
    assert!(left.is_empty(), "temporary files stayed: {left:?}");
}

#[test]
fn parameters_that_cannot_be_are_named() {
    assert!(fail(&["bench", "sps", "--entries", "1"]).contains("two entries"));
    assert!(fail(&["bench", "sps", "--within", "1"]).contains("blocks of two words"));
    assert!(fail(&["bench", "sdg", "--vertices", "0"]).contains("vertices"));
    assert!(fail(&["bench", "sqlite-pages", "--rows", "0"]).contains("a row"));
    assert!(fail(&["bench", "overwrite", "--bytes", "9"]).contains("multiple of 8"));
    assert!(fail(&["bench", "hash-map", "--keys", "1"]).contains("two keys"));
    assert!(fail(&["bench", "hash", "--entries", "0"]).contains("an entry"));
    assert!(fail(&["bench", "bptree", "--ops-per-tx", "0"]).contains("a toggle"));
    assert!(fail(&["bench", "churn", "--slots", "1", "--threads", "2"]).contains("each thread"));
    let small = ["bench", "sps", "--entries", "1M", "--size", "2M"];
    assert!(fail(&small).contains("full"));
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_leaves_a_sound_pool() {
    let folder = tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let mut child = command(&[
        "bench",
        "sps",
        "--engine",
        "redo",
        "--entries",
        "10k",
        "--ops",
        "1G",
        "--pool",
        arg(&pool),
    ])
    .stdout(Stdio::null())
    .stderr(Stdio::null())
    .spawn()
    .expect("the program starts");
    sleep(Duration::from_millis(1_500));
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a status") {
            break status;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "it does not end");
        sleep(Duration::from_millis(50));
    };
    assert_eq!(status.code(), Some(130));
    assert!(succeed(&["pool", "check", arg(&pool)]).contains("no problem found"));
}

#[test]
fn a_run_is_a_line_of_values() {
    let run = ["bench", "sps", "--entries", "100", "--ops", "500", "--repeat", "2", "--seed", "5"];
    let text = succeed(&[&run[..], &["--engine", "undo,redo", "--csv"]].concat());
    let mut lines = text.lines().map(|line| line.split(',').count());
    let header = text.lines().next().expect("a header");
    for name in ["seed", "engine", "thread_ns_per_operation", "counters.fences"] {
        assert!(header.split(',').any(|column| column == name), "{header}");
    }
    assert_eq!(text.lines().count(), 1 + 2 * 2);
    assert!(lines.next().is_some_and(|columns| columns > 20));
}
