//! A writer's pages before they are committed, in ordinary memory.
//!
//! Invariants: a page is staged whole. Of the committed database the stage shows only what lies before `base_end`, the
//! least length to which the writer has cut the file; beyond it are zeros.

use crate::codes::Result;
use crate::page::Page;
use std::collections::BTreeMap;

/// The page size until the first write tells it.
pub(crate) const DEFAULT_PAGE_SIZE: u64 = 4096;

/// The pages that a writer has written, and the length it has given the file.
#[derive(Default)]
pub(crate) struct Stage {
    /// Whether anything was written or cut.
    pub(crate) dirty: bool,
    pub(crate) page_size: u64,
    pub(crate) length: u64,
    pub(crate) base_end: u64,
    pub(crate) pages: BTreeMap<u64, Page>,
}

/// Calls `piece` with each page that `len` bytes from `at` lie in: its number, and the range in it and in the bytes.
pub(crate) fn pieces<E>(
    page_size: u64,
    at: u64,
    len: usize,
    mut piece: impl FnMut(u64, std::ops::Range<usize>, std::ops::Range<usize>) -> Result<(), E>,
) -> Result<(), E> {
    let mut done = 0;
    while done < len {
        let place = at + done as u64;
        let within = (place % page_size) as usize;
        let part = (page_size as usize - within).min(len - done);
        piece(place / page_size, within..within + part, done..done + part)?;
        done += part;
    }
    Ok(())
}

impl Stage {
    /// Begins to stage changes of a database of this page size and length, unless that has begun.
    pub(crate) fn begin(&mut self, page_size: u64, length: u64) {
        if !self.dirty {
            *self = Stage { dirty: true, page_size, length, base_end: length, ..Stage::default() };
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Stage::default();
    }

    /// A staged page.
    pub(crate) fn page(&self, page: u64) -> Option<&[u8]> {
        self.pages.get(&page).map(|bytes| &**bytes)
    }

    /// Writes bytes; `base` reads a page of the committed database.
    pub(crate) fn write(
        &mut self,
        at: u64,
        bytes: &[u8],
        mut base: impl FnMut(u64, &mut [u8]) -> Result,
    ) -> Result {
        let len = bytes.len() as u64;
        if self.base_end == 0 && self.pages.is_empty() && crate::pages::is_page_size(len) {
            // The first page of a new database, or of one that was emptied.
            if at.is_multiple_of(len) {
                self.page_size = len;
            }
        }
        let (page_size, base_end) = (self.page_size, self.base_end);
        let pages = &mut self.pages;
        pieces(page_size, at, bytes.len(), |page, within, part| -> Result {
            if within.len() == page_size as usize {
                pages.insert(page, Page::copy(&bytes[part])?);
                return Ok(());
            }
            let staged = match pages.entry(page) {
                std::collections::btree_map::Entry::Occupied(staged) => staged.into_mut(),
                std::collections::btree_map::Entry::Vacant(vacant) => {
                    let mut whole = Page::zeros(page_size as usize)?;
                    read_base(page_size, base_end, page, &mut whole, &mut base)?;
                    vacant.insert(whole)
                }
            };
            staged[within].copy_from_slice(&bytes[part]);
            Ok(())
        })?;
        self.length = self.length.max(at + len);
        Ok(())
    }

    /// Cuts or extends the file.
    pub(crate) fn truncate(
        &mut self,
        length: u64,
        mut base: impl FnMut(u64, &mut [u8]) -> Result,
    ) -> Result {
        let (page_size, within) = (self.page_size, (length % self.page_size) as usize);
        if length < self.length && within > 0 {
            // The rest of the last page reads as zeros when the file grows again.
            let page = length / page_size;
            let mut whole = Page::zeros(page_size as usize)?;
            match self.pages.get(&page) {
                Some(staged) => whole.copy_from_slice(staged),
                None => read_base(page_size, self.base_end, page, &mut whole, &mut base)?,
            }
            whole[within..].fill(0);
            self.pages.insert(page, whole);
        }
        self.pages.split_off(&length.div_ceil(page_size));
        self.length = length;
        self.base_end = self.base_end.min(length);
        Ok(())
    }

    /// Reads a page as the writer sees it.
    pub(crate) fn read_page<E>(
        &self,
        page: u64,
        to: &mut [u8],
        mut base: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(staged) = self.page(page) {
            to.copy_from_slice(staged);
            return Ok(());
        }
        read_base(self.page_size, self.base_end, page, to, &mut base)
    }
}

/// Reads a page of the committed database; zeros from `end` on.
fn read_base<E>(
    page_size: u64,
    end: u64,
    page: u64,
    to: &mut [u8],
    base: &mut impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let begin = page * page_size;
    if begin >= end {
        to.fill(0);
        return Ok(());
    }
    base(page, to)?;
    let kept = (end - begin).min(page_size) as usize;
    to[kept..].fill(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A committed database of `len` bytes, all 7.
    fn base(_: u64, to: &mut [u8]) -> Result {
        to.fill(7);
        Ok(())
    }

    fn read(stage: &Stage, page: u64) -> Vec<u8> {
        let mut bytes = vec![1; stage.page_size as usize];
        stage.read_page(page, &mut bytes, base).unwrap();
        bytes
    }

    #[test]
    fn bytes_beyond_a_cut_are_zero_when_the_file_grows_again() {
        let mut stage = Stage::default();
        stage.begin(512, 2048);
        stage.truncate(700, base).unwrap();
        stage.write(1600, &[9; 10], base).unwrap();
        assert_eq!(read(&stage, 0), [7; 512]);
        assert_eq!(read(&stage, 1), [vec![7; 188], vec![0; 324]].concat());
        assert_eq!(read(&stage, 2), [0; 512]);
        assert_eq!(read(&stage, 3), [vec![0; 64], vec![9; 10], vec![0; 438]].concat());
        assert_eq!(stage.length, 1610);
    }

    #[test]
    fn a_write_may_cross_pages_and_keeps_the_bytes_around_it() {
        let mut stage = Stage::default();
        stage.begin(512, 2048);
        stage.write(500, &[3; 20], base).unwrap();
        assert_eq!(read(&stage, 0), [vec![7; 500], vec![3; 12]].concat());
        assert_eq!(read(&stage, 1), [vec![3; 8], vec![7; 504]].concat());
        assert_eq!(stage.length, 2048);
    }

    #[test]
    fn the_first_write_of_an_empty_file_tells_the_page_size() {
        let mut stage = Stage::default();
        stage.begin(DEFAULT_PAGE_SIZE, 0);
        stage.write(0, &[1; 65536], base).unwrap();
        assert_eq!(stage.page_size, 65536);
        stage.truncate(0, base).unwrap();
        stage.write(1024, &[1; 1024], base).unwrap();
        assert_eq!((stage.page_size, stage.length), (1024, 2048));
        stage.write(0, &[1; 100], base).unwrap();
        assert_eq!(stage.page_size, 1024);
    }
}
