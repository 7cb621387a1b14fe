//! What replicas and masters are told of transactions that are not durable yet: nothing.

use crate::faults::{Client, Faults, Running};
use perdura::EngineKind;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// How long it is looked whether something is told too early.
const EARLY: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(20);

/// A disk that takes its time for the waits of some threads.
#[derive(Default)]
struct SlowDisk {
    state: Mutex<DiskState>,
    changed: Condvar,
}

#[derive(Default)]
struct DiskState {
    /// The beginning of the names of the threads that are held, and how many waits of theirs end before that.
    holds: Option<(&'static str, usize)>,
    held: Vec<ThreadId>,
    let_go: Vec<ThreadId>,
}

impl SlowDisk {
    fn new() -> (Arc<SlowDisk>, Faults) {
        let disk = Arc::<SlowDisk>::default();
        let own = Arc::clone(&disk);
        let waits = move || {
            own.wait();
            Ok(())
        };
        (disk, Faults { waits: Arc::new(waits), ..Faults::default() })
    }

    fn wait(&self) {
        let thread = thread::current();
        let mut state = self.state.lock().unwrap();
        match &mut state.holds {
            Some((name, before)) if thread.name().is_some_and(|own| own.starts_with(*name)) => {
                if *before > 0 {
                    *before -= 1;
                    return;
                }
            }
            _ => return,
        }
        state.holds = None;
        state.let_go.retain(|other| *other != thread.id());
        state.held.push(thread.id());
        self.changed.notify_all();
        let goes = |state: &mut DiskState| !state.let_go.contains(&thread.id());
        drop(self.changed.wait_timeout_while(state, 3 * LONGEST, goes).unwrap());
    }

    /// The next wait but `before` of a thread whose name begins so takes until it is [let go](Self::let_go).
    fn hold(&self, name: &'static str, before: usize) {
        self.state.lock().unwrap().holds = Some((name, before));
    }

    /// Returns the thread that is held now.
    fn await_held(&self) -> ThreadId {
        let state = self.state.lock().unwrap();
        let nobody = |state: &mut DiskState| state.holds.is_some();
        let (state, waited) = self.changed.wait_timeout_while(state, LONGEST, nobody).unwrap();
        assert!(!waited.timed_out(), "nothing waits for durability");
        *state.held.last().unwrap()
    }

    fn let_go(&self, thread: ThreadId) {
        self.state.lock().unwrap().let_go.push(thread);
        self.changed.notify_all();
    }
}

/// Another server, at the end of a connection: a replica, or a master.
struct Peer(TcpStream);

impl Peer {
    /// A client that asks for the server's stream.
    fn asks(server: &Running) -> Self {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(b"PSYNC ? -1\r\n").unwrap();
        Peer(stream)
    }

    /// A replica that has its snapshot.
    fn attach(server: &Running) -> Self {
        let mut peer = Peer::asks(server);
        peer.read_snapshot();
        peer
    }

    /// The next line that is not empty.
    fn line(&mut self) -> String {
        self.0.set_read_timeout(Some(LONGEST)).unwrap();
        let (mut line, mut byte) = (String::new(), [0]);
        loop {
            self.0.read_exact(&mut byte).unwrap();
            match byte[0] {
                b'\n' if line.is_empty() => {}
                b'\n' => return line,
                b'\r' => {}
                byte => line.push(byte.into()),
            }
        }
    }

    fn read_snapshot(&mut self) {
        let answer = self.line();
        assert!(answer.starts_with("+FULLRESYNC "), "{answer}");
        let len = self.line()[1..].parse().unwrap();
        self.0.read_exact(&mut vec![0; len]).unwrap();
    }

    /// What comes until this text has, or the time is over.
    fn hears(&mut self, part: &str, most: Duration) -> String {
        let (until, mut bytes, mut piece) = (Instant::now() + most, Vec::new(), [0; 4096]);
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            self.0.set_read_timeout(Some(left.max(Duration::from_millis(1)))).unwrap();
            match self.0.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => bytes.extend_from_slice(&piece[..read]),
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
                }
            }
            if String::from_utf8_lossy(&bytes).contains(part) {
                break;
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// This is not told until the thread is let go, and then it is.
    fn is_told(&mut self, part: &str, (disk, held): (&SlowDisk, ThreadId)) {
        let early = self.hears(part, EARLY);
        assert!(!early.contains(part), "told before it is durable: {early:?}");
        disk.let_go(held);
        let told = self.hears(part, LONGEST);
        assert!(told.contains(part), "{part:?} is not told: {told:?}");
    }
}

/// A master that says what the test says.
struct Master {
    listener: TcpListener,
    port: u16,
}

const ID: &str = "0123456789012345678901234567890123456789";

impl Master {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Master { port: listener.local_addr().unwrap().port(), listener }
    }

    /// Greets the one that follows, and answers its question with this.
    fn admit(&self, answer: &[u8]) -> Peer {
        let mut peer = Peer(self.listener.accept().unwrap().0);
        for greeting in ["PING", "listening-port", "capa", "PSYNC"] {
            assert!(peer.hears(greeting, LONGEST).contains(greeting));
            // The rest of it.
            let all = if greeting == "PSYNC" { answer } else { b"+OK\r\n" };
            thread::sleep(Duration::from_millis(20));
            peer.0.write_all(all).unwrap();
        }
        peer
    }

    /// An empty snapshot, from this place on.
    fn admit_whole(&self, place: u64) -> Peer {
        let mut answer = format!("+FULLRESYNC {ID} {place}\r\n$18\r\n").into_bytes();
        answer.extend_from_slice(b"REDIS0011\xFF");
        answer.extend_from_slice(&[0; 8]);
        self.admit(&answer)
    }
}

fn command(words: &str) -> Vec<u8> {
    let words: Vec<&str> = words.split(' ').collect();
    let args = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), args.collect::<String>()).into_bytes()
}

fn await_info(client: &mut Client, part: &str) {
    let start = Instant::now();
    loop {
        client.send("INFO replication");
        let len: usize = client.line()[1..].parse().unwrap();
        let mut text = vec![0; len + 2];
        client.0.read_exact(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        if text.contains(part) {
            return;
        }
        assert!(start.elapsed() < LONGEST, "no {part:?} in {text}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn follow(client: &mut Client, master: &Master) {
    assert_eq!(client.ask(&format!("REPLICAOF 127.0.0.1 {}", master.port)), "+OK");
}

/// A command's effects, those of a key that expires by itself, and those of MIGRATE.
#[test]
fn replicas_hear_of_what_is_durable() {
    let (disk, faults) = SlowDisk::new();
    let server = Running::new(EngineKind::Redo, faults);
    let to = Running::new(EngineKind::Redo, Faults::default());
    let mut client = server.client();
    let mut replica = Peer::attach(&server);
    disk.hold("worker", 0);
    client.send("SET written 1");
    let held = disk.await_held();
    replica.is_told("written", (&disk, held));
    assert_eq!(client.line(), "+OK");
    assert_eq!(client.ask("SET moved 1"), "+OK");
    replica.hears("moved", LONGEST);
    // The first wait is that for what it sends.
    disk.hold("migrate", 1);
    client.send(&format!("MIGRATE 127.0.0.1 {} moved 0 10000", to.address.port()));
    let held = disk.await_held();
    replica.is_told("moved", (&disk, held));
    assert_eq!(client.line(), "+OK");
    assert_eq!(client.ask("SET short 1 PX 300"), "+OK");
    replica.hears("short", LONGEST);
    disk.hold("worker", 0);
    let held = disk.await_held();
    replica.is_told("short", (&disk, held));
    drop(client);
    server.stop();
    to.stop();
}

/// Nor does a snapshot go before all that is in it is durable.
#[test]
fn a_snapshot_has_what_is_durable() {
    for engine in [EngineKind::Redo, EngineKind::CcStm] {
        let (disk, faults) = SlowDisk::new();
        let server = Running::new(engine, faults);
        assert_eq!(server.client().ask("SET key 1"), "+OK");
        // The first wait is that for the transaction with which the stream begins.
        disk.hold("replica", 1);
        let mut replica = Peer::asks(&server);
        let held = disk.await_held();
        replica.is_told("+FULLRESYNC", (&disk, held));
        server.stop();
    }
}

/// Replicas of a replica, and its master: the one gets what is durable, the other one hears of it.
#[test]
fn a_follower_tells_of_what_is_durable() {
    let (disk, faults) = SlowDisk::new();
    let server = Running::new(EngineKind::Redo, faults);
    let mut client = server.client();
    let theirs = Master::new();
    follow(&mut client, &theirs);
    let mut master = theirs.admit_whole(100);
    await_info(&mut client, "master_link_status:up");
    let mut replica = Peer::attach(&server);
    master.hears("$3\r\n100\r\n", LONGEST);
    disk.hold("following", 0);
    let bytes = [command("SET key 1"), command("REPLCONF GETACK *")].concat();
    master.0.write_all(&bytes).unwrap();
    let held = disk.await_held();
    let end = (100 + bytes.len()).to_string();
    let early = master.hears(&end, EARLY);
    assert!(!early.contains(&end), "acknowledged before it is durable: {early:?}");
    replica.is_told("key", (&disk, held));
    assert!(master.hears(&end, LONGEST).contains(&end), "it is not acknowledged");
    server.stop();
}

/// A thread that followed another master before waits for what it had, and not for what was performed since.
#[test]
fn an_earlier_master_s_thread_releases_nothing() {
    let (disk, faults) = SlowDisk::new();
    let server = Running::new(EngineKind::Redo, faults);
    let mut client = server.client();
    let old = Master::new();
    follow(&mut client, &old);
    let mut master = old.admit_whole(100);
    await_info(&mut client, "master_link_status:up");
    disk.hold("following", 0);
    master.0.write_all(&command("SET key 1")).unwrap();
    let earlier = disk.await_held();
    // Another master has the same stream.
    let new = Master::new();
    follow(&mut client, &new);
    let mut master = new.admit(b"+CONTINUE\r\n");
    await_info(&mut client, "master_link_status:up");
    let mut replica = Peer::attach(&server);
    disk.hold("following", 0);
    master.0.write_all(&command("SET other 1")).unwrap();
    let later = disk.await_held();
    disk.let_go(earlier);
    replica.is_told("other", (&disk, later));
    server.stop();
}
