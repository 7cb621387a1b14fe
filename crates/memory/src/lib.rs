//! The ground floor: the persistency model as a trait, and the memories that keep it.
//!
//! Memory has two images. The *visible* image is what loads return; the *durable* image is what is left after a power
//! cut. [`Memory`] is the contract between them (docs/persistency-model.md states it with litmus tests); everything
//! above this crate is written against that contract, never against an instruction.
//!
//! Reading order: [`domain`], [`memory`], then one implementation at a time: [`ram`] (the smallest), [`image`] (the
//! model as data), [`mod@reference`] (the model made executable, with power cuts), [`mapped`] (files). [`conformance`]
//! is what every implementation runs; [`any`] stands for each of them in code that is compiled once. Independent of
//! these: [`lock`] (one writer or many readers, with access to the guarded data as a value; [`atomics`]), [`own`]
//! (memory outside the pool, declared to simulators), [`elision`] (a lock that hardware elides), [`speculation`] (the processor's transactions, and an imitation), [`gather`] (when a sync
//! should begin) and [`keyed`] (the sums of checksums).

pub mod any;
pub mod atomics;
pub mod conformance;
pub mod copy;
pub mod domain;
pub mod elision;
mod forward;
pub mod gather;
pub mod image;
pub mod keyed;
pub mod lines;
pub mod lock;
pub mod mapped;
pub mod memory;
pub mod noting;
pub mod own;
pub mod pages;
#[doc(hidden)]
pub mod planted;
pub mod ram;
pub mod random;
pub mod reference;
pub mod site;
pub mod speculation;
pub mod transactions;
pub mod unflushed;

pub use any::AnyMemory;
pub use domain::{Domain, Survives};
pub use gather::Gather;
pub use image::Image;
pub use lines::{DirtyLines, LINE, LineMarker, PAGE, WORD, line_of, lines_in};
pub use mapped::{Backing, LockedFile, MapError, MapOptions, Mapped};
pub use memory::{Memory, WordStore};
pub use noting::Noting;
pub use own::{Object, OwnWords, Touch, Traced};
pub use pages::{PageSet, SPARE_PAGES};
pub use ram::Ram;
pub use reference::Reference;
pub use transactions::{HardwareAbort, HardwareTicket, Speculation};
pub use unflushed::Unflushed;
