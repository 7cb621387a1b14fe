//! Functions: FCALL, FCALL_RO, and FUNCTION, which loads and shows libraries of them.
//!
//! Libraries are data: they are loaded in transactions, are durable, and FCALL finds its function in the transaction in
//! which it runs. Each subcommand of FUNCTION is a command of its own, since some are on data and others on the client.

use super::scripts::{self, key_count};
use super::{Call, ClientCall, Command, Failure, Next, Outcome, Run, shown};
use crate::keyspace::functions::{FunctionEntry, Functions};
use crate::protocol::{Args, Reply, glob};
use crate::rdb::{self, reader::Reader};
use crate::script::interpreter::Code;
use crate::script::libraries::{self, FLAGS, NO_WRITES, NewLibrary};
use crate::script::{Busy, Running, Sort};
use perdura::Tx;
use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

const NONE: (i32, i32, i32) = (0, 0, 0);

pub(super) const TABLE: &[Command] = &[
    Command::nesting("fcall", -3, Run::Write(fcall), "Runs a function of a library."),
    Command::nesting("fcall_ro", -3, Run::Read(fcall_ro), "Runs a function that only reads."),
    Command::new("function", -2, NONE, Run::Client(function), "Libraries of functions.")
        .with_parts(),
    Command::new("function|load", -3, NONE, Run::Write(load), "Loads a library."),
    Command::new("function|delete", 3, NONE, Run::Write(delete), "Removes a library."),
    Command::new("function|flush", -2, NONE, Run::Write(flush), "Removes all libraries."),
    Command::new("function|restore", -3, NONE, Run::Write(restore), "Loads dumped libraries."),
    Command::new("function|list", -2, NONE, Run::Read(list), "Which libraries there are."),
    Command::new("function|dump", 2, NONE, Run::Read(dump), "All libraries in Redis's form."),
    Command::new("function|stats", 2, NONE, Run::Read(stats), "How many libraries there are."),
];

/// The beginning of a library in what FUNCTION DUMP answers, and that of Redis before 7.0.
const LIBRARY: u8 = 245;
const OLD_LIBRARY: u8 = 246;

const HELP: [&str; 37] = [
    "LOAD [REPLACE] <FUNCTION CODE>",
    "    Create a new library with the given library name and code.",
    "DELETE <LIBRARY NAME>",
    "    Delete the given library.",
    "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
    "    Return general information on all the libraries:",
    "    * Library name",
    "    * The engine used to run the Library",
    "    * Library description",
    "    * Functions list",
    "    * Library code (if WITHCODE is given)",
    "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
    "STATS",
    "    Return information about the current function running:",
    "    * Function name",
    "    * Command used to run the function",
    "    * Duration in MS that the function is running",
    "    If no function is running, return nil",
    "    In addition, returns a list of available engines.",
    "KILL",
    "    Kill the current running function.",
    "FLUSH [ASYNC|SYNC]",
    "    Delete all the libraries.",
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the libraries.",
    "    * SYNC: Synchronously flush the libraries.",
    "DUMP",
    "    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command",
    "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
    "    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
    "    control how to handle existing libraries (default APPEND):",
    "    * FLUSH: delete all existing libraries.",
    "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
    "    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
    "      libraries with the new libraries (notice that even on this option there is a chance of failure",
    "      in case of functions name collision with another library).",
];

/// KILL and HELP, and the errors of subcommands that there are not, or not with so many arguments.
fn function(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let args = call.args;
    match (args.at(1).to_ascii_lowercase().as_slice(), args.len()) {
        (b"kill", 2) => scripts::kill(call, Sort::Function),
        // Of a function that is overdue: otherwise it is a command on data.
        (b"stats", 2) => busy_stats(call),
        (b"help", 2) => {
            call.reply().help("FUNCTION", &HELP);
            Ok(Next::Go)
        }
        (
            b"load" | b"delete" | b"flush" | b"restore" | b"list" | b"dump" | b"stats" | b"kill"
            | b"help",
            _,
        ) => Err(Failure::subcommand_arity(args, "function")),
        _ => Err(Failure::unknown_subcommand(args, "FUNCTION")),
    }
}

/// More arguments than a subcommand takes.
fn too_many(args: Args<'_>) -> Failure {
    let sub = shown(args.at(1), 128);
    Failure::say(format!(
        "ERR unknown subcommand or wrong number of arguments for '{sub}'. Try FUNCTION HELP."
    ))
}

fn fcall(call: &mut Call<'_>) -> Outcome {
    run(call, false)
}

fn fcall_ro(call: &mut Call<'_>) -> Outcome {
    run(call, true)
}

fn run(call: &mut Call<'_>, read_only: bool) -> Outcome {
    let header = call.env.keyspace;
    let not_found = || Failure::Say("ERR Function not found".into());
    let functions = Functions::find(call.tx, header)?.ok_or_else(not_found)?;
    let function = functions.function(call.tx, call.args.at(1))?.ok_or_else(not_found)?;
    let wrong = Failure::Say("ERR Bad number of keys provided".into());
    let count = crate::protocol::number::parse_i64(call.args.at(2)).ok_or(wrong)?;
    let count = key_count(count, call.args.len() - 3)?;
    let no_writes = function.flags & NO_WRITES != 0;
    if read_only && !no_writes {
        let text = "ERR Can not execute a script with write flag using *_ro command.";
        return Err(Failure::Say(text.into()));
    }
    let library = functions.library(call.tx, &function.library)?.ok_or_else(not_found)?;
    let tx = &mut *call.tx;
    libraries::prepare(&library.digest, &mut || Ok(library.code(tx)?))?;
    let code = Code::Function { library: &library.digest, name: &function.name };
    let counts = functions.counts(call.tx)?;
    let running = Running::new(&function.name, call.args, counts);
    scripts::run_code(call, (code, Some(running)), count, read_only || no_writes)
}

/// Whether the function of a FCALL is one that may write.
pub(crate) fn writes(tx: &mut dyn Tx, header: u64, args: Args<'_>) -> perdura::Result<bool> {
    let Some(functions) = Functions::find(tx, header)? else { return Ok(false) };
    let function = functions.function(tx, args.at(1))?;
    Ok(function.is_some_and(|function| function.flags & NO_WRITES == 0))
}

fn load(call: &mut Call<'_>) -> Outcome {
    let args = call.args;
    let last = args.len() - 1;
    let mut replace = false;
    for at in 2..last {
        if !args.is(at, "replace") {
            let option = shown(args.at(at), usize::MAX);
            return Err(Failure::say(format!("ERR Unknown option given: {option}")));
        }
        replace = true;
    }
    let name = libraries::load(call.tx, call.env.keyspace, args.at(last), replace)?;
    call.out.bulk(&name);
    Ok(())
}

fn delete(call: &mut Call<'_>) -> Outcome {
    let removed = match Functions::find(call.tx, call.env.keyspace)? {
        Some(functions) => functions.remove(call.tx, call.args.at(2))?,
        None => false,
    };
    if !removed {
        return Err(Failure::Say("ERR Library not found".into()));
    }
    call.out.ok();
    Ok(())
}

fn flush(call: &mut Call<'_>) -> Outcome {
    let args = call.args;
    match args.len() {
        2 => {}
        3 if args.is(2, "async") || args.is(2, "sync") => {}
        3 => {
            let text = "ERR FUNCTION FLUSH only supports SYNC|ASYNC option";
            return Err(Failure::Say(text.into()));
        }
        _ => return Err(too_many(args)),
    }
    if let Some(functions) = Functions::find(call.tx, call.env.keyspace)? {
        functions.clear(call.tx)?;
    }
    call.out.ok();
    Ok(())
}

/// The options of FUNCTION LIST: a pattern of names, and whether the code is wanted.
fn list_options<'a>(args: Args<'a>) -> Outcome<(Option<&'a [u8]>, bool)> {
    let (mut pattern, mut with_code, mut at) = (None, false, 2);
    while at < args.len() {
        if !with_code && args.is(at, "withcode") {
            with_code = true;
        } else if pattern.is_none() && args.is(at, "libraryname") {
            let missing = Failure::Say("ERR library name argument was not given".into());
            pattern = Some(args.get(at + 1).ok_or(missing)?);
            at += 1;
        } else {
            let argument = shown(args.at(at), usize::MAX);
            return Err(Failure::say(format!("ERR Unknown argument {argument}")));
        }
        at += 1;
    }
    Ok((pattern, with_code))
}

fn list(call: &mut Call<'_>) -> Outcome {
    let (pattern, with_code) = list_options(call.args)?;
    let pattern = pattern.map(<[u8]>::to_ascii_lowercase);
    let Some(functions) = Functions::find(call.tx, call.env.keyspace)? else {
        call.out.array(0);
        return Ok(());
    };
    let mut by_library: BTreeMap<Vec<u8>, Vec<FunctionEntry>> = BTreeMap::new();
    for function in functions.all(call.tx)? {
        by_library.entry(function.library.clone()).or_default().push(function);
    }
    let (start, mut told) = (call.out.len(), 0);
    let out = &mut call.out;
    functions.each_library::<Failure>(call.tx, &mut |tx, name, library| {
        let matches = |pattern: &Vec<u8>| glob::matches(pattern, &name.to_ascii_lowercase());
        if out.is_cut() || !pattern.as_ref().is_none_or(matches) {
            return Ok(());
        }
        told += 1;
        out.map(if with_code { 4 } else { 3 });
        out.bulk(b"library_name");
        out.bulk(&name);
        out.bulk(b"engine");
        out.bulk(b"LUA");
        out.bulk(b"functions");
        let own = by_library.remove(&name).unwrap_or_default();
        out.array(own.len());
        for function in own {
            out.map(3);
            out.bulk(b"name");
            out.bulk(&function.name);
            out.bulk(b"description");
            match &function.description {
                Some(text) => out.bulk(text),
                None => out.null(),
            }
            out.bulk(b"flags");
            let has = |bit: &usize| function.flags & 1 << bit != 0;
            let flags: Vec<usize> = (0..FLAGS.len()).filter(has).collect();
            out.set(flags.len());
            flags.into_iter().for_each(|bit| out.simple(FLAGS[bit]));
        }
        if with_code {
            out.bulk(b"library_code");
            out.bulk(&library.code(tx)?);
        }
        Ok(())
    })?;
    out.array_since(start, told);
    Ok(())
}

fn stats(call: &mut Call<'_>) -> Outcome {
    let (libraries, functions) = match Functions::find(call.tx, call.env.keyspace)? {
        Some(functions) => functions.counts(call.tx)?,
        None => (0, 0),
    };
    tell_stats(&mut call.out, None, (libraries, functions));
    Ok(())
}

/// FUNCTION STATS while a function, or a script, is overdue: no transaction could be begun.
fn busy_stats(call: &mut ClientCall<'_>) -> Outcome<Next> {
    match (call.server.runs.busy(), call.server.runs.running()) {
        (Some(Busy(Sort::Function)), Some(running)) => {
            tell_stats(&mut call.reply(), Some(&running), running.counts);
            Ok(Next::Go)
        }
        // A script is; or the function has ended just now.
        (busy, _) => Err(Failure::Say(busy.unwrap_or(Busy(Sort::Function)).text().into())),
    }
}

fn tell_stats(out: &mut Reply<'_>, running: Option<&Running>, (libraries, functions): (u64, u64)) {
    out.map(2);
    out.bulk(b"running_script");
    match running {
        None => out.null(),
        Some(running) => {
            out.map(3);
            out.bulk(b"name");
            out.bulk(&running.name);
            out.bulk(b"command");
            out.array(running.command.len());
            running.command.iter().for_each(|word| out.bulk(word));
            out.bulk(b"duration_ms");
            out.size(u64::try_from(running.began.elapsed().as_millis()).unwrap_or(u64::MAX));
        }
    }
    out.bulk(b"engines");
    out.map(1);
    out.bulk(b"LUA");
    out.map(2);
    out.bulk(b"libraries_count");
    out.size(libraries);
    out.bulk(b"functions_count");
    out.size(functions);
}

fn dump(call: &mut Call<'_>) -> Outcome {
    let mut to = Vec::new();
    if let Some(functions) = Functions::find(call.tx, call.env.keyspace)? {
        let out = &mut call.out;
        functions.each_library::<Failure>(call.tx, &mut |tx, _, library| {
            if out.has_room(to.len()) {
                to.push(LIBRARY);
                rdb::push_string(&mut to, &library.code(tx)?);
            }
            Ok(())
        })?;
    }
    if !call.out.is_cut() {
        rdb::finish(&mut to);
        call.out.bulk(&to);
    }
    Ok(())
}

/// What becomes of libraries that are there already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    Append,
    Replace,
    Flush,
}

fn restore(call: &mut Call<'_>) -> Outcome {
    let args = call.args;
    let policy = match args.len() {
        3 => Policy::Append,
        4 if args.is(3, "append") => Policy::Append,
        4 if args.is(3, "replace") => Policy::Replace,
        4 if args.is(3, "flush") => Policy::Flush,
        4 => {
            let text =
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.";
            return Err(Failure::Say(text.into()));
        }
        _ => return Err(too_many(args)),
    };
    let Some(dumped) = rdb::checked(args.at(2)) else {
        let text = "ERR DUMP payload version or checksum are wrong";
        return Err(Failure::Say(text.into()));
    };
    let mut reader = Reader::new(dumped);
    let functions = libraries::to_change(call.tx, call.env.keyspace)?;
    if policy == Policy::Flush {
        functions.clear(call.tx)?;
    }
    let (mut new, mut names): (Vec<NewLibrary>, _) = (Vec::new(), HashSet::new());
    let (began, most) = (Instant::now(), call.env.server.tuning.script_time());
    while !reader.is_at_end() {
        if most.is_some_and(|most| began.elapsed() > most) {
            return Err(Failure::Say("ERR FUNCTION RESTORE timeout".into()));
        }
        match reader.byte()? {
            LIBRARY => {}
            OLD_LIBRARY => {
                let text = "ERR Pre-GA function format not supported";
                return Err(Failure::Say(text.into()));
            }
            _ => return Err(Failure::Say("ERR given type is not a function".into())),
        }
        let failed = |_| Failure::Say("ERR failed loading the given functions payload".into());
        let library = NewLibrary::of(&reader.string().map_err(failed)?)?;
        let is_there = functions.library(call.tx, &library.name)?.is_some();
        let exists =
            |name: &[u8]| Failure::say(format!("ERR Library {} already exists", shown(name, 128)));
        if !names.insert(library.name.clone()) || is_there && policy == Policy::Append {
            return Err(exists(&library.name));
        }
        if is_there {
            functions.remove(call.tx, &library.name)?;
        }
        new.push(library);
    }
    for library in new {
        if let Some(name) = library.collision(call.tx, functions)? {
            return Err(Failure::say(format!("ERR Function {} already exists", shown(name, 128))));
        }
        library.add(call.tx, functions)?;
    }
    call.out.ok();
    Ok(())
}
