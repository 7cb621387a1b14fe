//! Scripts in Lua: what clients send by EVAL and SCRIPT LOAD.
//!
//! - The server keeps the sources of all scripts ([`Scripts`]); a thread that runs scripts has an interpreter of its own
//!   ([`interpreter`]), which keeps what it has compiled.
//! - A script is one command on data: its transaction is that of its turn, and may run again from the beginning. Nothing
//!   that it does is seen before that is committed, so a script can be ended at any moment ([`Runs`]).
//! - Scripts cannot change what later scripts see, or reach anything but the keyspace (`sandbox.lua`).

mod bits;
mod decimal;
pub(crate) mod interpreter;
mod json;
mod library;
mod msgpack;
mod packing;
mod patterns;
mod replies;
mod sha1;
#[cfg(test)]
mod tests;

pub(crate) use interpreter::{Ended, Ran};
pub(crate) use sha1::{Digest, sha1_hex};

use crate::command::{Failure, Outcome};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Scripts that were only run by EVAL, and are kept for EVALSHA: the newest, as Redis 7.4 keeps as many.
const EVALUATED_MAX: usize = 500;
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
    bytes: AtomicUsize,
}

#[derive(Default)]
struct Known {
    scripts: HashMap<Digest, Kept>,
    /// The scripts that were never loaded, the oldest first.
    evaluated: VecDeque<Digest>,
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
        (self.known().scripts.len(), self.bytes.load(Ordering::Relaxed))
    }

    /// Keeps a script that a client has run; of those that were only run, the oldest is forgotten.
    pub(crate) fn note(&self, script: &Arc<Script>) {
        let mut known = self.known();
        if known.scripts.contains_key(&script.digest) {
            return;
        }
        if known.evaluated.len() >= EVALUATED_MAX
            && let Some(oldest) = known.evaluated.pop_front()
        {
            self.forget(&mut known, &oldest);
        }
        known.evaluated.push_back(script.digest);
        self.keep(&mut known, script, false);
    }

    /// Keeps a script until all are forgotten. Those that are loaded take at most `most` bytes.
    pub(crate) fn load(&self, script: &Arc<Script>, most: usize) -> Outcome {
        let mut known = self.known();
        if let Some(kept) = known.scripts.get_mut(&script.digest) {
            if !std::mem::replace(&mut kept.loaded, true) {
                known.evaluated.retain(|digest| *digest != script.digest);
            }
            return Ok(());
        }
        if self.bytes.load(Ordering::Relaxed).saturating_add(script.bytes()) > most {
            return Err(Failure::say(format!(
                "ERR the scripts take more than {most} bytes, see --max-request; SCRIPT FLUSH forgets them"
            )));
        }
        self.keep(&mut known, script, true);
        Ok(())
    }

    fn keep(&self, known: &mut Known, script: &Arc<Script>, loaded: bool) {
        self.bytes.fetch_add(script.bytes(), Ordering::Relaxed);
        known.scripts.insert(script.digest, Kept { script: Arc::clone(script), loaded });
    }

    fn forget(&self, known: &mut Known, digest: &Digest) {
        if let Some(kept) = known.scripts.remove(digest) {
            self.bytes.fetch_sub(kept.script.bytes(), Ordering::Relaxed);
        }
    }

    /// Forgets all of them.
    pub(crate) fn flush(&self) {
        *self.known() = Known::default();
        self.bytes.store(0, Ordering::Relaxed);
    }
}

/// A digest as a client gives it, in any case.
pub(crate) fn digest_of(text: &[u8]) -> Option<Digest> {
    let mut digest = Digest::try_from(text).ok()?;
    digest.make_ascii_lowercase();
    Some(digest)
}

/// The scripts that are running, one in each thread at most, and which of them are to end.
pub(crate) struct Runs(Box<[Arc<Run>]>);

/// One thread's script.
#[derive(Default)]
pub(crate) struct Run {
    state: AtomicU8,
    /// How many scripts the thread has run.
    pub(crate) count: AtomicU64,
}

const NOTHING: u8 = 0;
const RUNNING: u8 = 1;
const KILLED: u8 = 2;

impl Runs {
    pub(crate) fn new(threads: usize) -> Self {
        Runs((0..threads).map(|_| Arc::default()).collect())
    }

    pub(crate) fn of(&self, worker: usize) -> &Arc<Run> {
        &self.0[worker]
    }

    /// Ends all scripts that are running. Returns whether there were any.
    pub(crate) fn kill(&self) -> bool {
        let kill = |run: &Arc<Run>| {
            let state = &run.state;
            state.compare_exchange(RUNNING, KILLED, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        self.0.iter().filter(|run| kill(run)).count() > 0
    }
}

impl Run {
    /// A script begins.
    pub(crate) fn begin(&self) {
        self.state.store(RUNNING, Ordering::Release);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.state.store(NOTHING, Ordering::Release);
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.state.load(Ordering::Acquire) == KILLED
    }
}
