//! The allocator: pages of slots, runs of pages, and what of both is free.
//!
//! What is durable is small: a word a page in the *page table*, and a bitmap in the header block
//! of each page of slots. Both are written inside the transaction that allocates or frees, so
//! that they are as crash-consistent as everything else; what is free is derived from them when
//! the pool is opened, and kept in ordinary memory.
//!
//! Reading order: [`layout`], [`space`] (what is free, shared), [`local`] (one session's part).

pub mod layout;
pub mod local;
pub mod space;

pub use layout::{Class, Layout};
pub use local::Local;
pub use space::Space;
