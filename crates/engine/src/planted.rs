//! Bugs on demand, for tests of the crash tester and of native stress: places in the engines where a step can be left
//! out that no wrapper around an engine reaches.
//!
//! Without the feature `planted`, which only those tests turn on, [`has`] is constantly `false`, and nothing of this is
//! in the program. With it, a bug exists for the thread that asked for it (`with`), or for the whole process
//! ([`plant`]: `perdura-lab crash --planted NAME`, `perdura-lab stress --planted NAME`). The bugs of the lock, which is in the
//! crate `memory`, are named here too.

use perdura_memory::planted as lock;

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident $(= $lock:ident)?,)*) => {
        /// A bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($(#[$doc])* $name,)*
        }

        impl Bug {
            /// All of them.
            pub const ALL: [Bug; [$(stringify!($name)),*].len()] = [$(Bug::$name),*];

            /// The bug of the lock that it is, if it is one.
            #[cfg_attr(not(feature = "planted"), allow(dead_code))]
            const fn of_lock(self) -> Option<lock::Bug> {
                match self {
                    $(Bug::$name => bugs!(lock $($lock)?),)*
                }
            }
        }
    };
    (lock) => { None };
    (lock $lock:ident) => { Some(lock::Bug::$lock) };
}

bugs! {
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
    /// A word is stored in place before the fence of its entry, where each store is logged by itself.
    StoredBeforeEntry,
    /// Recovery takes the entries that committed transactions have left behind for some of the one that it undoes.
    RemnantsTakenBack,
    /// A section does not record the sections that it follows.
    FollowedUnrecorded,
    /// A section enters the cut before the sections that it follows.
    FollowedOverlooked,
    /// The records of sections outside the cut are given up.
    LogDroppedEarly,
    /// A section's data is not written back before its last record.
    SectionDataForgotten,
    /// Recovery puts the old values of sections back in the order of the stores.
    UndoneInOrder,
    /// A commit does not check whether what it has read has been changed.
    UncheckedReads,
    /// A transaction that moves its moment on does not check it.
    MovedUnchecked,
    /// A commit takes its stamp before it has its locks.
    StampBeforeLocks,
    /// A commit stores in place and releases its locks before it is durable.
    UnlockedBeforeDurable,
    /// Recovery of concurrent transactions' undo logs does not look behind a record that has become void.
    BehindVoidUnread,
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
    /// A commit on a block device unlocks its words before transactions that see them get its ticket.
    UnlockedBeforeCommitted,
    /// Fresh memory is stored in place while copies of pages may be given back.
    FreshUnannounced,
    /// Lost lines are restored from columns' sums only.
    OnlyColumns,
    /// The space of freed memory goes back to the file system while the log still refers to it.
    ReleasedInLimbo,
    /// Memory that a running transaction can still reach is reclaimed, under software transactional memory.
    HorizonIgnoresRunning,
    /// Memory that is still in a snapshot is reclaimed.
    ReclaimedUnderSnapshots,
    /// Memory that a group's transactions have allocated counts as out of reach of the readers that saw them join.
    JoinedUnpinned,
    /// Memory of which nobody knows when it was allocated counts as out of reach of all running transactions.
    UnknownBirthsLate,
    /// Memory counts as allocated after a transaction's moment that the transaction has moved on to since.
    MovedUnpinned,
    /// A transaction begins a snapshot without announcing that what is allocated from now on will be in its reach.
    SnapshotUnannounced,
    /// Notes of which words all snapshots find stay when one begins.
    NotesStay,
    /// When a snapshot ends, the old words that others need are forgotten.
    VersionsForgotten,
    /// A commit changes its pages' sums without locking them.
    SumsUnlocked,
    /// A commit locks the record of the first line that it stores to, and of no other.
    FirstLineLocked,
    /// A record is locked by a load and a store.
    LockedInTwoSteps,
    /// A body in hardware does not look at the ownership records of what it reads.
    RecordUnread,
    /// The clock is moved on by a load and a store.
    TickedInTwoSteps,
    /// Two writers may enter at the same time.
    TwoWriters = TwoWriters,
    /// The lock's bias is revoked without waiting for the session that has it.
    BiasNotAwaited = BiasNotAwaited,
    /// A writer that is to be alone does not wait for the reader in the first slot.
    SlotSkipped = SlotSkipped,
    /// A writer that is to be alone overlooks a reader if it is the only one.
    OneReaderOverlooked = OneReaderOverlooked,
    /// A hardware transaction does not read the lock of the fallback path.
    LockUnread = LockUnread,
    /// A hardware transaction reads the lock of the fallback path before it commits, not when it begins.
    LockReadLate = LockReadLate,
    /// The bias of software transactional memory changes without waiting for commits.
    LaneBiasNotAwaited,
    /// A session is alone, under software transactional memory, without waiting for commits.
    AloneAmongCommits,
    /// A snapshot begins without waiting for commits that keep nothing for it.
    SnapshotAmongCommits,
    /// A commit writes its record before it checks whether what it has read has been changed.
    LoggedBeforeChecked,
    /// Recovery takes a record for whole whose check is wrong.
    TornRecordTaken,
    /// Recovery takes a transaction for whole of which a part is missing.
    PartsMissing,
    /// Recovery goes on behind a gap in the log.
    GapOverlooked,
    /// A record has the words of the transaction's last line as they were before it.
    OldWordsLogged,
    /// A record has, for each line, the word after the last one that was stored, as 0.
    WordTooMuchLogged,
    /// Fresh memory that a record makes reachable is not written back.
    FreshForgotten,
    /// Fresh memory is written back, and not fenced before the record is stored.
    FreshUnfenced,
    /// Only the first piece of fresh memory is written back.
    LaterFreshForgotten,
    /// Only the first 32 KiB of a piece of fresh memory are written back.
    FreshCutShort,
    /// The first piece of fresh memory is not written back.
    FirstFreshForgotten,
    /// A session that keeps no log segment hands it over before its record is fenced.
    HandedOverUnfenced,
    /// The next session to take a segment that was handed over begins at its start.
    HandedOverFromStart,
    /// A checkpoint frees segments that were handed over although they have later records.
    HandedOverFreed,
}

perdura_memory::planted_switch!(Bug);

/// Runs `body` with the bug in this thread's engines.
#[cfg(feature = "planted")]
pub fn with<R>(bug: Bug, body: impl FnOnce() -> R) -> R {
    match bug.of_lock() {
        Some(bug) => lock::with(bug, body),
        None => with_own(bug, body),
    }
}

/// Plants the bug of this name in all threads of the process, for good.
///
/// # Errors
/// Which names there are; or that this build has no bugs.
pub fn plant(name: &str) -> Result<(), String> {
    if cfg!(not(feature = "planted")) {
        return Err(
            "this build has no bugs to plant: build it with `--features planted`".to_owned()
        );
    }
    let Some(bug) = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name) else {
        return Err(format!("there is no bug '{name}'; these are: {:?}", Bug::ALL));
    };
    #[cfg(feature = "planted")]
    match bug.of_lock() {
        Some(bug) => lock::everywhere(bug),
        None => everywhere_own(bug),
    }
    let _ = bug;
    Ok(())
}
