//! Sets, small and large.

use super::harness::Bench;
use crate::keyspace::Database;
use crate::keyspace::set::Set;
use std::collections::BTreeSet;

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

/// A bench with a small set `small` of 1 to 10 and a large one, `large`, of 1 to 3000.
fn filled() -> Bench {
    let mut bench = Bench::new();
    for (key, most) in [("small", 10), ("large", 3000)] {
        let numbers: String = (1..=most).map(|number| format!(" {number}")).collect();
        assert_eq!(bench.run(&format!("sadd {key}{numbers}")), format!(":{most}"));
    }
    bench
}

/// The elements of an array of bulk strings.
fn elements(reply: &str) -> Vec<String> {
    let words: Vec<&str> = reply.split(' ').collect();
    words[1..].iter().skip(1).step_by(2).map(|word| (*word).to_owned()).collect()
}

fn run(bench: &mut Bench, command: &str) -> BTreeSet<String> {
    let all = elements(&bench.run(command));
    let set: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(set.len(), all.len(), "{command}: a member twice");
    set
}

#[test]
fn members_come_and_go() {
    let mut bench = Bench::new();
    bench.play(&[
        ("sadd s a b a", ":2"),
        ("type s", "+set"),
        ("object encoding s", "$8 listpack"),
        ("sadd n 3 -1 2", ":3"),
        ("object encoding n", "$6 intset"),
        ("sadd n 01", ":1"),
        ("object encoding n", "$8 listpack"),
        ("sadd s a", ":0"),
        ("scard s", ":2"),
        ("sismember s a", ":1"),
        ("sismember s c", ":0"),
        ("smismember s a c b", "*3 :1 :0 :1"),
        ("smismember none a c", "*2 :0 :0"),
        ("srem s c", ":0"),
        ("srem s a c", ":1"),
        ("smembers s", "*1 $1 b"),
        ("sscan s 0", "*2 $1 0 *1 $1 b"),
        ("sscan s 0 match a*", "*2 $1 0 *0"),
        ("smove s t b", ":1"),
        ("exists s", ":0"),
        ("smove s t b", ":0"),
        ("smove t t b", ":1"),
        ("smove t t c", ":0"),
        ("smembers t", "*1 $1 b"),
        ("srem t b", ":1"),
        ("exists t", ":0"),
        ("smembers t", "*0"),
        ("scard t", ":0"),
    ]);
}

#[test]
fn other_types_are_refused() {
    let mut bench = Bench::new();
    bench.play(&[("set k v", "+OK"), ("sadd s a", ":1")]);
    for command in [
        "sadd k a",
        "srem k a",
        "sismember k a",
        "smismember k a",
        "smembers k",
        "scard k",
        "spop k",
        "spop k 2",
        "srandmember k",
        "srandmember k -2",
        "smove k s a",
        "smove s k a",
        "sinter none k",
        "sinter s k",
        "sunion s k",
        "sdiff s k",
        "sdiff none k",
        "sinterstore t s k",
        "sintercard 2 s k",
        "sscan k 0",
    ] {
        assert_eq!(bench.run(command), WRONG, "{command}");
    }
    for command in ["get s", "hget s a", "zadd s 1 a", "incr s", "hset s a b", "append s a"] {
        assert_eq!(bench.run(command), WRONG, "{command}");
    }
    bench.play(&[("smembers s", "*1 $1 a"), ("get k", "$1 v"), ("sinterstore k s", ":1")]);
}

#[test]
fn arguments_are_checked() {
    let positive = "-ERR value is out of range, must be positive";
    let numbered = "-ERR numkeys should be greater than 0";
    let many = "-ERR Number of keys can't be greater than number of args";
    let range = "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
    filled().play(&[
        ("spop small -1", positive),
        ("spop small x", positive),
        ("spop small 9223372036854775808", positive),
        ("spop small 1 2", "-ERR syntax error"),
        ("spop none 1 2", "-ERR syntax error"),
        ("spop none", "$-1"),
        ("spop none 3", "*0"),
        ("spop small 0", "*0"),
        ("srandmember none", "$-1"),
        ("srandmember none 3", "*0"),
        ("srandmember small 0", "*0"),
        ("srandmember small x", "-ERR value is not an integer or out of range"),
        ("srandmember small -9223372036854775808", range),
        ("srandmember small 1 2", "-ERR syntax error"),
        ("sintercard 0 a", numbered),
        ("sintercard -1 a", numbered),
        ("sintercard x a", numbered),
        ("sintercard 2 a", many),
        ("sintercard 9223372036854775807 a", many),
        ("sintercard 1 small limit", "-ERR syntax error"),
        ("sintercard 1 small limit -1", "-ERR LIMIT can't be negative"),
        ("sintercard 1 small bad 1", "-ERR syntax error"),
        ("sintercard 1 small limit 0", ":10"),
        ("sintercard 2 small large limit 3", ":3"),
        ("scard small", ":10"),
        ("sscan small x", "-ERR invalid cursor"),
    ]);
}

#[test]
fn chosen_members_are_members() {
    for key in ["small", "large"] {
        let mut bench = filled();
        let all = run(&mut bench, &format!("smembers {key}"));
        for count in [1, 2, 5, 9, 10, 1500, 2999, 3000, 5000] {
            let chosen = run(&mut bench, &format!("srandmember {key} {count}"));
            assert_eq!(chosen.len(), count.min(all.len()));
            assert!(chosen.is_subset(&all));
            let any = elements(&bench.run(&format!("srandmember {key} -{count}")));
            assert!(any.len() == count && any.iter().all(|member| all.contains(member)));
        }
        let one = bench.run(&format!("srandmember {key}"));
        assert!(all.contains(one.split(' ').nth(1).unwrap()));
        let mut left = all;
        for count in [1, 3, 700, 1500, 790, 5000] {
            let expected = count.min(left.len());
            let popped = run(&mut bench, &format!("spop {key} {count}"));
            assert_eq!(popped.len(), expected);
            assert!(popped.is_subset(&left));
            left = left.difference(&popped).cloned().collect();
            assert_eq!(bench.run(&format!("scard {key}")), format!(":{}", left.len()));
            bench.check();
        }
        assert_eq!(bench.run(&format!("exists {key}")), ":0");
        assert_eq!(bench.run(&format!("spop {key}")), "$-1");
        bench.run_cron();
        bench.check();
    }
}

#[test]
fn every_member_is_chosen_sometimes() {
    let mut bench = filled();
    let mut seen = BTreeSet::new();
    for _ in 0..300 {
        seen.insert(bench.run("srandmember small"));
        seen.extend(run(&mut bench, "srandmember small 2"));
    }
    assert_eq!(seen.len(), 20, "ten replies, and ten members");
}

#[test]
fn sets_are_combined() {
    let mut bench = filled();
    let numbers = |range: std::ops::RangeInclusive<u32>| -> BTreeSet<String> {
        range.map(|number| number.to_string()).collect()
    };
    bench.play(&[("sadd more 5 20 3001", ":3")]);
    for (command, expected) in [
        ("sinter small large", numbers(1..=10)),
        ("sinter large small", numbers(1..=10)),
        ("sinter small large more", numbers(5..=5)),
        ("sinter small none", BTreeSet::new()),
        ("sinter large large", numbers(1..=3000)),
        ("sunion large small none more", numbers(1..=3001)),
        ("sunion more small more", &(&numbers(1..=10) | &numbers(20..=20)) | &numbers(3001..=3001)),
        ("sunion none", BTreeSet::new()),
        ("sdiff large small none", numbers(11..=3000)),
        ("sdiff small large", BTreeSet::new()),
        ("sdiff none small", BTreeSet::new()),
        ("sdiff small small", BTreeSet::new()),
        ("sdiff small more", &numbers(1..=10) - &numbers(5..=5)),
    ] {
        assert_eq!(run(&mut bench, command), expected, "{command}");
        let (name, rest) = command.split_once(' ').unwrap();
        for target in ["to", "large"] {
            let mut bench = filled();
            bench.run("sadd more 5 20 3001");
            bench.run("set to text ex 100");
            let stored = bench.run(&format!("{name}store {target} {rest}"));
            assert_eq!(stored, format!(":{}", expected.len()), "{command} into {target}");
            assert_eq!(run(&mut bench, &format!("smembers {target}")), expected);
            if !expected.is_empty() {
                assert_eq!(bench.run(&format!("ttl {target}")), ":-1");
            }
            bench.run_cron();
            bench.check();
        }
    }
}

/// More sets than those of a union whose members are looked up; their members overlap, and keys are given twice.
#[test]
fn many_sets_are_combined() {
    let mut bench = filled();
    let mut keys = String::new();
    for number in 0..40 {
        bench.run(&format!("sadd s{number} {number} {} {} all", number + 1, number * 7 % 40));
        keys += &format!(" s{number}");
    }
    let union: BTreeSet<String> =
        (0..=40).map(|number| number.to_string()).chain(["all".into()]).collect();
    let all: BTreeSet<String> = BTreeSet::from(["all".to_owned()]);
    for keys in [keys.clone(), format!("{keys} s3 s39{keys} none")] {
        assert_eq!(run(&mut bench, &format!("sunion {keys}")), union);
        assert_eq!(bench.run(&format!("sunionstore to {keys}")), format!(":{}", union.len()));
        assert_eq!(run(&mut bench, "smembers to"), union);
    }
    assert_eq!(run(&mut bench, &format!("sinter {keys} s39 s1")), all);
    assert_eq!(run(&mut bench, &format!("sinter s1 large s1 {keys} s39")), BTreeSet::new());
    assert_eq!(run(&mut bench, &format!("sdiff large {keys} s1")).len(), 3000 - 40);
    assert_eq!(run(&mut bench, &format!("sdiff s1 {keys}")), BTreeSet::new());
    assert_eq!(run(&mut bench, "sdiff large small large"), BTreeSet::new());
    bench.check();
}

/// Each time it would cost the copy of a small set, and a walk.
#[test]
fn one_key_many_times_is_one_set() {
    let mut bench = filled();
    for command in ["sunion", "sinter"] {
        let mut args = vec![command.as_bytes().to_vec()];
        args.resize(200_001, b"small".to_vec());
        let reply = bench.perform(&args).unwrap();
        assert!(reply.starts_with(b"*10\r\n"), "{command}");
    }
}

#[test]
fn a_reply_that_is_too_large_is_refused() {
    let mut bench = filled();
    let refusal = "-ERR the reply is larger than 5000 bytes, see --max-reply";
    let most = i64::MAX;
    bench.limit_reply(5000);
    // At once, however many there would be.
    for command in [
        format!("srandmember small -{most}"),
        format!("srandmember large -{most}"),
        format!("srandmember large {most}"),
        "srandmember large -1000".to_owned(),
        "srandmember large 900".to_owned(),
        "srandmember large 1100".to_owned(),
        "spop large 1400".to_owned(),
        "spop large 2999".to_owned(),
        format!("spop large {most}"),
        "sunion large small".to_owned(),
    ] {
        assert_eq!(bench.run(&command), refusal, "{command}");
        bench.play(&[("scard large", ":3000"), ("scard small", ":10")]);
    }
    assert_eq!(elements(&bench.run("srandmember large -400")).len(), 400);
    assert_eq!(run(&mut bench, "srandmember large 400").len(), 400);
    assert_eq!(run(&mut bench, "spop large 400").len(), 400);
    bench.run_cron();
    bench.check();
}

/// A large set that claims to have more members than it has, or fewer.
#[test]
fn a_wrong_number_of_members_is_noticed() {
    let damaged = |claimed: u64| {
        let mut bench = filled();
        let (heap, _, keyspace) = bench.saving();
        let found = Database::new(keyspace, 0).find(heap, b"large").unwrap().unwrap();
        let Set::Large(members) = Set::load(heap, Some(found.entry)).unwrap() else {
            panic!("it is large")
        };
        // The count is the header's fourth word.
        assert_eq!(heap.peek(members.at() + 24), 3000);
        heap.damage(members.at() + 24, claimed);
        bench
    };
    let much = 1_u64 << 40;
    for (claimed, command) in [
        (much, format!("srandmember large {}", much / 4)),
        (much, format!("srandmember large {}", much / 2)),
        (much, format!("spop large {}", much / 4)),
        (much, format!("spop large {}", much - 1)),
        (3001, "srandmember large 3001".into()),
        (3001, "spop large 3000".into()),
        (2999, "srandmember large 2000".into()),
        (2999, "spop large 2000".into()),
    ] {
        let reply = damaged(claimed).run(&command);
        let noticed = "the number of a set's members";
        assert!(reply.starts_with("-ERR") && reply.contains(noticed), "{command}: {reply}");
    }
    // All of them, however many that are.
    assert_eq!(run(&mut damaged(much), &format!("spop large {much}")).len(), 3000);
}

#[test]
fn a_set_keeps_its_expiry_until_it_is_empty() {
    let mut bench = Bench::new();
    bench.play(&[
        ("sadd s a b c", ":3"),
        ("expire s 100", ":1"),
        ("sadd s d", ":1"),
        ("srem s a", ":1"),
        ("ttl s", ":100"),
        ("srem s b c d", ":3"),
        ("sadd s a", ":1"),
        ("ttl s", ":-1"),
        ("expire s 10", ":1"),
    ]);
    bench.now += 11_000;
    bench.play(&[("smembers s", "*0"), ("sadd s b", ":1"), ("smembers s", "*1 $1 b")]);
}

#[test]
fn large_sets_are_measured_and_freed_in_steps() {
    let mut bench = filled();
    let size =
        |bench: &mut Bench, command: &str| -> u64 { bench.run(command)[1..].parse().unwrap() };
    let (whole, few) = (
        size(&mut bench, "memory usage large"),
        size(&mut bench, "memory usage large samples 300"),
    );
    assert!((100_000..300_000).contains(&whole), "{whole}");
    assert!(few > whole * 2 / 3 && few < whole * 3 / 2, "{few}, not {whole}");
    let before = bench.heap.live();
    bench.play(&[("object encoding large", "$9 hashtable"), ("del large", ":1")]);
    assert!(bench.heap.live() > before / 2, "it is freed later");
    bench.run_cron();
    bench.play(&[("del small", ":1")]);
    assert!(bench.heap.live() < 10, "{} blocks are left", bench.heap.live());
    let mut bench = filled();
    bench.play(&[("flushall", "+OK")]);
    bench.run_cron();
    bench.check();
    assert!(bench.heap.live() < 10, "{} blocks are left", bench.heap.live());
}
