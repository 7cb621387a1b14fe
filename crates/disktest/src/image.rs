//! Images: possible contents of a device after a power cut, drawn by a seed, in a file to be opened.
//!
//! What always holds: the same trace, crash point and seed give the same image.

use crate::device::DeviceState;
use crate::trace::Trace;
use crate::{Outcome, Trouble};
use perdura_memory::random::SplitMix64;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The possible units that devices write whole or not at all, in bytes: a cache line, the least by the persistency
/// model; a sector; a page.
pub const UNITS: [usize; 3] = [64, 512, 4096];
/// The most writes named in a description.
const NAMED: usize = 12;
const PAGE: usize = 4096;

/// Which image of a crash point: the seed of all random choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageSeed(pub u64);

impl ImageSeed {
    /// The unit of this image.
    pub fn unit(self) -> usize {
        UNITS[self.random().below(UNITS.len() as u64) as usize]
    }

    fn random(self) -> SplitMix64 {
        SplitMix64::new(self.0)
    }
}

/// One possible content of a device.
#[derive(Clone, Debug)]
pub struct ImageChoice {
    how: &'static str,
    unit: usize,
    length: u64,
    /// For each block with several possible contents, how many of its pending pieces it has.
    pieces: BTreeMap<usize, usize>,
    /// For each write that is not durable, how many of its blocks have it, and how many blocks it has.
    writes: BTreeMap<usize, (usize, usize)>,
}

impl ImageChoice {
    /// Draws one of the images that `state` allows.
    pub fn draw(state: &DeviceState, seed: ImageSeed) -> Self {
        let mut random = seed.random();
        // Skips the draw of the unit, which is that of the state.
        random.next();
        let (how, pieces) = draw_pieces(state, &mut random);
        let lengths = state.lengths();
        let length = lengths[random.below(lengths.len() as u64) as usize];
        let mut writes: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        for (block, pending) in state.pending() {
            for (index, piece) in pending.iter().enumerate() {
                let (kept, all) = writes.entry(piece.record).or_default();
                *kept += usize::from(index < pieces[block]);
                *all += 1;
            }
        }
        ImageChoice { how, unit: state.unit(), length, pieces, writes }
    }

    /// Its bytes.
    pub fn bytes(&self, state: &DeviceState, trace: &Trace) -> Vec<u8> {
        state.image(trace, self.length, &self.pieces)
    }
}

/// For each pending block, how many pieces it has; and a description of how they were chosen.
fn draw_pieces(
    state: &DeviceState,
    random: &mut SplitMix64,
) -> (&'static str, BTreeMap<usize, usize>) {
    let pending = state.pending();
    let writes: Vec<usize> = {
        let all = pending.values().flatten().map(|piece| piece.record);
        all.collect::<BTreeSet<_>>().into_iter().collect()
    };
    let mut below = |bound: usize| random.below(bound.max(1) as u64) as usize;
    let way = below(16);
    let one = writes.get(below(writes.len())).copied().unwrap_or(0);
    let block = pending.keys().nth(below(pending.len())).copied().unwrap_or(0);
    // In eighths: the probability that a block, or a write, is kept.
    let likely = [1, 4, 7][below(3)];
    let kept: BTreeSet<usize> = match way {
        10..13 => writes.iter().copied().filter(|_| below(8) < likely).collect(),
        _ => BTreeSet::new(),
    };
    let mut count = |at: usize, pieces: &[crate::device::Piece]| {
        let all = pieces.len();
        // A block that has a write also has the writes before it.
        let until = |has: &dyn Fn(usize) -> bool| {
            pieces.iter().rposition(|piece| has(piece.record)).map_or(0, |last| last + 1)
        };
        match way {
            0 => 0,
            1 => all,
            2 if at == block => 1 + below(all),
            2 => 0,
            3 if at == block => below(all),
            3 => all,
            4..6 => until(&|record| record == one),
            6..8 => until(&|record| record != one),
            8 => until(&|record| record >= one),
            9 => until(&|record| record < one),
            10..13 => until(&|record| kept.contains(&record)),
            _ if below(8) < likely => 1 + below(all),
            _ => 0,
        }
    };
    let pieces = pending.iter().map(|(at, pieces)| (*at, count(*at, pieces))).collect();
    let how = match way {
        0 => "nothing that was not synced",
        1 => "everything that was written",
        2 => "one block alone",
        3 => "all but one block",
        4..6 => "one write alone",
        6..8 => "all but one write",
        8 => "the last writes without the first",
        9 => "the first writes without the last",
        10..13 => "some writes, by chance",
        _ => "some blocks, by chance",
    };
    (how, pieces)
}

impl fmt::Display for ImageChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |wanted: fn(usize, usize) -> bool| {
            let found = self.writes.iter().filter(|(_, (kept, all))| wanted(*kept, *all));
            let records: Vec<usize> = found.map(|(record, _)| *record).collect();
            let named: Vec<String> = records.iter().take(NAMED).map(usize::to_string).collect();
            match records.len() {
                0 => "none".to_owned(),
                len if len > NAMED => format!("{} and {} more", named.join(" "), len - NAMED),
                _ => named.join(" "),
            }
        };
        write!(
            f,
            "{}, torn at {} bytes, {} bytes long; of the writes not synced, by their records in the trace: \
             kept {}; kept in part {}; lost {}",
            self.how,
            self.unit,
            self.length,
            all(|kept, all| kept == all),
            all(|kept, all| kept > 0 && kept < all),
            all(|kept, _| kept == 0),
        )
    }
}

/// A file that holds one image after another; only the differences are written.
pub struct ImageFile {
    path: PathBuf,
    file: File,
    holds: Vec<u8>,
}

impl ImageFile {
    /// An empty file at `path`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(path: PathBuf) -> Outcome<Self> {
        let file = File::create(&path).map_err(Trouble::at(&path))?;
        Ok(ImageFile { path, file, holds: Vec::new() })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets its contents to `bytes`. No process may have it open.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set(&mut self, bytes: Vec<u8>) -> Outcome {
        let trouble = Trouble::at(&self.path);
        if bytes.len() != self.holds.len() {
            self.file.set_len(bytes.len() as u64).map_err(&trouble)?;
            self.holds.resize(bytes.len(), 0);
        }
        let pages = bytes.chunks(PAGE).zip(self.holds.chunks(PAGE));
        for (index, (wanted, held)) in pages.enumerate() {
            if wanted != held {
                self.file.write_all_at(wanted, (index * PAGE) as u64).map_err(&trouble)?;
            }
        }
        self.holds = bytes;
        Ok(())
    }
}

impl Drop for ImageFile {
    fn drop(&mut self) {
        // Its folder will be removed as well.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::mapped::record::Record;

    #[test]
    fn every_image_of_a_few_blocks_is_drawn_and_a_seed_is_an_image() {
        let writes =
            [Record::Opened(256), Record::Write(0, &[1; 128]), Record::Write(64, &[2; 128])];
        let trace = Trace::new(writes.iter().flat_map(Record::encode).collect());
        let mut state = DeviceState::new(64);
        state.advance(&trace, trace.len());
        let mut found = BTreeSet::new();
        for seed in 0..2000 {
            let draw = || ImageChoice::draw(&state, ImageSeed(seed));
            let image = draw().bytes(&state, &trace);
            assert_eq!(image, draw().bytes(&state, &trace));
            found.insert([image[0], image[64], image[128]]);
        }
        // The second block has two writes: none, the first, both.
        assert_eq!(found.len(), 2 * 3 * 2, "{found:?}");
    }

    #[test]
    fn the_file_holds_the_last_image() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut file = ImageFile::new(folder.path().join("image")).expect("a file");
        for image in [vec![1; 10_000], vec![2; 5000], vec![0; 9000], vec![]] {
            file.set(image.clone()).expect("to write");
            assert_eq!(std::fs::read(file.path()).expect("to read"), image);
        }
    }
}
