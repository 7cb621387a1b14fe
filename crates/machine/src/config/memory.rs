//! The controller and the devices behind it.

use serde::{Deserialize, Serialize};

/// Controller and devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryConfig {
    /// The queues.
    pub controller: ControllerConfig,
    /// Where the data lives: NVM, or DRAM on a machine without any.
    pub home: Device,
    /// DRAM that caches the home device, if there is any. Its contents are not durable.
    pub dram_cache: Option<DramCache>,
    /// Memory beside the home device and a DRAM cache, for what programs do not keep in the pool: their
    /// [own memory](perdura_memory::Object). Absent: that is in the home device too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volatile: Option<Device>,
}

/// The memory controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerConfig {
    /// Where the figures are from.
    pub source: String,
    /// Time from the last cache to the device's command and back, besides the device's own, ns.
    pub static_read_ns: f64,
    /// Time from the last cache until a line is in the write queue, ns.
    pub static_write_ns: f64,
    /// Reads that a channel has on their way.
    pub read_queue: usize,
    /// Lines that a channel's write queue (write-pending queue) holds.
    pub write_queue: usize,
    /// Lines that can have left the last cache before the controller has them. An access that evicts
    /// one more waits.
    pub eviction_buffers: usize,
    /// Share of the write queue from which on writes go before reads.
    pub drain_from: f64,
    /// Share of the write queue at which reads go first again.
    pub drain_to: f64,
    /// Writes at least that a drain makes.
    pub drain_least: usize,
    /// Time to turn the bus between reads and writes, ns.
    pub turnaround_ns: f64,
    /// Where a written line becomes durable.
    pub durable_at: DurableAt,
}

/// Where a line that the caches have handed over becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DurableAt {
    /// The write queue: residual energy empties it (ADR).
    Queue,
    /// The media's cells: machines from before ADR. Every write goes to its bank at once.
    Media,
}

/// A device: banks with row buffers behind a bus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Where the figures are from.
    pub source: String,
    /// Channels, between which lines are interleaved.
    pub channels: usize,
    /// Bytes in a row to a channel before the next one.
    pub interleave_bytes: u64,
    /// Banks of a channel.
    pub banks: usize,
    /// Bytes of a bank's row buffer.
    pub row_bytes: u64,
    /// What happens to a row after an access.
    pub page: Page,
    /// From the column command to its data, ns (tCL).
    pub row_hit_ns: f64,
    /// Opening a row, ns (tRCD).
    pub activate_ns: f64,
    /// Closing a row, ns (tRP).
    pub precharge_ns: f64,
    /// Least time from opening a row to closing it, ns (tRAS).
    pub row_open_ns: f64,
    /// Time in which four rows of a channel may be opened, ns (tFAW); 0: any number.
    pub four_activates_ns: f64,
    /// Time that a bank is busy with a written line after its data came, ns (tWR, tWP).
    pub write_ns: f64,
    /// Whether a write goes to the cells at once (NVM), and not through the row buffer (DRAM).
    pub write_through: bool,
    /// Time of a line on the bus, ns: 64 bytes at the bandwidth for reads.
    pub read_burst_ns: f64,
    /// The same for writes.
    pub write_burst_ns: f64,
    /// The buffers inside an Optane-like device, in place of banks; absent for plain banks.
    pub inside: Option<InsideConfig>,
    /// Energy of accesses; absent where none is published.
    pub energy: Option<Energy>,
}

/// Whether a row stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Page {
    /// Until another one is needed.
    Open,
    /// No longer than its access.
    Closed,
}

/// Energy of an access of 64 bytes, nJ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Energy {
    /// Read.
    pub read_nj: f64,
    /// Written.
    pub write_nj: f64,
}

/// Buffers inside a device whose media blocks are larger than lines (Optane). Every channel has its own: a
/// channel is a module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InsideConfig {
    /// Where the figures are from.
    pub source: String,
    /// Bytes of a block of the media.
    pub block_bytes: u64,
    /// Blocks in the read-modify-write buffer.
    pub buffer_blocks: usize,
    /// Blocks drawn at random when one must leave the buffer: the longest unused of them goes.
    pub buffer_draws: usize,
    /// Read of a line in the block that the last read was in, ns.
    pub open_read_ns: f64,
    /// Read of a line in another block of the buffer, ns.
    pub buffer_read_ns: f64,
    /// Time between two lines written into the buffer, ns.
    pub buffer_write_ns: f64,
    /// Time before the first line leaves a write queue that no line was leaving, ns.
    pub write_start_ns: f64,
    /// Read of a line in a block that must come from the media, ns.
    pub media_read_ns: f64,
    /// Time that the media is busy with reading a block, ns.
    pub media_read_busy_ns: f64,
    /// Time that the media is busy with writing a block, ns.
    pub media_write_ns: f64,
    /// Blocks that can wait to be written to the media.
    pub write_out_blocks: usize,
    /// Pages whose translations are buffered.
    pub translations: usize,
    /// Bytes of such a page.
    pub translation_bytes: u64,
    /// What a translation that is not buffered costs a read, ns.
    pub translation_ns: f64,
    /// Writes of one block after which the device moves it; 0: never.
    pub wear_moves_after: u64,
    /// How long the device stands still then, ns.
    pub wear_move_ns: f64,
}

/// DRAM as a cache of the home device, least recently used blocks replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DramCache {
    /// Where the figures are from.
    pub source: String,
    /// Bytes.
    pub bytes: u64,
    /// Blocks in a set; 0: any block anywhere.
    pub ways: usize,
    /// Bytes of a block, the unit of fetching and replacement.
    pub block_bytes: u64,
    /// Time to find a block, ns.
    pub lookup_ns: f64,
    /// Replaced blocks with dirty lines that can be on their way home, each from when it leaves until the home device's
    /// queue has accepted its last line: a miss that replaces one more waits for a place. 0: a miss waits until all lines
    /// of its own victim are accepted. Absent: any number, and no miss waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim_blocks: Option<usize>,
    /// The DRAM itself.
    pub device: Device,
}

/// Times are bounded so that sums of them cannot overflow, counts so that tables fit.
pub(super) const LONGEST_NS: f64 = 1e9;
pub(super) const LARGEST_QUEUE: usize = 4096;
const LARGEST_PARTS: usize = 64;
pub(super) const LARGEST_TABLE: u64 = 1 << 24;

impl MemoryConfig {
    /// Fails if it cannot be built.
    pub(super) fn validate(&self) -> Result<(), String> {
        self.controller.validate()?;
        self.home.validate().map_err(|what| format!("home: {what}"))?;
        if self.home.inside.is_some() && self.controller.durable_at == DurableAt::Media {
            return Err("a device with buffers inside is durable at the queue".to_owned());
        }
        if let Some(device) = &self.volatile {
            device.validate().map_err(|what| format!("volatile: {what}"))?;
            if device.inside.is_some() {
                return Err("volatile: its device is plain banks".to_owned());
            }
        }
        match &self.dram_cache {
            Some(cache) => cache.validate().map_err(|what| format!("dram_cache: {what}")),
            None => Ok(()),
        }
    }
}

impl ControllerConfig {
    fn validate(&self) -> Result<(), String> {
        let Self { read_queue, write_queue, drain_from, drain_to, drain_least, .. } = *self;
        sourced(&self.source)?;
        let queues = [
            ("read_queue", read_queue),
            ("write_queue", write_queue),
            ("eviction_buffers", self.eviction_buffers),
        ];
        counts(&queues, LARGEST_QUEUE)?;
        if drain_least > LARGEST_QUEUE {
            return Err(format!("drain_least is at most {LARGEST_QUEUE}"));
        }
        if !(0.0..=1.0).contains(&drain_to) || !(drain_to..=1.0).contains(&drain_from) {
            return Err("0 <= drain_to <= drain_from <= 1 must hold".to_owned());
        }
        times(&[
            ("static_read_ns", self.static_read_ns),
            ("static_write_ns", self.static_write_ns),
            ("turnaround_ns", self.turnaround_ns),
        ])
    }
}

impl Device {
    fn validate(&self) -> Result<(), String> {
        sourced(&self.source)?;
        counts(&[("channels", self.channels), ("banks", self.banks)], LARGEST_PARTS)?;
        power("interleave_bytes", self.interleave_bytes, 1 << 40)?;
        power("row_bytes", self.row_bytes, 1 << 40)?;
        times(&[
            ("row_hit_ns", self.row_hit_ns),
            ("activate_ns", self.activate_ns),
            ("precharge_ns", self.precharge_ns),
            ("row_open_ns", self.row_open_ns),
            ("four_activates_ns", self.four_activates_ns),
            ("write_ns", self.write_ns),
            ("read_burst_ns", self.read_burst_ns),
            ("write_burst_ns", self.write_burst_ns),
        ])?;
        if let Some(Energy { read_nj, write_nj }) = self.energy {
            times(&[("read_nj", read_nj), ("write_nj", write_nj)])?;
        }
        let Some(inside) = &self.inside else { return Ok(()) };
        inside.validate().map_err(|what| format!("inside: {what}"))?;
        if inside.block_bytes > self.interleave_bytes {
            return Err("interleave_bytes must hold a block".to_owned());
        }
        Ok(())
    }
}

impl InsideConfig {
    fn validate(&self) -> Result<(), String> {
        sourced(&self.source)?;
        power("block_bytes", self.block_bytes, 4096)?;
        power("translation_bytes", self.translation_bytes, 1 << 40)?;
        let buffers = [
            ("buffer_blocks", self.buffer_blocks),
            ("buffer_draws", self.buffer_draws),
            ("write_out_blocks", self.write_out_blocks),
        ];
        counts(&buffers, LARGEST_QUEUE)?;
        counts(&[("translations", self.translations)], LARGEST_TABLE as usize)?;
        times(&[
            ("open_read_ns", self.open_read_ns),
            ("buffer_read_ns", self.buffer_read_ns),
            ("buffer_write_ns", self.buffer_write_ns),
            ("write_start_ns", self.write_start_ns),
            ("media_read_ns", self.media_read_ns),
            ("media_read_busy_ns", self.media_read_busy_ns),
            ("media_write_ns", self.media_write_ns),
            ("translation_ns", self.translation_ns),
            ("wear_move_ns", self.wear_move_ns),
        ])
    }
}

impl DramCache {
    fn validate(&self) -> Result<(), String> {
        sourced(&self.source)?;
        power("block_bytes", self.block_bytes, 4096)?;
        times(&[("lookup_ns", self.lookup_ns)])?;
        if self.victim_blocks.is_some_and(|blocks| blocks > LARGEST_QUEUE) {
            return Err(format!("victim_blocks is at most {LARGEST_QUEUE}"));
        }
        let blocks = self.bytes / self.block_bytes;
        let ways = if self.ways == 0 { blocks } else { self.ways as u64 };
        if !(1..=LARGEST_TABLE).contains(&blocks) || !blocks.is_multiple_of(ways) {
            let what = format!("bytes must be 1 to {LARGEST_TABLE} blocks, in whole sets");
            return Err(what);
        }
        self.device.validate()?;
        if self.device.inside.is_some() {
            return Err("its device is plain banks".to_owned());
        }
        Ok(())
    }
}

fn sourced(source: &str) -> Result<(), String> {
    if source.trim().is_empty() { Err("a source is missing".to_owned()) } else { Ok(()) }
}

fn counts(named: &[(&str, usize)], largest: usize) -> Result<(), String> {
    match named.iter().find(|(_, count)| !(1..=largest).contains(count)) {
        Some((name, _)) => Err(format!("{name} must be from 1 to {largest}")),
        None => Ok(()),
    }
}

fn times(named: &[(&str, f64)]) -> Result<(), String> {
    match named.iter().find(|(_, time)| !(0.0..=LONGEST_NS).contains(time)) {
        Some((name, _)) => Err(format!("{name} must be from 0 to {LONGEST_NS}")),
        None => Ok(()),
    }
}

fn power(name: &str, bytes: u64, largest: u64) -> Result<(), String> {
    if bytes.is_power_of_two() && (64..=largest).contains(&bytes) {
        return Ok(());
    }
    Err(format!("{name} must be a power of two from 64 to {largest}"))
}
