//! Clients that are gone or unwanted give their places back: CLIENT KILL, the idle timeout, TCP keepalive.

use crate::common::{Client, Running};
use std::time::{Duration, Instant};

/// The client's own number and address.
fn own(client: &mut Client) -> (String, String) {
    let info = client.ask("CLIENT INFO");
    let field = |name: &str| info.split(' ').find_map(|word| word.strip_prefix(name));
    (field("id=").unwrap().to_owned(), field("addr=").unwrap().to_owned())
}

fn is_gone(client: &mut Client) -> bool {
    client.send(b"PING\r\n");
    client.receive().is_none()
}

fn connected(client: &mut Client) -> usize {
    let text = client.ask("INFO clients");
    let line = text.lines().find_map(|line| line.strip_prefix("connected_clients:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn clients_are_killed() {
    let running = Running::with(|options| options.threads(3).max_clients(5), 64 << 20);
    let mut client = running.client();
    let mut others: Vec<_> = (0..4).map(|_| running.client()).collect();
    let named: Vec<_> = others.iter_mut().map(own).collect();
    assert_eq!(client.ask("CLIENT KILL ID 99999"), "0");
    assert_eq!(client.ask("CLIENT KILL 127.0.0.1:1"), "ERR No such client");
    // The old form, then filters alone and together, on clients of other threads.
    assert_eq!(client.ask(&format!("CLIENT KILL {}", named[0].1)), "OK");
    assert!(is_gone(&mut others[0]));
    assert_eq!(client.ask(&format!("CLIENT KILL ID {} ADDR {}", named[1].0, named[2].1)), "0");
    assert_eq!(client.ask(&format!("CLIENT KILL ID {}", named[1].0)), "1");
    assert!(!client.ask("CLIENT LIST").contains(&named[1].1), "it is off the list at once");
    assert!(is_gone(&mut others[1]));
    let local = running.address;
    assert_eq!(client.ask("CLIENT KILL LADDR 127.0.0.1:1"), "0");
    assert_eq!(client.ask("CLIENT KILL TYPE pubsub LADDR 127.0.0.1:1"), "0");
    assert_eq!(
        client.ask(&format!("CLIENT KILL USER default TYPE normal LADDR {local} SKIPME yes")),
        "2"
    );
    assert!(is_gone(&mut others[2]) && is_gone(&mut others[3]));
    // Their places are free.
    let deadline = Instant::now() + Duration::from_secs(10);
    while connected(&mut client) > 1 {
        assert!(Instant::now() < deadline, "places of killed clients are not given back");
    }
    assert_eq!((0..4).map(|_| running.client()).map(|mut one| one.ask("PING")).count(), 4);
}

#[test]
fn one_that_kills_itself_is_answered_first() {
    let running = Running::start();
    let mut client = running.client();
    let (id, address) = own(&mut client);
    assert_eq!(client.ask(&format!("CLIENT KILL ID {id}")), "0", "SKIPME is yes by default");
    client.send(format!("CLIENT KILL {address}\r\nSET not done\r\n").as_bytes());
    assert_eq!(client.rest(), "+OK\r\n");
    let mut client = running.client();
    let (id, _) = own(&mut client);
    assert_eq!(client.ask("MULTI"), "OK");
    assert_eq!(client.ask("SET done 1"), "QUEUED");
    assert_eq!(client.ask(&format!("CLIENT KILL ID {id} SKIPME no")), "QUEUED");
    client.send(b"EXEC\r\nSET not done\r\n");
    assert_eq!(client.rest(), "*2\r\n+OK\r\n:1\r\n");
    assert_eq!(running.client().ask("MGET done not"), "[1 nil]");
}

#[test]
fn wrong_filters_are_refused() {
    let running = Running::start();
    let mut client = running.client();
    for (command, refusal) in [
        ("CLIENT KILL", "ERR wrong number of arguments for 'client|kill' command"),
        ("CLIENT KILL ID 0", "ERR client-id should be greater than 0"),
        ("CLIENT KILL ID x", "ERR client-id should be greater than 0"),
        ("CLIENT KILL TYPE odd", "ERR Unknown client type 'odd'"),
        ("CLIENT KILL USER nobody", "ERR No such user 'nobody'"),
        ("CLIENT KILL SKIPME perhaps", "ERR syntax error"),
        ("CLIENT KILL ID 1 ADDR", "ERR syntax error"),
        ("CLIENT KILL SIZE 1", "ERR syntax error"),
    ] {
        assert_eq!(client.ask(command), refusal, "{command}");
    }
}

#[test]
fn idle_clients_are_disconnected() {
    let running = Running::start();
    let (mut idle, mut busy) = (running.client(), running.client());
    assert_eq!(idle.ask("PING"), "PONG");
    assert_eq!(busy.ask("CONFIG GET timeout"), "[timeout 0]");
    assert_eq!(busy.ask("CONFIG SET timeout 1"), "OK");
    let start = Instant::now();
    let asks = std::thread::spawn(move || {
        while start.elapsed() < Duration::from_secs(3) {
            assert_eq!(busy.ask("PING"), "PONG");
            std::thread::sleep(Duration::from_millis(100));
        }
        busy
    });
    assert_eq!(idle.receive(), None, "it is closed without a word");
    assert!(start.elapsed() >= Duration::from_millis(900));
    let mut busy = asks.join().unwrap();
    assert_eq!(busy.ask("CONFIG SET timeout 0"), "OK");
    assert_eq!(connected(&mut busy), 1);
    assert!(
        busy.ask("CONFIG SET timeout -1").contains("argument must be between 0 and 2147483647")
    );
}

/// Whether the kernel will ask after a connection's peer: its keepalive timer runs, as /proc shows it.
fn is_asked_after(server: u16, client: u16) -> Option<bool> {
    let hex = |port: u16| format!(":{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").ok()?;
    table.lines().find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let ours = fields.get(1)?.ends_with(&hex(server)) && fields.get(2)?.ends_with(&hex(client));
        ours.then(|| fields.get(5).is_some_and(|timer| timer.starts_with("02")))
    })
}

#[test]
fn dead_peers_are_asked_after() {
    let running = Running::start();
    let server = running.address.port();
    let asked = |client: &mut Client| {
        let (_, address) = own(client);
        let port = address.rsplit(':').next().unwrap().parse().unwrap();
        // Until the last reply is acknowledged, another timer runs.
        let deadline = Instant::now() + Duration::from_secs(2);
        loop {
            match is_asked_after(server, port) {
                Some(false) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                other => return other,
            }
        }
    };
    let mut client = running.client();
    assert_eq!(client.ask("CONFIG GET tcp-keepalive"), "[tcp-keepalive 300]");
    let Some(is_asked) = asked(&mut client) else {
        return eprintln!("skipped: /proc/net/tcp does not show the connection");
    };
    assert!(is_asked, "keepalive is on by default");
    assert_eq!(client.ask("CONFIG SET tcp-keepalive 0"), "OK");
    assert_eq!(asked(&mut running.client()), Some(false), "it can be switched off");
}
