//! The same random commands to a server with the module, to its replica, and to a stock one: the same replies.

use crate::Random;
use crate::client::{Client, Value};
use crate::server::{Server, until};
use perdura_testing::times;

/// GEOPOS is not there: its numbers have other digits in RESP3 (docs/cluster.md). `k` is a key, `f` a field or member, `v` a value, `n` a small number, `s` a score.
const COMMANDS: &[&str] = &[
    "set k v",
    "set k n",
    "get k",
    "getset k v",
    "setnx k v",
    "append k v",
    "strlen k",
    "incr k",
    "incrby k n",
    "decrby k n",
    "incrbyfloat k s",
    "getrange k n n",
    "setrange k n v",
    "setbit k n 1",
    "bitcount k",
    "getdel k",
    "mset k v k v",
    "msetnx k v k v",
    "mget k k k",
    "getex k persist",
    "set k v nx",
    "set k v xx get",
    "set k v exat 9000000000",
    "expireat k 9000000001",
    "expiretime k",
    "persist k",
    "pexpireat k 9000000002000 gt",
    "expire k -1",
    "del k k",
    "unlink k",
    "exists k k",
    "type k",
    "rename k k",
    "renamenx k k",
    "copy k k",
    "copy k k replace",
    "touch k",
    "hset k f v",
    "hset k f v f v",
    "hsetnx k f v",
    "hget k f",
    "hmget k f f",
    "hdel k f f",
    "hlen k",
    "hexists k f",
    "hincrby k f n",
    "hstrlen k f",
    "~hgetall k",
    "~hkeys k",
    "~hvals k",
    "lpush k v v",
    "rpush k v",
    "lpushx k v",
    "lpop k",
    "rpop k n",
    "llen k",
    "lrange k 0 -1",
    "lindex k n",
    "lset k n v",
    "linsert k before v v",
    "lrem k n v",
    "ltrim k 0 n",
    "lmove k k left right",
    "rpoplpush k k",
    "lpos k v",
    "lmpop 2 k k left",
    "sadd k f f f",
    "srem k f",
    "scard k",
    "sismember k f",
    "smismember k f f",
    "smove k k f",
    "~smembers k",
    "~sinter k k",
    "~sunion k k",
    "~sdiff k k",
    "sinterstore k k k",
    "sunionstore k k k",
    "sdiffstore k k k",
    "sintercard 2 k k",
    "zadd k s f",
    "zadd k s f s f",
    "zadd k gt ch s f",
    "zincrby k s f",
    "zscore k f",
    "zmscore k f f",
    "zrem k f",
    "zcard k",
    "zcount k -inf +inf",
    "zrange k 0 -1 withscores",
    "zrangebyscore k -inf +inf limit 0 3",
    "zrank k f",
    "zrevrange k 0 n",
    "zpopmin k",
    "zpopmax k 2",
    "zunionstore k 2 k k",
    "zinterstore k 2 k k weights 2 3",
    "zdiffstore k 2 k k",
    "zrangestore k k 0 n",
    "zmpop 2 k k min",
    "~zunion 2 k k withscores",
    "zremrangebyrank k 0 0",
    "zlexcount k - +",
    "zremrangebyscore k 1 3",
    "xadd k n-1 f v",
    "xlen k",
    "xrange k - +",
    "xdel k n-1",
    "xtrim k maxlen n",
    "xread count 2 streams k 0",
    "xgroup create k f 0",
    "xreadgroup group f c count 1 streams k >",
    "xack k f n-1",
    "pfadd k f f",
    "pfcount k k",
    "pfmerge k k",
    "geoadd k 13.3 38.1 f",
    "geohash k f",
    "geodist k f f",
    "object encoding nothing",
    "bitop and k k k",
    "bitfield k incrby u8 n 1",
    "lcs k k",
    "sort k alpha",
    "sort k alpha store k",
    "get",
    "hset k f",
    "zadd k x f",
    "set k v ex 0",
    "eval EVAL 1 k",
    "blpop k 0.001",
    "bzpopmin k 0.001",
];
const SCRIPT: &str =
    "redis.call('set', KEYS[1], 1); redis.call('incr', KEYS[1]); return redis.call('get', KEYS[1])";

fn word(kind: &str, random: &mut Random) -> String {
    let pick = |from: &[&str], random: &mut Random| {
        from[random.below(from.len() as u64) as usize].to_owned()
    };
    match kind {
        "k" => format!("key{}", random.below(7)),
        "f" => format!("f{}", random.below(6)),
        "v" => {
            pick(&["a", "bb", "a longer value than what is kept in place", "17", "3.5", ""], random)
        }
        "n" => random.below(9).to_string(),
        "n-1" => format!("{}-1", 1 + random.below(9)),
        "s" => pick(&["1", "2.5", "-3", "1e3", "0.1"], random),
        "EVAL" => SCRIPT.to_owned(),
        other => other.to_owned(),
    }
}

/// A reply as both must give it: of some the order is not said.
fn shown(reply: Value, is_unordered: bool, is_pairs: bool) -> String {
    let Value::List(mut list) = reply else { return format!("{reply:?}") };
    if is_pairs && !list.iter().any(|one| matches!(one, Value::List(_))) {
        let mut pairs: Vec<Vec<Value>> = list.chunks(2).map(<[Value]>::to_vec).collect();
        pairs.sort_by(|a, b| a.partial_cmp(b).expect("comparable"));
        return format!("{pairs:?}");
    }
    if is_unordered {
        list.sort_by(|a, b| a.partial_cmp(b).expect("comparable"));
    }
    format!("{list:?}")
}

#[test]
fn replies_are_those_of_a_stock_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Random::new("the same commands");
    let (mut own, stock) = (Server::with_module(folder.path(), &[]), Server::stock(folder.path()));
    let port = own.port.to_string();
    let replica = Server::with_module(folder.path(), &["--replicaof", "127.0.0.1", &port]);
    until("the replica follows", || {
        replica.client().run("info replication").text().contains("master_link_status:up")
    });
    let mut clients = [own.client(), stock.client()];
    let mut open = 0;
    for number in 0..times(20_000) {
        match random.below(400) {
            0 if open == 0 => {
                let version = if random.below(2) == 0 { "2" } else { "3" };
                clients.iter_mut().for_each(|client| drop(client.run(&format!("hello {version}"))));
            }
            1 if open == 0 => {
                same(&mut clients, number, &["multi"], false, false);
                open = 1 + random.below(6);
                continue;
            }
            2 => same(&mut clients, number, &["flushall"], false, false),
            _ => {}
        }
        let template = COMMANDS[random.below(COMMANDS.len() as u64) as usize];
        let is_unordered = template.starts_with('~');
        let template = template.trim_start_matches('~');
        let is_pairs = template.starts_with("hgetall") || template.contains("withscores");
        let words: Vec<String> = template.split(' ').map(|kind| word(kind, &mut random)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if open > 0 && is_unordered {
            continue;
        }
        same(&mut clients, number, &words, is_unordered, is_pairs);
        if open > 0 {
            open -= 1;
            if open == 0 {
                same(&mut clients, number, &["exec"], false, false);
            }
        }
    }
    if open > 0 {
        same(&mut clients, 0, &["exec"], false, false);
    }
    // The replica, and the pool after a kill, have the same keys.
    let wanted = contents(&mut clients[1]);
    until("the replica is equal", || contents(&mut replica.client()) == wanted);
    own.kill();
    own.restart();
    assert_eq!(contents(&mut own.client()), wanted);
}

fn same(clients: &mut [Client; 2], number: u64, args: &[&str], is_unordered: bool, is_pairs: bool) {
    let [own, stock] = clients;
    let reply =
        |client: &mut Client| shown(client.ask(args).expect("a reply"), is_unordered, is_pairs);
    assert_eq!(reply(own), reply(stock), "command {number}: {args:?}");
}

/// All keys, what they hold, and when they expire.
pub(crate) fn contents(client: &mut Client) -> Vec<String> {
    client.run("hello 2");
    let mut keys: Vec<String> = client.run("keys *").list().into_iter().map(Value::text).collect();
    keys.sort_unstable();
    keys.iter()
        .map(|key| {
            let kind = client.run(&format!("type {key}")).text();
            let read = match kind.as_str() {
                "string" => format!("get {key}"),
                "hash" => format!("hgetall {key}"),
                "list" => format!("lrange {key} 0 -1"),
                "set" => format!("smembers {key}"),
                "zset" => format!("zrange {key} 0 -1 withscores"),
                _ => format!("xrange {key} - +"),
            };
            let value = shown(client.run(&read), kind == "set", kind == "hash");
            format!("{key} {kind} {value} {:?}", client.run(&format!("pexpiretime {key}")))
        })
        .collect()
}
