//! `perdura serve` as a process: it keeps what it acknowledged, and says why it cannot start.

#![allow(missing_docs)]
#![cfg(unix)]

mod common;

use common::{arg, command, fail, succeed};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::tempdir;

struct Running {
    process: Child,
    address: SocketAddr,
}

impl Drop for Running {
    fn drop(&mut self) {
        // A failed test must not leave a server behind.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("its address")
}

fn start(pool: &Path, more: &[&str]) -> Running {
    let address = free_address();
    let listen = address.to_string();
    let arguments = [&["serve", "--pool", arg(pool), "--listen", &listen], more].concat();
    let process = command(&arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let running = Running { process, address };
    wait_for(address);
    running
}

/// Returns when the server answers; it listens before that.
fn wait_for(address: impl ToSocketAddrs + Copy) {
    let start = Instant::now();
    loop {
        if let Ok(mut stream) = TcpStream::connect(address) {
            stream.write_all(b"PING\r\n").expect("a request");
            let mut answer = String::new();
            BufReader::new(stream).read_line(&mut answer).expect("an answer");
            assert_eq!(answer, "+PONG\r\n");
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "it does not listen");
        sleep(Duration::from_millis(20));
    }
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
fn what_is_acknowledged_is_there_after_the_end_of_the_process() {
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

#[test]
fn a_pool_or_port_in_use_is_refused() {
    let folder = tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let server = start(&pool, &["--size", "32M"]);
    let other = free_address().to_string();
    let complaint = last_line(&["serve", "--pool", arg(&pool), "--listen", &other]);
    assert!(complaint.contains("in use"), "{complaint}");
    let second = folder.path().join("second");
    let taken = server.address.to_string();
    let arguments = ["serve", "--pool", arg(&second), "--size", "32M", "--listen", &taken];
    let complaint = last_line(&arguments);
    assert!(complaint.contains("--listen"), "{complaint}");
    assert!(!second.exists(), "a server that cannot listen leaves a pool behind");
    let wrong = ["serve", "--pool", arg(&second), "--requirepass", ""];
    assert_eq!(common::run(&wrong).status.code(), Some(2));
    assert!(!second.exists(), "a wrong option leaves a pool behind");
    assert!(fail(&["serve", "--pool", arg(folder.path())]).contains("not a regular file"));
}

#[test]
fn a_host_name_is_listened_at() {
    let folder = tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let address = free_address();
    let port = address.port();
    let process = command(&["serve", "--pool", arg(&pool), "--size", "32M"])
        .args(["--listen", &format!("localhost:{port}")])
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    let _running = Running { process, address };
    wait_for(("localhost", port));
}

#[test]
fn another_size_than_the_pool_s_own_is_told() {
    let folder = tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    succeed(&["pool", "create", arg(&pool), "--size", "32M"]);
    for (size, told) in [("64M", true), ("32M", false)] {
        let address = free_address();
        let listen = address.to_string();
        let process = command(&["serve", "--pool", arg(&pool), "--size", size])
            .args(["--listen", &listen])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut running = Running { process, address };
        let mut stderr = running.process.stderr.take().expect("a pipe");
        wait_for(address);
        assert_eq!(running.end("-TERM"), Some(0));
        let mut printed = String::new();
        stderr.read_to_string(&mut printed).expect("text");
        assert_eq!(printed.contains("its own limit stays 32 MiB"), told, "{printed}");
    }
}

/// The complaint of a server that does not start; lines about the pool may come before it.
fn last_line(arguments: &[&str]) -> String {
    let output = common::run(arguments);
    assert_eq!(output.status.code(), Some(1));
    let printed = common::text(&output.stderr);
    let last = printed.lines().last().unwrap_or_default().to_owned();
    assert!(last.starts_with("error: "), "{printed}");
    last
}
