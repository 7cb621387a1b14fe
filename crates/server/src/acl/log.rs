//! ACL LOG: requests that were denied, and wrong passwords. Those that are alike are one entry.

use super::check::Reason;
use std::collections::VecDeque;

/// Entries that are looked at for one that is alike.
const LOOKED_AT: usize = 10;
/// Milliseconds after which what is alike is a new entry.
const SAME: u64 = 60_000;
/// Bytes of an object's or a user's name that are kept: clients choose these.
const NAME_MAX: usize = 1024;

/// Where a request was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    TopLevel,
    Multi,
    Script,
}

impl Context {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
            Context::Script => "lua",
        }
    }
}

/// One entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) count: u64,
    pub(crate) reason: Reason,
    pub(crate) context: Context,
    pub(crate) object: Vec<u8>,
    pub(crate) user: Vec<u8>,
    /// Milliseconds since 1970, of the first and of the last time.
    pub(crate) created: u64,
    pub(crate) updated: u64,
    /// The client's line in CLIENT LIST, of the last time.
    pub(crate) client: String,
}

/// The last entries, the newest first.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: VecDeque<Entry>,
    count: u64,
}

impl Log {
    /// Adds an entry, or counts one that is alike once more; the log keeps at most `len`.
    pub(crate) fn add(&mut self, mut entry: Entry, len: usize) {
        entry.object.truncate(NAME_MAX);
        entry.user.truncate(NAME_MAX);
        let is_alike = |one: &Entry| {
            one.reason == entry.reason
                && one.context == entry.context
                && one.updated.abs_diff(entry.updated) <= SAME
                && one.object == entry.object
                && one.user == entry.user
        };
        let alike = self.entries.iter().take(LOOKED_AT).position(is_alike);
        match alike.and_then(|at| self.entries.remove(at)) {
            Some(mut known) => {
                (known.client, known.updated) = (entry.client, entry.updated);
                known.count += 1;
                self.entries.push_front(known);
            }
            None => {
                entry.id = self.count;
                self.count += 1;
                self.entries.push_front(entry);
            }
        }
        self.entries.truncate(len);
    }

    /// The newest entries.
    pub(crate) fn newest(&self, count: usize) -> Vec<Entry> {
        self.entries.iter().take(count).cloned().collect()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(object: &str, updated: u64) -> Entry {
        Entry {
            id: 0,
            count: 1,
            reason: Reason::Key,
            context: Context::TopLevel,
            object: object.into(),
            user: b"u".to_vec(),
            created: updated,
            updated,
            client: String::new(),
        }
    }

    #[test]
    fn what_is_alike_is_counted_for_a_minute() {
        let mut log = Log::default();
        for (object, at) in [("a", 0), ("b", 1), ("a", 2), ("a", 60_003)] {
            log.add(entry(object, at), 3);
        }
        let shown = |log: &Log| -> Vec<(u64, u64, u64)> {
            log.newest(9).iter().map(|one| (one.id, one.count, one.updated)).collect()
        };
        assert_eq!(shown(&log), [(2, 1, 60_003), (0, 2, 2), (1, 1, 1)]);
        log.add(entry(&"x".repeat(5000), 60_004), 3);
        assert_eq!(shown(&log).len(), 3);
        assert_eq!(log.newest(1)[0].object.len(), NAME_MAX);
        log.clear();
        assert_eq!(shown(&log), []);
    }
}
