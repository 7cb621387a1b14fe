//! The library `struct`: numbers and strings in bytes of a layout, as Redis's `struct` has it.

use super::interpreter::State;
use super::json::as_number;
use super::library::{Arguments, Native, Outcome, one, wrong};
use mlua::{Lua, MultiValue, Value};

pub(super) const FUNCTIONS: &[(&str, Native)] =
    &[("pack", pack), ("unpack", unpack), ("size", size)];

/// Bytes of the largest integer.
const INTEGER_MAX: usize = 32;
/// Zeros that a format may ask for, and results that it may have.
const PARTS_MAX: usize = 7000;

/// A layout: its options one by one.
struct Layout<'a> {
    text: &'a [u8],
    big_endian: bool,
    align: usize,
    name: &'static str,
}

impl<'a> Layout<'a> {
    fn new(text: &'a [u8], name: &'static str) -> Self {
        // As C sees it.
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        Layout { text: &text[..end], big_endian: cfg!(target_endian = "big"), align: 1, name }
    }

    fn number(&mut self, default: usize) -> Outcome<usize> {
        let digits = self.text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let (digits, rest) = self.text.split_at(digits);
        self.text = rest;
        let value = std::str::from_utf8(digits).ok().and_then(|text| text.parse::<i32>().ok());
        value.map_or_else(|| wrong("integral size overflow"), |value| Ok(value as usize))
    }

    /// The next option, and the size of what it stands for.
    fn next(&mut self) -> Outcome<Option<(u8, usize)>> {
        let Some((&option, rest)) = self.text.split_first() else { return Ok(None) };
        self.text = rest;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > INTEGER_MAX {
                    return wrong(format!(
                        "integral size {size} is larger than limit of {INTEGER_MAX}"
                    ));
                }
                size
            }
            _ => 0,
        };
        Ok(Some((option, size)))
    }

    /// Bytes before something of this size, at this place.
    fn padding(&self, at: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.align);
        size.wrapping_sub(at & size.wrapping_sub(1)) & size.wrapping_sub(1)
    }

    /// An option that stands for nothing itself.
    fn control(&mut self, option: u8) -> Outcome<()> {
        match option {
            b' ' => {}
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let align = self.number(8)?;
                if !align.is_power_of_two() {
                    return wrong(format!("alignment {align} is not a power of 2"));
                }
                self.align = align;
            }
            other => {
                return wrong(format!(
                    "bad argument #1 to '{}' (invalid format option '{}')",
                    self.name, other as char
                ));
            }
        }
        Ok(())
    }
}

/// Bytes in the order of the layout.
fn ordered(mut bytes: Vec<u8>, big_endian: bool) -> Vec<u8> {
    // They come with the lowest first.
    if big_endian {
        bytes.reverse();
    }
    bytes
}

fn pack(lua: &Lua, _: &State, args: Arguments) -> Outcome<MultiValue> {
    let text = args.string(lua, 0, "pack")?;
    let text = text.as_bytes();
    let mut layout = Layout::new(&text, "pack");
    let (mut out, mut arg) = (Vec::new(), 1);
    while let Some((option, size)) = layout.next()? {
        let padding = layout.padding(out.len(), option, size);
        if padding > PARTS_MAX {
            return wrong("alignment is too large");
        }
        out.resize(out.len() + padding, 0);
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let number = args.number(arg, "pack")?;
                let value = if number < 0.0 { number as i64 as u64 } else { number as u64 };
                let mut bytes = value.to_le_bytes().to_vec();
                bytes.resize(size, 0);
                out.extend_from_slice(&ordered(bytes, layout.big_endian));
                arg += 1;
            }
            b'x' => out.push(0),
            b'f' => {
                let bytes = (args.number(arg, "pack")? as f32).to_le_bytes().to_vec();
                out.extend_from_slice(&ordered(bytes, layout.big_endian));
                arg += 1;
            }
            b'd' => {
                let bytes = args.number(arg, "pack")?.to_le_bytes().to_vec();
                out.extend_from_slice(&ordered(bytes, layout.big_endian));
                arg += 1;
            }
            b'c' | b's' => {
                let string = args.string(lua, arg, "pack")?;
                let string = string.as_bytes();
                arg += 1;
                let size = if size == 0 { string.len() } else { size };
                if string.len() < size {
                    return args.unsuitable(arg, "pack", "string too short");
                }
                out.extend_from_slice(&string[..size]);
                if option == b's' {
                    out.push(0);
                }
            }
            other => layout.control(other)?,
        }
    }
    Ok(one(Value::String(lua.create_string(out)?)))
}

fn integer(bytes: &[u8], big_endian: bool, signed: bool) -> f64 {
    let bytes = ordered(bytes.to_vec(), big_endian);
    let low = &bytes[..bytes.len().min(8)];
    let mut value = low.iter().rev().fold(0_u64, |value, &byte| value << 8 | u64::from(byte));
    if !signed {
        return value as f64;
    }
    let unused = 64 - 8 * low.len() as u32;
    if unused < 64 {
        value <<= unused;
        return ((value as i64) >> unused) as f64;
    }
    0.0
}

fn unpack(lua: &Lua, _: &State, args: Arguments) -> Outcome<MultiValue> {
    let text = args.string(lua, 0, "unpack")?;
    let text = text.as_bytes();
    let data = args.string(lua, 1, "unpack")?;
    let data = data.as_bytes();
    let first = if args.get(2).is_nil() { 1.0 } else { args.number(2, "unpack")? };
    if first < 1.0 || first.is_nan() {
        return args.unsuitable(2, "unpack", "offset must be 1 or greater");
    }
    let mut at = first as usize - 1;
    let mut layout = Layout::new(&text, "unpack");
    let mut results: Vec<Value> = Vec::new();
    let within = |at: usize, size: usize| {
        at.checked_add(size)
            .and_then(|end| data.get(at..end))
            .map_or_else(|| args.unsuitable(1, "unpack", "data string too short"), Ok)
    };
    while let Some((option, mut size)) = layout.next()? {
        at = at.saturating_add(layout.padding(at, option, size));
        let bytes = within(at, size)?;
        if results.len() >= PARTS_MAX {
            return wrong("stack overflow (too many results)");
        }
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let signed = option.is_ascii_lowercase();
                results.push(Value::Number(integer(bytes, layout.big_endian, signed)));
            }
            b'x' => {}
            b'f' => {
                let bytes = ordered(bytes.to_vec(), layout.big_endian);
                let value = f32::from_le_bytes(bytes.try_into().unwrap_or_default());
                results.push(Value::Number(f64::from(value)));
            }
            b'd' => {
                let bytes = ordered(bytes.to_vec(), layout.big_endian);
                results
                    .push(Value::Number(f64::from_le_bytes(bytes.try_into().unwrap_or_default())));
            }
            b'c' => {
                if size == 0 {
                    let Some(number) = results.last().and_then(as_number) else {
                        return wrong("format 'c0' needs a previous size");
                    };
                    results.pop();
                    size = number as usize;
                }
                results.push(Value::String(lua.create_string(within(at, size)?)?));
            }
            b's' => {
                let rest = &data[at..];
                let Some(len) = rest.iter().position(|&byte| byte == 0) else {
                    return wrong("unfinished string in data");
                };
                size = len + 1;
                results.push(Value::String(lua.create_string(&rest[..len])?));
            }
            other => layout.control(other)?,
        }
        at = at.saturating_add(size);
    }
    results.push(Value::Number((at + 1) as f64));
    Ok(results.into_iter().collect())
}

fn size(lua: &Lua, _: &State, args: Arguments) -> Outcome<MultiValue> {
    let text = args.string(lua, 0, "size")?;
    let text = text.as_bytes();
    let mut layout = Layout::new(&text, "size");
    let mut at = 0_usize;
    while let Some((option, size)) = layout.next()? {
        at = at.saturating_add(layout.padding(at, option, size));
        match (option, size) {
            (b's', _) => return args.unsuitable(0, "size", "option 's' has no fixed size"),
            (b'c', 0) => return args.unsuitable(0, "size", "option 'c0' has no fixed size"),
            (option, _) if !option.is_ascii_alphanumeric() => layout.control(option)?,
            _ => {}
        }
        at = at.saturating_add(size);
    }
    Ok(one(Value::Number(at as f64)))
}
