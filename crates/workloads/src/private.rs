//! Private buffers: memory of a program's thread alone, outside of the heap, large enough to matter for the caches.
//!
//! Natively a buffer is ordinary memory. A simulated machine sees accesses only: a workload reports those of its private
//! buffers, and the machine has lines for them, which take time, compete for its caches and are in the read and write
//! sets of its hardware transactions. Nothing of a buffer is logged or durable, nor put back when a transaction is
//! rolled back: a body that runs again must not rely on what it has left there.

use std::fmt;

/// How a buffer is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PrivateAccess {
    /// A load that only a branch depends on.
    Read,
    /// A load whose value the next instructions use, such as an index.
    Value,
    /// A store.
    Write,
}

/// Where the accesses to one buffer are reported.
#[derive(Default)]
pub struct PrivateBuffer(Option<Box<AccessFn>>);

type AccessFn = dyn Fn(u64, u64, PrivateAccess) + Send + Sync;

impl PrivateBuffer {
    /// Calls `access` with the offset, the bytes and the kind of each access.
    pub fn accessed_by(access: impl Fn(u64, u64, PrivateAccess) + Send + Sync + 'static) -> Self {
        PrivateBuffer(Some(Box::new(access)))
    }

    #[inline(always)]
    fn report(&self, at: u64, len: u64, access: PrivateAccess) {
        if let Some(report) = &self.0 {
            report(at, len, access);
        }
    }

    /// `[at, at + len)` is loaded, as [`PrivateAccess::Read`] says.
    #[inline(always)]
    pub fn read(&self, at: u64, len: u64) {
        self.report(at, len, PrivateAccess::Read);
    }

    /// `[at, at + len)` is loaded, as [`PrivateAccess::Value`] says.
    #[inline(always)]
    pub fn value(&self, at: u64, len: u64) {
        self.report(at, len, PrivateAccess::Value);
    }

    /// `[at, at + len)` is stored to.
    #[inline(always)]
    pub fn wrote(&self, at: u64, len: u64) {
        self.report(at, len, PrivateAccess::Write);
    }
}

impl fmt::Debug for PrivateBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "reported" } else { "not reported" })
    }
}
