//! `perdura-lab crash` finds planted bugs, and reports nothing without them.

use crate::common::{arg, command, fail, run, succeed, text};
use perdura::{Domain, EngineKind};
use perdura_crashtest::case::start_name;
use perdura_crashtest::subjects::SUBJECTS;
use perdura_crashtest::{Budget, STARTS};
use perdura_machine::cache::Policy;
use perdura_workloads::list::WORKLOADS;
use serde_json::Value;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// A small case of each engine: `--images 0` is each case once.
const SMALL: [&str; 10] = [
    "crash",
    "--operations",
    "4",
    "--points",
    "random:20",
    "--images",
    "0",
    "--threads",
    "1",
    "--json",
];

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&succeed(&[&SMALL, arguments].concat())).expect("JSON")
}

/// The output without the speed.
fn counts(mut report: Value) -> Value {
    let report = report.as_object_mut().expect("an object");
    for speed in ["seconds", "images_per_minute"] {
        assert!(report.remove(speed).is_some_and(|value| value.as_f64() > Some(0.0)));
    }
    Value::Object(report.clone())
}

#[test]
fn every_engine_survives() {
    let report = counts(json(&["--workload", "sps", "--policy", "random", "--cores", "1,3"]));
    assert_eq!(report["failures"], 0);
    let engines: Vec<_> = report["runs"].as_array().expect("runs").iter().collect();
    let whole = EngineKind::ALL.into_iter().filter(|kind| kind.is_crash_consistent());
    assert_eq!(engines.len(), whole.count(), "all but plain and volatile");
    for run in engines {
        assert!(run["counts"]["images"].as_u64() > Some(0), "{run}");
    }
}

/// The workloads that have a structure, by their names; others say that they have none.
#[test]
fn workloads_by_their_names() {
    let few = ["--engine", "redo", "--policy", "lru", "--domain", "transient", "--start", "closed"];
    let (tested, others): (Vec<_>, Vec<_>) =
        WORKLOADS.iter().map(|row| row.name).partition(|name| SUBJECTS.contains(name));
    assert!(tested.len() > 5, "{tested:?}");
    for name in tested {
        let report = counts(json(&[&["--workload", name][..], &few].concat()));
        assert_eq!(report["runs"][0]["workload"], name);
        assert!(report["total"]["images"].as_u64() > Some(0), "{report}");
    }
    let refused = fail(&["crash", "--workload", others[0]]);
    assert!(refused.contains("no structure for crash tests: these have: sps, "), "{refused}");
}

#[test]
fn a_seed_is_a_report() {
    let arguments = ["--engine", "redo", "--workload", "sps", "--policy", "lru"];
    let with = |seed| counts(json(&[&arguments[..], &["--seed", seed]].concat()));
    assert_eq!(with("7"), with("7"));
    assert_ne!(with("7")["total"], with("8")["total"]);
}

/// The threads end the crash points that they are at, and no more.
#[test]
fn as_many_images_as_asked_for() {
    for wanted in [1, 500] {
        let arguments = ["crash", "--images", &wanted.to_string(), "--threads", "2", "--json"];
        let report: Value = serde_json::from_str(&succeed(&arguments)).expect("JSON");
        let images = report["total"]["images"].as_u64().expect("a number");
        let most = wanted + 2 * Budget::default().images;
        assert!((wanted..=most).contains(&images), "{images} images");
        assert!(report["combinations_tried"].as_u64() < report["combinations"].as_u64());
    }
}

/// The help names everything that can be chosen.
#[test]
fn help_is_complete() {
    let help = succeed(&["crash", "--help"]);
    let domains = [Domain::Transient, Domain::Persistent, Domain::Media].map(|it| it.to_string());
    let starts = STARTS.map(|start| start_name(start).to_owned());
    let engines = EngineKind::ALL.into_iter().filter(|kind| kind.is_crash_consistent());
    let names = SUBJECTS.into_iter().chain(Policy::NAMED.map(|own| own.name)).map(str::to_owned);
    let names = names.chain(domains).chain(starts).chain(engines.map(|kind| kind.to_string()));
    for name in names {
        let separate = |c: char| !c.is_alphanumeric() && c != '-';
        assert!(help.split(separate).any(|word| word == name), "{name} is not in the help");
    }
}

#[test]
fn mutants_are_caught() {
    let arguments = ["--engine", "undo", "--workload", "sps", "--policy", "lru", "--mutants"];
    let ended = run(&[&SMALL[..], &arguments].concat());
    // With so few cases a call site may be missed, and is then reported.
    let report: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let mutants = report["mutants"].as_array().expect("mutants").len() as u64;
    let caught = report["caught"].as_u64().expect("a number");
    assert!(caught * 2 > mutants && mutants > 5, "{caught} of {mutants}");
    assert_eq!(ended.status.success(), caught == mutants);
    // One of them alone.
    let site = report["mutants"][0]["site"].as_str().expect("a site");
    let alone = run(&[&SMALL[..], &arguments, &["--omit", site]].concat());
    let alone: Value = serde_json::from_slice(&alone.stdout).expect("JSON");
    assert_eq!(alone["mutants"].as_array().map(Vec::len), Some(1));
    assert_eq!(alone["mutants"][0]["site"], site);
    let unknown = run(&[&SMALL[..], &arguments, &["--omit", "fence nowhere"]].concat());
    assert!(text(&unknown.stderr).contains("no call site"), "{}", text(&unknown.stderr));
}

/// The command that a failure prints repeats the failure.
#[test]
fn a_failure_is_replayed_by_its_command() {
    let arguments = ["--engine", "undo", "--workload", "sps", "--policy", "lru", "--cores", "1"];
    let mutants = run(&[&SMALL[..], &arguments, &["--mutants"]].concat());
    let mutants: Value = serde_json::from_slice(&mutants.stdout).expect("JSON");
    let caught = mutants["mutants"].as_array().expect("mutants").iter();
    let site = caught
        .filter(|mutant| !mutant["caught"].is_null())
        .find_map(|mutant| mutant["site"].as_str().filter(|site| site.starts_with("fence")))
        .expect("a fence that is missed");
    let long = ["crash", "--operations", "4", "--images", "2k", "--json", "--omit", site];
    let found = run(&[&long[..], &arguments].concat());
    assert_eq!(found.status.code(), Some(1), "{}", text(&found.stderr));
    let found: Value = serde_json::from_slice(&found.stdout).expect("JSON");
    let again = found["again"].as_str().expect("a command");
    let shown = Command::new("sh")
        .args(["-c", &again.replacen("perdura-lab", "exec \"$PERDURA\"", 1)])
        .env("PERDURA", env!("CARGO_BIN_EXE_perdura-lab"))
        .output()
        .expect("a shell");
    assert_eq!(shown.status.code(), Some(1), "{again}: {}", text(&shown.stderr));
    let failed = found["failed"].as_str().expect("what failed");
    assert!(text(&shown.stdout).contains(failed), "{failed}\n{}", text(&shown.stdout));
}

/// A custom machine is in the command too.
#[test]
fn a_failure_names_the_file_of_its_machine() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mine.toml");
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/tiny.toml");
    std::fs::copy(tiny, &file).expect("a copy");
    let arguments = ["--engine", "undo", "--workload", "sps", "--policy", "lru", "--cores", "1"];
    let mine = ["--mutants", "--machine", arg(&file)];
    let report = run(&[&SMALL[..], &arguments, &mine].concat());
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let mut again = report["mutants"].as_array().expect("mutants").iter();
    let again = again.find_map(|mutant| mutant["again"].as_str()).expect("a mutant is caught");
    assert!(again.contains(arg(&file)), "{again}");
}

#[test]
fn refuses_impossible_options() {
    let small =
        |more: &[&str]| fail(&[&["crash", "--operations", "4", "--images", "0"], more].concat());
    let names = EngineKind::names_of(EngineKind::is_crash_consistent);
    assert!(small(&["--engine", "x"]).contains(&format!("one of {names}, all")));
    assert!(small(&["--engine", "volatile"]).contains("nothing to test"));
    assert!(small(&["--workload", "x"]).contains("sps, hash-map"));
    assert!(small(&["--domain", "process"]).contains("transient, persistent, media, all"));
    assert!(small(&["--policy", "x"]).contains("there are lru"));
    assert!(small(&["--start", "x"]).contains("closed, new, switched"));
    assert!(small(&["--machine", "x"]).contains("the machines are"));
    assert!(small(&["--machine", "/"]).contains("machine '/'"));
    assert!(small(&["--cores", "5"]).contains("--cores must be 1 to 4"));
    assert!(small(&["--threads", "0"]).contains("--threads must be 1"));
    assert!(small(&["--seeds", "0", "--mutants"]).contains("--seeds must be 1"));
    assert!(small(&["--cores", "3", "--keep", "3.0"]).contains("--keep 3.0"));
    assert!(small(&["--omit", "store x"]).contains("never left out"));
    let few = ["--engine", "undo", "--workload", "sps", "--policy", "lru", "--start", "closed"];
    let few = [&few[..], &["--domain", "transient", "--cores", "1"]].concat();
    assert!(
        small(&[&few[..], &["--omit", "fence x:1"]].concat()).contains("these are: fence engine/")
    );
    let beyond = |points| small(&[&few[..], &["--points", points]].concat());
    assert!(beyond("1000000").contains("never cut"));
    assert!(beyond("0").contains("--points must be 1"));
}

#[test]
fn unknown_keys_of_a_machine_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mine.toml");
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/tiny.toml");
    let text = std::fs::read_to_string(tiny).expect("a preset");
    std::fs::write(&file, text.replacen("title =", "nobody_knows = 1\ntitle =", 1))
        .expect("a file");
    assert!(fail(&["crash", "--machine", arg(&file)]).contains("nobody_knows"));
}

/// Returns when the process handles SIGINT, where the system tells: on a busy machine that takes a while.
#[cfg(unix)]
fn await_handler(id: &str) {
    const SIGINT: u64 = 1 << 1;
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while std::time::Instant::now() < end {
        let Ok(status) = std::fs::read_to_string(format!("/proc/{id}/status")) else { return };
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        if caught.is_none_or(|mask| mask & SIGINT != 0) {
            return;
        }
        sleep(Duration::from_millis(20));
    }
}

/// The end of a run, and its output.
#[cfg(unix)]
fn ended_by(signal: &str, more: &[&str]) -> std::process::Output {
    let child = command(&[&["crash"], more].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let id = child.id().to_string();
    await_handler(&id);
    sleep(Duration::from_millis(1_500));
    assert!(Command::new("kill").args([signal, &id]).status().expect("kill").success());
    // The output is read meanwhile: it may exceed a pipe's capacity.
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(child.wait_with_output()));
    let output = told.recv_timeout(Duration::from_secs(20)).expect("it ends");
    output.expect("what it printed")
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_prints_its_counts() {
    for signal in ["-INT", "-TERM"] {
        let ended = ended_by(signal, &["--images", "1G", "--json"]);
        assert_eq!(ended.status.code(), Some(130));
        let report: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
        assert_eq!((&report["ended_early"], &report["failures"]), (&true.into(), &0.into()));
        assert!(report["total"]["images"].as_u64() > Some(0), "{report}");
    }
    let ended = ended_by("-INT", &["--images", "1G"]);
    let last = text(&ended.stdout).trim_end().lines().last().map(str::to_owned);
    let last = last.expect("a verdict");
    assert!(
        last.starts_with("verdict: no failure in ") && last.contains("go on with --seed "),
        "{last}"
    );
}

/// A call site that was not tried on all cases is not reported as missed.
#[test]
#[cfg(unix)]
fn interrupted_mutants_claim_nothing() {
    let ended = ended_by("-INT", &["--mutants", "--seeds", "1000", "--workload", "sps"]);
    assert_eq!(ended.status.code(), Some(130));
    assert!(!text(&ended.stdout).contains("NOT CAUGHT"), "{}", text(&ended.stdout));
}
