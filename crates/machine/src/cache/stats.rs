//! What the caches count.

use serde::Serialize;

/// What happened in the caches since they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheStats {
    /// Per level, nearest first; private caches of all cores together.
    pub levels: Vec<LevelStats>,
    /// Dirty lines fetched from another core's caches. Such an access is a miss in the core's
    /// own levels, and neither hit nor miss in the others.
    pub transfers: u64,
    /// Clean lines fetched from another core's caches, since no shared level had them; they count as
    /// misses in all levels.
    pub forwards: u64,
    /// Copies that a core lost because another one stored: one for each core, however many of its
    /// levels had the line.
    pub invalidations: u64,
}

/// What happened in one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LevelStats {
    /// Accesses that ended here.
    pub hits: u64,
    /// Accesses that did not find their line here.
    pub misses: u64,
    /// Dirty lines that it replaced.
    pub dirty_evictions: u64,
    /// Copies in the levels above that left with a line which it replaced.
    pub back_invalidations: u64,
}
