//! `perdura serve` as a process: it keeps what it acknowledged, and says why it cannot start.

#![allow(missing_docs)]
#![cfg(unix)]

mod common;

use common::{arg, command, fail, succeed};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
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
    let start = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(start.elapsed() < Duration::from_secs(20), "it does not listen");
        sleep(Duration::from_millis(20));
    }
    running
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
    assert!(fail(&["serve", "--pool", arg(folder.path())]).contains("not a regular file"));
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
