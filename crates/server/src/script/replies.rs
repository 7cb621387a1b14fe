//! Replies of commands as Lua's values, and Lua's values as replies.

use super::interpreter::State;
use crate::protocol::{Protocol, Reply};
use mlua::{Lua, Result, Table, Value};

/// Tables in tables that a script's result may have, as deep as Redis's are at least.
const DEPTH_MAX: usize = 500;

/// The value of a reply that the server has written itself.
pub(super) struct Parser<'a> {
    lua: &'a Lua,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(lua: &'a Lua, bytes: &'a [u8]) -> Self {
        Parser { lua, bytes, at: 0 }
    }

    /// The bytes up to a line's end.
    fn line(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        let len = rest.windows(2).position(|two| two == b"\r\n").unwrap_or(rest.len());
        self.at += len + 2;
        &rest[..len]
    }

    fn number(line: &[u8]) -> i64 {
        std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    fn bulk(&mut self, len: i64) -> &'a [u8] {
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        let len = usize::try_from(len).unwrap_or_default().min(rest.len());
        self.at += len + 2;
        &rest[..len]
    }

    fn one_field(&self, name: &str, value: impl mlua::IntoLua) -> Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    fn text(&self, bytes: &[u8]) -> Result<Value> {
        self.lua.create_string(bytes).map(Value::String)
    }

    pub(super) fn value(&mut self) -> Result<Value> {
        let line = self.line();
        let Some((&kind, rest)) = line.split_first() else { return Ok(Value::Nil) };
        let number = Self::number(rest);
        match kind {
            b'+' => self.one_field("ok", self.text(rest)?),
            b'-' => self.one_field("err", self.text(rest)?),
            b':' => Ok(Value::Number(number as f64)),
            b'$' | b'*' if number < 0 => Ok(Value::Boolean(false)),
            b'$' => {
                let bytes = self.bulk(number);
                self.text(bytes)
            }
            b'*' => self.array(number),
            b'_' => Ok(Value::Nil),
            b'#' => Ok(Value::Boolean(rest == b"t")),
            b',' => self.one_field("double", double(rest)),
            b'(' => self.one_field("big_number", self.text(rest)?),
            b'=' => {
                let bytes = self.bulk(number);
                let (format, text) = bytes.split_at(bytes.len().min(4));
                let table = self.lua.create_table_with_capacity(0, 2)?;
                table.raw_set("format", self.text(format.strip_suffix(b":").unwrap_or(format))?)?;
                table.raw_set("string", self.text(text)?)?;
                self.one_field("verbatim_string", table)
            }
            b'%' => {
                let table = self.lua.create_table()?;
                for _ in 0..number {
                    let (key, value) = (self.value()?, self.value()?);
                    if !key.is_nil() {
                        table.raw_set(key, value)?;
                    }
                }
                self.one_field("map", table)
            }
            b'~' => {
                let table = self.lua.create_table()?;
                for _ in 0..number {
                    let member = self.value()?;
                    if !member.is_nil() {
                        table.raw_set(member, true)?;
                    }
                }
                self.one_field("set", table)
            }
            // The server answers with nothing else.
            _ => Ok(Value::Nil),
        }
    }

    fn array(&mut self, len: i64) -> Result<Value> {
        let len = usize::try_from(len).unwrap_or_default();
        // No more than the bytes can be of.
        let table = self.lua.create_table_with_capacity(len.min(self.bytes.len() / 4 + 1), 0)?;
        for index in 1..=len {
            let value = self.value()?;
            table.raw_seti(index, value)?;
        }
        Ok(Value::Table(table))
    }
}

fn double(text: &[u8]) -> f64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// A number as C casts it to a `long long`.
fn whole(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&value) { value as i64 } else { i64::MIN }
}

/// The text of a value that Lua takes for a string.
fn string_like(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        _ => None,
    }
}

/// Line ends become spaces: a reply of one line has none.
fn flat(text: &[u8]) -> Vec<u8> {
    text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }).collect()
}

/// Writes a script's result as its reply. Errors that it has are given to `on_error`.
pub(super) fn write(
    value: &Value,
    state: &State,
    out: &mut Reply<'_>,
    on_error: &mut dyn FnMut(&str),
) -> Result<()> {
    Writer { state, script: state.protocol.get(), on_error }.write(value, out, 0)
}

struct Writer<'a> {
    state: &'a State,
    /// The protocol that the script has chosen.
    script: Protocol,
    on_error: &'a mut dyn FnMut(&str),
}

impl Writer<'_> {
    fn fail(&mut self, text: &str, out: &mut Reply<'_>) {
        (self.on_error)(text);
        out.error(text);
    }

    fn write(&mut self, value: &Value, out: &mut Reply<'_>, depth: usize) -> Result<()> {
        // Tables that share parts have more values than a reply, or a script's time, has room for.
        self.state.spend(8)?;
        if out.is_cut() {
            return Ok(());
        }
        let resp3 = out.protocol() == Protocol::Resp3;
        match value {
            Value::String(text) => out.bulk(&text.as_bytes()),
            Value::Boolean(value) => match (self.script, resp3) {
                (Protocol::Resp2, _) if *value => out.integer(1),
                (Protocol::Resp2, _) => out.null(),
                (Protocol::Resp3, true) => out.raw(if *value { b"#t\r\n" } else { b"#f\r\n" }),
                (Protocol::Resp3, false) => out.flag(*value),
            },
            Value::Integer(value) => out.integer(*value),
            Value::Number(value) => out.integer(whole(*value)),
            Value::Table(table) if depth < DEPTH_MAX => return self.table(table, out, depth),
            Value::Table(_) => self.fail("ERR reached lua stack limit", out),
            _ => out.null(),
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, out: &mut Reply<'_>, depth: usize) -> Result<()> {
        let resp3 = out.protocol() == Protocol::Resp3;
        let field = |name: &str| table.raw_get::<Value>(name);
        if let Some(text) = string_like(&field("err")?) {
            let text = String::from_utf8_lossy(&text).into_owned();
            self.fail(&text, out);
            return Ok(());
        }
        if let Some(text) = string_like(&field("ok")?) {
            out.raw(b"+");
            out.raw(&flat(&text));
            out.raw(b"\r\n");
            return Ok(());
        }
        match field("double")? {
            Value::Integer(value) => {
                out.double(value as f64);
                return Ok(());
            }
            Value::Number(value) => {
                out.double(value);
                return Ok(());
            }
            _ => {}
        }
        if let Some(text) = string_like(&field("big_number")?) {
            if resp3 {
                out.raw(b"(");
                out.raw(&flat(&text));
                out.raw(b"\r\n");
            } else {
                out.bulk(&flat(&text));
            }
            return Ok(());
        }
        if let Value::Table(inner) = field("verbatim_string")?
            && let Some(format) = string_like(&inner.raw_get("format")?)
            && let Some(text) = string_like(&inner.raw_get("string")?)
        {
            if resp3 {
                let mut format = format;
                format.resize(3, b' ');
                let header = format!("={}\r\n", text.len() + 4);
                [header.as_bytes(), &flat(&format), b":", &text, b"\r\n"]
                    .into_iter()
                    .for_each(|part| out.raw(part));
            } else {
                out.bulk(&text);
            }
            return Ok(());
        }
        if let Value::Table(map) = field("map")? {
            let (start, mut count) = (out.len(), 0);
            for pair in map.pairs::<Value, Value>() {
                let (key, value) = pair?;
                if out.is_cut() {
                    break;
                }
                self.write(&key, out, depth + 1)?;
                self.write(&value, out, depth + 1)?;
                count += 1;
            }
            out.map_since(start, count);
            return Ok(());
        }
        if let Value::Table(set) = field("set")? {
            let (start, mut count) = (out.len(), 0);
            for pair in set.pairs::<Value, Value>() {
                self.write(&pair?.0, out, depth + 1)?;
                count += 1;
            }
            out.set_since(start, count);
            return Ok(());
        }
        self.array(table, out, depth)
    }

    fn array(&mut self, table: &Table, out: &mut Reply<'_>, depth: usize) -> Result<()> {
        let mut len = 0_i64;
        while !table.raw_get::<Value>(len + 1)?.is_nil() {
            len += 1;
            self.state.spend(1)?;
        }
        out.array(len as usize);
        for index in 1..=len {
            if out.is_cut() {
                break;
            }
            self.write(&table.raw_get(index)?, out, depth + 1)?;
        }
        Ok(())
    }
}
