//! The real server, killed with SIGKILL under load, loses nothing that it acknowledged.
//!
//! Several connections write, in pipelines, to keys of their own, and record the replies. The server is killed at a
//! random moment and started again, on the same pool, round after round.

use perdura_memory::reference::SplitMix64;
use perdura_testing::{seeds, times};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

const CONNECTIONS: u64 = 3;
const KEYS: u64 = 40;

pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(pool: &Path, engine: &str) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_perdura"))
            .args(["serve", "--listen", "127.0.0.1:0", "--size", "64M", "--threads", "2"])
            .args(["--engine", engine, "--pool"])
            .arg(pool)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let address = loop {
            let line = lines.next().expect("the server says where it listens").unwrap();
            if let Some(rest) = line.strip_prefix("ready at ") {
                break rest.split(';').next().unwrap_or_default().to_owned();
            }
        };
        // Keep the pipe open and empty.
        thread::spawn(move || lines.for_each(drop));
        Server { child, address }
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("SIGKILL");
        self.child.wait().expect("it is gone");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    fn connect(address: &str) -> Client {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { stream: BufReader::new(stream) }
    }

    fn send(&mut self, commands: &[Vec<String>]) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        for command in commands {
            write!(bytes, "*{}\r\n", command.len())?;
            for part in command {
                write!(bytes, "${}\r\n{part}\r\n", part.len())?;
            }
        }
        self.stream.get_mut().write_all(&bytes)
    }

    /// One reply: an integer or string, `None` for a null; an error reply is a panic.
    fn reply(&mut self) -> std::io::Result<Option<String>> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        match line.as_bytes()[0] {
            b'$' if line == "$-1" => Ok(None),
            b'$' => {
                let mut bytes = vec![0; line[1..].parse::<usize>().unwrap() + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Ok(Some(String::from_utf8(bytes).unwrap()))
            }
            b'+' | b':' => Ok(Some(line[1..].to_owned())),
            _ => panic!("the server answered {line}"),
        }
    }
}

/// The possible values of a key: the acknowledged one, and those sent after it.
#[derive(Clone, Default)]
struct Known {
    acknowledged: Option<String>,
    sent: Vec<Option<String>>,
}

type Knowledge = HashMap<String, Known>;

/// Writes until the connection breaks.
fn load(mut client: Client, thread: u64, round: u64, seed: u64, known: &mut Knowledge) {
    let mut random = SplitMix64::new(seed ^ round << 20 ^ thread << 40);
    for turn in 0.. {
        let mut commands = Vec::new();
        let mut expected = Vec::new();
        for index in 0..=random.below(12) {
            let key = format!("{thread}:{}", random.below(KEYS));
            let filler = "x".repeat(random.below(700) as usize);
            let value = format!("{round}.{turn}.{index}.{filler}");
            let (command, value): (Vec<&str>, _) = match random.below(4) {
                0 => (vec!["DEL", &key], None),
                1 => (vec!["HSET", &key, "field", &value], Some(value.clone())),
                _ => (vec!["SET", &key, &value], Some(value.clone())),
            };
            // A hash and a string must not have the same name.
            let key = if command[0] == "HSET" { format!("h{key}") } else { key.clone() };
            let mut command: Vec<String> = command.into_iter().map(str::to_owned).collect();
            command[1].clone_from(&key);
            known.entry(key.clone()).or_default().sent.push(value.clone());
            expected.push((key, value));
            commands.push(command);
        }
        commands.push(vec!["INCR".to_owned(), format!("{thread}:count")]);
        let count = known.entry(format!("{thread}:count")).or_default();
        let next = count.acknowledged.as_deref().map_or(0, |text| text.parse::<u64>().unwrap()) + 1;
        count.sent.push(Some(next.to_string()));
        if client.send(&commands).is_err() {
            return;
        }
        for (key, value) in expected {
            if client.reply().is_err() {
                return;
            }
            acknowledge(known, &key, value);
        }
        match client.reply() {
            Ok(value) => {
                assert_eq!(value, Some(next.to_string()), "a counter jumped");
                acknowledge(known, &format!("{thread}:count"), value);
            }
            Err(_) => return,
        }
    }
}

/// Takes the oldest value sent as present.
fn acknowledge(known: &mut Knowledge, key: &str, value: Option<String>) {
    let known = known.get_mut(key).expect("sent before");
    known.acknowledged = value;
    known.sent.remove(0);
}

/// Compares the present values with the possible ones, and records them.
fn compare(address: &str, known: &mut Knowledge, seed: u64, round: u64) {
    let mut client = Client::connect(address);
    for (key, known) in known {
        let command = if key.starts_with('h') {
            vec!["HGET".to_owned(), key.clone(), "field".to_owned()]
        } else {
            vec!["GET".to_owned(), key.clone()]
        };
        client.send(&[command]).unwrap();
        let found = client.reply().unwrap();
        assert!(
            found == known.acknowledged || known.sent.contains(&found),
            "lost with PERDURA_TEST_SEED={seed} in round {round}: {key} is {found:?}, \
             acknowledged was {:?}, sent after it {:?}",
            known.acknowledged,
            known.sent
        );
        *known = Known { acknowledged: found, sent: Vec::new() };
    }
}

fn kill_again_and_again(folder: &Path, engine: &str) {
    let (seed, rounds) = (seeds(1, 1).start, times(3));
    let pool: PathBuf = folder.join("killed.pool");
    let mut random = SplitMix64::new(seed);
    let mut knowledge: Vec<Knowledge> = vec![HashMap::new(); CONNECTIONS as usize];
    for round in 0..rounds {
        let server = Server::start(&pool, engine);
        knowledge.iter_mut().for_each(|known| compare(&server.address, known, seed, round));
        thread::scope(|scope| {
            for (thread, known) in knowledge.iter_mut().enumerate() {
                let client = Client::connect(&server.address);
                scope.spawn(move || load(client, thread as u64, round, seed, known));
            }
            thread::sleep(Duration::from_millis(20 + random.below(200)));
            server.kill();
        });
    }
    let server = Server::start(&pool, engine);
    knowledge.iter_mut().for_each(|known| compare(&server.address, known, seed, rounds));
    drop(server);
    let report = perdura::check::check(&pool, &perdura_server::check_root).unwrap();
    assert!(report.is_whole(), "{:?}", report.problems);
    let keys: usize = knowledge.iter().map(HashMap::len).sum();
    println!("{engine}: {rounds} kills, {keys} keys, seed {seed}, nothing lost");
}

#[test]
fn redo_on_emulated_persistent_memory() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    kill_again_and_again(folder.path(), "redo");
}

#[test]
fn undo_on_emulated_persistent_memory() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    kill_again_and_again(folder.path(), "undo");
}

#[test]
fn s_wal_on_emulated_persistent_memory() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    kill_again_and_again(folder.path(), "s-wal");
}

#[test]
fn archapt_redo_on_emulated_persistent_memory() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    kill_again_and_again(folder.path(), "archapt-redo");
}

#[test]
fn archapt_undo_on_emulated_persistent_memory() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    kill_again_and_again(folder.path(), "archapt-undo");
}

#[test]
fn archapt_redo_on_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    kill_again_and_again(folder.path(), "archapt-redo");
}

#[test]
fn archapt_undo_on_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    kill_again_and_again(folder.path(), "archapt-undo");
}

#[test]
fn redo_on_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    kill_again_and_again(folder.path(), "redo");
}
