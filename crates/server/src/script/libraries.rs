//! Loading libraries of functions: FUNCTION LOAD, FUNCTION RESTORE, and imports.

use super::interpreter::{self, Registered};
use super::sha1_hex;
use crate::command::{Failure, Outcome, shown};
use crate::keyspace::functions::{FunctionEntry, Functions};
use crate::protocol::args::Span;
use crate::protocol::inline::split as split_inline;
use perdura::Tx;

/// What a function may say about itself, each with its bit in [`FunctionEntry::flags`].
pub(crate) const FLAGS: [&str; 5] =
    ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];
/// The bit of the first of them.
pub(crate) const NO_WRITES: u8 = 1;

const BAD_NAME: &str = "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// The words of a library's first line: in quotes there may be spaces.
fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut buffer, mut spans) = (line.to_vec(), Vec::new());
    let whole = split_inline(&mut buffer, 0..line.len(), &mut spans);
    let word = |span: &Span| buffer[span.start..span.start + span.len].to_vec();
    whole.then(|| spans.iter().map(word).collect())
}

/// A library's code: its name, and the part that is compiled, with the end of the first line.
fn parts(code: &[u8]) -> Outcome<(Vec<u8>, &[u8])> {
    let say = |text: String| Err(Failure::say(format!("ERR {text}")));
    let Some(rest) = code.strip_prefix(b"#!") else {
        return say("Missing library metadata".into());
    };
    let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
        return say("Invalid library metadata".into());
    };
    let Some(words) = words(&code[..end + 2]).filter(|words| !words.is_empty()) else {
        return say("Invalid library metadata".into());
    };
    let mut name = None;
    for word in &words[1..] {
        let value = word.get(..5).filter(|start| start.eq_ignore_ascii_case(b"name="));
        match value {
            Some(_) if name.is_some() => {
                return say("Invalid metadata value, name argument was given multiple times".into());
            }
            Some(_) => name = Some(word[5..].to_vec()),
            None => return say(format!("Invalid metadata value given: {}", shown(word, 128))),
        }
    }
    let Some(name) = name else { return say("Library name was not given".into()) };
    if !interpreter::is_name(&name) {
        return Err(Failure::Say(BAD_NAME.into()));
    }
    let engine = &words[0][2..];
    if !engine.eq_ignore_ascii_case(b"lua") {
        return say(format!("Engine '{}' not found", shown(engine, 128)));
    }
    Ok((name, &rest[end..]))
}

/// A library that was compiled, and is not stored yet.
pub(crate) struct NewLibrary {
    pub(crate) name: Vec<u8>,
    code: Vec<u8>,
    functions: Vec<FunctionEntry>,
}

impl NewLibrary {
    /// Compiles a library's code, and runs it once, which registers its functions.
    pub(crate) fn of(code: &[u8]) -> Outcome<Self> {
        let (name, text) = parts(code)?;
        Self::compiled(code, name, text)
    }

    fn compiled(code: &[u8], name: Vec<u8>, text: &[u8]) -> Outcome<Self> {
        let registered = interpreter::load(&sha1_hex(code), text)?;
        if registered.is_empty() {
            return Err(Failure::Say("ERR No functions registered".into()));
        }
        let of = |one: Registered| FunctionEntry {
            name: one.name,
            library: name.clone(),
            description: one.description,
            flags: one.flags,
        };
        let functions = registered.into_iter().map(of).collect();
        Ok(NewLibrary { name, code: code.to_vec(), functions })
    }

    /// The first of its functions that another library has.
    pub(crate) fn collision(
        &self,
        tx: &mut dyn Tx,
        functions: Functions,
    ) -> Outcome<Option<&[u8]>> {
        for function in &self.functions {
            if functions.function(tx, &function.name)?.is_some() {
                return Ok(Some(&function.name));
            }
        }
        Ok(None)
    }

    /// Stores it: no other library has its name, or its functions' names.
    pub(crate) fn add(&self, tx: &mut dyn Tx, functions: Functions) -> Outcome {
        let code = (&sha1_hex(&self.code), self.code.as_slice());
        Ok(functions.add(tx, &self.name, code, &self.functions)?)
    }
}

/// The libraries of a keyspace, to be changed.
pub(crate) fn to_change(tx: &mut dyn Tx, header: u64) -> Outcome<Functions> {
    let text = "ERR the pool has no room for libraries of functions: restart the server when there is some";
    Functions::make(tx, header)?.ok_or(Failure::Say(text.into()))
}

/// Loads a library. Returns its name.
pub(crate) fn load(tx: &mut dyn Tx, header: u64, code: &[u8], replace: bool) -> Outcome<Vec<u8>> {
    let (name, text) = parts(code)?;
    let functions = to_change(tx, header)?;
    let is_there = functions.library(tx, &name)?.is_some();
    if is_there && !replace {
        return Err(Failure::say(format!("ERR Library '{}' already exists", shown(&name, 128))));
    }
    let new = NewLibrary::compiled(code, name, text)?;
    if is_there {
        functions.remove(tx, &new.name)?;
    }
    if let Some(name) = new.collision(tx, functions)? {
        return Err(Failure::say(format!("ERR Function {} already exists", shown(name, 128))));
    }
    new.add(tx, functions)?;
    Ok(new.name)
}

/// Makes the interpreter of this thread know a library: the code is read only if it does not yet.
pub(crate) fn prepare(
    digest: &super::Digest,
    code: &mut dyn FnMut() -> Outcome<Vec<u8>>,
) -> Outcome {
    if interpreter::knows(digest) {
        return Ok(());
    }
    let code = code()?;
    let (_, text) = parts(&code)?;
    interpreter::load_to_run(digest, text)
}
