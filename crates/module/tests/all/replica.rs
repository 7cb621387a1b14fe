//! A stock replica with the module.

use crate::Random;
use crate::load::Worker;
use crate::server::{Server, until};
use perdura_testing::times;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

#[test]
fn a_promoted_replica_has_what_was_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Random::new("promotions");
    let mut workers: Vec<Worker> = (0..4).map(|name| Worker::new(name, 1)).collect();
    let mut master = Server::with_module(folder.path(), &[]);
    let mut client = master.client();
    for key in 0..2000 {
        client.run(&format!("hset old:{key} f {key} g {key}"));
    }
    client.run("set expiring 1 pxat 9000000000000");
    for round in 0..times(4) {
        // The new one joins while there is load: what is written during its copy must be there once.
        let port = master.port.to_string();
        let mut replica = Server::with_module(folder.path(), &["--replicaof", "127.0.0.1", &port]);
        let ends = AtomicBool::new(false);
        let steps = thread::scope(|scope| {
            let running: Vec<_> = workers
                .iter_mut()
                .map(|worker| {
                    let mut client = master.client();
                    let ends = &ends;
                    scope.spawn(move || worker.work(&mut client, ends))
                })
                .collect();
            until("the replica follows", || {
                let info = replica.client().run("info replication");
                info.text().contains("master_link_status:up")
            });
            thread::sleep(Duration::from_millis(100 + random.below(400)));
            ends.store(true, Ordering::Relaxed);
            master.kill();
            running.into_iter().map(|one| one.join().expect("a worker")).sum::<usize>()
        });
        println!("round {round}: {steps} steps");
        assert_eq!(replica.client().run("replicaof no one").text(), "OK");
        let mut client = replica.client();
        workers.iter_mut().for_each(|worker| worker.check(&mut client));
        // It has its own pool, which outlives it.
        replica.forget_master();
        replica.kill();
        replica.restart();
        let mut client = replica.client();
        for key in 0..2000 {
            assert_eq!(client.run(&format!("hget old:{key} g")).number(), key);
        }
        assert_eq!(client.run("pexpiretime expiring").number(), 9_000_000_000_000);
        master = replica;
    }
}

/// A node that is killed while it takes its master's keys does not serve a part of them as if it had all.
#[test]
fn a_part_of_a_copy_is_not_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let master = Server::with_module(folder.path(), &[]);
    let mut client = master.client();
    // More than what is kept in memory until the copy is whole and durable.
    let mut random = Random::new("values");
    for key in 0..2000 {
        // What cannot be compressed.
        let value: String =
            (0..20_000).map(|_| char::from(b'!' + random.below(90) as u8)).collect();
        client.run(&format!("set key:{key} {value}"));
    }
    let port = master.port.to_string();
    // Each key takes a while.
    let slow = ["--key-load-delay", "200", "--replicaof", "127.0.0.1", &port];
    let mut replica = Server::with_module(folder.path(), &slow);
    let has_most = |replica: &Server| {
        let info = replica.client().run("info persistence").text();
        let share = info.lines().find_map(|line| line.strip_prefix("loading_loaded_perc:"));
        share.is_some_and(|share| share.trim().parse::<f64>().is_ok_and(|share| share > 80.0))
    };
    until("a part is here", || has_most(&replica));
    replica.kill();
    // As a replica it begins anew.
    replica.restart();
    until("a part is here", || has_most(&replica));
    replica.kill();
    let (own_port, own_folder) = (replica.port, replica.folder.clone());
    replica.forget_master();
    replica.spawn();
    assert!(replica.ended());
    assert!(replica.logged().contains("has a part of a copy"), "{}", replica.logged());
    // By the operator's word it serves the part; here it becomes whole as a replica.
    replica.add_options(&["--replicaof", "127.0.0.1", &port, "--key-load-delay", "0"]);
    replica.restart();
    until("it is whole", || {
        let mut client = replica.client();
        client.run("info replication").text().contains("master_link_status:up")
            && client.run("dbsize").number() == 2000
    });
    replica.forget_master();
    replica.kill();
    replica.restart();
    assert_eq!(replica.client().run("strlen key:1999").number(), 20_000);
    assert_eq!((own_port, own_folder), (replica.port, replica.folder.clone()));
}

/// Libraries of functions are there after a kill, on the replica too, and after it has become the master.
#[test]
fn functions_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut master = Server::with_module(folder.path(), &[]);
    let library = |name: &str, number: u32| {
        format!(
            "#!lua name={name}\nredis.register_function('{name}', function() return {number} end)"
        )
    };
    let load = |server: &Server, code: &str| {
        let loaded = server.client().ask(&["function", "load", "replace", code]);
        assert!(matches!(loaded.expect("a reply"), crate::client::Value::Text(_)));
    };
    load(&master, &library("a", 1));
    load(&master, &library("b", 2));
    load(&master, &library("a", 3));
    master.kill();
    master.restart();
    assert_eq!(master.client().run("fcall a 0").number(), 3);
    let port = master.port.to_string();
    let mut replica = Server::with_module(folder.path(), &["--replicaof", "127.0.0.1", &port]);
    until("the replica follows", || {
        replica.client().run("info replication").text().contains("master_link_status:up")
    });
    // In a transaction, too; the first comes with the copy.
    let mut client = master.client();
    client.run("multi");
    client.run("function delete b");
    client.ask(&["function", "load", &library("c", 4)]).expect("a reply");
    client.run("set a 1");
    client.run("exec");
    assert_eq!(client.run("wait 1 5000").number(), 1);
    replica.kill();
    master.kill();
    replica.forget_master();
    replica.restart();
    master.restart();
    for server in [&master, &replica] {
        let mut client = server.client();
        assert_eq!(client.run("fcall a 0").number() + client.run("fcall c 0").number(), 7);
        assert!(format!("{:?}", client.run("fcall b 0")).contains("not found"));
    }
    master.client().run("function flush");
    master.kill();
    master.restart();
    assert_eq!(master.client().run("function list").list(), []);
}

/// Streams are trimmed by whole blocks, which a replica may have others of.
#[test]
fn trimmed_streams_stay_equal() {
    let folder = tempfile::tempdir().expect("a folder");
    let master = Server::with_module(folder.path(), &["--stream-node-max-entries", "10"]);
    let port = master.port.to_string();
    let options = ["--stream-node-max-entries", "64", "--replicaof", "127.0.0.1", &port];
    let replica = Server::with_module(folder.path(), &options);
    until("the replica follows", || {
        replica.client().run("info replication").text().contains("master_link_status:up")
    });
    let mut client = master.client();
    for number in 1..300 {
        client.run(&format!("xadd a maxlen ~ 55 {number}-1 f v"));
        client.run(&format!("XADD b MINID ~ {} LIMIT 30 {number}-1 f v", (number - 55).max(0)));
        client.run(&format!("xadd c {number}-1 ~ v"));
        client.run("multi");
        client.run(&format!("xadd d {number}-1 f v"));
        client.run("xtrim d maxlen ~ 33 limit 20");
        client.run("exec");
    }
    assert_eq!(client.run("wait 1 5000").number(), 1);
    let mut follower = replica.client();
    for key in ["a", "b", "c", "d"] {
        let range = format!("xrange {key} - +");
        let len = client.run(&format!("xlen {key}")).number();
        println!("{key} has {len} entries");
        assert!((30..=300).contains(&len) && (key == "c") == (len == 299), "{key}: {len}");
        assert_eq!(client.run(&range), follower.run(&range), "{key}");
    }
}

/// An EXEC may be open when a node becomes a master.
#[test]
fn a_replica_is_promoted_in_an_exec() {
    let folder = tempfile::tempdir().expect("a folder");
    let master = Server::with_module(folder.path(), &[]);
    let mut client = master.client();
    client.run("set a 1");
    let port = master.port.to_string();
    let mut replica = Server::with_module(folder.path(), &["--replicaof", "127.0.0.1", &port]);
    until("the replica follows", || {
        replica.client().run("info replication").text().contains("master_link_status:up")
    });
    let mut client = replica.client();
    for command in ["multi", "get a", "replicaof no one", "get a"] {
        client.run(command);
    }
    let replies = client.run("exec").list();
    assert_eq!(format!("{replies:?}"), "[Text(\"1\"), Text(\"OK\"), Text(\"1\")]");
    client.run("set b 2");
    replica.forget_master();
    replica.kill();
    replica.restart();
    assert_eq!(replica.client().run("get b").number(), 2);
}

/// Elements of a set that weigh the same have another order on a replica that was given the set as a whole.
#[test]
fn sorted_lists_are_equal() {
    let folder = tempfile::tempdir().expect("a folder");
    let master = Server::with_module(folder.path(), &[]);
    let mut client = master.client();
    let members = |keep: u32| {
        let mut members = String::new();
        (0..6000)
            .filter(|at| at % 3 >= keep)
            .for_each(|at| members += &format!(" m:{}", at * 7919 % 6000));
        members
    };
    client.run(&format!("sadd s{}", members(0)));
    client.run(&format!("srem s{}", members(1)));
    let port = master.port.to_string();
    let replica = Server::with_module(folder.path(), &["--replicaof", "127.0.0.1", &port]);
    until("the replica follows", || {
        replica.client().run("info replication").text().contains("master_link_status:up")
    });
    client.run("set weight:store 1");
    for command in [
        "sort s by weight:store store list",
        "sort s STORE limited BY none* limit 3 40 alpha",
        "sort s by none* alpha get store get # store store",
        "sort nothing store list:2",
    ] {
        client.run(command);
    }
    client.run("multi");
    client.run("rpush replaced 1");
    client.run("sort s by nosort store replaced");
    client.run("sort nothing store list");
    client.run("exec");
    assert_eq!(client.run("wait 1 5000").number(), 1);
    let mut follower = replica.client();
    for (key, len) in [("list", 0), ("limited", 40), ("replaced", 2000), ("store", 4000)] {
        let own = client.run(&format!("lrange {key} 0 -1"));
        assert_eq!(own, follower.run(&format!("lrange {key} 0 -1")), "{key}");
        assert_eq!(own.list().len(), len, "{key}");
    }
}

/// A library that is loaded behind a blocking command is kept when it is acknowledged.
#[test]
fn functions_behind_a_wait_are_kept_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::with_module(folder.path(), &[]);
    let mut client = server.client();
    let mut kept = Vec::new();
    for round in 0..10 {
        let name = format!("f{round}");
        let code = format!(
            "#!lua name={name}\nredis.register_function('{name}', function() return 1 end)"
        );
        let requests = [
            ["blpop", "none", "0.02"].map(str::to_owned).to_vec(),
            ["function", "load", &code].map(str::to_owned).to_vec(),
        ];
        client.send_all(requests.iter()).expect("sent");
        client.receive().expect("a reply");
        match client.receive().expect("a reply") {
            crate::client::Value::Error(why) => assert!(why.contains("send it again"), "{why}"),
            _ => kept.push(name),
        }
        server.kill();
        server.restart();
        client = server.client();
    }
    let list = format!("{:?}", client.run("function list"));
    println!("{} of 10 were acknowledged", kept.len());
    assert!(kept.iter().all(|name| list.contains(&format!("\"{name}\""))), "{kept:?}: {list}");
    let code = "#!lua name=g\nredis.register_function('g', function() return 1 end)";
    assert_eq!(client.ask(&["function", "load", code]).expect("a reply").text(), "g");
}
