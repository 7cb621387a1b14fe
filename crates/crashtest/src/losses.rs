//! Lines lost by power cuts in engines that skip write-backs: Archapt's Table IV.

use perdura::superblock::Superblock;
use perdura::{Engine, EngineKind, Error, Memory, OnEngine};
use perdura_engine::area::Geometry;
use perdura_engine::groups::deferred::{Layout, examine};
use perdura_memory::{AnyMemory, LINE, Ram, WORD};
use serde::Serialize;
use std::collections::BTreeSet;
use std::ops::Add;
use std::sync::Arc;

/// The result of some power cuts. Lines are counted separately for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Power cuts.
    pub cuts: u64,
    /// Deferred lines: left to the caches, protected by checksums.
    #[serde(rename = "covered")]
    pub deferred: u64,
    /// Of these, the ones whose contents, after the log has been applied, differ from what they would be if all caches
    /// had survived the power cut.
    pub inconsistent: u64,
    /// Of these, the ones that checksums have detected.
    pub detected: u64,
    /// Of these, the ones that checksums could not restore.
    pub uncorrected: u64,
    /// Power cuts after which the pool was refused, since some lines could not be restored.
    pub refused: u64,
}

impl Add for Losses {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Losses {
            cuts: self.cuts + other.cuts,
            deferred: self.deferred + other.deferred,
            inconsistent: self.inconsistent + other.inconsistent,
            detected: self.detected + other.detected,
            uncorrected: self.uncorrected + other.uncorrected,
            refused: self.refused + other.refused,
        }
    }
}

/// Recovers the image that a power cut left (`durable`), and the one that it would have left with everything written
/// back (`visible`), and compares them. The power cut was between two transactions of a single core.
///
/// # Errors
/// If one of the images is no pool of an engine that skips write-backs, or if recovery restored a line to contents that
/// it never had.
pub fn losses(durable: &[u64], visible: &[u64]) -> Result<Losses, String> {
    let truth = ram(visible);
    let header = Superblock::read(&truth).map_err(|error| error.to_string())?;
    match header.engine.parse::<EngineKind>() {
        Ok(kind) if kind.skips() => {
            kind.run(Compare { durable: &ram(durable), truth: &truth, header: &header })
        }
        _ => Err(format!("the engine {} skips no write-backs", header.engine)),
    }
}

struct Compare<'a> {
    durable: &'a AnyMemory,
    truth: &'a AnyMemory,
    header: &'a Superblock,
}

impl OnEngine<AnyMemory> for Compare<'_> {
    type Output = Result<Losses, String>;

    fn run<E: Engine<AnyMemory>>(self) -> Self::Output {
        compare::<E>(self.durable, self.truth, self.header)
    }
}

fn ram(words: &[u64]) -> AnyMemory {
    let ram = Ram::new(words.len() as u64 * WORD);
    ram.copy_in(0, bytemuck::cast_slice(words));
    AnyMemory::new(Arc::new(ram))
}

fn compare<E: Engine<AnyMemory>>(
    durable: &AnyMemory,
    truth: &AnyMemory,
    header: &Superblock,
) -> Result<Losses, String> {
    let text = |error: Error| error.to_string();
    let geometry = Geometry::read(truth, header.log.clone(), E::NAME).map_err(text)?;
    let before = geometry.checkpoint(truth).map_err(text)?;
    let recovery = E::recover(truth, header.log.clone()).map_err(text)?;
    if recovery.corrected > 0 {
        return Err("checksums are wrong where nothing was lost".to_owned());
    }
    let recovered = E::recover(durable, header.log.clone());
    // Rolled-back transactions are after the checkpoint.
    let last = match recovery.rolled_back {
        0 => geometry.checkpoint(truth).map_err(text)?.ticket,
        _ => before.ticket,
    };
    let layout = Layout::of(&geometry, before.salt);
    // The batches are still there. Lines that are neither deferred nor logged do not count: memory without an owner may
    // hold anything.
    let deferred = examine(truth, layout, last).map_err(text)?.deferred;
    let wrong: Vec<u64> =
        deferred.into_iter().filter(|line| differ(durable, truth, *line)).collect();
    let mut losses = Losses { cuts: 1, deferred: recovery.deferred, ..Losses::default() };
    match recovered {
        Ok(mended) => {
            losses.inconsistent = mended.corrected + wrong.len() as u64;
            losses.detected = mended.corrected;
        }
        Err(Error::Lost { .. }) => {
            // The log has been applied, and nothing restored.
            let found = examine(durable, layout, last).map_err(text)?;
            let hopeless: BTreeSet<u64> = found.hopeless.into_iter().collect();
            let corrected = found.corrected.iter().chain(&found.taken_back);
            let corrected: BTreeSet<u64> = corrected.map(|(line, _)| *line).collect();
            let count = |of: &BTreeSet<u64>| wrong.iter().filter(|line| of.contains(line)).count();
            losses.inconsistent = wrong.len() as u64;
            losses.uncorrected = count(&hopeless) as u64;
            losses.detected = losses.uncorrected + count(&corrected) as u64;
            losses.refused = 1;
        }
        Err(error) => return Err(text(error)),
    }
    Ok(losses)
}

fn differ(one: &AnyMemory, other: &AnyMemory, line: u64) -> bool {
    (line..line + LINE).step_by(WORD as usize).any(|at| one.load(at) != other.load(at))
}
