//! Bounds of memory, the last places that there are, and odd arguments.

use super::harness::Bench;

const CUT: &str = "-ERR the reply is larger than 100000 bytes, see --max-reply";

#[test]
fn weights_to_sort_by_are_bounded() {
    let mut bench = Bench::new();
    bench.limit_reply(100_000);
    bench.run(&format!("set w_a {}", "x".repeat(1_000)));
    bench.run(&format!("set w_b {}", "y".repeat(1_000)));
    bench.run(&format!("rpush l {}", "a b ".repeat(30)));
    assert!(bench.run("sort_ro l by w_* alpha limit 0 2").starts_with("*2 $1 a $1 a"));
    bench.run(&format!("rpush l {}", "a b ".repeat(30)));
    bench.play(&[
        ("sort_ro l by w_* alpha limit 0 2", CUT),
        ("sort l by w_* alpha store d", CUT),
        ("exists d", ":0"),
        ("exists l", ":1"),
    ]);
}

#[test]
fn lists_that_are_not_sorted_are_read_from_their_end() {
    let mut bench = Bench::new();
    bench.play(&[
        ("rpush l 1 2 3", ":3"),
        ("sort l by nosort", "*3 $1 1 $1 2 $1 3"),
        ("sort l by nosort desc", "*3 $1 3 $1 2 $1 1"),
        ("sort l by nosort desc limit 0 1", "*1 $1 3"),
        ("sort l by nosort desc limit 1 5", "*2 $1 2 $1 1"),
        ("sort l by nosort limit 1 1", "*1 $1 2"),
        ("sort l by nosort limit 3 1", "*0"),
        ("sort l by nosort limit 0 0", "*0"),
        ("sort l by nosort desc store d", ":3"),
        ("lrange d 0 -1", "*3 $1 3 $1 2 $1 1"),
        ("sort l desc limit 0 1", "*1 $1 3"),
        ("zadd z 1 a 2 b 3 c", ":3"),
        ("sort z by nosort desc limit 1 1", "*1 $1 b"),
    ]);
    // No more is read than is wanted: all of it would be too long an answer.
    bench.limit_reply(100_000);
    let long = "x".repeat(60_000);
    for element in [format!("{long}1"), format!("{long}2"), "3".to_owned()] {
        bench.run(&format!("rpush long {element}"));
    }
    bench.play(&[
        ("sort long by nosort", CUT),
        ("sort long by nosort desc limit 0 1", "*1 $1 3"),
        ("sort long by nosort limit 2 1", "*1 $1 3"),
    ]);
}

#[test]
fn no_value_is_looked_up_for_a_reply_that_is_cut() {
    let mut bench = Bench::new();
    bench.limit_reply(100_000);
    bench.run(&format!("set w_1 {}", "x".repeat(60_000)));
    bench.run("rpush l 1");
    let looked_up = |bench: &mut Bench, command: &str| {
        let before = bench.key_lookups();
        assert_eq!(bench.run(command), CUT);
        bench.key_lookups() - before
    };
    let gets = " get w_*".repeat(50);
    // The list, twice, and the value, twice.
    assert_eq!(looked_up(&mut bench, &format!("sort_ro l{gets}")), 4);
}

#[test]
fn a_weight_of_spaces_is_no_number() {
    Bench::new().play(&[
        ("rpush l a b", ":2"),
        ("set w_a ''", "+OK"),
        ("sort l by w_*", "*2 $1 a $1 b"),
        ("set w_a ' 1'", "+OK"),
        ("sort l by w_*", "*2 $1 b $1 a"),
        ("set w_a '  '", "+OK"),
        ("sort l by w_*", "-ERR One or more scores can't be converted into double"),
    ]);
}

/// The bytes of a bulk string.
fn bulk(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.windows(2).position(|two| two == b"\r\n").unwrap() + 2;
    bytes[start..bytes.len() - 2].to_vec()
}

fn ask(bench: &mut Bench, args: &[&[u8]]) -> Vec<u8> {
    let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_vec()).collect();
    bench.perform(&args).unwrap()
}

fn said(bench: &mut Bench, args: &[&[u8]]) -> String {
    String::from_utf8(ask(bench, args)).unwrap().trim_end().to_owned()
}

#[test]
fn a_restored_key_has_no_time_beyond_all() {
    let mut bench = Bench::new();
    bench.play(&[("set k v", "+OK")]);
    let dump = bulk(&ask(&mut bench, &[b"dump", b"k"]));
    let (now, most) = (bench.now, i64::MAX as u64);
    let refused = "-ERR invalid expire time in 'restore' command";
    for (time, absolute, reply) in [
        (most, false, refused),
        (most - now + 1, false, refused),
        (most - now, false, "+OK"),
        (most, true, "+OK"),
    ] {
        let time = time.to_string();
        let mut args = vec![b"restore".as_slice(), b"new", time.as_bytes(), &dump, b"replace"];
        if absolute {
            args.push(b"absttl");
        }
        assert_eq!(said(&mut bench, &args), reply, "{time}");
        if reply == "+OK" {
            assert_eq!(said(&mut bench, &[b"pexpiretime", b"new"]), format!(":{most}"));
        }
    }
}

#[test]
fn a_list_s_node_is_plain_or_packed() {
    let mut bench = Bench::new();
    for (container, reply) in [
        (0_u8, "-ERR Bad data format"),
        (1, "+OK"),
        (2, "-ERR Bad data format"),
        (3, "-ERR Bad data format"),
    ] {
        let mut dump = vec![crate::rdb::form::LIST_OF_LISTPACKS, 1, container];
        crate::rdb::push_string(&mut dump, b"text");
        crate::rdb::finish(&mut dump);
        let args = [b"restore".as_slice(), b"k", b"0", &dump, b"replace"];
        assert_eq!(said(&mut bench, &args), reply, "{container}");
    }
    // A listpack of `a`.
    for (container, reply) in [(2_u8, "+OK"), (3, "-ERR Bad data format")] {
        let mut dump = vec![crate::rdb::form::LIST_OF_LISTPACKS, 1, container];
        crate::rdb::push_string(&mut dump, b"\x0a\0\0\0\x01\0\x81a\x02\xFF");
        crate::rdb::finish(&mut dump);
        let args = [b"restore".as_slice(), b"k", b"0", &dump, b"replace"];
        assert_eq!(said(&mut bench, &args), reply, "{container}");
    }
    bench.play(&[("lrange k 0 -1", "*1 $1 a")]);
}

#[test]
fn no_field_ends_beyond_the_longest_string() {
    let offset = "-ERR bit offset is not an integer or out of range";
    let mut bench = Bench::new();
    bench.play(&[
        ("bitfield k set i64 4294967295 1", offset),
        ("bitfield k set u8 4294967289 1", offset),
        ("bitfield k get u8 0 incrby u2 4294967295 0", offset),
        ("bitfield k get i64 4294967295", "*1 :0"),
        ("exists k", ":0"),
    ]);
}

/// As in Redis 7.2: without the key they are not looked at.
#[test]
fn wrong_arguments_of_counts_are_told_with_a_key() {
    let (syntax, integer) = ("-ERR syntax error", "-ERR value is not an integer or out of range");
    Bench::new().play(&[
        ("bitcount k", ":0"),
        ("bitcount k 0 -1 bit", ":0"),
        ("bitcount k a b", ":0"),
        ("bitcount k 0 1 bit x", ":0"),
        ("bitpos k 0", ":0"),
        ("bitpos k 1 0 -1 bit", ":-1"),
        ("bitpos k 1 a", ":-1"),
        ("bitpos k x", integer),
        ("set k abc", "+OK"),
        ("bitcount k 0", syntax),
        ("bitcount k a b", integer),
        ("bitcount k 0 1 byt", syntax),
        ("bitcount k 0 1 bit x", syntax),
        ("bitpos k 1 a", integer),
        ("bitpos k 1 0 a", integer),
        ("bitpos k 1 0 1 byt", syntax),
        ("bitpos k 1 0 1 bit x", syntax),
        ("bitcount k -1 -2", ":0"),
        ("bitcount k -1 -2 byt", ":0"),
        ("bitcount k 1 1", ":3"),
        ("bitpos k 1 1", ":9"),
    ]);
}

#[test]
fn ranks_have_a_limit_that_is_none() {
    let refused =
        "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
    Bench::new().play(&[
        ("zadd z 1 a 2 b 3 c", ":3"),
        ("zrange z 0 -1 limit 0 -1", "*3 $1 a $1 b $1 c"),
        ("zrange z 0 1 rev limit 1 -1", "*2 $1 c $1 b"),
        ("zrangestore d z 0 0 limit 0 -1", ":1"),
        ("zrange z 0 -1 limit 0 1", refused),
        ("zrange z 0 -1 limit 0 -2", refused),
    ]);
}

#[test]
fn a_full_pool_has_room_for_a_sketch_s_count() {
    let mut bench = Bench::new();
    for first in (0..5_000).step_by(100) {
        let elements: Vec<String> = (first..first + 100).map(|n| format!("e{n}")).collect();
        bench.run(&format!("pfadd sketch {}", elements.join(" ")));
    }
    bench.play(&[("pfdebug encoding sketch", "+dense"), ("expire sketch 100", ":1")]);
    bench.heap.limit = 1;
    let value = "x".repeat(12_000);
    let refused =
        (0..100).find(|n| bench.run(&format!("set other:{n} {value}")).starts_with("-OOM"));
    assert!(refused.is_some());
    let count = bench.run("pfcount sketch");
    let estimate: i64 = count[1..].parse().unwrap();
    assert!((4_800..5_200).contains(&estimate), "{count}");
    // Where the count is kept, and that it is right now.
    let bytes = bulk(&ask(&mut bench, &[b"getrange", b"sketch", b"8", b"15"]));
    assert_eq!(bytes, estimate.to_le_bytes());
    bench.play(&[("pfcount sketch", &count), ("ttl sketch", ":100")]);
}

#[test]
fn an_answer_to_geoadd_that_is_cut_is_told() {
    let mut bench = Bench::new();
    bench.limit_reply(3);
    let cut = "-ERR the reply is larger than 3 bytes, see --max-reply";
    assert_eq!(bench.run("geoadd g 1 2 here"), cut);
    bench.limit_reply(100);
    bench.play(&[("zscore g here", "$-1")]);
}

#[test]
fn the_nearest_of_many_places_are_found() {
    let mut bench = Bench::new();
    // In the order of their scores they are in no order of distance. Far ones have long names.
    for first in (0..30_000).step_by(500) {
        let places: Vec<String> = (first..first + 500)
            .map(|n| {
                let n = n * 7_919 % 30_000;
                format!("{} 10 {n:0width$}", f64::from(n) / 1_000.0, width = 5 + n as usize / 500)
            })
            .collect();
        bench.run(&format!("geoadd g {}", places.join(" ")));
    }
    bench.limit_reply(1_000_000);
    let near =
        |count: usize| format!("geosearch g fromlonlat 0 10 byradius 10000 km count {count}");
    for count in [1, 5_000, 15_000] {
        let reply = bench.run(&near(count));
        let found: Vec<u32> =
            reply.split(' ').skip(2).step_by(2).map(|name| name.parse().unwrap()).collect();
        assert_eq!(found, (0..count as u32).collect::<Vec<_>>());
    }
    let far = bench.run(&format!("{} desc", near(3)));
    let names: Vec<&str> = far.split(' ').skip(2).step_by(2).collect();
    let numbers: Vec<u32> = names.iter().map(|name| name.parse().unwrap()).collect();
    assert_eq!(numbers, [29_999, 29_998, 29_997]);
    let all = "-ERR the reply is larger than 1000000 bytes, see --max-reply";
    bench.play(&[(&near(30_000), all)]);
}
