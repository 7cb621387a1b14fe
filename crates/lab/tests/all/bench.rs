//! Every benchmark runs, small, checks its data, and prints its report.

use crate::common::{arg, command, fail, run, succeed, text};
use perdura_workloads::list::WORKLOADS;
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
        "--ops-per-tx",
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
    let all = perdura::EngineKind::ALL.into_iter().filter(|engine| engine.isolates());
    assert_report(&report, &all.map(perdura::EngineKind::name).collect::<Vec<_>>());
    assert_eq!(report["engines"][0]["runs"].as_array().map(Vec::len), Some(2));
}

/// Each workload of the list, with two engines and two threads.
#[test]
fn every_workload() {
    let small = ["--ops", "500", "--repeat", "1", "--seed", "5", "--sample", "1", "--threads", "2"];
    for row in WORKLOADS {
        let entries = if row.name.ends_with("tpcc") { "2" } else { "200" };
        let sized = ["--workload", row.name, "--entries", entries, "--engine", "undo,archapt-redo"];
        let larger = row.parameter("ops-per-tx").map_or(&[][..], |_| &["--ops-per-tx", "3"]);
        let report = json(&[&sized[..], &small, larger].concat());
        assert_report(&report, &["undo", "archapt-redo"]);
        let parameters = &report["parameters"];
        assert_eq!(parameters["workload"], row.name);
        assert_eq!(parameters["entries"].to_string(), entries);
    }
}

#[test]
fn ycsb_over_the_store() {
    for workload in ["a", "b", "c", "d", "e", "f"] {
        let workload = format!("ycsb-{workload}");
        let records = ["--workload", &workload, "--over", "store", "--entries", "300"];
        let small = ["--ops", "600", "--engine", "undo", "--repeat", "1", "--seed", "5"];
        let report = json(&[&records[..], &small].concat());
        assert_report(&report, &["undo"]);
        assert_eq!(report["parameters"]["over"], "store");
    }
    let plain = ["--workload", "ycsb-a", "--over", "plain", "--entries", "300", "--ops", "600"];
    let once = ["--engine", "redo", "--repeat", "1", "--seed", "5"];
    assert_report(&json(&[&plain[..], &once].concat()), &["redo"]);
    // With this many fields, each record is a hash map.
    let wide = ["--workload", "ycsb-a", "--over", "store", "--fields", "50", "--entries", "100"];
    let few = ["--ops", "200", "--repeat", "1", "--seed", "5"];
    let printed = succeed(&[&["bench"], &wide[..], &few].concat());
    assert!(printed.contains("over store, distribution own, fields 50"), "{printed}");
}

#[test]
fn a_window_is_told() {
    let sps = [
        "--workload",
        "sps",
        "--entries",
        "2k",
        "--ops",
        "3k",
        "--engine",
        "redo",
        "--window",
        "16",
    ];
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
    let sps = [
        "--workload",
        "sps",
        "--entries",
        "2k",
        "--ops",
        "3k",
        "--engine",
        "archapt-undo",
        "--seed",
        "5",
    ];
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
fn tpc_c() {
    let small = ["--workload", "tpcc", "--ops", "300", "--repeat", "1", "--seed", "5"];
    let report = json(&[&small[..], &["--engine", "redo", "--threads", "2"]].concat());
    assert_report(&report, &["redo"]);
    assert_eq!(report["parameters"]["entries"], 2, "a warehouse for each thread");
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
    let refused = |more: &[&str]| fail(&[&["bench", "--workload", "tpcc"], more].concat());
    assert!(refused(&["--entries", "0"]).contains("1 to 10,000 warehouses"));
    assert!(refused(&["--over", "table"]).contains("is one of store, plain"));
}

#[test]
fn inputs_of_stamp() {
    let small = ["--workload", "vacation-low", "--input", "small", "--engine", "redo"];
    let report = json(&[&small[..], &["--repeat", "1", "--seed", "5"]].concat());
    assert_report(&report, &["redo"]);
    let parameters = &report["parameters"];
    let [entries, operations] = ["entries", "operations"].map(|name| parameters[name].as_u64());
    assert_eq!((entries, operations), (Some(256), Some(1_000)), "rows and tasks");
    let refused = run(&["bench", "--workload", "genome", "--input", "huge"]);
    assert!(text(&refused.stderr).contains("native, plain, plus, small"));
    assert!(fail(&["bench", "--workload", "ssca2", "--entries", "1"]).contains("vertices"));
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
    let printed =
        succeed(&["bench", "--entries", "1k", "--ops", "1k", "--repeat", "1", "--seed", "5"]);
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
    let ours = perdura::EngineKind::ALL.into_iter().filter(|engine| engine.isolates()).count();
    assert_eq!(competitors, Some(1 + ours), "libpmemobj and our engines");
}

#[test]
fn a_named_pool_is_left_behind_and_sound() {
    let folder = tempdir().expect("a folder");
    for bench in [
        &["ycsb-d", "--entries", "300"][..],
        &["ycsb-f", "--entries", "300", "--over", "store"],
        &["hash", "--entries", "500"],
        &["rbtree", "--entries", "500"],
        &["bptree", "--entries", "500"],
        &["sdg", "--entries", "100"],
        &["sqlite-pages", "--entries", "500"],
        &["churn", "--entries", "100"],
        &["vacation-low", "--input", "small"],
    ] {
        left_behind_and_sound(folder.path(), bench);
    }
}

fn left_behind_and_sound(folder: &Path, bench: &[&str]) {
    let pool = folder.join(bench[0]);
    let short = ["--ops", "600", "--repeat", "1", "--engine", "s-wal", "--pool", arg(&pool)];
    succeed(&[&["bench", "--workload"], bench, &short].concat());
    let checked = succeed(&["pool", "check", arg(&pool)]);
    assert!(checked.contains("named roots lead to all of them"), "{checked}");
    std::fs::remove_file(&pool).expect("the pool");
    let left: Vec<_> = std::fs::read_dir(folder).expect("a folder").collect();
    assert!(left.is_empty(), "temporary files stayed: {left:?}");
}

#[test]
fn parameters_that_cannot_be_are_named() {
    for (workload, option, value, hint) in [
        ("sps", "--entries", "1", "two entries"),
        ("sps", "--within", "1", "blocks of two words"),
        ("sdg", "--entries", "0", "vertices"),
        ("sqlite-pages", "--entries", "0", "a row"),
        ("overwrite", "--bytes", "9", "multiple of 8"),
        ("hash-map", "--entries", "1", "two keys"),
        ("hash", "--entries", "0", "an entry"),
        ("bptree", "--ops-per-tx", "0", "is 1 to 1000000"),
        ("sps", "--over", "store", "it has entries, ops-per-tx, disjoint, within"),
    ] {
        let refused = fail(&["bench", "--workload", workload, option, value]);
        assert!(refused.contains(hint), "{workload}: {refused}");
    }
    let few = ["bench", "--workload", "churn", "--entries", "1", "--threads", "2"];
    assert!(fail(&few).contains("each thread"));
    let small = ["bench", "--entries", "1M", "--size", "2M"];
    assert!(fail(&small).contains("full"));
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_leaves_a_sound_pool() {
    let folder = tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let mut child = command(&[
        "bench",
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
    let run = ["bench", "--entries", "100", "--ops", "500", "--repeat", "2", "--seed", "5"];
    let text = succeed(&[&run[..], &["--engine", "undo,redo", "--csv"]].concat());
    let mut lines = text.lines().map(|line| line.split(',').count());
    let header = text.lines().next().expect("a header");
    for name in ["seed", "engine", "thread_ns_per_operation", "counters.fences"] {
        assert!(header.split(',').any(|column| column == name), "{header}");
    }
    assert_eq!(text.lines().count(), 1 + 2 * 2);
    assert!(lines.next().is_some_and(|columns| columns > 20));
}
