//! Mutants of mechanisms.

/// A step of a mechanism left out on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Its name.
    pub name: &'static str,
    /// What is left out.
    pub what: &'static str,
}
