//! What mechanisms promise.

/// What a mechanism promises about memory after recovery, whatever write-backs and fences programs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// What the persistency model says.
    Nothing,
    /// Memory as at the end of the last durable epoch ([`Hardware::promise`](crate::Hardware::promise)).
    Epoch,
    /// Memory as after some store: all stores of all cores up to that one, and none after it. Nothing that a fence has
    /// waited for is lost.
    Order,
    /// Memory as after some transaction's commit: all transactions committed up to it, and nothing of any later
    /// one. No transaction is lost that was acknowledged as durable. Nothing is promised about words that are stored to
    /// outside transactions.
    Transactions,
}
