//! What a controller has counted, as plain numbers.

use serde::Serialize;

/// What a controller has done since it was built.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ControllerStats {
    /// Lines that were asked for.
    pub reads: u64,
    /// Lines that were handed over, by cause.
    pub writes: CauseStats,
    /// The home device.
    pub home: DeviceStats,
    /// DRAM that caches it, if there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dram: Option<DeviceStats>,
    /// Hits and misses of the DRAM cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dram_cache: Option<DramCacheStats>,
    /// Of the blocks of that cache that were replaced, or written home at an epoch's end, with dirty lines: how many had
    /// one of them, two, and so on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dirty_lines: Vec<u64>,
    /// Memory beside the home device, if there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volatile: Option<DeviceStats>,
}

/// Lines that were handed over to the controller, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CauseStats {
    /// Caches needed the room.
    pub evictions: u64,
    /// The program asked for it.
    pub write_backs: u64,
    /// The program stored past the caches.
    pub streams: u64,
    /// A hardware mechanism needed it.
    pub mechanism: u64,
}

/// What a device has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DeviceStats {
    /// Lines read.
    pub reads: u64,
    /// Lines written, those that coalesced included.
    pub writes: u64,
    /// Bytes of the lines read.
    pub read_bytes: u64,
    /// Bytes of the lines written.
    pub written_bytes: u64,
    /// Accesses that found their row open; in an Optane-like module, reads that found their block
    /// in its buffer.
    pub row_hits: u64,
    /// Accesses that found no row open; in a module, reads that went to the media.
    pub row_misses: u64,
    /// Accesses that found another row open.
    pub row_conflicts: u64,
    /// Reads answered from the write queue.
    pub forwarded: u64,
    /// Writes to a line that was waiting in the write queue.
    pub coalesced: u64,
    /// Times that writes went before reads because the write queue was filled.
    pub drains: u64,
    /// Reads that waited for a queue, a bank or the bus.
    pub read_waits: u64,
    /// How long they did, ps.
    pub read_wait_ps: u64,
    /// Writes that waited for a place in the write queue.
    pub write_waits: u64,
    /// How long they did, ps.
    pub write_wait_ps: u64,
    /// Blocks read from the media inside an Optane-like device.
    pub media_reads: u64,
    /// Blocks written to it.
    pub media_writes: u64,
    /// Bytes written to the media for each byte written; of plain banks, 1 less what coalesced.
    /// 0 if nothing was written.
    pub write_amplification: f64,
    /// Blocks that the device moved to level wear.
    pub wear_moves: u64,
    /// Energy of all accesses, nJ; absent where none is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_nj: Option<f64>,
    /// How evenly it wears; absent for DRAM in front of the home device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wear: Option<WearStats>,
}

/// How evenly a device wears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WearStats {
    /// Bytes of a counted unit: a line, or a block of the media of an Optane-like device.
    pub unit_bytes: u64,
    /// Units that were written at least once.
    pub written: u64,
    /// Writes per such unit, on average.
    pub mean: f64,
    /// Writes of the unit written most often.
    pub most: u64,
}

/// Hits and misses of a DRAM cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DramCacheStats {
    /// Accesses that found their block.
    pub hits: u64,
    /// Accesses that did not.
    pub misses: u64,
    /// Blocks that were replaced.
    pub replaced_blocks: u64,
    /// Dirty lines that left for the home device with them.
    pub replaced_lines: u64,
    /// Misses that waited for a replaced block to leave, where the room for those is bounded.
    pub victim_waits: u64,
    /// How long they did, ps.
    pub victim_wait_ps: u64,
    /// Lines written through for the program or a mechanism.
    pub through: u64,
}

/// What a channel counts as it goes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeviceCounts {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) row_hits: u64,
    pub(super) row_misses: u64,
    pub(super) row_conflicts: u64,
    pub(super) forwarded: u64,
    pub(super) coalesced: u64,
    pub(super) drains: u64,
    pub(super) read_waits: u64,
    pub(super) read_wait_ps: u64,
    pub(super) write_waits: u64,
    pub(super) write_wait_ps: u64,
    pub(super) media_reads: u64,
    pub(super) media_writes: u64,
    pub(super) wear_moves: u64,
}

impl DeviceCounts {
    #[inline]
    pub(super) fn read_wait(&mut self, wait: crate::Ps) {
        self.read_waits += u64::from(wait.0 > 0);
        self.read_wait_ps += wait.0;
    }

    #[inline]
    pub(super) fn write_wait(&mut self, wait: crate::Ps) {
        self.write_waits += u64::from(wait.0 > 0);
        self.write_wait_ps += wait.0;
    }
}

impl DeviceStats {
    pub(super) fn add(&mut self, counts: &DeviceCounts) {
        self.reads += counts.reads;
        self.writes += counts.writes;
        self.row_hits += counts.row_hits;
        self.row_misses += counts.row_misses;
        self.row_conflicts += counts.row_conflicts;
        self.forwarded += counts.forwarded;
        self.coalesced += counts.coalesced;
        self.drains += counts.drains;
        self.read_waits += counts.read_waits;
        self.read_wait_ps += counts.read_wait_ps;
        self.write_waits += counts.write_waits;
        self.write_wait_ps += counts.write_wait_ps;
        self.media_reads += counts.media_reads;
        self.media_writes += counts.media_writes;
        self.wear_moves += counts.wear_moves;
    }
}
