//! The same random commands go to this server and to Redis, and must be answered the same.
//!
//! Needs `redis-server`; without it the test says so and passes. `PERDURA_TEST_SEED=n` replays a failure.

mod chain;
mod described;
mod expired;
mod failover;
mod families;
mod following;
mod promotion;
mod replicas;
mod secure;
mod tracking;

use crate::common::{Client, ENGINE, Frame, Random, Running, show};
use perdura_testing::{seeds, times};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A Redis that ends with the test.
struct Redis {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Redis {
    fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    fn start_with(options: &[&str]) -> Option<Self> {
        // Whoever has taken the port in the meantime, even a connection to it from itself, is no Redis.
        (0..10)
            .find_map(|_| Self::started(options))
            .unwrap_or_else(|| panic!("redis-server does not start"))
    }

    /// The outer `None`: another port may do. The inner one: there is no Redis.
    fn started(options: &[&str]) -> Option<Option<Self>> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--save", "", "--appendonly", "no", "--dir"])
            .arg(folder.path())
            .args(options)
            .stdout(Stdio::null())
            .spawn();
        let Ok(child) = child else { return Some(None) };
        let mut redis = Redis { child, port, _folder: folder };
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(20) {
            if redis.answers() {
                return Some(Some(redis));
            }
            if redis.child.try_wait().unwrap().is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }

    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let mut answer = [0; 7];
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        stream.write_all(b"PING\r\n").is_ok()
            && stream.read_exact(&mut answer).is_ok()
            && answer == *b"+PONG\r\n"
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How replies are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compare {
    Same,
    /// In any order.
    Unordered,
    /// Pairs, in any order.
    Pairs,
    /// Numbers that may differ by a little, since time passes.
    Time,
    /// Cursors differ: complete scans do not.
    Scan,
    /// Scores, of which a zero may have lost its sign: Redis's depends on the order in which it meets the sets.
    Weighed,
    /// Only whether it is an error, and which.
    Error,
    /// Of errors only the first word.
    Refusal,
    /// Without times, counts of Redis's own trees, and what Redis 7.0 does not tell yet.
    Info,
}

/// A command, and how its replies are compared.
type Template = (&'static str, Compare);

/// Commands: the words of a template are literal, or name a choice.
const TEMPLATES: &[Template] = &[
    ("GET key", Compare::Same),
    ("SET key value", Compare::Same),
    ("SET key value", Compare::Same),
    ("SET key value set-option", Compare::Same),
    ("SET key value set-option set-option", Compare::Same),
    ("SET key value expire-option time", Compare::Same),
    ("SET key value set-option expire-option time set-option", Compare::Same),
    ("SETNX key value", Compare::Same),
    ("SETEX key time value", Compare::Same),
    ("PSETEX key time value", Compare::Same),
    ("GETSET key value", Compare::Same),
    ("GETDEL key", Compare::Same),
    ("GETEX key", Compare::Same),
    ("GETEX key expire-option time", Compare::Same),
    ("GETEX key PERSIST", Compare::Same),
    ("MGET key key key", Compare::Same),
    ("MSET key value key value", Compare::Same),
    ("MSET key value key", Compare::Same),
    ("MSETNX key value key value", Compare::Same),
    ("INCR key", Compare::Same),
    ("DECR key", Compare::Same),
    ("INCRBY key number", Compare::Same),
    ("DECRBY key number", Compare::Same),
    ("INCRBYFLOAT key number", Compare::Same),
    ("APPEND key value", Compare::Same),
    ("STRLEN key", Compare::Same),
    ("GETRANGE key index index", Compare::Same),
    ("SUBSTR key index index", Compare::Same),
    ("SETRANGE key index value", Compare::Same),
    ("DEL key", Compare::Same),
    ("DEL key key", Compare::Same),
    ("UNLINK key", Compare::Same),
    ("EXISTS key key key", Compare::Same),
    ("TOUCH key key", Compare::Same),
    ("TYPE key", Compare::Same),
    ("EXPIRE key time", Compare::Same),
    ("EXPIRE key time when-option", Compare::Same),
    ("EXPIRE key time when-option when-option", Compare::Same),
    ("PEXPIRE key time", Compare::Same),
    ("EXPIREAT key instant", Compare::Same),
    ("PEXPIREAT key instant when-option", Compare::Same),
    ("TTL key", Compare::Time),
    ("PTTL key", Compare::Time),
    ("EXPIRETIME key", Compare::Time),
    ("PEXPIRETIME key", Compare::Time),
    ("PERSIST key", Compare::Same),
    ("RENAME key key", Compare::Same),
    ("RENAMENX key key", Compare::Same),
    ("COPY key key", Compare::Same),
    ("COPY key key REPLACE", Compare::Same),
    ("COPY key key DB database REPLACE", Compare::Same),
    ("COPY key key DB", Compare::Same),
    ("MOVE key database", Compare::Same),
    ("SELECT database", Compare::Same),
    ("SELECT 0", Compare::Same),
    ("KEYS pattern", Compare::Unordered),
    ("SCAN 0 MATCH pattern COUNT 100000", Compare::Scan),
    ("SCAN 0 COUNT 100000 TYPE type", Compare::Scan),
    ("SCAN number COUNT number", Compare::Error),
    ("HSET key field value", Compare::Same),
    ("HSET key field value field value field value", Compare::Same),
    ("HSET key field value field", Compare::Same),
    ("HMSET key field value field value", Compare::Same),
    ("HSETNX key field value", Compare::Same),
    ("HGET key field", Compare::Same),
    ("HMGET key field field", Compare::Same),
    ("HGETALL key", Compare::Pairs),
    ("HKEYS key", Compare::Unordered),
    ("HVALS key", Compare::Unordered),
    ("HDEL key field field", Compare::Same),
    ("HLEN key", Compare::Same),
    ("HEXISTS key field", Compare::Same),
    ("HSTRLEN key field", Compare::Same),
    ("HINCRBY key field number", Compare::Same),
    ("HINCRBYFLOAT key field number", Compare::Same),
    ("HSCAN key 0 COUNT 100000", Compare::Scan),
    ("HSCAN key 0 MATCH pattern COUNT 100000", Compare::Scan),
    ("HSCAN key number scan-option number", Compare::Error),
    ("ZSCAN key number scan-option number", Compare::Error),
    ("ZSCAN key 0 scan-option", Compare::Error),
    ("ZADD key score member", Compare::Same),
    ("ZADD key score member score member score member", Compare::Same),
    ("ZADD key add-option score member", Compare::Same),
    ("ZADD key add-option add-option score member score member", Compare::Same),
    ("ZADD key add-option add-option add-option score member", Compare::Same),
    ("ZADD key score", Compare::Same),
    ("ZINCRBY key score member", Compare::Same),
    ("ZREM key member member", Compare::Same),
    ("ZSCORE key member", Compare::Same),
    ("ZMSCORE key member member", Compare::Same),
    ("ZCARD key", Compare::Same),
    ("ZCOUNT key limit limit", Compare::Same),
    ("ZLEXCOUNT lexset name name", Compare::Same),
    ("ZRANK key member", Compare::Same),
    ("ZREVRANK key member", Compare::Same),
    ("ZRANGE key index index", Compare::Same),
    ("ZRANGE key index index range-option", Compare::Same),
    ("ZRANGE key index index range-option range-option", Compare::Same),
    ("ZRANGE key limit limit BYSCORE range-option", Compare::Same),
    ("ZRANGE key limit limit BYSCORE LIMIT index index range-option", Compare::Same),
    ("ZRANGE lexset name name BYLEX range-option", Compare::Same),
    ("ZRANGE lexset name name BYLEX LIMIT index index REV", Compare::Same),
    ("ZREVRANGE key index index WITHSCORES", Compare::Same),
    ("ZRANGEBYSCORE key limit limit", Compare::Same),
    ("ZRANGEBYSCORE key limit limit WITHSCORES LIMIT index index", Compare::Same),
    ("ZREVRANGEBYSCORE key limit limit LIMIT index index", Compare::Same),
    ("ZREVRANGEBYSCORE key limit limit WITHSCORES", Compare::Same),
    ("ZRANGEBYLEX lexset name name", Compare::Same),
    ("ZREVRANGEBYLEX lexset name name LIMIT index index", Compare::Same),
    ("ZADD lex 0 member 0 member", Compare::Same),
    ("ZADD mixed score member score member score member", Compare::Same),
    ("ZADD mixed score member score member", Compare::Same),
    ("ZREM lexset member", Compare::Same),
    ("ZRANGEBYLEX key name name", Compare::Same),
    ("ZREMRANGEBYRANK key index index", Compare::Same),
    ("ZREMRANGEBYSCORE key limit limit", Compare::Same),
    ("ZREMRANGEBYLEX lexset name name", Compare::Same),
    ("ZPOPMIN key", Compare::Same),
    ("ZPOPMAX key index", Compare::Same),
    ("ZSCAN key 0 COUNT 100000", Compare::Scan),
    ("ZSCAN lexset 0 MATCH pattern", Compare::Scan),
    ("ZUNION 2 key key", Compare::Same),
    (
        "ZUNION 3 key key key WEIGHTS score score score AGGREGATE aggregate WITHSCORES",
        Compare::Weighed,
    ),
    ("ZINTER 2 key key AGGREGATE aggregate WITHSCORES", Compare::Weighed),
    ("ZINTER count key key WEIGHTS score score", Compare::Weighed),
    ("ZDIFF 2 key key WITHSCORES", Compare::Same),
    ("ZDIFF 3 key key key", Compare::Same),
    ("ZINTERCARD count key key", Compare::Same),
    ("ZINTERCARD 2 key key LIMIT index", Compare::Same),
    ("ZUNIONSTORE key count key key", Compare::Same),
    ("ZUNIONSTORE key 2 key key AGGREGATE aggregate WEIGHTS score score", Compare::Same),
    ("ZINTERSTORE key 2 key key WEIGHTS score score", Compare::Same),
    ("ZDIFFSTORE key 2 key key", Compare::Same),
    ("ZRANGESTORE key key index index range-option", Compare::Same),
    ("ZRANGESTORE key key limit limit BYSCORE LIMIT index index", Compare::Same),
    ("ZRANGESTORE mixed lexset name name BYLEX", Compare::Same),
    ("ZRANDMEMBER key 100", Compare::Unordered),
    ("ZRANDMEMBER key index index", Compare::Error),
    ("ZRANDMEMBER key 100 WITHSCORES", Compare::Pairs),
    ("HRANDFIELD key 100", Compare::Unordered),
    ("HRANDFIELD key 100 WITHVALUES", Compare::Pairs),
    ("HRANDFIELD key 0", Compare::Same),
    ("ZMPOP count key key min-max", Compare::Same),
    ("ZMPOP count key key min-max COUNT index", Compare::Same),
    ("BZPOPMIN key key short-time", Compare::Same),
    ("BZPOPMAX key key short-time", Compare::Same),
    ("BZMPOP short-time count key key min-max", Compare::Same),
    ("SADD key value", Compare::Same),
    ("SADD key member member value", Compare::Same),
    ("SREM key member value", Compare::Same),
    ("SISMEMBER key member", Compare::Same),
    ("SMISMEMBER key member value member", Compare::Same),
    ("SMEMBERS key", Compare::Unordered),
    ("SCARD key", Compare::Same),
    ("SMOVE key key member", Compare::Same),
    ("SPOP key 100", Compare::Unordered),
    ("SPOP key 0", Compare::Same),
    ("SPOP key 1 2", Compare::Same),
    ("SRANDMEMBER key 100", Compare::Unordered),
    ("SRANDMEMBER key 0", Compare::Same),
    ("SRANDMEMBER key x", Compare::Same),
    ("SINTER key key", Compare::Unordered),
    ("SINTER key key key", Compare::Unordered),
    ("SUNION key key key", Compare::Unordered),
    ("SDIFF key key", Compare::Unordered),
    ("SINTERSTORE key key key", Compare::Same),
    ("SUNIONSTORE key key key", Compare::Same),
    ("SDIFFSTORE key key key", Compare::Same),
    ("SINTERCARD count key key", Compare::Same),
    ("SINTERCARD 2 key key LIMIT index", Compare::Same),
    ("SSCAN key 0 COUNT 100000", Compare::Scan),
    ("SSCAN key number scan-option number", Compare::Error),
    ("LPUSH key value value", Compare::Same),
    ("RPUSH key value", Compare::Same),
    ("RPUSH key member member value", Compare::Same),
    ("LPUSHX key value", Compare::Same),
    ("RPUSHX key value member", Compare::Same),
    ("LPOP key", Compare::Same),
    ("RPOP key", Compare::Same),
    ("LPOP key index", Compare::Same),
    ("RPOP key number", Compare::Same),
    ("LPOP key 1 2", Compare::Same),
    ("LLEN key", Compare::Same),
    ("LRANGE key index index", Compare::Same),
    ("LRANGE key number number", Compare::Same),
    ("LINDEX key index", Compare::Same),
    ("LSET key index value", Compare::Same),
    ("LINSERT key before-after member value", Compare::Same),
    ("LREM key index member", Compare::Same),
    ("LREM key number value", Compare::Same),
    ("LTRIM key index index", Compare::Same),
    ("LPOS key member", Compare::Same),
    ("LPOS key member lpos-option position", Compare::Same),
    ("LPOS key member lpos-option index lpos-option index", Compare::Same),
    ("LMOVE key key end end", Compare::Same),
    ("RPOPLPUSH key key", Compare::Same),
    ("LMPOP count key key end", Compare::Same),
    ("LMPOP 2 key key end COUNT index", Compare::Same),
    ("BLPOP key key short-time", Compare::Same),
    ("BRPOP key short-time", Compare::Same),
    ("BLMOVE key key end end short-time", Compare::Same),
    ("BRPOPLPUSH key key short-time", Compare::Same),
    ("BLMPOP short-time 2 key key end COUNT 3", Compare::Same),
    ("EVAL script 1 key value", Compare::Same),
    ("EVAL script 1 key member", Compare::Same),
    ("EVAL script count key key value", Compare::Error),
    ("EVAL_RO script 1 key value", Compare::Same),
    ("PUBLISH key value", Compare::Same),
    ("MULTI", Compare::Same),
    ("EXEC", Compare::Same),
    ("EXEC", Compare::Same),
    ("EXEC extra", Compare::Same),
    ("MULTI extra", Compare::Same),
    ("DISCARD", Compare::Same),
    ("DISCARD extra", Compare::Same),
    ("WATCH key", Compare::Same),
    ("WATCH key key", Compare::Same),
    ("UNWATCH", Compare::Same),
    ("PING", Compare::Same),
    ("PING value", Compare::Same),
    ("ECHO value", Compare::Same),
    ("NOSUCHCOMMAND key value", Compare::Same),
    ("GET", Compare::Same),
    ("HSET key", Compare::Same),
    ("SWAPDB 0 index", Compare::Same),
    ("SWAPDB index number", Compare::Same),
    ("FLUSHDB", Compare::Same),
    ("FLUSHALL", Compare::Same),
    ("FLUSHALL index", Compare::Same),
    ("FUNCTION FLUSH", Compare::Same),
    ("FUNCTION FLUSH index", Compare::Same),
    ("FUNCTION LIST", Compare::Same),
    ("CONFIG SET limit-option number", Compare::Same),
    ("CONFIG GET hash-max-*", Compare::Pairs),
];

fn word(template: &str, random: &mut Random, now: u64) -> Vec<u8> {
    if let Some(choices) = families::choices(template) {
        return random.pick(choices).as_bytes().to_vec();
    }
    let choices: &[&str] = match template {
        "key" => &["k0", "k1", "k2", "k3", "k4", "k5", ""],
        "lexset" => &["lex", "mixed"],
        "field" => &["f1", "f2", "f3", "a-field-with-a-name-of-more-than-23-bytes", ""],
        "member" => {
            &["a", "b", "c", "dd", "e", "f", "", "a-member-with-a-name-of-more-than-23-bytes"]
        }
        "value" => &[
            "",
            "1",
            "-7",
            "10",
            "3.5",
            "abc",
            "9223372036854775807",
            "-9223372036854775808",
            " 1",
            "1e3",
            "a-value-that-is-longer-than-sixteen-bytes",
            "inf",
            "0.1",
            "LONG",
        ],
        "number" => &[
            "0",
            "1",
            "-1",
            "5",
            "100",
            "3.25",
            "0.1",
            "9223372036854775807",
            "-9223372036854775808",
            "x",
            "1e3",
            "-0.30",
            "1e-5",
            "inf",
            "nan",
            "",
            "0x1p4",
            "1e-5000",
            "1e5000",
        ],
        "score" => &[
            "0",
            "1",
            "2",
            "3",
            "-1",
            "1.5",
            "-2.25",
            "1e10",
            "-1e17",
            "4e18",
            "inf",
            "-inf",
            "+inf",
            "x",
            "nan",
            "0.1",
            "3.3333333333333335",
            "-0.0",
            "1e19",
            "1.5e-7",
            "1e400",
            "1e-400",
            "0x1.8",
            "0x",
            "INFINITY",
            " 1",
            "",
        ],
        "limit" => &[
            "-inf",
            "+inf",
            "(1",
            "1",
            "2",
            "(2",
            "0",
            "-3",
            "3",
            "(x",
            "1.5",
            "(-inf",
            "1e400",
            "(-1e400",
            "0x1.8",
            "(0x2",
            "(infinity",
            "nan",
            "(nan",
            "",
            "(",
            " 1",
            "1 ",
            "(1\0x",
        ],
        "name" => &["-", "+", "[a", "(a", "[b", "[c", "(c", "(dd", "[e", "[f", "x", "[", "("],
        "index" => &["0", "1", "2", "-1", "-2", "5", "10", "-10", "3", "x", "-100", "100"],
        "time" => return time(random),
        "instant" => return instant(random, now),
        "set-option" => &["NX", "XX", "GET", "KEEPTTL", "nx", "PERSIST"],
        "expire-option" => &["EX", "PX", "EXAT", "PXAT", "ex", "KEEPTTL"],
        "when-option" => &["NX", "XX", "GT", "LT", "zz"],
        "add-option" => &["NX", "XX", "GT", "LT", "CH", "INCR", "ch"],
        "range-option" => &["REV", "WITHSCORES", "BYSCORE", "BYLEX", "LIMIT", "rev"],
        "pattern" => {
            &["*", "k?", "k[0-2]", "k[^0-2]", "nothing", "?1", "*x*", "f*", "**", "*?*", "**a", ""]
        }
        "scan-option" => &["COUNT", "MATCH", "TYPE", "nonsense"],
        "limit-option" => &["hash-max-ziplist-entries", "hash-max-listpack-value"],
        "type" => &["string", "hash", "zset", "list", "set"],
        "end" => &["LEFT", "RIGHT", "left", "UP"],
        "min-max" => &["MIN", "MAX", "min", "UP"],
        "before-after" => &["BEFORE", "AFTER", "after", "UP"],
        // Redis 7.0 takes the least number for a rank, and 7.2 does not.
        "position" => {
            &["0", "1", "-1", "5", "3.25", "9223372036854775807", "-9223372036854775807", "x", ""]
        }
        "lpos-option" => &["RANK", "COUNT", "MAXLEN", "rank", "UP"],
        "count" => &["2", "2", "1", "3", "0", "-1", "x"],
        "short-time" => &["0.001", "0.002", "-1", "x"],
        "aggregate" => &["SUM", "MIN", "MAX", "sum", "AVG"],
        // If one of their commands fails, it is the only one that writes: otherwise Redis keeps what was written before.
        "script" => &[
            "return redis.call('get', KEYS[1])",
            "return redis.pcall('incr', KEYS[1])",
            "return redis.call('set', KEYS[1], ARGV[1])",
            "return redis.call('lrange', KEYS[1], 0, -1)",
            "return redis.call('zadd', KEYS[1], 1.5, ARGV[1])",
            "return {KEYS[1], ARGV[1], #ARGV, {1.5, true, false}}",
            "return type(redis.pcall('get', KEYS[1]))",
            "if redis.call('exists', KEYS[1]) == 1 then return redis.call('del', KEYS[1]) end return 0",
            "redis.setresp(3) return redis.call('zrange', KEYS[1], 0, -1, 'WITHSCORES')",
            "redis.setresp(3) return redis.call('get', KEYS[1])",
            "return cjson.encode(redis.call('type', KEYS[1]))",
            "return redis.call('sadd', KEYS[1], unpack(ARGV))",
            "return redis.call(ARGV[1])",
            "return nothing",
            "return {",
        ],
        "database" => &["0", "1", "15", "16", "-1", "x"],
        literal => return literal.as_bytes().to_vec(),
    };
    match *random.pick(choices) {
        "LONG" => vec![b'v'; 700 + random.below(800)],
        choice => choice.as_bytes().to_vec(),
    }
}

/// A time from now on, seldom the same twice: which of two is the later one must not hang on the milliseconds between
/// two commands. Whole half seconds, of which [`meaning`] makes one.
fn time(random: &mut Random) -> Vec<u8> {
    let choice =
        *random.pick(&["1000", "5000", "100000", "0", "-1", "x", "9223372036854775807", "2000"]);
    match choice.parse() {
        Ok(some @ 1..1_000_000_u64) => {
            (some + 500 * random.below(200) as u64).to_string().into_bytes()
        }
        _ => choice.as_bytes().to_vec(),
    }
}

/// A time that is far enough away, in one direction or the other.
fn instant(random: &mut Random, now: u64) -> Vec<u8> {
    let offset = *random.pick(&[-5_000_000i64, 1_000_000, 5_000_000_000]);
    now.saturating_add_signed(offset).to_string().into_bytes()
}

/// A reply in a form that is the same for the same meaning.
fn meaning(frame: &Frame, compare: Compare) -> String {
    match (frame, compare) {
        (Frame::Integer(time), Compare::Time) if *time > 500 => {
            // The time between two commands: more makes no difference.
            format!("about {}", time.saturating_add(250) / 500)
        }
        (Frame::List(data), Compare::Unordered) => {
            let mut all: Vec<_> = data.iter().map(show).collect();
            all.sort();
            all.join(" ")
        }
        (Frame::List(data), Compare::Pairs) if matches!(data.first(), Some(Frame::List(_))) => {
            meaning(frame, Compare::Unordered)
        }
        (Frame::List(data), Compare::Pairs) => {
            let mut all: Vec<_> =
                data.chunks(2).map(|pair| pair.iter().map(show).collect::<Vec<_>>()).collect();
            all.sort();
            format!("{all:?}")
        }
        (Frame::List(data), Compare::Scan) if data.len() == 2 => {
            meaning(&data[1], Compare::Unordered)
        }
        (frame, Compare::Weighed) => show(frame).replace(" -0]", " 0]").replace(" -0 ", " 0 "),
        (Frame::List(_), Compare::Error) => "a list".to_owned(),
        (Frame::Text(text), Compare::Refusal) => {
            let text = String::from_utf8_lossy(text);
            text.split(' ').next().unwrap_or_default().to_owned()
        }
        (frame, Compare::Info) => show(&without_own(frame)),
        _ => show(frame),
    }
}

/// Names of figures that are not compared: times, and counts of the servers' own trees.
const OWN: [&str; 6] =
    ["idle", "inactive", "seen-time", "active-time", "radix-tree-keys", "radix-tree-nodes"];

/// A reply without such figures, and without the times in lists of pending entries.
fn without_own(frame: &Frame) -> Frame {
    let Frame::List(data) = frame else { return frame.clone() };
    let is_own = |frame: &Frame| matches!(frame, Frame::Text(text) if OWN.iter().any(|name| name.as_bytes() == text));
    let is_id = |frame: &Frame| matches!(frame, Frame::Text(text) if text.contains(&b'-'));
    // The ID, the consumer unless it is known, the time, the count.
    let time = match data.as_slice() {
        [id, Frame::Text(_), Frame::Integer(_), Frame::Integer(_)] if is_id(id) => Some(2),
        [id, Frame::Integer(_), Frame::Integer(_)] if is_id(id) => Some(1),
        _ => None,
    };
    let mut kept = Vec::new();
    let mut skips = 0;
    for (at, one) in data.iter().enumerate() {
        if skips > 0 {
            skips -= 1;
        } else if is_own(one) {
            skips = 1;
        } else if Some(at) != time {
            kept.push(without_own(one));
        }
    }
    Frame::List(kept)
}

struct Pair {
    ours: Client,
    theirs: Client,
    queued: Vec<Compare>,
    in_multi: bool,
}

impl Pair {
    /// Each server gets what the other one dumps of a key, as another one.
    fn exchange(&mut self, from: &[u8], to: &[u8]) -> (Frame, Frame) {
        if !self.queued.is_empty() || self.in_multi {
            return (Frame::Null, Frame::Null);
        }
        let [ours, theirs] =
            [&mut self.ours, &mut self.theirs].map(|one| one.call(&[b"DUMP", from]));
        match (ours, theirs) {
            (Frame::Text(ours), Frame::Text(theirs)) => {
                let restored = |client: &mut Client, dumped: &[u8]| {
                    client.call(&[b"RESTORE", to, b"0", dumped, b"REPLACE"])
                };
                (restored(&mut self.ours, &theirs), restored(&mut self.theirs, &ours))
            }
            both => both,
        }
    }

    fn step(
        &mut self,
        templates: &[&[Template]],
        random: &mut Random,
        now: u64,
        log: &mut Vec<String>,
    ) {
        let family = *random.pick(templates);
        let (template, compare) = *random.pick(family);
        let args: Vec<Vec<u8>> =
            template.split(' ').map(|word_| word(word_, random, now)).collect();
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let short = |arg: &&[u8]| String::from_utf8_lossy(&arg[..arg.len().min(50)]).into_owned();
        log.push(args.iter().map(short).collect::<Vec<_>>().join(" "));
        if template.contains("CLAIM") || template.starts_with("XREADGROUP") {
            // In Redis 7.0 they make a consumer only for something to deliver; in 7.2 always.
            if self.in_multi {
                return;
            }
            for client in [&mut self.ours, &mut self.theirs] {
                for stream in families::choices("stream").unwrap_or_default() {
                    let stream = stream.as_bytes();
                    client.call(&[b"XGROUP", b"CREATECONSUMER", stream, args[2], args[3]]);
                }
            }
        }
        let (ours, theirs) = match template.starts_with("MOVED") {
            true => self.exchange(args[1], args[2]),
            false => {
                let answer = |client: &mut Client, whose| {
                    client.send(&crate::common::encode(&args));
                    let recent = &log[log.len().saturating_sub(20)..];
                    client.receive().unwrap_or_else(|| panic!("no answer of {whose}: {recent:#?}"))
                };
                (answer(&mut self.ours, "ours"), answer(&mut self.theirs, "theirs"))
            }
        };
        let same = match (&ours, &theirs) {
            (Frame::List(a), Frame::List(b))
                if template == "EXEC" && a.len() == self.queued.len() && a.len() == b.len() =>
            {
                let pairs = a.iter().zip(b).zip(&self.queued);
                pairs.into_iter().all(|((a, b), how)| meaning(a, *how) == meaning(b, *how))
            }
            // A second may end between two commands.
            (Frame::Integer(a @ 1..), Frame::Integer(b @ 1..))
                if matches!(compare, Compare::Time) && a.abs_diff(*b) <= 1 =>
            {
                true
            }
            _ => meaning(&ours, compare) == meaning(&theirs, compare),
        };
        match template {
            "MULTI" => self.in_multi = true,
            "EXEC" | "EXEC extra" | "DISCARD" | "DISCARD extra" => {
                self.in_multi &= show(&ours).contains("wrong number")
            }
            _ => {}
        }
        if show(&ours) == "QUEUED" {
            self.queued.push(compare);
        } else if matches!(template, "EXEC" | "EXEC extra" | "DISCARD") {
            self.queued.clear();
        }
        if !same {
            let from = log.len().saturating_sub(150);
            let key = |line: &String| {
                args.len() < 2 || {
                    let key = String::from_utf8_lossy(args[1]);
                    line.contains(&*key) || line.starts_with("FLUSH") || line.starts_with("SELECT")
                }
            };
            let history: Vec<_> = log[from..].iter().filter(|line| key(line)).collect();
            if let (Frame::List(a), Frame::List(b)) = (&ours, &theirs) {
                let differ = |(a, b): &(&Frame, &Frame)| {
                    meaning(a, Compare::Info) != meaning(b, Compare::Info)
                };
                for (a, b) in a.iter().zip(b).filter(differ) {
                    println!("ours:   {}\ntheirs: {}", show(a), show(b));
                }
            }
            panic!("history: {history:#?}\nours:   {}\ntheirs: {}", show(&ours), show(&theirs));
        }
    }
}

fn compare(protocol: u32, templates: &[&[Template]]) {
    let Some(redis) = Redis::start() else {
        println!("skipped: there is no redis-server");
        return;
    };
    let running = Running::start();
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = seeds(clock.as_nanos() as u64 % 1_000_000, 1).start;
    // Fewer where all have been compared with the first engine already.
    let steps = times(if std::env::var_os(ENGINE).is_some() { 5_000 } else { 20_000 });
    println!("replay with PERDURA_TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let theirs = Client::connect(([127, 0, 0, 1], redis.port).into());
    let mut pair = Pair { ours: running.client(), theirs, queued: Vec::new(), in_multi: false };
    // What Redis 7.0 reads, too.
    assert_eq!(pair.ours.ask("CONFIG SET dump-version 10"), "OK");
    if protocol == 3 {
        for client in [&mut pair.ours, &mut pair.theirs] {
            client.ask("HELLO 3");
        }
    }
    let mut log = Vec::new();
    for _ in 0..steps {
        pair.step(templates, &mut random, clock.as_millis() as u64, &mut log);
    }
    running.check();
}

#[test]
fn answers_as_redis_does() {
    compare(2, &[TEMPLATES]);
}

#[test]
fn answers_as_redis_does_in_resp3() {
    compare(3, &[TEMPLATES]);
}

#[test]
fn streams_are_as_redis_has_them() {
    compare(2, &[families::STREAMS]);
}

#[test]
fn streams_are_as_redis_has_them_in_resp3() {
    compare(3, &[families::STREAMS]);
}

#[test]
fn bits_places_and_sorting_are_as_in_redis() {
    compare(2, &[families::OTHERS]);
}

#[test]
fn all_families_together_are_as_in_redis() {
    // Redis's SORT takes an overflow that another command has met for one of its own.
    let others: Vec<Template> =
        families::OTHERS.iter().copied().filter(|(text, _)| !text.starts_with("SORT")).collect();
    compare(3, &[&others, families::STREAMS, TEMPLATES]);
}
