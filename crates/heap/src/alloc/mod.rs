//! The allocator: pages of slots, runs of pages, and the free space of both.
//!
//! Little is durable: an entry for each page in the *page table*, with a bitmap for a page of slots. It is written
//! inside the transaction that allocates or frees, so that it is as crash-consistent as all other data. The free space
//! is derived from it when the pool is opened, and kept in ordinary memory.
//!
//! Reading order: [`layout`], [`space`] (free memory, shared), `release` (free pages without space in the file),
//! `sparse` and `window` (pages to be emptied), [`births`] (when memory was allocated), [`stock`] and [`local`] (one
//! session's part), [`walk`] and [`extent`] (checking).

pub mod births;
pub mod extent;
pub mod layout;
pub mod local;
mod release;
mod runs;
pub mod space;
mod sparse;
pub mod stock;
pub mod walk;
mod window;

pub use layout::{Class, Layout};
pub use local::Local;
pub use space::Space;
