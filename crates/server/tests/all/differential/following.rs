//! This server follows a stock Redis through random commands of all families, with broken connections, and has the same in
//! the end.

use super::Redis;
use super::replicas::{all, compared, now, play_without};
use crate::common::{Client, ENGINE, Random, Running};
use perdura_testing::{seeds, times};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CLIENTS: u64 = 3;

pub(super) fn client_of(redis: &Redis) -> Client {
    Client::connect(([127, 0, 0, 1], redis.port).into())
}

/// Random commands. Redis 7.0 does not tell its replicas of a string that BITFIELD makes longer though its OVERFLOW fails.
pub(super) fn play(client: &mut Client, random: &mut Random, steps: u64) {
    play_without(client, random, steps, "BITFIELD ");
}

/// All that a server has, but for what Redis 7.0 does not tell its replicas: a consumer that claims nothing, how many
/// entries a group has read, and how often one was delivered again.
pub(super) fn told(client: &mut Client) -> BTreeMap<(u8, Vec<u8>), String> {
    let mut all = all(client);
    for held in all.values_mut().filter(|held| held.starts_with("stream")) {
        while let Some(end) = held.find(" pel-count 0 pending []]")
            && let Some(start) = held[..end].rfind("[name ")
        {
            held.replace_range(start..end + " pel-count 0 pending []]".len(), "");
        }
        let mut words: Vec<&str> = held.split_whitespace().collect();
        while let Some(at) = words.iter().position(|word| *word == "entries-read" || *word == "lag")
        {
            words.drain(at..at + 2);
        }
        let groups = words.iter().position(|word| *word == "groups").unwrap_or(words.len());
        for word in &mut words[groups..] {
            // How often an entry was delivered.
            if word.ends_with(']') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b']')
            {
                *word = word.trim_start_matches(|one: char| one.is_ascii_digit());
            }
        }
        *held = words.join(" ").replace("[ ", "[").replace(" ]", "]");
    }
    all
}

/// Compares all that both have, once the follower has all.
fn compare(ours: &mut Client, theirs: &mut Client, what: &str) {
    let start = Instant::now();
    // A master without a replica counts no bytes.
    while !ours.ask("INFO replication").contains("master_link_status:up") {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{what}: {}",
            ours.ask("INFO replication")
        );
        thread::sleep(Duration::from_millis(20));
    }
    theirs.ask("SET waited-for 1");
    while theirs.ask("WAIT 1 1000") != "1" {
        let info = ours.ask("INFO replication");
        let is_given_up = info.contains("given_up:1");
        assert!(!is_given_up && start.elapsed() < Duration::from_secs(60), "{what}: {info}");
    }
    let start = Instant::now();
    loop {
        let differences = compared(&told(ours), &told(theirs));
        if differences.is_empty() {
            return;
        }
        // Keys expire meanwhile.
        assert!(start.elapsed() < Duration::from_secs(5), "{what}: {differences:#?}");
        thread::sleep(Duration::from_millis(300));
    }
}

fn follow(rounds: u64, diskless: &str) {
    let options = ["--repl-diskless-sync", diskless, "--repl-diskless-sync-delay", "0"];
    let Some(redis) = Redis::start_with(&options) else {
        println!("skipped: there is no redis-server");
        return;
    };
    let running = Running::with(|options| options.threads(2), 64 << 20);
    let seed = seeds(now() % 1_000_000, 1).start;
    println!("replay with PERDURA_TEST_SEED={seed}");
    let steps = times(if std::env::var_os(ENGINE).is_some() { 1_500 } else { 3_000 });
    let (mut theirs, mut ours) = (client_of(&redis), running.client());
    play(&mut theirs, &mut Random::new(seed), steps);
    ours.ask("SET gone-when-a-master-is-followed 1");
    assert_eq!(ours.ask(&format!("REPLICAOF 127.0.0.1 {}", redis.port)), "OK");
    for round in 0..rounds {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let (mut here, mut there) = (running.client(), client_of(&redis));
            let (done, mut random) = (&done, Random::new(seed + 1000 + round));
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    thread::sleep(Duration::from_millis(100 + random.below(500) as u64));
                    match random.below(3) {
                        0 => here.ask("CLIENT KILL TYPE master"),
                        1 => there.ask("CLIENT KILL TYPE replica"),
                        // Perhaps a new snapshot.
                        _ => there.ask("CONFIG SET repl-backlog-size 16384"),
                    };
                }
            });
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let mut own = client_of(&redis);
                    let mut random = Random::new(seed + 100 * round + client + 1);
                    scope.spawn(move || play(&mut own, &mut random, steps))
                })
                .collect();
            let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
            done.store(true, Ordering::Release);
            assert!(ended.iter().all(Result::is_ok), "a client has failed");
        });
        compare(&mut ours, &mut theirs, &format!("round {round}"));
    }
    let info = ours.ask("INFO replication");
    assert!(info.contains("role:slave") && info.contains("master_link_status:up"), "{info}");
    running.check();
}

#[test]
fn a_stock_master_is_followed() {
    follow(2, "yes");
    follow(2, "no");
}

/// Where the server that is killed, which is this program, finds its pool, its address, and its master.
const POOL: &str = "PERDURA_KILLED_POOL";
const ADDRESS: &str = "PERDURA_KILLED_ADDRESS";
const MASTER: &str = "PERDURA_KILLED_MASTER";

/// No test unless another asks for it.
#[test]
fn the_server_that_is_killed() {
    let (Ok(pool), Ok(address)) = (std::env::var(POOL), std::env::var(ADDRESS)) else { return };
    let mut options = perdura_server::Options::new().listen(address.parse().unwrap()).threads(2);
    if let Ok(port) = std::env::var(MASTER) {
        options = options.replica_of("127.0.0.1", port.parse().unwrap());
    }
    let pool = process_pool(Path::new(&pool));
    perdura_server::run(pool, options).unwrap();
}

/// The engine of the pools of servers that are killed; `None` if nothing of a pool outlives a kill.
pub(super) fn kept_engine() -> Option<perdura::EngineKind> {
    let name = std::env::var(ENGINE).unwrap_or_else(|_| perdura::EngineKind::Redo.to_string());
    let engine: perdura::EngineKind = name.parse().unwrap();
    engine.is_crash_consistent().then_some(engine)
}

fn process_pool(path: &Path) -> perdura::Pool {
    let options = perdura::Options::new().size(128 << 20).domain(Some(perdura::Domain::Process));
    let engine = kept_engine().expect("an engine that keeps a log");
    options.engine(engine).open_or_create(path).unwrap()
}

/// A server in a process of its own.
pub(super) struct Killed {
    process: Child,
    pub(super) address: SocketAddr,
}

impl Killed {
    pub(super) fn start(pool: &Path, address: SocketAddr, master: Option<u16>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "differential::following::the_server_that_is_killed"])
            .env(POOL, pool)
            .env(ADDRESS, address.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(port) = master {
            command.env(MASTER, port.to_string());
        }
        let mut process = command.spawn().unwrap();
        let start = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            assert!(process.try_wait().unwrap().is_none(), "the server has ended");
            assert!(start.elapsed() < Duration::from_secs(60), "the server does not listen");
            thread::sleep(Duration::from_millis(5));
        }
        Killed { process, address }
    }

    pub(super) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// `kill -s`.
    pub(super) fn signal(&self, name: &str) {
        let done = Command::new("kill").args(["-s", name, &self.process.id().to_string()]).status();
        assert!(done.is_ok_and(|status| status.success()), "kill -s {name}");
    }

    /// The same as [`start`](Self::start) on its pool, after SIGKILL.
    pub(super) fn kill_and_start(&mut self, pool: &Path, master: Option<u16>) {
        let address = self.address;
        let killed = std::mem::replace(self, Killed { process: dummy(), address });
        killed.kill();
        *self = Killed::start(pool, address, master);
    }

    /// The same after SIGTERM.
    pub(super) fn end_and_start(&mut self, pool: &Path, master: Option<u16>) {
        self.signal("TERM");
        assert!(self.process.wait().unwrap().success(), "it has ended with an error");
        *self = Killed::start(pool, self.address, master);
    }

    /// SIGKILL.
    pub(super) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(super) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A number of INFO.
pub(super) fn number(client: &mut Client, section: &str, name: &str) -> u64 {
    let info = client.ask(&format!("INFO {section}"));
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name} in {info}")).trim_end().parse().unwrap()
}

/// Many changes, each of which shows if it is done twice or not at all; some in transactions.
fn flood(client: &mut Client, random: &mut Random, rounds: u64) {
    client.ask("SELECT 9");
    for round in 0..rounds {
        let (mut text, mut answers) = (String::new(), 0);
        for _ in 0..20 {
            let (key, more) = (random.below(20), random.below(8));
            text +=
                &format!("INCR n{key}\r\nMULTI\r\nLPUSH l{key} {round}\r\nLTRIM l{key} 0 99\r\n");
            text +=
                &format!("APPEND a{key} x\r\nHINCRBY h f{key} 1\r\nEXEC\r\nZINCRBY z 1 m{key}\r\n");
            answers += 8;
            if more == 0 {
                text += &format!("DEL a{key}\r\nSET n{key} 0\r\n");
                answers += 2;
            }
        }
        client.send(text.as_bytes());
        (0..answers).for_each(|_| drop(client.receive().expect("an answer")));
    }
}

/// Kills the follower at random moments: it goes on exactly where it was.
#[test]
fn nothing_is_doubled_or_lost_by_kills() {
    if kept_engine().is_none() {
        println!("skipped: nothing outlives a kill under this engine");
        return;
    }
    let options = ["--repl-backlog-size", "256mb", "--repl-diskless-sync-delay", "0"];
    let Some(redis) = Redis::start_with(&options) else {
        println!("skipped: there is no redis-server");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (pool, address) = (folder.path().join("pool"), free_address());
    let seed = seeds(now() % 1_000_000, 1).start;
    println!("replay with PERDURA_TEST_SEED={seed}");
    let steps = times(30_000);
    let mut theirs = client_of(&redis);
    play(&mut theirs, &mut Random::new(seed), 1_000);
    let mut follower = Killed::start(&pool, address, Some(redis.port));
    compare(&mut follower.client(), &mut theirs, "at first");
    let mut random = Random::new(seed + 1);
    let mut kills = 0;
    let (before, start) =
        (number(&mut theirs, "replication", "master_repl_offset"), Instant::now());
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let mut own = client_of(&redis);
                let mut random = Random::new(seed + 10 + client);
                scope.spawn(move || play(&mut own, &mut random, steps))
            })
            .collect();
        let mut own = client_of(&redis);
        let flooding = scope.spawn(move || flood(&mut own, &mut Random::new(seed + 9), times(400)));
        while !(clients.iter().all(|client| client.is_finished()) && flooding.is_finished()) {
            thread::sleep(Duration::from_millis(random.below(250) as u64));
            follower.kill_and_start(&pool, Some(redis.port));
            kills += 1;
        }
    });
    compare(&mut follower.client(), &mut theirs, &format!("seed {seed}, after {kills} kills"));
    let after = number(&mut theirs, "replication", "master_repl_offset");
    let changes = number(&mut theirs, "persistence", "rdb_changes_since_last_save");
    let (whole, parts) = (
        number(&mut theirs, "stats", "sync_full"),
        number(&mut theirs, "stats", "sync_partial_ok"),
    );
    println!(
        "{kills} kills, {whole} snapshots, {parts} times gone on, {changes} changes, {} bytes in {:?}",
        after - before,
        start.elapsed()
    );
    assert!(whole == 1 && parts > 0, "{whole} snapshots, {parts} times gone on");
    follower.kill();
    let running = Running::on(process_pool(&pool), |options| options);
    running.check();
}

/// A process that ends at once.
fn dummy() -> Child {
    Command::new("true").spawn().unwrap()
}

/// Kills the follower while it loads a snapshot: what is not whole is shown to nobody.
#[test]
fn a_part_of_a_snapshot_is_never_shown() {
    if kept_engine().is_none() {
        println!("skipped: nothing outlives a kill under this engine");
        return;
    }
    const KEYS: &str = "20000";
    for diskless in ["yes", "no"] {
        let options = [
            "--enable-debug-command",
            "yes",
            "--repl-diskless-sync",
            diskless,
            "--repl-diskless-sync-delay",
            "0",
        ];
        let Some(redis) = Redis::start_with(&options) else {
            println!("skipped: there is no redis-server");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let (pool, address) = (folder.path().join("pool"), free_address());
        let mut theirs = client_of(&redis);
        theirs.ask(&format!("DEBUG POPULATE {KEYS} key 100"));
        theirs.ask("FUNCTION LOAD #!lua\tname=one\nredis.register_function('one',function(keys)return(1)end)");
        let mut random = Random::new(seeds(7, 1).start);
        let (mut partly, mut kills) = (0, 0);
        // A pool with data of its own, which is gone when the master's comes.
        let mut follower = Killed::start(&pool, address, None);
        follower.client().ask("SET own 1");
        follower.client().ask(&format!("REPLICAOF 127.0.0.1 {}", redis.port));
        let start = Instant::now();
        loop {
            let until = Instant::now() + Duration::from_millis(100 + random.below(500) as u64);
            let (mut client, mut info) = (follower.client(), follower.client());
            let mut is_whole = false;
            while Instant::now() < until && !is_whole {
                let answer = client.ask("DBSIZE");
                let loads = answer.starts_with("LOADING");
                // Its own, until the snapshot comes.
                assert!(loads || answer == KEYS || answer == "1" && partly == 0, "{answer}");
                if loads {
                    partly += 1;
                    let refused = client.ask("GET key:1");
                    // Or it has come since; Redis fills the values with zeros.
                    assert!(
                        refused.starts_with("LOADING") || refused.starts_with("value:1"),
                        "{refused}"
                    );
                    assert!(info.ask("INFO replication").contains("master_link_status"));
                    assert!(client.ask("FUNCTION LIST").len() > 20);
                }
                is_whole = answer == KEYS;
                thread::sleep(Duration::from_millis(2));
            }
            if is_whole || kills >= 20 && start.elapsed() > Duration::from_secs(60) {
                break;
            }
            if kills < 3 {
                drop((client, info));
                follower.kill();
                kills += 1;
                follower = Killed::start(&pool, address, None);
            }
        }
        println!("{kills} kills, {partly} looks at a part");
        assert!(partly > 0);
        compare(&mut follower.client(), &mut theirs, "in the end");
    }
}

/// Another server of this kind is followed, and a follower goes on from where it was when the master changes its name.
#[test]
fn a_server_of_this_kind_is_followed() {
    let seed = seeds(now() % 1_000_000, 1).start;
    println!("replay with PERDURA_TEST_SEED={seed}");
    let master = Running::with(|options| options.threads(2), 64 << 20);
    let running = Running::with(|options| options.threads(1), 64 << 20);
    let (mut theirs, mut ours) = (master.client(), running.client());
    play(&mut theirs, &mut Random::new(seed), times(1_000));
    assert_eq!(ours.ask(&format!("REPLICAOF 127.0.0.1 {}", master.address.port())), "OK");
    for round in 0..3 {
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let mut own = master.client();
                let mut random = Random::new(seed + 10 * round + client);
                scope.spawn(move || play(&mut own, &mut random, times(1_000)));
            }
            ours.ask("CLIENT KILL TYPE master");
        });
        compare(&mut ours, &mut theirs, &format!("seed {seed}, round {round}"));
    }
    running.check();
}

#[test]
fn a_master_may_want_a_password() {
    let Some(redis) = Redis::start_with(&["--repl-diskless-sync-delay", "0"]) else {
        println!("skipped: there is no redis-server");
        return;
    };
    let mut theirs = client_of(&redis);
    theirs.ask("ACL SETUSER follower on >secret +psync +replconf +ping");
    theirs.ask("SET a 1");
    theirs.ask("CONFIG SET requirepass other");
    let running = Running::with(|options| options.threads(1), 64 << 20);
    let mut ours = running.client();
    ours.ask(&format!("REPLICAOF 127.0.0.1 {}", redis.port));
    let wait = |ours: &mut Client, text: &str| {
        let start = Instant::now();
        while !ours.ask("INFO replication").contains(text) {
            assert!(start.elapsed() < Duration::from_secs(60), "{}", ours.ask("INFO replication"));
            thread::sleep(Duration::from_millis(20));
        }
    };
    wait(&mut ours, "NOAUTH");
    ours.ask("CONFIG SET masteruser follower masterauth wrong");
    wait(&mut ours, "the master refuses masterauth");
    assert_eq!(ours.ask("CONFIG GET masterauth"), "[masterauth wrong]");
    ours.ask("CONFIG SET masterauth secret");
    wait(&mut ours, "master_link_status:up");
    assert_eq!(ours.ask("GET a"), "1");
    assert!(ours.ask("CONFIG GET replicaof").contains(&redis.port.to_string()));
    // Clients write, if they are let.
    assert!(ours.ask("SET b 1").starts_with("READONLY"));
    assert_eq!(ours.ask("CONFIG SET replica-read-only no"), "OK");
    assert_eq!(ours.ask("SET b 1"), "OK");
    ours.ask("CONFIG SET slave-read-only yes");
    assert!(ours.ask("SET b 1").starts_with("READONLY"));
}
