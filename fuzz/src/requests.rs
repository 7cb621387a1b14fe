//! Clients' requests, in pieces, and the commands in them.

use crate::Target;
use perdura_server::testing::{Bench, requests};

pub(crate) const REQUESTS: Target =
    Target { name: "requests", run: read, seeds: encoded, words: WORDS };
pub(crate) const COMMANDS: Target =
    Target { name: "commands", run: perform, seeds: encoded, words: WORDS };

/// The first byte says where the rest is split into pieces, which must make no difference.
fn read(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let cut = usize::from(*first).min(bytes.len());
    let pieces = [&bytes[..cut], &bytes[cut..]];
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    let whole = requests(&[bytes]);
    assert_eq!(requests(&pieces), whole, "cut at {cut}");
    assert_eq!(requests(&single), whole, "byte by byte");
}

/// Performs commands on a keyspace in plain memory, which must be whole afterwards.
fn perform(bytes: &[u8]) {
    let (commands, _) = requests(&[bytes.get(1..).unwrap_or_default()]);
    let mut bench = Bench::new();
    for command in commands.iter().take(64) {
        bench.perform(command);
    }
    bench.check();
}

fn encoded() -> Vec<Vec<u8>> {
    let inline = SCRIPTS.iter().map(|script| ["5", &script.join("\r\n"), "\r\n"].concat());
    let inline = inline.map(String::into_bytes);
    inline.chain(multibulk(&SCRIPTS).into_iter().map(|text| [b"\t", &*text].concat())).collect()
}

/// Scripts as clients send them: every command an array of strings.
pub(crate) fn multibulk(scripts: &[&[&str]]) -> Vec<Vec<u8>> {
    let encode = |script: &&[&str]| {
        let mut text = String::new();
        for command in *script {
            let words: Vec<&str> = command.split(' ').collect();
            text += &format!("*{}\r\n", words.len());
            words.iter().for_each(|word| text += &format!("${}\r\n{word}\r\n", word.len()));
        }
        text.into_bytes()
    };
    scripts.iter().map(encode).collect()
}

const SCRIPTS: [&[&str]; 16] = [
    &[
        "EVAL return(redis.call('set',KEYS[1],ARGV[1])) 1 k v",
        "EVAL return(cjson.decode(ARGV[1])) 0 [1,{\"a\":null},\"\\u00e9\"]",
        "EVAL return(cmsgpack.unpack(cmsgpack.pack({1,{a=2.5}}))) 0",
        "EVAL return(struct.unpack('>I2bsd',struct.pack('>I2bsd',1,2,'c',3))) 0",
        "EVAL redis.setresp(3)return{redis.pcall('hgetall','h'),bit.bor(1,2)} 0",
    ],
    &[
        "SETBIT b 77 1",
        "BITFIELD b SET i5 #3 -9 OVERFLOW SAT INCRBY u8 4 300 GET i64 1",
        "BITCOUNT b 0 -1 BIT",
        "BITPOS b 1 2 9",
        "BITOP XOR c b b",
        "PFADD p a b c",
        "PFMERGE q p",
        "PFCOUNT p q",
        "LCS b p IDX",
    ],
    &[
        "GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
        "GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km ASC COUNT 1 WITHDIST WITHCOORD",
        "GEOSEARCHSTORE d g FROMMEMBER Palermo BYRADIUS 200 km STOREDIST",
        "GEOHASH g Palermo",
        "ZUNIONSTORE u 2 g d WEIGHTS 1 -2 AGGREGATE MIN",
        "ZRANGESTORE r g 0 -1 REV",
        "ZDIFF 2 g d WITHSCORES",
    ],
    &[
        "RPUSH l 3 1 2",
        "SORT l BY w_* GET h_*->f GET # LIMIT 0 2 DESC ALPHA STORE m",
        "DUMP l",
        "RESTORE r 0 \0\x01v\x0b\0\0\0\0\0\0\0\0\0 REPLACE",
        "PUBLISH c m",
        "ZRANDMEMBER z -3 WITHSCORES",
    ],
    &[
        "XADD x MAXLEN ~ 3 LIMIT 9 1-* a 1 b 2",
        "XADD x NOMKSTREAM 5-0 a 3",
        "XRANGE x (1 + COUNT 2",
        "XREVRANGE x + -",
        "XREAD COUNT 1 BLOCK 5 STREAMS x y 0 $",
        "XDEL x 1-0",
        "XTRIM x MINID 5",
        "XSETID x 9-9 ENTRIESADDED 7 MAXDELETEDID 3",
        "DUMP x",
        "COPY x y",
    ],
    &[
        "XGROUP CREATE x g 0 MKSTREAM ENTRIESREAD 1",
        "XADD x 7 a 1",
        "XREADGROUP GROUP g c COUNT 3 STREAMS x >",
        "XREADGROUP GROUP g c NOACK STREAMS x 0",
        "XPENDING x g IDLE 0 - + 9 c",
        "XCLAIM x g d 0 7-0 TIME 5 RETRYCOUNT 3 FORCE JUSTID LASTID 7",
        "XAUTOCLAIM x g e 0 - COUNT 2",
        "XACK x g 7-0",
        "XINFO STREAM x FULL COUNT 1",
        "XGROUP DELCONSUMER x g d",
        "XGROUP DESTROY x g",
    ],
    &[
        "FUNCTION LOAD #!lua\tname=l\nredis.register_function('f',function(k)return(k[1])end)",
        "FCALL f 1 k a",
        "FCALL_RO f 0",
        "FUNCTION LIST LIBRARYNAME l WITHCODE",
        "FUNCTION DUMP",
        "FUNCTION RESTORE \u{f5}\u{3}abc REPLACE",
        "FUNCTION DELETE l",
    ],
    &["SET k v", "GET k", "APPEND k abc", "SETRANGE k 5 xyz", "GETRANGE k -3 -1", "STRLEN k"],
    &["SET n 10", "INCRBY n 32", "INCRBYFLOAT n 1.5", "DECR n", "MSET a 1 b 2", "MGET a b n"],
    &["HSET h f v g w", "HGETALL h", "HINCRBY h n 4", "HSCAN h 0 COUNT 10", "HRANDFIELD h -5"],
    &[
        "ZADD z 1 a 2.5 b inf c",
        "ZRANGE z (1 +inf BYSCORE LIMIT 0 5 WITHSCORES",
        "ZRANGEBYLEX z [a (c",
        "ZINCRBY z -3 b",
        "ZREMRANGEBYRANK z 0 -2",
    ],
    &[
        "SADD s a b 1 2",
        "SADD t b 2 c",
        "SPOP s 2",
        "SRANDMEMBER t -9",
        "SUNIONSTORE u s t",
        "SDIFF u s",
        "SINTERCARD 2 s t LIMIT 1",
        "SMOVE s t a",
        "SSCAN t 0",
    ],
    &[
        "RPUSH l a b c a",
        "LPUSH l x",
        "LPOP l 2",
        "LRANGE l -3 -1",
        "LINSERT l BEFORE b y",
        "LSET l 0 z",
        "LREM l -1 a",
        "LPOS l b RANK -1 COUNT 0",
        "LTRIM l 1 5",
    ],
    &[
        "RPUSH l a b",
        "LMOVE l m LEFT RIGHT",
        "RPOPLPUSH l l",
        "LMPOP 2 l m RIGHT COUNT 5",
        "BLPOP m l 0",
        "BLMPOP 0 1 l LEFT",
        "ZMPOP 1 z MIN",
        "BZPOPMAX z 1",
    ],
    &["EXPIRE k 100", "PEXPIREAT k 99999999999999", "TTL k", "PERSIST k", "SET k v PX 5 GET"],
    &["SCAN 0 MATCH [a-z]* COUNT 10", "KEYS h?*", "RENAME a b", "COPY b c", "DEL a b c", "TYPE z"],
];

const WORDS: &[&str] = &[
    "\r\n",
    "*",
    "$",
    "-1",
    "*-1\r\n",
    "$-1\r\n",
    "*1048577\r\n",
    "$536870912\r\n",
    "\"",
    "'",
    "\\x41",
    "nan",
    "inf",
    "-inf",
    "(",
    "[",
    "+",
    "-",
    "WITHSCORES",
    "LIMIT",
    "COUNT",
    "MATCH",
    "BYSCORE",
    "BYLEX",
    "REV",
    "EX",
    "PX",
    "EXAT",
    "KEEPTTL",
    "NX",
    "XX",
    "GT",
    "LT",
    "CH",
    "INCR",
    "LEFT",
    "RIGHT",
    "RANK",
    "MAXLEN",
    "AFTER",
    "-9223372036854775808",
    "9223372036854775807",
    "[^a-",
    "*?*?*?*",
    "0",
    "1",
];
