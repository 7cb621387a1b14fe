//! Runs the real program: `perdura`, or `perdura-lab` in the tests of that crate, which share this file.

// Each test file uses some of it.
#![allow(dead_code)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Cargo names only the programs of the crate whose tests it builds.
const PROGRAM: Option<&str> = match option_env!("CARGO_BIN_EXE_perdura-lab") {
    None => option_env!("CARGO_BIN_EXE_perdura"),
    lab => lab,
};

/// The program with these arguments.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM.expect("the program of the tested crate"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs it until it ends.
pub(crate) fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program starts")
}

/// Runs it. Returns its output.
pub(crate) fn succeed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs it. Returns its one line of error message.
pub(crate) fn fail(arguments: &[&str]) -> String {
    let output = run(arguments);
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {complaint}");
    assert!(complaint.starts_with("error: "), "{complaint}");
    assert_eq!(complaint.trim_end().lines().count(), 1, "{complaint}");
    complaint
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A path, as an argument.
pub(crate) fn arg(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}
