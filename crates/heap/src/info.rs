//! Information about a pool, for people and programs.

use crate::alloc::space::{Space, Usage};
use crate::superblock::{State, Superblock, VERSION};
use perdura_engine::EngineKind;
use perdura_memory::{Domain, Mapped, Memory, PAGE, Survives};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// All information about a pool.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let pool = perdura::Options::new().size(8 << 20).create(folder.path().join("a.pool"))?;
/// let info = pool.info();
/// assert_eq!(info.engine, "redo");
/// println!("{} of {} bytes are in use; {}", info.used_bytes, info.limit, info.durability);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    /// The file.
    pub path: String,
    /// Identifies the pool; a copy has the same.
    pub id: String,
    /// Version of the pool's format.
    pub format: u64,
    /// Name of its engine.
    pub engine: String,
    /// How it was left.
    pub state: State,
    /// Whether a process has it open.
    pub in_use: bool,
    /// Bytes of the file.
    pub bytes: u64,
    /// Limit to which it grows, in bytes, as it is opened now.
    pub limit: u64,
    /// Limit to which it grows when it is opened without a limit.
    pub own_limit: u64,
    /// Bytes of log.
    pub log_bytes: u64,
    /// Whether all pages have checksums, or only the page table and the named roots.
    pub checksums: bool,
    /// Bytes of the file that are allocated to objects, or in limbo.
    pub used_bytes: u64,
    /// The free space of the file as it is now.
    pub usage: Usage,
    /// Bytes that objects can still take until the limit is reached: those of whole free pages, of the pages that the
    /// file may still grow by, and of the pages that become free when an allocation that finds no room moves others'
    /// objects together. Objects of any size can take them, except that one of several pages needs adjacent ones: all
    /// but byte strings and maps, a vector's segments of up to 1 MiB for instance, and objects of programs' own. Free
    /// slots beside other objects, which take objects of the same class only, are not in it:
    /// [`Usage::free_slot_bytes`] has all free slots.
    ///
    /// It is an estimate: collections' headers, vectors' segments, and programs' own objects stay where they
    /// are, which the pool learns when it tries to empty their pages.
    pub free_bytes: u64,
    /// Bytes that are freed and have left the log, and that are held back for running transactions, which may still
    /// reach them. 0 unless the pool is open.
    #[serde(skip)]
    pub pinned_bytes: u64,
    /// For how long, at least, the oldest of these transactions has been running; `None` if none is known. It counts
    /// from when the transaction was first found in the way of a commit or a checkpoint, or by this call.
    #[serde(skip)]
    pub oldest_transaction: Option<Duration>,
    /// The persistence domain.
    pub domain: Domain,
    /// The failures that transactions outlive here.
    pub survives: Survives,
    /// The same, described in words.
    pub durability: String,
    /// The failures that transactions must outlive for the pool to be opened.
    pub requires: Survives,
    /// The instruction that writes lines back.
    pub flush: String,
    /// Other processor features that matter.
    pub features: String,
}

impl Info {
    /// Of a pool that is open, or mapped for inspection.
    pub fn new(path: &Path, memory: &Mapped, superblock: &Superblock, space: &Space) -> Self {
        let usage = space.usage();
        let bytes = memory.len();
        let free = usage.free_page_bytes + usage.free_slot_bytes;
        // An open pool may have a limit other than its own.
        let limit = if memory.is_read_only() { superblock.limit } else { memory.limit() };
        let engine: Option<EngineKind> = superblock.engine.parse().ok();
        let keeps_log = engine.is_none_or(EngineKind::is_crash_consistent);
        let durability = match keeps_log {
            true => memory.describe(),
            false => format!(
                "the engine {} keeps no log: unless the pool is closed, its contents are undefined afterwards, whatever \
                 was acknowledged",
                superblock.engine
            ),
        };
        Info {
            path: path.display().to_string(),
            id: format!("{:016x}", superblock.id),
            format: VERSION,
            engine: superblock.engine.clone(),
            state: superblock.state,
            in_use: memory.in_use() || !memory.is_read_only(),
            bytes,
            limit,
            own_limit: superblock.limit,
            log_bytes: superblock.log.end - superblock.log.start,
            checksums: superblock.checksums,
            used_bytes: bytes.saturating_sub(superblock.layout.pages).saturating_sub(free),
            usage,
            free_bytes: usage.free_page_bytes
                + space.emptiable() * PAGE
                + limit.saturating_sub(bytes),
            pinned_bytes: 0,
            oldest_transaction: None,
            domain: memory.domain(),
            survives: if keeps_log { memory.survives() } else { Survives::Nothing },
            durability,
            requires: superblock.requires,
            flush: memory.features().flush.to_string(),
            features: memory.features().to_string(),
        }
    }
}
