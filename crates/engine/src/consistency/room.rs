//! Room in the log for the records of sections (docs/atlas.md).
//!
//! The log is emptied up to the first section that is outside the cut, so that one which runs for long lets it fill up
//! behind itself. The last quarter is for the first section that has records and runs: it can always go on, and when it is
//! over, the next one is the first. The others wait for it.
//!
//! It may itself wait for a lock, whose holder waits for room: then that one may use the last quarter too; and no section
//! takes its first lock meanwhile, as the next holder would be another such one. And the first one may wait for something
//! that nobody here knows of, so that the others wait for a second or two at most.

use super::core::Core;
use super::writer::Writer;
use crate::error::Boxed;
use crate::sections::running::Running;
use crate::{Counters, Error, Result};
use perdura_memory::{LINE, Memory};

/// Turns of the waiting loop between two looks whether there is room.
const LOOK_EVERY: u32 = 32;
/// Turns after which a section fails: natively a second or two.
const PATIENCE: u32 = 20_000;

/// Makes sure that a record of `bytes` bytes fits, and behind it the section's last one, of `last` bytes.
///
/// # Errors
/// `TooLarge` when there is no room in the log, and waiting for it is of no use.
#[inline]
pub(crate) fn take_room<M: Memory>(
    core: &Core<M>,
    writer: &mut Writer,
    running: &mut Running,
    bytes: u64,
    last: u64,
) -> Boxed<()> {
    if running.log.has_room(bytes, last) {
        return Ok(());
    }
    take_segment(core, writer, running, bytes + last)
}

/// Advances the cut; returns whether it has moved.
pub(super) fn advance<M: Memory>(core: &Core<M>, counters: &mut Counters) -> Result<bool> {
    let advanced = core.sections().cut.advance(&*core.memory, counters)?;
    if let Some(advanced) = &advanced {
        core.raise_durable(advanced.ticket);
    }
    Ok(advanced.is_some())
}

/// Advances the cut, and makes the records of sections in it dead.
pub(super) fn make_room<M: Memory>(core: &Core<M>, counters: &mut Counters) -> Result<()> {
    advance(core, counters)?;
    core.alone(|| {
        let bound = core.sections().cut.bound(&*core.memory);
        core.move_checkpoint(bound, counters)
    })
}

/// Waits before a section's first lock, while the log has room for the first one alone.
///
/// # Errors
/// `TooLarge` when that lasts.
#[inline]
pub(crate) fn wait_for_room<M: Memory>(core: &Core<M>, writer: &mut Writer) -> Boxed<()> {
    let segments = core.geometry.segments as usize;
    // As long as no more are full, free ones are left, or open ones.
    if core.segments.full() < segments - reserved(core) { Ok(()) } else { wait(core, writer) }
}

#[cold]
fn wait<M: Memory>(core: &Core<M>, writer: &mut Writer) -> Boxed<()> {
    for turn in 0..PATIENCE {
        if turn % LOOK_EVERY == 0 {
            make_room(core, &mut writer.counters)?;
            let nobody_runs = || core.sections().cut.first_running(&*core.memory).is_none();
            if core.segments.free() > reserved(core) || nobody_runs() {
                return Ok(());
            }
        }
        core.memory.pause(turn);
    }
    Err(Box::new(no_room(core, writer, LINE)))
}

/// The segments that are left for the first section.
fn reserved<M: Memory>(core: &Core<M>) -> usize {
    (core.geometry.segments / 4) as usize
}

fn no_room<M: Memory>(core: &Core<M>, writer: &mut Writer, bytes: u64) -> Error {
    writer.too_large(core, writer.available(core) + bytes)
}

#[cold]
fn take_segment<M: Memory>(
    core: &Core<M>,
    writer: &mut Writer,
    running: &mut Running,
    bytes: u64,
) -> Boxed<()> {
    let reserved = reserved(core);
    for turn in 0..PATIENCE {
        if turn % LOOK_EVERY == 0 {
            if try_take(core, running, bytes, reserved) {
                return Ok(());
            }
            make_room(core, &mut writer.counters)?;
            if try_take(core, running, bytes, reserved) {
                return Ok(());
            }
            if is_first(core, running) {
                if try_take(core, running, bytes, 0) {
                    return Ok(());
                }
                break;
            }
        }
        core.memory.pause(turn);
    }
    Err(Box::new(no_room(core, writer, bytes)))
}

/// Takes a segment with room for `bytes` bytes, if there are more than `reserved`.
fn try_take<M: Memory>(core: &Core<M>, running: &mut Running, bytes: u64, reserved: usize) -> bool {
    core.touch_segments();
    running.log.take_segment(&core.segments, bytes, reserved, core.checkpointed())
}

/// Whether the section is the first that runs, or that one waits for it.
fn is_first<M: Memory>(core: &Core<M>, running: &Running) -> bool {
    let sections = core.sections();
    match sections.cut.first_running(&*core.memory) {
        Some((number, _)) if number == running.number => true,
        Some((_, session)) => sections.locks.waits_for(session, running.session),
        None => true,
    }
}
