//! The flags that COMMAND INFO shows of commands: those of Redis 7.0.15, whether or not they change anything here.
//!
//! Invariant: every command that is no subcommand has its line in `flags.txt`.

use super::{Command, all};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The flags of each command, by its number.
static FLAGS: LazyLock<Vec<Vec<&'static str>>> = LazyLock::new(|| {
    let named: HashMap<_, _> = lines().collect();
    all().map(|(_, command)| named.get(command.name).cloned().unwrap_or_default()).collect()
});

/// The names of commands, each with its flags.
fn lines() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let lines = include_str!("flags.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| match line.split_once(' ') {
        Some((name, flags)) => (name, flags.split(',').collect()),
        None => (line, Vec::new()),
    })
}

/// The flags of a command, but `movablekeys`.
pub(super) fn of(command: &Command) -> &'static [&'static str] {
    FLAGS.get(command.number).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::super::parts;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_command_has_its_line() {
        let own = all().map(|(_, command)| command.name).filter(|name| !name.contains('|'));
        let listed = lines().map(|(name, _)| name);
        assert_eq!(listed.collect::<BTreeSet<_>>(), own.collect());
        for (_, command) in all().filter(|(_, command)| !command.name.contains('|')) {
            let has = |flag| of(command).contains(&flag);
            // Scripts write what the commands in them write, and PFCOUNT keeps its result in its key.
            // Of a command with subcommands Redis flags these.
            if !command.nests && command.name != "pfcount" && !parts::are_of(command) {
                assert!(!command.writes() || has("write"), "{}", command.name);
            }
            // Redis does not say of WAIT that it blocks.
            let waits = command.blocks && !command.name.starts_with("wait");
            assert_eq!(waits, has("blocking"), "{}", command.name);
        }
    }
}
