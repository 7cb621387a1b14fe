//! A follower becomes the master: by a client's word, and by Sentinel's, as stock `redis-server --sentinel` has it.

use super::Redis;
use super::following::{Killed, client_of, free_address, kept_engine, number};
use crate::common::{Client, Running, await_text};
use perdura_testing::times;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// As [`await_text`], by connections of their own: Sentinel ends those of a server whose role it changes.
fn await_at(port: u16, command: &str, text: &str) {
    let (start, mut last) = (Instant::now(), String::new());
    loop {
        if let Ok(stream) = std::net::TcpStream::connect(("127.0.0.1", port)) {
            drop(stream);
            let mut client = Client::connect(([127, 0, 0, 1], port).into());
            client.send(format!("{command}\r\n").as_bytes());
            last = client
                .receive()
                .map_or("nothing".to_owned(), |answer| crate::common::show(&answer));
        }
        if last.contains(text) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{command} lacks {text:?}: {last}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Writes until the server is gone. Returns the greatest number that a replica has, as WAIT has said, and the last one.
fn write_until_gone(mut client: Client) -> (i64, i64) {
    let (mut kept, mut last) = (0, 0);
    loop {
        client
            .send(b"MULTI\r\nINCR count\r\nRPUSH list x\r\nSADD set a\r\nEXEC\r\nWAIT 1 1000\r\n");
        for part in 0..6 {
            let Some(answer) = client.receive() else { return (kept, last) };
            match part {
                4 => last += 1,
                5 if crate::common::show(&answer) != "0" => kept = last,
                _ => {}
            }
        }
    }
}

#[test]
fn nothing_that_was_waited_for_is_lost_by_promotion() {
    for round in 0..times(3) {
        let Some(redis) = Redis::start_with(&["--repl-diskless-sync-delay", "0"]) else {
            println!("skipped: there is no redis-server");
            return;
        };
        let running = Running::with(|options| options.threads(1 + round as usize % 2), 64 << 20);
        let (mut ours, mut blocked) = (running.client(), running.client());
        // A client that waits to take something.
        blocked.send(b"BLPOP nothing 0\r\n");
        await_text(&mut ours, "INFO clients", "blocked_clients:1");
        assert_eq!(ours.ask(&format!("SLAVEOF 127.0.0.1 {}", redis.port)), "OK");
        let told = crate::common::show(&blocked.receive().unwrap());
        assert!(told.starts_with("UNBLOCKED force unblock from blocking operation"), "{told}");
        await_text(&mut ours, "INFO replication", "master_link_status:up");
        assert_eq!(
            ours.ask(&format!("SLAVEOF 127.0.0.1 {}", redis.port)),
            "OK Already connected to specified master"
        );
        let role = ours.ask("ROLE");
        assert!(role.starts_with(&format!("[slave 127.0.0.1 {} connected ", redis.port)), "{role}");
        for refused in ["SET a 1", "FLUSHALL", "DEL a", "FUNCTION FLUSH"] {
            assert!(ours.ask(refused).starts_with("READONLY You can't write against"), "{refused}");
        }
        assert!(ours.ask("EVAL return(redis.call('set','a','1')) 0").contains("READONLY"));
        assert_eq!(ours.ask("EVAL return(redis.call('exists','a')) 0"), "0");
        assert_eq!(ours.ask("MULTI"), "OK");
        assert!(ours.ask("SET a 1").starts_with("READONLY"));
        assert!(ours.ask("EXEC").starts_with("EXECABORT"));
        assert!(ours.ask("WAIT 1 0").starts_with("ERR WAIT cannot be used with replica instances"));
        // A key that has expired looks gone, and stays until the master says so.
        client_of(&redis).ask("DEBUG SET-ACTIVE-EXPIRE 0");
        client_of(&redis).ask("SET short 1 PX 1");
        let writer = {
            let client = client_of(&redis);
            thread::spawn(move || write_until_gone(client))
        };
        thread::sleep(Duration::from_millis(300));
        assert_eq!(ours.ask("GET short"), "nil");
        drop(redis);
        let (kept, last) = writer.join().unwrap();
        await_text(&mut ours, "INFO replication", "master_link_status:down");
        // As Sentinel does.
        for command in ["MULTI", "SLAVEOF NO ONE", "CONFIG REWRITE", "CLIENT KILL TYPE normal"] {
            ours.ask(command);
        }
        let done = ours.ask("EXEC");
        assert!(done.starts_with("[OK "), "{done}");
        let count: i64 = ours.ask("GET count").parse().unwrap();
        println!("{kept} waited for, {count} there, {last} in all");
        assert!(kept > 0 && count >= kept, "{count} of {kept}");
        assert_eq!(ours.ask("LLEN list"), count.to_string());
        assert_eq!(ours.ask("INCR count"), (count + 1).to_string());
        let info = ours.ask("INFO replication");
        assert!(info.contains("role:master"), "{info}");
        // It is still its own after a restart.
        drop((ours, blocked));
        let running = running.restarted();
        let mut ours = running.client();
        assert!(ours.ask("ROLE").starts_with("[master "));
        assert_eq!(ours.ask("INCR count"), (count + 2).to_string());
        running.check();
    }
}

/// A Sentinel.
struct Sentinel {
    child: Child,
    address: SocketAddr,
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Sentinel {
    fn start(folder: &Path, master: SocketAddr) -> Self {
        let address = free_address();
        let file = folder.join(format!("sentinel-{}.conf", address.port()));
        let text = format!(
            "port {}\nbind 127.0.0.1\ndir {}\nsentinel monitor it 127.0.0.1 {} 2\n\
             sentinel down-after-milliseconds it 2500\nsentinel failover-timeout it 6000\n\
             sentinel parallel-syncs it 1\n",
            address.port(),
            folder.display(),
            master.port()
        );
        std::fs::write(&file, text).unwrap();
        let child = Command::new("redis-server")
            .arg(&file)
            .arg("--sentinel")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "no Sentinel");
            thread::sleep(Duration::from_millis(20));
        }
        Sentinel { child, address }
    }

    fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// The master's port, as it says.
    fn master(&self) -> String {
        let answer = self.client().ask("SENTINEL GET-MASTER-ADDR-BY-NAME it");
        answer.trim_matches(['[', ']']).split(' ').nth(1).unwrap_or_default().to_owned()
    }
}

#[test]
fn sentinel_promotes_and_demotes() {
    if kept_engine().is_none() {
        println!("skipped: nothing outlives a kill under this engine");
        return;
    }
    // Another one is promoted in each: a server of this kind, and, with a larger budget, a stock one, too.
    for stock_priority in ["200", "1"].into_iter().take(times(1) as usize) {
        let folder = tempfile::tempdir().unwrap();
        let pools = ["a", "b"].map(|name| folder.path().join(name));
        let addresses = [free_address(), free_address()];
        let master = Killed::start(&pools[0], addresses[0], None);
        let port = addresses[0].port();
        let replicaof = format!("127.0.0.1 {port}");
        let options = ["--replicaof", &replicaof, "--replica-priority", stock_priority];
        let Some(stock) = Redis::start_with(&options) else {
            println!("skipped: there is no redis-server");
            return;
        };
        let follower = Killed::start(&pools[1], addresses[1], Some(port));
        await_text(&mut follower.client(), "INFO replication", "master_link_status:up");
        await_text(&mut client_of(&stock), "INFO replication", "master_link_status:up");
        let sentinels = [0; 3].map(|_| Sentinel::start(folder.path(), addresses[0]));
        for sentinel in &sentinels {
            await_text(&mut sentinel.client(), "SENTINEL MASTER it", "num-slaves 2");
            await_text(&mut sentinel.client(), "SENTINEL MASTER it", "num-other-sentinels 2");
            let replicas = sentinel.client().ask("SENTINEL REPLICAS it");
            assert!(replicas.contains("flags slave") && replicas.contains("runid "), "{replicas}");
            let priority = format!("slave-priority {stock_priority} ");
            await_text(&mut sentinel.client(), "SENTINEL REPLICAS it", &priority);
            await_text(&mut sentinel.client(), "SENTINEL REPLICAS it", "slave-priority 100 ");
        }
        // Both have what was waited for.
        let mut client = master.client();
        for _ in 0..100 {
            client.ask("INCR count");
        }
        assert_eq!(client.ask("WAIT 2 10000"), "2");
        master.kill();
        let start = Instant::now();
        let new = loop {
            let said: Vec<String> = sentinels.iter().map(Sentinel::master).collect();
            if said.iter().all(|one| *one == said[0] && *one != port.to_string()) {
                break said[0].clone();
            }
            assert!(start.elapsed() < Duration::from_secs(60), "no failover: {said:?}");
            thread::sleep(Duration::from_millis(100));
        };
        let (own, theirs) = (addresses[1].port().to_string(), stock.port.to_string());
        let expected = if stock_priority == "1" { &theirs } else { &own };
        assert_eq!(&new, expected, "of {own} and {theirs}");
        let new: u16 = new.parse().unwrap();
        let leads = format!("master_port:{new}");
        await_at(new, "INFO replication", "role:master");
        await_at(new, "INCR count", "101");
        let other = if new == addresses[1].port() { stock.port } else { addresses[1].port() };
        // The other one goes on where it was.
        await_at(other, "INFO replication", &leads);
        await_at(other, "INFO replication", "master_link_status:up");
        let mut client = Client::connect(([127, 0, 0, 1], new).into());
        assert_eq!(number(&mut client, "stats", "sync_full"), 0);
        assert!(number(&mut client, "stats", "sync_partial_ok") > 0);
        // The old master comes back, and is told to follow.
        let _back = Killed::start(&pools[0], addresses[0], None);
        for port in [other, port] {
            await_at(port, "INFO replication", &leads);
            await_at(port, "INFO replication", "master_link_status:up");
            await_at(port, "GET count", "101");
            await_at(port, "INCR count", "READONLY");
        }
        println!("{new} was promoted after {:?}", start.elapsed());
    }
}
