//! The examples' structure and engine, without their bugs and with them.

#[allow(dead_code, unreachable_pub)] // They are programs, not modules.
#[path = "../../../examples/own_engine.rs"]
mod own_engine;

use own_engine::own_structure::Bank;
use perdura_crashtest::check::{Check, check, replay};
use perdura_crashtest::{Case, Points};

#[test]
fn the_bug_of_the_example_is_found_and_shrunk() {
    let case = Case { points: Points::Random(10), ..Case::default() };
    let few = Check { case, seeds: 1, ..Check::default() };
    let report = few.run(&Bank(false)).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{report}");
    let bank = Bank(true);
    let failure = check(&bank).expect_err("a failure");
    println!("{failure}");
    assert_eq!(failure.operations.len(), 1);
    let again = replay(&bank, &failure.options()).expect_err("the same");
    assert_eq!(again.to_string(), failure.to_string());
}

#[test]
fn the_engine_of_the_example_is_whole_and_its_bug_is_found() {
    let report = own_engine::test::<false>().unwrap_or_else(|failure| panic!("{failure}"));
    println!("{report}");
    println!("{}", own_engine::test::<true>().expect_err("a failure"));
}
