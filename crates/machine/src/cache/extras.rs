//! State that only hardware mechanisms use of the caches: versions, marked lines, rules for victims.
//!
//! It is made at the first use. Until then it costs a branch where a line is put into a cache or taken out, and
//! nothing on a hit. As long as there is no version and no rule, the caches hold the same lines as without it.

use super::version_table::{Version, VersionsBySet};
use crate::by_number::ByNumber;

#[derive(Default)]
pub(super) struct Extras {
    /// Which version a way holds: one entry for each way with the tag `HELD`.
    pub(super) versions: VersionsBySet,
    pub(super) displaced: Vec<HeldVersion>,
    /// The lines that are marked.
    pub(super) marked: ByNumber<()>,
    /// The lines that are watched.
    pub(super) watched: ByNumber<()>,
    pub(super) departures: Vec<Departure>,
    /// One for each level.
    pub(super) rules: Vec<VictimRule>,
}

impl Extras {
    /// Whether the departures of a line are reported.
    #[inline]
    pub(super) fn reports(&self, line: u64) -> bool {
        self.marked.contains_key(&line)
            || !self.watched.is_empty() && self.watched.contains_key(&line)
    }
}

/// Why a marked line has left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DepartureReason {
    /// Another line, or a version, has taken its way. If it (or a copy that is recalled with it) is dirty, or the next
    /// level holds victims, it goes to the next level, or from the last level into
    /// [`evicted`](super::Hierarchy::evicted).
    Replaced,
    /// An inclusive level farther from the core has replaced it.
    Recalled,
    /// Another core has stored to it.
    Stored,
    /// Another core has loaded it. It was dirty here; it has not left, but is clean now.
    Shared,
    /// A level of victims has given it back to a level nearer to the core.
    MovedUp,
    /// [`write_back`](super::Hierarchy::write_back) or [`drop_line`](super::Hierarchy::drop_line) has dropped it.
    Dropped,
}

/// A copy of a marked line that has left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Departure {
    /// The line.
    pub line: u64,
    /// The core whose cache it was; 0 for a shared cache.
    pub core: usize,
    /// The level of that cache; 0 is the nearest to the core.
    pub level: usize,
    /// Whether this copy was dirty.
    pub dirty: bool,
    /// Why it has left.
    pub why: DepartureReason,
}

/// A version in a cache, or one that was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeldVersion {
    /// The line.
    pub line: u64,
    /// Which version of it.
    pub version: Version,
    /// The level; 0 is the nearest to the core.
    pub level: usize,
    /// The core whose cache it is; 0 for a shared cache.
    pub core: usize,
}

/// A level's rule for victims. Each kind has a rank: of a full set, the ways of the lowest rank can be replaced, and
/// the cache's policy chooses among them. By default all ranks are equal: the policy chooses freely.
///
/// Random replacement draws a number for each choice, however few ways there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VictimRule {
    /// The rank of lines that are not marked.
    pub lines: u8,
    /// The rank of marked lines.
    pub marked: u8,
    /// The rank of versions.
    pub versions: u8,
    /// Whether only the versions with the set's smallest [`Version`] can be replaced.
    pub oldest_version: bool,
}

impl VictimRule {
    /// The rank that a version never replaces. A line fetched by an access must go somewhere: if a whole set has this
    /// rank, it replaces whatever the policy chooses.
    pub const NEVER: u8 = u8::MAX;

    /// Versions are replaced only where there is no line.
    pub const LINES_FIRST: Self =
        VictimRule { lines: 0, marked: 0, versions: 1, oldest_version: false };

    /// Lines are replaced only where there is no version.
    pub const VERSIONS_FIRST: Self =
        VictimRule { lines: 1, marked: 1, versions: 0, oldest_version: false };

    /// The oldest version is replaced first; a line only where there is no version.
    pub const OLDEST_VERSION_FIRST: Self =
        VictimRule { oldest_version: true, ..Self::VERSIONS_FIRST };
}
