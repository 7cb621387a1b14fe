//! The functions in Rust that scripts call: Redis's own, and those of the libraries.

use super::interpreter::{MEMORY_MAX, SANDBOX, State, arguments};
use super::{bits, json, msgpack, packing, sha1_hex, strings};
use crate::acl;
use crate::command::{VERSION, VERSION_NUMBER, find_whole};
use crate::protocol::Protocol;
use mlua::{Lua, LuaString, MultiValue, Table, Value};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};

/// Why a function fails.
pub(super) enum Wrong {
    /// With an error that scripts can catch.
    Text(String),
    /// With one that is an error reply.
    Reply(Vec<u8>),
    /// Lua itself has failed: mostly, there is no memory.
    Lua(mlua::Error),
}

impl From<mlua::Error> for Wrong {
    fn from(error: mlua::Error) -> Self {
        Wrong::Lua(error)
    }
}

pub(super) type Outcome<T> = Result<T, Wrong>;

/// A failure with this text.
pub(super) fn wrong<T>(text: impl Into<String>) -> Outcome<T> {
    Err(Wrong::Text(text.into()))
}

/// The error of a function that would take more memory than scripts may.
fn no_memory<T>() -> Outcome<T> {
    Err(Wrong::Lua(mlua::Error::MemoryError("not enough memory".into())))
}

/// Bytes that a function makes of others. They count as the interpreter's memory, and the work as a script's.
pub(super) struct Sink<'a> {
    bytes: Vec<u8>,
    most: usize,
    state: &'a State,
}

impl<'a> Sink<'a> {
    pub(super) fn new(lua: &Lua, state: &'a State) -> Self {
        let most = MEMORY_MAX.saturating_sub(lua.used_memory());
        Sink { bytes: Vec::new(), most, state }
    }

    pub(super) fn push(&mut self, byte: u8) -> Outcome<()> {
        self.extend(&[byte])
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.state.spend(1 + bytes.len() / 64)?;
        if bytes.len() > self.most - self.bytes.len() {
            return no_memory();
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Makes room for so many bytes more.
    pub(super) fn reserve(&mut self, len: usize) -> Outcome<()> {
        if len > self.most - self.bytes.len() {
            return no_memory();
        }
        self.bytes.reserve(len);
        Ok(())
    }

    /// Changes the bytes in place.
    pub(super) fn change(&mut self, change: fn(&mut [u8])) {
        change(&mut self.bytes);
    }

    /// Counts a step that adds no bytes.
    pub(super) fn step(&self) -> Outcome<()> {
        Ok(self.state.spend(1)?)
    }

    pub(super) fn into_string(self, lua: &Lua) -> Outcome<Value> {
        Ok(Value::String(lua.create_string(self.bytes)?))
    }
}

/// A function of a library.
pub(super) type Native = fn(&Lua, &State, Arguments) -> Outcome<MultiValue>;

/// Settings of `cjson` that a script makes for itself.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub(super) json: json::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { json: json::Settings::USUAL }
    }
}

/// What a function is called with.
pub(super) struct Arguments {
    values: MultiValue,
}

impl Arguments {
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn into_values(self) -> MultiValue {
        self.values
    }

    pub(super) fn get(&self, index: usize) -> &Value {
        self.values.get(index).unwrap_or(&Value::Nil)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Value> {
        self.values.iter()
    }

    /// The number at `index`, or a string's.
    pub(super) fn number(&self, index: usize, name: &str) -> Outcome<f64> {
        let value = self.get(index);
        let number = match value {
            Value::Integer(value) => Some(*value as f64),
            Value::Number(value) => Some(*value),
            Value::String(text) => text.to_str().ok().and_then(|text| text.trim().parse().ok()),
            _ => None,
        };
        number.map_or_else(|| self.mismatch(index, name, "number"), Ok)
    }

    /// The string at `index`, or a number's digits.
    pub(super) fn string(&self, lua: &Lua, index: usize, name: &str) -> Outcome<LuaString> {
        let value = self.get(index);
        if matches!(value, Value::String(_) | Value::Integer(_) | Value::Number(_))
            && let Some(text) = lua.coerce_string(value.clone())?
        {
            return Ok(text);
        }
        self.mismatch(index, name, "string")
    }

    fn mismatch<T>(&self, index: usize, name: &str, expected: &str) -> Outcome<T> {
        let got = match self.values.get(index) {
            None => "no value",
            Some(value) => type_name(value),
        };
        wrong(format!("bad argument #{} to '{name}' ({expected} expected, got {got})", index + 1))
    }

    /// Fails since the argument at `index` is unsuitable.
    pub(super) fn unsuitable<T>(&self, index: usize, name: &str, why: &str) -> Outcome<T> {
        wrong(format!("bad argument #{} to '{name}' ({why})", index + 1))
    }
}

/// A type's name as Lua has it.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        Value::LightUserData(_) => "userdata",
        other => other.type_name(),
    }
}

/// One result.
pub(super) fn one(value: Value) -> MultiValue {
    [value].into_iter().collect()
}

/// Fills the table that `sandbox.lua` begins with.
pub(super) fn fill(lua: &Lua, native: &Table, state: &Rc<State>) -> mlua::Result<()> {
    let library = |functions: &[(&str, Native)]| {
        let table = lua.create_table()?;
        for &(name, function) in functions {
            table.raw_set(name, checked(lua, state, function)?)?;
        }
        mlua::Result::Ok(table)
    };
    native.raw_set("bit", library(bits::FUNCTIONS)?)?;
    native.raw_set("cjson", library(json::FUNCTIONS)?)?;
    native.raw_set("cmsgpack", library(msgpack::FUNCTIONS)?)?;
    native.raw_set("struct", library(packing::FUNCTIONS)?)?;
    native.raw_set("string", library(strings::FUNCTIONS)?)?;
    for &(name, part) in strings::PARTS {
        native.raw_set(name, checked(lua, state, part)?)?;
    }
    for (table, version) in [("cjson", "2.1.0"), ("cmsgpack", "lua-cmsgpack 0.4.0")] {
        let values: Table = native.raw_get(table)?;
        values.raw_set("_NAME", table)?;
        values.raw_set("_VERSION", version)?;
    }
    let json: Table = native.raw_get("cjson")?;
    json.raw_set("null", Value::NULL)?;
    let own = Rc::clone(state);
    json.raw_set("new", lua.create_function(move |lua, ()| new_json(lua, &own))?)?;
    // An error of the sandbox's own, with the place of the script that has called it.
    native.raw_set(
        "fail",
        checked(lua, state, |lua, _, args| wrong(args.string(lua, 0, "fail")?.to_string_lossy()))?,
    )?;
    native.raw_set(
        "lower",
        lua.create_function(|lua, text: LuaString| {
            lua.create_string(text.as_bytes().to_ascii_lowercase())
        })?,
    )?;
    native.raw_set("random", checked(lua, state, random)?)?;
    native.raw_set("randomseed", checked(lua, state, random_seed)?)?;
    let began = Instant::now();
    native.raw_set("clock", lua.create_function(move |_, ()| Ok(clock(began)))?)?;
    native.raw_set("value_of", lua.create_function(|lua, error| value_of(lua, &error))?)?;
    let own = library(&[
        ("sha1hex", |lua, _, args| told(sha1hex(lua, &args))),
        ("log", |lua, state, args| told(log(lua, state, &args))),
        ("setresp", |_, state, args| told(set_protocol(state, &args))),
        ("set_repl", |_, _, args| told(set_replication(&args))),
        ("acl_check_cmd", |_, state, args| told(check_command(state, &args))),
        ("error_reply", |lua, _, args| reply(lua, &args, "err")),
        ("status_reply", |lua, _, args| reply(lua, &args, "ok")),
    ])?;
    for (name, value) in [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
        ("REDIS_VERSION_NUM", VERSION_NUMBER),
    ] {
        own.raw_set(name, value)?;
    }
    own.raw_set("REDIS_VERSION", VERSION)?;
    native.raw_set("redis", own)
}

/// Another `cjson`, with settings of its own.
fn new_json(lua: &Lua, state: &Rc<State>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let own = Rc::new(Cell::new(json::Settings::USUAL));
    for &(name, function) in json::FUNCTIONS {
        let own = Rc::clone(&own);
        let with_own = move |lua: &Lua, state: &State, args: Arguments| {
            let before = state.settings.replace(Settings { json: own.get() });
            let done = function(lua, state, args);
            own.set(state.settings.replace(before).json);
            done
        };
        table.raw_set(name, checked(lua, state, with_own)?)?;
    }
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    table.raw_set("null", Value::NULL)?;
    let again = Rc::clone(state);
    table.raw_set("new", lua.create_function(move |lua, ()| new_json(lua, &again))?)?;
    Ok(table)
}

/// An error that a function in Rust raises.
#[derive(Debug)]
pub(super) enum Raised {
    /// A text, with the place of the call.
    Text(String),
    /// A table as that of an error reply.
    Reply(Vec<u8>),
}

impl std::fmt::Display for Raised {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Raised::Text(text) => to.write_str(text),
            Raised::Reply(text) => to.write_str(&String::from_utf8_lossy(text)),
        }
    }
}

impl std::error::Error for Raised {}

/// The error in what Lua has carried.
fn raised(error: &mlua::Error) -> Option<&Raised> {
    match error {
        mlua::Error::CallbackError { cause, .. } => raised(cause),
        mlua::Error::ExternalError(error) => error.downcast_ref(),
        _ => None,
    }
}

/// The value that scripts see of an error made in Rust.
fn value_of(lua: &Lua, error: &Value) -> mlua::Result<Value> {
    let Value::Error(error) = error else { return Ok(error.clone()) };
    match raised(error) {
        Some(Raised::Text(text)) => lua.create_string(text).map(Value::String),
        Some(Raised::Reply(text)) => error_table(lua, text),
        // There is no memory, mostly.
        None => lua.create_string("not enough memory").map(Value::String),
    }
}

/// An error reply.
pub(super) fn error_table(lua: &Lua, text: &[u8]) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("err", lua.create_string(text)?)?;
    Ok(Value::Table(table))
}

/// A function that raises its errors.
fn checked(
    lua: &Lua,
    state: &Rc<State>,
    function: impl Fn(&Lua, &State, Arguments) -> Outcome<MultiValue> + 'static,
) -> mlua::Result<mlua::Function> {
    let state = Rc::clone(state);
    lua.create_function(move |lua, values: MultiValue| {
        function(lua, &state, Arguments { values }).map_err(|failure| match failure {
            Wrong::Text(text) => {
                mlua::Error::external(Raised::Text(format!("{}{text}", caller(lua))))
            }
            Wrong::Reply(text) => mlua::Error::external(Raised::Reply(text)),
            Wrong::Lua(error) => error,
        })
    })
}

/// The place of the call under way, as Lua puts it before an error.
fn caller(lua: &Lua) -> String {
    for level in 1.. {
        let place = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let line = debug.current_line().map(|line| {
                format!("{}:{line}: ", source.short_src.as_deref().unwrap_or_default())
            });
            (source.source.as_deref() == Some(SANDBOX), line)
        });
        match place {
            // Scripts see the sandbox's functions as Lua's own.
            Some((true, _)) => {}
            Some((false, line)) => return line.unwrap_or_default(),
            None => break,
        }
    }
    String::new()
}

/// The result of a function of Redis's own: its error is a table.
fn told(result: Outcome<Value>) -> Outcome<MultiValue> {
    match result {
        Ok(value) => Ok(one(value)),
        Err(Wrong::Text(text)) => Err(Wrong::Reply(format!("ERR {text}").into_bytes())),
        Err(other) => Err(other),
    }
}

/// `redis.error_reply` and `redis.status_reply`.
fn reply(lua: &Lua, args: &Arguments, field: &str) -> Outcome<MultiValue> {
    let Some(Value::String(text)) = args.values.front().filter(|_| args.len() == 1) else {
        return Ok(one(error_table(lua, b"ERR wrong number or type of arguments")?));
    };
    if field == "err" {
        return Ok(one(error_table(lua, &error_text(&text.as_bytes()))?));
    }
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(field, text)?;
    Ok(one(Value::Table(table)))
}

fn sha1hex(lua: &Lua, args: &Arguments) -> Outcome<Value> {
    if args.len() != 1 {
        return wrong("wrong number of arguments");
    }
    let digest = match args.string(lua, 0, "sha1hex") {
        Ok(text) => sha1_hex(&text.as_bytes()),
        Err(_) => sha1_hex(b""),
    };
    Ok(Value::String(lua.create_string(digest)?))
}

/// Bytes of a script's message that the log has.
const LOGGED_MAX: usize = 1024;

fn log(lua: &Lua, state: &State, args: &Arguments) -> Outcome<Value> {
    if args.len() < 2 {
        return wrong("redis.log() requires two arguments or more.");
    }
    let Ok(level) = args.number(0, "log") else {
        return wrong("First argument must be a number (log level).");
    };
    let mut text = Vec::new();
    for index in 1..args.len() {
        if text.len() < LOGGED_MAX
            && let Ok(part) = args.string(lua, index, "log")
        {
            if !text.is_empty() {
                text.push(b' ');
            }
            let part = part.as_bytes();
            text.extend_from_slice(&part[..part.len().min(LOGGED_MAX)]);
        }
    }
    text.truncate(LOGGED_MAX);
    let text = String::from_utf8_lossy(&text);
    let level = level as i64;
    if !(0..=3).contains(&level) {
        return wrong("Invalid debug level.");
    }
    // Quoted, so that a line end in it does not end the log's line.
    if let Some(suppressed) = state.log_quota.take() {
        match level {
            0 | 1 => debug!(suppressed, "a script says: {text:?}"),
            2 => info!(suppressed, "a script says: {text:?}"),
            _ => warn!(suppressed, "a script says: {text:?}"),
        }
    }
    Ok(Value::Nil)
}

fn set_protocol(state: &State, args: &Arguments) -> Outcome<Value> {
    if args.len() != 1 {
        return wrong("redis.setresp() requires one argument.");
    }
    match args.number(0, "setresp").unwrap_or_default() as i64 {
        2 => state.protocol.set(Protocol::Resp2),
        3 => state.protocol.set(Protocol::Resp3),
        _ => return wrong("RESP version must be 2 or 3."),
    }
    Ok(Value::Nil)
}

/// There are no replicas: it changes nothing.
fn set_replication(args: &Arguments) -> Outcome<Value> {
    if args.len() != 1 {
        return wrong("redis.set_repl() requires two arguments.");
    }
    match args.number(0, "set_repl").unwrap_or_default() as i64 {
        0..=3 => Ok(Value::Nil),
        _ => wrong("Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE."),
    }
}

/// Whether the user who runs the script may run a command.
fn check_command(state: &State, args: &Arguments) -> Outcome<Value> {
    let Some(args) = arguments(&args.values) else {
        return wrong(match args.len() {
            0 => "Please specify at least one argument for this redis lib call",
            _ => "Lua redis lib command arguments must be strings or integers",
        });
    };
    let Some(command) = find_whole(args.as_args()) else {
        return wrong("Invalid command passed to redis.acl_check_cmd()");
    };
    let user = state.user.borrow();
    let may = user.as_ref().is_none_or(|user| acl::check(user, command, args.as_args()).is_ok());
    Ok(Value::Boolean(may))
}

/// The text of an error that a script makes: it begins with a code.
fn error_text(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"-").unwrap_or(text).trim_ascii_end();
    match text.contains(&b' ') {
        true => text.to_vec(),
        false => [b"ERR ", text].concat(),
    }
}

/// Seconds of processor time, nearly: of the time since the interpreter was made.
fn clock(began: Instant) -> f64 {
    began.elapsed().max(Duration::ZERO).as_secs_f64()
}

/// The generator's state after `srand48`.
pub(super) fn seeded(seed: i32) -> u64 {
    u64::from(seed as u32) << 16 | 0x330E
}

/// As `lrand48` has it on every machine, and so Redis.
fn next_random(state: &State) -> u32 {
    let next = state.random.get().wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << 48) - 1);
    state.random.set(next);
    (next >> 17) as u32
}

fn random(_: &Lua, state: &State, args: Arguments) -> Outcome<MultiValue> {
    const MAX: u32 = i32::MAX as u32;
    let part = f64::from(next_random(state) % MAX) / f64::from(MAX);
    let bound = |index| args.number(index, "random").map(|number| f64::from(number as i32));
    let value = match args.len() {
        0 => part,
        1 => {
            let most = bound(0)?;
            if most < 1.0 {
                return args.unsuitable(0, "random", "interval is empty");
            }
            (part * most).floor() + 1.0
        }
        2 => {
            let (least, most) = (bound(0)?, bound(1)?);
            if least > most {
                return args.unsuitable(1, "random", "interval is empty");
            }
            (part * (most - least + 1.0)).floor() + least
        }
        _ => return wrong("wrong number of arguments"),
    };
    Ok(one(Value::Number(value)))
}

fn random_seed(_: &Lua, state: &State, args: Arguments) -> Outcome<MultiValue> {
    state.random.set(seeded(args.number(0, "randomseed")? as i64 as i32));
    Ok(MultiValue::new())
}
