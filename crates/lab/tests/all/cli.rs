//! The command line: help and errors.

use crate::common::{arg, command, fail, run, succeed, text};
use perdura::EngineKind;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::process::Stdio;
use tempfile::tempdir;

#[test]
fn every_command_explains_itself() {
    for arguments in [
        &["--help"][..],
        &["bench", "--help"],
        &["bench", "limit", "--help"],
        &["bench", "versus", "--help"],
        &["list", "--help"],
        &["sim", "--help"],
        &["reproduce", "--help"],
    ] {
        assert!(succeed(arguments).contains("Usage: perdura-lab"), "{arguments:?}");
    }
    assert!(succeed(&["--version"]).starts_with("perdura-lab "));
}

#[test]
fn a_senseless_command_line_is_explained() {
    for (arguments, hint) in [
        (&["bench", "--engine", "undont"][..], EngineKind::NAMES),
        (&["bench", "--domain", "moon"], "auto"),
        (&["bench", "--workload", "hashh"], "a similar value exists: 'hash'"),
        (&["sim", "--workload", "hashh"], "[possible values: sps, sps-local, hash, "),
        (&["bench", "sps"], "as in `bench --workload sps`"),
        (&["bench", "--repeat", "0"], "repeat"),
        (&["bench", "--answer-within", "10"], "10ms"),
        (&["bench", "--log", "1K"], "or more"),
        (&["sim", "--window", "0"], "or all"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(hint), "{}", text(&output.stderr));
    }
}

#[test]
fn pools_that_cannot_be_made() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("mine");
    fs::write(&path, "precious").expect("a file");
    assert!(fail(&["bench", "--pool", arg(&path)]).contains("already"));
    assert_eq!(fs::read(&path).expect("the file"), b"precious");
    let nowhere = folder.path().join("no-folder/pool");
    assert!(fail(&["bench", "--pool", arg(&nowhere)]).contains("folder"));
}

/// Skipped for users with the right to write anyway.
#[test]
#[cfg(unix)]
fn a_folder_that_cannot_be_written_to_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempdir().expect("a folder");
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).expect("a folder");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).expect("permissions");
    if fs::write(closed.join("probe"), "").is_ok() {
        return eprintln!("skipped: this user may write everywhere");
    }
    assert!(fail(&["bench", "--pool", arg(&closed.join("pool"))]).contains("folder"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = command(&["bench", "--ops", "1000", "--entries", "1000", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let mut complaint = String::new();
    let mut stderr = child.stderr.take().expect("a pipe");
    stderr.read_to_string(&mut complaint).expect("text");
    assert!(child.wait().expect("an end").success());
    assert_eq!(complaint, "");
}

#[test]
fn shells_and_man_are_told_of_every_command() {
    let bash = succeed(&["completions", "bash"]);
    assert!(bash.contains("crash-disk") && bash.contains("_perdura__lab"), "{bash}");
    let folder = tempdir().expect("a folder");
    succeed(&["man", arg(folder.path())]);
    for page in ["perdura-lab.1", "perdura-lab-bench-limit.1"] {
        let text = fs::read_to_string(folder.path().join(page)).expect("a page");
        assert!(text.contains(".SH"), "{text}");
    }
}

/// Everything with a name is listed, for people and for programs.
#[test]
fn all_lists() {
    let json: Value = serde_json::from_str(&succeed(&["list", "--json"])).expect("JSON");
    let printed = succeed(&["list"]);
    for (list, one) in [
        ("workloads", "sps"),
        ("structures", "laned-map"),
        ("policies", "tree-plru"),
        ("mechanisms", "plain"),
        ("machines", "optane"),
        ("engines", "archapt-redo"),
    ] {
        let all = json[list].as_array().expect(list);
        assert!(all.iter().any(|row| row["name"] == one), "{list} has no {one}");
        for row in all {
            assert!(row["line"].as_str().is_some_and(|line| !line.is_empty()), "{row}");
            assert!(printed.contains(row["name"].as_str().expect("a name")), "{row}");
        }
        let alone: Value = serde_json::from_str(&succeed(&["list", list, "--json"])).expect("JSON");
        assert_eq!(alone, serde_json::json!({ list: all }));
    }
    let sps = &json["workloads"][0];
    assert_eq!((&sps["crash"], &sps["parameters"][0]["default"]), (&true.into(), &"65536".into()));
    let refused = run(&["list", "colours"]);
    assert!(text(&refused.stderr).contains("workloads, structures, policies"));
}
