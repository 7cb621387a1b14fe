//! Lists, small and large.

use super::harness::Bench;

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
const INTEGER: &str = "-ERR value is not an integer or out of range";

/// A bench with a list `large` of 0 to 9999.
fn filled() -> Bench {
    let mut bench = Bench::new();
    for first in (0..10_000).step_by(1000) {
        let numbers: String = (first..first + 1000).map(|number| format!(" {number}")).collect();
        assert_eq!(bench.run(&format!("rpush large{numbers}")), format!(":{}", first + 1000));
    }
    bench
}

#[test]
fn elements_come_and_go_at_both_ends() {
    Bench::new().play(&[
        ("rpush l a b", ":2"),
        ("lpush l c d", ":4"),
        ("type l", "+list"),
        ("object encoding l", "$8 listpack"),
        ("lrange l 0 -1", "*4 $1 d $1 c $1 a $1 b"),
        ("llen l", ":4"),
        ("lpop l", "$1 d"),
        ("rpop l 2", "*2 $1 b $1 a"),
        ("lpop l 0", "*0"),
        ("lpop l 9223372036854775807", "*1 $1 c"),
        ("exists l", ":0"),
        ("lpop l", "$-1"),
        ("rpop l 3", "*-1"),
        ("lpop l 0", "*-1"),
        ("llen l", ":0"),
        ("lpushx l a", ":0"),
        ("rpushx l a", ":0"),
        ("exists l", ":0"),
        ("rpush l a", ":1"),
        ("rpushx l b c", ":3"),
        ("lpushx l x", ":4"),
        ("lpop l -1", "-ERR value is out of range, must be positive"),
        ("lpop l x", "-ERR value is out of range, must be positive"),
        ("lpop l 1 2", "-ERR wrong number of arguments for 'lpop' command"),
        ("rpop l 1 2", "-ERR wrong number of arguments for 'rpop' command"),
        ("lrange l -100 100", "*4 $1 x $1 a $1 b $1 c"),
        ("lrange l 1 2", "*2 $1 a $1 b"),
        ("lrange l -2 -2", "*1 $1 b"),
        ("lrange l 3 2", "*0"),
        ("lrange l 4 9", "*0"),
        ("lrange l -9223372036854775808 9223372036854775807", "*4 $1 x $1 a $1 b $1 c"),
        ("lrange l 9223372036854775807 -9223372036854775808", "*0"),
        ("lrange l a 0", INTEGER),
        ("lrange l 0 9223372036854775808", INTEGER),
        ("lrange none 0 -1", "*0"),
    ]);
}

#[test]
fn elements_by_their_places() {
    Bench::new().play(&[
        ("rpush l a b c b d", ":5"),
        ("lindex l 0", "$1 a"),
        ("lindex l -1", "$1 d"),
        ("lindex l 5", "$-1"),
        ("lindex l -6", "$-1"),
        ("lindex l -9223372036854775808", "$-1"),
        ("lindex l x", INTEGER),
        ("lindex none x", "$-1"),
        ("lset l 2 C", "+OK"),
        ("lset l -1 D", "+OK"),
        ("lset l 5 x", "-ERR index out of range"),
        ("lset l -6 x", "-ERR index out of range"),
        ("lset l x x", INTEGER),
        ("lset none 0 x", "-ERR no such key"),
        ("linsert l before b x", ":6"),
        ("linsert l AFTER D y", ":7"),
        ("linsert l after none y", ":-1"),
        ("linsert none after a y", ":0"),
        ("linsert l beside a y", "-ERR syntax error"),
        ("lrange l 0 -1", "*7 $1 a $1 x $1 b $1 C $1 b $1 D $1 y"),
        ("lrem l -1 b", ":1"),
        ("lrem l 5 none", ":0"),
        ("lrem l -9223372036854775808 x", ":1"),
        ("lrem none 0 x", ":0"),
        ("lrem l x x", INTEGER),
        ("lrange l 0 -1", "*5 $1 a $1 b $1 C $1 D $1 y"),
        ("ltrim l 1 -2", "+OK"),
        ("lrange l 0 -1", "*3 $1 b $1 C $1 D"),
        ("ltrim l x 1", INTEGER),
        ("ltrim l 2 1", "+OK"),
        ("exists l", ":0"),
        ("ltrim l 0 1", "+OK"),
        ("rpush l a a", ":2"),
        ("lrem l 0 a", ":2"),
        ("exists l", ":0"),
    ]);
}

#[test]
fn elements_are_found() {
    let zero = "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the second \
                ... or use negative to start from the end of the list";
    Bench::new().play(&[
        ("rpush l a b c 1 2 3 c c", ":8"),
        ("lpos l c", ":2"),
        ("lpos l c rank 2", ":6"),
        ("lpos l c rank -1", ":7"),
        ("lpos l c rank -4", "$-1"),
        ("lpos l c count 2", "*2 :2 :6"),
        ("lpos l c count 0", "*3 :2 :6 :7"),
        ("lpos l c rank -1 count 2", "*2 :7 :6"),
        ("lpos l c rank 2 count 0 maxlen 7", "*1 :6"),
        ("lpos l c maxlen 2", "$-1"),
        ("lpos l c count 0 maxlen 2", "*0"),
        ("lpos l none", "$-1"),
        ("lpos none c", "$-1"),
        ("lpos none c count 0", "*0"),
        ("lpos l c rank 0", zero),
        ("lpos l c rank -9223372036854775807", "$-1"),
        (
            "lpos l c rank -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ),
        ("lpos l c rank x", INTEGER),
        ("lpos l c count -1", "-ERR COUNT can't be negative"),
        ("lpos l c maxlen -1", "-ERR MAXLEN can't be negative"),
        ("lpos l c rank", "-ERR syntax error"),
        ("lpos l c bad 1", "-ERR syntax error"),
    ]);
}

#[test]
fn elements_move() {
    Bench::new().play(&[
        ("rpush a 1 2 3", ":3"),
        ("lmove a b left right", "$1 1"),
        ("lmove a b right left", "$1 3"),
        ("rpoplpush a b", "$1 2"),
        ("exists a", ":0"),
        ("lrange b 0 -1", "*3 $1 2 $1 3 $1 1"),
        ("lmove b b left right", "$1 2"),
        ("lmove b b right right", "$1 2"),
        ("rpoplpush b b", "$1 2"),
        ("lrange b 0 -1", "*3 $1 2 $1 3 $1 1"),
        ("lmove none b left left", "$-1"),
        ("rpoplpush none b", "$-1"),
        ("lmove b c up left", "-ERR syntax error"),
        ("lmove b c left up", "-ERR syntax error"),
        ("set s v", "+OK"),
        ("lmove b s left left", WRONG),
        ("lmove s b left left", WRONG),
        ("lmove none s left left", "$-1"),
        ("lrange b 0 -1", "*3 $1 2 $1 3 $1 1"),
        ("rpush one x", ":1"),
        ("lmove one one left right", "$1 x"),
        ("lmove one one right left", "$1 x"),
        ("lmpop 2 none b left", "*2 $1 b *1 $1 2"),
        ("lmpop 2 none b right count 5", "*2 $1 b *2 $1 1 $1 3"),
        ("exists b", ":0"),
        ("lmpop 1 b left", "*-1"),
        ("lmpop 2 s one left", WRONG),
        ("lmpop 2 one s left", "*2 $3 one *1 $1 x"),
        ("lmpop 0 a left", "-ERR numkeys should be greater than 0"),
        ("lmpop x a left", "-ERR numkeys should be greater than 0"),
        ("lmpop 2 a left", "-ERR syntax error"),
        ("lmpop 9223372036854775807 a left", "-ERR syntax error"),
        ("lmpop 1 a up", "-ERR syntax error"),
        ("lmpop 1 a left count", "-ERR syntax error"),
        ("lmpop 1 a left count 0", "-ERR count should be greater than 0"),
        ("lmpop 1 a left count -1", "-ERR count should be greater than 0"),
        ("lmpop 1 a left count 1 count 2", "-ERR syntax error"),
    ]);
}

#[test]
fn other_types_are_refused() {
    let mut bench = Bench::new();
    bench.play(&[("set k v", "+OK"), ("rpush l a", ":1")]);
    for command in [
        "lpush k a",
        "rpushx k a",
        "lpop k",
        "rpop k 2",
        "llen k",
        "lrange k 0 1",
        "lindex k 0",
        "lset k 0 x",
        "linsert k before a b",
        "lrem k 0 a",
        "ltrim k 0 1",
        "lpos k a",
        "rpoplpush k l",
        "rpoplpush l k",
        "lmpop 1 k left",
    ] {
        assert_eq!(bench.run(command), WRONG, "{command}");
    }
    for command in ["get l", "hget l a", "zadd l 1 a", "incr l", "sadd l a", "append l a"] {
        assert_eq!(bench.run(command), WRONG, "{command}");
    }
    bench.play(&[("lrange l 0 -1", "*1 $1 a"), ("get k", "$1 v")]);
}

#[test]
fn large_lists() {
    let mut bench = filled();
    bench.play(&[
        ("object encoding large", "$9 quicklist"),
        ("llen large", ":10000"),
        ("lindex large 5000", "$4 5000"),
        ("lindex large -2", "$4 9998"),
        ("lrange large 4321 4323", "*3 $4 4321 $4 4322 $4 4323"),
        ("lset large 5000 middle", "+OK"),
        ("linsert large before middle before", ":10001"),
        ("lpos large middle rank -1", ":5001"),
        ("lrem large 1 before", ":1"),
        ("lpop large 3", "*3 $1 0 $1 1 $1 2"),
        ("rpop large 2", "*2 $4 9999 $4 9998"),
        ("ltrim large 1000 -2001", "+OK"),
        ("lindex large 0", "$4 1003"),
        ("lindex large -1", "$4 7997"),
        ("llen large", ":6995"),
        ("rename large other", "+OK"),
        ("ltrim other 0 4", "+OK"),
        ("lrange other 0 -1", "*5 $4 1003 $4 1004 $4 1005 $4 1006 $4 1007"),
        ("object encoding other", "$8 listpack"),
    ]);
    bench.run_cron();
    bench.check();
    assert!(bench.heap.live() < 10, "{} blocks are left", bench.heap.live());
}

#[test]
fn long_elements() {
    let mut bench = Bench::new();
    let (long, longer) = ("x".repeat(1025), "y".repeat(20_000));
    let answered = |text: &str| format!("${} {text}", text.len());
    assert_eq!(bench.run(&format!("rpush l {long} {longer} short")), ":3");
    assert_eq!(bench.run("lindex l 1"), answered(&longer));
    assert_eq!(bench.run(&format!("lpos l {longer}")), ":1");
    assert_eq!(bench.run(&format!("lset l 0 {longer}")), "+OK");
    assert_eq!(bench.run(&format!("lrem l 0 {longer}")), ":2");
    bench.play(&[("lrange l 0 -1", "*1 $5 short"), ("del l", ":1")]);
    for _ in 0..100 {
        bench.run(&format!("lpush l {long}"));
    }
    bench.play(&[("llen l", ":100"), ("del l", ":1")]);
    bench.run_cron();
    bench.check();
    assert!(bench.heap.live() < 10, "{} blocks are left", bench.heap.live());
}

#[test]
fn lists_are_measured_and_freed_in_steps() {
    let mut bench = filled();
    let size =
        |bench: &mut Bench, command: &str| -> u64 { bench.run(command)[1..].parse().unwrap() };
    let (whole, few) = (
        size(&mut bench, "memory usage large"),
        size(&mut bench, "memory usage large samples 900"),
    );
    assert!((50_000..100_000).contains(&whole), "{whole}");
    assert!(few > whole * 2 / 3 && few < whole * 3 / 2, "{few}, not {whole}");
    let before = bench.heap.live();
    bench.play(&[("del large", ":1")]);
    assert!(bench.heap.live() >= before - 1, "it is freed later");
    bench.run_cron();
    assert!(bench.heap.live() < 10, "{} blocks are left", bench.heap.live());
    let mut bench = filled();
    let long = "x".repeat(2000);
    assert_eq!(bench.run(&format!("rpush small {long}")), ":1");
    bench.play(&[("expire large 100", ":1"), ("rpush large a", ":10001"), ("ttl large", ":100")]);
    bench.play(&[("flushall", "+OK")]);
    bench.run_cron();
    bench.check();
    assert!(bench.heap.live() < 10, "{} blocks are left", bench.heap.live());
}
