use super::RbTree;
use crate::toggle::tests;

#[test]
fn as_the_model() {
    tests::as_the_model::<RbTree>(1, 300, 6_000);
    tests::as_the_model::<RbTree>(2, 8, 2_000);
}

#[test]
fn damage_is_an_error() {
    tests::damage_is_an_error::<RbTree>(3, 60, 2_000);
}
