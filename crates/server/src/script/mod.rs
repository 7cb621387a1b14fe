//! Scripts in Lua: what clients send by EVAL and SCRIPT LOAD.
//!
//! - The server keeps the sources of all scripts ([`Scripts`]); a thread that runs scripts has an interpreter of its own
//!   ([`interpreter`]), which keeps what it has compiled.
//! - A script is one command on data: its transaction is that of its turn, and may run again from the beginning. Nothing
//!   that it does is seen before that is committed, so a script can be ended at any moment.
//! - A script that runs for long keeps no client waiting for ever: the others are told that the server is busy, and can
//!   end it ([`runs`]).
//! - Scripts cannot change what later scripts see, or reach anything but the keyspace (`sandbox.lua`).

mod bits;
mod decimal;
pub(crate) mod interpreter;
mod json;
pub(crate) mod libraries;
mod library;
#[cfg(test)]
mod limit_tests;
mod msgpack;
mod packing;
mod pattern;
mod replies;
mod runs;
mod sha1;
mod strings;
#[cfg(test)]
mod strings_tests;
#[cfg(test)]
mod tests;

pub(crate) use interpreter::{Ended, Others, Ran, set_others};
pub(crate) use runs::{Busy, Killing, Late, Running, Runs, Sort};
pub(crate) use sha1::{Digest, sha1_hex};

use crate::command::{Failure, Outcome};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Scripts that were only run by EVAL, and are kept for EVALSHA: the newest, as Redis 7.4 keeps as many.
const EVALUATED_MAX: usize = 500;
/// Bytes that they take at most.
const EVALUATED_BYTES: usize = 64 << 20;
/// Bytes of one of them. A larger script is known only if it is loaded.
const EVALUATED_ONE: usize = 4 << 20;
/// Bytes of memory that a script takes besides its source.
const PER_SCRIPT: usize = 300;

/// A script.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) digest: Digest,
    pub(crate) source: Vec<u8>,
    pub(crate) flags: Flags,
}

/// What the first line of a script says about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    /// It has such a line.
    pub(crate) declared: bool,
    /// The line takes so many bytes, without its end.
    line: usize,
    pub(crate) no_writes: bool,
}

impl Script {
    /// The script with this source, and its digest.
    pub(crate) fn new(source: &[u8], digest: Digest) -> Outcome<Self> {
        let flags = Flags::of(source)?;
        Ok(Script { digest, source: source.to_vec(), flags })
    }

    /// What is compiled: lines keep their numbers.
    fn text(&self) -> &[u8] {
        &self.source[self.flags.line..]
    }

    fn bytes(&self) -> usize {
        self.source.len() + PER_SCRIPT
    }
}

/// Whether a script says that it does not write.
pub(crate) fn declares_no_writes(source: &[u8]) -> bool {
    Flags::of(source).is_ok_and(|flags| flags.no_writes)
}

impl Flags {
    fn of(source: &[u8]) -> Outcome<Self> {
        if !source.starts_with(b"#!") {
            return Ok(Flags::default());
        }
        let wrong = |text: String| Err(Failure::say(format!("ERR {text}")));
        let Some(line) = source.iter().position(|&byte| byte == b'\n') else {
            return wrong("Invalid script shebang".into());
        };
        let text = String::from_utf8_lossy(&source[..line]);
        let mut parts = text.split_ascii_whitespace();
        match parts.next() {
            Some("#!lua") => {}
            other => {
                let other = other.unwrap_or_default();
                return wrong(format!("Unexpected engine in script shebang: {other}"));
            }
        }
        let mut flags = Flags { declared: true, line, no_writes: false };
        for part in parts {
            let Some(names) = part.strip_prefix("flags=") else {
                return wrong(format!("Unknown lua shebang option: {part}"));
            };
            for name in names.split(',') {
                match name {
                    "no-writes" => flags.no_writes = true,
                    // There are no replicas and no clusters, and no write is done beyond the pool's size.
                    "allow-oom" | "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                    _ => return wrong(format!("Unexpected flag in script shebang: {name}")),
                }
            }
        }
        Ok(flags)
    }
}

/// The scripts that a server knows. They are lost when it ends, as Redis's are.
#[derive(Default)]
pub(crate) struct Scripts {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    scripts: HashMap<Digest, Kept>,
    /// The scripts that were never loaded, the oldest first, and their bytes.
    evaluated: VecDeque<Digest>,
    evaluated_bytes: usize,
    /// Those of the others.
    loaded_bytes: usize,
}

struct Kept {
    script: Arc<Script>,
    loaded: bool,
}

impl Scripts {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, digest: &Digest) -> Option<Arc<Script>> {
        self.known().scripts.get(digest).map(|kept| Arc::clone(&kept.script))
    }

    /// How many there are, and the bytes that they take.
    pub(crate) fn size(&self) -> (usize, usize) {
        let known = self.known();
        (known.scripts.len(), known.evaluated_bytes + known.loaded_bytes)
    }

    /// Keeps a script that a client has run, unless it is large; of those that were only run, the oldest are forgotten.
    pub(crate) fn note(&self, script: &Arc<Script>) {
        let (known, bytes) = (&mut *self.known(), script.bytes());
        if bytes > EVALUATED_ONE || known.scripts.contains_key(&script.digest) {
            return;
        }
        while (known.evaluated.len() >= EVALUATED_MAX
            || known.evaluated_bytes + bytes > EVALUATED_BYTES)
            && let Some(oldest) = known.evaluated.pop_front()
        {
            if let Some(kept) = known.scripts.remove(&oldest) {
                known.evaluated_bytes -= kept.script.bytes();
            }
        }
        known.evaluated.push_back(script.digest);
        known.evaluated_bytes += bytes;
        known.scripts.insert(script.digest, Kept { script: Arc::clone(script), loaded: false });
    }

    /// Keeps a script until all are forgotten. Those that are loaded take at most `most` bytes.
    pub(crate) fn load(&self, script: &Arc<Script>, most: usize) -> Outcome {
        let (known, bytes) = (&mut *self.known(), script.bytes());
        let before = known.scripts.get(&script.digest).map(|kept| kept.loaded);
        if before == Some(true) {
            return Ok(());
        }
        if known.loaded_bytes.saturating_add(bytes) > most {
            return Err(Failure::say(format!(
                "ERR the scripts take more than {most} bytes, see --max-request; SCRIPT FLUSH forgets them"
            )));
        }
        if before == Some(false) {
            known.evaluated.retain(|digest| *digest != script.digest);
            known.evaluated_bytes -= bytes;
        }
        known.loaded_bytes += bytes;
        known.scripts.insert(script.digest, Kept { script: Arc::clone(script), loaded: true });
        Ok(())
    }

    /// Forgets all of them.
    pub(crate) fn flush(&self) {
        *self.known() = Known::default();
    }
}

/// A digest as a client gives it, in any case.
pub(crate) fn digest_of(text: &[u8]) -> Option<Digest> {
    let mut digest = Digest::try_from(text).ok()?;
    digest.make_ascii_lowercase();
    Some(digest)
}
