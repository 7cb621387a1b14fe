//! A copy with all offsets as they are: of pools whose objects only their programs know. Log and free pages are not
//! copied, so the file may have holes where the pool's had none; pages that are in use lie where they lay.
//!
//! The new pool may have another engine, and another size within the room of the page table. Its file is no
//! shorter than the old one's.

use crate::copy::Copied;
use crate::error::Error;
use crate::{Going, Target};
use perdura::alloc::layout::{Use, taken};
use perdura::draft::Draft;
use perdura::source::Source;
use perdura::superblock::{CATALOGUE, State, Superblock};
use perdura::{Domain, Memory, Options, Survives};
use perdura_memory::{MapError, Mapped, PAGE, Ram};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Copies the pages of `source` to a new pool, which has the same engine and size unless `target` says otherwise.
///
/// # Errors
/// See [`Error`]; the file of the target's name, if any, is unchanged then.
pub fn copy_pages(
    source: &Source,
    target: &Target,
    going: &mut Going<'_>,
) -> Result<Copied, Error> {
    let old = source.superblock();
    let engine = target.engine_for(source)?;
    let limit = new_limit(source, target.size)?;
    let roots = source.read(|tx| perdura::roots::all(tx))?.len() as u64;
    if let Some(page) = old.wrong_pages(source.memory()).first() {
        return Err(Error::Damaged(format!("the page at {page:#x} does not match its checksum")));
    }
    let draft = target.draft(Some(source.mode()))?;
    let file = draft.create()?;
    file.set_len(source.memory().len())?;
    write_pages(source, &file, going)?;
    // Its log is to be formatted by the engine that it is opened with. Its requirement is the failures that it outlives
    // here.
    let new = Superblock {
        limit,
        state: State::Formatting,
        engine: engine.to_string(),
        requires: survives(&draft, target.domain).map_err(|source| target.failed(source.into()))?,
        ..old.clone()
    };
    write_header(&file, new)?;
    file.sync_all()?;
    drop(file);
    let pool = Options::new().engine(engine).domain(target.domain).open(draft.temporary());
    let pool = pool.map_err(|source| target.failed(source))?;
    pool.close()?;
    draft.publish(None)?;
    Ok(Copied { roots, offsets_kept: true, ..Copied::default() })
}

/// The failures that transactions on the new pool outlive.
fn survives(draft: &Draft, domain: Option<Domain>) -> Result<Survives, MapError> {
    let found = Mapped::open_read_only(draft.temporary())?;
    Ok(found.backing().survives(domain.unwrap_or(found.domain())))
}

/// The limit that the new pool has.
fn new_limit(source: &Source, size: Option<u64>) -> Result<u64, Error> {
    let (old, len) = (source.superblock(), source.memory().len());
    let Some(size) = size else { return Ok(old.limit) };
    let most = old.layout.page(old.layout.capacity);
    let size = size.checked_next_multiple_of(PAGE).unwrap_or(size);
    if size > most {
        return Err(Error::Size(format!(
            "with its offsets kept, the pool can have at most {most} bytes: its page table has no room for more (a pool can become four times as large as it was created); give a smaller size"
        )));
    }
    if size < len {
        return Err(Error::Size(format!(
            "with its offsets kept, the pool cannot have fewer than its {len} bytes; give a larger size"
        )));
    }
    Ok(size)
}

/// Writes everything but header, log and free pages, recovered.
fn write_pages(source: &Source, file: &File, going: &mut Going<'_>) -> Result<(), Error> {
    let (memory, header) = (source.memory(), source.superblock());
    let mut moved = 0;
    write_range(memory, file, CATALOGUE..CATALOGUE + PAGE, &mut moved, going)?;
    let layout = header.layout;
    write_range(memory, file, layout.table..layout.pages, &mut moved, going)?;
    let pages = layout.pages_in(memory.len());
    let mut page = 0;
    while page < pages {
        let entry = layout.entry(page);
        let words = [memory.load(entry), memory.load(entry + 8)];
        let (len, used) = match Use::from_word(words[0]) {
            // With checksums of all pages, the checksums of free pages must match their contents.
            Some(Use::Free) => (1, header.checksums),
            Some(Use::Slots(..)) => (1, taken(words) != 0 || header.checksums),
            Some(Use::Run(run)) => (run.clamp(1, pages - page), true),
            None => {
                return Err(
                    perdura::Error::corrupt("page-table entry that cannot be", entry).into()
                );
            }
        };
        if used {
            let range = layout.page(page)..layout.page(page + len);
            write_range(memory, file, range, &mut moved, going)?;
        }
        page += len;
    }
    Ok(())
}

/// Writes the pages of a range that are not zero.
fn write_range(
    memory: &dyn Memory,
    file: &File,
    range: Range<u64>,
    moved: &mut u64,
    going: &mut Going<'_>,
) -> Result<(), Error> {
    let mut bytes = vec![0; PAGE as usize];
    for at in range.step_by(PAGE as usize) {
        for (word, to) in (at..).step_by(8).zip(bytes.chunks_exact_mut(8)) {
            to.copy_from_slice(&memory.load(word).to_le_bytes());
        }
        if bytes.iter().any(|byte| *byte != 0) {
            file.write_all_at(&bytes, at)?;
        }
        *moved += PAGE;
        if (*moved).is_multiple_of(16 * PAGE) && !going(*moved) {
            return Err(Error::Stopped);
        }
    }
    Ok(())
}

/// Writes both copies of the header.
fn write_header(file: &File, mut header: Superblock) -> io::Result<()> {
    let ram = Ram::new(header.log.end);
    for _ in 0..2 {
        header.write(&ram);
    }
    for copy in [0, PAGE] {
        let words: Vec<u8> =
            (copy..copy + PAGE).step_by(8).flat_map(|at| ram.load(at).to_le_bytes()).collect();
        file.write_all_at(&words, copy)?;
    }
    Ok(())
}
