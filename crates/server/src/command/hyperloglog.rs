//! PFADD, PFCOUNT, PFMERGE, and PFDEBUG for tests of clients.

use super::sketch::{self, Corrupt, Sketch};
use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::{Entry, Found, Kind, text};
use crate::replication::following::Gate;

const ONE: (i32, i32, i32) = (1, 1, 1);
const ALL: (i32, i32, i32) = (1, -1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::new("pfadd", -2, ONE, Run::Write(pfadd), "Adds elements to a HyperLogLog."),
    // It keeps the number that it has found.
    Command::new("pfcount", -2, ALL, Run::Write(pfcount), "About how many elements were added."),
    Command::new("pfmerge", -2, ALL, Run::Write(pfmerge), "Stores a union of HyperLogLogs."),
    Command::new("pfdebug", 3, (2, 2, 1), Run::Write(pfdebug), "Shows a HyperLogLog's inside."),
];

impl From<Corrupt> for Failure {
    fn from(_: Corrupt) -> Self {
        Failure::Say("INVALIDOBJ Corrupted HLL object detected".into())
    }
}

/// The sketch of an entry.
fn read(call: &mut Call<'_>, entry: Entry) -> Outcome<Sketch> {
    let none = || Failure::Say("WRONGTYPE Key is not a valid HyperLogLog string value.".into());
    // No sketch is longer: other strings are not read.
    if text::len(call.tx, entry)? > LONGEST {
        return Err(none());
    }
    Sketch::from_bytes(text::read(call.tx, entry)?).ok_or_else(none)
}

/// Bytes of the longest sketch that is one: a sparse one, if that is set to be the longest possible.
const LONGEST: u64 = 64 << 10;

/// Puts a changed sketch back.
fn write(call: &mut Call<'_>, key: &[u8], old: Option<Found>, sketch: Sketch) -> Outcome {
    let entry = old.map(|old| old.entry);
    let new = text::store(call.tx, entry, &sketch.into_bytes())?;
    call.put(key, old, new.expiring(entry.and_then(Entry::expires)))
}

/// Keeps a sketch's count with it. That is written in place, so that a full pool has room for it.
fn cache(call: &mut Call<'_>, key: &[u8], count: u64) -> Outcome {
    let old = call.claim_for(key, Kind::String)?;
    let entry = old.map(|old| old.entry);
    let new = text::overwrite(call.tx, entry, sketch::CACHED_AT, &count.to_le_bytes())?;
    call.put(key, old, new)
}

fn pfadd(call: &mut Call<'_>) -> Outcome {
    let key = call.args.at(1);
    let old = call.claim_for(key, Kind::String)?;
    let mut changed = old.is_none();
    let mut sketch = match old {
        Some(old) => read(call, old.entry)?,
        None => Sketch::new(),
    };
    let most = call.env.server.tuning.sparse_max();
    for element in call.args.from(2).iter() {
        changed |= sketch.add(element, most)?;
    }
    if changed {
        sketch.forget();
        write(call, key, old, sketch)?;
    }
    call.out.flag(changed);
    Ok(())
}

fn pfcount(call: &mut Call<'_>) -> Outcome {
    if call.args.len() > 2 {
        let mut registers = sketch::no_registers();
        for key in call.args.from(1).iter() {
            if let Some(entry) = call.look_for(key, Kind::String)? {
                read(call, entry)?.merge_into(&mut registers)?;
            }
        }
        call.out.size(sketch::count(&registers));
        return Ok(());
    }
    let key = call.args.at(1);
    let count = match call.look_for(key, Kind::String)? {
        None => 0,
        Some(entry) => {
            let sketch = read(call, entry)?;
            match sketch.cached() {
                Some(count) => count,
                None => {
                    let count = sketch.count()?;
                    // Clients of a replica change nothing.
                    let is_kept =
                        call.env.obeys() || call.env.server.following.gate() == Gate::Open;
                    if is_kept {
                        cache(call, key, count)?;
                    }
                    count
                }
            }
        }
    };
    call.out.size(count);
    Ok(())
}

fn pfmerge(call: &mut Call<'_>) -> Outcome {
    let mut registers = sketch::no_registers();
    let mut dense = false;
    for key in call.args.from(1).iter() {
        if let Some(entry) = call.look_for(key, Kind::String)? {
            let sketch = read(call, entry)?;
            dense |= sketch.is_dense();
            sketch.merge_into(&mut registers)?;
        }
    }
    let key = call.args.at(1);
    let old = call.claim_for(key, Kind::String)?;
    let mut sketch = match old {
        Some(old) => read(call, old.entry)?,
        None => Sketch::new(),
    };
    if dense {
        sketch.make_dense()?;
    }
    let most = call.env.server.tuning.sparse_max();
    for (index, &value) in registers.iter().enumerate().filter(|(_, value)| **value > 0) {
        sketch.set(index, value, most)?;
    }
    sketch.forget();
    write(call, key, old, sketch)?;
    call.out.ok();
    Ok(())
}

fn pfdebug(call: &mut Call<'_>) -> Outcome {
    let key = call.args.at(2);
    let Some(old) = call.claim_for(key, Kind::String)? else {
        return Err(Failure::Say("ERR The specified key does not exist".into()));
    };
    let mut sketch = read(call, old.entry)?;
    match () {
        () if call.args.is(1, "encoding") => {
            call.out.simple(if sketch.is_dense() { "dense" } else { "sparse" });
        }
        () if call.args.is(1, "todense") => {
            let changed = !sketch.is_dense();
            if changed {
                sketch.make_dense()?;
                write(call, key, Some(old), sketch)?;
            }
            call.out.flag(changed);
        }
        () if call.args.is(1, "getreg") => {
            let mut registers = sketch::no_registers();
            sketch.merge_into(&mut registers)?;
            call.out.array(registers.len());
            registers.iter().for_each(|&value| call.out.integer(value.into()));
            sketch.make_dense()?;
            write(call, key, Some(old), sketch)?;
        }
        () => {
            let name = super::shown(call.args.at(1), 128);
            return Err(Failure::say(format!("ERR Unknown PFDEBUG subcommand '{name}'")));
        }
    }
    Ok(())
}
