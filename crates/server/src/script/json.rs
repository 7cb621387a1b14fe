//! The library `cjson`: JSON from Lua's values, and back, as lua-cjson 2.1 has it. Nested values are kept on a stack of
//! its own, and not on the thread's.

use super::decimal::general;
use super::interpreter::{State, pair_after};
use super::library::{Arguments, Native, Outcome, Sink, one, type_name, wrong};
use mlua::{Lua, LuaString, MultiValue, Table, Value};

pub(super) const FUNCTIONS: &[(&str, Native)] = &[
    ("encode", encode),
    ("decode", decode),
    ("encode_sparse_array", set_sparse),
    ("encode_max_depth", |_, state, args| {
        number_setting(state, &args, "encode_max_depth", i32::MAX, |s| &mut s.encode_depth)
    }),
    ("decode_max_depth", |_, state, args| {
        number_setting(state, &args, "decode_max_depth", i32::MAX, |s| &mut s.decode_depth)
    }),
    ("encode_number_precision", |_, state, args| {
        number_setting(state, &args, "encode_number_precision", 14, |s| &mut s.precision)
    }),
    ("encode_keep_buffer", |_, state, args| {
        // It has no buffer to keep: the setting is answered, and changes nothing.
        flag_setting(state, &args, "encode_keep_buffer", |s| &mut s.keep_buffer)
    }),
    ("encode_invalid_numbers", |_, state, args| {
        flag_setting(state, &args, "encode_invalid_numbers", |s| &mut s.encode_invalid)
    }),
    ("decode_invalid_numbers", |_, state, args| {
        flag_setting(state, &args, "decode_invalid_numbers", |s| &mut s.decode_invalid)
    }),
];

/// The settings of lua-cjson.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    sparse_convert: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    encode_depth: i32,
    decode_depth: i32,
    precision: i32,
    keep_buffer: bool,
    encode_invalid: bool,
    decode_invalid: bool,
}

impl Settings {
    pub(super) const USUAL: Settings = Settings {
        sparse_convert: false,
        sparse_ratio: 2,
        sparse_safe: 10,
        encode_depth: 1000,
        decode_depth: 1000,
        precision: 14,
        keep_buffer: true,
        encode_invalid: false,
        decode_invalid: true,
    };
}

fn change<R>(state: &State, change: impl FnOnce(&mut Settings) -> R) -> R {
    let mut settings = state.settings.get();
    let result = change(&mut settings.json);
    state.settings.set(settings);
    result
}

/// A whole number from `least` to `most` at `index`, if there is one.
fn bounded(
    args: &Arguments,
    index: usize,
    name: &str,
    (least, most): (i32, i32),
) -> Outcome<Option<i32>> {
    if args.get(index).is_nil() {
        return Ok(None);
    }
    let number = args.number(index, name)?;
    if !(f64::from(least)..=f64::from(most)).contains(&number) {
        let why = format!("expected integer between {least} and {most}");
        return args.unsuitable(index, name, &why);
    }
    Ok(Some(number as i32))
}

fn number_setting(
    state: &State,
    args: &Arguments,
    name: &str,
    most: i32,
    place: fn(&mut Settings) -> &mut i32,
) -> Outcome<MultiValue> {
    let given = bounded(args, 0, name, (1, most))?;
    let value = change(state, |settings| {
        let place = place(settings);
        *place = given.unwrap_or(*place);
        *place
    });
    Ok(one(Value::Integer(value.into())))
}

fn flag_setting(
    state: &State,
    args: &Arguments,
    name: &str,
    place: fn(&mut Settings) -> &mut bool,
) -> Outcome<MultiValue> {
    let given = match args.get(0) {
        Value::Nil => None,
        Value::Boolean(value) => Some(*value),
        Value::String(text) if text == "on" || text == "null" => Some(true),
        Value::String(text) if text == "off" => Some(false),
        _ => return args.unsuitable(0, name, "invalid option"),
    };
    let value = change(state, |settings| {
        let place = place(settings);
        *place = given.unwrap_or(*place);
        *place
    });
    Ok(one(Value::Boolean(value)))
}

fn set_sparse(_: &Lua, state: &State, args: Arguments) -> Outcome<MultiValue> {
    let name = "encode_sparse_array";
    let convert = match args.get(0) {
        Value::Nil => None,
        Value::Boolean(value) => Some(*value),
        _ => return args.unsuitable(0, name, "invalid option"),
    };
    let ratio = bounded(&args, 1, name, (0, i32::MAX))?;
    let safe = bounded(&args, 2, name, (0, i32::MAX))?;
    let now = change(state, |settings| {
        settings.sparse_convert = convert.unwrap_or(settings.sparse_convert);
        settings.sparse_ratio = ratio.unwrap_or(settings.sparse_ratio);
        settings.sparse_safe = safe.unwrap_or(settings.sparse_safe);
        *settings
    });
    Ok([
        Value::Boolean(now.sparse_convert),
        Value::Integer(now.sparse_ratio.into()),
        Value::Integer(now.sparse_safe.into()),
    ]
    .into_iter()
    .collect())
}

/// A number, if a value is one.
pub(super) fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Number(value) => Some(*value),
        _ => None,
    }
}

/// A table that is being encoded.
enum Open {
    Array {
        table: Table,
        next: i64,
        len: i64,
    },
    /// With the key that was the last one, at first nil.
    Object {
        table: Table,
        key: Value,
    },
}

fn encode(lua: &Lua, state: &State, args: Arguments) -> Outcome<MultiValue> {
    if args.len() != 1 {
        return wrong("bad argument #1 to 'encode' (expected 1 argument)");
    }
    let settings = state.settings.get().json;
    let mut out = Sink::new(lua, state);
    let mut open: Vec<Open> = Vec::new();
    let mut value = Some(args.get(0).clone());
    loop {
        if let Some(value) = value.take() {
            match value {
                Value::Table(table) => {
                    if open.len() as i64 >= i64::from(settings.encode_depth) {
                        let depth = settings.encode_depth + 1;
                        return wrong(format!("Cannot serialise, excessive nesting ({depth})"));
                    }
                    match array_len(&table, &settings, &out)? {
                        Some(len) => {
                            out.push(b'[')?;
                            open.push(Open::Array { table, next: 1, len });
                        }
                        None => {
                            out.push(b'{')?;
                            open.push(Open::Object { table, key: Value::Nil });
                        }
                    }
                }
                Value::String(text) => push_string(&mut out, &text.as_bytes())?,
                Value::Boolean(value) => out.extend(if value { b"true" } else { b"false" })?,
                Value::Nil => out.extend(b"null")?,
                Value::LightUserData(pointer) if pointer.0.is_null() => out.extend(b"null")?,
                other => match as_number(&other) {
                    Some(number) => push_number(&mut out, number, &settings)?,
                    None => return unsupported(&other, "type not supported"),
                },
            }
        }
        match open.last_mut() {
            None => break,
            Some(Open::Array { next, len, .. }) if *next > *len => {
                out.push(b']')?;
                open.pop();
            }
            Some(Open::Array { table, next, .. }) => {
                if *next > 1 {
                    out.push(b',')?;
                }
                value = Some(table.raw_get(*next)?);
                *next += 1;
            }
            Some(Open::Object { table, key }) => {
                let is_first = key.is_nil();
                match pair_after(lua, table, std::mem::replace(key, Value::Nil))? {
                    None => {
                        out.push(b'}')?;
                        open.pop();
                    }
                    Some((name, item)) => {
                        if !is_first {
                            out.push(b',')?;
                        }
                        push_key(&mut out, &name, &settings)?;
                        *key = name;
                        value = Some(item);
                    }
                }
            }
        }
    }
    Ok(one(out.into_string(lua)?))
}

/// A key of an object, and the colon after it.
fn push_key(out: &mut Sink<'_>, key: &Value, settings: &Settings) -> Outcome<()> {
    match key {
        Value::String(text) => push_string(out, &text.as_bytes())?,
        key => match as_number(key) {
            Some(number) => {
                out.push(b'"')?;
                push_number(out, number, settings)?;
                out.push(b'"')?;
            }
            None => return unsupported(key, "table key must be a number or string"),
        },
    }
    out.push(b':')
}

fn unsupported<T>(value: &Value, why: &str) -> Outcome<T> {
    wrong(format!("Cannot serialise {}: {why}", type_name(value)))
}

/// The length of a table that is an array; none if it is an object.
fn array_len(table: &Table, settings: &Settings, out: &Sink<'_>) -> Outcome<Option<i64>> {
    let (mut most, mut items) = (0.0_f64, 0_i64);
    for pair in table.pairs::<Value, Value>() {
        let (key, _) = pair?;
        out.step()?;
        match as_number(&key) {
            Some(number) if number >= 1.0 && number.floor() == number => {
                most = most.max(number);
                items += 1;
            }
            _ => return Ok(None),
        }
    }
    if items == 0 {
        return Ok(None);
    }
    let ratio = f64::from(settings.sparse_ratio);
    let is_sparse = settings.sparse_ratio > 0
        && most > items as f64 * ratio
        && most > f64::from(settings.sparse_safe);
    match (is_sparse, settings.sparse_convert) {
        (true, true) => Ok(None),
        (true, false) => wrong("Cannot serialise table: excessively sparse array"),
        (false, _) => Ok(Some(most as i64)),
    }
}

fn push_number(out: &mut Sink<'_>, number: f64, settings: &Settings) -> Outcome<()> {
    if !number.is_finite() && !settings.encode_invalid {
        return wrong("Cannot serialise number: must not be NaN or Inf");
    }
    out.extend(general(number, settings.precision as usize).as_bytes())
}

fn push_string(out: &mut Sink<'_>, text: &[u8]) -> Outcome<()> {
    out.push(b'"')?;
    let mut rest = text;
    while let Some(&byte) = rest.first() {
        let is_plain = |byte: &u8| !matches!(byte, 0..32 | 127 | b'"' | b'\\' | b'/');
        let (plain, after) =
            rest.split_at(rest.iter().position(|byte| !is_plain(byte)).unwrap_or(rest.len()));
        if !plain.is_empty() {
            out.extend(plain)?;
            rest = after;
            continue;
        }
        match byte {
            b'"' => out.extend(b"\\\"")?,
            b'\\' => out.extend(b"\\\\")?,
            b'/' => out.extend(b"\\/")?,
            8 => out.extend(b"\\b")?,
            b'\t' => out.extend(b"\\t")?,
            b'\n' => out.extend(b"\\n")?,
            12 => out.extend(b"\\f")?,
            b'\r' => out.extend(b"\\r")?,
            other => out.extend(format!("\\u{other:04x}").as_bytes())?,
        }
        rest = &rest[1..];
    }
    out.push(b'"')
}

/// A token of JSON, or an error in it.
enum Token {
    Open(u8),
    Close(u8),
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Wrong(&'static str),
}

impl Token {
    /// Its name in errors, as lua-cjson has it.
    fn name(&self) -> &'static str {
        match self {
            Token::Open(b'{') => "T_OBJ_BEGIN",
            Token::Open(_) => "T_ARR_BEGIN",
            Token::Close(b'}') => "T_OBJ_END",
            Token::Close(_) => "T_ARR_END",
            Token::String(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Wrong(why) => why,
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// Where the last token begins.
    start: usize,
    takes_invalid: bool,
}

impl Reader<'_> {
    fn next(&mut self) -> Token {
        while self
            .text
            .get(self.at)
            .is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
        {
            self.at += 1;
        }
        self.start = self.at;
        let Some(&byte) = self.text.get(self.at) else { return Token::End };
        let rest = &self.text[self.at..];
        let single = match byte {
            b'{' | b'[' => Some(Token::Open(byte)),
            b'}' | b']' => Some(Token::Close(byte)),
            b':' => Some(Token::Colon),
            b',' => Some(Token::Comma),
            0 => return Token::End,
            _ => None,
        };
        if let Some(token) = single {
            self.at += 1;
            return token;
        }
        for (word, token) in [
            (b"true".as_slice(), Token::Boolean(true)),
            (b"false", Token::Boolean(false)),
            (b"null", Token::Null),
        ] {
            if rest.starts_with(word) {
                self.at += word.len();
                return token;
            }
        }
        match byte {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            b'+' | b'i' | b'I' | b'n' | b'N' if self.takes_invalid => match self.number() {
                Token::Wrong(_) if byte != b'+' => Token::Wrong("invalid token"),
                token => token,
            },
            _ => Token::Wrong("invalid token"),
        }
    }

    fn number(&mut self) -> Token {
        let rest = &self.text[self.at..];
        let sign = usize::from(matches!(rest.first(), Some(b'-' | b'+')));
        let body = &rest[sign..];
        let negative = rest.first() == Some(&b'-');
        let signed = |value: f64| Token::Number(if negative { -value } else { value });
        let lower = |len: usize| body[..len.min(body.len())].to_ascii_lowercase();
        let odd = rest.first() == Some(&b'+')
            || lower(3) == b"inf"
            || lower(3) == b"nan"
            || lower(2) == b"0x"
            || body.first() == Some(&b'0') && body.get(1).is_some_and(u8::is_ascii_digit);
        if odd && !self.takes_invalid {
            return Token::Wrong("invalid number");
        }
        for (word, value) in
            [(b"infinity".as_slice(), f64::INFINITY), (b"inf", f64::INFINITY), (b"nan", f64::NAN)]
        {
            if lower(word.len()) == word {
                self.at += sign + word.len();
                return signed(value);
            }
        }
        if lower(2) == b"0x" {
            let digits = body[2..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            if digits > 0 {
                let value = body[2..2 + digits].iter().fold(0.0, |value, &digit| {
                    value * 16.0 + f64::from((digit as char).to_digit(16).unwrap_or_default())
                });
                self.at += sign + 2 + digits;
                return signed(value);
            }
        }
        let digits = |from: usize| {
            body[from.min(body.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count()
        };
        let mut len = digits(0);
        let mut count = len;
        if body.get(len) == Some(&b'.') {
            let fraction = digits(len + 1);
            count += fraction;
            len += 1 + fraction;
        }
        if count == 0 {
            return Token::Wrong("invalid number");
        }
        if matches!(body.get(len), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(body.get(len + 1), Some(b'-' | b'+')));
            let exponent = digits(len + 1 + sign);
            if exponent > 0 {
                len += 1 + sign + exponent;
            }
        }
        let value = std::str::from_utf8(&body[..len]).ok().and_then(|text| text.parse().ok());
        self.at += sign + len;
        value.map_or(Token::Wrong("invalid number"), signed)
    }

    fn string(&mut self) -> Token {
        let mut text = Vec::new();
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.iter().take_while(|byte| !matches!(byte, b'"' | b'\\')).count();
            text.extend_from_slice(&rest[..plain]);
            self.at += plain;
            match self.text.get(self.at) {
                None => {
                    self.start = self.at;
                    return Token::Wrong("unexpected end of string");
                }
                Some(b'"') => {
                    self.at += 1;
                    return Token::String(text);
                }
                Some(_) => {}
            }
            let escaped = match self.text.get(self.at + 1) {
                Some(b'u') => match self.unicode() {
                    Some(character) => {
                        let mut bytes = [0; 4];
                        text.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
                        continue;
                    }
                    None => {
                        self.start = self.at;
                        return Token::Wrong("invalid unicode escape code");
                    }
                },
                Some(b'b') => 8,
                Some(b't') => b'\t',
                Some(b'n') => b'\n',
                Some(b'f') => 12,
                Some(b'r') => b'\r',
                Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
                _ => {
                    self.start = self.at;
                    return Token::Wrong("invalid escape code");
                }
            };
            text.push(escaped);
            self.at += 2;
        }
    }

    /// The character of `\uXXXX`, or of a pair of those.
    fn unicode(&mut self) -> Option<char> {
        let unit = |at: usize| {
            let digits = self.text.get(at..at + 6)?.strip_prefix(b"\\u")?;
            let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
            let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
            u32::from_str_radix(digits, 16).ok()
        };
        let first = unit(self.at)?;
        if !(0xD800..0xDC00).contains(&first) {
            self.at += 6;
            return char::from_u32(first);
        }
        let second = unit(self.at + 6)?;
        if !(0xDC00..0xE000).contains(&second) {
            return None;
        }
        self.at += 12;
        char::from_u32(0x10000 + ((first & 0x3FF) << 10 | second & 0x3FF))
    }

    fn fail<T>(&self, expected: &str, found: &Token) -> Outcome<T> {
        wrong(format!(
            "Expected {expected} but found {} at character {}",
            found.name(),
            self.start + 1
        ))
    }
}

/// A container that is being decoded.
enum Filled {
    Array(Table, usize),
    Object(Table, LuaString),
}

fn decode(lua: &Lua, state: &State, args: Arguments) -> Outcome<MultiValue> {
    if args.len() != 1 {
        return wrong("bad argument #1 to 'decode' (expected 1 argument)");
    }
    let text = args.string(lua, 0, "decode")?;
    let text = text.as_bytes();
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return wrong("JSON parser does not support UTF-16 or UTF-32");
    }
    let settings = state.settings.get().json;
    let mut reader =
        Reader { text: &text, at: 0, start: 0, takes_invalid: settings.decode_invalid };
    let mut open: Vec<Filled> = Vec::new();
    let mut token = reader.next();
    loop {
        state.spend(8)?;
        // A value begins with this token.
        let mut value = match token {
            Token::Open(kind) => {
                if open.len() as i64 >= i64::from(settings.decode_depth) {
                    return wrong(format!(
                        "Found too many nested data structures ({}) at character {}",
                        open.len() + 1,
                        reader.start + 1
                    ));
                }
                let table = lua.create_table()?;
                let next = reader.next();
                match (kind, next) {
                    (b'[', Token::Close(b']')) | (b'{', Token::Close(b'}')) => Value::Table(table),
                    (b'[', next) => {
                        open.push(Filled::Array(table, 1));
                        token = next;
                        continue;
                    }
                    (_, next) => {
                        let key = key(lua, &mut reader, next)?;
                        open.push(Filled::Object(table, key));
                        token = reader.next();
                        continue;
                    }
                }
            }
            Token::String(text) => Value::String(lua.create_string(text)?),
            Token::Number(value) => Value::Number(value),
            Token::Boolean(value) => Value::Boolean(value),
            Token::Null => Value::NULL,
            other => return reader.fail("value", &other),
        };
        // It is put into the innermost container, which may end, and is then itself a value.
        loop {
            let next = reader.next();
            match open.pop() {
                None => match next {
                    Token::End => return Ok(one(value)),
                    other => return reader.fail("the end", &other),
                },
                Some(Filled::Array(table, index)) => {
                    table.raw_seti(index, value)?;
                    match next {
                        Token::Comma => {
                            open.push(Filled::Array(table, index + 1));
                            token = reader.next();
                            break;
                        }
                        Token::Close(b']') => value = Value::Table(table),
                        other => return reader.fail("comma or array end", &other),
                    }
                }
                Some(Filled::Object(table, name)) => {
                    table.raw_set(name, value)?;
                    match next {
                        Token::Comma => {
                            let next = reader.next();
                            let key = key(lua, &mut reader, next)?;
                            open.push(Filled::Object(table, key));
                            token = reader.next();
                            break;
                        }
                        Token::Close(b'}') => value = Value::Table(table),
                        other => return reader.fail("comma or object end", &other),
                    }
                }
            }
        }
    }
}

/// The key that `token` is, and the colon after it.
fn key(lua: &Lua, reader: &mut Reader<'_>, token: Token) -> Outcome<LuaString> {
    let Token::String(text) = token else { return reader.fail("object key string", &token) };
    match reader.next() {
        Token::Colon => Ok(lua.create_string(text)?),
        other => reader.fail("colon", &other),
    }
}
