//! The table of commands, and finding one by its name in any case.

use super::{Call, ClientCall, Next, Outcome};
use super::{config, connection, debug, expiry, functions, hash_numbers, hashes, info};
use super::{
    introspection, keys, multi, numbers, objects, saving, scan, shutdown, slowlog, strings,
};
use super::{substrings, zset_ranges, zsets};
use std::sync::LazyLock;

/// What runs a command.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// On data, only reading.
    Read(fn(&mut Call<'_>) -> Outcome),
    /// On data, writing.
    Write(fn(&mut Call<'_>) -> Outcome),
    /// On the client.
    Client(fn(&mut ClientCall<'_>) -> Outcome<Next>),
}

/// Where a command's arguments have keys: first, last (from the end, if negative) and step;
/// zeros for none.
pub(crate) type Keys = (i32, i32, i32);

/// A command, in the sense of Redis's COMMAND INFO.
#[derive(Clone, Copy)]
pub(crate) struct Command {
    /// Its place among all of them.
    pub(crate) number: usize,
    /// Its name, in lower case.
    pub(crate) name: &'static str,
    /// Arguments with the name; negative for a minimum.
    pub(crate) arity: i32,
    /// Where its keys are.
    pub(crate) keys: Keys,
    /// What runs it.
    pub(crate) run: Run,
    /// One line for COMMAND DOCS.
    pub(crate) summary: &'static str,
}

impl Command {
    pub(crate) const fn new(
        name: &'static str,
        arity: i32,
        keys: Keys,
        run: Run,
        summary: &'static str,
    ) -> Self {
        Command { number: 0, name, arity, keys, run, summary }
    }

    /// Whether a request of `len` arguments, name included, has as many as it should.
    pub(crate) fn takes(&self, len: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { len >= wanted } else { len == wanted }
    }

    pub(crate) fn writes(&self) -> bool {
        matches!(self.run, Run::Write(_))
    }
}

/// The families, each with the group that COMMAND DOCS names.
static FAMILIES: [(&str, &[Command]); 22] = [
    ("string", strings::TABLE),
    ("string", substrings::TABLE),
    ("string", numbers::TABLE),
    ("generic", keys::TABLE),
    ("generic", expiry::TABLE),
    ("generic", scan::TABLE),
    ("hash", hashes::TABLE),
    ("hash", hash_numbers::TABLE),
    ("sorted-set", zsets::TABLE),
    ("sorted-set", zset_ranges::TABLE),
    ("connection", connection::TABLE),
    ("server", introspection::TABLE),
    ("server", config::TABLE),
    ("server", saving::TABLE),
    ("server", shutdown::TABLE),
    ("server", slowlog::TABLE),
    ("server", debug::TABLE),
    ("scripting", functions::TABLE),
    ("generic", objects::OBJECT),
    ("server", objects::MEMORY),
    ("server", info::TABLE),
    ("transactions", multi::TABLE),
];

/// Every command with its group, numbered.
static COMMANDS: LazyLock<Box<[(&'static str, Command)]>> = LazyLock::new(|| {
    let all = FAMILIES.iter().flat_map(|(group, table)| table.iter().map(move |c| (*group, *c)));
    all.enumerate()
        .map(|(number, (group, command))| (group, Command { number, ..command }))
        .collect()
});

/// Every command with its group.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static Command)> {
    COMMANDS.iter().map(|(group, command)| (*group, command))
}

/// Slots of the index: a power of two, sparse enough for short probes.
const SLOTS: usize = 1024;

static INDEX: LazyLock<Box<[Option<&'static Command>]>> = LazyLock::new(|| {
    let mut index = vec![None; SLOTS];
    for (_, command) in all() {
        let mut slot = hash(command.name.as_bytes());
        while index[slot].is_some() {
            slot = (slot + 1) % SLOTS;
        }
        index[slot] = Some(command);
    }
    index.into_boxed_slice()
});

/// FNV-1a over the name in lower case.
fn hash(name: &[u8]) -> usize {
    let fold = |hash: u32, byte: &u8| {
        (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0193)
    };
    let hash = name.iter().fold(0x811c_9dc5, fold);
    (hash ^ hash >> 15) as usize % SLOTS
}

/// The command of this name.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut slot = hash(name);
    loop {
        let command = INDEX[slot]?;
        if command.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(command);
        }
        slot = (slot + 1) % SLOTS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case() {
        let mut names = std::collections::HashSet::new();
        for (_, command) in all() {
            assert!(names.insert(command.name), "{} is there twice", command.name);
            assert_eq!(command.name, command.name.to_lowercase());
            let found = find(command.name.to_uppercase().as_bytes()).unwrap();
            assert!(std::ptr::eq(found, command));
        }
        assert!(find(b"no-such-command").is_none());
        assert!(find(b"").is_none());
    }
}
