//! Bits of strings. The first bit is the highest of the first byte.

use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::{Entry, Found, Kind, text};
use crate::protocol::number;
use std::ops::Range;

const ONE: (i32, i32, i32) = (1, 1, 1);
const SOURCES: (i32, i32, i32) = (2, -1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::new("setbit", 4, ONE, Run::Write(setbit), "Sets a bit of a key's string."),
    Command::new("getbit", 3, ONE, Run::Read(getbit), "Gets a bit of a key's string."),
    Command::new("bitcount", -2, ONE, Run::Read(bitcount), "Counts the bits that are set."),
    Command::new(
        "bitpos",
        -3,
        ONE,
        Run::Read(bitpos),
        "Finds the first bit that is, or is not, set.",
    ),
    Command::new("bitop", -4, SOURCES, Run::Write(bitop), "Stores strings' bits combined."),
    Command::new("bitfield", -2, ONE, Run::Write(bitfield), "Integers among a string's bits."),
    Command::new("bitfield_ro", -2, ONE, Run::Read(bitfield_ro), "BITFIELD that only reads."),
];

/// Bytes of the longest string.
const LONGEST: u64 = 512 << 20;
/// Bytes that are read at a time: many, since a string in pieces is walked through from its beginning for each step.
const STEP: u64 = 4 << 20;

const OFFSET: &str = "ERR bit offset is not an integer or out of range";

/// A bit's place. With `#` before it, it counts integers of `width` bits, if that is given.
fn offset(text: &[u8], width: Option<u32>) -> Outcome<u64> {
    let (digits, factor) = match (text.strip_prefix(b"#"), width) {
        (Some(digits), Some(width)) => (digits, i64::from(width)),
        _ => (text, 1),
    };
    let offset = number::parse_i64(digits).and_then(|offset| offset.checked_mul(factor));
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < LONGEST).ok_or(Failure::Say(OFFSET.into()))
}

fn len(call: &mut Call<'_>, old: Option<Found>) -> Outcome<u64> {
    Ok(match old {
        Some(old) => text::len(call.tx, old.entry)?,
        None => 0,
    })
}

/// Bytes of a string from `from` on; zeros where it has ended.
fn bytes(call: &mut Call<'_>, entry: Option<Entry>, from: u64, len: usize) -> Outcome<Vec<u8>> {
    let mut bytes = match entry {
        Some(entry) => text::read_range(call.tx, entry, from, len as u64)?,
        None => Vec::new(),
    };
    bytes.resize(len, 0);
    Ok(bytes)
}

fn setbit(call: &mut Call<'_>) -> Outcome {
    let key = call.args.at(1);
    let at = offset(call.args.at(2), None)?;
    let on = match call.args.at(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(Failure::Say("ERR bit is not an integer or out of range".into())),
    };
    let old = call.claim_for(key, Kind::String)?;
    let is_longer = at / 8 >= len(call, old)?;
    let byte = bytes(call, old.map(|old| old.entry), at / 8, 1)?[0];
    let mask = 0x80 >> (at % 8);
    let was = byte & mask != 0;
    if is_longer || was != on {
        let byte = if on { byte | mask } else { byte & !mask };
        let new = text::overwrite(call.tx, old.map(|old| old.entry), (at / 8) as usize, &[byte])?;
        call.put(key, old, new)?;
    }
    call.out.flag(was);
    Ok(())
}

fn getbit(call: &mut Call<'_>) -> Outcome {
    let at = offset(call.args.at(2), None)?;
    let entry = call.look_for(call.args.at(1), Kind::String)?;
    let byte = bytes(call, entry, at / 8, 1)?[0];
    call.out.flag(byte & 0x80 >> (at % 8) != 0);
    Ok(())
}

/// Whether a range is one of bits, as the argument at `index` says.
fn counts_bits(call: &Call<'_>, index: usize) -> Outcome<bool> {
    match () {
        () if call.args.len() <= index || call.args.is(index, "byte") => Ok(false),
        () if call.args.is(index, "bit") => Ok(true),
        () => Err(Failure::SYNTAX),
    }
}

/// The bits from `start` to `end`, inclusive and counted from the end if negative, of a string of `len` bytes.
fn range(start: i64, end: i64, len: u64, of_bits: bool) -> Range<u64> {
    let total = if of_bits { len * 8 } else { len } as i64;
    let place = |at: i64| if at < 0 { total.saturating_add(at).max(0) } else { at };
    let (start, end) = (place(start), place(end).min(total - 1));
    if start > end {
        return 0..0;
    }
    let (start, end) = (start as u64, end as u64 + 1);
    if of_bits { start..end } else { start * 8..end * 8 }
}

/// Calls `each` with pieces of a string that have these bits, and the first bit's place in the whole. Bits of the first and
/// the last byte that are not among them have the value `filler`. Ends when `each` returns false.
fn pieces(
    call: &mut Call<'_>,
    entry: Entry,
    bits: Range<u64>,
    filler: bool,
    each: &mut dyn FnMut(u64, &[u8]) -> bool,
) -> Outcome {
    let end = bits.end.div_ceil(8);
    let mut at = bits.start / 8;
    while at < end {
        let mut piece = text::read_range(call.tx, entry, at, STEP.min(end - at))?;
        let taken = piece.len() as u64;
        if taken == 0 {
            break;
        }
        let mut fill = |index: usize, mask: u8| match filler {
            true => piece[index] |= mask,
            false => piece[index] &= !mask,
        };
        if at == bits.start / 8 {
            fill(0, !(0xFF >> (bits.start % 8)));
        }
        if at + taken == end && !bits.end.is_multiple_of(8) {
            fill(taken as usize - 1, 0xFF >> (bits.end % 8));
        }
        if !each(at * 8, &piece) {
            break;
        }
        at += taken;
    }
    Ok(())
}

fn bitcount(call: &mut Call<'_>) -> Outcome {
    // As Redis 7.2 has it: without the key, and of an empty range, the other arguments are not looked at.
    let Some(entry) = call.look_for(call.args.at(1), Kind::String)? else {
        call.out.integer(0);
        return Ok(());
    };
    let len = text::len(call.tx, entry)?;
    let bits = match call.args.len() {
        2 => 0..len * 8,
        4 | 5 => match (call.integer(2)?, call.integer(3)?) {
            (start, end) if start < 0 && end < 0 && start > end => 0..0,
            (start, end) => range(start, end, len, counts_bits(call, 4)?),
        },
        _ => return Err(Failure::SYNTAX),
    };
    let mut count = 0;
    pieces(call, entry, bits, false, &mut |_, piece| {
        count += ones(piece);
        true
    })?;
    call.out.size(count);
    Ok(())
}

fn ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_ne_bytes(*word).count_ones());
    words.chain(rest.iter().map(|byte| byte.count_ones())).map(u64::from).sum()
}

/// The first bit of bytes that has this value.
fn first(bytes: &[u8], on: bool) -> Option<u64> {
    let none = if on { 0 } else { 0xFF };
    let index = bytes.iter().position(|&byte| byte != none)?;
    let byte = if on { bytes[index] } else { !bytes[index] };
    Some(index as u64 * 8 + u64::from(byte.leading_zeros()))
}

fn bitpos(call: &mut Call<'_>) -> Outcome {
    let on = match call.integer(2)? {
        0 => false,
        1 => true,
        _ => return Err(Failure::Say("ERR The bit argument must be 1 or 0.".into())),
    };
    let Some(entry) = call.look_for(call.args.at(1), Kind::String)? else {
        call.out.integer(if on { -1 } else { 0 });
        return Ok(());
    };
    let ends = call.args.len() > 4;
    let (start, end, of_bits) = match call.args.len() {
        3 => (0, -1, false),
        4..=6 => {
            let (start, of_bits) = (call.integer(3)?, counts_bits(call, 5)?);
            (start, if ends { call.integer(4)? } else { -1 }, of_bits)
        }
        _ => return Err(Failure::SYNTAX),
    };
    let len = text::len(call.tx, entry)?;
    let bits = range(start, end, len, of_bits);
    if bits.is_empty() {
        call.out.integer(-1);
        return Ok(());
    }
    let mut found = None;
    pieces(call, entry, bits, !on, &mut |before, piece| {
        found = first(piece, on).map(|at| before + at);
        found.is_none()
    })?;
    match found {
        Some(at) => call.out.size(at),
        // A string goes on with zeros.
        None if !on && !ends => call.out.size(len * 8),
        None => call.out.integer(-1),
    }
    Ok(())
}

fn bitop(call: &mut Call<'_>) -> Outcome {
    let combine: fn(&mut u8, u8) = match () {
        () if call.args.is(1, "and") => |to, from| *to &= from,
        () if call.args.is(1, "or") => |to, from| *to |= from,
        () if call.args.is(1, "xor") => |to, from| *to ^= from,
        () if call.args.is(1, "not") => |_, _| (),
        () => return Err(Failure::SYNTAX),
    };
    let inverts = call.args.is(1, "not");
    if inverts && call.args.len() != 4 {
        let text = "ERR BITOP NOT must be called with a single source key.";
        return Err(Failure::Say(text.into()));
    }
    let (target, keys) = (call.args.at(2), call.args.from(3));
    let (mut sources, mut longest) = (Vec::new(), 0);
    for key in keys.iter() {
        let entry = call.look_for(key, Kind::String)?;
        if let Some(entry) = entry {
            longest = longest.max(text::len(call.tx, entry)?);
        }
        sources.push(entry);
    }
    let mut result = Vec::new();
    while (result.len() as u64) < longest {
        let at = result.len() as u64;
        let step = STEP.min(longest - at) as usize;
        let mut sources = sources.iter();
        let mut combined = bytes(call, sources.next().copied().flatten(), at, step)?;
        for source in sources {
            let more = bytes(call, *source, at, step)?;
            combined.iter_mut().zip(more).for_each(|(to, from)| combine(to, from));
        }
        if inverts {
            combined.iter_mut().for_each(|byte| *byte = !*byte);
        }
        result.append(&mut combined);
    }
    call.remove(target)?;
    if longest > 0 {
        let new = text::store(call.tx, None, &result)?;
        call.put(target, None, new)?;
    }
    call.out.size(longest);
    Ok(())
}

/// What becomes of a result that does not fit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

/// One of BITFIELD's steps.
struct Step {
    action: Action,
    signed: bool,
    width: u32,
    at: u64,
    overflow: Overflow,
}

impl Step {
    fn end(&self) -> u64 {
        self.at + u64::from(self.width)
    }

    /// The bytes that it touches: the first, and how many.
    fn bytes(&self) -> (u64, usize) {
        (self.at / 8, (self.end().div_ceil(8) - self.at / 8) as usize)
    }

    /// Places of its bits in these bytes, from the lowest bit on.
    fn shift(&self) -> u32 {
        (8 * self.end().div_ceil(8) - self.end()) as u32
    }

    fn mask(&self) -> u128 {
        (1 << self.width) - 1
    }

    /// Its integer in the bytes that it touches.
    fn read(&self, bytes: &[u8]) -> i128 {
        let all = bytes.iter().fold(0_u128, |all, &byte| all << 8 | u128::from(byte));
        let value = (all >> self.shift() & self.mask()) as i128;
        match self.signed && value >> (self.width - 1) & 1 == 1 {
            true => value - (1 << self.width),
            false => value,
        }
    }

    /// Puts an integer into the bytes that it touches.
    fn write(&self, bytes: &mut [u8], value: i128) {
        let mut all = bytes.iter().fold(0_u128, |all, &byte| all << 8 | u128::from(byte));
        all &= !(self.mask() << self.shift());
        all |= (value as u128 & self.mask()) << self.shift();
        for byte in bytes.iter_mut().rev() {
            *byte = all as u8;
            all >>= 8;
        }
    }

    /// A result as it is stored; none if it does not fit, and must.
    fn fitted(&self, value: i128) -> Option<i128> {
        let (least, most) = match self.signed {
            true => (-(1 << (self.width - 1)), (1 << (self.width - 1)) - 1),
            false => (0, (1 << self.width) - 1),
        };
        if (least..=most).contains(&value) {
            return Some(value);
        }
        match self.overflow {
            Overflow::Fail => None,
            Overflow::Saturate if value < least => Some(least),
            Overflow::Saturate => Some(most),
            Overflow::Wrap => {
                let wrapped = (value as u128 & self.mask()) as i128;
                Some(if wrapped > most { wrapped - (1 << self.width) } else { wrapped })
            }
        }
    }
}

fn steps(call: &Call<'_>) -> Outcome<Vec<Step>> {
    const TYPE: &str = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not \
                        supported but i64 is.";
    let args = call.args;
    let (mut steps, mut overflow, mut at) = (Vec::new(), Overflow::Wrap, 2);
    while at < args.len() {
        let left = args.len() - at - 1;
        if args.is(at, "overflow") && left >= 1 {
            overflow = match () {
                () if args.is(at + 1, "wrap") => Overflow::Wrap,
                () if args.is(at + 1, "sat") => Overflow::Saturate,
                () if args.is(at + 1, "fail") => Overflow::Fail,
                () => return Err(Failure::Say("ERR Invalid OVERFLOW type specified".into())),
            };
            at += 2;
            continue;
        }
        let (writes, adds) = match () {
            () if args.is(at, "get") && left >= 2 => (false, false),
            () if args.is(at, "set") && left >= 3 => (true, false),
            () if args.is(at, "incrby") && left >= 3 => (true, true),
            () => return Err(Failure::SYNTAX),
        };
        let (signed, digits) = match args.at(at + 1) {
            [b'i', digits @ ..] => (true, digits),
            [b'u', digits @ ..] => (false, digits),
            _ => return Err(Failure::Say(TYPE.into())),
        };
        let widest = if signed { 64 } else { 63 };
        let width =
            number::parse_i64(number::until_nul(digits)).filter(|w| (1..=widest).contains(w));
        let width = width.ok_or(Failure::Say(TYPE.into()))? as u32;
        let place = offset(args.at(at + 2), Some(width))?;
        let action = match (writes, adds) {
            (false, _) => Action::Get,
            (true, false) => Action::Set(call.integer(at + 3)?),
            (true, true) => Action::Add(call.integer(at + 3)?),
        };
        steps.push(Step { action, signed, width, at: place, overflow });
        at += if writes { 4 } else { 3 };
    }
    Ok(steps)
}

fn bitfield(call: &mut Call<'_>) -> Outcome {
    let steps = steps(call)?;
    let key = call.args.at(1);
    let writing = steps.iter().filter(|step| step.action != Action::Get);
    let Some(end) = writing.map(Step::end).max() else { return get_fields(call, &steps) };
    // Its first bit may be within the longest string, and its last one not.
    if end.div_ceil(8) > LONGEST {
        return Err(Failure::Say(OFFSET.into()));
    }
    let mut old = call.claim_for(key, Kind::String)?;
    let (before, after) = (len(call, old)?, end.div_ceil(8));
    if after > before {
        // The whole is there first, whatever becomes of the steps.
        let entry = old.map(|old| old.entry);
        let new = text::overwrite(call.tx, entry, after as usize - 1, &[0])?;
        call.db.put(call.tx, key, old, new)?;
        old = call.db.find(call.tx, key)?;
    }
    let mut changed = false;
    call.out.array(steps.len());
    for step in &steps {
        let (first, count) = step.bytes();
        let mut bytes = bytes(call, old.map(|old| old.entry), first, count)?;
        let value = step.read(&bytes);
        let (new, shows_old) = match step.action {
            Action::Get => (None, true),
            // As a number without a sign it is a great one.
            Action::Set(new) if !step.signed => (Some(i128::from(new as u64)), true),
            Action::Set(new) => (Some(i128::from(new)), true),
            Action::Add(more) => (Some(value + i128::from(more)), false),
        };
        let Some(new) = new else {
            call.out.integer(value as i64);
            continue;
        };
        let Some(new) = step.fitted(new) else {
            call.out.null();
            continue;
        };
        call.out.integer(if shows_old { value } else { new } as i64);
        if new != value {
            step.write(&mut bytes, new);
            let entry = old.map(|old| old.entry);
            let new = text::overwrite(call.tx, entry, first as usize, &bytes)?;
            call.db.put(call.tx, key, old, new)?;
            old = call.db.find(call.tx, key)?;
            changed = true;
        }
    }
    if changed || after > before {
        call.touch(key)?;
    }
    Ok(())
}

fn bitfield_ro(call: &mut Call<'_>) -> Outcome {
    let steps = steps(call)?;
    if steps.iter().any(|step| step.action != Action::Get) {
        let text = "ERR BITFIELD_RO only supports the GET subcommand";
        return Err(Failure::Say(text.into()));
    }
    get_fields(call, &steps)
}

fn get_fields(call: &mut Call<'_>, steps: &[Step]) -> Outcome {
    let entry = call.look_for(call.args.at(1), Kind::String)?;
    call.out.array(steps.len());
    for step in steps {
        let (first, count) = step.bytes();
        let bytes = bytes(call, entry, first, count)?;
        call.out.integer(step.read(&bytes) as i64);
    }
    Ok(())
}
