//! `pool copy`, `export` and `import` on the command line; crates/transfer has the tests of their effects.

use crate::common::{arg, command, fail, run, succeed, text};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::tempdir;

const STREAM: &str = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n\
                      *4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1\r\nf\r\n$1\r\nv\r\n";

/// A pool made of a stream at the standard input.
fn imported(pool: &Path) -> String {
    let mut child = command(&["pool", "import", "-", arg(pool), "--size", "8M"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    child.stdin.take().expect("piped").write_all(STREAM.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    text(&output.stdout)
}

/// A pipe that says nothing more does not keep Ctrl-C waiting.
#[test]
fn an_import_of_a_silent_pipe_ends_at_once() {
    let folder = tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let mut child = command(&["pool", "import", "-", arg(&pool), "--size", "8M"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut pipe = child.stdin.take().expect("piped");
    pipe.write_all(STREAM.as_bytes()).expect("it reads");
    // Until it has begun to read it ends by the signal itself.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
    assert_eq!(child.wait().expect("an end").code(), Some(130));
    assert!(!pool.exists());
    drop(pipe);
}

#[test]
fn data_goes_there_and_back() {
    let folder = tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let (old, new, file, again) = (at("old"), at("new"), at("data.resp"), at("again"));
    assert!(imported(&old).contains("imported 2 keys by 2 commands; the stream has no end mark"));
    let larger = ["--size", "64M", "--engine", "ccstm", "--json"];
    let copied = succeed(&[&["pool", "copy", arg(&old), arg(&new)], larger.as_slice()].concat());
    let copied: serde_json::Value = serde_json::from_str(&copied).expect("JSON");
    assert_eq!((&copied["keys"], &copied["roots"]), (&2.into(), &1.into()));
    assert!(succeed(&["pool", "info", arg(&new)]).contains("ccstm"));
    assert!(succeed(&["pool", "check", arg(&new)]).contains("no problem found"));
    assert!(succeed(&["pool", "export", arg(&new), arg(&file)]).contains("exported 2 keys"));
    let printed = succeed(&["pool", "export", arg(&new)]);
    assert_eq!(printed.as_bytes(), fs::read(&file).expect("the export"));
    assert!(printed.contains("$4\r\nHSET\r\n$1\r\nh\r\n$1\r\nf\r\n$1\r\nv\r\n"), "{printed}");
    let said = succeed(&["pool", "import", arg(&file), arg(&again)]);
    assert!(said.ends_with("imported 2 keys by 5 commands\n"), "{said}");
    let said = succeed(&["pool", "copy", "--keep-offsets", arg(&old), arg(&at("kept"))]);
    assert!(said.contains("all pages as they were"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 5);
}

/// A copy and an import may have a larger log, and another domain.
#[test]
fn new_pools_have_the_log_and_the_domain_asked_for() {
    let folder = tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let (old, file) = (at("old"), at("data.resp"));
    imported(&old);
    succeed(&["pool", "export", arg(&old), arg(&file)]);
    let asked = ["--size", "16M", "--log", "4M", "--domain", "process"];
    for (how, from) in [("copy", &old), ("import", &file)] {
        let made = at(how);
        succeed(&[&["pool", how, arg(from), arg(&made)], asked.as_slice()].concat());
        let info = succeed(&["pool", "info", arg(&made), "--json"]);
        let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
        assert_eq!(info["log_bytes"], 4 << 20, "{made:?}");
        assert_eq!(info["requires"], "process", "{made:?}");
    }
    let kept = ["pool", "copy", "--keep-offsets", "--domain", "process"];
    succeed(&[kept.as_slice(), &[arg(&old), arg(&at("kept"))]].concat());
    let refused = run(&[kept.as_slice(), &["--log", "4M", arg(&old), arg(&at("other"))]].concat());
    assert!(!refused.status.success(), "the pages' places depend on the log's size");
}

#[test]
fn failures_are_one_line() {
    let folder = tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let (old, new) = (at("old"), at("new"));
    imported(&old);
    let said = |arguments: &[&str], expected: &str| {
        let complaint = fail(arguments);
        assert!(complaint.contains(expected), "{complaint}");
    };
    said(
        &["pool", "copy", arg(&old), arg(&old)],
        "there is a file already; give another name, or have it replaced (`--force`)",
    );
    said(&["pool", "copy", arg(&old), arg(&at("none/new"))], "create the directory first");
    said(&["pool", "copy", arg(&new), arg(&at("other"))], "no such file");
    said(&["pool", "import", arg(&at("none")), arg(&new)], "check the path");
    said(&["man", arg(&old)], "it is not a folder");
    said(&["pool", "copy", arg(&old), arg(&new), "--keep-offsets", "--size", "1T"], "at most");
    said(&["pool", "export", arg(&old), "--json"], "give a file for the export");
    said(&["pool", "export", arg(&old), "--format", "json"], "--format resp");
    fs::write(at("bad"), &STREAM[..50]).expect("a file");
    said(&["pool", "import", arg(&at("bad")), arg(&new)], "cut off at byte");
    fs::write(at("worse"), "*1\r\n$5\r\nLPUSH\r\n").expect("a file");
    said(&["pool", "import", arg(&at("worse")), arg(&new)], "at byte 0: unknown command 'LPUSH'");
    let pool = perdura::Options::new().open(&old).expect("a pool");
    said(&["pool", "copy", arg(&old), arg(&new)], "the pool is in use");
    drop(pool);
    let output = run(&["pool", "export", arg(&old), "/dev/full"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("the device");
    let output = command(&["pool", "export", arg(&old)]).stdout(full).output().expect("it starts");
    let complaint = text(&output.stderr);
    assert!(complaint.starts_with("error: standard output: No space left"), "{complaint}");
    assert!(complaint.contains("free some space"), "{complaint}");
    assert!(!new.exists());
}
