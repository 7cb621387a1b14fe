//! The server with a real client library: commands, pipelines, transactions, threads.

use crate::common::Running;
use redis::{Commands, Connection, RedisResult};

fn connect(running: &Running) -> Connection {
    let url = format!("redis://{}/", running.address);
    redis::Client::open(url).unwrap().get_connection().unwrap()
}

#[test]
fn strings_hashes_and_sorted_sets() {
    let running = Running::start();
    let mut redis = connect(&running);
    let () = redis.set("name", "value").unwrap();
    assert_eq!(redis.get::<_, String>("name").unwrap(), "value");
    assert_eq!(redis.incr::<_, _, i64>("count", 5).unwrap(), 5);
    let () = redis.hset_multiple("hash", &[("a", "1"), ("b", "2")]).unwrap();
    let all: Vec<(String, String)> = redis.hgetall("hash").unwrap();
    assert_eq!(all, [("a".into(), "1".into()), ("b".into(), "2".into())]);
    let () = redis.zadd_multiple("set", &[(2.5, "b"), (1.0, "a"), (3.0, "c")]).unwrap();
    let members: Vec<(String, f64)> = redis.zrange_withscores("set", 0, 1).unwrap();
    assert_eq!(members, [("a".into(), 1.0), ("b".into(), 2.5)]);
    let wrong: RedisResult<i64> = redis.incr("hash", 1);
    assert!(wrong.unwrap_err().to_string().contains("WRONGTYPE"));
    running.check();
}

#[test]
fn scanning_sees_every_key_once_or_more() {
    let running = Running::start();
    let mut redis = connect(&running);
    let mut pipe = redis::pipe();
    for key in 0..3000 {
        pipe.set(format!("key:{key}"), key).ignore();
    }
    let () = pipe.query(&mut redis).unwrap();
    let mut keys: Vec<String> = redis.scan().unwrap().map(Result::unwrap).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 3000);
    let some = redis.scan_match::<_, String>("key:29??").unwrap();
    assert_eq!(some.count(), 100);
}

#[test]
fn a_transaction_is_one() {
    let running = Running::start();
    let mut redis = connect(&running);
    let (count, list): (i64, Vec<(String, String)>) = redis::pipe()
        .atomic()
        .incr("count", 1)
        .hset("hash", "field", "value")
        .ignore()
        .hgetall("hash")
        .query(&mut redis)
        .unwrap();
    assert_eq!((count, list), (1, vec![("field".to_owned(), "value".to_owned())]));
}

#[test]
fn watched_keys_keep_increments_from_being_lost() {
    const EACH: u64 = 200;
    let running = Running::with(|options| options.threads(2), 64 << 20);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut redis = connect(&running);
                for _ in 0..EACH {
                    increment_watched(&mut redis);
                }
            });
        }
    });
    assert_eq!(connect(&running).get::<_, u64>("count").unwrap(), 4 * EACH);
}

/// Reads, adds and writes, unless somebody else wrote in between: then again.
fn increment_watched(redis: &mut Connection) {
    loop {
        let () = redis::cmd("WATCH").arg("count").query(redis).unwrap();
        let count: Option<u64> = redis.get("count").unwrap();
        let mut pipe = redis::pipe();
        let pipe = pipe.atomic().set("count", count.unwrap_or(0) + 1);
        let done: Option<Vec<String>> = pipe.query(redis).unwrap();
        if done.is_some() {
            return;
        }
    }
}

#[test]
fn many_clients_on_many_threads() {
    const EACH: i64 = 500;
    let running = Running::with(|options| options.threads(3), 64 << 20);
    std::thread::scope(|scope| {
        for client in 0..8 {
            let running = &running;
            scope.spawn(move || {
                let mut redis = connect(running);
                for turn in 0..EACH {
                    let () = redis.incr("shared", 1).unwrap();
                    let () = redis.hset(format!("own:{client}"), turn, client).unwrap();
                }
            });
        }
    });
    let mut redis = connect(&running);
    assert_eq!(redis.get::<_, i64>("shared").unwrap(), 8 * EACH);
    for client in 0..8 {
        assert_eq!(redis.hlen::<_, i64>(format!("own:{client}")).unwrap(), EACH);
    }
    running.check();
}

#[test]
fn databases_are_apart() {
    let running = Running::start();
    let mut redis = connect(&running);
    let () = redis.set("key", "zero").unwrap();
    let () = redis::cmd("SELECT").arg(5).query(&mut redis).unwrap();
    assert_eq!(redis.get::<_, Option<String>>("key").unwrap(), None);
    let () = redis.set("key", "five").unwrap();
    let () = redis::cmd("FLUSHDB").query(&mut redis).unwrap();
    let () = redis::cmd("SELECT").arg(0).query(&mut redis).unwrap();
    assert_eq!(redis.get::<_, String>("key").unwrap(), "zero");
}
