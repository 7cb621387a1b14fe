//! One node.

use crate::Random;
use crate::load::Worker;
use crate::server::{Server, until};
use perdura_testing::times;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

#[test]
fn acknowledged_data_outlives_kills() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Random::new("kills of one node");
    let mut server = Server::with_module(folder.path(), &[]);
    let mut workers: Vec<Worker> = (0..6).map(|name| Worker::new(name, 0)).collect();
    let mut steps = 0;
    for round in 0..times(8) {
        let ends = AtomicBool::new(false);
        steps += thread::scope(|scope| {
            let running: Vec<_> = workers
                .iter_mut()
                .map(|worker| {
                    let mut client = server.client();
                    let ends = &ends;
                    scope.spawn(move || worker.work(&mut client, ends))
                })
                .collect();
            thread::sleep(Duration::from_millis(20 + random.below(300)));
            server.kill();
            ends.store(true, Ordering::Relaxed);
            running.into_iter().map(|one| one.join().expect("a worker")).sum::<usize>()
        });
        server.restart();
        let mut client = server.client();
        println!("round {round}: {steps} steps so far");
        workers.iter_mut().for_each(|worker| worker.check(&mut client));
    }
    assert!(steps > 100, "only {steps} steps");
}

#[test]
fn ordinary_commands_are_the_modules() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::with_module(folder.path(), &["--notify-keyspace-events", "KEA"]);
    let mut client = server.client();
    let script = [
        ("set a 1 px 100000000", "Text(\"OK\")"),
        ("append a 2", "Number(2)"),
        ("hset h f v g w", "Number(2)"),
        ("zadd z 1 m 2 n", "Number(2)"),
        ("rpush l 1 2 3", "Number(3)"),
        ("sadd s 5", "Number(1)"),
        ("xadd x 1-1 f v", "Text(\"1-1\")"),
        (
            "lpush a 1",
            "Error(\"WRONGTYPE Operation against a key holding the wrong kind of value\")",
        ),
        ("type x", "Text(\"stream\")"),
        ("dbsize", "Number(6)"),
        ("scan 0 type hash", "List([Text(\"0\"), List([Text(\"h\")])])"),
        ("rename h hh", "Text(\"OK\")"),
        ("del a a nothing", "Number(1)"),
        ("dbsize", "Number(5)"),
        ("set e 1 px 60", "Text(\"OK\")"),
        ("select 3", "Text(\"OK\")"),
        ("set other 1", "Text(\"OK\")"),
        ("copy other b", "Number(1)"),
        ("select 0", "Text(\"OK\")"),
        (
            "perdura.apply 1:1 perdura.set a 2",
            "Error(\"ERR perdura.apply is what masters send to their replicas\")",
        ),
        ("bogus", "Error(\"ERR unknown command 'bogus', with args beginning with:\")"),
        ("get", "Error(\"ERR wrong number of arguments for 'get' command\")"),
        ("blpop none 0.01", "Nil"),
        ("object encoding l", "Text(\"listpack\")"),
    ];
    for (command, reply) in script {
        assert_eq!(format!("{:?}", client.run(command)), reply, "{command}");
    }
    // The host deletes what has expired, and the pool follows.
    until("a key expires", || client.run("dbsize").number() == 5);
    assert_eq!(client.run("keys e").list(), []);
    // DUMP is the host's form, which RESTORE and MIGRATE send to other nodes.
    let mut other = Server::with_module(folder.path(), &[]);
    let port = other.port.to_string();
    let migrate = format!("migrate 127.0.0.1 {port} hh 0 5000");
    assert_eq!(client.run(&migrate).text(), "OK");
    assert_eq!(client.run("exists hh").number(), 0);
    other.kill();
    other.restart();
    assert_eq!(other.client().run("hget hh g").text(), "w");
    // All that is left is there again after a kill; FLUSHALL is durable as well.
    server.kill();
    server.restart();
    let mut client = server.client();
    assert_eq!(client.run("dbsize").number(), 4);
    assert_eq!(client.run("lrange l 0 -1").list().len(), 3);
    assert_eq!(client.run("flushall").text(), "OK");
    server.kill();
    server.restart();
    let mut client = server.client();
    assert_eq!(client.run("dbsize").number() + client.run("keys *").list().len() as i64, 0);
}

/// A client's WATCH notices what the module writes, and a waiting client is served.
#[test]
fn watching_and_waiting_clients_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::with_module(folder.path(), &[]);
    let (mut a, mut b) = (server.client(), server.client());
    for (write, is_aborted) in
        [("set k 1", true), ("get k", false), ("del none", false), ("hset h f v", false)]
    {
        a.run("watch k");
        a.run("multi");
        b.run(write);
        a.run("incr n");
        assert_eq!(a.run("exec") == crate::client::Value::Nil, is_aborted, "{write}");
    }
    a.send(&["blpop", "l", "m", "20"]).expect("sent");
    thread::sleep(Duration::from_millis(100));
    assert_eq!(b.run("rpush m x y").number(), 2);
    assert_eq!(format!("{:?}", a.receive().expect("a reply")), "List([Text(\"m\"), Text(\"x\")])");
    assert_eq!(b.run("llen m").number(), 1);
    a.send(&["bzpopmin", "z", "20"]).expect("sent");
    thread::sleep(Duration::from_millis(100));
    b.run("multi");
    b.run("zadd z 1 a");
    b.run("zadd z 2 b");
    b.run("exec");
    assert_eq!(a.receive().expect("a reply").list().len(), 3);
}

#[test]
fn events_of_keys_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::with_module(folder.path(), &["--notify-keyspace-events", "KEA"]);
    let (mut listener, mut client) = (server.client(), server.client());
    listener.run("psubscribe __keyevent@0__:*");
    for command in [
        "set a 1 ex 100",
        "set a 1 ex 100",
        "incr a",
        "append a 1",
        "get a",
        "rpush l 1",
        "sadd s 1",
        "hset h f v",
        "zadd z 1 m",
        "del none",
        "xadd x * f v",
        "rename a b",
        "srem s 1",
        "set e 1 px 20",
    ] {
        client.run(command);
    }
    let mut told = String::new();
    while !told.ends_with("expired e, ") {
        let message = listener.receive().expect("an event").list();
        let [_, _, channel, key] = <[_; 4]>::try_from(message).expect("four parts");
        told +=
            &format!("{} {}, ", channel.text().trim_start_matches("__keyevent@0__:"), key.text());
    }
    assert_eq!(
        told,
        "set a, expire a, set a, expire a, incrby a, append a, rpush l, sadd s, hset h, zadd z, xadd x, \
         rename_from a, rename_to b, srem s, del s, set e, expire e, expired e, "
    );
}

/// Replies that wait for a client to read them are no hindrance, for it or for others.
#[test]
fn a_client_that_does_not_read_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::with_module(folder.path(), &[]);
    let (mut idle, mut other) = (server.client(), server.client());
    let large = "v".repeat(200_000);
    other.run(&format!("set large {large}"));
    for number in 0..100 {
        idle.send(&["get", "large"]).expect("sent");
        idle.send(&["incr", "n"]).expect("sent");
        idle.send(&["multi"]).expect("sent");
        idle.send(&["incr", "m"]).expect("sent");
        idle.send(&["get", "large"]).expect("sent");
        idle.send(&["exec"]).expect("sent");
        assert_eq!(other.run("incr o").number(), number + 1);
    }
    for number in 1..=100 {
        assert_eq!(idle.receive().expect("a reply").text(), large);
        assert_eq!(idle.receive().expect("a reply").number(), number);
        (0..3).for_each(|_| drop(idle.receive().expect("a reply")));
        assert_eq!(idle.receive().expect("a reply").list()[0].clone().number(), number);
    }
    // The host's own commands, which tell of the pool, and change it.
    for round in 0..30 {
        for request in [
            &["get", "large"][..],
            &["append", "tail", "1"],
            &["dbsize"],
            &["dump", "tail"],
            &["watch", "tail"],
            &["multi"],
            &["dbsize"],
            &["exec"],
            &["select", "1"],
            &["set", "a", "1"],
            &["flushdb"],
            &["select", "0"],
        ] {
            idle.send(request).expect("sent");
        }
        assert_eq!(other.run("append length 1").number(), round + 1);
    }
    for _ in 0..30 {
        for number in 0..12 {
            let reply = idle.receive().expect("a reply");
            assert!(!matches!(reply, crate::client::Value::Error(_)), "{number}: {reply:?}");
        }
    }
    assert_eq!(idle.run("strlen tail").number(), 30);
    server.kill();
    server.restart();
    let mut client = server.client();
    let counts = client.run("mget n m o").list().into_iter().map(crate::client::Value::number);
    assert_eq!(counts.collect::<Vec<_>>(), [100; 3]);
}
