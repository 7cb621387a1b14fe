//! The functions of the library `string` that could take any time or memory, as Lua 5.1 has them: those with patterns
//! ([`pattern`](super::pattern)), and those that make a string of another.

use super::interpreter::State;
use super::library::{Arguments, Native, Outcome, Sink, Wrong, one};
use super::pattern::{Captured, Matcher, find_plain, is_plain};
use mlua::{Function, Lua, MultiValue, Value};

/// The registry's name of Lua's own `string.format`.
pub(super) const FORMAT: &str = "format";

/// Functions that scripts call.
pub(super) const FUNCTIONS: &[(&str, Native)] = &[
    ("find", |lua, state, args| find(lua, state, &args, true)),
    ("match", |lua, state, args| find(lua, state, &args, false)),
    ("lower", |lua, state, args| map(lua, state, &args, "lower", <[u8]>::make_ascii_lowercase)),
    ("upper", |lua, state, args| map(lua, state, &args, "upper", <[u8]>::make_ascii_uppercase)),
    ("reverse", |lua, state, args| map(lua, state, &args, "reverse", <[u8]>::reverse)),
    ("rep", repeat),
    ("format", format),
];

/// The parts of `gmatch` and `gsub`: what they call in Lua is called by the sandbox.
pub(super) const PARTS: &[(&str, Native)] = &[
    ("gmatch_arguments", |lua, _, args| {
        let texts = [args.string(lua, 0, "gmatch")?, args.string(lua, 1, "gmatch")?];
        Ok(texts.into_iter().map(Value::String).collect())
    }),
    ("gmatch_step", gmatch_step),
    ("gsub_arguments", gsub_arguments),
    ("gsub_step", gsub_step),
    ("gsub", gsub),
];

/// A number as C casts it to an integer.
fn integer(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

fn optional(args: &Arguments, index: usize, name: &str, default: i64) -> Outcome<i64> {
    match args.get(index) {
        Value::Nil => Ok(default),
        _ => args.number(index, name).map(integer),
    }
}

/// Adds the first captures of the last match to `values`.
fn push_captures(
    lua: &Lua,
    matcher: &Matcher<'_>,
    (start, end): (usize, usize),
    count: usize,
    values: &mut MultiValue,
) -> Outcome<()> {
    for index in 0..count {
        values.push_back(match matcher.capture(index, start, end)? {
            Captured::Bytes(bytes) => Value::String(lua.create_string(bytes)?),
            Captured::Position(at) => Value::Integer(at as _),
        });
    }
    Ok(())
}

fn find(lua: &Lua, state: &State, args: &Arguments, is_find: bool) -> Outcome<MultiValue> {
    let name = if is_find { "find" } else { "match" };
    let (subject, pattern) = (args.string(lua, 0, name)?, args.string(lua, 1, name)?);
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let (subject, pattern): (&[u8], &[u8]) = (&subject, &pattern);
    let (first, len) = (optional(args, 2, name, 1)?, subject.len() as i64);
    let first = if first < 0 { first + len + 1 } else { first };
    let at = (first - 1).clamp(0, len) as usize;
    let is_plain = is_find
        && (!matches!(args.get(3), Value::Nil | Value::Boolean(false)) || is_plain(pattern));
    let mut values = MultiValue::new();
    if is_plain {
        if let Some(start) = find_plain(state, subject, pattern, at)? {
            values.push_back(Value::Integer((start + 1) as _));
            values.push_back(Value::Integer((start + pattern.len()) as _));
            return Ok(values);
        }
        return Ok(one(Value::Nil));
    }
    let (mut matcher, anchored) = Matcher::anchored(state, subject, pattern);
    let Some((start, end)) = matcher.search(at, anchored)? else { return Ok(one(Value::Nil)) };
    if is_find {
        values.push_back(Value::Integer((start + 1) as _));
        values.push_back(Value::Integer(end as _));
    }
    push_captures(lua, &matcher, (start, end), matcher.count(!is_find), &mut values)?;
    Ok(values)
}

/// The next match of `gmatch` from a place on: where the one after it is looked for, and its captures.
fn gmatch_step(lua: &Lua, state: &State, args: Arguments) -> Outcome<MultiValue> {
    let (subject, pattern) = (args.string(lua, 0, "gmatch")?, args.string(lua, 1, "gmatch")?);
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let mut matcher = Matcher::new(state, &subject, &pattern);
    let mut values = MultiValue::new();
    let at = args.number(2, "gmatch")? as usize;
    if let Some((start, end)) = matcher.search(at, false)? {
        // After an empty match it goes on at the next byte.
        values.push_back(Value::Integer((end + usize::from(end == start)) as _));
        push_captures(lua, &matcher, (start, end), matcher.count(true), &mut values)?;
    }
    Ok(values)
}

/// The subject, the pattern, and how often at most it is replaced.
fn gsub_arguments(lua: &Lua, _: &State, args: Arguments) -> Outcome<MultiValue> {
    let (subject, pattern) = (args.string(lua, 0, "gsub")?, args.string(lua, 1, "gsub")?);
    let most = optional(&args, 3, "gsub", subject.as_bytes().len() as i64 + 1)? as i32;
    match args.get(2) {
        Value::Integer(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Function(_)
        | Value::Table(_) => {}
        _ => return args.unsuitable(2, "gsub", "string/function/table expected"),
    }
    let most = Value::Integer(most.into());
    Ok([Value::String(subject), Value::String(pattern), most].into_iter().collect())
}

/// The next match of `gsub` from a place on: its start, its end and its captures, or the first of these.
fn gsub_step(lua: &Lua, state: &State, args: Arguments) -> Outcome<MultiValue> {
    let (subject, pattern) = (args.string(lua, 0, "gsub")?, args.string(lua, 1, "gsub")?);
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let (mut matcher, anchored) = Matcher::anchored(state, &subject, &pattern);
    let at = args.number(2, "gsub")? as usize;
    let mut values = MultiValue::new();
    // A pattern with an anchor is looked for only once.
    if (at == 0 || !anchored)
        && let Some((start, end)) = matcher.search(at, anchored)?
    {
        values.push_back(Value::Integer(start as _));
        values.push_back(Value::Integer(end as _));
        let most = if matches!(args.get(3), Value::Boolean(true)) { 1 } else { usize::MAX };
        push_captures(lua, &matcher, (start, end), matcher.count(true).min(most), &mut values)?;
    }
    Ok(values)
}

/// `gsub` with a string.
fn gsub(lua: &Lua, state: &State, args: Arguments) -> Outcome<MultiValue> {
    let (subject, pattern) = (args.string(lua, 0, "gsub")?, args.string(lua, 1, "gsub")?);
    let replacement = args.string(lua, 2, "gsub")?;
    let most = args.number(3, "gsub")?;
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let replacement = replacement.as_bytes();
    let (mut matcher, anchored) = Matcher::anchored(state, &subject, &pattern);
    let mut out = Sink::new(lua, state);
    let (mut at, mut count) = (0, 0_u32);
    while f64::from(count) < most {
        let Some((start, end)) = matcher.search(at, anchored)? else { break };
        count += 1;
        out.extend(&subject[at..start])?;
        push_replacement(&mut out, &matcher, &replacement, (start, end))?;
        at = end;
        if start == end {
            let Some(&byte) = subject.get(at) else { break };
            out.push(byte)?;
            at += 1;
        }
        if anchored {
            break;
        }
    }
    out.extend(&subject[at..])?;
    Ok([out.into_string(lua)?, Value::Integer(count.into())].into_iter().collect())
}

fn push_replacement(
    out: &mut Sink<'_>,
    matcher: &Matcher<'_>,
    text: &[u8],
    (start, end): (usize, usize),
) -> Outcome<()> {
    let mut rest = text;
    while let Some(plain) = rest.iter().position(|&byte| byte == b'%') {
        out.extend(&rest[..plain])?;
        // After the last byte C has a NUL.
        let code = rest.get(plain + 1).copied().unwrap_or(0);
        rest = rest.get(plain + 2..).unwrap_or_default();
        let captured = match code {
            b'0' => matcher.whole(start, end),
            b'1'..=b'9' => matcher.capture(usize::from(code - b'1'), start, end)?,
            other => {
                out.push(other)?;
                continue;
            }
        };
        match captured {
            Captured::Bytes(bytes) => out.extend(bytes)?,
            Captured::Position(at) => out.extend(at.to_string().as_bytes())?,
        }
    }
    out.extend(rest)
}

/// A string of the same length.
fn map(
    lua: &Lua,
    state: &State,
    args: &Arguments,
    name: &str,
    change: fn(&mut [u8]),
) -> Outcome<MultiValue> {
    let text = args.string(lua, 0, name)?;
    let mut out = Sink::new(lua, state);
    out.extend(&text.as_bytes())?;
    out.change(change);
    Ok(one(out.into_string(lua)?))
}

fn repeat(lua: &Lua, state: &State, args: Arguments) -> Outcome<MultiValue> {
    let text = args.string(lua, 0, "rep")?;
    let text = text.as_bytes();
    let count = usize::try_from(integer(args.number(1, "rep")?) as i32).unwrap_or(0);
    let mut out = Sink::new(lua, state);
    out.reserve(text.len().saturating_mul(count))?;
    if !text.is_empty() {
        for _ in 0..count {
            out.extend(&text)?;
        }
    }
    Ok(one(out.into_string(lua)?))
}

/// Lua's own, called from here so that an error has the place of the script that has called it, also by `return
/// string.format(..)`.
fn format(lua: &Lua, state: &State, args: Arguments) -> Outcome<MultiValue> {
    let len = |value: &Value| value.as_string().map_or(0, |text| text.as_bytes().len());
    state.spend(1 + args.iter().map(len).sum::<usize>() / 64)?;
    let own: Function = lua.named_registry_value(FORMAT)?;
    own.call(args.into_values()).map_err(|error| match error {
        mlua::Error::RuntimeError(text) => {
            let text = text.split("\nstack traceback:").next().unwrap_or_default();
            Wrong::Text(text.replacen("to '?'", "to 'format'", 1))
        }
        error => Wrong::Lua(error),
    })
}
