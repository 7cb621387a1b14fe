//! Three masters and three replicas of stock Redis Cluster, with the module.

use crate::Random;
use crate::client::{Client, ClusterClient, Value};
use crate::load::Worker;
use crate::server::{Server, cli, until};
use perdura_testing::times;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A round's event.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// A master is killed, and its replica takes over; then it is started again.
    Failover,
    /// A node is killed and started again at once.
    Restart,
    /// Slots move from one master to another.
    Move,
    /// All six are killed at once, and started again.
    All,
}

const EVENTS: [Event; 4] = [Event::Failover, Event::Move, Event::All, Event::Restart];

pub(crate) struct Cluster(pub(crate) Vec<Server>);

impl Cluster {
    pub(crate) fn ports(&self) -> Vec<u16> {
        self.0.iter().map(|server| server.port).collect()
    }

    pub(crate) fn client(&self) -> ClusterClient {
        ClusterClient::new(&self.ports())
    }

    /// The lines of CLUSTER NODES that a node has.
    fn nodes(&self) -> Vec<Vec<String>> {
        let port = self.0.iter().find_map(|server| Client::connect(server.port).ok());
        let text = port.expect("a node").run("cluster nodes").text();
        text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    }

    /// The masters that have slots: number and port.
    fn masters(&self) -> Vec<(String, u16)> {
        let is_master = |node: &&Vec<String>| {
            node.len() > 8 && node[2].contains("master") && !node[2].contains("fail")
        };
        let port = |node: &Vec<String>| {
            let address = node[1].split('@').next().expect("an address");
            address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
        };
        self.nodes().iter().filter(is_master).map(|node| (node[0].clone(), port(node))).collect()
    }

    /// How many slots each master has.
    fn slots(&self) -> Vec<(String, u32)> {
        let count = |range: &String| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(last.parse::<u32>().ok()? - first.parse::<u32>().ok()? + 1)
        };
        let nodes = self.nodes();
        let with_slots = nodes.iter().filter(|node| node.len() > 8);
        with_slots.map(|node| (node[0].clone(), node[8..].iter().filter_map(count).sum())).collect()
    }

    fn at(&mut self, port: u16) -> &mut Server {
        self.0.iter_mut().find(|server| server.port == port).expect("a server")
    }

    /// Returns when the host's own check finds nothing, and each master has its replica.
    fn settle(&self) {
        until("a cluster without a fault", || {
            let (is_good, text) =
                cli(&["--cluster", "check", &format!("127.0.0.1:{}", self.0[0].port)]);
            let roles = |role: &str, up: &str| {
                let has = |server: &&Server| {
                    Client::connect(server.port).is_ok_and(|mut client| {
                        let info = client.run("info replication").text();
                        info.contains(role) && info.contains(up)
                    })
                };
                self.0.iter().filter(has).count()
            };
            is_good
                && text.contains("All 16384 slots covered")
                && !text.contains("[WARNING]")
                && roles("role:slave", "master_link_status:up") == 3
                && roles("role:master", "connected_slaves:1") == 3
        });
    }
}

#[test]
fn nothing_acknowledged_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Random::new("a cluster");
    let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1500"];
    let mut cluster =
        Cluster((0..6).map(|_| Server::with_module(folder.path(), &options)).collect());
    let addresses: Vec<String> =
        cluster.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let mut create = vec!["--cluster", "create"];
    create.extend(addresses.iter().map(String::as_str));
    create.extend(["--cluster-replicas", "1", "--cluster-yes"]);
    let (made, text) = cli(&create);
    assert!(made, "{text}");
    cluster.settle();
    // Of the first workers each step is waited for on a replica.
    let mut waiting: Vec<Worker> = (0..6).map(|name| Worker::new(name, 1)).collect();
    let mut hasty: Vec<Worker> = (6..12).map(|name| Worker::new(name, 0)).collect();
    for round in 0..times(4) {
        let event = match round {
            0..4 => EVENTS[round as usize],
            _ => EVENTS[random.below(4) as usize],
        };
        let ends = AtomicBool::new(false);
        let steps = thread::scope(|scope| {
            let running: Vec<_> = waiting
                .iter_mut()
                .chain(&mut hasty)
                .map(|worker| {
                    let (mut client, ends) = (cluster.client(), &ends);
                    scope.spawn(move || worker.work(&mut client, ends))
                })
                .collect();
            thread::sleep(Duration::from_millis(300 + random.below(500)));
            make_happen(event, &mut cluster, &mut random);
            thread::sleep(Duration::from_millis(300));
            ends.store(true, Ordering::Relaxed);
            running.into_iter().map(|one| one.join().expect("a worker")).sum::<usize>()
        });
        println!("round {round}: {event:?}, {steps} steps");
        cluster.settle();
        let mut client = cluster.client();
        waiting.iter_mut().for_each(|worker| worker.check(&mut client));
        for worker in &mut hasty {
            match event {
                Event::Failover => worker.forget(&mut client),
                Event::Restart | Event::Move | Event::All => worker.check(&mut client),
            }
        }
        compare_replicas(&cluster, &waiting);
    }
}

/// What Redis deletes since its slot has moved, the pool deletes.
#[test]
fn keys_of_a_slot_that_moved_meanwhile_are_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1500"];
    let mut old = Server::with_module(folder.path(), &options);
    let new = Server::with_module(folder.path(), &options);
    old.client().run("cluster addslotsrange 0 16383");
    old.client().run(&format!("cluster meet 127.0.0.1 {}", new.port));
    until("two nodes", || {
        new.client().run("cluster info").text().contains("cluster_slots_ok:16384")
    });
    let slot = old.client().run("cluster keyslot moved").number();
    for key in ["moved", "stays"] {
        until("a cluster", || {
            old.client().run(&format!("set {key} 1")) == Value::Text("OK".to_owned())
        });
    }
    old.kill();
    let id = new.client().run("cluster myid").text();
    let set = new.client().run(&format!("cluster setslot {slot} node {id}"));
    assert_eq!(set.text(), "OK");
    new.client().run("cluster bumpepoch");
    old.restart();
    until("the old node hears of it", || old.client().run("dbsize").number() == 1);
    old.kill();
    old.restart();
    assert_eq!(old.client().run("keys *"), Value::List(vec![Value::Text("stays".to_owned())]));
}

fn make_happen(event: Event, cluster: &mut Cluster, random: &mut Random) {
    let masters = cluster.masters();
    let (_, port) = masters[random.below(masters.len() as u64) as usize].clone();
    match event {
        Event::Failover => {
            cluster.at(port).kill();
            until("a failover", || {
                let masters = cluster.masters();
                masters.len() == 3 && masters.iter().all(|master| master.1 != port)
            });
            cluster.at(port).restart();
        }
        Event::Restart => {
            let server = random.below(6) as usize;
            cluster.0[server].kill();
            cluster.0[server].restart();
        }
        Event::Move => {
            // From the one with the most slots: a master that has none left becomes a replica.
            let slots = cluster.slots();
            let (id, _) = slots.iter().max_by_key(|(_, count)| *count).expect("masters");
            let (to, _) = slots.iter().min_by_key(|(_, count)| *count).expect("masters");
            let address = format!("127.0.0.1:{port}");
            let (moved, text) = cli(&[
                "--cluster",
                "reshard",
                &address,
                "--cluster-from",
                id,
                "--cluster-to",
                to,
                "--cluster-slots",
                "1500",
                "--cluster-yes",
            ]);
            assert!(moved, "{text}");
        }
        Event::All => {
            cluster.0.iter_mut().for_each(Server::kill);
            cluster.0.iter_mut().for_each(Server::spawn);
            cluster.0.iter_mut().for_each(Server::wait);
        }
    }
}

/// Each replica has what its master has.
fn compare_replicas(cluster: &Cluster, workers: &[Worker]) {
    for server in &cluster.0 {
        let mut replica = server.client();
        let info = replica.run("info replication").text();
        let Some(port) = info.lines().find_map(|line| line.strip_prefix("master_port:")) else {
            continue;
        };
        let mut master = Client::connect(port.trim().parse().expect("a port")).expect("a master");
        replica.run("readonly");
        until("a replica is equal", || {
            replica.run("dbsize") == master.run("dbsize")
                && workers
                    .iter()
                    .all(|worker| worker.seen(&mut replica) == worker.seen(&mut master))
        });
    }
}
