//! Rights about stores in place: [`InPlace`] to make one, [`Still`] to rely on there being none.
//!
//! A memory that gives copies of pages back compares each with the file and then drops it: a store in between would be
//! lost. So what always holds: whoever stores in place in a running engine has a right that excludes [`Still`]; or runs
//! an exclusive part of a checkpoint, as giving back does itself.
//!
//! With a lock there is one writer, with one [`Writing`]: both rights are that value. Under software transactional
//! memory sessions store at the same time: each has a right of its own, and the thread that needs stillness waits for
//! all of them ([`Lanes`](super::stm)).

use perdura_memory::lock::Writing;

/// The right to store in place: while it exists, nobody has [`Still`].
pub(crate) trait InPlace {}

/// Nobody else stores in place while this exists, and its owner gives it away.
pub(crate) trait Still {}

impl<S, W> InPlace for Writing<'_, S, W> {}
impl<S, W> Still for Writing<'_, S, W> {}
