//! Examination after a power cut: which deferred lines are lost, and their contents.

use super::batch::{Batch, block_at};
use super::images::{for_each_image, read_all};
use super::place::Layout;
use super::restore::{FoundLine, RestoreOutcome, restore};
use crate::{Error, Result};
use perdura_memory::keyed::{Block, Summer};
use perdura_memory::{LINE, Memory};

/// What the checksums of a pool say, given its log. See [`examine`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examination {
    /// The deferred lines, ascending.
    pub deferred: Vec<u64>,
    /// Of these, the lost ones, with the contents they should have.
    pub corrected: Vec<(u64, Block)>,
    /// Of these, the ones that differ from their before-image, with the image: a group that does not count stored to
    /// them, or they are lost.
    pub taken_back: Vec<(u64, Block)>,
    /// Lines of which some are lost and cannot be restored.
    pub hopeless: Vec<u64>,
}

/// A before-image: the line, the group that was about to store to it, and its contents.
type Image = (u64, u64, Block);

/// Examines every batch, as left by the groups up to `last`. Reads only.
///
/// # Errors
/// `Corrupt` where deferred lines lie outside the pool.
pub fn examine<M: Memory>(memory: &M, layout: Layout, last: u64) -> Result<Examination> {
    let images = images_in(memory, &layout)?;
    let mut found = Examination::default();
    for slot in 0..layout.slots() {
        let Some(batch) = Batch::read(memory, &layout, slot) else { continue };
        if batch.ticket <= last {
            examine_batch(memory, &batch, &images, last, &mut found)?;
        }
    }
    found.deferred.sort_unstable();
    found.deferred.dedup();
    found.corrected.sort_unstable();
    found.corrected.dedup();
    Ok(found)
}

fn images_in<M: Memory>(memory: &M, layout: &Layout) -> Result<Vec<Image>> {
    let mut images = Vec::new();
    for found in &read_all(memory, layout) {
        for_each_image(found, |image| images.push((image.line, found.part.ticket, image.words)))?;
    }
    images.sort_unstable();
    Ok(images)
}

fn examine_batch<M: Memory>(
    memory: &M,
    batch: &Batch,
    images: &[Image],
    last: u64,
    found: &mut Examination,
) -> Result<()> {
    if let Some(&beyond) = batch.lines.iter().find(|line| !memory.contains(**line, LINE)) {
        return Err(Error::corrupt("checksums of a line beyond the pool's end", beyond));
    }
    // The first image since: its contents are in the sums.
    let since = |line: u64| {
        let first = images.partition_point(|image| (image.0, image.1) <= (line, batch.ticket));
        images.get(first).filter(|image| image.0 == line)
    };
    let images: Vec<Option<&Image>> = batch.lines.iter().map(|line| since(*line)).collect();
    let line = |(position, image): (usize, &Option<&Image>)| FoundLine {
        at: batch.parts.matrix.at(position),
        block: image.map_or_else(|| block_at(memory, batch.lines[position]), |image| image.2),
        tag: batch.tag(position),
    };
    let lines: Vec<FoundLine> = images.iter().enumerate().map(line).collect();
    let sums: Vec<Block> = (0..batch.parts.matrix.sums()).map(|sum| *batch.sum(sum)).collect();
    let RestoreOutcome { restored, hopeless } =
        restore(Summer::best(), &batch.parts.matrix, &lines, &sums);
    // If the group that was about to store to a line does not count, the line is still deferred.
    let is_deferred = |position: &usize| images[*position].is_none_or(|image| image.1 > last);
    for position in (0..lines.len()).filter(is_deferred) {
        let line = batch.lines[position];
        found.deferred.push(line);
        let image = images[position].filter(|image| image.2 != block_at(memory, line));
        found.taken_back.extend(image.map(|image| (line, image.2)));
    }
    let restored = restored.into_iter().filter(|(position, _)| is_deferred(position));
    found.corrected.extend(restored.map(|(position, block)| (batch.lines[position], block)));
    let hopeless = hopeless.into_iter().filter(is_deferred);
    found.hopeless.extend(hopeless.map(|position| batch.lines[position]));
    Ok(())
}

impl Examination {
    /// Restores lost lines, and asks for every deferred line to become durable: once the caller has fenced, no line is
    /// deferred any more.
    ///
    /// # Errors
    /// `Lost` where a line cannot be restored; nothing is stored then.
    pub(crate) fn mend<M: Memory>(&self, memory: &M) -> Result<()> {
        if let Some(&at) = self.hopeless.first() {
            return Err(Error::Lost { lines: self.hopeless.len() as u64, at });
        }
        for (line, block) in self.corrected.iter().chain(&self.taken_back) {
            memory.copy_in(*line, bytemuck::cast_slice(block));
        }
        self.deferred.iter().for_each(|line| memory.write_back(*line, LINE));
        Ok(())
    }
}
