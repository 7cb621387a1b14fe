//! A transaction on a pool, as its body sees it.
//!
//! The engine of a pool is known only when it is opened, and a virtual call for each word would cost more than the word.
//! So the engines that most pools have are named here: a word costs a test, and is then read or written in place. The
//! others, whose transactions cost more anyway, are called.

use crate::heap::{Boxed, HeapTx};
use crate::tx::{Extent, Fresh, Locked, Moment, Purpose, Root, Savepoint, Tx};
use perdura_engine::{Access, CcStmEngine, Engine, Mode, RedoEngine, Result};
use perdura_memory::Mapped;
use std::hint::cold_path;
use std::ops::{Deref, DerefMut};

/// A transaction on a pool, as its body sees it: a [`Tx`], whose operations are here too, so that no trait has to be
/// imported for them.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let pool = perdura::Options::new().size(8 << 20).create(folder.path().join("a.pool"))?;
/// use perdura::{PoolTx, Purpose, Result, Tx};
///
/// /// Works in transactions of pools alone, and is fastest.
/// fn add(tx: &mut PoolTx<'_>, at: u64, more: u64) -> Result<()> {
///     let old = tx.read_word(at)?;
///     tx.write_word(at, old + more)
/// }
///
/// /// Works in every transaction.
/// fn word(tx: &mut dyn Tx, value: u64) -> Result<u64> {
///     let new = tx.allocate(Purpose::General, 8)?.at();
///     tx.write_word(new, value)?;
///     Ok(new)
/// }
///
/// let mut session = pool.session()?;
/// let at = session.transaction(|tx| word(tx, 1))?;
/// session.transaction(|tx| add(tx, at, 2))?;
/// assert_eq!(session.read(|tx| tx.read_word(at))?, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PoolTx<'t>(Way<'t>);

type SessionOf<E> = <E as Engine<Mapped>>::Session;

/// How the transaction's engine is reached.
pub(super) enum Way<'t> {
    Redo(HeapTx<'t, SessionOf<RedoEngine<Mapped>>>),
    Else(OtherWay<'t>),
}

/// The same for other engines than the first, which is the default.
pub(super) enum OtherWay<'t> {
    CcStm(HeapTx<'t, SessionOf<CcStmEngine<Mapped>>>),
    Any(AnyTx<'t>),
}

impl<'t> PoolTx<'t> {
    #[inline(always)]
    pub(super) fn new(way: Way<'t>) -> Self {
        PoolTx(way)
    }

    /// The transaction, for a part of its body.
    #[inline]
    fn again(&mut self) -> PoolTx<'_> {
        PoolTx(match &mut self.0 {
            Way::Redo(tx) => Way::Redo(tx.again()),
            Way::Else(OtherWay::CcStm(tx)) => Way::Else(OtherWay::CcStm(tx.again())),
            Way::Else(OtherWay::Any(tx)) => Way::Else(OtherWay::Any(AnyTx(&mut *tx.0))),
        })
    }
}

/// Runs code on the transaction's engine.
macro_rules! on_engine {
    ($way:expr, $tx:ident => $code:expr) => {
        match $way {
            Way::Redo($tx) => $code,
            Way::Else(way) => {
                cold_path();
                match way {
                    OtherWay::CcStm($tx) => $code,
                    OtherWay::Any($tx) => $code,
                }
            }
        }
    };
}

/// A transaction of another engine. Words are read and written out of line, with an error that fits into a register: a
/// result would otherwise be in memory for all engines.
pub(super) struct AnyTx<'t>(pub(super) &'t mut (dyn Tx + 't));

impl AnyTx<'_> {
    #[inline(always)]
    fn read_word(&mut self, at: u64) -> Result<u64> {
        Ok(read_boxed(self.0, at)?)
    }

    #[inline(always)]
    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        Ok(write_boxed(self.0, at, value)?)
    }
}

#[inline(never)]
fn read_boxed(tx: &mut dyn Tx, at: u64) -> Boxed<u64> {
    Ok(tx.read_word(at)?)
}

#[inline(never)]
fn write_boxed(tx: &mut dyn Tx, at: u64, value: u64) -> Boxed<()> {
    Ok(tx.write_word(at, value)?)
}

impl<'t> Deref for AnyTx<'t> {
    type Target = dyn Tx + 't;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl DerefMut for AnyTx<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0
    }
}

/// Makes the methods of a trait, as `PoolTx`'s own and as the trait's: those that change the transaction, then others.
macro_rules! operations {
    ($of:ident $({ $($more:item)* })?
        $(mut $(#[$how:meta])* $name:ident($($given:ident: $type:ty),*) $(-> $result:ty)?;)*
        $(ref $(#[$ref_how:meta])* $look:ident() -> $looked:ty;)*
    ) => {
        impl PoolTx<'_> {
            $(
                #[doc = concat!("As [`", stringify!($of), "::", stringify!($name), "`].")]
                $(#[$how])*
                pub fn $name(&mut self, $($given: $type),*) $(-> $result)? {
                    on_engine!(&mut self.0, tx => tx.$name($($given),*))
                }
            )*
            $(
                #[doc = concat!("As [`", stringify!($of), "::", stringify!($look), "`].")]
                $(#[$ref_how])*
                pub fn $look(&self) -> $looked {
                    on_engine!(&self.0, tx => tx.$look())
                }
            )*
        }

        impl $of for PoolTx<'_> {
            $(
                $(#[$how])*
                fn $name(&mut self, $($given: $type),*) $(-> $result)? {
                    PoolTx::$name(self, $($given),*)
                }
            )*
            $(
                $(#[$ref_how])*
                fn $look(&self) -> $looked {
                    PoolTx::$look(self)
                }
            )*
            $($($more)*)?
        }
    };
}

operations! { Access
    mut #[inline(always)] read_word(at: u64) -> Result<u64>;
    mut #[inline(always)] read_words(at: u64, to: &mut [u64]) -> Result<()>;
    mut #[inline(always)] write_word(at: u64, value: u64) -> Result<()>;
    mut #[inline] read_bytes(at: u64, to: &mut [u8]) -> Result<()>;
    mut #[inline] peek_bytes(at: u64, to: &mut [u8]) -> Result<()>;
    mut #[inline] write_bytes(at: u64, from: &[u8]) -> Result<()>;
    mut #[inline(always)] prefetch(at: u64);
    ref #[inline] mode() -> Mode;
    ref #[inline] lane() -> u32;
}

operations! { Tx {
        fn on_pool(&mut self) -> Option<PoolTx<'_>> {
            Some(self.again())
        }
    }
    mut allocate(purpose: Purpose, len: u64) -> Result<Fresh>;
    mut write_fresh(fresh: Fresh, from: u64, bytes: &[u8]) -> Result<()>;
    mut allocate_now(purpose: Purpose, len: u64) -> Result<Option<Fresh>>;
    mut allocate_some(purpose: Purpose, len: u64) -> Result<Fresh>;
    mut is_sparse(at: u64) -> bool;
    mut free(at: u64) -> Result<()>;
    mut usable(at: u64) -> Result<u64>;
    mut extent(at: u64) -> Result<Option<Extent>>;
    mut undo_to(savepoint: Savepoint) -> Result<()>;
    mut point() -> Savepoint;
    mut root(name: &str) -> Result<Option<Root>>;
    mut set_root(name: &str, root: Root) -> Result<()>;
    mut lock(id: u64) -> Result<Locked>;
    mut unlock(lock: Locked) -> Result<()>;
    ref moment() -> Moment;
}
