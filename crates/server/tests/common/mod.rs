//! A server on a pool of its own, and a client that speaks in bytes.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use perdura_memory::random::SplitMix64;
use perdura_server::{Options, Server, Shutdown};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

/// The variable that names the engine of new pools; without it they have the usual one.
pub const ENGINE: &str = "PERDURA_TEST_ENGINE";

fn engine() -> perdura::EngineKind {
    match std::env::var(ENGINE) {
        Ok(name) => name.parse().expect("the name of an engine"),
        Err(_) => perdura::EngineKind::Redo,
    }
}

/// A server that runs until it is dropped.
pub struct Running {
    pub address: SocketAddr,
    pub pool: perdura::Pool,
    shutdown: Shutdown,
    thread: Option<JoinHandle<()>>,
    folder: Option<tempfile::TempDir>,
}

impl Running {
    pub fn start() -> Self {
        Self::with(|options| options, 64 << 20)
    }

    pub fn with(change: impl FnOnce(Options) -> Options, size: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Power cuts are tested elsewhere; without syncs the tests are quick on any disk.
        let pool = perdura::Options::new().size(size).domain(Some(perdura::Domain::Process));
        let pool = pool.engine(engine()).open_or_create(folder.path().join("pool")).unwrap();
        let mut running = Self::on(pool, change);
        running.folder = Some(folder);
        running
    }

    pub fn on(pool: perdura::Pool, change: impl FnOnce(Options) -> Options) -> Self {
        let options = Options::new().listen("127.0.0.1:0".parse().unwrap());
        let server = Server::bind(&pool, change(options)).unwrap();
        Self::run(pool, server)
    }

    pub fn run(pool: perdura::Pool, server: Server) -> Self {
        let (address, shutdown) = (server.local_addr(), server.shutdown());
        let thread = std::thread::spawn(move || server.run().unwrap());
        Running { address, pool, shutdown, thread: Some(thread), folder: None }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Ends the server; the pool stays open.
    pub fn stop(&mut self) {
        self.shutdown.shutdown();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    /// Ends the server, closes the pool, opens it again.
    pub fn restarted(mut self) -> Self {
        self.stop();
        let (path, folder) = (self.pool.path().to_owned(), self.keep());
        drop(self);
        let pool = perdura::Options::new().engine(engine()).open(path).unwrap();
        let mut running = Running::on(pool, |options| options);
        running.adopt(folder);
        running
    }

    /// Waits until the server has ended by itself; the pool stays open.
    pub fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    /// Keeps the pool's folder from being deleted.
    pub fn keep(&mut self) -> Option<tempfile::TempDir> {
        self.folder.take()
    }

    /// Deletes the folder in the end.
    pub fn adopt(&mut self, folder: Option<tempfile::TempDir>) {
        self.folder = folder;
    }

    /// Checks the keyspace.
    pub fn check(&self) -> perdura_server::Findings {
        let mut session = self.pool.session().unwrap();
        let mut seen = std::collections::HashSet::new();
        session
            .read(|tx| {
                seen.clear();
                perdura_server::check(tx, &mut |at| {
                    assert!(seen.insert(at), "block {at:#x} is reached twice");
                    Ok(())
                })
            })
            .unwrap()
            .unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A client that waits for each answer.
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Client { stream, buffer: Vec::new() }
    }

    /// Sends bytes; a server that has hung up is noticed when its answer is awaited.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The same connection, to send from another thread.
    pub fn again(&self) -> Self {
        Client { stream: self.stream.try_clone().unwrap(), buffer: Vec::new() }
    }

    /// Sends nothing more.
    pub fn shut(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// The next reply; `None` at the end of the connection.
    pub fn receive(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, used)) = Frame::decode(&self.buffer) {
                self.buffer.drain(..used);
                return Some(frame);
            }
            let mut piece = [0; 65536];
            match self.stream.read(&mut piece) {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.buffer.extend_from_slice(&piece[..read]),
            }
        }
    }

    pub fn call(&mut self, args: &[&[u8]]) -> Frame {
        self.send(&encode(args));
        self.receive().expect("an answer")
    }

    /// A command of words, and its answer as redis-cli would print it.
    pub fn ask(&mut self, command: &str) -> String {
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        show(&self.call(&args))
    }

    /// All bytes until the end of the connection, after this request.
    pub fn rest_after(&mut self, request: &str) -> String {
        self.send(request.as_bytes());
        self.rest()
    }

    /// All bytes until the end of the connection.
    pub fn rest(&mut self) -> String {
        let mut rest = std::mem::take(&mut self.buffer);
        let _ = self.stream.read_to_end(&mut rest);
        String::from_utf8_lossy(&rest).into_owned()
    }
}

/// INFO's text without how long commands took.
pub fn without_times(info: &str) -> String {
    let line = |line: &str| {
        let fields = line.trim_end().split(',').filter(|field| !field.starts_with("usec"));
        fields.collect::<Vec<_>>().join(",")
    };
    info.lines().map(line).collect::<Vec<_>>().join("\n")
}

pub fn encode(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A reply, in either version of the protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// Bulk, simple and verbatim strings, and errors.
    Text(Vec<u8>),
    Integer(i64),
    Double(String),
    Null,
    /// Arrays, sets, and maps as arrays of their keys and values.
    List(Vec<Frame>),
}

impl Frame {
    /// The reply at the beginning of `bytes`, and its length; `None` if it is not complete.
    pub fn decode(bytes: &[u8]) -> Option<(Frame, usize)> {
        let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let line = std::str::from_utf8(&bytes[1..end]).unwrap();
        let number = || line.parse::<i64>().unwrap();
        let rest = end + 2;
        Some(match bytes[0] {
            b'+' | b'-' => (Frame::Text(line.as_bytes().to_vec()), rest),
            b':' => (Frame::Integer(number()), rest),
            b',' => (Frame::Double(line.to_owned()), rest),
            b'_' => (Frame::Null, rest),
            b'$' | b'*' if number() < 0 => (Frame::Null, rest),
            b'$' => (Frame::Text(text(bytes, rest, number())?), rest + number() as usize + 2),
            b'=' => {
                let text = text(bytes, rest, number())?[4..].to_vec();
                (Frame::Text(text), rest + number() as usize + 2)
            }
            b'*' | b'~' | b'>' => list(bytes, rest, number())?,
            b'%' => list(bytes, rest, 2 * number())?,
            other => panic!("a reply begins with {:?}", char::from(other)),
        })
    }
}

fn text(bytes: &[u8], from: usize, len: i64) -> Option<Vec<u8>> {
    let to = from + len as usize;
    let text = bytes.get(from..to + 2)?;
    assert!(text.ends_with(b"\r\n"));
    Some(text[..len as usize].to_vec())
}

fn list(bytes: &[u8], from: usize, len: i64) -> Option<(Frame, usize)> {
    let (mut at, mut frames) = (from, Vec::new());
    for _ in 0..len {
        let (frame, used) = Frame::decode(&bytes[at..])?;
        frames.push(frame);
        at += used;
    }
    Some((Frame::List(frames), at))
}

/// A reply in one line.
pub fn show(frame: &Frame) -> String {
    match frame {
        Frame::Text(text) => String::from_utf8_lossy(text).into_owned(),
        Frame::Integer(value) => value.to_string(),
        Frame::Double(text) => text.clone(),
        Frame::Null => "nil".to_owned(),
        Frame::List(frames) => {
            format!("[{}]", frames.iter().map(show).collect::<Vec<_>>().join(" "))
        }
    }
}

/// Random choices that follow from a seed.
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(SplitMix64::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next()
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0.below(limit as u64) as usize
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Waits until a text is in an answer.
pub fn await_text(client: &mut Client, command: &str, text: &str) {
    let start = std::time::Instant::now();
    loop {
        let answer = client.ask(command);
        if answer.contains(text) {
            return;
        }
        assert!(start.elapsed().as_secs() < 60, "{command} lacks {text:?}: {answer}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
