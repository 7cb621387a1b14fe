//! The controller and the devices behind it.

use serde::{Deserialize, Serialize};

/// What is beyond the caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryConfig {
    /// The queues.
    pub controller: ControllerConfig,
    /// Where the data lives: NVM, or DRAM on a machine without any.
    pub home: Device,
    /// DRAM that caches the home device, if there is some. What is in it is not durable.
    pub dram_cache: Option<DramCache>,
}

/// The memory controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerConfig {
    /// Where the figures are from.
    pub source: String,
    /// Time from the last cache to the device's command and back, besides the device's own, ns.
    pub static_read_ns: f64,
    /// Time from the last cache until a line is in the write queue, ns: durable from there on.
    pub static_write_ns: f64,
    /// Lines that the read queue holds.
    pub read_queue: usize,
    /// Lines that the write queue (write-pending queue) holds.
    pub write_queue: usize,
    /// Share of the write queue from which on writes go before reads.
    pub drain_from: f64,
    /// Share of the write queue at which reads go first again.
    pub drain_to: f64,
    /// Writes at least that a drain makes.
    pub drain_least: usize,
    /// Time to turn the bus between reads and writes, ns.
    pub turnaround_ns: f64,
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
    /// Read of a line in the row buffer, ns (tCL).
    pub row_hit_ns: f64,
    /// Opening a row, ns (tRCD).
    pub activate_ns: f64,
    /// Closing a row that was not written to, ns (tRP).
    pub precharge_ns: f64,
    /// Time that a bank is busy with a written line after its data came, ns (tWR, tWP).
    pub write_ns: f64,
    /// Whether a write goes through the row buffer (DRAM) or to the cells at once (NVM).
    pub write_through: bool,
    /// Time of a line on the bus, ns: 64 bytes at the bandwidth for reads.
    pub read_burst_ns: f64,
    /// The same for writes.
    pub write_burst_ns: f64,
    /// What is inside of an Optane-like device; absent for plain banks.
    pub inside: Option<InsideConfig>,
    /// What accesses cost in energy; absent where nobody has published it.
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

/// Buffers inside of a device whose media has larger blocks than lines (Optane).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InsideConfig {
    /// Where the figures are from.
    pub source: String,
    /// Bytes of a block of the media.
    pub block_bytes: u64,
    /// Blocks in the read-modify-write buffer.
    pub buffer_blocks: usize,
    /// Read of a line in that buffer, ns.
    pub buffer_read_ns: f64,
    /// Write of a line into that buffer, ns.
    pub buffer_write_ns: f64,
    /// Read of a block from the media, ns.
    pub media_read_ns: f64,
    /// Write of a block to the media, ns.
    pub media_write_ns: f64,
    /// Pages whose translation is at hand.
    pub translations: usize,
    /// Bytes of such a page.
    pub translation_bytes: u64,
    /// What a translation that is not at hand costs, ns.
    pub translation_ns: f64,
    /// Writes of one block after which the device moves it; 0: never.
    pub wear_moves_after: u64,
    /// How long it stands still then, ns.
    pub wear_move_ns: f64,
}

/// DRAM as a cache of the home device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DramCache {
    /// Where the figures are from.
    pub source: String,
    /// Bytes.
    pub bytes: u64,
    /// Blocks in a set; 0: any block anywhere.
    pub ways: usize,
    /// Bytes of a block: what is fetched and replaced as one.
    pub block_bytes: u64,
    /// Time to find a block, ns.
    pub lookup_ns: f64,
    /// The DRAM itself.
    pub device: Device,
}

impl MemoryConfig {
    /// Fails if it cannot be built.
    pub(super) fn validate(&self) -> Result<(), String> {
        let ControllerConfig { read_queue, write_queue, drain_from, drain_to, .. } =
            self.controller;
        if read_queue == 0 || write_queue == 0 {
            return Err("the controller's queues must hold something".to_owned());
        }
        if !(0.0..=1.0).contains(&drain_to) || !(drain_to..=1.0).contains(&drain_from) {
            return Err("0 <= drain_to <= drain_from <= 1 must hold".to_owned());
        }
        self.home.validate()?;
        match &self.dram_cache {
            Some(cache) if cache.block_bytes < 64 || cache.bytes < cache.block_bytes => {
                Err("the DRAM cache must hold a block of 64 bytes or more".to_owned())
            }
            Some(cache) => cache.device.validate(),
            None => Ok(()),
        }
    }
}

impl Device {
    fn validate(&self) -> Result<(), String> {
        let power = |bytes: u64| bytes >= 64 && bytes.is_power_of_two();
        if self.channels == 0 || self.banks == 0 {
            return Err("a device needs a channel and a bank".to_owned());
        }
        if !power(self.interleave_bytes) || !power(self.row_bytes) {
            return Err("interleave_bytes and row_bytes are powers of two from 64 on".to_owned());
        }
        Ok(())
    }
}
