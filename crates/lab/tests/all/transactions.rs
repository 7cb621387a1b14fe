//! Engines on hardware transactions: `perdura-lab sim` times them, `crash` cuts their power, and tests Table III.

use crate::common::{fail, run, succeed};
use serde_json::Value;

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&succeed(arguments)).expect("JSON")
}

fn count(counters: &Value, name: &str) -> u64 {
    counters[name].as_u64().unwrap_or_else(|| panic!("no {name} in {counters}"))
}

const CAUSES: [&str; 6] = [
    "hardware_conflicts",
    "hardware_capacity",
    "hardware_interrupts",
    "hardware_others",
    "hardware_locked",
    "hardware_cancelled",
];

/// Each transaction has committed on one of the paths, and each speculation has ended in one of the ways.
#[test]
fn sim_counts_paths_and_causes() {
    for machine in ["persistence-sync", "persistence-sync-persistent", "tiny-htm"] {
        let sim = ["sim", "--json", "--workload", "sps", "--entries", "16", "--ops", "400"];
        let more = ["--engine", "htm-volatile,htm-undo,htm-redo", "--transactions", "htm"];
        let on = ["--machine", machine, "--cores", "4"];
        let report = json(&[&sim[..], &more, &on].concat());
        assert_eq!(report["transactions"], "htm");
        let runs = report["engines"].as_array().expect("engines");
        let in_hardware = runs.iter().filter(|run| run["engine"] != "plain");
        let in_hardware: Vec<_> = in_hardware.filter(|run| run["engine"] != "volatile").collect();
        assert_eq!(in_hardware.len(), 3);
        for run in in_hardware {
            let counters = &run["engine_counters"];
            let hardware = count(counters, "hardware_commits");
            let paths = hardware + count(counters, "hardware_fallbacks");
            let all = count(counters, "commits") + count(counters, "read_only");
            assert_eq!(paths, all, "{machine}: {counters}");
            let lost: u64 = CAUSES.iter().map(|cause| count(counters, cause)).sum();
            assert!(hardware > 0 && lost > 0, "{machine}: {counters}");
        }
    }
}

/// labyrinth's copy of the grid is memory that the machine knows. On one core, by hand: a transaction reads the root, one
/// for each wire takes it, one finds none left, one adds the results, and one for each wire routes it. With 32 x 32 x 3
/// cells the grid, the copy and its costs have 24 + 24 + 12 of the nearest cache's 64 KB: all fit. With 48 x 48 x 3
/// they have 54 + 54 + 27, and no route fits, whose transaction takes the lock at once.
#[test]
fn labyrinths_copy_is_in_the_transactions_sets() {
    for (input, wires, routes_fit) in [("plain", 96, true), ("plus", 64, false)] {
        let sim = ["sim", "--json", "--workload", "labyrinth", "--input", input];
        let on = ["--machine", "persistence-sync", "--transactions", "htm"];
        let report = json(&[&sim[..], &on, &["--engine", "htm-volatile"]].concat());
        let runs = report["engines"].as_array().expect("engines");
        let run = runs.iter().find(|run| run["engine"] == "htm-volatile").expect("its run");
        let others = 1 + wires + 1 + 1;
        let (hardware, lost) = if routes_fit { (others + wires, 0) } else { (others, wires) };
        let counted = ["hardware_commits", "hardware_fallbacks", "hardware_capacity"]
            .map(|name| count(&run["engine_counters"], name));
        assert_eq!(counted, [hardware, lost, lost], "{input}");
    }
}

/// Losses that a transaction may have, and the delay after a conflict, are options: with 0/0/0 a first loss takes the
/// lock, and with a delay there are fewer conflicts.
#[test]
fn patience_is_an_option() {
    let counted = |options: &[&str]| {
        let sim = ["sim", "--json", "--workload", "sps", "--entries", "4", "--ops", "400"];
        let on = ["--machine", "tiny-htm", "--transactions", "htm", "--cores", "4"];
        let engine = ["--engine", "htm-volatile"];
        let report = json(&[&sim[..], &on, &engine, options].concat());
        let runs = report["engines"].as_array().expect("engines");
        let run = runs.iter().find(|run| run["engine"] == "htm-volatile").expect("its run");
        let counters = &run["engine_counters"];
        let lost = CAUSES[..4].iter().map(|cause| count(counters, cause)).sum::<u64>();
        (count(counters, "hardware_conflicts"), lost, count(counters, "hardware_fallbacks"))
    };
    let (_, lost, fallbacks) = counted(&["--attempts", "0/0/0"]);
    assert!(lost > 0);
    assert_eq!(fallbacks, lost, "each loss takes the lock");
    let patient = ["--attempts", "1000/1000/0"];
    let (at_once, _, _) = counted(&[&patient[..], &["--conflict-delay", "0/0"]].concat());
    let (later, _, _) = counted(&[&patient[..], &["--conflict-delay", "2000/64000"]].concat());
    assert!(later < at_once / 2, "{later} conflicts with a delay, {at_once} without");
    let refused = run(&["sim", "--attempts", "8/8"]);
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && why.contains("as 8/8/0"), "{why}");
}

#[test]
fn without_hardware_all_is_as_under_the_lock() {
    let figures = |engine: &str| {
        let sim = ["sim", "--json", "--workload", "sps", "--ops", "200", "--engine", engine];
        let report = json(&sim);
        let run = report["engines"].as_array().expect("engines").last().cloned();
        let run = run.expect("a run");
        assert_eq!(run["engine"], engine);
        [&run["engine_counters"]["fences"], &run["engine_counters"]["log_bytes"]].map(Value::clone)
    };
    assert_eq!(figures("htm-undo"), figures("undo-each"));
    assert_eq!(figures("htm-redo"), figures("s-wal"));
}

const CRASH: [&str; 8] =
    ["crash", "--transactions", "htm", "--workload", "sps", "--policy", "lru", "--json"];

#[test]
fn crash_takes_both_paths_where_caches_are_persistent() {
    let few = ["--domain", "persistent", "--engine", "htm-undo,htm-redo", "--start", "closed"];
    let report = json(&[&CRASH[..], &few].concat());
    assert_eq!((&report["failures"], &report["machine"]), (&0.into(), &"tiny-htm".into()));
    let counters = &report["total"]["engine_counters"];
    let paths = ["hardware_commits", "hardware_fallbacks"].map(|path| count(counters, path));
    assert!(paths.iter().all(|path| *path > 20), "{paths:?}");
}

/// The printed command shows the failure again.
#[test]
fn crash_catches_them_where_caches_are_transient() {
    for engine in ["htm-undo", "htm-redo"] {
        let few = ["--domain", "transient", "--engine", engine, "--start", "closed"];
        let more = ["--cores", "1", "--deaths-every", "0", "--threads", "1"];
        let out = run(&[&CRASH[..], &few, &more].concat());
        assert!(!out.status.success(), "{engine} was not caught");
        let report: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        let again = report["again"].as_str().expect("a command");
        assert!(again.contains("--transactions htm"), "{again}");
        let words: Vec<&str> = again.split(' ').skip(1).chain(["--json"]).collect();
        let out = run(&words);
        let replayed: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        assert_eq!(replayed["failed"], report["failed"], "{again}");
    }
}

#[test]
fn engines_that_promise_nothing_are_caught_on_request() {
    for engine in ["plain", "stm"] {
        let few = ["crash", "--unsafe", "--engine", engine, "--workload", "sps", "--cores", "1"];
        let more =
            ["--start", "closed", "--domain", "persistent", "--policy", "lru", "--no-shrink"];
        let refused = fail(&[&few[..], &more].concat());
        assert!(refused.contains("failed the crash test"), "{refused}");
    }
    let refused = fail(&["crash", "--unsafe", "--engine", "plain", "--workload", "hash-map"]);
    assert!(refused.contains("aborts transactions"), "{refused}");
}

#[test]
fn table_iii_is_as_the_paper_has_it_but_for_stm() {
    let report = json(&["crash", "--table3", "--images", "40", "--json"]);
    let cells = report["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 55);
    for cell in cells {
        assert_ne!(cell["agrees"], false, "{cell}");
        let (row, column) = (cell["row"].as_str(), cell["column"].as_str());
        let is_caught = cell["ours"].as_str().is_some_and(|ours| ours.starts_with("caught"));
        if is_caught && cell["transactions"] == "htm" {
            // The paper blames the fallback path of HTM+seq on persistent caches, and the hardware's commits of the others.
            let blamed = match (row, column) {
                (Some("HTM+seq (+spinlock)"), Some("ST-CC PC" | "MT-CSS PC")) => {
                    "caught, in software"
                }
                (Some("HTM+seq (+spinlock)"), _) => continue,
                _ => "caught, in hardware",
            };
            assert_eq!(cell["ours"], blamed, "{cell}");
        }
    }
    let caught = cells.iter().filter(|cell| cell["ours"].as_str() != Some("safe"));
    assert!(caught.count() > 10);
}
