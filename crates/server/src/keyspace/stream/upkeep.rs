//! Streams are freed, checked, measured, and moved within the pool.

use super::super::chunk::{Chunk, End, elements};
use super::super::list::check_chunk;
use super::change::unordered;
use super::group::{CONSUMERS, Consumers, Group, OWN_SET, OwnSet, PENDING_MAP, PendingMap};
use super::{
    Consumer, FIRST, GROUPS, Groups, INDEX, Id, Index, LEN, Stream, TAG, entry, miscounted,
    outer_id,
};
use perdura::collections::Visit;
use perdura::collections::compact::move_block;
use perdura::{Error, Result, Tx};

/// Entries and nodes of a map that are freed before it is looked whether more may be.
const PART: u64 = 8;

/// Frees about `budget` chunks, entries of maps and nodes of a stream, and at last its header. Returns whether all of it
/// is gone.
pub(in super::super) fn sweep(tx: &mut dyn Tx, header: u64, budget: u64) -> Result<bool> {
    let mut left = budget;
    loop {
        let at = tx.read_word(header + FIRST)?;
        if at == 0 {
            break;
        }
        if left == 0 {
            return Ok(false);
        }
        let chunk = Chunk::load(tx, at)?;
        let blobs = chunk.free(tx)?;
        left = left.saturating_sub(1 + blobs);
        tx.write_word(header + FIRST, chunk.after)?;
    }
    let part = |tx: &mut dyn Tx, at, part| Index::new(at).destroy_some(tx, part);
    if !sweep_map(tx, header + INDEX, &mut left, part)? {
        return Ok(false);
    }
    let groups = tx.read_word(header + GROUPS)?;
    if groups != 0 {
        let groups = Groups::new(groups);
        while let Some((name, at)) = groups.first(tx)? {
            if left == 0 || !sweep_group_of(tx, at, &mut left)? {
                return Ok(false);
            }
            groups.remove(tx, &name)?;
            left = left.saturating_sub(1);
        }
        groups.destroy(tx)?;
        tx.write_word(header + GROUPS, 0)?;
    }
    tx.free(header)?;
    Ok(true)
}

/// How much of a stream that is being freed is left: about its entries, or more. Its groups are not counted: with any it
/// is as if there were no end.
pub(in super::super) fn rest(tx: &mut dyn Tx, header: u64) -> Result<u64> {
    if tx.read_word(header + GROUPS)? != 0 {
        return Ok(u64::MAX);
    }
    let has_more = tx.read_word(header + FIRST)? != 0 || tx.read_word(header + INDEX)? != 0;
    if has_more { tx.read_word(header + LEN) } else { Ok(1) }
}

/// Frees a part of the map whose place is in the word at `word`, if there is one, and takes what that costs from `left`.
/// Returns whether it is gone.
fn sweep_map(
    tx: &mut dyn Tx,
    word: u64,
    left: &mut u64,
    destroy_some: impl Fn(&mut dyn Tx, u64, u64) -> Result<bool>,
) -> Result<bool> {
    let at = tx.read_word(word)?;
    if at == 0 {
        return Ok(true);
    }
    while *left > 0 {
        let part = PART.min(*left);
        *left -= part;
        if destroy_some(tx, at, part)? {
            tx.write_word(word, 0)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// As [`sweep`], of a group.
pub(in super::super) fn sweep_group(tx: &mut dyn Tx, group: u64, budget: u64) -> Result<bool> {
    let mut left = budget;
    sweep_group_of(tx, group, &mut left)
}

/// The same, which takes what it costs from `left`.
fn sweep_group_of(tx: &mut dyn Tx, group: u64, left: &mut u64) -> Result<bool> {
    let part = |tx: &mut dyn Tx, at, part| PendingMap::new(at).destroy_some(tx, part);
    if !sweep_map(tx, group + PENDING_MAP, left, part)? {
        return Ok(false);
    }
    let consumers = tx.read_word(group + CONSUMERS)?;
    if consumers != 0 {
        let consumers = Consumers::new(consumers);
        while let Some((name, at)) = consumers.first(tx)? {
            let part = |tx: &mut dyn Tx, at, part| OwnSet::new(at).destroy_some(tx, part);
            if *left == 0 || !sweep_map(tx, at + OWN_SET, left, part)? {
                return Ok(false);
            }
            consumers.remove(tx, &name)?;
            tx.free(at)?;
            *left = left.saturating_sub(1);
        }
        consumers.destroy(tx)?;
        tx.write_word(group + CONSUMERS, 0)?;
    }
    tx.free(group)?;
    Ok(true)
}

/// Checks what [`sweep`] has left of a stream, and reports its blocks.
pub(in super::super) fn check_swept(
    tx: &mut dyn Tx,
    header: u64,
    visit: &mut Visit<'_>,
) -> Result<()> {
    visit(header)?;
    if tx.read_word(header)? != TAG {
        return Err(Error::corrupt("a stream's header", header));
    }
    let mut at = tx.read_word(header + FIRST)?;
    while at != 0 {
        visit(at)?;
        let chunk = Chunk::load(tx, at)?;
        check_chunk(tx, &chunk, visit)?;
        at = chunk.after;
    }
    let index = tx.read_word(header + INDEX)?;
    if index != 0 {
        Index::new(index).check(tx, visit)?;
    }
    let groups = tx.read_word(header + GROUPS)?;
    if groups != 0 {
        let groups = Groups::new(groups);
        groups.check(tx, visit)?;
        let mut cursor = groups.cursor(tx, ..)?;
        while let Some((_, at)) = cursor.next(tx)? {
            check_swept_group(tx, at, visit)?;
        }
    }
    Ok(())
}

/// Checks what [`sweep_group`] has left of a group, and reports its blocks.
pub(in super::super) fn check_swept_group(
    tx: &mut dyn Tx,
    at: u64,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let group = Group::load(tx, at)?;
    visit(at)?;
    if let Some(map) = group.pending_map(tx)? {
        map.check(tx, visit)?;
    }
    if let Some(consumers) = group.consumers(tx)? {
        consumers.check(tx, visit)?;
        let mut cursor = consumers.cursor(tx, ..)?;
        while let Some((_, at)) = cursor.next(tx)? {
            let consumer = Consumer::load(tx, at)?;
            visit(at)?;
            if let Some(own) = consumer.own(tx)? {
                own.check(tx, visit)?;
            }
        }
    }
    Ok(())
}

impl Stream {
    /// Checks it, and reports its blocks.
    pub(in super::super) fn check(&self, tx: &mut dyn Tx, visit: &mut Visit<'_>) -> Result<()> {
        visit(self.at)?;
        let index = (self.index != 0).then(|| Index::new(self.index));
        let mut keys = match index {
            Some(index) => {
                index.check(tx, visit)?;
                Some(index.cursor(tx, ..)?)
            }
            None => None,
        };
        let (mut count, mut before, mut at) = (0, 0, self.first);
        let mut last: Option<Id> = None;
        while at != 0 {
            visit(at)?;
            let chunk = Chunk::load(tx, at)?;
            check_chunk(tx, &chunk, visit)?;
            if chunk.count == 0 || chunk.before != before {
                return Err(Error::corrupt("a chunk of a stream", at));
            }
            let first = outer_id(tx, &chunk, End::Left)?;
            match &mut keys {
                Some(keys) => match keys.next(tx)? {
                    Some((key, place)) if place == at && key <= first && last < Some(key) => {}
                    _ => return Err(Error::corrupt("the index of a stream", self.index)),
                },
                None if chunk.after != 0 => {
                    return Err(Error::corrupt("a stream without an index", self.at));
                }
                None => {}
            }
            let bytes = chunk.read(tx)?;
            for (element, _) in elements(&bytes) {
                let bytes = element.read(tx)?;
                let id = super::Entry::read(bytes).ok_or_else(|| entry::damaged(at))?.id;
                if last >= Some(id) {
                    return Err(unordered(at));
                }
                last = Some(id);
            }
            count += chunk.count as u64;
            (before, at) = (at, chunk.after);
        }
        let has_more = match &mut keys {
            Some(keys) => keys.next(tx)?.is_some(),
            None => false,
        };
        if count != self.len || before != self.tail || has_more || last > Some(self.last) {
            return Err(miscounted(self.at));
        }
        if self.groups != 0 {
            let groups = Groups::new(self.groups);
            groups.check(tx, visit)?;
            let mut cursor = groups.cursor(tx, ..)?;
            while let Some((_, at)) = cursor.next(tx)? {
                check_swept_group(tx, at, visit)?;
                let group = Group::load(tx, at)?;
                check_group(tx, group)?;
            }
        }
        Ok(())
    }

    /// Moves some chunks, and the blobs of their entries, out of pages that are to be emptied: `most` from the one on that
    /// has `cursor` others before it. Returns the cursor to go on with; 0 at the end.
    pub(in super::super) fn compact(
        &mut self,
        tx: &mut dyn Tx,
        cursor: u64,
        most: u64,
    ) -> Result<u64> {
        let mut at = self.first;
        for _ in 0..cursor {
            match at {
                0 => return Ok(0),
                here => at = Chunk::load(tx, here)?.after,
            }
        }
        for done in 0..most {
            if at == 0 {
                break;
            }
            if done + cursor > self.len {
                return Err(miscounted(self.at));
            }
            at = self.compact_chunk(tx, at)?;
        }
        self.save_header(tx)?;
        Ok(if at == 0 { 0 } else { cursor + most })
    }

    /// Moves a chunk, and the blobs of its entries. Returns the chunk after it.
    fn compact_chunk(&mut self, tx: &mut dyn Tx, at: u64) -> Result<u64> {
        let chunk = Chunk::load(tx, at)?;
        for (blob, place) in chunk.blobs(tx)? {
            let moved = blob.compact(tx)?;
            if moved != blob {
                tx.write_bytes(place, &moved.at().to_le_bytes())?;
            }
        }
        let first = outer_id(tx, &chunk, End::Left)?;
        let moved = move_block(tx, at)?;
        if moved == at {
            return Ok(chunk.after);
        }
        match chunk.before {
            0 => self.first = moved,
            before => Chunk::load(tx, before)?.write_after(tx, moved)?,
        }
        match chunk.after {
            0 => self.tail = moved,
            after => Chunk::load(tx, after)?.write_before(tx, moved)?,
        }
        if self.index != 0 {
            let index = Index::new(self.index);
            match index.cursor(tx, ..=first)?.at_end().prev(tx)? {
                Some((key, place)) if place == at => drop(index.set(tx, key, moved)?),
                _ => return Err(Error::corrupt("the index of a stream", self.index)),
            }
        }
        Ok(chunk.after)
    }

    /// Reports its blocks, of the chunks those of its first `most` entries and some more. Returns how many entries these
    /// are.
    pub(in super::super) fn visit(
        &self,
        tx: &mut dyn Tx,
        most: u64,
        visit: &mut Visit<'_>,
    ) -> Result<u64> {
        let (mut at, mut count) = (self.first, 0);
        while at != 0 && count < most.min(self.len) {
            let chunk = Chunk::load(tx, at)?;
            visit(at)?;
            for (blob, _) in chunk.blobs(tx)? {
                blob.check(tx, visit)?;
            }
            count += chunk.count.max(1) as u64;
            at = chunk.after;
        }
        Ok(count)
    }

    /// Reports its blocks that are no chunks.
    pub(in super::super) fn visit_rest(
        &self,
        tx: &mut dyn Tx,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        visit(self.at)?;
        if self.index != 0 {
            Index::new(self.index).check(tx, visit)?;
        }
        if self.groups != 0 {
            let groups = Groups::new(self.groups);
            groups.check(tx, visit)?;
            let mut cursor = groups.cursor(tx, ..)?;
            while let Some((_, at)) = cursor.next(tx)? {
                check_swept_group(tx, at, visit)?;
            }
        }
        Ok(())
    }
}

/// Checks that a group and its consumers have the same pending entries.
fn check_group(tx: &mut dyn Tx, group: Group) -> Result<()> {
    let wrong = |at| Err(Error::corrupt("pending entries of a group, and of its consumers", at));
    let mut listed = 0;
    group.each_consumer::<Error>(tx, &mut |tx, name, consumer| {
        if consumer.name(tx)? != name {
            return wrong(consumer.at());
        }
        let mut own = 0;
        if let Some(set) = consumer.own(tx)? {
            let mut cursor = set.cursor(tx, ..)?;
            while let Some((id, ())) = cursor.next(tx)? {
                match group.pending(tx, id)? {
                    Some(pending) if pending.consumer() == consumer => own += 1,
                    _ => return wrong(consumer.at()),
                }
            }
        }
        listed += own;
        if own == consumer.pending_count(tx)? { Ok(()) } else { wrong(consumer.at()) }
    })?;
    let all = match group.pending_map(tx)? {
        Some(map) => map.len(tx)?,
        None => 0,
    };
    match group.pending_count(tx)? {
        count if count == all && count == listed => Ok(()),
        _ => wrong(group.at()),
    }
}
