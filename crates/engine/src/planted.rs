//! Bugs on demand, for tests of the crash tester: places in the engines where a step can be left out that no wrapper
//! around an engine reaches.
//!
//! Without the feature `planted`, which only those tests turn on, [`has`] is constantly `false`, and nothing of this is
//! in the program. With it, a bug exists for the thread that asked for it.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A group is reported as durable before the fence that makes it so.
    DurableBeforeFence,
    /// The leader assumes that the joined words are durable, and leaves them out of the record.
    JoinedLeftOut,
    /// A commit is counted, for checkpoints, before its words are stored.
    CommittedBeforeStored,
    /// Lines are marked dirty before their words are stored.
    DirtyBeforeStored,
    /// Reading bytes, a transaction does not see its own words of lines that are in the overlay.
    OwnBytesHidden,
    /// Batches whose lines are taken back become void before the new batch of these lines counts.
    TakenBackTooEarly,
    /// When the log is truncated, its old words are believed to be there still.
    OldWordsBelieved,
    /// The writer does not wait for readers before it stores.
    NotAlone,
    /// An aborted transaction's words stay in the window.
    AbortedWordsStay,
    /// A session that reads does not close the window that another one has left open.
    WindowOverlooked,
    /// A window's fresh memory is not made durable with it.
    WindowsFreshForgotten,
    /// A page's sum in a window stays there when the page's words are again what they were before it.
    SumKept,
    /// A commit does not check whether what it has read has been changed.
    UncheckedReads,
    /// A transaction that moves its moment on does not check it.
    MovedUnchecked,
    /// A commit takes its stamp before it has its locks.
    StampBeforeLocks,
    /// A commit stores in place and releases its locks before it is durable.
    UnlockedBeforeDurable,
    /// A commit does not keep the words that it overwrites for snapshots.
    NothingKept,
    /// A reader that a writer has moved takes a word that it has loaded for one of its state.
    MoveOverlooked,
    /// A reader is moved without the words that had joined.
    MovedWithoutJoined,
    /// A checkpoint does not wait for commits in progress.
    CommitsOverlooked,
    /// A commit on a block device takes its number before its turn.
    NumberedOutOfTurn,
    /// A checkpoint on a block device captures words in place before their records are durable.
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
