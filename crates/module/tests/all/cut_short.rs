//! Crashes at bad moments of a cluster: while slots move, and of a master whose replica has missed something.

use crate::Random;
use crate::client::Value;
use crate::cluster::Cluster;
use crate::server::{Server, cli, until};
use perdura_testing::times;
use std::thread;
use std::time::Duration;

const OPTIONS: [&str; 4] = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1500"];

/// Either node is killed while slots move from one to the other. Then `redis-cli --cluster fix` makes the cluster whole,
/// with all keys.
#[test]
fn a_move_of_slots_that_is_cut_short_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Random::new("moves that are cut short");
    let mut cluster =
        Cluster((0..2).map(|_| Server::with_module(folder.path(), &OPTIONS)).collect());
    cluster.0[0].client().run("cluster addslotsrange 0 16383");
    cluster.0[0].client().run(&format!("cluster meet 127.0.0.1 {}", cluster.0[1].port));
    let is_whole = |cluster: &Cluster| {
        cluster.0.iter().all(|server| {
            let info = server.client().run("cluster info").text();
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2")
        })
    };
    until("a cluster", || is_whole(&cluster));
    let mut client = cluster.client();
    for key in 0..600 {
        let set = client.all(&[&["set", &format!("{{{}}}:{key}", key % 200), &key.to_string()]]);
        assert_eq!(set, Some(vec![Value::Text("OK".to_owned())]));
    }
    let ids: Vec<String> =
        cluster.0.iter().map(|server| server.client().run("cluster myid").text()).collect();
    for round in 0..times(4) {
        let (from, to) = (round as usize % 2, (round as usize + 1) % 2);
        let address = format!("127.0.0.1:{}", cluster.0[from].port);
        let (from_id, to_id) = (ids[from].clone(), ids[to].clone());
        let mover = thread::spawn(move || {
            cli(&[
                "--cluster",
                "reshard",
                &address,
                "--cluster-from",
                &from_id,
                "--cluster-to",
                &to_id,
                "--cluster-slots",
                "3000",
                "--cluster-yes",
            ])
        });
        thread::sleep(Duration::from_millis(100 + random.below(500)));
        let victim = random.below(2) as usize;
        cluster.0[victim].kill();
        let (was_moved, _) = mover.join().expect("redis-cli");
        cluster.0[victim].restart();
        let address = format!("127.0.0.1:{}", cluster.0[0].port);
        let mut told = String::new();
        until("a cluster that is mended", || {
            let mended;
            (mended, told) = cli(&["--cluster", "fix", &address]);
            mended && is_whole(&cluster) && cli(&["--cluster", "check", &address]).0
        });
        println!("round {round}: moved: {was_moved}, node {victim} killed");
        let mut client = cluster.client();
        for key in 0..600 {
            let name = format!("{{{}}}:{key}", key % 200);
            let found = client.all(&[&["get", &name]]).expect("a reply");
            assert_eq!(found, [Value::Text(key.to_string())], "{name}\n{told}");
        }
    }
}

/// A replica that was down while its master went on is not elected when the master is killed: the cluster waits for the
/// master, which has all.
#[test]
fn a_stale_replica_is_not_elected() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut cluster =
        Cluster((0..4).map(|_| Server::with_module(folder.path(), &OPTIONS)).collect());
    let addresses: Vec<String> =
        cluster.ports()[..3].iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let mut create = vec!["--cluster", "create"];
    create.extend(addresses.iter().map(String::as_str));
    create.push("--cluster-yes");
    let (made, text) = cli(&create);
    assert!(made, "{text}");
    let own = format!("127.0.0.1:{}", cluster.0[3].port);
    let added = cli(&["--cluster", "add-node", &own, &addresses[0], "--cluster-slave"]);
    assert!(added.0, "{}", added.1);
    // The replica's master.
    let mut master = 0;
    until("the replica follows", || {
        let info = cluster.0[3].client().run("info replication").text();
        let port = info.lines().find_map(|line| line.strip_prefix("master_port:"));
        let port = port.and_then(|port| port.trim().parse::<u16>().ok());
        master = cluster.0.iter().position(|server| Some(server.port) == port).unwrap_or(0);
        port.is_some() && info.contains("master_link_status:up")
    });
    let mut client = cluster.0[master].client();
    let key = (0..)
        .map(|number| format!("key{number}"))
        .find(|key| client.run(&format!("set {key} 1")) == Value::Text("OK".to_owned()));
    let key = key.expect("a key of this master");
    assert_eq!(client.run("wait 1 5000").number(), 1);
    cluster.0[3].kill();
    assert_eq!(client.run(&format!("set {key} 2")).text(), "OK");
    cluster.0[master].kill();
    cluster.0[3].restart();
    // Time enough for an election.
    thread::sleep(Duration::from_secs(6));
    let role = cluster.0[3].client().run("info replication").text();
    assert!(role.contains("role:slave"), "{role}");
    cluster.0[master].restart();
    until("the master is back", || {
        let mut client = cluster.0[master].client();
        client.run(&format!("get {key}")) == Value::Text("2".to_owned())
    });
    until("the replica has it too", || {
        let mut client = cluster.0[3].client();
        client.run("readonly");
        client.run(&format!("get {key}")) == Value::Text("2".to_owned())
    });
}
