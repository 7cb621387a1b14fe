//! When keys expire: EXPIRE and its kin, TTL and its kin, PERSIST.

use super::{Call, Command, Failure, Outcome, Run, shown};
use crate::protocol::Args;

const ONE: (i32, i32, i32) = (1, 1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::brief("expire", -3, ONE, Run::Write(expire), "Lets a key expire after seconds."),
    Command::brief("pexpire", -3, ONE, Run::Write(pexpire), "Lets a key expire after ms."),
    Command::new("expireat", -3, ONE, Run::Write(expireat), "Lets a key expire at a second."),
    Command::new("pexpireat", -3, ONE, Run::Write(pexpireat), "Lets a key expire at a ms."),
    Command::brief("ttl", 2, ONE, Run::Read(ttl), "Seconds until a key expires."),
    Command::brief("pttl", 2, ONE, Run::Read(pttl), "Milliseconds until a key expires."),
    Command::new("expiretime", 2, ONE, Run::Read(expiretime), "The second when a key expires."),
    Command::new("pexpiretime", 2, ONE, Run::Read(pexpiretime), "The ms when a key expires."),
    Command::brief("persist", 2, ONE, Run::Write(persist), "Lets a key never expire."),
];

/// How a time is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    InSeconds,
    InMillis,
    AtSecond,
    AtMilli,
}

impl Unit {
    /// Milliseconds since 1970; may be in the past. `None` if that is no number of ours.
    fn time(self, value: i64, now: u64) -> Option<i64> {
        let now = i64::try_from(now).ok()?;
        match self {
            Unit::InSeconds => value.checked_mul(1000)?.checked_add(now),
            Unit::InMillis => value.checked_add(now),
            Unit::AtSecond => value.checked_mul(1000),
            Unit::AtMilli => Some(value),
        }
    }
}

/// The option EX, PX, EXAT or PXAT at `index`.
pub(super) fn unit(args: &Args<'_>, index: usize) -> Option<Unit> {
    let names = [
        ("ex", Unit::InSeconds),
        ("px", Unit::InMillis),
        ("exat", Unit::AtSecond),
        ("pxat", Unit::AtMilli),
    ];
    names.into_iter().find(|(name, _)| args.is(index, name)).map(|(_, unit)| unit)
}

/// When a value that is set shall expire.
#[derive(Clone, Copy)]
pub(super) enum Expire {
    Never,
    /// At the time in the argument of this index.
    At(Unit, usize),
}

impl Expire {
    /// Milliseconds since 1970. Only positive arguments are times.
    pub(super) fn time(self, call: &Call<'_>, command: &str) -> Outcome<Option<u64>> {
        let Expire::At(unit, index) = self else { return Ok(None) };
        let value = call.integer(index)?;
        let time = unit.time(value, call.env.now).filter(|_| value > 0);
        match time {
            Some(time) => Ok(Some(time.max(1) as u64)),
            None => Err(Failure::expire_time(command)),
        }
    }
}

/// Conditions of EXPIRE.
#[derive(Clone, Copy, Default)]
struct Only {
    absent: bool,
    present: bool,
    later: bool,
    sooner: bool,
}

impl Only {
    fn parse(args: Args<'_>) -> Outcome<Self> {
        let mut only = Only::default();
        for (index, arg) in args.iter().enumerate() {
            match () {
                () if args.is(index, "nx") => only.absent = true,
                () if args.is(index, "xx") => only.present = true,
                () if args.is(index, "gt") => only.later = true,
                () if args.is(index, "lt") => only.sooner = true,
                () => {
                    let option = shown(arg, usize::MAX);
                    return Err(Failure::say(format!("ERR Unsupported option {option}")));
                }
            }
        }
        if only.absent && (only.present || only.later || only.sooner) {
            let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
            return Err(Failure::Say(text.into()));
        }
        if only.later && only.sooner {
            let text = "ERR GT and LT options at the same time are not compatible";
            return Err(Failure::Say(text.into()));
        }
        Ok(only)
    }

    /// Whether a key that expires at `old` may be made to expire at `new`.
    fn allows(self, old: Option<u64>, new: i64) -> bool {
        // A key that never expires does so later than any other.
        let old_time = old.map_or(i64::MAX, |old| i64::try_from(old).unwrap_or(i64::MAX));
        !(self.absent && old.is_some()
            || self.present && old.is_none()
            || self.later && (old.is_none() || new <= old_time)
            || self.sooner && old.is_some() && new >= old_time)
    }
}

fn expire(call: &mut Call<'_>) -> Outcome {
    set_expiry(call, Unit::InSeconds, "expire")
}

fn pexpire(call: &mut Call<'_>) -> Outcome {
    set_expiry(call, Unit::InMillis, "pexpire")
}

fn expireat(call: &mut Call<'_>) -> Outcome {
    set_expiry(call, Unit::AtSecond, "expireat")
}

fn pexpireat(call: &mut Call<'_>) -> Outcome {
    set_expiry(call, Unit::AtMilli, "pexpireat")
}

fn set_expiry(call: &mut Call<'_>, unit: Unit, name: &str) -> Outcome {
    let key = call.args.at(1);
    let only = Only::parse(call.args.from(3))?;
    let value = call.integer(2)?;
    let time = unit.time(value, call.env.now).ok_or_else(|| Failure::expire_time(name))?;
    let found = call.claim(key)?;
    let Some(found) = found.filter(|found| only.allows(found.entry.expires(), time)) else {
        call.out.flag(false);
        return Ok(());
    };
    if time <= call.env.cutoff as i64 {
        call.remove(key)?;
    } else {
        call.put(key, Some(found), found.entry.expiring(Some(time as u64)))?;
    }
    call.out.flag(true);
    Ok(())
}

fn persist(call: &mut Call<'_>) -> Outcome {
    let key = call.args.at(1);
    let found = call.claim(key)?.filter(|found| found.entry.expires().is_some());
    if let Some(found) = found {
        call.put(key, Some(found), found.entry.expiring(None))?;
    }
    call.out.flag(found.is_some());
    Ok(())
}

fn ttl(call: &mut Call<'_>) -> Outcome {
    tell(call, |time, now| (time.saturating_sub(now) + 500) / 1000)
}

fn pttl(call: &mut Call<'_>) -> Outcome {
    tell(call, |time, now| time.saturating_sub(now))
}

fn expiretime(call: &mut Call<'_>) -> Outcome {
    tell(call, |time, _| (time + 500) / 1000)
}

fn pexpiretime(call: &mut Call<'_>) -> Outcome {
    tell(call, |time, _| time)
}

/// -2 without a key, -1 if it never expires.
fn tell(call: &mut Call<'_>, of: fn(u64, u64) -> u64) -> Outcome {
    match call.peek(call.args.at(1))?.map(|entry| entry.expires()) {
        None => call.out.integer(-2),
        Some(None) => call.out.integer(-1),
        Some(Some(time)) => call.out.size(of(time, call.env.now)),
    }
    Ok(())
}
