//! A journal in ordinary memory.
//!
//! SQLite keeps its journal in memory by itself, since files here say that they are in memory. It opens one only when
//! `PRAGMA journal_mode` of another database has set a mode for all that are attached. What is committed does not
//! depend on it: it only serves to roll back.

use crate::codes::{IOERR_NOMEM, IOERR_SHORT_READ, Result};

/// The bytes.
#[derive(Default)]
pub(crate) struct Journal(Vec<u8>);

impl Journal {
    pub(crate) fn read(&self, to: &mut [u8], at: u64) -> Result {
        let from = self.0.get(at as usize..).unwrap_or_default();
        let there = from.len().min(to.len());
        to[..there].copy_from_slice(&from[..there]);
        to[there..].fill(0);
        if there < to.len() { Err(IOERR_SHORT_READ) } else { Ok(()) }
    }

    pub(crate) fn write(&mut self, bytes: &[u8], at: u64) -> Result {
        let (at, end) = (at as usize, at as usize + bytes.len());
        if self.0.len() < end {
            self.0.try_reserve(end - self.0.len()).map_err(|_| IOERR_NOMEM)?;
            self.0.resize(end, 0);
        }
        self.0[at..end].copy_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn truncate(&mut self, length: u64) -> Result {
        self.0.resize(length as usize, 0);
        Ok(())
    }

    pub(crate) fn length(&self) -> u64 {
        self.0.len() as u64
    }
}
