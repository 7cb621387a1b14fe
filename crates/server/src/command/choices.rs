//! HRANDFIELD and ZRANDMEMBER: fields and members chosen at random.

use super::hashes;
use super::random::Random;
use super::{Call, Command, Failure, Outcome, Run, zsets};
use crate::keyspace::hash::Hash;
use crate::keyspace::table::Table;
use crate::keyspace::zset::SortedSet;
use crate::protocol::Protocol;
use perdura::{Error, Tx};
use std::collections::HashSet;

const ONE: (i32, i32, i32) = (1, 1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::new("hrandfield", -2, ONE, Run::Read(hrandfield), "Fields chosen at random."),
    Command::new("zrandmember", -2, ONE, Run::Read(zrandmember), "Members chosen at random."),
];

/// If more than one in so many is wanted, all are read, and some left out.
const MANY: u64 = 3;
/// Choices in succession that may yield nothing new.
const MISSES: u32 = 128;
/// Bytes of the shortest bulk string.
const BULK: usize = 6;

/// What is chosen from.
enum Pool {
    Fields(Hash),
    Members(SortedSet),
}

/// What comes with a name.
enum Beside {
    Value(Vec<u8>),
    Score(f64),
}

type Chosen = (Vec<u8>, Beside);

impl Pool {
    fn len(&self, tx: &mut dyn Tx) -> Outcome<u64> {
        Ok(match self {
            Pool::Fields(hash) => hash.len(tx)?,
            Pool::Members(set) => set.len(tx)?,
        })
    }

    fn miscounted(&self) -> Failure {
        let at = match self {
            Pool::Fields(Table::Small(_)) => 0,
            Pool::Fields(Table::Large(fields)) => fields.at(),
            Pool::Members(set) => set.entry().at(),
        };
        Failure::Pool(Error::corrupt("the number of a collection's elements", at))
    }

    /// One of `len`.
    fn any(&self, tx: &mut dyn Tx, len: u64, random: &mut Random) -> Outcome<Chosen> {
        let chosen = match self {
            Pool::Fields(Table::Small(image)) => {
                let index = random.below(len.max(1)) as usize;
                let found = image.iter().nth(index);
                found.map(|(name, value)| (name.to_vec(), Beside::Value(value.to_vec())))
            }
            Pool::Fields(Table::Large(fields)) => {
                let found = fields.random(tx, random.next())?;
                found.map(|(name, value)| (name, Beside::Value(value)))
            }
            Pool::Members(set) => {
                let found = set.nth(tx, random.below(len.max(1)))?;
                found.map(|(score, name)| (name, Beside::Score(score)))
            }
        };
        chosen.ok_or_else(|| self.miscounted())
    }

    /// Calls `each` with all of them, until it returns false.
    fn walk(&self, tx: &mut dyn Tx, each: &mut dyn FnMut(&Chosen) -> Outcome<bool>) -> Outcome {
        /// Elements looked at in one step.
        const STEP: u64 = 256;
        let mut cursor = 0;
        loop {
            let next = match self {
                Pool::Fields(hash) => {
                    let (next, pairs) = hash.scan(tx, cursor, STEP)?;
                    for (name, value) in pairs {
                        if !each(&(name, Beside::Value(value)))? {
                            return Ok(());
                        }
                    }
                    next
                }
                Pool::Members(set) => {
                    let (next, pairs) = set.scan(tx, cursor, STEP)?;
                    for (name, score) in pairs {
                        if !each(&(name, Beside::Score(score)))? {
                            return Ok(());
                        }
                    }
                    next
                }
            };
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }
}

fn hrandfield(call: &mut Call<'_>) -> Outcome {
    choose(call, "withvalues", |call| Ok(hashes::look(call)?.map(Pool::Fields)))
}

fn zrandmember(call: &mut Call<'_>) -> Outcome {
    choose(call, "withscores", |call| Ok(zsets::look(call)?.map(Pool::Members)))
}

/// Answers what is chosen; with what is beside it, if the word for that is given.
fn choose(
    call: &mut Call<'_>,
    word: &str,
    look: impl Fn(&mut Call<'_>) -> Outcome<Option<Pool>>,
) -> Outcome {
    let mut random = Random::new();
    if call.args.len() == 2 {
        match look(call)? {
            Some(pool) => {
                let len = pool.len(call.tx)?;
                let (name, _) = pool.any(call.tx, len, &mut random)?;
                call.out.bulk(&name);
            }
            None => call.out.null(),
        }
        return Ok(());
    }
    let count = call.integer(2)?;
    if count == i64::MIN {
        return Err(Failure::OUT_OF_RANGE);
    }
    let both = call.args.len() > 3;
    if call.args.len() > 4 || both && !call.args.is(3, word) {
        return Err(Failure::SYNTAX);
    }
    if both && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err(Failure::Say("ERR value is out of range".into()));
    }
    let (Some(pool), true) = (look(call)?, count != 0) else {
        call.out.array(0);
        return Ok(());
    };
    let len = pool.len(call.tx)?;
    let wanted = if count < 0 { count.unsigned_abs() } else { count.unsigned_abs().min(len) };
    // Refused at once, not after all the work.
    if !call.out.has_room((wanted as usize).saturating_mul(BULK)) {
        return Ok(());
    }
    let pairs = both && call.out.protocol() == Protocol::Resp3;
    call.out.array(wanted as usize * if both && !pairs { 2 } else { 1 });
    let start = call.out.len();
    let form = Form { both, pairs };
    if count < 0 {
        for _ in 0..wanted {
            let chosen = pool.any(call.tx, len, &mut random)?;
            form.answer(call, &chosen);
            if call.out.is_cut() {
                break;
            }
        }
        return Ok(());
    }
    if wanted <= len / MANY && few(call, &pool, (wanted, len), &form, &mut random)? {
        return Ok(());
    }
    call.out.truncate(start);
    let (mut still, mut left) = (wanted, len);
    let tx = &mut *call.tx;
    let out = &mut call.out;
    pool.walk(tx, &mut |chosen| {
        if left == 0 {
            return Err(pool.miscounted());
        }
        if random.below(left) < still {
            still -= 1;
            form.write(out, chosen);
        }
        left -= 1;
        Ok(!out.is_cut())
    })?;
    match left > 0 && !call.out.is_cut() {
        true => Err(pool.miscounted()),
        false => Ok(()),
    }
}

/// Answers a few different ones. False if chance, or damage, has not found them.
fn few(
    call: &mut Call<'_>,
    pool: &Pool,
    (wanted, len): (u64, u64),
    form: &Form,
    random: &mut Random,
) -> Outcome<bool> {
    let (mut seen, mut misses) = (HashSet::new(), 0);
    while (seen.len() as u64) < wanted && !call.out.is_cut() {
        let chosen = pool.any(call.tx, len, random)?;
        if seen.contains(&chosen.0) {
            misses += 1;
            if misses >= MISSES {
                return Ok(false);
            }
            continue;
        }
        misses = 0;
        form.answer(call, &chosen);
        seen.insert(chosen.0);
    }
    Ok(true)
}

/// How elements are answered.
struct Form {
    both: bool,
    pairs: bool,
}

impl Form {
    fn answer(&self, call: &mut Call<'_>, chosen: &Chosen) {
        self.write(&mut call.out, chosen);
    }

    fn write(&self, out: &mut crate::protocol::Reply<'_>, (name, beside): &Chosen) {
        if self.pairs {
            out.array(2);
        }
        out.bulk(name);
        match beside {
            _ if !self.both => {}
            Beside::Value(value) => out.bulk(value),
            Beside::Score(score) => out.double(*score),
        }
    }
}
