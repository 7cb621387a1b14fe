//! A server that hands over to a replica, or follows another server from now on: what becomes of those that follow it.

use crate::common::{Client, Running, await_text, show};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// A replica that says only what the test says.
pub(crate) struct Replica {
    stream: TcpStream,
    id: String,
    place: u64,
}

impl Replica {
    /// Has a snapshot.
    pub(crate) fn attach(server: &Running) -> Self {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(b"REPLCONF listening-port 1\r\n").unwrap();
        assert_eq!(line(&mut stream), "+OK");
        stream.write_all(b"PSYNC ? -1\r\n").unwrap();
        let answer = line(&mut stream);
        let words: Vec<&str> = answer.split(' ').collect();
        assert_eq!((words[0], words.len()), ("+FULLRESYNC", 3), "{answer}");
        let len = line(&mut stream)[1..].parse().unwrap();
        stream.read_exact(&mut vec![0; len]).unwrap();
        Replica { id: words[1].to_owned(), place: words[2].parse().unwrap(), stream }
    }

    /// Says that it has all that there was, and is seen to be there.
    fn acknowledge(&mut self, client: &mut Client) {
        let place = self.place.to_string();
        let bytes = format!("*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n${}\r\n{place}\r\n", place.len());
        self.stream.write_all(bytes.as_bytes()).unwrap();
        await_text(client, "INFO replication", &format!("state=online,offset={place},"));
    }

    /// Reads the stream until this text is in it. Returns what was read.
    pub(crate) fn await_part(&mut self, part: &str) -> Vec<u8> {
        let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
        while !String::from_utf8_lossy(&bytes).contains(part) {
            let read = self.stream.read(&mut piece).expect("more of the stream");
            assert!(read > 0, "it was disconnected");
            bytes.extend_from_slice(&piece[..read]);
        }
        bytes
    }
}

/// The next line that is not empty.
pub(crate) fn line(stream: &mut TcpStream) -> String {
    let (mut line, mut byte) = (String::new(), [0]);
    loop {
        stream.read_exact(&mut byte).unwrap();
        match byte[0] {
            b'\n' if line.is_empty() => {}
            b'\n' => return line,
            b'\r' => {}
            byte => line.push(byte.into()),
        }
    }
}

fn field(client: &mut Client, name: &str) -> String {
    let info = client.ask("INFO");
    let found = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.unwrap_or_else(|| panic!("no {name}: {info}")).trim_end().to_owned()
}

/// The replica does not get the rest within the time: it is still there, and it is tried again.
#[test]
fn a_replica_stays_when_a_failover_fails() {
    let server = Running::with(|options| options.threads(2), 32 << 20);
    let [mut client, mut blocked, mut other] = [(); 3].map(|()| server.client());
    client.ask("SET a 1");
    let mut replica = Replica::attach(&server);
    replica.acknowledge(&mut client);
    blocked.send(b"BLPOP list 0\r\n");
    await_text(&mut client, "INFO clients", "blocked_clients:1");
    assert_eq!(client.ask("CONFIG SET replica-read-only no"), "OK");
    assert_eq!(client.ask("FAILOVER"), "OK");
    let asks = "master_failover_state:failover-in-progress";
    await_text(&mut client, "INFO replication", asks);
    // Whatever the option says, and nobody waits for the replica.
    await_text(&mut client, "SET a 2", "READONLY");
    let start = Instant::now();
    assert_eq!(client.ask("CONFIG SET replica-read-only no"), "OK");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert!(client.ask("INFO replication").contains(asks));
    assert!(client.ask("SET a 2").starts_with("READONLY"));
    assert!(other.ask("PSYNC ? -1").starts_with("NOMASTERLINK"));
    await_text(&mut client, "INFO replication", "master_failover_state:waiting-for-sync");
    assert_eq!(client.ask("SET a 3"), "OK");
    assert_eq!(field(&mut client, "master_replid"), replica.id);
    replica.await_part("SET\r\n$1\r\na\r\n$1\r\n3\r\n");
    // Others may come.
    let late = Replica::attach(&server);
    assert_eq!(late.id, replica.id);
    assert_eq!(client.ask("FAILOVER ABORT"), "OK");
    await_text(&mut client, "INFO replication", "master_failover_state:no-failover");
    assert_eq!(client.ask("RPUSH list x"), "1");
    assert_eq!(show(&blocked.receive().unwrap()), "[list x]");
    replica.await_part("LPOP\r\n$4\r\nlist\r\n");
    server.check();
}

/// What the same client has written just before is in the stream that the server goes on from.
#[test]
fn what_was_written_before_replicaof_is_told() {
    let server = Running::with(|options| options.threads(1), 32 << 20);
    let mut client = server.client();
    let mut replica = Replica::attach(&server);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    client.send(format!("SET a 1\r\nREPLICAOF 127.0.0.1 {free}\r\n").as_bytes());
    assert_eq!(show(&client.receive().unwrap()), "OK");
    assert_eq!(show(&client.receive().unwrap()), "OK");
    assert_eq!(field(&mut client, "master_replid"), replica.id);
    replica.await_part("SET\r\n$1\r\na\r\n");
    server.check();
}

/// Nothing was written for a while, but the stream has gone on: one behind a replica of the new master goes on, too.
#[test]
fn an_idle_chain_goes_on_when_the_master_changes() {
    let all = [(); 3].map(|()| Running::with(|options| options.threads(1), 32 << 20));
    let [mut top, mut first, mut second] = all.each_ref().map(Running::client);
    for (client, master) in [(&mut first, 0), (&mut second, 1)] {
        let port = all[master].address.port();
        assert_eq!(client.ask(&format!("REPLICAOF 127.0.0.1 {port}")), "OK");
        await_text(client, "INFO replication", "master_link_status:up");
    }
    let mut replica = Replica::attach(&all[2]);
    assert_eq!(top.ask("SET a 1"), "OK");
    replica.await_part("SET\r\n$1\r\na\r\n");
    // Replicas are asked how far they are.
    assert_eq!(top.ask("WAIT 9 100"), "1");
    replica.await_part("GETACK\r\n$1\r\n*\r\n");
    let end: u64 = field(&mut top, "master_repl_offset").parse().unwrap();
    assert_eq!(first.ask("REPLICAOF NO ONE"), "OK");
    let id = field(&mut first, "master_replid");
    await_text(&mut second, "INFO replication", &id);
    let start = Instant::now();
    let answer = loop {
        let mut stream = TcpStream::connect(all[2].address).unwrap();
        stream.write_all(format!("PSYNC {} {}\r\n", replica.id, end + 1).as_bytes()).unwrap();
        let answer = line(&mut stream);
        if !answer.starts_with("-NOMASTERLINK") {
            break answer;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{answer}");
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(answer, format!("+CONTINUE {id}"));
    for running in &all {
        running.check();
    }
}

/// A replica that was started again while its master is away knows the stream that it has a part of: promoted, it goes on with
/// it, and so do the others.
#[test]
fn a_restarted_replica_goes_on_with_its_master_s_stream() {
    let [top, mut first, second] = [(); 3].map(|()| Running::start());
    let mut client = top.client();
    for replica in [&first, &second] {
        let mut client = replica.client();
        assert_eq!(client.ask(&format!("REPLICAOF 127.0.0.1 {}", top.address.port())), "OK");
        await_text(&mut client, "INFO replication", "master_link_status:up");
    }
    assert_eq!(client.ask("SET a 1"), "OK");
    assert_eq!(client.ask("WAIT 2 10000"), "2");
    let id = field(&mut client, "master_replid");
    let place = field(&mut first.client(), "slave_repl_offset");
    drop((client, top));
    first = first.restarted();
    let mut client = first.client();
    assert_eq!(field(&mut client, "role"), "slave");
    assert_eq!(field(&mut client, "master_link_status"), "down");
    assert_eq!(field(&mut client, "master_replid"), id);
    let noted: u64 = field(&mut client, "master_repl_offset").parse().unwrap();
    assert!(noted > 0 && noted <= place.parse().unwrap(), "{noted} of {place}");
    assert_eq!(client.ask("REPLICAOF NO ONE"), "OK");
    assert_eq!(field(&mut client, "master_replid2"), id);
    assert_eq!(field(&mut client, "second_repl_offset"), (noted + 1).to_string());
    let mut other = second.client();
    assert_eq!(other.ask(&format!("REPLICAOF 127.0.0.1 {}", first.address.port())), "OK");
    await_text(&mut other, "INFO replication", "master_link_status:up");
    assert_eq!(client.ask("INCR a"), "2");
    await_text(&mut other, "GET a", "2");
    let counts = ["sync_full", "sync_partial_ok"].map(|name| field(&mut client, name));
    assert_eq!(counts, ["0", "1"]);
    first.check();
    second.check();
}
