//! ZMPOP, and the pops of sorted sets whose clients may wait.

use super::blocking::timeout;
use super::lists::many;
use super::zsets::{claim, take};
use super::{Call, Command, Outcome, Run};
use crate::keyspace::Kind;
use crate::protocol::Args;
use crate::waiting::Wish;

const BUT_LAST: (i32, i32, i32) = (1, -2, 1);
const NONE: (i32, i32, i32) = (0, 0, 0);

pub(super) const TABLE: &[Command] = &[
    Command::new(
        "zmpop",
        -4,
        NONE,
        Run::Write(zmpop),
        "Removes members of the first set there is.",
    ),
    Command::blocking("bzpopmin", -3, BUT_LAST, bzpopmin, "ZPOPMIN of the first set, or waits."),
    Command::blocking("bzpopmax", -3, BUT_LAST, bzpopmax, "ZPOPMAX of the first set, or waits."),
    Command::blocking("bzmpop", -5, NONE, bzmpop, "ZMPOP, or waits."),
];

/// The ends of a sorted set.
const ENDS: [&str; 2] = ["min", "max"];

/// Removes members of the first of the keys that is there, and answers the key with them. Whether there is one.
fn pop_many(call: &mut Call<'_>, keys: Args<'_>, last: bool, count: u64) -> Outcome<bool> {
    for key in keys.iter() {
        if let Some((_, set)) = claim(call, key)? {
            let popped = take(call, key, set, (last, count))?;
            call.out.array(2);
            call.out.bulk(key);
            call.out.array(popped.len());
            for (score, member) in popped {
                call.out.array(2);
                call.out.bulk(&member);
                call.out.double(score);
            }
            return Ok(true);
        }
    }
    Ok(false)
}

fn zmpop(call: &mut Call<'_>) -> Outcome {
    let (keys, last, count) = many(call.args.from(1), ENDS)?;
    if !pop_many(call, keys, last, count)? {
        call.out.null_array();
    }
    Ok(())
}

fn bzmpop(call: &mut Call<'_>) -> Outcome {
    let (keys, last, count) = many(call.args.from(2), ENDS)?;
    let timeout = timeout(call, 1)?;
    match pop_many(call, keys, last, count)? {
        true => Ok(()),
        false => call.wait(Wish::new(Kind::SortedSet, (3, keys.len()), timeout)),
    }
}

fn bzpopmin(call: &mut Call<'_>) -> Outcome {
    pop(call, false)
}

fn bzpopmax(call: &mut Call<'_>) -> Outcome {
    pop(call, true)
}

fn pop(call: &mut Call<'_>, last: bool) -> Outcome {
    let keys = call.args.len() - 2;
    let timeout = timeout(call, keys + 1)?;
    for key in call.args.first(1, keys).iter() {
        if let Some((_, set)) = claim(call, key)? {
            let popped = take(call, key, set, (last, 1))?;
            for (score, member) in popped {
                call.out.array(3);
                call.out.bulk(key);
                call.out.bulk(&member);
                call.out.double(score);
            }
            return Ok(());
        }
    }
    call.wait(Wish::new(Kind::SortedSet, (1, keys), timeout))
}

#[cfg(test)]
mod tests {
    use crate::command::harness::Bench;

    #[test]
    fn a_pop_that_cannot_be_answered_removes_nothing() {
        let mut bench = Bench::new();
        let pairs: String = (0..2000).map(|number| format!(" {number} {number}")).collect();
        bench.run(&format!("zadd ranks{pairs}"));
        bench.limit_reply(5000);
        let most = i64::MAX;
        for command in [
            format!("zmpop 1 ranks min count {most}"),
            format!("zmpop 1 ranks max count {most}"),
            format!("zpopmin ranks {most}"),
            "zpopmax ranks 400".to_owned(),
            format!("bzmpop 0 1 ranks min count {most}"),
        ] {
            let refusal = "-ERR the reply is larger than 5000 bytes, see --max-reply";
            assert_eq!(bench.run(&command), refusal, "{command}");
            bench.play(&[("zcard ranks", ":2000")]);
        }
        let popped = bench.run("zpopmin ranks 200");
        assert!(popped.starts_with("*400 $1 0 $1 0 $1 1 "), "{popped}");
        bench.play(&[("zcard ranks", ":1800")]);
    }
}
