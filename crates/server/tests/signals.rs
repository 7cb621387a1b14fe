//! SIGTERM and SIGHUP end the server cleanly. In a file of its own: signals go to the process.

mod common;

use common::{Client, Frame, Running, encode};
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

#[test]
fn signals_end_it_cleanly() {
    ends_cleanly("-TERM");
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    if ignored.is_some_and(|mask| mask.trim().ends_with(['1', '3', '5', '7', '9', 'b', 'd', 'f'])) {
        return println!("not tried: SIGHUP, which this process was started to ignore");
    }
    ends_cleanly("-HUP");
}

fn ends_cleanly(signal: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let pool = perdura::Options::new().size(32 << 20).create(&path).unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = perdura_server::Options::new().listen(address).threads(2);
    let server = std::thread::spawn(move || perdura_server::run(pool, options));
    while std::net::TcpStream::connect(address).is_err() {
        assert!(!server.is_finished());
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut client = Client::connect(address);
    assert_eq!(client.ask("SET key value"), "OK");
    let pipeline = std::thread::spawn(move || acknowledged(Client::connect(address)));
    std::thread::sleep(Duration::from_millis(50));
    let killed = Command::new("kill").args([signal, &std::process::id().to_string()]).status();
    assert!(killed.unwrap().success());
    server.join().unwrap().unwrap();
    assert_eq!(client.receive(), None);
    let acknowledged = pipeline.join().unwrap();
    let pool = perdura::Options::new().open(&path).unwrap();
    assert_eq!(*pool.recovery(), perdura::Recovery::default());
    let findings = pool.session().unwrap().read(|tx| perdura_server::check(tx, &mut |_| Ok(())));
    assert!(findings.unwrap().unwrap().keys > acknowledged);
    let running = Running::on(pool, |options| options);
    let mut client = running.client();
    for key in 0..acknowledged {
        assert_eq!(client.ask(&format!("EXISTS {key}")), "1");
    }
}

/// Sends commands without waiting, until the connection ends; how many were acknowledged.
fn acknowledged(mut client: Client) -> u64 {
    let mut sender = client.again();
    let sending = std::thread::spawn(move || {
        for key in 0..100_000 {
            sender.send(&encode(&[b"SET", key.to_string().as_bytes(), b"value"]));
        }
    });
    let mut count = 0;
    while client.receive() == Some(Frame::Text(b"OK".to_vec())) {
        count += 1;
    }
    sending.join().unwrap();
    count
}
