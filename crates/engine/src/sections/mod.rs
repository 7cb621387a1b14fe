//! Sections: stretches of a program between its first lock and its last unlock, each whole or absent after a power cut
//! (Atlas: Chakrabarti, Boehm, Bhandari, OOPSLA 2014).
//!
//! A section stores in place at once. Before the first store to a word its old value is durable in the log. A lock that
//! was last released by a section that is not durable yet makes the next section *follow* that one: recovery undoes a
//! section that is not complete, and every complete one that follows an undone one.
//!
//! What always holds:
//! - No word is stored in place before the record with its old value, and all earlier records of the section, are durable.
//! - A section's last record is stored only when its data is durable; a section counts as complete by that record alone.
//! - What a section follows is in its records no later than in its last one: sections that released locks it has taken,
//!   and its session's section before it. Those in the cut are left out.
//! - The cut has a section only if its last record is durable, and the cut has every section that it follows. So recovery
//!   never undoes a section of the cut; only these are acknowledged, and only their records are given up.
//! - Clocks (Lamport's) order the records of sections that follow one another, so that recovery puts old values back in
//!   the reverse order of the stores.
//!
//! Reading order: `log` (a session's records), `locks`, `cut`, `gate`, `running` (a session's section), `recover`.

pub(crate) mod cut;
pub(crate) mod gate;
pub(crate) mod locks;
pub(crate) mod log;
pub(crate) mod recover;
pub(crate) mod running;

use cut::Cut;
use gate::Gate;
use locks::LockTable;
use perdura_memory::Memory;

/// What the sessions of an engine with sections share.
pub(crate) struct Sections {
    pub(crate) locks: LockTable,
    pub(crate) cut: Cut,
    pub(crate) gate: Gate,
}

impl Sections {
    /// For a log in which sections up to number `last` are dead.
    pub(crate) fn new<M: Memory>(memory: &M, last: u64) -> Self {
        Sections {
            locks: LockTable::new(memory),
            cut: Cut::new(memory, last),
            gate: Gate::new(memory),
        }
    }
}
