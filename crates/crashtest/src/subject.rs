//! The subject of a test: a structure in a pool, with an ordinary value as its model.

use crate::case::BYTES;
use perdura::collections::{self, Visit};
use perdura::{Result, Root, Tx};
use perdura_memory::random::SplitMix64;
use std::fmt::Debug;

/// The first kind of root that is reserved for programs.
const FIRST_OWN: u32 = 1000;

/// A structure in a pool, the operations on it, and a model of it: an ordinary value that the same operations change.
/// The tester runs the operations as transactions, cuts the power, and compares the images with the model.
///
/// An operation must be deterministic given the contents: everything random is drawn beforehand.
pub trait Subject: Sync {
    /// An operation, with all its parameters.
    type Op: Clone + Debug + Send + Sync;
    /// The contents, as far as a program can observe them.
    type Model: Clone + PartialEq + Debug + Send;

    /// Its name.
    fn name(&self) -> &str;

    /// Creates the structure in an empty heap, under a named root.
    ///
    /// # Errors
    /// As the transaction.
    fn prepare(&self, tx: &mut dyn Tx) -> Result<()>;

    /// The contents that [`prepare`](Self::prepare) creates.
    fn prepared(&self) -> Self::Model;

    /// Draws an operation for a core. The draw must not depend on the number of other cores, so that a failure can be
    /// shrunk.
    fn draw(&self, random: &mut SplitMix64, core: usize) -> Self::Op;

    /// Carries an operation out, inside a transaction.
    ///
    /// # Errors
    /// As the transaction; an `Aborted` is expected where [`step`](Self::step) returns false.
    fn apply(&self, tx: &mut dyn Tx, op: &Self::Op) -> Result<()>;

    /// The same operation on the model. False if the operation aborts: nothing may have changed then.
    fn step(&self, model: &mut Self::Model, op: &Self::Op) -> bool;

    /// Whether some operations abort: such a structure is not run on an engine that cannot roll back.
    fn aborts(&self) -> bool {
        true
    }

    /// Whether there may be no room for an operation, which then has no effect.
    fn may_be_full(&self) -> bool {
        false
    }

    /// Bytes that its test pool can grow to; by default few, so that images are checked fast.
    fn pool_bytes(&self) -> u64 {
        BYTES
    }

    /// How many operations of each of several cores a test pool has room for, at the least.
    fn most_operations(&self) -> usize {
        usize::MAX
    }

    /// Smaller operations, to be done one after the other, that replace one that is too large for the log. None by
    /// default: then being too large is a failure.
    fn split(&self, _op: &Self::Op) -> Vec<Self::Op> {
        Vec::new()
    }

    /// Reads the contents; `None` before [`prepare`](Self::prepare).
    ///
    /// # Errors
    /// As the transaction.
    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Self::Model>>;

    /// Reports the blocks of a root; false if it is of no known kind. By default a root of a program's own kind is one
    /// block, and other roots are the heap's collections.
    ///
    /// # Errors
    /// As the transaction; the errors of `visit`.
    fn visit(&self, tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
        if root.kind < FIRST_OWN {
            return collections::check_root(tx, root, visit);
        }
        visit(root.at)?;
        Ok(true)
    }
}
