//! The filter of commands: gives those on data to the module.

use super::api::{self, HostCommand, RawContext, RawText, Text, bytes, host, is_grouped};
use super::{functions, guarded, is_home, rights, shield, values, with};
use crate::node::Node;
use crate::work::Contents;
use perdura_server::DataCommand;
use redis_module::raw;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ffi::c_int;
use std::ptr;

/// Before the names of the module's commands.
pub(super) const PREFIX: &str = "perdura.";
/// The command that refuses what the module cannot do.
pub(super) const REFUSED: &str = "perdura.refused";
/// Groups of commands on data that are the module's.
const GROUPS: [&str; 10] = [
    "string",
    "bitmap",
    "hyperloglog",
    "generic",
    "hash",
    "list",
    "set",
    "sorted-set",
    "geo",
    "stream",
];
/// Commands that write, and are the host's: they perform others, or the host tells the module what they have done.
const WRITERS: [&str; 12] = [
    "eval",
    "evalsha",
    "eval_ro",
    "evalsha_ro",
    "fcall",
    "fcall_ro",
    "flushall",
    "flushdb",
    "migrate",
    "restore",
    "restore-asking",
    "swapdb",
];
/// The host's own commands that tell what the pool has, or change it, and whether they do.
const TELLING: [(&str, bool); 8] = [
    ("dbsize", false),
    ("dump", false),
    ("flushall", true),
    ("flushdb", true),
    ("function", true),
    ("restore", true),
    ("restore-asking", true),
    ("swapdb", true),
];
/// Parts of FUNCTION that change libraries.
const FUNCTION_WRITERS: [&str; 4] = ["load", "delete", "flush", "restore"];
/// Parts of DEBUG that replace the host's keys by others.
const DEBUGS: [&str; 3] = ["reload", "loadaof", "populate"];
/// Commands of these groups that stay the host's: it saves and counts its own values, and they are the module's.
const HOSTS: [&str; 5] = ["dump", "dbsize", "flushdb", "flushall", "swapdb"];
/// The first byte of a value of a module in the host's form, as DUMP answers it.
const MODULE_VALUE: u8 = 7;

/// The commands that are the module's.
pub(super) fn own() -> impl Iterator<Item = DataCommand> {
    DataCommand::all()
        .filter(|command| GROUPS.contains(&command.group()) && !HOSTS.contains(&command.name()))
}

/// The commands that the filter knows by their names.
pub(super) fn watched() -> impl Iterator<Item = &'static str> {
    let others = ["acl", "config", "debug", "exec", "function", "watch"];
    own()
        .map(|command| command.name())
        .chain(WRITERS)
        .chain(TELLING.map(|(name, _)| name))
        .chain(others)
}

thread_local! {
    /// For each command's number the command, and its name as the module's.
    static NAMES: RefCell<Vec<Option<(DataCommand, Text)>>> = const { RefCell::new(Vec::new()) };
    /// Commands of the host's that write values of its own, which no pool has.
    static OTHERS: RefCell<HashSet<Vec<u8>>> = RefCell::default();
    /// When the first command of an EXEC or a script was performed.
    static TIME: Cell<Option<u64>> = const { Cell::new(None) };
    /// Whether FUNCTION was seen: EXEC may have one.
    static FUNCTIONS: Cell<bool> = const { Cell::new(false) };
    /// Whether a command of [`TELLING`] was seen, or WATCH: EXEC may have one, or tell that a key was written.
    static TELLS: Cell<bool> = const { Cell::new(false) };
    /// For calls of the host from the filter.
    static CONTEXT: Cell<RawContext> = const { Cell::new(ptr::null_mut()) };
    /// Whether a script was seen: EXEC may have one.
    static SCRIPTS: Cell<bool> = const { Cell::new(false) };
}

/// Milliseconds since 1970. Time stands still in an EXEC, and in a script.
pub(super) fn now() -> u64 {
    if !is_grouped() {
        return api::now();
    }
    let now = TIME.get().unwrap_or_else(api::now);
    TIME.set(Some(now));
    now
}

/// Prepares the filter, for these commands of the host.
pub(super) fn prepare(context: RawContext, host: &[HostCommand]) {
    CONTEXT.set(api::own_context(context));
    let mut names: Vec<_> = (0..DataCommand::count()).map(|_| None).collect();
    // Others were taken away by the operator.
    for command in own().filter(|own| host.iter().any(|known| known.name == own.name())) {
        let name = format!("{PREFIX}{}", command.name());
        names[command.own_number()] = Some((command, Text::new(name.as_bytes())));
    }
    NAMES.set(names);
    let others = host.iter().filter(|command| {
        let name = command.name.as_str();
        let is_own = DataCommand::number(name.as_bytes()).is_some() || name.starts_with(PREFIX);
        command.is("write") && !is_own && !WRITERS.contains(&name)
    });
    OTHERS.set(others.map(|command| command.name.clone().into_bytes()).collect());
}

/// The host is about to perform a command, or to queue one.
pub(super) unsafe extern "C" fn filter(command: *mut raw::RedisModuleCommandFilterCtx) {
    guarded(|| {
        let arg = |at| bytes(host!(RedisModule_CommandFilterArgGet(command, at)));
        let name = arg(0);
        if !is_home() {
            if watched().any(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
                refuse(command, name);
            }
            return;
        }
        if !is_grouped() && !values::is_settling() {
            // An EXEC, or a script, that was under way is over.
            with(|node| {
                node.release()?;
                node.end_group()
            });
            TIME.set(None);
            note(name);
        }
        if !values::is_settling() {
            tell(name);
        }
        let count = host!(RedisModule_CommandFilterArgsCount(command));
        // A value of the module that moves: the host makes it (`values.rs`).
        if name.eq_ignore_ascii_case(b"restore")
            && count > 3
            && arg(3).first() == Some(&MODULE_VALUE)
        {
            return;
        }
        if is_refused(name, count, arg)
            || name.eq_ignore_ascii_case(b"restore-asking") && count > 3 && !fits(arg(1), arg(3))
        {
            refuse(command, name);
            return;
        }
        if name.eq_ignore_ascii_case(b"restore-asking") {
            with(|node| {
                node.hold();
                Ok(())
            });
        }
        let Some(number) = DataCommand::number(name) else { return };
        NAMES.with_borrow(|names| {
            // Of a wrong number of arguments the host tells, also after MULTI.
            let len = usize::try_from(count).unwrap_or(0);
            match names.get(number) {
                Some(Some((own, name))) if own.takes(len) => replace(command, name.0),
                _ => {}
            }
        });
    });
}

/// Before the host tells a client by itself what may not be durable yet.
fn tell(name: &[u8]) {
    let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
    if is("exec") {
        if TELLS.get() {
            shield::raise(CONTEXT.get(), None, true);
        }
    } else if is("watch") {
        TELLS.set(true);
    } else if let Some((_, writes)) = TELLING.iter().find(|(telling, _)| is(telling)) {
        TELLS.set(true);
        shield::raise(CONTEXT.get(), None, *writes);
    }
}

/// Whether a command of the host's would write what no pool has, or would have the host persist what the pool has.
fn is_refused<'a>(name: &[u8], count: c_int, arg: impl Fn(c_int) -> &'a [u8]) -> bool {
    let is = |at: c_int, word: &str| at < count && arg(at).eq_ignore_ascii_case(word.as_bytes());
    match name.first() {
        // Its end is none that the module is told of, until when its reply may have been sent.
        Some(b'f' | b'F') if is(0, "function") => {
            FUNCTION_WRITERS.iter().any(|part| is(1, part))
                && !is_grouped()
                && with(|node| Ok(node.is_exposed()))
        }
        Some(b'd' | b'D') if is(0, "debug") => DEBUGS.iter().any(|part| is(1, part)),
        Some(b'c' | b'C') if is(0, "config") && is(1, "set") => {
            (2..count - 1).step_by(2).any(|at| {
                is(at, "appendonly") && is(at + 1, "yes")
                    || is(at, "save") && !arg(at + 1).is_empty()
            })
        }
        _ => OTHERS.with_borrow(|others| {
            !others.is_empty() && others.contains(name.to_ascii_lowercase().as_slice())
        }),
    }
}

/// Whether the pool could keep a value of a stock server that is sent here, when its slot moves. A replica has to.
fn fits(key: &[u8], payload: &[u8]) -> bool {
    if payload.first() == Some(&MODULE_VALUE) || api::flags(ptr::null_mut()) & api::REPLICA != 0 {
        return true;
    }
    let contents = Contents { payload: payload.to_vec(), expires: 0 };
    // A cluster has one database.
    with(|node| node.could(contents.restore(0, key), is_grouped()))
}

/// Has the command answered with an error that names it.
fn refuse(command: *mut raw::RedisModuleCommandFilterCtx, name: &[u8]) {
    let (refused, name) = (Text::new(REFUSED.as_bytes()), Text::new(name));
    host!(RedisModule_RetainString(ptr::null_mut(), name.0));
    host!(RedisModule_CommandFilterArgInsert(command, 1, name.0));
    replace(command, refused.0);
}

/// Looks for scripts, and for functions.
fn note(name: &[u8]) {
    let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
    let scripts = ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"];
    let begins = matches!(name.first(), Some(b'e' | b'E' | b'f' | b'F' | b'a' | b'A'));
    if !begins {
        return;
    }
    if is("acl") {
        rights::changed();
    }
    if is("function") {
        FUNCTIONS.set(true);
    }
    if FUNCTIONS.get() && (is("function") || is("exec")) {
        functions::changed();
    }
    let is_script = scripts.into_iter().any(is);
    SCRIPTS.set(SCRIPTS.get() || is_script);
    if is_script || is("exec") && SCRIPTS.get() {
        // Should it run for long, the host hears these clients.
        shield::lower();
        with(Node::begin_script);
    }
}

/// Gives the command another name. The host takes over a share of it.
fn replace(command: *mut raw::RedisModuleCommandFilterCtx, name: RawText) {
    host!(RedisModule_RetainString(ptr::null_mut(), name));
    host!(RedisModule_CommandFilterArgReplace(command, 0, name));
}
