//! The program in the README is the example, and works.

use std::process::Command;

const README: &str = include_str!("../../../../README.md");
const EXAMPLE: &str = include_str!("../../examples/words.rs");

#[test]
fn the_program_is_the_example() {
    let program = README.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let example = EXAMPLE.split_once("\n\n").map(|(_, program)| program);
    assert_eq!(program, example);
}

#[test]
fn the_program_counts_over_restarts() {
    // Examples are built beside the tests.
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().unwrap().parent().unwrap().join("examples/words");
    let folder = tempfile::tempdir().unwrap();
    for run in 1..=3 {
        let output = Command::new(&example).arg("moon").current_dir(&folder).output();
        let output =
            output.expect("examples are built by `cargo test` and `cargo build --examples`");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text, format!("moon: {run} times so far\n"), "{output:?}");
    }
}
