//! The pieces of a long byte string.
//!
//! A piece is a block: whole pages, or a slot for the remainder. The first begins with the string's head and the
//! offset of the next piece, the others with that offset; 0 ends the chain. So a string needs no adjacent free pages,
//! and wastes less than a slot.
//!
//! Invariant: a piece's bytes begin at a multiple of a word and are whole words, and so is the total room of the
//! pieces before any one.

use super::compact;
use super::tag::BlobHead;
use crate::{Error, Fresh, Purpose, Result, Tx};
use std::ops::Range;

const PAGE: u64 = 4096;
/// Bytes of a piece's link.
const LINK: u64 = 8;
/// Bytes in the smallest first piece.
pub(super) const SMALLEST: u64 = PAGE / 2;
/// From this remainder on, no piece of its own is made for it.
const LARGE: u64 = 32 * PAGE;

/// Called with the address of some bytes, and their range in the string.
type Each<'a, T> = dyn FnMut(&mut T, u64, Range<usize>) -> Result<()> + 'a;

/// One piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// The address of its block.
    pub(super) at: u64,
    /// The address of the next one's offset.
    pub(super) link: u64,
    /// Bytes of the string that fit into it.
    pub(super) room: u64,
}

impl Piece {
    /// The first piece of the string at `at`.
    pub(super) fn first<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<Self> {
        Self::open(tx, at, at + LINK)
    }

    fn open<T: Tx + ?Sized>(tx: &mut T, at: u64, link: u64) -> Result<Self> {
        let room = tx.usable(at)?.checked_sub(link + LINK - at);
        let room =
            room.ok_or_else(|| Error::corrupt("a byte string's piece that is too small", at))?;
        Ok(Piece { at, link, room })
    }

    pub(super) fn next<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Option<Self>> {
        match tx.read_word(self.link)? {
            0 => Ok(None),
            at => Self::open(tx, at, at).map(Some).map_err(Error::in_pool),
        }
    }

    /// The next piece; an error if there is none.
    fn needed<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Self> {
        self.next(tx)?.ok_or_else(|| Error::corrupt("a byte string that lacks a piece", self.at))
    }

    /// The address of its bytes.
    const fn data(self) -> u64 {
        self.link + LINK
    }
}

/// Pieces that the running transaction has made.
pub(super) struct NewPieces {
    blocks: Vec<Fresh>,
    /// Bytes before the first one's link.
    head: u64,
}

impl NewPieces {
    /// The block of the first piece.
    pub(super) fn first(&self) -> Fresh {
        self.blocks[0]
    }

    /// Writes bytes of the string from `from` on, a multiple of a word; there is room for them.
    pub(super) fn write<T: Tx + ?Sized>(&self, tx: &mut T, from: u64, bytes: &[u8]) -> Result<()> {
        let (mut skip, mut left, mut data) = (from, bytes, self.head + LINK);
        for block in &self.blocks {
            let room = block.bytes() - data;
            let some = left.len().min(room.saturating_sub(skip) as usize);
            if some > 0 {
                tx.write_fresh(*block, data + skip, &left[..some])?;
            }
            left = &left[some..];
            if left.is_empty() {
                break;
            }
            skip = skip.saturating_sub(room);
            data = LINK;
        }
        debug_assert!(left.is_empty(), "there is room");
        Ok(())
    }
}

/// Creates pieces for `room` bytes; without `before`, the first of them is the first of a string. Writes their links,
/// but not the bytes before the first one's link.
pub(super) fn create<T: Tx + ?Sized>(
    tx: &mut T,
    purpose: Purpose,
    room: u64,
    before: Option<Piece>,
) -> Result<NewPieces> {
    let head = if before.is_none() { LINK } else { 0 };
    let (mut blocks, mut left): (Vec<Fresh>, _) = (Vec::new(), room);
    while left > 0 || blocks.is_empty() {
        let front = LINK + if blocks.is_empty() { head } else { 0 };
        let block = tx.allocate_some(purpose, ask(front + left))?;
        left = left.saturating_sub(block.bytes() - front);
        blocks.push(block);
    }
    for (index, block) in blocks.iter().enumerate() {
        let next = blocks.get(index + 1).map_or(0, Fresh::at);
        let link = if index == 0 { head } else { 0 };
        tx.write_fresh(*block, link, &next.to_le_bytes())?;
    }
    if let Some(before) = before {
        tx.write_word(before.link, blocks[0].at())?;
    }
    Ok(NewPieces { blocks, head })
}

/// The size to ask the allocator for, out of `bytes`: whole pages only, or half of one, where a slot can take the
/// remainder.
const fn ask(bytes: u64) -> u64 {
    let unit = if bytes > PAGE { PAGE } else { SMALLEST };
    let (first, rest) = (bytes / unit * unit, bytes % unit);
    let most = if bytes > PAGE { PAGE / 2 } else { PAGE / 3 - PAGE / 3 % 64 };
    let apart = first > 0 && first < LARGE && rest > 0 && rest + LINK <= most;
    if apart { first } else { bytes }
}

/// Whether a string should be in pieces rather than in one block.
pub(super) const fn are_better(room: u64) -> bool {
    let bytes = room + 2 * LINK;
    room + LINK > PAGE || bytes < PAGE && room + LINK > SMALLEST && ask(bytes) < bytes
}

/// The last piece visited, and the total room up to it: visits as many as have `enough`.
///
/// # Errors
/// `Corrupt` if they form a cycle.
pub(super) fn walk<T: Tx + ?Sized>(
    tx: &mut T,
    at: u64,
    enough: u64,
    each: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<(Piece, u64)> {
    let mut piece = Piece::first(tx, at)?;
    let mut room = piece.room;
    each(piece.at)?;
    // The reference position of the cycle check moves on after twice as many steps each time.
    let (mut seen, mut steps, mut most) = (piece.at, 0u64, 1u64);
    while room < enough {
        let Some(next) = piece.next(tx)? else { break };
        if next.at == seen {
            return Err(Error::corrupt("a byte string's pieces that go in circles", at));
        }
        steps += 1;
        if steps == most {
            (seen, steps, most) = (next.at, 0, most * 2);
        }
        room += next.room;
        piece = next;
        each(piece.at)?;
    }
    Ok((piece, room))
}

/// Calls `each` with the addresses of the `len` bytes from `from` on: an offset, and the range of bytes that begin
/// there. The string is known to have them.
pub(super) fn places<T: Tx + ?Sized>(
    tx: &mut T,
    at: u64,
    from: u64,
    len: usize,
    each: &mut Each<'_, T>,
) -> Result<()> {
    let (mut piece, mut skip) = (Piece::first(tx, at)?, from);
    while len > 0 && skip >= piece.room {
        skip -= piece.room;
        piece = piece.needed(tx)?;
    }
    run(tx, piece, skip, len, each)
}

fn run<T: Tx + ?Sized>(
    tx: &mut T,
    mut piece: Piece,
    mut skip: u64,
    len: usize,
    each: &mut Each<'_, T>,
) -> Result<()> {
    let mut done = 0;
    while done < len {
        let some = (piece.room - skip).min((len - done) as u64) as usize;
        each(tx, piece.data() + skip, done..done + some)?;
        done += some;
        skip = 0;
        if done < len {
            piece = piece.needed(tx)?;
        }
    }
    Ok(())
}

/// Frees all pieces.
pub(super) fn free<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<()> {
    let mut piece = Some(Piece::first(tx, at)?);
    while let Some(this) = piece {
        piece = this.next(tx)?;
        // In a cycle, freeing a piece for the second time is an error.
        tx.free(this.at).map_err(Error::in_pool)?;
    }
    Ok(())
}

/// Moves the pieces that lie in pages that are to be emptied. Returns where the string is now.
pub(super) fn compact<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<u64> {
    let at = compact::move_block(tx, at)?;
    compact_rest(tx, at)?;
    Ok(at)
}

/// As [`compact`], but the first block stays; the string may have no others.
pub(super) fn compact_string<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<()> {
    let word = tx.read_word(at).map_err(Error::in_pool)?;
    match BlobHead::from_word(word) {
        Some(head) if head.in_pieces => compact_rest(tx, at).map_err(Error::in_pool),
        Some(_) => Ok(()),
        None => Err(Error::corrupt("a byte string's head", at)),
    }
}

/// Moves all pieces but the first.
fn compact_rest<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<()> {
    let (mut piece, mut seen) = (Piece::first(tx, at)?, at);
    let (mut steps, mut most) = (0u64, 1u64);
    while let Some(next) = piece.next(tx)? {
        let moved = compact::move_block(tx, next.at).map_err(Error::in_pool)?;
        if moved != next.at {
            tx.write_word(piece.link, moved)?;
        }
        if moved == seen {
            return Err(Error::corrupt("a byte string's pieces that go in circles", at));
        }
        steps += 1;
        if steps == most {
            (seen, steps, most) = (moved, 0, most * 2);
        }
        piece = Piece::open(tx, moved, moved)?;
    }
    Ok(())
}
