//! `perdura-lab reproduce` runs every kind of experiment, small, and reports errors in wrong ones.

use crate::common::{arg, command, fail, succeed};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::tempdir;

/// Runs an experiment small, and checks the files. Returns the report.
pub(crate) fn report(name: &str, more: &[&str]) -> Value {
    let folder = tempdir().expect("a folder");
    let usual = ["reproduce", name, "--quick", "--out", arg(folder.path())];
    let printed = succeed(&[&usual[..], more, &["--json"]].concat());
    let report: Value = serde_json::from_str(&printed).expect("JSON");
    let name = report["experiment"]["name"].as_str().expect("a name");
    let written = std::fs::read_to_string(folder.path().join(format!("{name}.json")));
    let written: Value = serde_json::from_str(&written.expect("a file")).expect("JSON");
    assert_eq!(written, report);
    let picture = folder.path().join(format!("{name}.svg"));
    assert_picture(&picture, &report);
    assert_drawn_again(&picture);
    assert!(report["machine"]["processor"].is_string() && report["machine"]["date"].is_string());
    assert!(report["samples"].as_array().is_some_and(|samples| !samples.is_empty()));
    report
}

/// A well-formed SVG that names the measured series.
fn assert_picture(path: &Path, report: &Value) {
    let text = std::fs::read_to_string(path).expect("a picture");
    let picture = roxmltree::Document::parse(&text).expect("well-formed");
    assert_eq!(picture.root_element().tag_name().name(), "svg");
    let figure = report["experiment"]["paper"]["figure"].as_str().expect("a figure");
    let words: Vec<String> = picture
        .descendants()
        .filter(|node| node.tag_name().name() == "text")
        .filter_map(|node| node.text().map(|words| words.trim().to_owned()))
        .collect();
    assert!(words.iter().any(|words| words.contains(figure)), "{words:?}");
    let workload = report["plan"]["workloads"][0].as_str().expect("a workload").to_uppercase();
    assert!(words.iter().any(|words| words.contains(&workload)), "{words:?}");
    let comparisons = report["comparisons"].as_array().expect("comparisons");
    let compared = comparisons.iter().any(|comparison| comparison["ours"].is_f64());
    // A series of its own, or, with curves, one next to an engine's.
    let is_papers = |words: &String| words == "paper" || words.ends_with(", the paper's");
    assert_eq!(words.iter().any(is_papers), compared, "{words:?}");
    let seed = format!("seed {}", report["plan"]["seed"]);
    assert!(words.iter().any(|words| words.contains(&seed)), "{words:?}");
}

/// The report beside a picture is enough to draw it.
fn assert_drawn_again(picture: &Path) {
    let again = tempdir().expect("a folder");
    let report = picture.with_extension("json");
    succeed(&["reproduce", "--draw", arg(&report), "--out", arg(again.path())]);
    let name = picture.file_name().expect("a name");
    let drawn = std::fs::read(again.path().join(name)).expect("a picture");
    assert!(drawn == std::fs::read(picture).expect("a picture"), "{}", picture.display());
}

/// Medians of a quantity, by place, workload and engine.
pub(crate) fn medians(report: &Value, quantity: &str) -> Vec<(String, f64)> {
    let figures = report["figures"].as_array().expect("figures");
    let wanted = figures.iter().filter(|figure| figure["quantity"] == quantity);
    let name = |figure: &Value| {
        ["place", "workload", "engine"].map(|key| figure[key].as_str().unwrap_or("-").to_owned())
    };
    wanted
        .map(|figure| (name(figure).join(" "), figure["median"].as_f64().expect("a number")))
        .collect()
}

#[test]
fn they_are_listed() {
    let list = succeed(&["reproduce", "--list"]);
    for part in ["archapt-fig1 ", "archapt-fig10", "archapt-table1", "Figure 7", " min"] {
        assert!(list.contains(part), "{part} is missing in:\n{list}");
    }
    let width = list.lines().map(|line| line.chars().count()).max();
    assert!(width <= Some(100), "{width:?} columns");
}

#[test]
fn throughput_natively_and_simulated() {
    let report = report("archapt-fig1", &["--workload", "ycsb-a", "--repeat", "2"]);
    let found = medians(&report, "per-second");
    assert_eq!(found.len(), 2 * 3, "{found:?}");
    assert!(found.iter().all(|(_, rate)| *rate > 0.0));
    // There is none for the base itself.
    assert_eq!(medians(&report, "throughput-change").len(), 2 * 2);
    assert_eq!(report["samples"].as_array().map(Vec::len), Some(12));
    let comparisons = report["comparisons"].as_array().expect("comparisons");
    assert!(comparisons.iter().all(|comparison| comparison["ours"].is_f64()), "{comparisons:?}");
}

#[test]
fn latencies() {
    let report = report("archapt-fig8", &["--engine", "undo,redo", "--workload", "ycsb-a"]);
    assert_eq!(medians(&report, "p99").len(), 2);
    for sample in report["samples"].as_array().expect("samples") {
        assert_eq!(sample["timed"], sample["operations"]);
    }
    // The engine to compare with was not run.
    assert!(report["comparisons"][0]["ours"].is_null());
}

#[test]
fn a_breakdown_runs_engines_unflushed() {
    let report = report("archapt-fig2", &["--workload", "ycsb-f"]);
    let samples = report["samples"].as_array().expect("samples");
    let unflushed = samples.iter().filter(|sample| sample["unflushed"] == true);
    assert_eq!((samples.len(), unflushed.count()), (10, 4));
    assert_eq!(medians(&report, "added").len(), 4);
}

/// Without rollback, the run without persistence is `plain`; TPC-C rolls back, which `plain` cannot.
#[test]
fn each_workload_has_its_own_base() {
    let both = ["--simulated", "--workload", "ycsb-f,tpcc", "--engine", "redo"];
    for (name, quantity, runs) in [
        ("archapt-fig1", "throughput-change", [["plain", "redo"], ["volatile", "redo"]].concat()),
        (
            "archapt-fig2",
            "added",
            [["plain", "redo", "redo"], ["volatile", "redo", "redo"]].concat(),
        ),
    ] {
        let report = report(name, &both);
        let samples = report["samples"].as_array().expect("samples");
        let engines: Vec<_> =
            samples.iter().filter_map(|sample| sample["engine"].as_str()).collect();
        assert_eq!(engines, runs, "{name}");
        let changes = medians(&report, quantity);
        let names: Vec<&str> = changes.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["simulated ycsb-f redo", "simulated tpcc redo"], "{name}");
        let speed = |workload: &str, engine: &str| {
            let of = |sample: &&Value| {
                sample["workload"] == workload
                    && sample["engine"] == engine
                    && sample["unflushed"] == false
            };
            samples.iter().find(of).expect("a run")["per_second"].as_f64().expect("a number")
        };
        for ((_, change), (workload, base)) in
            changes.iter().zip([("ycsb-f", "plain"), ("tpcc", "volatile")])
        {
            let ratio = speed(workload, "redo") / speed(workload, base);
            let ours = if quantity == "added" { 1.0 / ratio } else { ratio };
            assert!((change / 100.0 + 1.0 - ours).abs() < 1e-9, "{name} {workload}: {change} %");
        }
    }
    // A workload that its base cannot run is not run there.
    let plain = report("archapt-fig1", &["--simulated", "--workload", "tpcc", "--engine", "plain"]);
    let samples = plain["samples"].as_array().expect("samples");
    assert_eq!(samples.iter().map(|sample| &sample["engine"]).collect::<Vec<_>>(), ["volatile"]);
}

#[test]
fn flushes_by_what_is_flushed() {
    let more =
        ["--native", "--engine", "undo,s-wal", "--workload", "ycsb-a", "--setting", "window 64"];
    let report = report("archapt-fig9", &more);
    let of = |quantity| medians(&report, quantity).into_iter().map(|found| found.1).sum::<f64>();
    let parts = ["log-flushes", "data-flushes", "checksum-flushes", "other-flushes"];
    let sum: f64 = parts.into_iter().map(of).sum();
    assert!(sum > 0.0 && (sum - of("flushes")).abs() < 1e-9);
    assert_eq!(medians(&report, "flush-change-without-log").len(), 1);
}

#[test]
fn settings_stand_beside_each_other() {
    let more = ["--native", "--engine", "undo,archapt-undo", "--workload", "ycsb-a"];
    let both = report("archapt-fig9", &more);
    assert_eq!(both["samples"].as_array().map(Vec::len), Some(6));
    assert_eq!(both["plan"]["settings"][1]["tuning"]["log_bytes"], 512 << 20);
    let changes = medians(&both, "flush-change");
    let mut settings: Vec<&str> = both["comparisons"]
        .as_array()
        .expect("comparisons")
        .iter()
        .map(|comparison| comparison["setting"].as_str().expect("a name"))
        .collect();
    settings.dedup();
    assert_eq!((changes.len(), settings), (3, vec!["window 64", "late", "skipping"]));
    let late = report("archapt-fig9", &[&more[..], &["--setting", "late"]].concat());
    assert_eq!(medians(&late, "flush-change").len(), 1);
    let wrong = ["reproduce", "archapt-fig9", "--setting", "early"];
    assert!(fail(&wrong).contains("it has window 64, late"));
    assert!(fail(&["reproduce", "archapt-fig1", "--setting", "late"]).contains("it has none"));
}

#[test]
fn tpcc_is_a_workload_of_every_kind() {
    for (name, more) in [
        ("archapt-fig1", &["--warehouses", "2", "--threads", "2"][..]),
        ("archapt-fig2", &["--native"]),
        ("archapt-fig3", &[]),
        ("archapt-table1", &["--engine", "undo"]),
    ] {
        let report = report(name, &[&["--workload", "tpcc"], more].concat());
        let figures = report["figures"].as_array().expect("figures");
        assert!(figures.iter().any(|figure| figure["workload"] == "tpcc"), "{name}: {figures:?}");
    }
    let wrong = ["reproduce", "archapt-fig1", "--warehouses", "0"];
    assert!(fail(&wrong).contains("warehouse"));
}

#[test]
fn checksums_of_objects() {
    let report = report("archapt-fig6", &["--workload", "128 B,2048 B", "--records", "500"]);
    // In two settings; updates in one.
    assert_eq!(medians(&report, "create-time").len(), 4);
    assert_eq!(medians(&report, "update-change").len(), 2);
    let lines = medians(&report, "flush-lines");
    assert!(
        lines.iter().all(|(name, lines)| *lines == if name.contains("128") { 2.0 } else { 32.0 })
    );
    for (workload, hint) in
        [("100 B", "multiple of 64"), ("4 KiB", "multiple of 64"), ("ycsb-a", "not a size")]
    {
        let wrong = ["reproduce", "archapt-fig6", "--quick", "--workload", workload];
        assert!(fail(&wrong).contains(hint), "{workload}");
    }
}

#[test]
fn dirtiness_and_its_distribution() {
    let report = report("archapt-table1", &["--engine", "undo", "--workload", "ycsb-a,ycsb-d"]);
    let averages = medians(&report, "dirtiness");
    assert_eq!(averages.len(), 2);
    for (cell, average) in averages {
        let eighths = (1..=8).map(|eighth| {
            let found = medians(&report, &format!("{eighth}/8"));
            found.into_iter().find(|found| found.0 == cell).expect("a share").1
        });
        let shares: Vec<f64> = eighths.collect();
        assert!((shares.iter().sum::<f64>() - 100.0).abs() < 1e-6, "{shares:?}");
        let weighted =
            shares.iter().zip(1..).map(|(share, eighth)| share * f64::from(eighth) / 8.0);
        assert!((weighted.sum::<f64>() - average).abs() < 1.0, "{cell}: {shares:?}, {average}");
    }
}

#[test]
fn reuse_is_the_seeds() {
    let with = |seed| report("archapt-fig3", &["--seed", seed])["figures"].clone();
    assert_eq!(with("5"), with("5"));
    assert_ne!(with("5"), with("6"));
}

#[test]
fn a_seed_is_a_simulated_report() {
    let more = ["--simulated", "--workload", "ycsb-a", "--threads", "2", "--seed", "9"];
    let [first, second] = [(); 2].map(|()| report("archapt-fig1", &more)["figures"].clone());
    assert_eq!(first, second);
}

#[test]
fn the_text_says_what_does_not_match() {
    let folder = tempdir().expect("a folder");
    let out = ["--out", arg(folder.path()), "--workload", "ycsb-e,ycsb-a"];
    let printed = succeed(&[&["reproduce", "archapt-fig3", "--quick"], &out[..]].concat());
    for part in ["too short", "paper", "not run", "values match", "method: ", "note: ", "written: "]
    {
        assert!(printed.contains(part), "{part} is missing in:\n{printed}");
    }
}

#[test]
fn power_cuts_take_what_checksums_find() {
    // Without inserts: fresh memory that is rolled back also differs, but is no loss.
    let more = ["--workload", "ycsb-a", "--ops", "20K", "--setting", "bimodal"];
    let report = report("archapt-table4", &more);
    let of = |quantity| medians(&report, quantity);
    assert_eq!(of("inconsistent").len(), 2);
    assert!(of("left-to-caches").iter().all(|(_, lines)| *lines > 0.0), "{report}");
    assert_eq!(of("detected"), of("inconsistent"));
    assert!(of("uncorrected").iter().all(|(_, lines)| *lines == 0.0));
    for sample in report["samples"].as_array().expect("samples") {
        assert_eq!(sample["losses"]["cuts"], report["experiment"]["quick"]["cuts"]);
    }
    // A value of one setting is compared in that setting alone.
    let comparisons = report["comparisons"].as_array().expect("comparisons");
    let own = comparisons.iter().filter(|comparison| comparison["says"] == "YCSB-A");
    assert_eq!(own.map(|own| own["paper"].as_f64()).collect::<Vec<_>>(), [Some(88.0)]);
    let wrong = |more: &[&str]| fail(&[&["reproduce", "archapt-table4", "--quick"], more].concat());
    assert!(wrong(&["--engine", "undo"]).contains("archapt-undo-sum"));
    assert!(wrong(&["--threads", "2"]).contains("1 core"));
    assert!(wrong(&["--ops", "3"]).contains("5 power cuts need"));
}

#[test]
fn an_experiment_of_ones_own_is_a_file() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("own.toml");
    let text = r#"
        name = "own"
        kind = "throughput"
        minutes = 1
        [paper]
        title = "Own"
        figure = "Figure 0"
        what = "nothing"
        [[paper.value]]
        says = "a < b & c"
        quantity = "throughput-change"
        over = "mean"
        value = 1.0
        [run]
        native = true
        workloads = ["ycsb-b"]
        engines = ["undo", "redo"]
        base = "undo"
        records = 100
        operations = 200
        repetitions = 1
        seed = 3
    "#;
    std::fs::write(&path, text).expect("a file");
    assert_eq!(report(arg(&path), &[])["plan"]["seed"], 3);
    std::fs::write(&path, text.replace("records", "recrods")).expect("a file");
    assert!(fail(&["reproduce", arg(&path)]).contains("recrods"));
    std::fs::write(&path, text.replace("ycsb-b", "ycsb-z")).expect("a file");
    assert!(fail(&["reproduce", arg(&path)]).contains("unknown workload 'ycsb-z'"));
    std::fs::write(&path, text.replace("\"redo\"]", "\"rado\"]")).expect("a file");
    let complaint = fail(&["reproduce", arg(&path)]);
    assert!(complaint.contains("'rado'") && complaint.contains("--engine undo"), "{complaint}");
}

#[test]
fn refuses_impossible_options() {
    assert!(fail(&["reproduce", "archapt-fig99"]).contains("the experiments are archapt-"));
    assert!(fail(&["reproduce", "./nowhere.toml"]).contains("nowhere.toml"));
    let fig1 = |more: &[&str]| fail(&[&["reproduce", "archapt-fig1", "--quick"], more].concat());
    assert!(fig1(&["--engine", "nonesuch"]).contains("unknown engine 'nonesuch'"));
    assert!(fig1(&["--workload", "swaps"]).contains("unknown workload 'swaps'"));
    let drawn = ["reproduce", "archapt-fig3", "--quick", "--workload", "sps"];
    assert!(fail(&drawn).contains("'sps' is no database"));
    assert!(fig1(&["--threads", "0"]).contains("1 to 256 threads"));
    assert!(fig1(&["--simulated", "--threads", "65"]).contains("1 to 64 threads"));
    assert!(fig1(&["--ops", "0"]).contains("nothing to measure"));
    let file = tempfile::NamedTempFile::new().expect("a file");
    assert!(fig1(&["--out", arg(file.path())]).contains(arg(file.path())));
    let simulated = ["reproduce", "archapt-fig8", "--simulated", "--engine", "undo"];
    assert!(fail(&simulated).contains("nothing to run on a simulated machine"));
}

#[test]
#[cfg(unix)]
fn control_c_ends_it() {
    let folder = tempdir().expect("a folder");
    for place in ["--native", "--simulated"] {
        let arguments =
            ["reproduce", "archapt-fig1", "--ops", "100M", place, "--out", arg(folder.path())];
        let mut child = command(&arguments)
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
        assert_eq!(status.code(), Some(130), "{place}");
    }
}
