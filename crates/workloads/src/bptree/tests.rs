use super::BpTree;
use crate::toggle::tests;

#[test]
fn as_the_model() {
    // Two levels, and up and down between one and two.
    tests::as_the_model::<BpTree>(1, 3_000, 20_000);
    tests::as_the_model::<BpTree>(2, 150, 4_000);
}

#[test]
fn it_grows_and_shrinks_by_levels() {
    tests::fills_and_empties::<BpTree>(4, 120_000);
}

#[test]
fn damage_is_an_error() {
    tests::damage_is_an_error::<BpTree>(3, 900, 500);
}
