//! The commands that rules may name, with their categories and how they access their keys: all that Redis 7.2 has, so that
//! its ACL files can be read, and this server's own.
//!
//! Invariant: every command of the table, but the words of HTTP, has its line in `catalog.txt`, and those with keys say how these are accessed.

use crate::command::{self, Command};
use crate::protocol::Args;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The categories, in Redis's order; a set of them has bit n for the n-th.
pub(crate) const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// How a key is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Access {
    pub(crate) const READ: Access = Access { read: true, write: false };
    pub(crate) const WRITE: Access = Access { read: false, write: true };
    pub(crate) const BOTH: Access = Access { read: true, write: true };
}

/// A command, or a subcommand.
pub(crate) struct Listed {
    pub(crate) name: &'static str,
    categories: u32,
    /// From which argument on keys are accessed how.
    keys: Vec<(usize, Access)>,
    /// Its subcommands.
    pub(crate) parts: Vec<usize>,
}

impl Listed {
    pub(crate) fn is_in(&self, category: usize) -> bool {
        self.categories & 1 << category != 0
    }

    /// Whether it is a subcommand.
    pub(crate) fn is_part(&self) -> bool {
        self.name.contains('|')
    }

    pub(crate) fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// How the key at an argument is accessed: in every way, if that is not known.
    pub(crate) fn access(&self, at: usize) -> Access {
        let last = self.keys.iter().rfind(|(from, _)| *from <= at);
        last.map_or(Access::BOTH, |(_, access)| *access)
    }
}

/// All of them.
pub(crate) struct Catalog {
    pub(crate) all: Vec<Listed>,
    by_name: HashMap<&'static str, usize>,
    /// The places of the server's own commands, by their numbers.
    by_number: Vec<Option<usize>>,
}

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::read(include_str!("catalog.txt")));

/// The only one.
pub(crate) fn catalog() -> &'static Catalog {
    &CATALOG
}

/// The number of a category with this name, in any case of letters.
pub(crate) fn category(name: &[u8]) -> Option<usize> {
    CATEGORIES.iter().position(|one| one.as_bytes().eq_ignore_ascii_case(name))
}

impl Catalog {
    fn read(text: &'static str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut all: Vec<Listed> = lines.map(listed).collect();
        let by_name: HashMap<&str, usize> =
            all.iter().enumerate().map(|(at, one)| (one.name, at)).collect();
        for at in 0..all.len() {
            let whole = all[at].name.split_once('|').and_then(|(whole, _)| by_name.get(whole));
            if let Some(&whole) = whole {
                all[whole].parts.push(at);
            }
        }
        let by_number = command::all().map(|(_, own)| by_name.get(own.name).copied()).collect();
        Catalog { all, by_name, by_number }
    }

    /// The place of a command, or of a subcommand `name|sub`, in any case of letters.
    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.by_name.get(name.as_str()).copied()
    }

    /// The place of a request's command, or of its subcommand.
    pub(crate) fn of(&self, command: &Command, args: Args<'_>) -> Option<usize> {
        let whole = (*self.by_number.get(command.number)?)?;
        let listed = &self.all[whole];
        let Some(sub) = args.get(1).filter(|_| !listed.parts.is_empty()) else {
            return Some(whole);
        };
        let is_it = |part: &&usize| {
            let own = &self.all[**part].name[listed.name.len() + 1..];
            own.as_bytes().eq_ignore_ascii_case(sub)
        };
        Some(listed.parts.iter().find(is_it).copied().unwrap_or(whole))
    }

    /// Whether a request names a subcommand, and its command has others only.
    pub(crate) fn lacks(&self, command: &Command, args: Args<'_>) -> bool {
        let found = self.of(command, args);
        args.len() > 1 && found.is_some_and(|at| !self.all[at].parts.is_empty())
    }
}

fn listed(line: &'static str) -> Listed {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let categories = words.next().unwrap_or_default().split(',');
    let categories = categories.filter_map(|name| category(name.as_bytes()));
    let key = |word: &str| {
        let from = word.trim_start_matches(['R', 'W', '-']);
        let (read, write) = (word.contains('R'), word.contains('W'));
        Some((from.parse().ok()?, Access { read, write }))
    };
    Listed {
        name,
        categories: categories.fold(0, |set, one| set | 1 << one),
        keys: words.filter_map(key).collect(),
        parts: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::find;
    use crate::protocol::args::OwnedArgs;

    #[test]
    fn every_line_says_what_it_should() {
        let lines = include_str!("catalog.txt").lines().filter(|line| !line.starts_with('#'));
        for (line, listed) in lines.zip(&catalog().all) {
            let mut words = line.split(' ').skip(1);
            let names: Vec<_> = words.next().unwrap().split(',').collect();
            assert!(names.iter().all(|name| CATEGORIES.contains(name)), "{line}");
            assert_eq!(names.len(), listed.categories.count_ones() as usize, "{line}");
            assert_eq!(words.count(), listed.keys.len(), "{line}");
            assert!(listed.keys.is_sorted_by_key(|(from, _)| *from), "{line}");
        }
    }

    #[test]
    fn every_command_is_listed_with_its_keys() {
        for (_, command) in command::all() {
            if matches!(command.name, "post" | "host:") {
                continue;
            }
            let at = catalog().find(command.name.as_bytes());
            let listed =
                &catalog().all[at.unwrap_or_else(|| panic!("{} is missing", command.name))];
            // Channels are no keys, and only subcommands have those of a command that has subcommands.
            let takes_channels = command.name.contains("subscribe") || command.name == "spublish";
            if command::has_keys(command) && !takes_channels && listed.parts.is_empty() {
                assert!(listed.has_keys(), "the keys of {} are missing", command.name);
            }
        }
    }

    #[test]
    fn requests_are_found_by_their_subcommands() {
        for (request, name) in [
            ("get a", "get"),
            ("CLIENT Kill x", "client|kill"),
            ("client nothing", "client"),
            ("client", "client"),
            ("OBJECT encoding a", "object|encoding"),
            ("debug object a", "debug"),
        ] {
            let args: OwnedArgs = request.split(' ').map(str::as_bytes).collect();
            let command = find(args.as_args().at(0)).unwrap();
            let at = catalog().of(command, args.as_args()).unwrap();
            assert_eq!(catalog().all[at].name, name);
        }
    }
}
