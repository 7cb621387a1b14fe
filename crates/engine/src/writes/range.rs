//! Written words in a range of bytes, given a source of each line's words.

use super::line::LineWrite;
use perdura_memory::{LINE, line_of, lines_in};
use std::borrow::Borrow;

/// Whether `written` has a word of `[at, at + len)`, both multiples of 8.
pub(crate) fn any_words<W: Borrow<LineWrite>>(
    written: impl Fn(u64) -> Option<W>,
    at: u64,
    len: u64,
) -> bool {
    let end = at + len;
    (0..lines_in(at, len)).any(|index| {
        let line = line_of(at) + index * LINE;
        let words = (at.max(line) - line) / 8..(end.min(line + LINE) - line) / 8;
        let written = written(line).map_or(0, |entry| u64::from(entry.borrow().mask));
        words.into_iter().any(|word| written & 1 << word != 0)
    })
}

/// Puts the words that `written` has of the lines of `[at, at + to.len())` over the contents of `to`. Returns whether
/// there were any.
pub(crate) fn lay_over<W: Borrow<LineWrite>>(
    written: impl Fn(u64) -> Option<W>,
    at: u64,
    to: &mut [u8],
) -> bool {
    let end = at + to.len() as u64;
    let mut any = false;
    for index in 0..lines_in(at, to.len() as u64) {
        let Some(entry) = written(line_of(at) + index * LINE) else { continue };
        let entry = entry.borrow();
        for word in (0..8).filter(|word| entry.mask & 1 << word != 0) {
            let start = entry.line + word as u64 * 8;
            let bytes = entry.words[word].to_ne_bytes();
            let (from, until) = (start.max(at), (start + 8).min(end));
            if from < until {
                any = true;
                to[(from - at) as usize..(until - at) as usize]
                    .copy_from_slice(&bytes[(from - start) as usize..(until - start) as usize]);
            }
        }
    }
    any
}
