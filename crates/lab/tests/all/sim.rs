//! `perdura-lab sim` times every engine on every machine, reproducibly.

use crate::common::{arg, fail, run, succeed};
use perdura::EngineKind;
use serde_json::{Value, json};

const SMALL: [&str; 6] = ["sim", "--ops", "60", "--entries", "200", "--json"];

fn printed(arguments: &[&str]) -> String {
    succeed(&[&SMALL, arguments].concat())
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments)).expect("JSON")
}

#[test]
fn ycsb_over_the_store_is_the_same_each_time() {
    for letter in ["a", "e"] {
        let workload = format!("ycsb-{letter}");
        let store = ["--machine", "tiny", "--workload", &workload, "--over", "store"];
        let report = json(&store);
        assert_eq!(report["parameters"]["over"], "store");
        assert_eq!(
            report["engines"].as_array().map(Vec::len),
            Some(EngineKind::ALL.into_iter().filter(|engine| engine.isolates()).count()),
            "{workload}"
        );
    }
    let again = ["--machine", "tiny", "--workload", "ycsb-e", "--over", "store", "--cores", "3"];
    let figures = || json(&again)["engines"][2]["ns_per_transaction"].clone();
    assert_eq!(figures(), figures());
    let plain = json(&["--machine", "tiny", "--workload", "ycsb-e", "--over", "plain"]);
    assert_eq!(plain["parameters"]["over"], "plain");
    let refused = fail(&["sim", "--workload", "sps", "--over", "store"]);
    assert!(refused.contains("no parameter 'over'"), "{refused}");
    let refused = fail(&["sim", "--workload", "tpcc", "--over", "table"]);
    assert!(refused.contains("one of store, plain"), "{refused}");
}

/// A working set that fits the caches stays there: the baseline's warm-up is not flushed before the measurement.
#[test]
fn the_baseline_is_measured_warm() {
    for machine in ["optane", "loc"] {
        let report = json(&["--machine", machine, "--workload", "sps"]);
        let baseline = &report["engines"][0];
        assert_eq!(baseline["engine"], "plain");
        // The measured session is new, with a few lines of its own.
        let reads = baseline["nvm_reads_per_transaction"].as_f64().expect("a number");
        assert!(reads * 60.0 <= 6.0, "{machine}: {reads}");
        let core = &baseline["machine"]["cores"][0];
        assert!(core["memory_loads"].as_u64() <= Some(4), "{machine}: {core}");
    }
}

#[test]
fn a_window_is_told() {
    for workload in ["sps", "ycsb-d"] {
        let small = ["--machine", "tiny", "--workload", workload, "--cores", "2"];
        let report = json(&[&small[..], &["--window", "8"]].concat());
        assert_eq!(report["window"], 8);
        assert_eq!(json(&small)["window"], 1);
    }
    let printed = succeed(&["sim", "--machine", "tiny", "--ops", "60", "--window", "8"]);
    assert!(printed.contains("up to 8 transactions unanswered"), "{printed}");
}

#[test]
fn a_seed_is_a_report() {
    let with = |seed| printed(&["--machine", "tiny", "--cores", "3", "--seed", seed]);
    assert_eq!(with("7"), with("7"));
    let figures = |text: &str| -> Value {
        let report: Value = serde_json::from_str(text).expect("JSON");
        report["engines"][0]["ns_per_transaction"].clone()
    };
    assert_ne!(figures(&with("7")), figures(&with("8")));
}

#[test]
fn all_is_relative_to_plain() {
    let report = json(&["--engine", "redo"]);
    let engines = report["engines"].as_array().expect("engines");
    let names: Vec<_> = engines.iter().map(|engine| engine["engine"].as_str()).collect();
    assert_eq!(names, [Some("plain"), Some("redo")]);
    assert_eq!(
        (&report["baseline"], &engines[0]["relative_to_baseline"]),
        (&json!("plain"), &json!(1.0))
    );
    let relative = engines[1]["relative_to_baseline"].as_f64().expect("a number");
    assert!(relative > 0.0 && relative < 1.0, "durability costs something: {relative}");
    // All of an engine's counters are there.
    assert!(engines[1]["engine_counters"]["streamed_bytes"].as_u64() > Some(0));
}

#[test]
fn every_machine_workload_and_mechanism() {
    let list: Value = serde_json::from_str(&succeed(&["list", "--json"])).expect("JSON");
    let names = |list: &Value| -> Vec<String> {
        let rows = list.as_array().expect("a list").iter();
        rows.map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
    };
    let [machines, mechanisms, workloads] =
        ["machines", "mechanisms", "workloads"].map(|name| names(&list[name]));
    assert_eq!(mechanisms[..2], ["plain", "undo-log"]);
    assert!(machines.len() > 10 && machines.contains(&"optane".to_owned()), "{machines:?}");
    // All engines on each machine: `plain.rs`.
    for machine in &machines {
        let report = json(&["--machine", machine, "--engine", "redo"]);
        assert_eq!(report["machine"]["name"], *machine);
    }
    // Each workload with two engines, which take turns.
    let mut engines = EngineKind::ALL.into_iter().filter(|kind| kind.rolls_back()).cycle();
    for workload in workloads.iter().map(String::as_str).filter(|name| !name.ends_with("tpcc")) {
        let [one, two] = [engines.next(), engines.next()].map(|it| it.expect("without end").name());
        let both = format!("{one},{two}");
        let cores = if ["sqlite-ycsb", "sqlite-linkbench"].contains(&workload) { "1" } else { "2" };
        let report = json(&[
            "--machine",
            "tiny",
            "--workload",
            workload,
            "--cores",
            cores,
            "--engine",
            &both,
        ]);
        let run = report["engines"].as_array().expect("engines").iter();
        let run: Vec<_> = run.filter_map(|engine| engine["engine"].as_str()).collect();
        assert!([one, two].iter().all(|name| run.contains(name)), "{workload}: {run:?}");
    }
    let tpcc = ["sim", "--workload", "tpcc", "--machine", "tiny", "--ops", "60", "--json"];
    let report: Value = serde_json::from_str(&succeed(&tpcc)).expect("JSON");
    let parameters = json!({ "entries": 1, "scale": "small", "over": "store", "mix": "standard" });
    assert_eq!(report["parameters"], parameters, "a warehouse");
    assert_eq!(report["baseline"], "volatile", "one order in a hundred is rolled back");
    let refused = fail(&[&tpcc[..], &["--engine", "plain"]].concat());
    assert!(refused.contains("rolls transactions back"), "{refused}");
    let plain = succeed(&[&tpcc[..], &["--over", "plain", "--engine", "undo"]].concat());
    let plain: Value = serde_json::from_str(&plain).expect("JSON");
    assert_eq!(plain["parameters"]["over"], "plain");
    let counts = report["engines"][3]["counts"].as_object().expect("counts");
    assert_eq!(counts.values().filter_map(Value::as_u64).sum::<u64>(), 60);
    for machine in ["tiny", "dual-page"] {
        let report = json(&["--machine", machine, "--mechanism", "undo-log", "--epoch-us", "1"]);
        let figures = &report["engines"][0]["machine"]["mechanism_figures"];
        assert!(figures[0][1].as_u64() > Some(0), "{figures}");
        let checkpoints = &report["engines"][0]["machine"]["checkpoints"];
        assert_eq!(checkpoints["epochs"], figures[0][1]);
        // Each transaction waits for the end of its epoch; without waits there are fewer.
        assert!(checkpoints["epochs"].as_u64() >= Some(50), "{checkpoints}");
        let together = ["--machine", machine, "--mechanism", "undo-log", "--epoch-us", "1"];
        let together = json(&[&together[..], &["--window", "all"]].concat());
        let together = &together["engines"][0]["machine"]["checkpoints"];
        assert!(together["epochs"].as_u64() < checkpoints["epochs"].as_u64(), "{together}");
        assert!(checkpoints["wait_ps"].as_u64() > Some(0), "{checkpoints}");
        assert!(checkpoints["mechanism_lines"].as_u64() >= checkpoints["epochs"].as_u64());
        let epochs = ["--machine", machine, "--mechanism", "undo-log", "--epoch-us", "1"];
        let text = succeed(&[&["sim", "--ops", "60", "--engine", "plain"][..], &epochs].concat());
        assert!(text.contains("lines home in each"), "{text}");
    }
    for mechanism in mechanisms {
        let report = json(&["--machine", "tiny", "--mechanism", &mechanism, "--engine", "plain"]);
        assert_eq!(report["engines"][0]["machine"]["mechanism"], *mechanism);
    }
    assert_eq!(json(&["--machine", "tiny", "--cores", "64"])["cores"], 64);
}

/// SQLite's three workloads, each under all engines: the same figures each time, and a core more is refused.
#[test]
fn sqlite_on_one_core() {
    for (workload, entries) in
        [("sqlite-ycsb", "300"), ("sqlite-linkbench", "300"), ("sqlite-tpcc", "1")]
    {
        let asked = ["--workload", workload, "--machine", "optane", "--ops", "40", "--json"];
        let asked = [&["sim", "--entries", entries], &asked[..]].concat();
        let first = succeed(&asked);
        let report: Value = serde_json::from_str(&first).expect("JSON");
        let engines = report["engines"].as_array().expect("engines");
        let isolating = EngineKind::ALL.into_iter().filter(|kind| kind.isolates()).count();
        assert_eq!(engines.len(), isolating, "{workload}");
        for engine in engines.iter().skip(2) {
            let counters = &engine["engine_counters"];
            assert!(counters["commits"].as_u64() > Some(5), "{workload}: {engine}");
            assert!(engine["ns_per_transaction"].as_f64() > Some(0.0), "{workload}: {engine}");
        }
        assert_eq!(first, succeed(&asked), "{workload}");
    }
    let refused = fail(&["sim", "--workload", "sqlite-ycsb", "--cores", "2"]);
    assert!(refused.contains("choose one core"), "{refused}");
}

#[test]
fn refuses_impossible_options() {
    let small = |more: &[&str]| fail(&[&["sim"], more].concat());
    assert!(small(&["--ops", "0"]).contains("give --operations more"));
    assert!(small(&["--cores", "65"]).contains("1 to 64"));
    assert!(small(&["--machine", "x"]).contains("the machines are"));
    assert!(small(&["--entries", "0"]).contains("entries"));
    assert!(small(&["--workload", "sps-local", "--entries", "31"]).contains("two blocks"));
    assert!(small(&["--workload", "sdg", "--entries", "8"]).contains("2^4 to 2^24 vertices"));
    assert!(small(&["--workload", "sqlite-pages", "--entries", "0"]).contains("a row"));
    assert!(small(&["--entries", "1T"]).contains("choose fewer entries"));
    assert!(small(&["--entries", "18446744073709551615"]).contains("choose fewer entries"));
    assert!(small(&["--input", "small"]).contains("no parameter 'input'"));
    assert!(small(&["--ops-per-tx", "0"]).contains("is 1 to 1000000"));
    assert!(small(&["--ops-per-tx", "4294967295"]).contains("is 1 to 1000000"));
    let logging = ["--mechanism", "undo-log"];
    assert!(small(&[&logging[..], &["--epoch-us", "0"]].concat()).contains("--epoch-us must be"));
    // Its special buffer has 65,536 lines: enough for the caches of 15 cores, 131,072 bytes each and 2 MiB together.
    let dual_page = ["--machine", "dual-page", "--mechanism", "dual-page", "--cores", "16"];
    let refused = small(&[&dual_page[..], &["--ops", "60"]].concat());
    let needed = "special_lines is 65536, and must be 65792 at least for the caches of 16 cores";
    assert!(refused.contains(needed) && refused.contains("take fewer cores"), "{refused}");
    let persistent = ["--machine", "persistence-sync-persistent"];
    assert!(small(&[logging, persistent].concat()).contains("nothing to do there"));
}

/// A sweep over a figure that no paper gives: one run for each value, and the range of the results.
#[test]
fn a_figure_is_swept() {
    let sweep = ["--machine", "tiny", "--engine", "redo", "--sweep"];
    let report = json(&[&sweep[..], &["memory.controller.static_write_ns=0,1000"]].concat());
    let relative = |point: usize| {
        let engines = &report["points"][point]["report"]["engines"];
        engines[1]["relative_to_baseline"].as_f64().expect("a number")
    };
    assert!(relative(0) > relative(1), "a slower acceptance costs the log: {report}");
    let short = ["sim", "--machine", "tiny", "--engine", "redo", "--ops", "50", "--entries", "64"];
    let text = succeed(&[&short[..], &["--sweep", "cores.fence_cycles=1,100"]].concat());
    assert!(text.contains("range") && text.contains(" to "), "{text}");
    for (wrong, what) in [
        ("cores.colour=1", "has no figure"),
        ("cores.fence_cycles=x", "cores.fence_cycles"),
        ("caches.L1.ways=3", "cache L1"),
    ] {
        let error = fail(&[&short[..], &["--sweep", wrong]].concat());
        assert!(error.contains(what), "{wrong}: {error}");
    }
    let unwritten = run(&[&short[..], &["--sweep", "cores.fence_cycles"]].concat());
    assert_eq!(unwritten.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unwritten.stderr).contains("are written as"));
}

/// Distances of `kmeans` take the time of their steps, and no more: three centres of four coordinates for each point.
#[test]
fn private_computation_is_charged() {
    let kmeans = ["--workload", "kmeans-high", "--input", "small"];
    let machine = ["--machine", "persistence-sync", "--engine", "plain"];
    let sweep = ["--sweep", "cores.step_cycles=0,4,40"];
    let report = json(&[&kmeans[..], &machine, &sweep].concat());
    let ns = |point: usize| {
        let engine = &report["points"][point]["report"]["engines"][0];
        engine["ns_per_transaction"].as_f64().expect("a number")
    };
    for (point, steps_ns) in [(1, 12.0 * 4.0), (2, 12.0 * 40.0)] {
        let charged = ns(point) - ns(0);
        // Stores of the transaction before may end meanwhile.
        assert!(charged <= steps_ns && charged > 0.8 * steps_ns, "{charged}, not {steps_ns}");
    }
}

#[test]
fn a_trace_is_replayed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (text, lackey) = (folder.path().join("queue"), folder.path().join("lackey"));
    std::fs::write(&text, "# a queue\nS 0x1040 16\nW 0x1040 16\nF\nX 100\nL 0x1040 8\n")
        .expect("a file");
    std::fs::write(&lackey, "==7== Lackey\nI  0400,3\n S 1ffe,4\n M 2000,8\n").expect("a file");
    let both = format!("{},{}", arg(&text), arg(&lackey));
    let run = ["sim", "--machine", "tiny", "--trace", &both];
    let report: Value =
        serde_json::from_str(&succeed(&[&run[..], &["--json"]].concat())).expect("JSON");
    // Two pages of one program and one of the other, which they may share if their addresses are the same.
    assert_eq!((&report["steps"], &report["bytes_touched"]), (&json!(8), &json!(2 * 4096)));
    let cores = report["machine"]["cores"].as_array().expect("cores");
    assert_eq!((&cores[0]["fences"], &cores[0]["write_backs"]), (&json!(1), &json!(1)));
    // A store over the edge of a page is two.
    assert_eq!((&cores[1]["stores"], &cores[1]["loads"]), (&json!(3), &json!(1)));
    let last = succeed(&run);
    assert!(
        last.trim_end().lines().last().expect("a line").starts_with("verdict: 8 steps on 8 KiB"),
        "{last}"
    );
    succeed(&[&run[..], &["--mechanism", "undo-log"]].concat());
    std::fs::write(&text, "S 0x40 8\nhello\n").expect("a file");
    let wrong = fail(&["sim", "--trace", arg(&text)]);
    assert!(wrong.contains("queue") && wrong.contains("line 2"), "{wrong}");
    assert!(fail(&["sim", "--trace", arg(&folder.path().join("none"))]).contains("none"));
}
