use super::harness::Bench;
use perdura::Tx;
use proptest::prelude::*;

#[test]
fn strings() {
    Bench::new().play(&[
        ("set k v", "+OK"),
        ("get k", "$1 v"),
        ("set k other xx get", "$1 v"),
        ("set k third nx", "$-1"),
        ("get k", "$5 other"),
        ("set new v xx", "$-1"),
        ("set k v ex 0", "-ERR invalid expire time in 'set' command"),
        ("set k v ex 1 px 1", "-ERR syntax error"),
        ("append k 12345678901234567", ":22"),
        ("getrange k -3 -1", "$3 567"),
        ("setrange k 0 OTHER", ":22"),
        ("getdel k", "$22 OTHER12345678901234567"),
        ("mset a 1 b 2", "+OK"),
        ("msetnx b 3 c 4", ":0"),
        ("mget a b c", "*3 $1 1 $1 2 $-1"),
        ("incrby a 41", ":42"),
        ("incrbyfloat a 0.5", "$4 42.5"),
        ("incr a", "-ERR value is not an integer or out of range"),
        ("decrby b 9223372036854775807", ":-9223372036854775805"),
        (
            "setrange x 536870911 yy",
            "-ERR string exceeds maximum allowed size (proto-max-bulk-len)",
        ),
        ("strlen nothing", ":0"),
    ]);
}

#[test]
fn a_lock_is_released_by_its_owner_alone() {
    let mut bench = Bench::new();
    let long = "t".repeat(3000);
    bench.play(&[
        ("set lock mine nx px 1000", "+OK"),
        ("set lock other nx px 1000", "$-1"),
        ("delifeq lock other", ":0"),
        ("delex lock ifeq othe", ":0"),
        ("delex lock ifne mine", ":0"),
        ("set lock mine ifeq other px 9000", "$-1"),
        ("pttl lock", ":1000"),
        ("set lock mine ifeq mine px 9000", "+OK"),
        ("pttl lock", ":9000"),
        ("set lock new get ifeq mine keepttl", "$4 mine"),
        ("pttl lock", ":9000"),
        ("delifeq lock new", ":1"),
        ("delifeq lock new", ":0"),
        ("set lock new ifeq new", "$-1"),
        ("exists lock", ":0"),
        ("set lock v ifeq a nx", "-ERR syntax error"),
        ("set lock v xx ifeq a", "-ERR syntax error"),
        ("set lock v ifeq", "-ERR syntax error"),
        ("delex lock ifeq", "-ERR syntax error"),
        ("delex lock iflt 1", "-ERR syntax error"),
        ("hset hash f v", ":1"),
        ("delifeq hash v", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("set hash v ifeq v", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("delex hash", ":1"),
        ("delex hash ifne v", ":0"),
        (&format!("set lock {long}"), "+OK"),
        ("delex lock ifne t", ":1"),
        (&format!("set lock {long}"), "+OK"),
        (&format!("delifeq lock {long}"), ":1"),
        ("set lock mine px 1000", "+OK"),
    ]);
    bench.now += 1000;
    bench.play(&[("delifeq lock mine", ":0"), ("set lock other nx", "+OK")]);
}

#[test]
fn expiry() {
    let mut bench = Bench::new();
    bench.play(&[
        ("set k v ex 10", "+OK"),
        ("ttl k", ":10"),
        ("expire k 20 lt", ":0"),
        ("expire k 20 gt", ":1"),
        ("expire k 5 nx", ":0"),
        ("pttl k", ":20000"),
        ("expiretime k", ":1000000020"),
        ("set k v keepttl", "+OK"),
        ("pexpiretime k", ":1000000020000"),
        ("set stays 1", "+OK"),
        ("ttl stays", ":-1"),
        ("ttl nothing", ":-2"),
        ("getex stays ex 100", "$1 1"),
        ("getex stays persist", "$1 1"),
        ("ttl stays", ":-1"),
        ("hset h f v", ":1"),
        ("expire h 1", ":1"),
    ]);
    bench.now += 20_000;
    bench.play(&[
        ("get k", "$-1"),
        ("exists k h stays", ":1"),
        ("dbsize", ":3"),
        // A new value of another kind takes the place of an expired one.
        ("set h v", "+OK"),
        ("ttl h", ":-1"),
        ("keys s*", "*1 $5 stays"),
    ]);
    bench.run_cron();
    bench.play(&[("dbsize", ":2"), ("expire stays -1", ":1"), ("dbsize", ":1")]);
}

#[test]
fn keys() {
    Bench::new().play(&[
        ("set a 1", "+OK"),
        ("hset h f v", ":1"),
        ("zadd z 1 m", ":1"),
        ("type a", "+string"),
        ("type h", "+hash"),
        ("type z", "+zset"),
        ("type nothing", "+none"),
        ("get h", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("rename nothing b", "-ERR no such key"),
        ("rename h a", "+OK"),
        ("type a", "+hash"),
        ("renamenx a z", ":0"),
        ("renamenx a b", ":1"),
        ("exists a b z z", ":3"),
        ("scan 0 type zset", "*2 $1 0 *1 $1 z"),
        ("scan 0 match b* count 100", "*2 $1 0 *1 $1 b"),
        ("scan x", "-ERR invalid cursor"),
        ("move b 3", ":1"),
        ("move z 0", "-ERR source and destination objects are the same"),
        ("unlink z b", ":1"),
        ("dbsize", ":0"),
        ("randomkey", "$-1"),
        ("flushall", "+OK"),
    ]);
}

#[test]
fn hashes() {
    let mut bench = Bench::new();
    bench.play(&[
        ("hset h a 1 b 2", ":2"),
        ("hset h a 3 c", "-ERR wrong number of arguments for 'hset' command"),
        ("hmset h a 3", "+OK"),
        ("hsetnx h a 4", ":0"),
        ("hmget h a b c", "*3 $1 3 $1 2 $-1"),
        ("hgetall h", "*4 $1 a $1 3 $1 b $1 2"),
        ("hincrby h a 4", ":7"),
        ("hincrbyfloat h a 0.1", "$3 7.1"),
        ("hincrby h a 1", "-ERR hash value is not an integer"),
        ("hstrlen h a", ":3"),
        ("hdel h a b nothing", ":2"),
        ("exists h", ":0"),
        ("hgetall h", "*0"),
    ]);
    for index in 0..300 {
        assert_eq!(bench.run(&format!("hset h field:{index} {index}")), ":1");
    }
    bench.play(&[("hlen h", ":300"), ("hget h field:299", "$3 299"), ("hdel h field:0", ":1")]);
    for index in 1..300 {
        assert_eq!(bench.run(&format!("hdel h field:{index}")), ":1");
    }
    bench.play(&[("exists h", ":0")]);
}

#[test]
fn sorted_sets() {
    Bench::new().play(&[
        ("zadd z 1 a 2 b 3 c", ":3"),
        ("zadd z xx ch 5 a 1 new", ":1"),
        ("zadd z nx gt 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible"),
        ("zadd z 1e400 a", "-ERR value is not a valid float"),
        ("zadd z 0x20 hex", ":1"),
        ("zscore z hex", "$2 32"),
        ("zrangebyscore z 0x1f (1e400", "*1 $3 hex"),
        ("zcount z 1 nan", "-ERR min or max is not a float"),
        ("zincrby z -31.9 hex", "$19 0.10000000000000142"),
        ("zscan z 0 match h*", "*2 $1 0 *2 $3 hex $19 0.10000000000000142"),
        ("zrem z hex", ":1"),
        ("zadd z incr 1.5 b", "$3 3.5"),
        ("zrange z 0 -1 withscores", "*6 $1 c $1 3 $1 b $3 3.5 $1 a $1 5"),
        ("zrank z a", ":2"),
        ("zrevrank z a", ":0"),
        ("zrangebyscore z (3 +inf limit 1 5", "*1 $1 a"),
        ("zrevrangebyscore z +inf -inf limit 0 2", "*2 $1 a $1 b"),
        ("zrange z 4 (3 byscore rev", "*1 $1 b"),
        ("zcount z -inf (5", ":2"),
        ("zincrby z inf a", "$3 inf"),
        ("zincrby z -inf a", "-ERR resulting score is not a number (NaN)"),
        ("zscore z a", "$3 inf"),
        ("zrangebyscore z +inf +inf", "*1 $1 a"),
        ("zadd z -0.0 zero", ":1"),
        ("zrangebyscore z 0 0 withscores", "*2 $4 zero $1 0"),
        ("zpopmax z 2", "*4 $1 a $3 inf $1 b $3 3.5"),
        ("zrem z c zero", ":2"),
        ("exists z", ":0"),
        ("zadd lex 0 a 0 b 0 c", ":3"),
        ("zrangebylex lex [a (c", "*2 $1 a $1 b"),
        ("zremrangebylex lex - +", ":3"),
    ]);
}

#[test]
fn names_are_looked_for_in_sets_of_differing_scores() {
    let mut bench = Bench::new();
    bench.play(&[
        ("zadd z 1 a 2 c 3 b 4 d", ":4"),
        ("zrangebylex z [b +", "*3 $1 c $1 b $1 d"),
        ("zrange z [c [d bylex", "*3 $1 c $1 b $1 d"),
        ("zrangebylex z - [b", "*1 $1 a"),
        ("zrangebylex z - [b limit 2 5", "*1 $1 b"),
        ("zrevrangebylex z + [b", "*3 $1 d $1 b $1 c"),
        ("zlexcount z [b +", ":3"),
        ("zlexcount z + -", ":0"),
        ("zremrangebylex z [c +", ":3"),
        ("zrange z 0 -1", "*1 $1 a"),
    ]);
    // Members in the order of their names, in a set too large to be gone through.
    for index in 0..300 {
        bench.run(&format!("zadd large {index} member:{index:03}"));
    }
    bench.play(&[
        ("zrangebylex large [member:007 (member:009", "*2 $10 member:007 $10 member:008"),
        ("zrevrangebylex large (member:009 - limit 1 1", "*1 $10 member:007"),
        ("zlexcount large (member:000 +", ":299"),
        ("zlexcount large [member:2 [member:1", ":0"),
        ("zremrangebylex large [member:100 +", ":200"),
        ("zcard large", ":100"),
    ]);
}

#[test]
fn scans_look_at_the_key_before_the_options() {
    Bench::new().play(&[
        ("set s v", "+OK"),
        ("hset h f v", ":1"),
        ("zadd z 1e17 a 1e19 b", ":2"),
        (
            "hscan s 0 nonsense",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("zscan h 0 count", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("hscan nothing 0 nonsense", "*2 $1 0 *0"),
        ("zscan nothing 0 count 0", "*2 $1 0 *0"),
        ("hscan nothing x", "-ERR invalid cursor"),
        ("hscan h 0 nonsense", "-ERR syntax error"),
        ("zscan z 0 match b", "*2 $1 0 *2 $1 b $5 1e+19"),
        ("zscan z 0 match a", "*2 $1 0 *2 $1 a $18 100000000000000000"),
        ("zscore z a", "$5 1e+17"),
    ]);
}

#[test]
fn only_one_star_takes_the_empty_key() {
    Bench::new().play(&[
        ("set '' v", "+OK"),
        ("keys *", "*1 $0"),
        ("keys **", "*0"),
        ("scan 0 match **", "*2 $1 0 *0"),
        ("keys ''", "*1 $0"),
    ]);
}

#[test]
fn how_values_are_kept() {
    let mut bench = Bench::new();
    bench.play(&[
        ("set n 12345678901234567", "+OK"),
        ("set s short", "+OK"),
        ("set l 'longer than what an entry has room for'", "+OK"),
        ("hset h f v", ":1"),
        ("zadd z 1 m", ":1"),
        ("object encoding n", "$3 int"),
        ("object encoding s", "$6 embstr"),
        ("object encoding l", "$3 raw"),
        ("object encoding h", "$8 listpack"),
        ("object encoding z", "$8 skiplist"),
        ("object encoding nothing", "$-1"),
        ("object refcount s", ":1"),
        ("object idletime nothing", "$-1"),
        ("object idletime s", "-ERR idle time is tracked under an LRU maxmemory policy only."),
        ("object encoding", "-ERR wrong number of arguments for 'object|encoding' command"),
        ("object nonsense s", "-ERR unknown subcommand 'nonsense'. Try OBJECT HELP."),
    ]);
    for index in 0..300 {
        bench.run(&format!("hset h field:{index} {index}"));
    }
    bench.play(&[("object encoding h", "$9 hashtable")]);
}

#[test]
fn memory_usage_is_what_is_freed_with_the_key() {
    let mut bench = Bench::new();
    // The table of keys, with its allocation for the first of them, is there already.
    bench.play(&[("set other v", "+OK"), ("memory usage nothing", "$-1")]);
    let bytes = |bench: &mut Bench| -> u64 {
        bench.heap.live_blocks().into_iter().map(|at| bench.heap.usable(at).unwrap()).sum()
    };
    let before = bytes(&mut bench);
    let long = "long".repeat(100);
    let make: [(&str, Vec<String>); 6] = [
        ("k", vec!["set k short".into()]),
        ("k", vec![format!("set k {long}")]),
        ("k", (0..20).map(|n| format!("hset k field:{n} value")).collect()),
        ("k", (0..700).map(|n| format!("hset k field:{n} {long}")).collect()),
        ("k", (0..700).map(|n| format!("zadd k {n} member:{n}:{long}")).collect()),
        (long.as_str(), vec![format!("set {long} {long}")]),
    ];
    for (key, commands) in make {
        for command in &commands {
            bench.run(command);
        }
        let more = bytes(&mut bench) - before;
        // And the key's place in the table.
        assert_eq!(bench.run(&format!("memory usage {key}")), format!(":{}", 48 + more));
        assert_eq!(bench.run(&format!("memory usage {key} samples 0")), format!(":{}", 48 + more));
        bench.run(&format!("del {key}"));
        bench.run_cron();
        assert_eq!(bytes(&mut bench), before, "{}", commands[0]);
    }
    bench.play(&[
        ("memory usage other samples -1", "-ERR syntax error"),
        ("memory usage other nonsense", "-ERR syntax error"),
        ("memory usage", "-ERR wrong number of arguments for 'memory|usage' command"),
        ("expire other 100", ":1"),
        ("memory usage other", ":80"),
    ]);
}

/// With fewer samples than elements the answer is an estimate; with as many, all is counted.
#[test]
fn memory_usage_of_samples_is_near() {
    let mut bench = Bench::new();
    let long = "x".repeat(100);
    for index in 0..3000 {
        bench.run(&format!("hset short field:{index} {index}"));
        bench.run(&format!("hset long field:{index} {long}"));
        bench.run(&format!("zadd set {index} member:{index}"));
        bench.run(&format!("zadd names {index} member:{index}:{long}"));
    }
    for key in ["short", "long", "set", "names"] {
        let all = bench.run(&format!("memory usage {key}"));
        assert_eq!(bench.run(&format!("memory usage {key} samples 3000")), all);
        let number = |text: &str| text[1..].parse::<f64>().unwrap();
        let few = bench.run(&format!("memory usage {key} samples 20"));
        let ratio = number(&few) / number(&all);
        assert!((0.7..1.4).contains(&ratio), "{key}: {few} of {all}");
    }
}

#[test]
fn help_is_there() {
    let mut bench = Bench::new();
    for command in ["object help", "memory help"] {
        let help = bench.run(command);
        assert!(help.contains("Subcommands are:") && help.ends_with("Print this help."), "{help}");
    }
    bench.play(&[
        ("set k v", "+OK"),
        ("object refcount k", ":1"),
        ("object idletime k", "-ERR idle time is tracked under an LRU maxmemory policy only."),
        (
            "object freq k",
            "-ERR An LFU maxmemory policy is not selected, access frequency not tracked.",
        ),
        ("object freq none", "$-1"),
        ("object nonsense k", "-ERR unknown subcommand 'nonsense'. Try OBJECT HELP."),
        ("object freq", "-ERR wrong number of arguments for 'object|freq' command"),
    ]);
}

#[test]
fn huge_values_are_freed_later() {
    let mut bench = Bench::new();
    for index in 0..500 {
        bench.run(&format!("hset h field:{index} {index}"));
        bench.run(&format!("zadd z {index} member:{index}"));
        bench.run(&format!("set key:{index} 'a value of more than sixteen bytes' ex 100"));
    }
    bench.play(&[("del h z", ":2"), ("flushall", "+OK"), ("set k v", "+OK")]);
    assert!(bench.heap.live() > 500);
    bench.run_cron();
    bench.play(&[("dbsize", ":1")]);
    assert!(bench.heap.live() < 20);
}

/// Any command that writes, on few keys, with values of all sizes.
fn command() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec!["a", "b", "c", "d"]);
    let item = (0u8..60).prop_map(|item| format!("item:{item}"));
    let value = (any::<u8>(), prop_oneof![0usize..20, 100usize..300, 2000usize..5000])
        .prop_map(|(byte, len)| format!("{byte}").repeat(len / 3 + 1));
    let template = prop::sample::select(vec![
        "set K V",
        "set K V",
        "set K V px 50",
        "append K V",
        "setrange K 30 V",
        "getset K V",
        "incr K",
        "getdel K",
        "del K",
        "rename K J",
        "expire K 1",
        "persist K",
        "hset K I V I V I V",
        "hset K I 1",
        "hset K I V",
        "hdel K I I I",
        "hincrby K I 1",
        "zadd K 1 I 2 I 3 I",
        "zadd K 4 I",
        "zincrby K 1.5 I",
        "zrem K I I",
        "zremrangebyrank K 0 3",
        "zpopmin K 2",
        "flushdb",
        "msetnx K V J V",
        "mset K V J V",
    ]);
    let parts = (key.clone(), key, prop::collection::vec(item, 3), value, template);
    parts.prop_map(|(key, other, items, value, template)| {
        let mut items = items.into_iter().cycle();
        let word = |word: &str| match word {
            "K" => key.to_owned(),
            "J" => other.to_owned(),
            "I" => items.next().unwrap_or_default(),
            "V" => value.clone(),
            word => word.to_owned(),
        };
        template.split(' ').map(word).collect::<Vec<_>>().join(" ")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Neither a command that succeeds nor one that fails for lack of room loses a block.
    #[test]
    fn no_command_leaks(
        commands in prop::collection::vec((command(), 0u64..100), 1..120),
        limit in prop_oneof![Just(0u64), 20_000u64..100_000],
    ) {
        let mut bench = Bench::new();
        bench.heap.limit = limit;
        for (command, pause) in commands {
            let before = bench.heap.image();
            let reply = bench.run(&command);
            if reply.starts_with("-OOM") {
                prop_assert!(limit > 0);
                prop_assert_eq!(before, bench.heap.image(), "{} left a trace", command);
            }
            bench.now += pause;
            bench.check();
        }
        bench.run_cron();
        bench.check();
    }
}
