//! Runs the real program.

// Each test file uses some of it.
#![allow(dead_code)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program with these arguments.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perdura-lab"));
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
