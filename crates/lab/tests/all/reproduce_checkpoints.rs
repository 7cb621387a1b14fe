//! `perdura-lab reproduce` with mechanisms of checkpoints: runs of few epochs.

use crate::common::{arg, succeed};
use crate::reproduce::report;
use serde_json::Value;
use tempfile::tempdir;

/// Two workloads under the baseline and two mechanisms, with short epochs and long ones.
const CHECKPOINTS: &str = r#"
    name = "checkpoints"
    kind = "share"
    minutes = 1
    [paper]
    title = "Own"
    figure = "Figure 0"
    what = "nothing"
    [[paper.value]]
    says = "Dual-Page, mean"
    quantity = "slowdown"
    engine = "dual-page"
    over = "mean"
    value = 1.0
    [[paper.value]]
    says = "Logging, SPS"
    quantity = "slowdown"
    engine = "logging"
    workload = "sps"
    value = 1.0
    [run]
    workloads = ["sps", "hash"]
    engines = ["baseline", "logging", "dual-page"]
    base = "baseline"
    window = "all"
    seed = 3
    [run.protocols]
    baseline = { engine = "plain" }
    logging = { engine = "plain", mechanism = "undo-log", epoch_us = 2 }
    dual-page = { engine = "plain", mechanism = "dual-page", epoch_us = 2 }
    [run.sizes]
    sps = { entries = 20_000 }
    hash = { entries = 4_000 }
    [[run.setting]]
    name = "short epochs"
    sets = { "mechanism.dual-page.pool_pages" = 16 }
    [[run.setting]]
    name = "long epochs"
    epoch_us = 100
    sets = { "mechanism.dual-page.pool_pages" = 16 }
    [run.simulated]
    machine = "dual-page"
    loaded_before = true
    cores = [1]
    operations = 3_000
    repetitions = 1
    [quick]
    operations = 3_000
"#;

/// Runs `text` small. Returns the report, and the tables.
fn both(text: &str, more: &[&str]) -> (Value, String) {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("checkpoints.toml");
    std::fs::write(&path, text).expect("a file");
    let report = report(arg(&path), more);
    let out = ["--quick", "--out", arg(folder.path())];
    (report, succeed(&[&["reproduce", arg(&path)], &out[..], more].concat()))
}

fn list<'v>(report: &'v Value, name: &str) -> &'v [Value] {
    report[name].as_array().expect("a list")
}

/// The rows of the printed table with these cells.
fn rows<'p>(printed: &'p str, cells: &[&str]) -> Vec<&'p str> {
    let has = |line: &&str| {
        let mut own = line.split('|').map(str::trim);
        line.starts_with('|') && cells.iter().all(|cell| own.any(|other| other == *cell))
    };
    printed.lines().filter(has).collect()
}

/// Of long epochs, few end.
#[test]
fn runs_of_few_epochs_are_marked() {
    let (report, printed) = both(CHECKPOINTS, &[]);
    for sample in list(&report, "samples") {
        let counted = &sample["counted_epochs"];
        let (engine, is_long) = (&sample["engine"], sample["setting"] == "long epochs");
        if engine == "baseline" {
            assert!(counted.is_null(), "{sample}");
            continue;
        }
        assert_eq!(counted["ended"].as_u64() < Some(20), is_long, "{sample}");
        assert_eq!(counted["few"], is_long, "{sample}");
        assert_eq!(counted["after_the_pool_settled"], engine == "dual-page", "{sample}");
    }
    let few = ["figures", "means", "comparisons"].map(|name| {
        let few = |own: &&Value| own["few_epochs"] == true;
        let few: Vec<&Value> = list(&report, name).iter().filter(few).collect();
        let are_long = few.iter().all(|own| own["setting"] == "long epochs");
        assert!(!few.is_empty() && are_long, "{few:?}");
        few.len()
    });
    assert_eq!(few[2], 2, "dual-page's mean, and logging's SPS");
    for workload in ["sps", "hash", "mean"] {
        let of = |engine: &str, setting| rows(&printed, &[workload, engine, setting]).len();
        for engine in ["dual-page", "logging"] {
            let marked = format!("{engine} [few epochs]");
            assert_eq!(of(&marked, "long epochs"), 1, "{workload} in:\n{printed}");
            assert_eq!(of(engine, "short epochs"), 1, "{workload} in:\n{printed}");
        }
    }
    assert!(printed.contains("4 of 8 runs with epochs are marked 'few epochs'"), "{printed}");
    assert!(printed.contains("; 2 are of runs with few epochs"), "{printed}");
}

/// The median of a figure of `setting` "short epochs".
fn median(report: &Value, name: &str, cell: [&str; 3]) -> f64 {
    let of = |figure: &&Value| {
        let own = ["workload", "engine", "quantity"].map(|key| figure[key].as_str());
        own == cell.map(Some) && figure["setting"] == "short epochs"
    };
    list(report, name).iter().find(of).expect("a figure")["median"].as_f64().expect("a number")
}

/// No share of misses is as far as 100 points from 50 %, and any is from 500 %. The engine that the workloads are looked
/// at with runs in any case.
#[test]
fn workloads_unlike_the_papers_are_marked_and_left_out_of_a_second_mean() {
    let accepted = r#"
    [run.protocols.judge]
    engine = "plain"
    [[run.accepted]]
    quantity = "dram-misses"
    engine = "judge"
    points = 100
    of = { sps = 50, hash = 500 }
"#;
    let text = [CHECKPOINTS, accepted].concat();
    let (report, printed) = both(&text, &["--setting", "short epochs"]);
    let [left_out] = list(&report, "left_out") else { panic!("{}", report["left_out"]) };
    let why = left_out["why"].as_str().expect("a reason");
    assert_eq!(left_out["workload"], "hash");
    assert!(why.starts_with("dram-misses") && why.ends_with("not 500.0 %"), "{why}");
    let of = |name, workload| median(&report, name, [workload, "dual-page", "share"]);
    let [sps, hash] = ["sps", "hash"].map(|workload| of("figures", workload));
    assert!((of("means", "mean") - (sps + hash) / 2.0).abs() < 1e-9);
    assert_eq!(of("accepted_means", "mean of accepted"), sps);
    let comparison = &list(&report, "comparisons")[0];
    for (name, expected) in
        [("ours", (1.0 / sps + 1.0 / hash) / 2.0), ("ours_of_accepted", 1.0 / sps)]
    {
        let ours = comparison[name].as_f64().expect("a number");
        assert!((ours - expected).abs() < 1e-9, "{name}: {ours}, not {expected}");
    }
    assert!(list(&report, "comparisons")[1]["ours_of_accepted"].is_null(), "of one workload");
    for cells in [["hash [not as the paper's]", "judge"], ["mean of accepted", "logging"]] {
        assert_eq!(rows(&printed, &cells).len(), 1, "{cells:?} in:\n{printed}");
    }
    assert!(printed.contains("those like the paper's, leaves out hash (dram-misses"), "{printed}");
    assert!(printed.contains("(of accepted "), "{printed}");
    // All are: then both means are the same, and nothing is marked.
    let (report, printed) = both(&text.replace("500", "50"), &["--setting", "short epochs"]);
    assert!(list(&report, "left_out").is_empty());
    let of = |name, workload| median(&report, name, [workload, "dual-page", "share"]);
    assert_eq!(of("accepted_means", "mean of accepted"), of("means", "mean"));
    assert!(printed.contains("all are what the paper's were") && !printed.contains("[not as"));
}

/// One value to try: the share that comes out is reached, any other is not, and counts as a miss.
#[test]
fn a_share_that_calibration_misses_does_not_match() {
    let of = |sps: f64, hash: f64| {
        let calibrate = format!(
            "calibrate = {{ figure = \"cores.program_cycles\", values = [0], engine = \"dual-page\", \
             in_checkpoints = {{ sps = {sps}, hash = {hash} }} }}\n    [quick]"
        );
        let value = |workload: &str, value: f64| {
            format!(
                "[[paper.value]]\n says = \"{workload}\"\n quantity = \"in-checkpoints\"\n \
                 engine = \"dual-page\"\n workload = \"{workload}\"\n value = {value}\n"
            )
        };
        let values = [value("sps", sps), value("hash", hash), "    [run]\n".to_owned()].concat();
        let text = CHECKPOINTS.replace("[quick]", &calibrate).replace("    [run]\n", &values);
        both(&text, &["--setting", "long epochs"])
    };
    let (first, _) = of(50.0, 50.0);
    let share = list(&first, "calibrations")[0]["share"].as_f64().expect("a number");
    let (report, printed) = of(share * 100.0, 99.0);
    let found = list(&report, "comparisons");
    let reached = |says: &str| {
        let of = |own: &&Value| own["says"] == says;
        let own = found.iter().find(of).expect("a comparison");
        (own["calibrated"].as_bool(), own["reached"].as_bool())
    };
    assert_eq!(reached("sps"), (Some(true), Some(true)));
    assert_eq!(reached("hash"), (Some(true), Some(false)));
    assert_eq!(reached("Logging, SPS"), (Some(false), None));
    for part in [
        "1 calibrated, which shows nothing, 1 to be calibrated and not reached, which are misses",
        "does not match: hash (simulated, long epochs): paper 99.0 %, ours",
        ", calibrated and not reached",
        "| calibrated, not reached [few epochs] |",
    ] {
        assert!(printed.contains(part), "{part} is missing in:\n{printed}");
    }
    assert!(!printed.contains("does not match: sps"), "{printed}");
}

/// Of the many quantities of shares the table has those that the experiment names, and the JSON all.
#[test]
fn columns_are_those_that_an_experiment_names() {
    let header = |printed: &str| {
        let is_header = |line: &&str| line.starts_with("| workload") && line.contains("where");
        let line = printed.lines().find(is_header).expect("a table");
        let cells = line.split('|').map(str::trim).filter(|cell| !cell.is_empty());
        cells.skip(5).map(str::to_owned).collect::<Vec<_>>()
    };
    let more = ["--setting", "short epochs", "--workload", "sps"];
    let (report, printed) = both(CHECKPOINTS, &more);
    assert_eq!(header(&printed), ["share"]);
    assert!(median(&report, "figures", ["sps", "dual-page", "device-writes"]) > 0.0);
    let named = "seed = 3\n    quantities = [\"device-writes\", \"in-checkpoints\"]";
    let (_, printed) = both(&CHECKPOINTS.replace("seed = 3", named), &more);
    assert_eq!(header(&printed), ["share", "in-checkpoints", "device-writes"]);
}

/// Settings of three sizes, of which the largest is for `--full` alone. Each has so much of the operations and of the
/// machine, and is compared with the largest that was run.
#[test]
fn settings_of_different_sizes_stand_beside_the_largest() {
    let settings = CHECKPOINTS.find("[[run.setting]]").expect("settings");
    let simulated = CHECKPOINTS.find("[run.simulated]").expect("simulated runs");
    let sizes = ["8", "2", "1"].map(|factor| {
        format!("[[run.setting]]\n    name = \"1/{factor}\"\n    divided_by = {factor}\n    ")
    });
    let compared = "[[run.compared]]\n    quantity = \"slowdown\"\n    within_percent = 1_000_000\n    \
                    [[run.compared]]\n    quantity = \"time\"\n    within_percent = 0\n    ";
    let (before, after) = (&CHECKPOINTS[..settings], &CHECKPOINTS[simulated..]);
    let text = [before, compared, &sizes.concat(), after].concat();
    let text = text.replace("cores = [1]", "cores = [1]\n    divided_by = 2");
    let (report, printed) = both(&text, &["--workload", "sps"]);
    let samples = list(&report, "samples");
    let operations: Vec<_> =
        samples.iter().map(|own| (own["setting"].as_str(), own["operations"].as_u64())).collect();
    let [eighth, half] = [(Some("1/8"), Some(375)), (Some("1/2"), Some(1_500))];
    assert_eq!(operations, [eighth, eighth, eighth, half, half, half]);
    let caches = |own: &&Value| own["memory"].as_str().is_some_and(|said| said.contains("2 times"));
    assert_eq!(samples.iter().filter(caches).count(), 3, "{samples:?}");
    let beside = list(&report, "beside");
    assert_eq!(beside.len(), 2 + 3, "slowdowns but the base's, and all times");
    for own in beside {
        assert_eq!(own["with"], "1/2", "{own}");
        let steps = list(own, "steps");
        let change = steps[0]["change_percent"].as_f64().expect("a number");
        let [small, large] = [0, 1].map(|step: usize| steps[step]["value"].as_f64().expect("one"));
        assert!((change - (small / large - 1.0) * 100.0).abs() < 1e-9 && change != 0.0, "{own}");
        let slowdown = own["quantity"] == "slowdown";
        assert_eq!((steps[0]["agrees"] == true, steps[1]["agrees"] == true), (slowdown, true));
    }
    let dual_page = beside.iter().find(|own| own["engine"] == "dual-page").expect("it");
    let share = |setting: &str| {
        let of = |own: &&Value| {
            own["engine"] == "dual-page" && own["quantity"] == "share" && own["setting"] == setting
        };
        list(&report, "figures").iter().find(of).expect("a share")["median"].as_f64()
    };
    let slowdown = dual_page["steps"][0]["value"].as_f64().expect("a number");
    assert!((slowdown * share("1/8").expect("a number") - 1.0).abs() < 1e-9);
    for part in ["2 of 5 agree with 1/2 in all settings", ", everything 8 times smaller"] {
        assert!(printed.contains(part), "{part} is missing in:\n{printed}");
    }
    let (report, _) = both(&text, &["--workload", "sps", "--full", "--engine", "logging"]);
    let beside = list(&report, "beside");
    assert!(!beside.is_empty() && beside.iter().all(|own| own["with"] == "1/1"), "{beside:?}");
}

/// The sweeps, small: every setting beside another.
#[test]
fn sweeps_of_what_the_paper_leaves_open() {
    for (name, workload, settings) in [
        ("dual-page-look-ups", "tatp", 3),
        ("dual-page-scale", "spec-mix-2", 3),
        ("dual-page-sizes", "spec-mix-2", 2),
        ("dual-page-thynvm-tables", "spec-mix-1", 2),
        ("dual-page-victims", "spec-mix-2", 4),
    ] {
        let report = report(name, &["--workload", workload]);
        let beside = list(&report, "beside");
        assert!(!beside.is_empty(), "{name}");
        assert!(beside.iter().all(|own| list(own, "steps").len() == settings), "{beside:?}");
    }
}
