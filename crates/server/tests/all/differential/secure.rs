//! Links between servers by TLS: ours and stock ones, in both places.

use super::Redis;
use super::chain::{at, await_link, follow, settle};
use super::following::{free_address, number, play};
use crate::common::{Random, Running, await_text, encode};
use crate::doors::{files, start};
use perdura_server::{ClientCertificates, Listener, Options};
use std::thread;
use std::time::Duration;

/// A server with TLS, which follows by TLS, and its port for it.
fn ours(name: &str) -> (Running, u16) {
    let options = Options::new().tls(files(name, ClientCertificates::Required));
    let listener = Listener::bind_tls(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let (running, tls) = start(listener, options.tls_replication(true));
    (running, tls.unwrap().port())
}

/// Values that are larger than any buffer on the way.
fn fill(port: u16) {
    let value = vec![b'v'; 3 << 20];
    for key in 0..8 {
        at(port).call(&[b"SET", format!("large-{key}").as_bytes(), &value]);
    }
}

#[test]
fn links_speak_tls() {
    let (master, by_tls) = ours("server");
    let (replica, _) = ours("client");
    let (first, second) = (master.address.port(), replica.address.port());
    fill(first);
    play(&mut at(first), &mut Random::new(3), 500);
    assert_eq!(replica.client().ask("CONFIG GET tls-replication"), "[tls-replication yes]");
    // It speaks TLS, and the master does not, at this port.
    follow(second, first);
    await_text(&mut at(second), "INFO replication", "master_link_error:");
    follow(second, by_tls);
    await_link(second);
    fill(first);
    settle(first, &[second], "by TLS");
    let shown = master.client().ask("INFO replication");
    assert!(shown.contains("connected_slaves:1") && shown.contains("state=online"), "{shown}");
    for breaks in [first, second, first, second] {
        let kind = if breaks == first { "replica" } else { "master" };
        at(breaks).ask(&format!("CLIENT KILL TYPE {kind}"));
        play(&mut at(first), &mut Random::new(4), 100);
        settle(first, &[second], "after a break");
    }
    assert_eq!(number(&mut at(first), "stats", "sync_full"), 1);
    // A stranger is not let in, and does not go to a master that a stranger has signed.
    let own = replica.client().ask("DBSIZE");
    let (stranger, theirs) = ours("stranger");
    stranger.client().ask("SET kept 1");
    follow(stranger.address.port(), by_tls);
    await_text(&mut stranger.client(), "INFO replication", "master_link_error:");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(stranger.client().ask("GET kept"), "1");
    follow(second, theirs);
    await_text(&mut at(second), "INFO replication", "master_link_error:tls-replication: 127.0.0.1");
    assert_eq!(replica.client().ask("DBSIZE"), own);
    // By a plain connection, from now on.
    assert_eq!(replica.client().ask("CONFIG SET tls-replication no"), "OK");
    follow(second, first);
    await_link(second);
    settle(first, &[second], "plain");
    master.check();
    replica.check();
}

/// A server that follows by TLS, and a master's TLS that is cut in the middle, or is none.
#[test]
fn stock_servers_speak_tls() {
    let path = |name: &str| files(name, ClientCertificates::Required);
    let (client, server) = (path("client"), path("server"));
    let port = free_address().port().to_string();
    let ca = server.ca_file.clone().unwrap();
    let options = |files: &perdura_server::TlsFiles| {
        ["--tls-cert-file", "--tls-key-file", "--tls-ca-cert-file"]
            .into_iter()
            .zip([&files.cert_file, &files.key_file, &ca])
            .flat_map(|(name, path)| [name.to_owned(), path.display().to_string()])
            .chain(
                ["--tls-replication", "yes", "--repl-diskless-sync-delay", "0"].map(str::to_owned),
            )
            .collect::<Vec<String>>()
    };
    let with = |mut all: Vec<String>, port: &str| {
        all.extend(["--tls-port".to_owned(), port.to_owned()]);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        Redis::start_with(&all)
    };
    let Some(stock) = with(options(&server), &port) else {
        println!("skipped: there is no redis-server");
        return;
    };
    let last = with(options(&client), &free_address().port().to_string()).unwrap();
    let (middle, by_tls) = ours("server");
    fill(stock.port);
    play(&mut at(stock.port), &mut Random::new(3), 500);
    let middle_port = middle.address.port();
    follow(middle_port, port.parse().unwrap());
    await_link(middle_port);
    follow(last.port, by_tls);
    await_link(last.port);
    fill(stock.port);
    play(&mut at(stock.port), &mut Random::new(5), 500);
    settle(stock.port, &[middle_port, last.port], "by TLS");
    // It is where it can be reached by TLS.
    let shown = at(stock.port).ask("INFO replication");
    assert!(shown.contains(&format!("port={by_tls},")), "{shown}");
    at(middle_port).ask("CLIENT KILL TYPE replica");
    at(stock.port).send(&encode(&[b"CLIENT", b"KILL", b"TYPE", b"replica"]));
    play(&mut at(stock.port), &mut Random::new(6), 200);
    settle(stock.port, &[middle_port, last.port], "after a break");
    assert_eq!(number(&mut at(stock.port), "stats", "sync_full"), 1);
    assert_eq!(number(&mut at(middle_port), "stats", "sync_full"), 1);
    middle.check();
}
