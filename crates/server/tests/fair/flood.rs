//! Clients that send without pause, and their effect on another client and on the process.

use crate::common::{Client, show};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes that a client sends, and reads, in one call.
const PIECE: usize = 64 << 10;

/// The requests of such a client.
#[derive(Clone, Copy)]
pub(crate) struct Kind<'a> {
    /// Once, at first.
    pub(crate) first: &'a [u8],
    /// Then for ever.
    pub(crate) request: &'a [u8],
    pub(crate) reads: bool,
}

/// A client that sends until it is dropped.
pub(crate) struct Flood {
    stream: TcpStream,
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Flood {
    pub(crate) fn start(address: SocketAddr, kind: Kind<'_>) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let received = Arc::new(AtomicU64::new(0));
        let mut threads = Vec::new();
        let (mut sender, stopped) = (stream.try_clone().unwrap(), Arc::clone(&stop));
        let first = kind.first.to_vec();
        let bytes = kind.request.repeat(PIECE.div_ceil(kind.request.len()));
        threads.push(std::thread::spawn(move || {
            let mut going = sender.write_all(&first);
            while going.is_ok() && !stopped.load(Ordering::Relaxed) {
                going = sender.write_all(&bytes);
            }
        }));
        if kind.reads {
            let (mut reader, count) = (stream.try_clone().unwrap(), Arc::clone(&received));
            threads.push(std::thread::spawn(move || {
                let mut piece = vec![0; PIECE];
                while let Ok(read @ 1..) = reader.read(&mut piece) {
                    count.fetch_add(read as u64, Ordering::Relaxed);
                }
            }));
        }
        Flood { stream, stop, received, threads }
    }

    /// Bytes of replies that it has read.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.stream.shutdown(Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The times of another client's PINGs, sorted, and the memory that the process took meanwhile.
pub(crate) struct Felt {
    times: Vec<Duration>,
    pub(crate) bytes: u64,
}

impl Felt {
    pub(crate) fn median(&self) -> Duration {
        self.times[self.times.len() / 2]
    }

    pub(crate) fn longest(&self) -> Duration {
        self.times[self.times.len() - 1]
    }
}

/// Lets clients of the server at `address` send, and another one PING this often.
pub(crate) fn felt(
    address: SocketAddr,
    client: &mut Client,
    kinds: &[Kind<'_>],
    pings: usize,
) -> (Felt, Vec<Flood>) {
    assert_eq!(client.ask("PING"), "PONG");
    let before = memory();
    let start = |kind: &Kind<'_>| Flood::start(address, *kind);
    let floods: Vec<Flood> = kinds.iter().map(start).collect();
    std::thread::sleep(Duration::from_millis(200));
    let mut felt = Felt { times: Vec::new(), bytes: 0 };
    for _ in 0..pings {
        felt.times.push(ping(client));
        felt.bytes = felt.bytes.max(memory().saturating_sub(before));
        std::thread::sleep(Duration::from_millis(1));
    }
    felt.times.sort();
    (felt, floods)
}

fn ping(client: &mut Client) -> Duration {
    let began = Instant::now();
    client.send(b"*1\r\n$4\r\nPING\r\n");
    let reply = client.receive().expect("an answer within 20 seconds");
    assert_eq!(show(&reply), "PONG");
    began.elapsed()
}

/// Bytes of memory of this process that are no file's.
pub(crate) fn memory() -> u64 {
    of_status("RssAnon:")
}

/// The largest memory that this process had at once, since it was restarted, files' pages with it.
pub(crate) fn peak() -> u64 {
    of_status("VmHWM:")
}

/// Sets the peak to the present value.
pub(crate) fn restart_peak() -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    peak()
}

fn of_status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}
