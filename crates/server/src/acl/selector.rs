//! A set of permissions: which commands, on which keys and channels. A user has one, the root, and may have more; a request
//! is permitted if one of them permits all of it.

use super::catalog::{Access, catalog, category};
use super::rules::Wrong;
use crate::protocol::glob;
use std::collections::BTreeMap;

/// Words of a set of commands.
const WORDS: usize = 8;

/// A set of commands, by their places in the catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CommandSet([u64; WORDS]);

impl CommandSet {
    fn set(&mut self, at: usize, on: bool) {
        let (word, bit) = (at / 64, 1 << (at % 64));
        match on {
            true => self.0[word] |= bit,
            false => self.0[word] &= !bit,
        }
    }

    fn has(&self, at: usize) -> bool {
        self.0[at / 64] & 1 << (at % 64) != 0
    }
}

/// A pattern of keys, and the accesses that it permits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    pattern: Vec<u8>,
    access: Access,
}

/// Which commands, on which keys and channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    /// Whether it permits every command, without a look at `commands`.
    all_commands: bool,
    /// Whether it began with all commands, so that rules have been taking from them.
    subtracts: bool,
    commands: CommandSet,
    /// Commands that are permitted only with one of these first arguments.
    first_args: BTreeMap<usize, Vec<Vec<u8>>>,
    /// The rules on commands since the last one on all of them, in lower case.
    rules: Vec<Vec<u8>>,
    all_keys: bool,
    keys: Vec<KeyPattern>,
    all_channels: bool,
    channels: Vec<Vec<u8>>,
}

impl Selector {
    /// One that permits nothing, or all channels.
    pub(crate) fn new(all_channels: bool) -> Self {
        Selector { all_channels, ..Selector::default() }
    }

    /// Whether it permits every request.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels
    }

    pub(crate) fn has_all_channels(&self) -> bool {
        self.all_channels
    }

    pub(crate) fn has_all_keys(&self) -> bool {
        self.all_keys
    }

    pub(crate) fn channels(&self) -> &[Vec<u8>] {
        &self.channels
    }

    /// Adds one rule.
    pub(crate) fn apply(&mut self, rule: &[u8]) -> Result<(), Wrong> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => (self.all_keys, self.keys) = (true, Vec::new()),
            b"resetkeys" => (self.all_keys, self.keys) = (false, Vec::new()),
            b"allchannels" | b"&*" => (self.all_channels, self.channels) = (true, Vec::new()),
            b"resetchannels" => (self.all_channels, self.channels) = (false, Vec::new()),
            b"allcommands" | b"+@all" => self.set_all(true),
            b"nocommands" | b"-@all" => self.set_all(false),
            _ => {
                return match rule {
                    [b'~' | b'%', ..] => self.add_keys(rule),
                    [b'&', pattern @ ..] => self.add_channels(pattern),
                    [b'+', b'@', name @ ..] => self.set_category(name, true),
                    [b'-', b'@', name @ ..] => self.set_category(name, false),
                    [b'+', name @ ..] if name.contains(&b'|') => self.add_part(name),
                    [b'+', name @ ..] => self.set_command(name, true),
                    [b'-', name @ ..] => self.set_command(name, false),
                    _ => Err(Wrong::Syntax),
                };
            }
        }
        Ok(())
    }

    fn set_all(&mut self, on: bool) {
        (self.all_commands, self.subtracts) = (on, on);
        self.commands = CommandSet([if on { u64::MAX } else { 0 }; WORDS]);
        self.first_args.clear();
        self.rules.clear();
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), Wrong> {
        if self.all_keys {
            return Err(Wrong::KeysAfterAll);
        }
        let (access, pattern) = match rule {
            [b'%', rest @ ..] => key_access(rest)?,
            _ => (Access::BOTH, &rule[1..]),
        };
        let pattern = checked(pattern)?;
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => {
                known.access.read |= access.read;
                known.access.write |= access.write;
            }
            None => self.keys.push(KeyPattern { pattern: pattern.to_vec(), access }),
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), Wrong> {
        if self.all_channels {
            return Err(Wrong::ChannelsAfterAll);
        }
        let pattern = checked(pattern)?;
        if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    fn set_category(&mut self, name: &[u8], on: bool) -> Result<(), Wrong> {
        let category = category(name).ok_or(Wrong::Unknown)?;
        self.note_rule(&[b"@", name].concat(), on);
        for (at, listed) in catalog().all.iter().enumerate() {
            if listed.is_in(category) {
                self.set(at, on);
            }
        }
        Ok(())
    }

    /// Permits a command or a subcommand, or forbids it.
    fn set_command(&mut self, name: &[u8], on: bool) -> Result<(), Wrong> {
        let at = catalog().find(name).ok_or(Wrong::Unknown)?;
        self.set(at, on);
        self.note_rule(catalog().all[at].name.as_bytes(), on);
        Ok(())
    }

    /// Permits a subcommand, or a command with a certain first argument.
    fn add_part(&mut self, name: &[u8]) -> Result<(), Wrong> {
        let bar = name.iter().rposition(|&byte| byte == b'|').unwrap_or_default();
        let (whole, argument) = (&name[..bar], &name[bar + 1..]);
        let at = catalog().find(whole).ok_or(Wrong::Unknown)?;
        let listed = &catalog().all[at];
        if listed.is_part() {
            return Err(Wrong::PartOfPart);
        }
        if argument.is_empty() {
            return Err(Wrong::Syntax);
        }
        if !listed.parts.is_empty() {
            return self.set_command(name, true);
        }
        let known = self.first_args.entry(at).or_default();
        if !known.iter().any(|one| one.eq_ignore_ascii_case(argument)) {
            known.push(argument.to_vec());
        }
        self.note_rule(name, true);
        Ok(())
    }

    /// Permits a command with its subcommands, or forbids it with them.
    fn set(&mut self, at: usize, on: bool) {
        self.first_args.remove(&at);
        self.commands.set(at, on);
        catalog().all[at].parts.iter().for_each(|&part| self.commands.set(part, on));
        self.all_commands &= on;
    }

    /// Appends a rule on commands, without earlier ones that it makes void.
    fn note_rule(&mut self, name: &[u8], on: bool) {
        let name = name.to_ascii_lowercase();
        self.rules.retain(|known| {
            let rest = known[1..].strip_prefix(name.as_slice());
            rest.is_none_or(|rest| !rest.is_empty() && rest[0] != b'|')
        });
        self.rules.push([if on { b"+" } else { b"-" }, name.as_slice()].concat());
    }

    /// Whether a command is permitted, by its place in the catalog; `first` is its first argument, if it has one.
    pub(super) fn permits(&self, at: usize, first: Option<&[u8]>) -> bool {
        let with = |known: &Vec<Vec<u8>>| {
            known.iter().any(|one| first.is_some_and(|first| first.eq_ignore_ascii_case(one)))
        };
        self.all_commands || self.commands.has(at) || self.first_args.get(&at).is_some_and(with)
    }

    /// Whether a key may be accessed so.
    pub(super) fn permits_key(&self, key: &[u8], access: Access) -> bool {
        let takes = |one: &KeyPattern| {
            (one.access.read || !access.read)
                && (one.access.write || !access.write)
                && glob::matches(&one.pattern, key)
        };
        self.all_keys || self.keys.iter().any(takes)
    }

    /// Whether every key may be read.
    pub(super) fn reads_all_keys(&self) -> bool {
        self.all_keys || self.keys.iter().any(|one| one.access.read && one.pattern == b"*")
    }

    /// Whether a channel may be used, or a pattern of channels, which must be permitted as it is.
    pub(crate) fn permits_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        self.all_channels || takes_channel(&self.channels, name, is_pattern)
    }

    /// The rules on commands, from the one on all commands on.
    pub(crate) fn command_rules(&self) -> Vec<u8> {
        let all: &[u8] = if self.subtracts { b"+@all" } else { b"-@all" };
        let rules = self.rules.iter().map(Vec::as_slice);
        std::iter::once(all).chain(rules).collect::<Vec<_>>().join(&b' ')
    }

    /// The rules on keys.
    pub(crate) fn key_rules(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let rule = |one: &KeyPattern| {
            let begin: &[u8] = match one.access {
                Access::READ => b"%R~",
                Access::WRITE => b"%W~",
                _ => b"~",
            };
            [begin, &one.pattern].concat()
        };
        self.keys.iter().map(rule).collect::<Vec<_>>().join(&b' ')
    }

    /// The rules on channels.
    pub(crate) fn channel_rules(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let rules = self.channels.iter().map(|one| [b"&", one.as_slice()].concat());
        rules.collect::<Vec<_>>().join(&b' ')
    }

    /// All rules, as an ACL file has them.
    pub(crate) fn describe(&self) -> Vec<u8> {
        let mut rules = vec![self.key_rules()];
        if !self.all_channels {
            rules.push(b"resetchannels".to_vec());
        }
        rules.extend([self.channel_rules(), self.command_rules()]);
        rules.retain(|rule| !rule.is_empty());
        rules.join(&b' ')
    }
}

/// Whether one of these patterns permits a channel, or is this pattern of channels.
pub(super) fn takes_channel(permitted: &[Vec<u8>], name: &[u8], is_pattern: bool) -> bool {
    permitted.iter().any(|one| match is_pattern {
        true => one == name,
        false => glob::matches(one, name),
    })
}

/// Reads `R~pattern`, `W~pattern` or `RW~pattern`.
fn key_access(rule: &[u8]) -> Result<(Access, &[u8]), Wrong> {
    let mut access = Access { read: false, write: false };
    for (at, byte) in rule.iter().enumerate() {
        match byte {
            b'R' | b'r' if !access.read => access.read = true,
            b'W' | b'w' if !access.write => access.write = true,
            b'~' if access.read || access.write => return Ok((access, &rule[at + 1..])),
            _ => return Err(Wrong::Syntax),
        }
    }
    Err(Wrong::Syntax)
}

/// A pattern, unless rules that have it could not be written into one line.
fn checked(pattern: &[u8]) -> Result<&[u8], Wrong> {
    if super::has_spaces(pattern) { Err(Wrong::Syntax) } else { Ok(pattern) }
}

const _: () = assert!(WORDS * 64 >= 400, "the catalog has less than 400 lines");
