//! What is tested: a structure in a pool, and the same as an ordinary value.

use perdura::collections::{self, Visit};
use perdura::{Result, Root, Tx};
use perdura_memory::random::SplitMix64;
use std::fmt::Debug;

/// The first kind of a root that is a program's own.
const FIRST_OWN: u32 = 1000;

/// A structure in a pool, the operations on it, and a model of it: an ordinary value that the
/// same operations change. The tester runs the operations as transactions, cuts the power, and
/// compares what is left with the model.
///
/// An operation must do the same whenever it is applied to the same contents: whatever is random
/// is drawn before.
pub trait Subject: Sync {
    /// An operation, with all that it needs to know.
    type Op: Clone + Debug + Send + Sync;
    /// The contents, as far as a program can tell.
    type Model: Clone + PartialEq + Debug + Send;

    /// Its name.
    fn name(&self) -> &str;

    /// Makes the structure in an empty heap, under a named root.
    ///
    /// # Errors
    /// As the transaction.
    fn prepare(&self, tx: &mut dyn Tx) -> Result<()>;

    /// What [`prepare`](Self::prepare) makes.
    fn prepared(&self) -> Self::Model;

    /// Draws an operation for a core. It is drawn the same however many other cores there are, so
    /// that a failure can be shrunk.
    fn draw(&self, random: &mut SplitMix64, core: usize) -> Self::Op;

    /// Carries an operation out, inside of a transaction.
    ///
    /// # Errors
    /// As the transaction; an `Aborted` is expected where [`step`](Self::step) says so.
    fn apply(&self, tx: &mut dyn Tx, op: &Self::Op) -> Result<()>;

    /// The same on the model. False if the operation aborts: nothing may have changed then.
    fn step(&self, model: &mut Self::Model, op: &Self::Op) -> bool;

    /// Whether some operations abort: not on an engine that cannot roll back.
    fn aborts(&self) -> bool {
        true
    }

    /// Operations of each of several cores that the pool of a test has room for, at the least.
    fn most_operations(&self) -> usize {
        usize::MAX
    }

    /// What comes to the same as an operation that is too large for the log: smaller ones, one after
    /// the other. None, unless this is changed: then it is a failure that it is too large.
    fn split(&self, _op: &Self::Op) -> Vec<Self::Op> {
        Vec::new()
    }

    /// Reads the contents; `None` before [`prepare`](Self::prepare).
    ///
    /// # Errors
    /// As the transaction.
    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Self::Model>>;

    /// Reports the blocks of a root; false if it is of no known kind. Unless this is changed, a
    /// root of a program's own kind is one block, and other roots are the heap's collections.
    ///
    /// # Errors
    /// As the transaction; what `visit` returns.
    fn visit(&self, tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
        if root.kind < FIRST_OWN {
            return collections::check_root(tx, root, visit);
        }
        visit(root.at)?;
        Ok(true)
    }
}
