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
