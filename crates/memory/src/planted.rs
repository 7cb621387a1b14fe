//! Bugs on demand, for tests of the crash tester and of native stress: places where a step can be left out that no
//! wrapper reaches. Here are those of this crate, and [`planted_switch!`](crate::planted_switch), which the engines'
//! list uses too.
//!
//! Without the feature `planted`, which only such tests turn on, `has` is constantly `false`, and nothing of this is in
//! the program. With it, a bug exists for the thread that asked for it, or for the whole process.

/// A bug of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A writer that revokes the lock's bias does not wait for the session that has entered by it.
    BiasNotAwaited,
    /// A writer that is to be alone does not wait for the reader in the first slot.
    SlotSkipped,
    /// A writer that is to be alone believes that the one session that has ever read is its own.
    OneReaderOverlooked,
    /// Two writers may enter at the same time: the flag is loaded and then stored.
    TwoWriters,
    /// A speculation does not read the lock that it elides.
    LockUnread,
    /// A speculation reads the lock that it elides before it commits, not when it begins.
    LockReadLate,
}

/// Makes a module's `has`, `with` and `everywhere` for its `Bug`, under its crate's feature `planted`.
#[doc(hidden)]
#[macro_export]
macro_rules! planted_switch {
    ($bug:ty) => {
        #[cfg(feature = "planted")]
        std::thread_local! {
            static BUG: std::cell::Cell<Option<$bug>> = const { std::cell::Cell::new(None) };
        }
        #[cfg(feature = "planted")]
        static EVERYWHERE: std::sync::OnceLock<$bug> = std::sync::OnceLock::new();

        /// Whether this thread, or the process, has the bug.
        #[cfg(feature = "planted")]
        #[inline]
        pub fn has(bug: $bug) -> bool {
            BUG.get() == Some(bug) || EVERYWHERE.get() == Some(&bug)
        }

        /// Whether this thread has the bug: never.
        #[cfg(not(feature = "planted"))]
        #[inline(always)]
        pub const fn has(_: $bug) -> bool {
            false
        }

        /// Runs `body` with the bug in this thread's engines.
        #[cfg(feature = "planted")]
        fn with_own<R>(bug: $bug, body: impl FnOnce() -> R) -> R {
            struct Before(Option<$bug>);
            impl Drop for Before {
                fn drop(&mut self) {
                    BUG.set(self.0);
                }
            }
            let _before = Before(BUG.replace(Some(bug)));
            body()
        }

        /// Plants the bug in all threads of the process, for good.
        #[cfg(feature = "planted")]
        fn everywhere_own(bug: $bug) {
            let _ = EVERYWHERE.set(bug);
        }
    };
}
planted_switch!(Bug);

/// Runs `body` with the bug in this thread's engines.
#[cfg(feature = "planted")]
pub fn with<R>(bug: Bug, body: impl FnOnce() -> R) -> R {
    with_own(bug, body)
}

/// Plants the bug in all threads of the process, for good.
#[cfg(feature = "planted")]
pub fn everywhere(bug: Bug) {
    everywhere_own(bug);
}
