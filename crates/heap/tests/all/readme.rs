//! The program in the README equals the example, and works.

use std::path::Path;
use std::process::Command;

const README: &str = include_str!("../../../../README.md");
const EXAMPLE: &str = include_str!("../../examples/words.rs");

#[test]
fn the_program_is_the_example() {
    let program = README.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let example = EXAMPLE.split_once("\n\n").map(|(_, program)| program);
    assert_eq!(program, example);
}

/// The output of an example, run in this folder.
fn run(name: &str, arguments: &[&str], folder: &Path) -> String {
    // Examples are built next to the tests.
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().unwrap().parent().unwrap().join("examples").join(name);
    let output = Command::new(&example).args(arguments).current_dir(folder).output();
    let output = output.expect("examples are built by `cargo test` and `cargo build --examples`");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_program_counts_over_restarts() {
    let folder = tempfile::tempdir().unwrap();
    for times in 1..=3 {
        let text = run("words", &["moon"], folder.path());
        assert_eq!(text, format!("moon: {times} times so far\n"));
    }
}

#[test]
fn the_order_book_keeps_its_orders_over_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let book = |text: &str| run("order_book", &text.split(' ').collect::<Vec<_>>(), folder.path());
    assert_eq!(book("sell 101 5"), "order 1\n");
    assert_eq!(book("sell 100 5"), "order 2\n");
    assert_eq!(book("buy 99 7"), "order 3\n");
    assert_eq!(book("buy 101 7"), "5 at 100 from order 2\n2 at 101 from order 1\norder 4\n");
    assert_eq!(book("cancel 3"), "");
    assert_eq!(book("show"), "(1, Order { side: Sell, price: 101, left: 3 })\n");
}
