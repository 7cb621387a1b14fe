//! A page's bytes in ordinary memory, which is used again: a commit needs several pages, and an allocator takes longer
//! for them than for small blocks.

use crate::codes::{IOERR_NOMEM, Result};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Pages that a thread keeps for the next ones.
const SPARE: usize = 8;

thread_local! {
    static SPARES: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// A page.
#[derive(Debug)]
pub(crate) struct Page(Box<[u8]>);

impl Page {
    /// A copy of these bytes. Where there is no memory, the transaction fails, not the process.
    pub(crate) fn copy(from: &[u8]) -> Result<Self> {
        if let Some(mut spare) = spare(from.len()) {
            spare.copy_from_slice(from);
            return Ok(Page(spare));
        }
        let mut bytes = memory(from.len())?;
        bytes.extend_from_slice(from);
        Ok(Page(bytes.into_boxed_slice()))
    }

    /// So many bytes of any kind, which the caller overwrites.
    pub(crate) fn any(len: usize) -> Result<Self> {
        spare(len).map_or_else(|| Page::zeros(len), |spare| Ok(Page(spare)))
    }

    /// So many zeros.
    pub(crate) fn zeros(len: usize) -> Result<Self> {
        if let Some(mut spare) = spare(len) {
            spare.fill(0);
            return Ok(Page(spare));
        }
        let mut bytes = memory(len)?;
        bytes.resize(len, 0);
        Ok(Page(bytes.into_boxed_slice()))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.0);
        // A thread that ends has no spares any more.
        let _ = SPARES.try_with(|spares| {
            let mut spares = spares.borrow_mut();
            if spares.len() < SPARE {
                spares.push(bytes);
            }
        });
    }
}

impl Deref for Page {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Page {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// A spare page of this length; others, of databases with other pages, are let go.
fn spare(len: usize) -> Option<Box<[u8]>> {
    let spare = SPARES.try_with(|spares| spares.borrow_mut().pop()).ok().flatten();
    spare.filter(|spare| spare.len() == len)
}

fn memory(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| IOERR_NOMEM)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_nothing_of_the_one_that_had_its_memory() {
        let first = Page::copy(&[7; 512]).unwrap();
        let place = first.as_ptr();
        drop(first);
        let zeros = Page::zeros(512).unwrap();
        assert_eq!((&*zeros, zeros.as_ptr()), (&[0; 512][..], place));
        drop(zeros);
        let longer = Page::copy(&[3; 1024]).unwrap();
        assert_eq!(&*longer, [3; 1024]);
    }

    #[test]
    fn few_are_kept() {
        drop((0..100).map(|_| Page::zeros(512).unwrap()).collect::<Vec<_>>());
        assert_eq!(SPARES.with(|spares| spares.borrow().len()), SPARE);
    }
}
