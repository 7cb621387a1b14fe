//! Bugs to order, for tests of the crash tester: places in the engines where something can be left
//! out that no wrapper around an engine reaches.
//!
//! Without the feature `planted`, which only those tests turn on, [`has`] is `false` for the compiler,
//! and nothing of this is in the program. With it, a bug is there for the thread that asked for it.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A group is called durable before the fence that makes it so.
    DurableBeforeFence,
    /// Who leads takes the words of those that have joined for durable, and leaves them out of the record.
    JoinedLeftOut,
    /// A commit is counted, for checkpoints, before its words are stored.
    CommittedBeforeStored,
    /// Lines are marked dirty before their words are stored.
    DirtyBeforeStored,
    /// Reading bytes, a transaction does not see its own words of lines that are in the overlay.
    OwnBytesHidden,
    /// Batches whose lines are taken back are void before the new batch of these counts.
    TakenBackTooEarly,
    /// When the log is cut, what it had of old words is believed to be there still.
    OldWordsBelieved,
    /// The writer does not wait for readers before it stores.
    NotAlone,
    /// An aborted transaction's words stay in the window.
    AbortedWordsStay,
    /// A session that reads does not end the window that another one has left.
    WindowOverlooked,
    /// A window's fresh memory is not made durable with it.
    WindowsFreshForgotten,
    /// A page's sum that a window has stays there when the page's words are again what they were before it.
    SumKept,
    /// A commit does not look whether what it has read has been changed.
    UncheckedReads,
    /// Nor does a transaction that moves its moment on.
    MovedUnchecked,
    /// A commit takes its stamp before it has its locks.
    StampBeforeLocks,
    /// It stores in place and lets go of its locks before it is durable.
    UnlockedBeforeDurable,
    /// What a commit overwrites it does not keep for snapshots.
    NothingKept,
    /// A checkpoint does not wait for commits that are under way.
    CommitsOverlooked,
    /// A commit on a block device takes its number before its turn.
    NumberedOutOfTurn,
    /// There, a checkpoint captures what is in place before the records of that are durable.
    CapturedTooEarly,
    /// Lost lines are restored from columns' sums only.
    OnlyColumns,
    /// The space of freed memory goes back to the file system while the log still refers to it.
    ReleasedInLimbo,
}

#[cfg(feature = "planted")]
std::thread_local! {
    static BUG: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Whether this thread's engines have the bug.
#[cfg(feature = "planted")]
#[inline]
pub fn has(bug: Bug) -> bool {
    BUG.get() == Some(bug)
}

/// Whether this thread's engines have the bug: never.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn has(_: Bug) -> bool {
    false
}

/// Runs `body` with the bug in this thread's engines.
#[cfg(feature = "planted")]
pub fn with<R>(bug: Bug, body: impl FnOnce() -> R) -> R {
    struct Before(Option<Bug>);
    impl Drop for Before {
        fn drop(&mut self) {
            BUG.set(self.0);
        }
    }
    let _before = Before(BUG.replace(Some(bug)));
    body()
}
