//! Bits, HyperLogLogs, places, sorting, Redis's form of values, and sorted sets of sorted sets: on a heap whose every
//! block is accounted for. Redis's answers are compared in `tests/all/differential.rs`.

use super::harness::Bench;

fn bytes(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

#[test]
fn bits() {
    Bench::new().play(&[
        ("setbit b 7 1", ":0"),
        ("setbit b 7 1", ":1"),
        ("get b", "$1 \u{1}"),
        ("getbit b 7", ":1"),
        ("getbit b 100000", ":0"),
        ("setbit b 4294967296 1", "-ERR bit offset is not an integer or out of range"),
        ("setbit b 1 2", "-ERR bit is not an integer or out of range"),
        ("setbit long 1000000 1", ":0"),
        ("strlen long", ":125001"),
        ("bitcount long", ":1"),
        ("bitpos long 1", ":1000000"),
        ("bitpos long 0", ":0"),
        ("bitop not inverse long", ":125001"),
        ("bitcount inverse", ":1000007"),
        ("bitpos inverse 0", ":1000000"),
        ("bitop xor sum long inverse none", ":125001"),
        ("bitpos sum 0", ":1000008"),
        ("bitpos sum 0 0 -1", ":-1"),
        ("bitop and none2 none none", ":0"),
        ("exists none2", ":0"),
        ("bitcount sum 0 0 bit", ":1"),
        ("bitcount sum 0", "-ERR syntax error"),
        ("bitfield f incrby u8 0 200 incrby u8 0 100 get u8 0", "*3 :200 :44 :44"),
        ("bitfield f overflow sat incrby u8 0 300", "*1 :255"),
        ("bitfield f overflow fail incrby u8 0 1 set i5 #3 -9", "*2 $-1 :0"),
        ("bitfield f set u8 0 -1 get i8 0", "*2 :255 :-1"),
        ("bitfield f get i64 3 set i64 65 -5 get i64 65", "*3 :-573223790071250944 :0 :-5"),
        ("bitfield_ro f get u63 1", "*1 :9151719063095869440"),
        ("bitfield_ro f set u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand"),
        ("hset h f v", ":1"),
        ("setbit h 1 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

#[test]
fn sketches() {
    let mut bench = Bench::new();
    let many: Vec<String> = (0..3000).map(|number| number.to_string()).collect();
    bench.play(&[
        ("pfadd p", ":1"),
        ("pfadd p", ":0"),
        ("pfadd p a b c d e f g", ":1"),
        ("pfcount p", ":7"),
        ("pfadd p a b c", ":0"),
        ("pfdebug encoding p", "+sparse"),
        (&format!("pfadd q {}", many.join(" ")), ":1"),
        ("pfdebug encoding q", "+dense"),
        ("strlen q", ":12304"),
        ("pfmerge r p q none", "+OK"),
        ("set s HYLL", "+OK"),
        ("pfadd s a", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("expire p 100", ":1"),
        ("pfadd p h", ":1"),
        ("ttl p", ":100"),
    ]);
    let count = |reply: String| reply.trim_start_matches(':').parse::<i64>().unwrap();
    for command in ["pfcount q", "pfcount r", "pfcount p q none"] {
        let found = count(bench.run(command));
        assert!((2900..3100).contains(&found), "{command}: {found}");
    }
    bench.check();
}

#[test]
fn places() {
    Bench::new().play(&[
        ("geoadd g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2"),
        ("geoadd g nx ch 13.5 38 Palermo 10 43 Pisa", ":1"),
        ("geoadd g 200 0 x", "-ERR invalid longitude,latitude pair 200.000000,0.000000"),
        ("geoadd g nx xx 1 1 x", "-ERR syntax error"),
        ("geodist g Palermo Catania", "$11 166274.1516"),
        ("geodist g Palermo Catania km", "$8 166.2742"),
        ("geodist g Palermo none", "$-1"),
        ("geohash g Palermo none", "*2 $11 sqc8b49rny0 $-1"),
        (
            "geosearch g fromlonlat 15 37 byradius 200 km asc withdist",
            "*2 *2 $7 Catania $7 56.4413 *2 $7 Palermo $8 190.4424",
        ),
        ("geosearch g frommember Catania bybox 400 400 km desc count 1", "*1 $7 Palermo"),
        ("geosearchstore near g frommember Catania byradius 200 km storedist", ":2"),
        ("zscore near Catania", "$1 0"),
        ("geosearchstore near none frommember x byradius 1 m", ":0"),
        ("exists near", ":0"),
        ("georadius g 15 37 200 km count 1 store near", ":1"),
        ("zrange near 0 -1", "*1 $7 Catania"),
        (
            "geosearch g fromlonlat 15 37 byradius 200 km any",
            "-ERR the ANY argument requires COUNT argument",
        ),
    ]);
}

#[test]
fn sorting() {
    Bench::new().play(&[
        ("rpush l 3 1 10 2", ":4"),
        ("sort l", "*4 $1 1 $1 2 $1 3 $2 10"),
        ("sort l alpha desc limit 0 2", "*2 $1 3 $1 2"),
        ("mset w_1 9 w_2 8 w_3 7 w_10 6", "+OK"),
        ("sort l by w_* get # get w_*", "*8 $2 10 $1 6 $1 3 $1 7 $1 2 $1 8 $1 1 $1 9"),
        ("hset h_1 f x", ":1"),
        ("sort_ro l by nosort get h_*->f limit 1 1", "*1 $1 x"),
        ("sort l store l", ":4"),
        ("lrange l 0 -1", "*4 $1 1 $1 2 $1 3 $2 10"),
        ("sort none store l", ":0"),
        ("exists l", ":0"),
        ("rpush l a", ":1"),
        ("sort l", "-ERR One or more scores can't be converted into double"),
        ("sort_ro l store x", "-ERR syntax error"),
        ("sort w_1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("zadd z 2 a 1 b 3 c", ":3"),
        ("sort z by nosort desc limit 0 2", "*2 $1 c $1 a"),
    ]);
}

#[test]
fn subsequences() {
    Bench::new().play(&[
        ("mset a ohmytext b mynewtext", "+OK"),
        ("lcs a b", "$6 mytext"),
        ("lcs a b len", ":6"),
        ("lcs a b idx minmatchlen 4", "*4 $7 matches *1 *2 *2 :4 :7 *2 :5 :8 $3 len :6"),
        ("lcs a none", "$0"),
        ("lcs a b len idx", "-ERR If you want both the length and indexes, please just use IDX."),
    ]);
    let mut bench = Bench::new();
    let long = vec![b'x'; 20_000];
    bench.perform(&bytes(&[b"set", b"a", &long]));
    let reply = bench.run("lcs a a");
    assert!(reply.starts_with("-ERR Insufficient memory"), "{reply}");
}

#[test]
fn values_in_redis_s_form() {
    let mut bench = Bench::new();
    let long: Vec<String> = (0..2000).map(|number| format!("{number} {number}")).collect();
    bench.play(&[
        ("set s text", "+OK"),
        ("rpush l a b 3", ":3"),
        ("sadd t 1 2 3", ":3"),
        ("hset h f v g w", ":2"),
        ("zadd z 1.5 a -inf b", ":2"),
        (&format!("hset large {}", long.join(" ")), ":2000"),
        ("setbit long 900000 1", ":0"),
    ]);
    for (key, look) in [
        ("s", "get k"),
        ("l", "lrange k 0 -1"),
        ("t", "smembers k"),
        ("h", "hgetall k"),
        ("z", "zrange k 0 -1 withscores"),
        ("large", "hlen k"),
        ("long", "strlen k"),
    ] {
        let dumped = bench.perform(&bytes(&[b"dump", key.as_bytes()])).unwrap();
        let start = dumped.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        let payload = &dumped[start..dumped.len() - 2];
        let restore = |bench: &mut Bench, more: &[&[u8]], payload: &[u8]| {
            let words = [&[b"restore".as_slice(), b"k"], more, &[payload]].concat();
            let mut words = bytes(&words);
            words.push(b"replace".to_vec());
            let reply = bench.perform(&words).unwrap();
            String::from_utf8_lossy(&reply).trim_end().to_owned()
        };
        assert_eq!(restore(&mut bench, &[b"0"], payload), "+OK");
        let own = look.split(' ').map(|word| if word == "k" { key } else { word });
        let own = bench.run(&own.collect::<Vec<_>>().join(" "));
        assert_eq!(bench.run(look), own);
        let busy = bytes(&[b"restore", b"k", b"0", payload]);
        assert_eq!(bench.perform(&busy).unwrap(), b"-BUSYKEY Target key name already exists.\r\n");
        assert_eq!(restore(&mut bench, &[b"5000"], payload), "+OK");
        assert_eq!(bench.run("pttl k"), ":5000");
        assert_eq!(restore(&mut bench, &[b"-1"], payload), "-ERR Invalid TTL value, must be >= 0");
        // Bytes that are not those of a value leave nothing behind.
        for at in 0..payload.len().min(60) {
            let mut damaged = payload.to_vec();
            damaged[at] ^= 1 << (at % 8);
            let reply = restore(&mut bench, &[b"0"], &damaged);
            assert!(reply == "-ERR DUMP payload version or checksum are wrong", "{reply}");
            // With a checksum that is right, or none.
            let end = damaged.len() - 8;
            damaged[end..].fill(0);
            let reply = restore(&mut bench, &[b"0"], &damaged);
            let refused = [
                "-ERR Bad data format",
                "-ERR DUMP payload version or checksum are wrong",
                "-ERR value",
            ];
            assert!(
                reply == "+OK" || refused.iter().any(|text| reply.starts_with(text)),
                "{reply}"
            );
        }
        bench.check();
    }
    assert_eq!(bench.run("dump none"), "$-1");
    bench.limit_reply(500);
    assert!(bench.run("dump large").starts_with("-ERR the reply is larger"));
    bench.check();
}

/// What Redis 7.0.15 has answered to DUMP, of values that it packs.
#[test]
fn redis_s_own_forms_are_read() {
    let mut bench = Bench::new();
    for (payload, look, reply) in DUMPED {
        let payload: Vec<u8> = (0..payload.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&payload[at..at + 2], 16).unwrap())
            .collect();
        let restored = bench.perform(&bytes(&[b"restore", b"k", b"0", &payload, b"replace"]));
        assert_eq!(restored.as_deref(), Some(b"+OK\r\n".as_slice()), "{look}");
        assert_eq!(bench.run(look), *reply);
        bench.check();
    }
}

/// Payloads in hexadecimal digits, and commands with their replies.
const DUMPED: &[(&str, &str, &str)] = &[
    ("00c139300a009d94ea2793fc08b9", "get k", "$5 12345"),
    ("00c0f90a005e26d130d7a242ab", "get k", "$2 -7"),
    (
        "00c30940c8016161e0bb000161610a001f99f72e01b20de3",
        "get k",
        "$200 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ),
    (
        "120102c33140711f7100000009008161020101dffb02c12c02f270110104f2404b4c04f4ffe30b540002401f02e04678e03c0003488001ff0a00b0b0c300483278fd",
        "lrange k 0 -1",
        "*9 $1 a $1 1 $2 -5 $3 300 $5 70000 $7 5000000 $10 9999999999 $70 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx $0",
    ),
    ("0b0e02000000030000000100020003000a00a5025ce26d6e4d1b", "smembers k", "*3 $1 1 $1 2 $1 3"),
    (
        "0b140400000003000000fdffffff05000000a08601000a006d306c6cccb96cee",
        "smembers k",
        "*3 $2 -3 $1 5 $6 100000",
    ),
    ("0b100800000001000000ffe30b54020000000a002e43ba54a368b08f", "smembers k", "*1 $10 9999999999"),
    ("02030163016201610a005ea67e5623750bab", "scard k", ":3"),
    (
        "10121200000004008166028176028167020c01ff0a00de133993f783817e",
        "hgetall k",
        "*4 $1 f $1 v $1 g $2 12",
    ),
    (
        "111f1f0000000600816202dffe0281610283312e35048163028531652b323006ff0a00bdec2ac6bd8f2d62",
        "zrange k 0 -1 withscores",
        "*6 $1 b $2 -2 $1 a $3 1.5 $1 c $5 1e+20",
    ),
    ("0401016601760a00adf24356b1860efc", "hgetall k", "*2 $1 f $1 v"),
    (
        "05020162000000000000f07f0161000000000000f83f0a001343ce1a14f007a4",
        "zrange k 0 -1 withscores",
        "*4 $1 a $3 1.5 $1 b $3 inf",
    ),
    (
        "1203020d0d0000000200816102816202ff020d0d0000000200816302816402ff02c31340710b710000000200816502e06466e05a000166ff0a003b8d931639485b07",
        "lrange k 0 -1",
        "*6 $1 a $1 b $1 c $1 d $1 e $100 ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    ),
];

#[test]
fn sorted_sets_of_several() {
    let mut bench = Bench::new();
    let many: Vec<String> = (0..2000).map(|number| format!("{number} m{number}")).collect();
    bench.play(&[
        ("zadd a 1 x 2 y 3 z", ":3"),
        ("zadd b 10 y 20 z 30 w", ":3"),
        ("sadd s y z", ":2"),
        ("zunion 2 a b withscores", "*8 $1 x $1 1 $1 y $2 12 $1 z $2 23 $1 w $2 30"),
        ("zinter 3 a b s weights 1 2 3 aggregate max withscores", "*4 $1 y $2 20 $1 z $2 40"),
        ("zdiff 2 a s withscores", "*2 $1 x $1 1"),
        ("zintercard 2 a b limit 1", ":1"),
        ("zunionstore a 2 a b", ":4"),
        ("zrange a 0 -1", "*4 $1 x $1 y $1 z $1 w"),
        ("zinterstore a 2 a none", ":0"),
        ("exists a", ":0"),
        ("zdiffstore b 1 b", ":3"),
        ("zunion 0 a", "-ERR at least 1 input key is needed for 'zunion' command"),
        ("zunion 3 a b", "-ERR syntax error"),
        ("zunion 1 b weights x", "-ERR weight value is not a float"),
        (&format!("zadd large {}", many.join(" ")), ":2000"),
        ("zunionstore d 2 large b aggregate min", ":2003"),
        ("zrangestore part large 10 1000", ":991"),
        ("zrangestore part large (1990 +inf byscore rev limit 0 3", ":0"),
        ("zrangestore part large +inf (1990 byscore rev limit 0 3", ":3"),
        ("zrange part 0 -1", "*3 $5 m1997 $5 m1998 $5 m1999"),
        ("zremrangebyscore large 100 1899", ":1800"),
        ("zremrangebyrank large 0 -1", ":200"),
        ("exists large", ":0"),
        ("zrandmember b 0", "*0"),
        ("zrandmember b 1 withvalues", "-ERR syntax error"),
        ("hset h f v", ":1"),
        ("hrandfield h 5 withvalues", "*2 $1 f $1 v"),
        ("hrandfield h -2", "*2 $1 f $1 f"),
        ("zrandmember none", "$-1"),
    ]);
    bench.limit_reply(4000);
    for command in ["zunion 1 d", "zrange d 0 -1", "zrandmember d -1000000", "zrandmember d 2000"] {
        let reply = bench.run(command);
        assert!(reply.starts_with("-ERR the reply is larger"), "{command}: {reply}");
    }
}
