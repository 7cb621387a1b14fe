//! A program's own memory: locks, counters, tables and buffers outside the pool.
//!
//! Natively it is ordinary memory, and nothing here does anything. A simulator sees only accesses through a [`Memory`];
//! any other memory of the program would cost no time there. So programs *touch* it: they name an [`Object`], say which
//! of its bytes, and how ([`Touch`]). A touch transfers no data and is no event of durability; it takes time, and its
//! lines compete for the caches and pass from core to core as the pool's do.
//!
//! What always holds, so that a simulator may put a waiting program to sleep until a line is written that the program
//! has read since it last waited:
//! - [`Touch::Read`] and [`Touch::Value`] come before the load that they stand for, [`Touch::Write`] after the store;
//! - each turn of a waiting loop reads the words that it waits for, and then calls [`pause`](crate::Memory::pause).

mod words;

pub use words::OwnWords;

use crate::{Memory, Speculation, WORD};

/// A handle for a piece of a program's own memory; where touching costs nothing, all handles are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Object(u32);

impl Object {
    /// No object: touching it costs nothing in any memory.
    pub const NONE: Object = Object(0);

    /// The object with this number, counted from 1, of the memory that gives it out.
    #[inline]
    pub const fn numbered(number: u32) -> Self {
        Object(number)
    }

    /// Its number; 0 for none.
    #[inline]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// How own memory is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Touch {
    /// A load that the next instructions do not depend on: it decides a branch that is mostly predicted (is it there,
    /// is it free), or is copied. An out-of-order processor goes on meanwhile.
    Read,
    /// A load whose value the next instructions use, such as an address.
    Value,
    /// A store.
    Write,
    /// A locked instruction, which reads and stores once all stores before it are done.
    Exchange,
}

/// An object, together with the memory to report its accesses to, if that traces them: natively this is a constant, so
/// that passing it on loads nothing.
pub struct Traced<'m, M: ?Sized> {
    memory: Option<&'m M>,
    object: Object,
}

impl<M: ?Sized> Clone for Traced<'_, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: ?Sized> Copy for Traced<'_, M> {}

impl<'m, M: Memory + ?Sized> Traced<'m, M> {
    /// Wraps `object`, which `memory` has registered.
    #[inline(always)]
    pub fn new(memory: &'m M, object: Object) -> Self {
        match memory.traces_own() {
            true => Traced { memory: Some(memory), object },
            false => Traced { memory: None, object: Object::NONE },
        }
    }

    #[inline(always)]
    fn touch(&self, at: u64, len: u64, access: Touch) {
        if let Some(memory) = self.memory {
            memory.touch(self.object, at, len, access);
        }
    }

    /// `[at, at + len)` is about to be loaded, as [`Touch::Read`] says.
    #[inline(always)]
    pub fn read(&self, at: u64, len: u64) {
        self.touch(at, len, Touch::Read);
    }

    /// `[at, at + len)` is about to be loaded, as [`Touch::Value`] says.
    #[inline(always)]
    pub fn value(&self, at: u64, len: u64) {
        self.touch(at, len, Touch::Value);
    }

    /// `[at, at + len)` has been stored to.
    #[inline(always)]
    pub fn wrote(&self, at: u64, len: u64) {
        self.touch(at, len, Touch::Write);
    }

    /// A locked instruction is done to `[at, at + len)`.
    #[inline(always)]
    pub fn exchange(&self, at: u64, len: u64) {
        self.touch(at, len, Touch::Exchange);
    }
}

/// A locked instruction, `act`, on the word at `at` of an object. Where the memory has hardware for speculation it is one
/// step with its touch, so that no speculation which reads the word in [one step](read_as_one), too, misses it: see
/// [`OwnWords`].
#[inline(always)]
pub fn exchange<M: Memory + ?Sized, R>(
    memory: &M,
    object: Object,
    at: u64,
    act: impl FnOnce() -> R,
) -> R {
    if !memory.traces_own() {
        return act();
    }
    if memory.speculation() == Speculation::Absent {
        memory.touch(object, at, WORD, Touch::Exchange);
        return act();
    }
    as_one(memory, object, at, Touch::Exchange, act).unwrap_or_else(|act| act())
}

/// Loads, by `load`, the word at `at` of an object, in one step with its touch. `None` if the core's speculation is
/// lost.
#[inline(always)]
pub fn read_as_one<M: Memory + ?Sized, R>(
    memory: &M,
    object: Object,
    at: u64,
    load: impl FnOnce() -> R,
) -> Option<R> {
    if !memory.traces_own() {
        return Some(load());
    }
    as_one(memory, object, at, Touch::Read, load).ok()
}

/// Stores, by `store`, to the word at `at` of an object of words, in one step with its touch. It does not take place if
/// the core's speculation is lost.
#[inline(always)]
pub fn write_as_one<M: Memory + ?Sized>(memory: &M, object: Object, at: u64, store: impl FnOnce()) {
    if !memory.traces_own() {
        return store();
    }
    // Not done, if it is lost.
    let _ = as_one(memory, object, at, Touch::Write, store);
}

/// Does `act` in one step with its touch; or gives it back.
fn as_one<M: Memory + ?Sized, R, F: FnOnce() -> R>(
    memory: &M,
    object: Object,
    at: u64,
    access: Touch,
    act: F,
) -> Result<R, F> {
    let (mut act, mut result) = (Some(act), None);
    memory.touching(object, at, WORD, access, &mut || result = act.take().map(|act| act()));
    match (result, act) {
        (Some(result), _) => Ok(result),
        (None, Some(act)) => Err(act),
        (None, None) => unreachable!("what is taken is done"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Noting, Ram, Unflushed};
    use std::sync::{Arc, Mutex};

    /// The touches reported to a memory.
    #[derive(Default)]
    struct Touched(Mutex<Vec<(Object, u64, u64, Touch)>>);

    /// A memory that lists its touches.
    struct Listing(Ram, Arc<Touched>);

    // SAFETY: every access is the inner memory's, under the same conditions.
    unsafe impl Memory for Listing {
        fn domain(&self) -> crate::Domain {
            self.0.domain()
        }
        fn survives(&self) -> crate::Survives {
            self.0.survives()
        }
        fn len(&self) -> u64 {
            self.0.len()
        }
        unsafe fn load_unchecked(&self, at: u64) -> u64 {
            // SAFETY: the caller upholds the contract.
            unsafe { self.0.load_unchecked(at) }
        }
        unsafe fn store_unchecked(&self, at: u64, value: u64) {
            // SAFETY: the caller upholds the contract.
            unsafe { self.0.store_unchecked(at, value) }
        }
        unsafe fn copy_out_unchecked(&self, at: u64, to: &mut [u8]) {
            // SAFETY: the caller upholds the contract.
            unsafe { self.0.copy_out_unchecked(at, to) }
        }
        unsafe fn copy_in_unchecked(&self, at: u64, from: &[u8]) {
            // SAFETY: the caller upholds the contract.
            unsafe { self.0.copy_in_unchecked(at, from) }
        }
        unsafe fn stream_unchecked(&self, at: u64, from: &[u64]) {
            // SAFETY: the caller upholds the contract.
            unsafe { self.0.stream_unchecked(at, from) }
        }
        fn compare_exchange(&self, at: u64, old: u64, new: u64) -> Result<u64, u64> {
            self.0.compare_exchange(at, old, new)
        }
        fn write_back(&self, at: u64, len: u64) {
            self.0.write_back(at, len);
        }
        fn fence(&self) {
            self.0.fence();
        }
        fn object(&self, bytes: u64) -> Object {
            Object::numbered(bytes as u32)
        }
        fn traces_own(&self) -> bool {
            true
        }
        fn touch(&self, object: Object, at: u64, len: u64, access: Touch) {
            self.1.0.lock().expect("no panic").push((object, at, len, access));
        }
        fn pause(&self, turn: u32) {
            self.0.pause(turn);
        }
        fn now(&self) -> u64 {
            self.0.now()
        }
    }

    #[test]
    fn memories_around_a_memory_pass_touches_on() {
        fn touch<M: Memory>(memory: &M) {
            memory.touch(memory.object(77), 8, 16, Touch::Exchange);
            Traced::new(memory, memory.object(78)).value(0, 8);
        }
        let asked = Arc::new(Touched::default());
        let listing = || Listing(Ram::new(64), asked.clone());
        touch(&listing());
        touch(&Noting::new(listing()));
        touch(&Unflushed::new(Arc::new(listing())));
        let wanted = [
            (Object::numbered(77), 8, 16, Touch::Exchange),
            (Object::numbered(78), 0, 8, Touch::Value),
        ];
        assert_eq!(*asked.0.lock().expect("no panic"), wanted.repeat(3));
    }

    #[test]
    fn natively_all_objects_are_none() {
        let ram = Ram::new(64);
        assert_eq!(ram.object(1 << 40), Object::NONE);
        ram.touch(ram.object(8), u64::MAX, u64::MAX, Touch::Write);
        let traced = Traced::new(&ram, Object::numbered(7));
        assert!(traced.memory.is_none() && traced.object == Object::NONE);
        traced.exchange(u64::MAX, u64::MAX);
    }
}
