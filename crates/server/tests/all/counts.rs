//! What a request costs, counted: calls of the system, and instructions. A time differs from run to run, the calls do not,
//! and the instructions by a twentieth: how many commands share a look at the clock depends on their time, which is long
//! under callgrind. The bounds of a release are a tenth above the counts when they were written, and those of the tests' own
//! build a fifth, since what is inlined there changes with what stands beside it: where one is exceeded, something has come
//! into every request. Lower them when something has gone.

use crate::common::{Client, Running, encode};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Requests that a client sends together, and then waits for.
const PIPELINE: usize = 16;
/// Keys, fields and members.
const KEYS: usize = 500;

/// As many threads as cores, so that none looks for requests instead of sleeping.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Sends rounds of requests, and waits for the answers of each.
fn rounds(client: &mut Client, count: usize, request: impl Fn(usize) -> Vec<u8>) {
    for round in 0..count {
        let all = (round * PIPELINE..(round + 1) * PIPELINE).flat_map(&request);
        client.send(&all.collect::<Vec<_>>());
        for _ in 0..PIPELINE {
            client.receive().expect("an answer");
        }
    }
}

fn get(number: usize) -> Vec<u8> {
    encode(&[b"GET", format!("key:{:012}", number % KEYS).as_bytes()])
}

fn set(number: usize) -> Vec<u8> {
    encode(&[b"SET", format!("key:{:012}", number % KEYS).as_bytes(), b"xxx"])
}

fn write(number: usize) -> Vec<u8> {
    let name = format!("element:{:012}", number / 4 % KEYS);
    match number % 4 {
        0 => set(number / 4),
        1 => encode(&[b"INCR", format!("cnt:{:012}", number / 4 % KEYS).as_bytes()]),
        2 => encode(&[b"HSET", b"myhash", name.as_bytes(), b"xxx"]),
        _ => encode(&[b"ZADD", b"myzset", b"0", name.as_bytes()]),
    }
}

/// The calls of the system for requests so far: reads, writes, and waits for events.
fn calls(client: &mut Client) -> [usize; 3] {
    let info = client.ask("INFO stats");
    ["total_reads_processed", "total_writes_processed", "eventloop_cycles"].map(|name| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.expect("INFO has it").trim_end().parse().expect("a number")
    })
}

#[test]
fn a_round_of_requests_takes_three_calls_of_the_system() {
    const ROUNDS: usize = 300;
    for request in [get, set, write] {
        let server = Running::with(|options| options.threads(cores()), 64 << 20);
        let mut client = server.client();
        client.ask("PING");
        let (before, start) = (calls(&mut client), Instant::now());
        rounds(&mut client, ROUNDS, request);
        let after = calls(&mut client);
        let [reads, writes, looks] = [0, 1, 2].map(|index| after[index] - before[index]);
        // The answer to INFO, and what the system may deliver in pieces.
        let most = ROUNDS + 10;
        assert!(reads <= most && writes <= most, "{reads} reads and {writes} writes");
        // Each thread looks around once in a tenth of a second, whatever happens.
        let ticks = cores() * (start.elapsed().as_millis() as usize / 100 + 2);
        assert!(looks <= most + ticks, "{looks} waits for events, and {ticks} ticks");
    }
}

/// Where a worker does requests. What is outside takes as many instructions as a host is slow: each thread looks around
/// every tenth of a second.
const BATCH: &str = "perdura_server::net::worker::Worker<*>::do_batch*";

/// Where the counted server, which is this program, finds its pool and its address.
const POOL: &str = "PERDURA_COUNTED_POOL";
const ADDRESS: &str = "PERDURA_COUNTED_ADDRESS";

/// No test unless another asks for it: the server, of the same build as its tests.
#[test]
fn the_server_that_is_counted() {
    let (Ok(pool), Ok(address)) = (std::env::var(POOL), std::env::var(ADDRESS)) else { return };
    let options = perdura_server::Options::new().listen(address.parse().unwrap());
    let pool = perdura::Options::new().open_or_create(pool).unwrap();
    perdura_server::run(pool, options.threads(cores())).unwrap();
}

/// A server under callgrind, which counts what is done in batches.
struct Counted {
    process: Child,
    address: std::net::SocketAddr,
}

impl Counted {
    fn start(folder: &Path) -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let pool = folder.join("pool");
        let _ = std::fs::remove_file(&pool);
        let process = Command::new("valgrind")
            .arg("--tool=callgrind")
            .arg(format!("--toggle-collect={BATCH}"))
            .arg(format!("--callgrind-out-file={}", folder.join("counts").display()))
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "counts::the_server_that_is_counted"])
            .env(POOL, &pool)
            .env(ADDRESS, address.to_string())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("valgrind starts");
        Counted { process, address }
    }

    fn client(&mut self) -> Client {
        let start = Instant::now();
        while std::net::TcpStream::connect(self.address).is_err() {
            assert!(self.process.try_wait().unwrap().is_none(), "the server has ended");
            assert!(start.elapsed() < Duration::from_secs(60), "the server does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Client::connect(self.address)
    }
}

/// Instructions of a server's life with so many rounds of these requests, after some of all kinds.
fn instructions(folder: &Path, count: usize, request: fn(usize) -> Vec<u8>) -> u64 {
    let mut server = Counted::start(folder);
    let mut client = server.client();
    rounds(&mut client, 4 * KEYS / PIPELINE + 1, write);
    rounds(&mut client, count, request);
    client.send(&encode(&[b"SHUTDOWN"]));
    assert!(server.process.wait().unwrap().success());
    assert!(folder.join("pool").exists(), "another test ran in the server's place");
    let text = std::fs::read_to_string(folder.join("counts")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("totals: "));
    line.expect("callgrind writes it").trim().parse().unwrap()
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the bounds are of x86-64")]
fn a_request_takes_no_more_instructions_than_it_did() {
    const ROUNDS: usize = 200;
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("not measured: there is no valgrind");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let none = instructions(folder.path(), 0, get);
    let mut too_many = false;
    for (name, request, debug, release) in BOUNDS {
        let all = instructions(folder.path(), ROUNDS, request);
        let each = all.saturating_sub(none) / (ROUNDS * PIPELINE) as u64;
        assert!(each > 100, "callgrind has not found {BATCH}");
        let most = if cfg!(debug_assertions) { debug } else { release };
        println!("{name}: {each} instructions of at most {most}");
        too_many |= each > most;
    }
    assert!(!too_many, "a request takes more instructions than it did");
}

/// A kind of request, and the most instructions that it may take: as this build is, and as a release is.
type Bound = (&'static str, fn(usize) -> Vec<u8>, u64, u64);

const BOUNDS: [Bound; 2] =
    [("GET", get, 9_900, 3_050), ("one of SET, INCR, HSET and ZADD", write, 14_300, 4_600)];
