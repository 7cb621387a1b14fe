//! README's figures are those of the files of results/ that it names, and one command measures them.

use crate::common::{arg, fail, run, succeed, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn readme() -> PathBuf {
    root().join("README.md")
}

/// A folder with a copy of README and of the files that it names.
fn copy() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let text = fs::read_to_string(readme()).expect("README");
    for mark in text.split("<!-- figures: ").skip(1) {
        let (mark, _) = mark.split_once(" -->").expect("the mark's end");
        let (_, file) = mark.split_once(' ').expect("a table and a file");
        let to = folder.path().join(file);
        if file != "-" {
            fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
            fs::copy(root().join(file), to).expect("the file that README names");
        }
    }
    let path = folder.path().join("README.md");
    fs::write(&path, text).expect("a copy");
    (folder, path)
}

fn check(path: &Path) -> String {
    fail(&["bench", "readme", "--check", "--readme", arg(path)])
}

/// A table's text between its marks.
fn body(path: &Path, table: &str) -> String {
    let text = fs::read_to_string(path).expect("a file");
    let (_, rest) = text.split_once(&format!("<!-- figures: {table} ")).expect("the table");
    rest.split_once("<!-- end -->").expect("the end").0.to_owned()
}

#[test]
fn every_figure_is_that_of_its_file() {
    let verdict = succeed(&["bench", "readme", "--check", "--readme", arg(&readme())]);
    assert!(verdict.contains("every figure is that of its file"), "{verdict}");
}

#[test]
fn a_wrong_figure_is_found() {
    let (_folder, path) = copy();
    let text = fs::read_to_string(&path).expect("a copy");
    let edit = |from: &str, to: &str| {
        assert!(text.contains(from), "README has no '{from}'");
        fs::write(&path, text.replacen(from, to, 1)).expect("a copy");
        check(&path)
    };
    // A count of images, the last digit of which is another.
    let crash = body(&path, "crash");
    let count = crash.split(' ').find(|word| word.len() > 6 && word.starts_with(char::is_numeric));
    let count = count.expect("a count of images");
    let last = count.chars().last().and_then(|last| last.to_digit(10)).expect("a digit");
    let wrong = format!("{}{}", &count[..count.len() - 1], (last + 1) % 10);
    assert!(edit(count, &wrong).contains(&wrong));
    assert!(edit("<!-- figures: stress ", "<!-- figures: stres ").contains("'stres', which"));
    assert!(
        edit("<!-- figures: stress ", "<!-- figure: stress ")
            .contains("0 marks of the table 'stress'")
    );
    assert!(edit("# Perdura\n", "# Perdura\n\nCommits take 12 ns.\n").contains("'12 ns'"));
    let (_, stores) = text.split_once("<!-- figures: embedded-stores ").expect("the table");
    let (file, _) = stores.split_once(" -->").expect("the mark's end");
    let mark = |file: &str| format!("<!-- figures: embedded-stores {file} -->");
    assert!(edit(&mark(file), &mark("-")).contains("names no file"));
}

/// The command, on small work: its file, README from it, and the reasons to refuse its figures.
#[test]
fn a_quick_run_writes_its_file_and_the_tables() {
    let (folder, path) = copy();
    let out = folder.path().join("results/quick.json");
    let quick = ["bench", "readme", "--quick", "--seed", "7", "--update"];
    let places = ["--readme", arg(&path), "--out", arg(&out), "--disk", arg(folder.path())];
    let command = [&quick[..], &places].concat();
    let written = succeed(&command);
    assert!(written.contains("crash-disk, stress, loc, loc-fig7"), "{written}");
    let text = fs::read_to_string(&out).expect("results");
    let results: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&results["seed"], &results["quick"]), (&7.into(), &true.into()));
    for name in ["processor", "system", "build", "date"] {
        assert!(results["machine"][name].as_str().is_some_and(|text| !text.is_empty()), "{name}");
    }
    let tables = results["tables"].as_array().expect("tables");
    for table in tables {
        for run in table["runs"].as_array().expect("runs") {
            assert!(run["command"].as_str().expect("a command").contains("--seed 7"), "{run}");
            let none = run["rows"].as_array().expect("rows").is_empty();
            let name = table["table"].as_str().expect("a name");
            let may_lack = ["pmemobj", "embedded-stores", "redis"].contains(&name);
            assert!(!none || may_lack && run["not_measured"].is_string(), "{run}");
        }
    }
    let crash = tables.iter().find(|table| table["table"] == "crash").expect("crash tests");
    let all = crash["runs"][0]["rows"].as_array().and_then(|rows| rows.last()).expect("a row");
    let images = all["figures"]["images"].as_f64().expect("images");
    let shown = body(&path, "crash");
    assert!(images >= 200.0 && shown.contains(&format!(" | {images} | ")), "{images}: {shown}");
    assert!(check(&path).contains("mean nothing"), "a quick run is refused");
    // An older file is not replaced.
    assert!(fail(&command).contains("--out"));
}

/// A table that was measured alone is from another file; all others stay.
#[test]
fn one_table_alone() {
    let (folder, path) = copy();
    let out = folder.path().join("results/crash.json");
    let before = body(&path, "stress");
    let options = ["bench", "readme", "--quick", "--update", "--only", "crash"];
    succeed(&[&options[..], &["--readme", arg(&path), "--out", arg(&out)]].concat());
    assert_eq!(body(&path, "stress"), before);
    assert!(body(&path, "crash").starts_with("results/crash.json -->"));
    // The same without measuring.
    let (_other, again) = copy();
    let file = again.parent().expect("a folder").join("results/crash.json");
    fs::copy(&out, &file).expect("a copy");
    succeed(&["bench", "readme", "--update", "--from", arg(&file), "--readme", arg(&again)]);
    assert_eq!(body(&again, "crash"), body(&path, "crash"));
}

/// A child that fails ends the command with its message, and nothing is written.
#[test]
fn a_failed_child_ends_it() {
    let (folder, path) = copy();
    let out = folder.path().join("results/failed.json");
    let missing = folder.path().join("missing");
    let output = run(&[
        "bench",
        "readme",
        "--quick",
        "--only",
        "crash-disk",
        "--readme",
        arg(&path),
        "--out",
        arg(&out),
        "--disk",
        arg(&missing),
    ]);
    assert_eq!(output.status.code(), Some(1));
    let errors = text(&output.stderr);
    let why = errors.lines().last().expect("a message");
    assert!(why.contains(" crash-disk --dir DISK ") && why.contains("missing"), "{why}");
    assert!(!out.exists());
}

/// A store that is not in this build is no failure, and README says so.
#[test]
fn missing_programs_are_told() {
    if cfg!(feature = "stores") {
        return;
    }
    let (folder, path) = copy();
    let out = folder.path().join("results/stores.json");
    succeed(&[
        "bench",
        "readme",
        "--quick",
        "--only",
        "embedded-stores",
        "--update",
        "--readme",
        arg(&path),
        "--out",
        arg(&out),
    ]);
    let table = body(&path, "embedded-stores");
    assert!(table.contains("not measured") && table.contains("features stores"), "{table}");
}

#[test]
fn tables_are_listed_with_their_time() {
    let list = succeed(&["bench", "readme", "--list"]);
    assert!(list.contains("embedded-stores") && list.contains("together about"), "{list}");
    let minutes = list.rsplit("about ").next().and_then(|rest| rest.split(' ').next());
    let minutes: u64 = minutes.expect("minutes").parse().expect("a number");
    assert!(minutes <= 25, "{minutes} minutes are too long by default");
    assert!(fail(&["bench", "readme", "--only", "nothing"]).contains("choose from pmemobj"));
}
