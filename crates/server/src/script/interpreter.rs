//! A thread's interpreter of Lua.
//!
//! It is made when the thread runs its first script. Between two scripts nothing is left of the first but what was
//! compiled: the tables that scripts share cannot be changed, and settings of libraries are set back. After a script
//! that was ended from outside, a new interpreter is made.
//!
//! A script's time is looked at in the hook, after each [`STRIDE`] instructions, and by the functions that may take long
//! without any: those of Redis, of the libraries in Rust ([`State::spend`]), and by the sandbox before some of C's.

use super::library::{self, Raised, Settings, error_table};
use super::replies::{self, Parser};
use super::runs::first_after;
use super::strings;
use super::{Digest, Late, Running, Runs, Script, Sort};
use crate::acl::User;
use crate::command::{Failure, Outcome};
use crate::logging::Quota;
use crate::protocol::args::OwnedArgs;
use crate::protocol::{Args, Protocol, Reply, number};
use mlua::chunk::ChunkMode;
use mlua::debug::HookTriggers;
use mlua::{Error, Function, Lua, LuaOptions, MultiValue, Result, StdLib, Table, Value, VmState};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that a thread's interpreter may take: a script that wants more fails.
pub(super) const MEMORY_MAX: usize = 256 << 20;
/// If it takes more than this after a script, it collects all that is garbage.
const MEMORY_USUAL: usize = 16 << 20;
/// Compiled scripts that it keeps.
const COMPILED_MAX: usize = 1000;
/// Instructions of a script from one look at its time to the next. One of them may take as long as a string of many
/// megabytes is copied, so they are not many.
const STRIDE: u32 = 1000;
/// Steps of functions in Rust from one look to the next.
const STEPS: usize = 10_000;
/// How soon a script that is overdue looks again, with nobody to look after.
const IDLE: Duration = Duration::from_millis(10);
/// How long a script may still run when the server is to end.
const GRACE: Duration = Duration::from_secs(1);
/// The name of Lua's `next` in the registry.
const NEXT: &str = "next";
/// The name of each script in errors.
const NAME: &str = "@user_script";
/// That of each library.
const LIBRARY_NAME: &str = "@user_function";
/// How long a library may run to register its functions, as in Redis.
const LOAD_TIME: Duration = Duration::from_millis(500);
pub(super) const SANDBOX: &str = "=sandbox";

/// Why a script was ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Killed,
    /// It has run for as long as it may.
    TimedOut,
    /// The server is to end.
    Stopping,
    /// A command has failed in a way that fails the whole transaction.
    Failed,
    /// Its transaction begins again, since other threads wait for it ([`Runs`]).
    Again,
}

/// How a script ran.
pub(crate) enum Ran {
    /// Its reply is written.
    Well,
    /// It failed with this error.
    Wrong(String),
    Ended(Ended),
}

/// The part of the interpreter that its functions in Rust use.
#[derive(Default)]
pub(super) struct State {
    ended: Cell<Option<Ended>>,
    until: Cell<Option<Instant>>,
    /// When the script would have to end, if the server is to.
    grace: Cell<Option<Instant>>,
    /// Steps since the last look at the time.
    steps: Cell<usize>,
    /// Whose the script under way is, and where SCRIPT KILL ends it.
    thread: RefCell<Option<Thread>>,
    /// When it began, when it is to ask what a script that runs for long does ([`Late`]), whether it has, and after how long
    /// it keeps others waiting for too long.
    began: Cell<Option<Instant>>,
    late: Cell<Option<Instant>>,
    was_late: Cell<bool>,
    most: Cell<Option<Duration>>,
    /// The function that it is.
    running: RefCell<Option<Running>>,
    /// Who runs it, if there are commands that it may not run.
    pub(super) user: RefCell<Option<Arc<User>>>,
    /// The protocol of replies to the script.
    pub(super) protocol: Cell<Protocol>,
    pub(super) settings: Cell<Settings>,
    pub(super) random: Cell<u64>,
    /// Lines that scripts write to the log.
    pub(super) log_quota: Quota,
}

struct Interpreter {
    lua: Lua,
    state: Rc<State>,
    run: Function,
    /// Where a script finds its keys and arguments, and Redis's functions.
    globals: Table,
    redis: Table,
    compiled: HashMap<Digest, Function>,
    /// Runs a library, and lists the functions that it registers.
    load: Function,
    /// The libraries that it knows: their functions by name, in lower case.
    libraries: HashMap<Digest, HashMap<Vec<u8>, Function>>,
}

/// A thread that runs scripts.
#[derive(Clone)]
pub(crate) struct Thread {
    pub(crate) runs: Arc<Runs>,
    pub(crate) worker: usize,
}

/// The other clients of a thread that runs a script.
pub(crate) trait Others {
    /// Whether some of them wait for answers of the turn under way.
    fn are_owed(&self) -> bool;

    /// Looks after them while the script is overdue. Returns how soon it is to be called again.
    fn look_after(&self) -> Duration;
}

thread_local! {
    static OTHERS: RefCell<Option<Box<dyn Others>>> = const { RefCell::new(None) };
    /// It cannot go from one thread to another, as a worker does before it begins.
    static INTERPRETER: RefCell<Option<Interpreter>> = const { RefCell::new(None) };
}

/// Performs a command for a script: it writes the reply, or ends the script.
pub(crate) type Perform<'a> =
    dyn FnMut(&OwnedArgs, Protocol, &mut Vec<u8>) -> std::result::Result<(), ()> + 'a;

/// What is run.
#[derive(Clone, Copy)]
pub(crate) enum Code<'a> {
    Script(&'a Script),
    /// A function of a library that the interpreter [knows].
    Function {
        library: &'a Digest,
        name: &'a [u8],
    },
}

impl Code<'_> {
    fn sort(self) -> Sort {
        match self {
            Code::Script(_) => Sort::Script,
            Code::Function { .. } => Sort::Function,
        }
    }

    /// Its name in errors.
    fn name(self) -> String {
        match self {
            Code::Script(script) => String::from_utf8_lossy(&script.digest).into_owned(),
            Code::Function { name, .. } => String::from_utf8_lossy(name).into_owned(),
        }
    }
}

/// A function that a library has registered.
pub(crate) struct Registered {
    pub(crate) name: Vec<u8>,
    pub(crate) description: Option<Vec<u8>>,
    /// A bit for each of the [`FLAGS`](super::libraries::FLAGS).
    pub(crate) flags: u8,
}

/// What a script is run with.
pub(crate) struct Task<'a> {
    pub(crate) code: Code<'a>,
    pub(crate) keys: Args<'a>,
    pub(crate) arguments: Args<'a>,
    /// How long it may keep others waiting.
    pub(crate) most: Option<Duration>,
    /// The function that it is.
    pub(crate) running: Cell<Option<Running>>,
    /// A number for its random ones.
    pub(crate) seed: u64,
    /// The number of its client.
    pub(crate) client: u64,
    /// Who runs it, if there are commands that it may not run.
    pub(crate) user: Option<Arc<User>>,
}

/// Sets this thread's other clients.
pub(crate) fn set_others(others: Option<Box<dyn Others>>) {
    OTHERS.with(|place| *place.borrow_mut() = others);
}

fn others<R>(default: R, body: impl FnOnce(&dyn Others) -> R) -> R {
    OTHERS.with(|place| place.borrow().as_deref().map_or(default, body))
}

/// Compiles a script, to know whether that can be done.
pub(crate) fn check(script: &Script) -> Outcome {
    with(|interpreter| interpreter.compile(script).map(drop))
}

/// Whether a library, or a function, may have this name.
pub(crate) fn is_name(name: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    !name.is_empty() && name.iter().all(is_part)
}

/// Whether the interpreter knows a library.
pub(crate) fn knows(library: &Digest) -> bool {
    INTERPRETER.with(|place| {
        place.borrow().as_ref().is_some_and(|known| known.libraries.contains_key(library))
    })
}

/// Compiles a library, and runs it once. Returns the functions that it has registered; from then on it is known.
pub(crate) fn load(library: &Digest, text: &[u8]) -> Outcome<Vec<Registered>> {
    with(|interpreter| interpreter.load(library, text))
}

/// The same, for a function of it that is to be run next: large as it may be, it is still known then.
pub(crate) fn load_to_run(library: &Digest, text: &[u8]) -> Outcome {
    with_untidied(|interpreter| interpreter.load(library, text)).map(drop)
}

/// Runs a script. Its reply is written to `out`, and `on_error` is told of errors in it.
pub(crate) fn run(
    task: &Task<'_>,
    thread: &Thread,
    perform: &mut Perform<'_>,
    out: &mut Reply<'_>,
    on_error: &mut dyn FnMut(&str),
) -> Outcome<Ran> {
    with(|interpreter| {
        let script = match task.code {
            Code::Script(script) => interpreter.compile(script)?,
            Code::Function { library, name } => {
                let known = interpreter.libraries.get(library);
                let found = known.and_then(|known| known.get(&name.to_ascii_lowercase()));
                found.cloned().ok_or(Failure::Say("ERR Function not found".into()))?
            }
        };
        let run = thread.runs.of(thread.worker);
        run.begin(task.client, task.code.sort());
        let state = &interpreter.state;
        state.thread.replace(Some(thread.clone()));
        state.running.replace(task.running.take());
        state.user.replace(task.user.clone());
        let ran = interpreter.run(&script, task, perform, out, on_error);
        state.thread.replace(None);
        state.user.replace(None);
        state.late.set(None);
        if run.end(task.client, state.was_late.get()) {
            // Perhaps after its last look: its end is said to have been brought about, so it is.
            interpreter.state.ended.set(Some(Ended::Killed));
            return Ok(Ran::Ended(Ended::Killed));
        }
        ran.map_err(|error| Failure::say(format!("ERR Error running script: {error}")))
    })
}

/// Uses the thread's interpreter, which gives back memory afterwards.
fn with<R>(body: impl FnOnce(&mut Interpreter) -> Outcome<R>) -> Outcome<R> {
    let done = with_untidied(body);
    INTERPRETER.with(|place| place.borrow_mut().as_mut().map(Interpreter::tidy));
    done
}

fn with_untidied<R>(body: impl FnOnce(&mut Interpreter) -> Outcome<R>) -> Outcome<R> {
    // Taken out: after a panic the next script has a new one.
    let interpreter = INTERPRETER.with(|place| place.borrow_mut().take());
    let made = match interpreter {
        Some(interpreter) => Ok(interpreter),
        None => Interpreter::new(),
    };
    let mut interpreter =
        made.map_err(|error| Failure::say(format!("ERR scripts cannot be run: {error}")))?;
    let done = body(&mut interpreter);
    if matches!(interpreter.state.ended.get(), None | Some(Ended::Failed)) {
        INTERPRETER.with(|place| *place.borrow_mut() = Some(interpreter));
    }
    done
}

impl Interpreter {
    fn new() -> Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let state = Rc::new(State::default());
        let native = lua.create_table()?;
        library::fill(&lua, &native, &state)?;
        native.raw_set("dead", {
            let state = Rc::clone(&state);
            lua.create_function(move |_, ()| Ok(state.ended.get().is_some()))?
        })?;
        native.raw_set("look", {
            let state = Rc::clone(&state);
            lua.create_function(move |_, ()| state.look().map(drop))?
        })?;
        lua.set_named_registry_value(NEXT, lua.globals().raw_get::<Function>("next")?)?;
        let strings = lua.globals().raw_get::<Table>("string")?;
        lua.set_named_registry_value(strings::FORMAT, strings.raw_get::<Function>("format")?)?;
        native.raw_set("place", lua.create_function(|lua, ()| Ok(place(lua)))?)?;
        let sandbox = lua.load(include_str!("sandbox.lua")).set_name(SANDBOX);
        let (environment, globals, redis, run, load): (Table, Table, Table, Function, Function) =
            sandbox.call(native)?;
        lua.set_globals(environment)?;
        let looked = Rc::clone(&state);
        let triggers = HookTriggers::new().every_nth_instruction(STRIDE);
        lua.set_global_hook(triggers, move |_, _| looked.look())?;
        lua.set_memory_limit(MEMORY_MAX)?;
        let (compiled, libraries) = (HashMap::new(), HashMap::new());
        Ok(Interpreter { lua, state, run, globals, redis, compiled, load, libraries })
    }

    fn compile(&mut self, script: &Script) -> Outcome<Function> {
        if let Some(compiled) = self.compiled.get(&script.digest) {
            return Ok(compiled.clone());
        }
        let chunk = self.lua.load(script.text()).set_name(NAME).set_mode(ChunkMode::Text);
        let compiled = chunk.into_function().map_err(|error| {
            let text = match error {
                Error::SyntaxError { message, .. } => message,
                other => other.to_string(),
            };
            Failure::say(format!("ERR Error compiling script (new function): {text}"))
        })?;
        if self.compiled.len() >= COMPILED_MAX {
            self.compiled.clear();
        }
        self.compiled.insert(script.digest, compiled.clone());
        Ok(compiled)
    }

    fn load(&mut self, library: &Digest, text: &[u8]) -> Outcome<Vec<Registered>> {
        let chunk = self.lua.load(text).set_name(LIBRARY_NAME).set_mode(ChunkMode::Text);
        let chunk = chunk.into_function().map_err(|error| {
            let text = match error {
                Error::SyntaxError { message, .. } => message,
                other => other.to_string(),
            };
            Failure::say(format!("ERR Error compiling function: {text}"))
        })?;
        let state = &self.state;
        let now = Instant::now();
        state.ended.set(None);
        state.late.set(None);
        state.until.set(now.checked_add(LOAD_TIME));
        state.grace.set(now.checked_add(GRACE));
        state.random.set(library::seeded(0));
        let wrong = |text: String| Failure::say(format!("ERR Error registering functions: {text}"));
        let loaded = self.load.call::<(bool, Value)>(chunk);
        match state.ended.get() {
            None => {}
            Some(Ended::TimedOut) => return Err(wrong("ERR FUNCTION LOAD timeout".into())),
            Some(_) => return Err(wrong("ERR the server is shutting down".into())),
        }
        let listed = match loaded {
            Ok((true, Value::Table(listed))) => listed,
            Ok((_, Value::Table(failure))) => {
                return Err(wrong(bare_error(&failure).unwrap_or_default()));
            }
            Ok((_, other)) => return Err(wrong(format!("ERR {}", shown(&other)))),
            Err(error) => return Err(wrong(format!("ERR {error}"))),
        };
        let (all, functions) =
            registered(&listed).map_err(|error| wrong(format!("ERR {error}")))?;
        if self.libraries.len() >= COMPILED_MAX {
            self.libraries.clear();
        }
        self.libraries.insert(*library, functions);
        Ok(all)
    }

    fn strings(&self, args: Args<'_>) -> Result<Table> {
        let table = self.lua.create_table_with_capacity(args.len(), 0)?;
        for (index, arg) in args.iter().enumerate() {
            table.raw_seti(index + 1, self.lua.create_string(arg)?)?;
        }
        Ok(table)
    }

    fn run(
        &self,
        script: &Function,
        task: &Task<'_>,
        perform: &mut Perform<'_>,
        out: &mut Reply<'_>,
        on_error: &mut dyn FnMut(&str),
    ) -> Result<Ran> {
        let state = &self.state;
        let now = Instant::now();
        state.ended.set(None);
        let limit = state.thread.borrow().as_ref().and_then(|thread| thread.runs.limit());
        state.until.set(limit.and_then(|limit| now.checked_add(limit)));
        state.grace.set(now.checked_add(GRACE));
        state.began.set(Some(now));
        state.late.set(now.checked_add(first_after(task.most)));
        state.was_late.set(false);
        state.most.set(task.most);
        state.protocol.set(Protocol::Resp2);
        state.settings.set(Settings::default());
        state.random.set(library::seeded(task.seed as i32));
        let (keys, arguments) = (self.strings(task.keys)?, self.strings(task.arguments)?);
        let mut reply = Vec::new();
        let commands = RefCell::new((perform, &mut reply));
        let called = self.lua.scope(|scope| {
            let call = scope.create_function(|lua, args: MultiValue| {
                let (perform, reply) = &mut *commands.borrow_mut();
                match state.call(lua, &args, *perform, reply)? {
                    Some(value) => Ok(value),
                    None => {
                        Err(Error::external(Raised::Reply(reply[1..].trim_ascii_end().to_vec())))
                    }
                }
            })?;
            let protected_call = scope.create_function(|lua, args: MultiValue| {
                let (perform, reply) = &mut *commands.borrow_mut();
                match state.call(lua, &args, *perform, reply)? {
                    Some(value) => Ok(value),
                    None => error_table(lua, reply[1..].trim_ascii_end()),
                }
            })?;
            self.redis.raw_set("call", call)?;
            self.redis.raw_set("pcall", protected_call)?;
            if matches!(task.code, Code::Function { .. }) {
                return self.run.call::<(bool, Value)>((script, keys, arguments));
            }
            self.globals.raw_set("KEYS", keys)?;
            self.globals.raw_set("ARGV", arguments)?;
            self.run.call::<(bool, Value)>(script)
        });
        // Not in Lua, where a script that is ended does nothing more.
        for name in ["KEYS", "ARGV"] {
            self.globals.raw_set(name, Value::Nil)?;
        }
        for name in ["call", "pcall"] {
            self.redis.raw_set(name, Value::Nil)?;
        }
        let written = match called {
            _ if state.ended.get().is_some() => Ok(()),
            Ok((true, value)) => replies::write(&value, state, out, on_error),
            Ok((false, value)) => {
                return Ok(Ran::Wrong(error_text(&value, &task.code.name())?));
            }
            Err(error) => Err(error),
        };
        match state.ended.get() {
            Some(ended) => Ok(Ran::Ended(ended)),
            None => written.map(|()| Ran::Well),
        }
    }

    /// Gives back memory after a script.
    fn tidy(&mut self) {
        if self.lua.used_memory() > MEMORY_USUAL {
            // An error of a finaliser: there are none.
            let _ = self.lua.gc_collect();
            if self.lua.used_memory() > MEMORY_USUAL {
                self.compiled.clear();
                self.libraries.clear();
                let _ = self.lua.gc_collect();
            }
        }
    }
}

/// The functions that a library has registered, as the sandbox lists them, and what is called.
#[allow(clippy::type_complexity, reason = "the two halves of one list")]
fn registered(listed: &Table) -> Result<(Vec<Registered>, HashMap<Vec<u8>, Function>)> {
    let (mut all, mut functions) = (Vec::new(), HashMap::new());
    for one in listed.sequence_values::<Table>() {
        let one = one?;
        let bytes = |text: mlua::LuaString| text.as_bytes().to_vec();
        let name = bytes(one.raw_get("name")?);
        let description = one.raw_get::<Option<mlua::LuaString>>("description")?.map(bytes);
        functions.insert(name.to_ascii_lowercase(), one.raw_get("callback")?);
        all.push(Registered { name, description, flags: one.raw_get("flags")? });
    }
    Ok((all, functions))
}

/// The text of a script's error: a table with the error itself and its place.
fn error_text(failure: &Value, name: &str) -> Result<String> {
    let Value::Table(failure) = failure else {
        // The handler itself has failed: there was no memory, or too little room on the stack.
        return Ok(format!("ERR {}", shown(failure)));
    };
    let text = bare_error(failure)?;
    let (source, line) = (failure.raw_get::<Value>("source")?, failure.raw_get::<Value>("line")?);
    if source.is_nil() || line.is_nil() {
        return Ok(text);
    }
    Ok(format!("{text} script: {name}, on {}:{}.", shown(&source), shown(&line)))
}

/// The text of the error itself.
fn bare_error(failure: &Table) -> Result<String> {
    Ok(match failure.raw_get::<Value>("value")? {
        Value::Table(error) => match error.raw_get::<Value>("err")? {
            Value::Nil => "ERR unknown error".into(),
            text => shown(&text),
        },
        other => format!("ERR {}", shown(&other)),
    })
}

/// A value's text, as `tostring` has it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string_lossy(),
        other => other.to_string().unwrap_or_else(|_| other.type_name().to_owned()),
    }
}

/// The file and the line of the innermost function of a script.
fn place(lua: &Lua) -> (Option<String>, Option<i64>) {
    // Between it and the error are functions in Rust, and those of the sandbox.
    const LEVELS: usize = 100;
    for level in 1..LEVELS {
        let found = lua.inspect_stack(level, |debug| {
            let source = debug.source().source.map(|source| source.into_owned());
            (source, debug.current_line().map(|line| line as i64))
        });
        match found {
            None => break,
            Some((Some(source), Some(line))) if source != SANDBOX => {
                return (Some(source), Some(line));
            }
            Some(_) => {}
        }
    }
    (None, None)
}

impl State {
    /// Ends the script under way if it is killed, has run for too long, or the server is to end.
    fn look(&self) -> Result<VmState> {
        if self.ended.get().is_none() {
            self.steps.set(0);
            let (is_killed, is_stopping) = match &*self.thread.borrow() {
                Some(Thread { runs, worker }) => {
                    let run = runs.of(*worker);
                    (run.is_killed(), run.is_stopping())
                }
                None => (false, false),
            };
            let now = Instant::now();
            let is_past = |time: &Cell<Option<Instant>>| time.get().is_some_and(|time| now >= time);
            let ended = match () {
                () if is_killed => Ended::Killed,
                () if is_past(&self.until) => Ended::TimedOut,
                () if is_stopping && is_past(&self.grace) => Ended::Stopping,
                () if is_past(&self.late) && self.tarries(now) => Ended::Again,
                () => return Ok(VmState::Continue),
            };
            self.ended.set(Some(ended));
        }
        Err(Error::runtime("the script is ended"))
    }

    /// The script has run for a while: the others are not to wait for it for ever. Returns whether its transaction is to begin
    /// again.
    #[cold]
    fn tarries(&self, now: Instant) -> bool {
        let (Some(Thread { runs, worker }), Some(began)) =
            (self.thread.borrow().clone(), self.began.get())
        else {
            self.late.set(None);
            return false;
        };
        self.was_late.set(true);
        let running = || self.running.borrow().clone();
        let owed = || others(false, |others| others.are_owed());
        let until = match runs.late(worker, (began, now), self.most.get(), &owed, &running) {
            Late::Again => return true,
            Late::Until(until) => Some(until),
            Late::Overdue => {
                let next = others(IDLE, |others| others.look_after());
                Instant::now().checked_add(next)
            }
        };
        self.late.set(until);
        false
    }

    /// Counts steps of a function in Rust, each of some nanoseconds, and looks at the time after many of them.
    pub(super) fn spend(&self, steps: usize) -> Result<()> {
        let steps = self.steps.get().saturating_add(steps);
        if steps < STEPS {
            self.steps.set(steps);
            return Ok(());
        }
        self.look().map(drop)
    }

    /// Performs a command. Returns the value of its reply; none if that is an error. Fails if the script is ended.
    fn call(
        &self,
        lua: &Lua,
        args: &MultiValue,
        perform: &mut Perform<'_>,
        reply: &mut Vec<u8>,
    ) -> Result<Option<Value>> {
        self.look()?;
        reply.clear();
        let Some(args) = arguments(args) else {
            reply.extend_from_slice(match args.is_empty() {
                true => b"-ERR Please specify at least one argument for this redis lib call",
                false => b"-ERR Lua redis lib command arguments must be strings or integers",
            });
            return Ok(None);
        };
        if perform(&args, self.protocol.get(), reply).is_err() {
            self.ended.set(Some(Ended::Failed));
            return Err(Error::runtime("the script is ended"));
        }
        match reply.first() {
            Some(b'-') => Ok(None),
            _ => Parser::new(lua, reply).value().map(Some),
        }
    }
}

/// The pair of a table that follows a key, the first one for nil.
pub(super) fn pair_after(lua: &Lua, table: &Table, key: Value) -> Result<Option<(Value, Value)>> {
    let next: Function = lua.named_registry_value(NEXT)?;
    let (key, value): (Value, Value) = next.call((table, key))?;
    Ok((!key.is_nil()).then_some((key, value)))
}

/// A command's arguments; none if there are none, or one of them is neither a string nor a number.
pub(super) fn arguments(args: &MultiValue) -> Option<OwnedArgs> {
    let mut texts: OwnedArgs = OwnedArgs::default();
    let mut digits = Vec::new();
    for arg in args {
        match arg {
            Value::String(text) => texts.push(&text.as_bytes()),
            Value::Integer(value) => {
                digits.clear();
                number::push_f64(&mut digits, *value as f64);
                texts.push(&digits);
            }
            Value::Number(value) => {
                digits.clear();
                number::push_f64(&mut digits, *value);
                texts.push(&digits);
            }
            _ => return None,
        }
    }
    (!args.is_empty()).then_some(texts)
}
