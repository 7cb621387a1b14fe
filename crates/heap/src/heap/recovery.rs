//! Recovery and inspection of a pool's log, by the engine that its header names.

use crate::error::OpenError;
use crate::superblock::{State, Superblock};
use perdura_engine::{Engine, EngineKind, OnEngine, Recovery, Result, area};
use perdura_memory::Memory;
use std::ops::Range;

/// Runs the recovery of the engine that wrote the pool: that of `E` if it has the engine's name, so that an engine
/// that wraps another one may recover in its own way. It also runs if the header says that the pool was closed: the
/// log should be empty then, which costs a fence; if it is not, a wrong header loses nothing.
pub(super) fn recover<M: Memory + 'static, E: Engine<M>>(
    memory: &M,
    superblock: &Superblock,
    force: bool,
) -> Result<Recovery, OpenError> {
    if superblock.state == State::Formatting {
        // There is no log yet.
        return before_formatting(memory, superblock);
    }
    let log: Range<u64> = superblock.log.clone();
    if superblock.engine == E::NAME && E::CRASH_CONSISTENT {
        return Ok(E::recover(memory, log)?);
    }
    let kind = kind_of(superblock)?;
    if kind.is_crash_consistent() || force || superblock.state == State::Closed {
        Ok(kind.run(Recover { memory, log })?)
    } else {
        Err(OpenError::NotConsistent { path: None, engine: superblock.engine.clone() })
    }
}

/// The engine that a pool's header names.
fn kind_of(superblock: &Superblock) -> Result<EngineKind, OpenError> {
    superblock.engine.parse().map_err(|_| OpenError::unknown_engine(&superblock.engine))
}

/// Runs an engine's recovery.
struct Recover<'a, M> {
    memory: &'a M,
    log: Range<u64>,
}

impl<M: Memory> OnEngine<M> for Recover<'_, M> {
    type Output = Result<Recovery>;

    fn run<E: Engine<M>>(self) -> Self::Output {
        E::recover(self.memory, self.log)
    }
}

/// Runs an engine's inspection of a log.
struct Inspect<'a, M>(Recover<'a, M>);

impl<M: Memory> OnEngine<M> for Inspect<'_, M> {
    type Output = Result<Recovery>;

    fn run<E: Engine<M>>(self) -> Self::Output {
        E::inspect(self.0.memory, self.0.log)
    }
}

/// Inspects a log that is about to be formatted. If it was formatted already, for the engine that is to have it, it
/// must not contain records in use: with the formatting they would be lost.
fn before_formatting<M: Memory + 'static>(
    memory: &M,
    superblock: &Superblock,
) -> Result<Recovery, OpenError> {
    if area::is_formatted(memory, superblock.log.start) {
        let read = Superblock { state: State::Open, ..superblock.clone() };
        let found = inspect(memory, &read).unwrap_or_default();
        if found.replayed + found.rolled_back > 0 {
            let what = "log that is not empty, of a pool whose log is to be formatted: its header is an old one";
            return Err(OpenError::Damaged { path: None, what, at: superblock.log.start });
        }
    }
    Ok(Recovery::default())
}

/// Looks at the log of the engine that wrote the pool, without writing.
///
/// # Errors
/// When the log is damaged or the engine unknown.
pub fn inspect<M: Memory + 'static>(
    memory: &M,
    superblock: &Superblock,
) -> Result<Recovery, OpenError> {
    if superblock.state == State::Formatting {
        return Ok(Recovery::default());
    }
    let inspect = Inspect(Recover { memory, log: superblock.log.clone() });
    Ok(kind_of(superblock)?.run(inspect)?)
}
