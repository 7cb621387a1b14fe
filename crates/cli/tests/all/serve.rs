//! `perdura serve` as a process: it keeps acknowledged writes, and says why it cannot start.

#![cfg(unix)]

use crate::common::{arg, command, fail, succeed};
use perdura::TxExt;
use perdura::collections::{Bytes, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::tempdir;

struct Running {
    process: Child,
    address: SocketAddr,
    /// Its output before it was ready.
    printed: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        // A failed test must not leave a server behind.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn start(pool: &Path, more: &[&str]) -> Running {
    let arguments = [&["serve", "--pool", arg(pool), "--listen", "127.0.0.1:0"], more].concat();
    launch(command(&arguments).stderr(Stdio::null()))
}

/// Starts a server on a free port, and returns when it says that it is ready.
fn launch(command: &mut Command) -> Running {
    let mut process = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let mut printed = String::new();
    let address = loop {
        let line = lines.next().expect("it says where it listens").expect("text");
        if let Some(rest) = line.strip_prefix("ready at ") {
            break rest.split(';').next().unwrap_or_default().parse().expect("an address");
        }
        printed = printed + &line + "\n";
    };
    Running { process, address, printed }
}

impl Running {
    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.write_all(format!("{request}\r\n").as_bytes()).expect("a request");
        let mut lines = BufReader::new(stream).lines();
        let first = lines.next().expect("an answer").expect("text");
        if first.starts_with('$') { lines.next().expect("a string").expect("text") } else { first }
    }

    fn end(mut self, signal: &str) -> Option<i32> {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill").success());
        self.process.wait().expect("an end").code()
    }
}

#[test]
fn acknowledged_writes_outlive_the_process() {
    let folder = tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let server = start(&pool, &["--size", "32M", "--engine", "undo"]);
    assert_eq!(server.ask("SET greeting hello"), "+OK");
    assert_eq!(server.end("-TERM"), Some(0));
    let server = start(&pool, &[]);
    assert_eq!(server.ask("GET greeting"), "hello");
    assert_eq!(server.ask("HSET h f v"), ":1");
    assert_eq!(server.end("-KILL"), None);
    let checked = succeed(&["pool", "check", arg(&pool)]);
    assert!(checked.contains("no problem found") && checked.contains("all of them"), "{checked}");
    // With another engine: the one that wrote it recovers first.
    let server = start(&pool, &["--engine", "redo"]);
    assert_eq!(server.ask("HGET h f"), "v");
}

/// Clients share keys: an engine that does not keep them apart is refused, before a pool is made for it, too.
#[test]
fn an_engine_without_isolation_is_refused() {
    let folder = tempdir().expect("a folder");
    let [new, own] = ["new", "own"].map(|name| folder.path().join(name));
    let complaint = fail(&["serve", "--pool", arg(&new), "--engine", "seq"]);
    assert!(complaint.contains("does not keep transactions apart"), "{complaint}");
    assert!(!new.exists());
    let pool = perdura::Options::new().engine(perdura::EngineKind::Seq).create(&own);
    pool.expect("a pool").close().expect("a clean close");
    let complaint = fail(&["serve", "--pool", arg(&own), "--listen", "127.0.0.1:0"]);
    assert!(complaint.contains("does not keep transactions apart"), "{complaint}");
}

/// A terminal that goes away ends the server as well, unless the server was told not to mind.
#[test]
fn a_server_below_nohup_outlives_its_terminal() {
    let folder = tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let mut nohup = Command::new("nohup");
    nohup.arg(env!("CARGO_BIN_EXE_perdura")).args(["serve", "--size", "32M", "--pool", arg(&pool)]);
    let server = launch(nohup.args(["--listen", "127.0.0.1:0"]).stderr(Stdio::null()));
    assert_eq!(server.ask("SET greeting hello"), "+OK");
    let id = server.process.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &id]).status().expect("kill").success());
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(server.ask("GET greeting"), "hello");
    assert_eq!(server.end("-TERM"), Some(0));
}

#[test]
fn a_pool_or_port_in_use_is_refused() {
    let folder = tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let server = start(&pool, &["--size", "32M"]);
    let complaint = last_line(&["serve", "--pool", arg(&pool), "--listen", "127.0.0.1:0"]);
    assert!(complaint.contains("in use"), "{complaint}");
    let second = folder.path().join("second");
    let taken = server.address.to_string();
    let arguments = ["serve", "--pool", arg(&second), "--size", "32M", "--listen", &taken];
    let complaint = last_line(&arguments);
    assert!(complaint.contains("--listen"), "{complaint}");
    assert!(!second.exists(), "a server that cannot listen leaves a pool behind");
    let wrong = ["serve", "--pool", arg(&second), "--requirepass", ""];
    assert_eq!(crate::common::run(&wrong).status.code(), Some(2));
    assert!(!second.exists(), "a wrong option leaves a pool behind");
    assert!(fail(&["serve", "--pool", arg(folder.path())]).contains("not a regular file"));
}

#[test]
fn a_host_name_is_listened_at() {
    let folder = tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let arguments = ["serve", "--pool", arg(&pool), "--size", "32M", "--listen", "localhost:0"];
    let server = launch(&mut command(&arguments));
    assert!(server.address.ip().is_loopback());
    assert_eq!(server.ask("PING"), "+PONG");
}

#[test]
fn another_size_than_the_pool_s_own_is_told() {
    let folder = tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    succeed(&["pool", "create", arg(&pool), "--size", "32M"]);
    for (size, told) in [("64M", true), ("32M", false)] {
        let arguments = ["serve", "--pool", arg(&pool), "--size", size, "--listen", "127.0.0.1:0"];
        let mut running = launch(command(&arguments).stderr(Stdio::piped()));
        let mut stderr = running.process.stderr.take().expect("a pipe");
        assert_eq!(running.end("-TERM"), Some(0));
        let mut printed = String::new();
        stderr.read_to_string(&mut printed).expect("text");
        assert_eq!(printed.contains("its own limit stays 32 MiB"), told, "{printed}");
    }
}

#[test]
fn names_of_programs_are_left_alone() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let open = || perdura::Options::new().size(32 << 20).open_or_create(&path).expect("a pool");
    let pool = open();
    let count = |pool: &perdura::Pool| {
        pool.session().expect("a session").transaction(|tx| {
            let words = tx.open_or_create::<HashMap<Bytes, u64>>("words")?;
            words.insert(tx, b"one", 1)?;
            words.len(tx)
        })
    };
    assert_eq!(count(&pool).expect("room"), 1);
    pool.close().expect("an end");
    let server = start(&path, &[]);
    let told = "it also has a program's named roots, which the server leaves as they are: words\n";
    assert!(server.printed.contains(told), "{}", server.printed);
    assert_eq!((server.ask("SET one 2"), server.ask("FLUSHALL")), ("+OK".into(), "+OK".into()));
    assert_eq!(server.end("-TERM"), Some(0));
    assert_eq!(count(&open()).expect("room"), 1);
    let new = start(&folder.path().join("new"), &["--size", "128M"]);
    assert!(new.printed.contains("it is new: its file has 19"), "{}", new.printed);
}

/// Everything that an operator sets: a file with options, one with the password, the log, the service manager's socket.
#[test]
fn a_service_is_configured_told_of_and_ended() {
    let folder = tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let manager = UnixDatagram::bind(at("notify")).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    let hears = || {
        let mut bytes = [0; 64];
        let len = manager.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    std::fs::write(at("password"), "sesame\n").expect("a file");
    let config = format!(
        "listen = \"127.0.0.1:0\"\nsize = \"32M\"\nmax-clients = 7\nthreads = 1\nmetrics = \"127.0.0.1:0\"\n\
         log-format = \"json\"\nrequirepass-file = {:?}\n",
        at("password")
    );
    std::fs::write(at("config"), config).expect("a file");
    let (config, pool) = (at("config"), at("pool"));
    let arguments = ["serve", "--config", arg(&config), "--max-clients", "9", "--pool", arg(&pool)];
    let mut command = command(&arguments);
    command.env("NOTIFY_SOCKET", at("notify")).stderr(Stdio::piped());
    let mut server = launch(&mut command);
    assert_eq!(hears(), "READY=1");
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    stream
        .write_all(b"PING\r\nAUTH wrong\r\nAUTH sesame\r\nCONFIG GET maxclients\r\n")
        .expect("sent");
    stream.write_all(b"SHUTDOWN\r\n").expect("sent");
    let mut replies = String::new();
    stream.read_to_string(&mut replies).expect("text");
    let lines: Vec<&str> = replies.lines().collect();
    assert!(lines[0].starts_with("-NOAUTH") && lines[1].starts_with("-WRONGPASS"), "{replies}");
    assert!(lines[2] == "+OK" && lines.last() == Some(&"9"), "{replies}");
    assert_eq!(hears(), "STOPPING=1");
    assert_eq!(server.process.wait().expect("an end").code(), Some(0));
    let mut log = String::new();
    let stderr = server.process.stderr.as_mut().expect("a pipe");
    stderr.read_to_string(&mut log).expect("text");
    assert!(!log.contains("sesame") && !log.contains("\"wrong\""), "{log}");
    let mut messages = Vec::new();
    for line in log.lines() {
        let event: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        messages.push(event["message"].as_str().expect("a message").to_owned());
        if messages.last().is_some_and(|message| message == "shutting down") {
            assert!(
                event["reason"].as_str().is_some_and(|why| why.starts_with("SHUTDOWN of client"))
            );
        }
    }
    let wanted = ["pool opened", "listening", "serving metrics", "wrong password", "shutting down"];
    assert_eq!(messages[..5], wanted, "{log}");
}

#[test]
fn wrong_configurations_and_passwords_are_refused() {
    let folder = tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let (config, empty, none) = (at("config"), at("empty"), at("none"));
    std::fs::write(&config, "threads = 1\nmax-client = 1\n").expect("a file");
    std::fs::write(&empty, "\n").expect("a file");
    let output = crate::common::run(&["serve", "--config", arg(&config)]);
    assert_eq!(output.status.code(), Some(2), "an invalid configuration is one of use");
    let complaint = crate::common::text(&output.stderr);
    let place = format!("{}: line 2: max-client: there is no such key", config.display());
    assert!(complaint.contains(&place), "{complaint}");
    assert!(fail(&["serve", "--config", arg(&none)]).contains("check the path"));
    assert!(fail(&["serve", "--requirepass-file", arg(&empty)]).contains("it is empty"));
    let output = command(&["serve"]).env("PERDURA_PASSWORD", "").output().expect("it starts");
    let complaint = crate::common::text(&output.stderr);
    assert!(complaint.starts_with("error: PERDURA_PASSWORD is empty"), "{complaint}");
    assert!(!at("perdura.pool").exists());
}

/// The complaint of a server that does not start; lines about the pool may come before it.
fn last_line(arguments: &[&str]) -> String {
    let output = crate::common::run(arguments);
    assert_eq!(output.status.code(), Some(1));
    let printed = crate::common::text(&output.stderr);
    let last = printed.lines().last().unwrap_or_default().to_owned();
    assert!(last.starts_with("error: "), "{printed}");
    last
}
