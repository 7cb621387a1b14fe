//! The example's structure, without its bug and with it.

#[allow(dead_code, unreachable_pub)] // It is a program, not a module.
#[path = "../../../examples/own_structure.rs"]
mod example;

use perdura_crashtest::check::{check, replay};

#[test]
fn the_bug_of_the_example_is_found_and_shrunk() {
    let report = check(&example::Bank(false)).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{report}");
    let bank = example::Bank(true);
    let failure = check(&bank).expect_err("a failure");
    println!("{failure}");
    assert_eq!(failure.operations.len(), 1);
    let again = replay(&bank, &failure.options()).expect_err("the same");
    assert_eq!(again.to_string(), failure.to_string());
}
