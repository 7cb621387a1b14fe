//! Operators' commands: SHUTDOWN, the slow log, statistics of commands, metrics.

use crate::common::{Client, Running, encode};
use perdura_server::{Listener, Options, Server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

#[test]
fn shutdown_ends_the_server_and_keeps_what_was_acknowledged() {
    let mut running = Running::start();
    let mut client = running.client();
    assert_eq!(client.ask("SET key value"), "OK");
    for (command, refusal) in [
        ("SHUTDOWN ABORT", "ERR No shutdown in progress."),
        ("SHUTDOWN SAVE NOSAVE", "ERR syntax error"),
        ("SHUTDOWN ABORT NOW", "ERR syntax error"),
        ("SHUTDOWN SOON", "ERR syntax error"),
    ] {
        assert_eq!(client.ask(command), refusal);
    }
    assert_eq!(client.ask("MULTI"), "OK");
    assert_eq!(client.ask("SHUTDOWN"), "ERR Command not allowed inside a transaction");
    assert!(client.ask("EXEC").starts_with("EXECABORT"));
    // Requests sent before it are answered, it is not, and those that follow are not done.
    client.send(b"SET key other\r\nSHUTDOWN NOSAVE NOW FORCE\r\nSET key third\r\n");
    assert_eq!(client.rest(), "+OK\r\n");
    running.join();
    let again = Running::on(running.pool.clone(), |options| options);
    assert_eq!(again.client().ask("GET key"), "other");
}

#[test]
fn slow_commands_are_logged() {
    let running = Running::with(|options| options.debug_command(true), 64 << 20);
    let mut client = running.client();
    assert_eq!(client.ask("SLOWLOG LEN"), "0");
    assert_eq!(client.ask("DEBUG SLEEP 0.02"), "OK");
    assert_eq!(client.ask("SLOWLOG LEN"), "1");
    assert_eq!(client.ask("SET key value"), "OK");
    let entry = client.ask("SLOWLOG GET");
    assert!(entry.contains("[DEBUG SLEEP 0.02]") && entry.contains("127.0.0.1:"), "{entry}");
    assert_eq!(client.ask("SLOWLOG RESET"), "OK");
    // From here on all are slow, in transactions as well, and two are kept.
    assert_eq!(client.ask("CLIENT SETNAME me"), "OK");
    let set = "CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 2";
    assert_eq!(client.ask(set), "OK");
    assert_eq!(client.ask("CONFIG GET slowlog-*").split(' ').count(), 4);
    for command in ["MULTI", "SET a 1", "GET a", "EXEC"] {
        client.ask(command);
    }
    let entries = client.ask("SLOWLOG GET -1");
    let places = ["[GET a]", "[SET a 1]", " me]"].map(|text| entries.find(text));
    assert!(places[0] < places[1] && places[0].is_some() && places[2].is_some(), "{entries}");
    assert_eq!(client.ask("SLOWLOG LEN"), "2");
    assert_eq!(client.ask("CONFIG SET slowlog-log-slower-than -1"), "OK");
    assert_eq!(client.ask("SLOWLOG RESET"), "OK");
    assert_eq!(client.ask("GET a"), "1");
    assert_eq!(client.ask("SLOWLOG LEN"), "0");
    let count = "ERR count should be greater than or equal to -1";
    assert_eq!(client.ask("SLOWLOG GET -2"), count);
    assert!(client.ask("SLOWLOG HELP").starts_with("[SLOWLOG <subcommand>"));
    assert!(client.ask("CONFIG SET slowlog-max-len -1").contains("argument must be between 0"));
}

#[test]
fn calls_are_timed_and_counted() {
    let running = Running::with(|options| options.debug_command(true), 64 << 20);
    let mut client = running.client();
    client.ask("DEBUG SLEEP 0.01");
    client.ask("SET text a");
    client.ask("INCR text");
    let info = client.ask("INFO commandstats");
    let field = |name: &str, field: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:")));
        let fields = line.unwrap_or_else(|| panic!("no {name} in {info}")).trim_end();
        let value = fields.split(',').find_map(|one| one.strip_prefix(&format!("{field}=")));
        value.unwrap().parse().unwrap()
    };
    assert!(field("debug", "usec") >= 10_000.0 && field("debug", "usec_per_call") >= 10_000.0);
    assert_eq!((field("incr", "calls"), field("incr", "failed_calls")), (1.0, 1.0));
    assert_eq!(client.ask("CONFIG RESETSTAT"), "OK");
    let info = client.ask("INFO commandstats");
    assert!(!info.contains("cmdstat_incr"), "{info}");
}

/// A server with metrics.
fn with_metrics() -> (Running, SocketAddr) {
    let mut running = Running::start();
    running.stop();
    let (pool, folder) = (running.pool.clone(), running.keep());
    drop(running);
    let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind(&[free]).unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::bind(&pool, Options::new().listen(free)).unwrap().metrics(listener);
    let mut running = Running::run(pool, server);
    running.adopt(folder);
    (running, address)
}

/// All that is answered to a request.
fn fetch(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The values of a page of metrics, which is checked to be one.
fn values(page: &str) -> Vec<(&str, f64)> {
    let body = page.split_once("\r\n\r\n").unwrap().1;
    let mut values = Vec::new();
    let mut typed = Vec::new();
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(!typed.contains(&name), "{name} twice");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            typed.push(name);
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let metric = *typed.last().unwrap();
            assert!(name.starts_with(metric) && name.starts_with("perdura_"), "{line}");
            values.push((name, value.parse().unwrap()));
        }
    }
    values
}

fn value(page: &str, name: &str) -> f64 {
    let found = values(page).into_iter().find(|(one, _)| *one == name);
    found.unwrap_or_else(|| panic!("no {name} in {page}")).1
}

#[test]
fn metrics_are_served() {
    let (running, address) = with_metrics();
    let mut client = running.client();
    for command in ["SET key value", "SET soon value EX 100", "GET key", "GET none", "INCR key"] {
        client.ask(command);
    }
    let get = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n";
    let page = fetch(address, get);
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    for (name, wanted) in [
        ("perdura_commands_total{command=\"set\"}", 2.0),
        ("perdura_commands_failed_total{command=\"incr\"}", 1.0),
        ("perdura_command_duration_seconds_count", 5.0),
        ("perdura_command_duration_seconds_bucket{le=\"+Inf\"}", 5.0),
        ("perdura_connected_clients", 1.0),
        ("perdura_database_keys{db=\"0\"}", 2.0),
        ("perdura_database_expiring_keys{db=\"0\"}", 1.0),
        ("perdura_keyspace_hits_total", 1.0),
        ("perdura_keyspace_misses_total", 1.0),
        ("perdura_error_replies_total{code=\"ERR\"}", 1.0),
        ("perdura_recovery_transactions{outcome=\"replayed\"}", 0.0),
        ("perdura_pool_limit_bytes", f64::from(64 << 20)),
    ] {
        assert_eq!(value(&page, name), wanted, "{name}");
    }
    assert!(value(&page, "perdura_network_receive_bytes_total") > 50.0);
    assert!(value(&page, "perdura_commands_duration_seconds_total{command=\"set\"}") > 0.0);
    // The engine's counters are published every second.
    let start = Instant::now();
    while value(&fetch(address, get), "perdura_fences_total") == 0.0 {
        assert!(start.elapsed() < Duration::from_secs(20), "no fence is counted");
        std::thread::sleep(Duration::from_millis(50));
    }
    // INFO's counters begin anew, those of metrics do not.
    assert_eq!(client.ask("CONFIG RESETSTAT"), "OK");
    assert!(value(&fetch(address, get), "perdura_commands_total{command=\"set\"}") == 2.0);
}

#[test]
fn hostile_requests_for_metrics_keep_nobody_from_them() {
    let (_running, address) = with_metrics();
    // More that say nothing than there is room for, and some that never end.
    let silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
    for bytes in [&b"GET /metrics"[..], &[0; 100], b"\r\n"] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(bytes).unwrap();
    }
    let mut endless = TcpStream::connect(address).unwrap();
    let _ = endless.write_all(&vec![b'x'; 64 << 10]);
    assert!(fetch(address, b"GET /metrics HTTP/1.1\r\n\r\n").contains("200 OK"));
    assert!(fetch(address, b"GET /other HTTP/1.1\r\n\r\n").contains("404 Not Found"));
    assert!(fetch(address, b"nonsense\r\n\r\n").contains("400 Bad Request"));
    drop(silent);
}

#[test]
fn passwords_are_in_no_slow_log() {
    let change = |options: Options| options.password("secret").slower_than(0);
    let running = Running::with(change, 64 << 20);
    let mut client: Client = running.client();
    assert!(client.ask("AUTH wrong").starts_with("WRONGPASS"));
    assert_eq!(client.ask("AUTH secret"), "OK");
    let entries = client.ask("SLOWLOG GET");
    assert!(entries.contains("[AUTH (redacted)]"), "{entries}");
    assert!(!entries.contains("secret") && !entries.contains("wrong"), "{entries}");
}

/// A script without an end does not keep the server from ending, and leaves nothing behind.
#[test]
fn an_endless_script_ends_with_the_server() {
    let mut running = Running::start();
    let mut client = running.client();
    client.ask("CONFIG SET busy-reply-threshold 0");
    let script = "redis.call('set', 'k', 'v') while true do end";
    client.send(&encode(&[b"EVAL", script.as_bytes(), b"0"]));
    std::thread::sleep(Duration::from_millis(100));
    running.stop();
    running.join();
    let running = running.restarted();
    assert_eq!(running.client().ask("EXISTS k"), "0");
}
