//! The library `cmsgpack`: MessagePack from Lua's values, and back, as lua-cmsgpack has it.

use super::interpreter::State;
use super::json::as_number;
use super::library::{Arguments, Native, Outcome, Sink, one, wrong};
use mlua::{Lua, MultiValue, Table, Value};

pub(super) const FUNCTIONS: &[(&str, Native)] = &[
    ("pack", pack),
    ("unpack", |lua, state, args| unpack(lua, state, &args, None)),
    ("unpack_one", |lua, state, args| {
        let offset = optional(&args, 1, "unpack_one")?;
        unpack(lua, state, &args, Some((1, offset)))
    }),
    ("unpack_limit", |lua, state, args| {
        let limit = args.number(1, "unpack_limit")? as i64;
        let offset = optional(&args, 2, "unpack_limit")?;
        // Without both it is all that there is.
        unpack(lua, state, &args, ((limit, offset) != (0, 0)).then_some((limit, offset)))
    }),
];

/// Tables in tables that are packed; those inside of them become nil.
const PACKED_DEPTH: usize = 16;
/// Tables in tables that are unpacked.
const UNPACKED_DEPTH: usize = 500;
/// Results that a function may have.
const RESULTS_MAX: usize = 7000;

fn optional(args: &Arguments, index: usize, name: &str) -> Outcome<i64> {
    if args.get(index).is_nil() { Ok(0) } else { Ok(args.number(index, name)? as i64) }
}

fn pack(lua: &Lua, state: &State, args: Arguments) -> Outcome<MultiValue> {
    if args.len() == 0 {
        return wrong("bad argument #0 to 'pack' (MessagePack pack needs input.)");
    }
    let mut out = Sink::new(lua, state);
    for value in args.iter() {
        push(&mut out, value, 0)?;
    }
    Ok(one(out.into_string(lua)?))
}

/// A length with the code of its size: up to `short` in the first byte.
fn push_len(
    out: &mut Sink<'_>,
    len: usize,
    (short, base): (usize, u8),
    codes: [Option<u8>; 3],
) -> Outcome<()> {
    match (len, codes) {
        (len, _) if len <= short => out.push(base | len as u8),
        (len @ ..=0xFF, [Some(code), _, _]) => out.extend(&[code, len as u8]),
        (len @ ..=0xFFFF, [_, Some(code), _]) => {
            out.push(code)?;
            out.extend(&(len as u16).to_be_bytes())
        }
        (len, [_, _, code]) => {
            out.extend(code.as_slice())?;
            out.extend(&(len as u32).to_be_bytes())
        }
    }
}

fn push(out: &mut Sink<'_>, value: &Value, depth: usize) -> Outcome<()> {
    match value {
        Value::Boolean(value) => out.push(if *value { 0xC3 } else { 0xC2 }),
        Value::String(text) => {
            let text = text.as_bytes();
            push_len(out, text.len(), (31, 0xA0), [Some(0xD9), Some(0xDA), Some(0xDB)])?;
            out.extend(&text)
        }
        Value::Table(table) if depth < PACKED_DEPTH => push_table(out, table, depth),
        other => match as_number(other) {
            Some(number) => push_number(out, number),
            None => out.push(0xC0),
        },
    }
}

fn push_table(out: &mut Sink<'_>, table: &Table, depth: usize) -> Outcome<()> {
    let (mut most, mut count, mut is_array) = (0.0_f64, 0_usize, true);
    for pair in table.pairs::<Value, Value>() {
        let (key, _) = pair?;
        out.step()?;
        count += 1;
        match as_number(&key) {
            Some(number) if number > 0.0 && number.floor() == number => most = most.max(number),
            _ => is_array = false,
        }
    }
    if is_array && most == count as f64 {
        push_len(out, count, (15, 0x90), [None, Some(0xDC), Some(0xDD)])?;
        for index in 1..=count {
            push(out, &table.raw_get(index)?, depth + 1)?;
        }
        return Ok(());
    }
    push_len(out, count, (15, 0x80), [None, Some(0xDE), Some(0xDF)])?;
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        push(out, &key, depth + 1)?;
        push(out, &value, depth + 1)?;
    }
    Ok(())
}

fn push_number(out: &mut Sink<'_>, number: f64) -> Outcome<()> {
    // 2^63 itself is none of the integers, though it is what the largest of them is rounded to.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let whole = number as i64;
    if whole as f64 != number || number >= LIMIT {
        let single = number as f32;
        if f64::from(single) == number {
            out.push(0xCA)?;
            return out.extend(&single.to_be_bytes());
        }
        out.push(0xCB)?;
        return out.extend(&number.to_be_bytes());
    }
    match whole {
        -32..=127 => out.push(whole as u8),
        128..=0xFF => out.extend(&[0xCC, whole as u8]),
        -128..-32 => out.extend(&[0xD0, whole as u8]),
        0x100..=0xFFFF => {
            out.push(0xCD)?;
            out.extend(&(whole as u16).to_be_bytes())
        }
        -0x8000..-128 => {
            out.push(0xD1)?;
            out.extend(&(whole as i16).to_be_bytes())
        }
        0x1_0000..=0xFFFF_FFFF => {
            out.push(0xCE)?;
            out.extend(&(whole as u32).to_be_bytes())
        }
        -0x8000_0000..-0x8000 => {
            out.push(0xD2)?;
            out.extend(&(whole as i32).to_be_bytes())
        }
        0x1_0000_0000.. => {
            out.push(0xCF)?;
            out.extend(&whole.to_be_bytes())
        }
        _ => {
            out.push(0xD3)?;
            out.extend(&whole.to_be_bytes())
        }
    }
}

/// Unpacks all values, or as many as `limit`, from `offset` on: then the next one's offset comes first.
fn unpack(
    lua: &Lua,
    state: &State,
    args: &Arguments,
    part: Option<(i64, i64)>,
) -> Outcome<MultiValue> {
    let name = if part.is_some() { "unpack_limit" } else { "unpack" };
    let text = args.string(lua, 0, name)?;
    let bytes = text.as_bytes();
    let (limit, offset) = part.unwrap_or((i64::MAX, 0));
    let len = bytes.len();
    if limit < 0 || offset < 0 {
        return wrong(format!(
            "Invalid request to unpack with offset of {offset} and limit of {len}."
        ));
    }
    if offset > len as i64 {
        return wrong(format!("Start offset {offset} greater than input length {len}."));
    }
    let mut input = Input { lua, state, bytes: &bytes[offset as usize..] };
    let mut results = MultiValue::new();
    while !input.bytes.is_empty() && (results.len() as i64) < limit {
        if results.len() >= RESULTS_MAX {
            return wrong("stack overflow (too many results)");
        }
        results.push_back(input.value(0)?);
    }
    if part.is_some() {
        let left = input.bytes.len();
        let next = if left == 0 { -1 } else { (len - left) as i64 };
        results.push_front(Value::Number(next as f64));
    }
    Ok(results)
}

struct Input<'a> {
    lua: &'a Lua,
    state: &'a State,
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Outcome<&'a [u8]> {
        match self.bytes.split_at_checked(len) {
            Some((taken, rest)) => {
                self.bytes = rest;
                Ok(taken)
            }
            None => wrong("Missing bytes in input."),
        }
    }

    /// An integer of so many bytes, without a sign.
    fn size(&mut self, len: usize) -> Outcome<u64> {
        Ok(self.take(len)?.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    fn value(&mut self, depth: usize) -> Outcome<Value> {
        self.state.spend(8)?;
        let code = self.take(1)?[0];
        let number = |value: f64| Ok(Value::Number(value));
        match code {
            0x00..=0x7F | 0xE0..=0xFF => number(f64::from(code as i8)),
            0x80..=0x8F => self.map(u64::from(code & 0xF), depth),
            0x90..=0x9F => self.array(u64::from(code & 0xF), depth),
            0xA0..=0xBF => self.text(u64::from(code & 0x1F)),
            0xC0 => Ok(Value::Nil),
            0xC2 | 0xC3 => Ok(Value::Boolean(code == 0xC3)),
            0xC4 | 0xD9 => self.sized(1, Self::text),
            0xC5 | 0xDA => self.sized(2, Self::text),
            0xC6 | 0xDB => self.sized(4, Self::text),
            0xCA => number(f64::from(f32::from_bits(self.size(4)? as u32))),
            0xCB => number(f64::from_bits(self.size(8)?)),
            0xCC => number(self.size(1)? as f64),
            0xCD => number(self.size(2)? as f64),
            0xCE => number(self.size(4)? as f64),
            // As lua-cmsgpack has it.
            0xCF => number(self.size(8)? as i64 as f64),
            0xD0 => number(f64::from(self.size(1)? as i8)),
            0xD1 => number(f64::from(self.size(2)? as i16)),
            0xD2 => number(f64::from(self.size(4)? as i32)),
            0xD3 => number(self.size(8)? as i64 as f64),
            0xDC => self.sized(2, |input, len| input.array(len, depth)),
            0xDD => self.sized(4, |input, len| input.array(len, depth)),
            0xDE => self.sized(2, |input, len| input.map(len, depth)),
            0xDF => self.sized(4, |input, len| input.map(len, depth)),
            _ => wrong("Bad data format in input."),
        }
    }

    fn sized(
        &mut self,
        bytes: usize,
        read: impl FnOnce(&mut Self, u64) -> Outcome<Value>,
    ) -> Outcome<Value> {
        let len = self.size(bytes)?;
        read(self, len)
    }

    fn text(&mut self, len: u64) -> Outcome<Value> {
        let bytes = self.take(len as usize)?;
        Ok(Value::String(self.lua.create_string(bytes)?))
    }

    fn deeper(&self, depth: usize) -> Outcome<usize> {
        if depth < UNPACKED_DEPTH { Ok(depth + 1) } else { wrong("Bad data format in input.") }
    }

    fn array(&mut self, len: u64, depth: usize) -> Outcome<Value> {
        let depth = self.deeper(depth)?;
        let table = self.lua.create_table()?;
        for index in 1..=len {
            let value = self.value(depth)?;
            table.raw_seti(index as usize, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: u64, depth: usize) -> Outcome<Value> {
        let depth = self.deeper(depth)?;
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let (key, value) = (self.value(depth)?, self.value(depth)?);
            if key.is_nil() || as_number(&key).is_some_and(f64::is_nan) {
                return wrong("Bad data format in input.");
            }
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(table))
    }
}
