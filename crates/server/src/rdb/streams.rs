//! Streams in the form of Redis's snapshots: entries in listpacks, each with the fields that most of its entries have in
//! common; then counts, and the groups with what is pending.

use super::packs::{self, Packing};
use super::reader::{Malformed, Reader};
use super::{form, push_len, push_string};
use crate::command::{Failure, Outcome};
use crate::keyspace::stream::{Consumer, Entry, Group, Id, Stream};
use crate::protocol::number;
use perdura::Tx;
use std::collections::HashMap;

/// Entries, and about bytes, of one listpack, as Redis has them.
const ENTRIES: usize = 100;
const BYTES: usize = 4096;

/// An entry is deleted.
const DELETED: i64 = 1;
/// It has the fields of its listpack.
const SAME_FIELDS: i64 = 2;

/// Bytes of a listpack before its elements.
const HEADER: usize = 6;

/// A listpack that is being written.
struct Pack {
    bytes: Vec<u8>,
    elements: usize,
}

impl Pack {
    fn new() -> Self {
        Pack { bytes: vec![0; HEADER], elements: 0 }
    }

    fn number(&mut self, value: i64) {
        let (before, bytes) = (self.bytes.len(), value.to_le_bytes());
        let to = &mut self.bytes;
        match value {
            0..128 => to.push(value as u8),
            -4096..4096 => to.extend_from_slice(&[0xC0 | (value >> 8) as u8 & 0x1F, value as u8]),
            -0x8000..0x8000 => {
                to.push(0xF1);
                to.extend_from_slice(&bytes[..2]);
            }
            -0x8000_0000..0x8000_0000 => {
                to.push(0xF3);
                to.extend_from_slice(&bytes[..4]);
            }
            _ => {
                to.push(0xF4);
                to.extend_from_slice(&bytes);
            }
        }
        self.end_element(before);
    }

    fn text(&mut self, text: &[u8]) {
        let before = self.bytes.len();
        let to = &mut self.bytes;
        match text.len() {
            len @ 0..64 => to.push(0x80 | len as u8),
            len @ 64..4096 => to.extend_from_slice(&[0xE0 | (len >> 8) as u8, len as u8]),
            len => {
                to.push(0xF0);
                to.extend_from_slice(&(len as u32).to_le_bytes());
            }
        }
        to.extend_from_slice(text);
        self.end_element(before);
    }

    /// Appends the element's length, for those who go backwards.
    fn end_element(&mut self, before: usize) {
        let len = self.bytes.len() - before;
        let count = packs::backwards_len(len);
        for index in (0..count).rev() {
            let part = (len >> (7 * index)) as u8 & 0x7F;
            self.bytes.push(if index + 1 == count { part } else { 0x80 | part });
        }
        self.elements += 1;
    }

    fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0xFF);
        let total = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&total.to_le_bytes());
        let elements = u16::try_from(self.elements).unwrap_or(u16::MAX);
        self.bytes[4..HEADER].copy_from_slice(&elements.to_le_bytes());
        self.bytes
    }
}

/// Appends the listpack of some entries, after the ID that theirs are relative to.
fn push_entries(to: &mut Vec<u8>, entries: &[Entry]) {
    let Some(first) = entries.first() else { return };
    let fields: Vec<&[u8]> = first.texts.iter().step_by(2).collect();
    let mut pack = Pack::new();
    pack.number(entries.len() as i64);
    pack.number(0);
    pack.number(fields.len() as i64);
    fields.iter().for_each(|field| pack.text(field));
    pack.number(0);
    for entry in entries {
        let same = entry.texts.iter().step_by(2).eq(fields.iter().copied());
        pack.number(if same { SAME_FIELDS } else { 0 });
        pack.number(entry.id.ms.wrapping_sub(first.id.ms) as i64);
        pack.number(entry.id.seq.wrapping_sub(first.id.seq) as i64);
        let count = entry.texts.len() as i64 / 2;
        if same {
            entry.texts.iter().skip(1).step_by(2).for_each(|value| pack.text(value));
            pack.number(3 + count);
        } else {
            pack.number(count);
            entry.texts.iter().for_each(|text| pack.text(text));
            pack.number(4 + 2 * count);
        }
    }
    push_string(to, &raw(first.id));
    push_string(to, &pack.finish());
}

/// An ID as Redis's trees have it.
fn raw(id: Id) -> [u8; 16] {
    (u128::from(id.ms) << 64 | u128::from(id.seq)).to_be_bytes()
}

fn id_of(raw: [u8; 16]) -> Id {
    let both = u128::from_be_bytes(raw);
    Id { ms: (both >> 64) as u64, seq: both as u64 }
}

fn push_id(to: &mut Vec<u8>, id: Id) {
    push_len(to, id.ms);
    push_len(to, id.seq);
}

/// Appends a stream's value, after its form, `written`, as long as `has_room` says that there is room for so many bytes.
pub(crate) fn write(
    tx: &mut dyn Tx,
    stream: &Stream,
    written: u8,
    to: &mut Vec<u8>,
    has_room: &mut dyn FnMut(usize) -> bool,
) -> Outcome {
    to.push(written);
    let (mut packs, mut count) = (Vec::new(), 0_u64);
    let (mut some, mut bytes) = (Vec::new(), 0);
    stream.walk(tx, (Id::MIN, Id::MAX), false, &mut |_, entry| {
        bytes += entry.texts.bytes();
        some.push(entry);
        if some.len() >= ENTRIES || bytes >= BYTES {
            push_entries(&mut packs, &some);
            (count, bytes) = (count + 1, 0);
            some.clear();
        }
        Ok::<bool, Failure>(has_room(packs.len() + bytes))
    })?;
    if !some.is_empty() {
        push_entries(&mut packs, &some);
        count += 1;
    }
    push_len(to, count);
    to.append(&mut packs);
    push_len(to, stream.len());
    push_id(to, stream.last);
    push_id(to, stream.first_id(tx)?);
    push_id(to, stream.deleted);
    push_len(to, stream.added);
    push_len(to, stream.group_count(tx)?);
    stream.each_group::<Failure>(tx, &mut |tx, name, group| {
        if !has_room(to.len()) {
            return Ok(());
        }
        push_string(to, &name);
        push_id(to, group.last(tx)?);
        push_len(to, group.read(tx)?.unwrap_or(u64::MAX));
        push_len(to, group.pending_count(tx)?);
        group.walk(tx, (Id::MIN, Id::MAX), None, &mut |_, id, pending| {
            to.extend_from_slice(&raw(id));
            to.extend_from_slice(&pending.time.to_le_bytes());
            push_len(to, pending.count);
            Ok::<bool, Failure>(has_room(to.len()))
        })?;
        push_len(to, group.consumer_count(tx)?);
        group.each_consumer(tx, &mut |tx, name, consumer| {
            push_string(to, &name);
            let (seen, active) = consumer.times(tx)?;
            to.extend_from_slice(&seen.to_le_bytes());
            if written == form::STREAM_LAST {
                to.extend_from_slice(&active.to_le_bytes());
            }
            push_len(to, consumer.pending_count(tx)?);
            group.walk(tx, (Id::MIN, Id::MAX), Some(consumer), &mut |_, id, _| {
                to.extend_from_slice(&raw(id));
                Ok::<bool, Failure>(has_room(to.len()))
            })
        })
    })
}

/// The next element of a listpack of entries.
#[derive(Clone, Copy)]
enum Next {
    Count,
    Deleted,
    FieldCount,
    /// So many of the common fields.
    Field(u64),
    Zero,
    Flags,
    Ms,
    Seq,
    OwnCount,
    /// So many of an entry's texts.
    Text(u64),
    /// The number of its elements.
    End,
}

/// An entry's ID, and its fields and values by turns.
type Unpacked<'a> = (Id, Vec<&'a [u8]>);

/// A listpack of entries that is being read.
struct Unpacker {
    next: Next,
    first: Id,
    fields: Vec<Vec<u8>>,
    flags: i64,
    id: Id,
    texts: Vec<Vec<u8>>,
}

impl Unpacker {
    fn new(first: Id) -> Self {
        let (fields, texts) = (Vec::new(), Vec::new());
        Unpacker { next: Next::Count, first, fields, flags: 0, id: first, texts }
    }

    /// Takes an element. Returns whether an entry is whole.
    fn take(&mut self, text: &[u8]) -> Result<bool, Malformed> {
        let value = || number::parse_i64(text).ok_or(Malformed);
        let count = || value().and_then(|count| u64::try_from(count).map_err(|_| Malformed));
        let texts = |left| if left == 0 { Next::End } else { Next::Text(left) };
        self.next = match self.next {
            Next::Count => count().map(|_| Next::Deleted)?,
            Next::Deleted => count().map(|_| Next::FieldCount)?,
            Next::FieldCount => match count()? {
                0 => Next::Zero,
                more => Next::Field(more),
            },
            Next::Field(left) => {
                self.fields.push(text.to_vec());
                if left == 1 { Next::Zero } else { Next::Field(left - 1) }
            }
            Next::Zero if value()? == 0 => Next::Flags,
            Next::Zero => return Err(Malformed),
            Next::Flags => {
                self.flags = value()?;
                self.texts.clear();
                Next::Ms
            }
            Next::Ms => {
                self.id.ms = self.first.ms.wrapping_add(value()? as u64);
                Next::Seq
            }
            Next::Seq => {
                self.id.seq = self.first.seq.wrapping_add(value()? as u64);
                match self.flags & SAME_FIELDS {
                    0 => Next::OwnCount,
                    _ => texts(self.fields.len() as u64),
                }
            }
            Next::OwnCount => texts(count()?.checked_mul(2).ok_or(Malformed)?),
            Next::Text(left) => {
                self.texts.push(text.to_vec());
                texts(left - 1)
            }
            Next::End => {
                value()?;
                self.next = Next::Flags;
                return Ok(true);
            }
        };
        Ok(false)
    }

    /// The entry that is whole; none if it is deleted.
    fn entry(&self) -> Result<Option<Unpacked<'_>>, Malformed> {
        if self.flags & DELETED != 0 {
            return Ok(None);
        }
        let texts: Vec<&[u8]> = match self.flags & SAME_FIELDS {
            0 => self.texts.iter().map(Vec::as_slice).collect(),
            _ => {
                let pairs = self.fields.iter().zip(&self.texts);
                pairs.flat_map(|(field, value)| [field.as_slice(), value]).collect()
            }
        };
        if texts.is_empty() { Err(Malformed) } else { Ok(Some((self.id, texts))) }
    }
}

fn read_id(reader: &mut Reader<'_>) -> Result<Id, Malformed> {
    Ok(Id { ms: reader.len()?, seq: reader.len()? })
}

/// Calls `each` with the entries that come next.
fn each_entry(reader: &mut Reader<'_>, each: &mut dyn FnMut(Id, Vec<&[u8]>) -> Outcome) -> Outcome {
    for _ in 0..reader.len()? {
        let first = <[u8; 16]>::try_from(reader.string()?).map_err(|_| Malformed)?;
        let (pack, mut unpacker) = (reader.string()?, Unpacker::new(id_of(first)));
        packs::elements::<Failure>(Packing::Listpack, &pack, &mut |text| match unpacker
            .take(text)?
        {
            true => unpacker.entry()?.map_or(Ok(()), |(id, texts)| each(id, texts)),
            false => Ok(()),
        })?;
        if !matches!(unpacker.next, Next::Flags) {
            return Err(Malformed.into());
        }
    }
    Ok(())
}

/// Makes the stream that comes next, in one of Redis's three forms. A chunk gets at most `most` entries, and all of them
/// take at most `bytes_max` bytes: here each has names of its fields of its own, so that a stranger's value, in which many
/// entries share a long name, could grow without end. That is known before anything is written.
pub(crate) fn read(
    tx: &mut dyn Tx,
    found: u8,
    reader: &mut Reader<'_>,
    (most, bytes_max): (u64, usize),
) -> Outcome<Stream> {
    let mut bytes = 0_usize;
    each_entry(&mut reader.clone(), &mut |_, texts| {
        bytes = texts.iter().fold(bytes, |bytes, text| bytes.saturating_add(text.len()));
        match bytes <= bytes_max {
            true => Ok(()),
            false => Err(Failure::say(format!(
                "ERR the stream's entries take more than {bytes_max} bytes, see --max-request"
            ))),
        }
    })?;
    let mut stream = Stream::create(tx)?;
    each_entry(reader, &mut |id, texts| {
        if id <= stream.last {
            return Err(Malformed.into());
        }
        Ok(stream.append(tx, id, texts.into_iter(), most)?)
    })?;
    let (len, last) = (reader.len()?, read_id(reader)?);
    if len != stream.len() || last < stream.last {
        return Err(Malformed.into());
    }
    stream.last = last;
    if found != form::STREAM_FIRST {
        // The first ID is known.
        read_id(reader)?;
        stream.deleted = read_id(reader)?;
        stream.added = reader.len()?;
    }
    for _ in 0..reader.len()? {
        read_group(tx, &mut stream, found, reader)?;
    }
    Ok(stream)
}

fn read_group(tx: &mut dyn Tx, stream: &mut Stream, found: u8, reader: &mut Reader<'_>) -> Outcome {
    let (name, last) = (reader.string()?, read_id(reader)?);
    let read = match found {
        form::STREAM_FIRST => stream.extent(tx)?.read_up_to(last),
        _ => Some(reader.len()?).filter(|read| *read != u64::MAX),
    };
    if !stream.create_group(tx, &name, last, read)? {
        return Err(Malformed.into());
    }
    let group: Group = stream.group(tx, &name)?.ok_or(Malformed)?;
    let mut pending = HashMap::new();
    for _ in 0..reader.len()? {
        let id = id_of(reader.array()?);
        let state = (i64::from_le_bytes(reader.array()?), reader.len()?);
        if pending.insert((id.ms, id.seq), state).is_some() {
            return Err(Malformed.into());
        }
    }
    for _ in 0..reader.len()? {
        let name = reader.string()?;
        if group.consumer(tx, &name)?.is_some() {
            return Err(Malformed.into());
        }
        let seen = i64::from_le_bytes(reader.array()?);
        let consumer: Consumer = group.create_consumer(tx, &name, seen)?;
        let active = match found {
            form::STREAM_LAST => i64::from_le_bytes(reader.array()?),
            _ => seen,
        };
        consumer.set_active(tx, active)?;
        for _ in 0..reader.len()? {
            let id = id_of(reader.array()?);
            let state = pending.remove(&(id.ms, id.seq)).ok_or(Malformed)?;
            group.assign(tx, id, consumer, state)?;
        }
    }
    // Each is some consumer's.
    if pending.is_empty() { Ok(()) } else { Err(Malformed.into()) }
}
