//! Room in the log for the records of sections (docs/atlas.md).
//!
//! The log is emptied up to the first section that is outside the cut, so that one which runs for long lets it fill up
//! behind itself. The last quarter is for the first section that has records and runs: it can always go on, and when it is
//! over, the next one is the first. The others wait for it.
//!
//! It may itself wait for a lock, whose holder waits for room: then that one may use the last quarter too. And it may wait
//! for something that nobody here knows of, so that the others wait for a second or two at most.

use super::atlas::make_room;
use super::core::Core;
use super::writer::Writer;
use crate::error::Boxed;
use crate::sections::running::Running;
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

#[cold]
fn take_segment<M: Memory>(
    core: &Core<M>,
    writer: &mut Writer,
    running: &mut Running,
    bytes: u64,
) -> Boxed<()> {
    let reserved = (core.geometry.segments / 4) as usize;
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
    let logged = u64::from(running.parts) * LINE;
    Err(Box::new(writer.too_large(core, writer.available(core).max(logged) + bytes)))
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
