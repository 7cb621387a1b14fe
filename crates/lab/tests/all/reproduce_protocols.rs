//! `perdura-lab reproduce` with mechanisms in addition to engines, and with microworkloads.

use crate::common::{arg, fail, succeed};
use crate::reproduce::{medians, report};
use serde_json::Value;
use tempfile::tempdir;

/// Mechanisms in addition to engines, microworkloads of any size, settings of the machine's figures, and a figure
/// calibrated on one engine.
const PROTOCOLS: &str = r#"
    name = "protocols"
    kind = "share"
    minutes = 1
    [paper]
    title = "Own"
    figure = "Figure 0"
    what = "nothing"
    [[paper.value]]
    says = "s-wal"
    quantity = "share"
    engine = "s-wal"
    over = "mean"
    value = 0.3
    setting = "near"
    [[paper.value]]
    says = "strict over s-wal"
    quantity = "gain"
    engine = "strict"
    workload = "few"
    value = 10.0
    [run]
    workloads = ["few", "hash", "sqlite-pages"]
    mean_over = ["hash", "sqlite-pages"]
    sizes = { few = { workload = "sps", entries = 16 } }
    engines = ["plain", "s-wal", "strict"]
    protocols = { strict = { engine = "plain", mechanism = "in-order" } }
    base = "plain"
    bases = { strict = "s-wal" }
    seed = 3
    [[run.setting]]
    name = "near"
    [[run.setting]]
    name = "far"
    sets = { "memory.home.activate_ns" = 995, "memory.home.write_ns" = 995 }
    [[run.setting]]
    name = "small"
    ops_per_tx = 1
    [run.simulated]
    machine = "loc-clflush"
    operations = 200
    repetitions = 1
    calibrate = { figure = "cores.cycles_per_access", values = [1, 16, 64], engine = "s-wal", share = 0.3 }
    [quick]
    records = 200
    operations = 30
"#;

#[test]
fn protocols_are_engines_with_mechanisms() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("protocols.toml");
    std::fs::write(&path, PROTOCOLS).expect("a file");
    let report = report(arg(&path), &[]);
    let samples = report["samples"].as_array().expect("samples");
    assert_eq!(samples.len(), 3 * 3 * 3);
    let speed = |workload: &str, engine: &str, setting: &str| {
        let of = |sample: &&Value| {
            [&sample["workload"], &sample["engine"], &sample["setting"]]
                == [workload, engine, setting]
        };
        samples.iter().find(of).expect("a run")["per_second"].as_f64().expect("a number")
    };
    // The nearest of all values tried, and the runs use it.
    let calibrations = report["calibrations"].as_array().expect("calibrations");
    assert_eq!(calibrations.len(), 3);
    for found in calibrations {
        let share = found["share"].as_f64().expect("a number");
        let workload = found["workload"].as_str().expect("a name");
        let again = speed(workload, "s-wal", "near") / speed(workload, "plain", "near");
        assert!((again - share).abs() < 1e-9, "{workload}: {again}, {found}");
        for tried in found["tried"].as_array().expect("a list") {
            let other = tried[1].as_f64().expect("a number");
            assert!((share - 0.3).abs() <= (other - 0.3).abs(), "{found}");
        }
    }
    // With more distant memory, operations that wait for it take longer; a transaction that does less takes less.
    for workload in ["few", "hash", "sqlite-pages"] {
        assert!(speed(workload, "strict", "near") > 1.5 * speed(workload, "strict", "far"));
    }
    for workload in ["hash", "sqlite-pages"] {
        assert!(speed(workload, "strict", "small") > 1.5 * speed(workload, "strict", "near"));
    }
    let means = report["means"].as_array().expect("means");
    let mean = means.iter().find(|mean| mean["engine"] == "s-wal" && mean["setting"] == "near");
    let share = |workload| speed(workload, "s-wal", "near") / speed(workload, "plain", "near");
    let expected = (share("hash") + share("sqlite-pages")) / 2.0;
    let mean = mean.expect("a mean")["median"].as_f64().expect("a number");
    assert!((mean - expected).abs() < 1e-9, "{mean}, not {expected}");
    let comparisons = report["comparisons"].as_array().expect("comparisons");
    let ours: Vec<_> = comparisons.iter().map(|own| own["ours"].as_f64()).collect();
    let gain =
        |setting| (speed("few", "strict", setting) / speed("few", "s-wal", setting) - 1.0) * 100.0;
    assert_eq!(ours.len(), 4);
    for (ours, expected) in ours.iter().zip([expected, gain("near"), gain("far"), gain("small")]) {
        assert!((ours.expect("a value") - expected).abs() < 1e-9, "{ours:?}, not {expected}");
    }
    let out = ["--quick", "--out", arg(folder.path())];
    let printed = succeed(&[&["reproduce", arg(&path)], &out[..]].concat());
    for part in [
        "found for each workload on s-wal alone",
        "means are over hash, sqlite-pages",
        "far: memory.home.activate_ns = 995",
        "small: 1 operation in a transaction",
        "few (16 entries, 1 operation in a transaction), hash (200 entries, 4 operations",
    ] {
        assert!(printed.contains(part), "{part} is missing in:\n{printed}");
    }
    // The rest can be run without the engines that this program lacks.
    std::fs::write(&path, PROTOCOLS.replace("\"in-order\"", "\"of-tomorrow\"")).expect("a file");
    let complaint = fail(&["reproduce", arg(&path)]);
    assert!(complaint.contains("of-tomorrow") && complaint.contains("--engine plain,s-wal"));
    // A mechanism without room for the caches of so many cores is refused before the first run.
    let many = PROTOCOLS.replace("\"in-order\"", "\"dual-page\"");
    let many = many.replace("\"loc-clflush\"", "\"dual-page\"\n    cores = [4, 16]");
    std::fs::write(&path, many).expect("a file");
    let refused = fail(&["reproduce", arg(&path)]);
    assert!(refused.contains("65792 at least for the caches of 16 cores"), "{refused}");
}

/// The share of time in fences: more of it, the later a line is accepted; none without a log.
#[test]
fn time_in_fences() {
    let more = ["--workload", "kmeans-high", "--engine", "plain,undo"];
    let report = report("sync-fig6-accepted", &more);
    let figures = report["figures"].as_array().expect("figures");
    let share = |engine: &str, setting: &str| {
        let of = |figure: &&Value| {
            [&figure["quantity"], &figure["engine"], &figure["setting"]]
                == ["in-fences", engine, setting]
        };
        figures.iter().find(of).expect("a figure")["median"].as_f64().expect("a number")
    };
    let settings = ["0 ns", "34 ns", "100 ns", "at the media"];
    let shares = settings.map(|setting| share("undo", setting));
    assert!(shares.is_sorted() && shares[0] > 0.0 && shares[3] < 100.0, "{shares:?}");
    assert_eq!(settings.map(|setting| share("plain", setting)), [0.0; 4]);
}

/// The mechanisms of LOC's paper, in the experiments that name them: each protocol in each setting, and means.
#[test]
fn protocols_of_loc() {
    for (name, quantity, protocols, settings) in
        [("loc-fig8", "traffic", 6, 1), ("loc-fig10", "share", 2, 6)]
    {
        let report = report(name, &["--workload", "hash,sps-16"]);
        let found = medians(&report, quantity);
        assert_eq!(found.len(), 2 * protocols * settings, "{name}: {found:?}");
        // A base without write-backs does not write lines that stay in the caches.
        let least = if quantity == "share" { f64::MIN_POSITIVE } else { 0.0 };
        assert!(found.iter().all(|(_, value)| *value >= least), "{name}: {found:?}");
        assert_eq!(report["calibrations"].as_array().map(Vec::len), Some(2), "{name}");
        let comparisons = report["comparisons"].as_array().expect("comparisons");
        assert!(comparisons.iter().all(|own| own["ours"].is_f64()), "{name}: {comparisons:?}");
    }
}

/// Transactions as large as LOC's, natively: if quick, too, swaps are within two lines.
#[test]
fn lines_of_a_transaction() {
    let report = report("loc-table2", &[]);
    let lines = medians(&report, "data-flushes");
    assert_eq!(lines.len(), 7);
    let of = |name: &str| lines.iter().find(|(cell, _)| cell.contains(name)).expect("a run").1;
    for sps in ["sps-16", "sps-local"] {
        assert!((of(sps) - 1.53).abs() < 0.1, "{sps}: {}", of(sps));
    }
    assert!(of("sqlite-pages") > 200.0 && of("sqlite-pages") > of("sdg") && of("sdg") > of("hash"));
    let comparisons = report["comparisons"].as_array().expect("comparisons");
    assert!(comparisons.iter().all(|own| own["ours"].is_f64()), "{comparisons:?}");
}

/// The lines that reach memory: of each protocol relative to its stores, and to another protocol.
#[test]
fn traffic_is_counted_at_the_device() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("protocols.toml");
    let values = PROTOCOLS.find("[[paper.value]]").expect("values");
    let run = PROTOCOLS.find("[run]").expect("runs");
    let text = [&PROTOCOLS[..values], &PROTOCOLS[run..]].concat();
    std::fs::write(&path, text.replace("\"share\"", "\"traffic\"")).expect("a file");
    let report = report(arg(&path), &["--setting", "near", "--workload", "hash"]);
    let figures = ["traffic", "traffic-ratio", "lines-written", "lines-ratio"];
    let [traffic, ratio, lines, lines_ratio] = figures.map(|name| medians(&report, name));
    assert_eq!((traffic.len(), ratio.len(), lines_ratio.len()), (3, 1, 1));
    assert!((ratio[0].1 - traffic[2].1 / traffic[1].1).abs() < 1e-9, "strict over s-wal");
    assert!((lines_ratio[0].1 - lines[2].1 / lines[1].1).abs() < 1e-9);
    let samples = report["samples"].as_array().expect("samples");
    assert!(samples.iter().all(|sample| sample["stored_bytes"].as_u64() > Some(0)));
}

/// Hardware transactions, in the experiment that names them: not natively; with the share of them that succeed.
#[test]
fn protocols_with_hardware_transactions() {
    let more = ["--workload", "kmeans-high", "--engine", "plain,htm-undo,htm-redo"];
    let report = report("sync-fig2", &more);
    let samples = report["samples"].as_array().expect("samples");
    let natively: Vec<_> = samples.iter().filter(|own| own["place"] == "native").collect();
    assert!(!natively.is_empty() && natively.iter().all(|own| own["engine"] == "plain"));
    for engine in ["htm-undo", "htm-redo"] {
        let own: Vec<_> = samples.iter().filter(|own| own["engine"] == engine).collect();
        assert!(!own.is_empty(), "{engine}");
        for sample in own {
            let counted = |name| sample["counters"][name].as_u64().expect("a count");
            assert!(counted("hardware_commits") > counted("hardware_fallbacks"), "{sample}");
        }
    }
    let success = medians(&report, "hardware-success");
    assert!(!success.is_empty() && success.iter().all(|(_, share)| (1.0..=100.0).contains(share)));
}
