//! The command line: help, pools, and errors.

use crate::common::{arg, fail, run, succeed, text};
use perdura::EngineKind;
use serde_json::Value;
use std::fs;
use tempfile::tempdir;

#[test]
fn every_command_explains_itself() {
    for arguments in [
        &["--help"][..],
        &["serve", "--help"],
        &["pool", "--help"],
        &["pool", "create", "--help"],
        &["pool", "info", "--help"],
        &["pool", "check", "--help"],
    ] {
        assert!(succeed(arguments).contains("Usage: perdura"), "{arguments:?}");
    }
    assert!(succeed(&["--version"]).starts_with("perdura "));
}

#[test]
fn a_senseless_command_line_is_explained() {
    for (arguments, hint) in [
        (&["pool", "create", "x", "--engine", "undont"][..], EngineKind::NAMES),
        (&["pool", "create", "x", "--domain", "moon"], "auto"),
        (&["pool", "create", "x", "--size", "many"], "1G"),
        (&["bench", "--workload", "sps"], "perdura-lab"),
        (&["crash", "--help"], "perdura-lab"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(hint), "{}", text(&output.stderr));
    }
}

#[test]
fn a_pool_is_created_told_of_and_checked() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("a.pool");
    let created = succeed(&["pool", "create", arg(&path), "--size", "16M", "--engine", "undo"]);
    assert!(created.contains("undo") && created.contains("16 MiB"), "{created}");
    let info = succeed(&["pool", "info", arg(&path), "--json"]);
    let info: Value = serde_json::from_str(&info).expect("JSON");
    assert_eq!(info["engine"], "undo");
    assert_eq!(info["state"], "closed");
    assert!(succeed(&["pool", "info", arg(&path)]).contains("durability"));
    let checked = succeed(&["pool", "check", arg(&path)]);
    assert!(checked.contains("no problem found"), "{checked}");
}

#[test]
fn an_existing_file_is_not_overwritten() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("mine");
    fs::write(&path, "precious").expect("a file");
    assert!(fail(&["pool", "create", arg(&path)]).contains("already"));
    assert_eq!(fs::read(&path).expect("the file"), b"precious");
}

#[test]
fn refuses_non_pools() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("file");
    let long = vec![b'x'; 100_000];
    for contents in [&b""[..], b"short", &long] {
        fs::write(&path, contents).expect("a file");
        for what in ["info", "check"] {
            let complaint = fail(&["pool", what, arg(&path)]);
            assert!(complaint.contains(arg(&path)), "{complaint}");
        }
        assert_eq!(fs::read(&path).expect("the file"), contents);
    }
    assert!(fail(&["pool", "info", arg(&folder.path().join("none"))]).contains("no such file"));
    assert!(fail(&["pool", "info", arg(folder.path())]).contains("not a regular file"));
    let nowhere = folder.path().join("no-folder/pool");
    assert!(fail(&["pool", "create", arg(&nowhere)]).contains("create the directory"));
}

#[test]
fn impossible_sizes_are_refused() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("pool");
    for size in ["1K", "0", "9999T"] {
        fail(&["pool", "create", arg(&path), "--size", size]);
        assert!(!path.exists(), "{size}");
    }
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
    let pool = closed.join("pool");
    assert!(fail(&["pool", "create", arg(&pool)]).contains("permission denied"));
}

#[test]
fn shells_and_man_are_told_of_every_command() {
    let bash = succeed(&["completions", "bash"]);
    assert!(bash.contains("export") && bash.contains("--requirepass"), "{bash}");
    let folder = tempdir().expect("a folder");
    let pages = folder.path().join("man");
    succeed(&["man", arg(&pages)]);
    for page in ["perdura.1", "perdura-serve.1", "perdura-pool-copy.1"] {
        let text = fs::read_to_string(pages.join(page)).expect("a page");
        assert!(text.contains(".SH"), "{text}");
    }
    let file = folder.path().join("file");
    fs::write(&file, "").expect("a file");
    assert!(fail(&["man", arg(&file)]).contains("file"));
}
