//! Sentinel, and TLS between nodes.

use crate::client::Client;
use crate::load::Worker;
use crate::server::{Server, cli, port, program, until};
use perdura_testing::times;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A Sentinel, killed when it is dropped.
struct Sentinel {
    port: u16,
    child: Child,
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Sentinel {
    fn start(folder: &Path, master: u16) -> Self {
        let port = port();
        let file = folder.join(format!("sentinel-{port}.conf"));
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor it 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds it 1000\nsentinel failover-timeout it 6000\n",
            folder.display()
        );
        fs::write(&file, text).expect("a file");
        let mut command = Command::new(program());
        let child = command.arg(&file).arg("--sentinel").stdout(Stdio::null()).spawn();
        let sentinel = Sentinel { port, child: child.expect("a Sentinel") };
        until("a Sentinel answers", || Client::connect(port).is_ok());
        sentinel
    }

    fn ask(&self, words: &str) -> String {
        format!("{:?}", Client::connect(self.port).expect("a connection").run(words))
    }

    /// The port of the master, as it says.
    fn master(&self) -> u16 {
        let answer = self.ask("sentinel get-master-addr-by-name it");
        let digits = answer.rsplit('"').find_map(|part| part.parse().ok());
        digits.unwrap_or_else(|| panic!("no port: {answer}"))
    }
}

/// A master and two replicas: the master is killed under load, one of the replicas takes its place, the other follows it, and
/// the old one comes back as a replica. Sentinel chooses the replica that has more: what one of them has confirmed is there.
#[test]
fn sentinel_fails_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut master = Server::with_module(folder.path(), &[]);
    let first = master.port.to_string();
    let options = ["--replicaof", "127.0.0.1", &first];
    let mut replicas = vec![
        Server::with_module(folder.path(), &options),
        Server::with_module(folder.path(), &options),
    ];
    replicas.iter_mut().for_each(Server::forget_master);
    let sentinels = [(); 3].map(|()| Sentinel::start(folder.path(), master.port));
    let mut workers: Vec<Worker> = (0..3).map(|name| Worker::new(name, 1)).collect();
    for round in 0..times(2) {
        for sentinel in &sentinels {
            until("Sentinel knows all", || {
                let all = sentinel.ask("sentinel master it");
                let has = |name: &str, count: &str| {
                    let after = all.split(&format!("\"{name}\"")).nth(1).unwrap_or_default();
                    after.split('"').nth(1) == Some(count)
                };
                has("num-slaves", "2") && has("num-other-sentinels", "2") && has("flags", "master")
            });
        }
        for replica in &replicas {
            until("a replica follows", || {
                let info = replica.client().run("info replication").text();
                info.contains("master_link_status:up")
            });
        }
        let ends = AtomicBool::new(false);
        let steps = thread::scope(|scope| {
            let running: Vec<_> = workers
                .iter_mut()
                .map(|worker| {
                    let (mut client, ends) = (master.client(), &ends);
                    scope.spawn(move || worker.work(&mut client, ends))
                })
                .collect();
            thread::sleep(Duration::from_millis(500));
            master.kill();
            ends.store(true, Ordering::Relaxed);
            running.into_iter().map(|one| one.join().expect("a worker")).sum::<usize>()
        });
        assert!(steps > 0);
        let old = master.port;
        until("another master", || {
            let said = sentinels.each_ref().map(Sentinel::master);
            said[0] != old && said.iter().all(|one| *one == said[0])
        });
        let new = sentinels[0].master();
        let at = replicas.iter().position(|one| one.port == new).expect("a replica");
        let promoted = replicas.remove(at);
        until("it leads", || {
            promoted.client().run("info replication").text().contains("role:master")
        });
        println!("round {round}: {steps} steps, then {new}");
        let mut client = promoted.client();
        workers.iter_mut().for_each(|worker| worker.check(&mut client));
        // The old one comes back.
        master.restart();
        replicas.push(std::mem::replace(&mut master, promoted));
        let leads = format!("master_port:{new}");
        for replica in &replicas {
            until("a replica follows the new master", || {
                let info = replica.client().run("info replication").text();
                info.contains(&leads) && info.contains("master_link_status:up")
            });
        }
        assert_eq!(client.run("set after 1").text(), "OK");
        assert_eq!(client.run("wait 2 20000").number(), 2);
        for replica in &replicas {
            let mut other = replica.client();
            for worker in &workers {
                assert_eq!(worker.seen(&mut other), worker.seen(&mut client));
            }
        }
    }
}

/// A replica takes the copy, and what follows it, by TLS, with certificates on both sides.
#[test]
fn nodes_speak_tls() {
    if !cli(&["--help"]).1.contains("--tls") {
        println!("skipped: the stock server has no TLS");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let by_tls = port().to_string();
    let path =
        |name: &str| format!("{}/../server/tests/certificates/{name}", env!("CARGO_MANIFEST_DIR"));
    let own = |name: &str| {
        [
            "--tls-replication".to_owned(),
            "yes".to_owned(),
            "--tls-cert-file".to_owned(),
            path(&format!("{name}.pem")),
            "--tls-key-file".to_owned(),
            path(&format!("{name}.key")),
            "--tls-ca-cert-file".to_owned(),
            path("ca.pem"),
        ]
    };
    let start = |name: &str, more: &[&str]| {
        let own = own(name);
        let options: Vec<&str> =
            own.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Server::with_module(folder.path(), &options)
    };
    let mut master = start("server", &["--tls-port", &by_tls]);
    let mut client = master.client();
    for key in 0..2000 {
        client.run(&format!("hset old:{key} f {key} g {key}"));
    }
    let mut replica = start("client", &["--replicaof", "127.0.0.1", &by_tls]);
    let stranger = start("stranger", &["--replicaof", "127.0.0.1", &by_tls]);
    let mut worker = Worker::new(0, 1);
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let (mut client, ends) = (master.client(), &ends);
        let (working, replica) = (&mut worker, &replica);
        let running = scope.spawn(move || working.work(&mut client, ends));
        until("the replica follows", || {
            let info = replica.client().run("info replication").text();
            info.contains("master_link_status:up")
        });
        thread::sleep(Duration::from_millis(500));
        ends.store(true, Ordering::Relaxed);
        assert!(running.join().expect("a worker") > 0);
    });
    let info = stranger.client().run("info replication").text();
    assert!(info.contains("master_link_status:down"), "{info}");
    assert_eq!(stranger.client().run("dbsize").number(), 0);
    master.kill();
    assert_eq!(replica.client().run("replicaof no one").text(), "OK");
    replica.forget_master();
    replica.kill();
    replica.restart();
    let mut client = replica.client();
    worker.check(&mut client);
    assert_eq!(client.run("hget old:1999 g").number(), 1999);
}
