//! Hardware for speculations natively: the processor's own, and an imitation of it in software.
//!
//! | | found | a loss |
//! |---|---|---|
//! | `rtm` | on processors of Intel with restricted transactional memory that has not been switched off | comes at any instruction: all registers and all memory are as they were when the speculation began, and [`Memory::speculate`](crate::Memory::speculate) returns a second time, with the cause |
//! | [`Emulated`] | everywhere; asked for by name, in tests and for figures that say so | is told by [`Memory::lost`](crate::Memory::lost) after the access, as on a simulated machine |
//!
//! A program is written for both: it asks after each access, and whatever it has done in a speculation may not have
//! happened when `speculate` returns an error.

mod emulated;
pub(crate) mod rtm;

pub use emulated::{Emulated, Emulation};

/// Whether this processor's own transactions work: pools in files have them then.
pub fn works() -> bool {
    static WORKS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *WORKS.get_or_init(rtm::works)
}
