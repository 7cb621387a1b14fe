//! Clients that send without pause, or do not read, beside one that asks now and then: it is
//! answered soon, and the server's memory is bounded.
//!
//! The limits on time are generous, for machines that do other things as well. The true ones
//! (docs/server.md) hold on a machine that is idle, and are asked for with
//! `PERDURA_TEST_BUDGET=25 cargo test --release -p perdura-server --test fair -- --nocapture`.
#![cfg(target_os = "linux")]

mod common;

#[path = "fair/flood.rs"]
mod flood;

use common::{Client, Running, encode, show};
use flood::{Flood, Kind, felt, memory, peak, restart_peak};
use perdura_testing::{budget, times};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that the server and the clients may take beside those that they had.
const MOST_MEMORY: u64 = 24 << 20;

/// The budget from which on the machine must be idle.
const IDLE: u64 = 25;

/// Tests that measure run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Limits of a PING's time in milliseconds, of the median and the longest, on a machine that is idle.
#[derive(Clone, Copy)]
struct Soon(u64, u64);

/// Beside requests that are short, and beside some that take long.
const AT_ONCE: Soon = Soon(2, 20);
const AFTER_LONG_ONES: Soon = Soon(20, 60);

/// Lets clients send, and judges the delay of another one.
fn measure(name: &str, kinds: &[Kind<'_>], soon: Soon) {
    let _alone = alone();
    let running = Running::start();
    let mut client = running.client();
    assert_eq!(client.ask("SET a value"), "OK");
    let mut hash = vec![b"HSET".to_vec(), b"hash".to_vec()];
    hash.extend((0..2000).map(|field| format!("field {field}").into_bytes()));
    let hash: Vec<&[u8]> = hash.iter().map(Vec::as_slice).collect();
    assert_eq!(show(&client.call(&hash)), "1000");

    let (felt, floods) = felt(running.address, &mut client, kinds, times(40) as usize);
    println!(
        "{name}: PING {:?} in the middle, {:?} at most; {} KiB",
        felt.median(),
        felt.longest(),
        felt.bytes >> 10
    );
    let (middle, most) = if budget() >= IDLE {
        (Duration::from_millis(soon.0), Duration::from_millis(soon.1))
    } else {
        (Duration::from_millis(100), Duration::from_secs(2))
    };
    assert!(felt.median() < middle && felt.longest() < most, "{name}: PINGs took too long");
    assert!(felt.bytes < MOST_MEMORY, "{name}: {} bytes of memory", felt.bytes);
    // A client that sends much is served too.
    for (flood, kind) in floods.iter().zip(kinds) {
        let served = if kind.reads { 100_000 } else { 0 };
        assert!(flood.received() >= served, "{name}: {} bytes of replies", flood.received());
    }
}

/// `GET a` for ever.
const STREAM: Kind<'_> =
    Kind { first: b"", request: b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", reads: true };

#[test]
fn beside_a_client_that_streams() {
    measure("one client", &[STREAM], AT_ONCE);
}

#[test]
fn beside_four_that_stream() {
    measure("four clients", &[STREAM; 4], AT_ONCE);
}

#[test]
fn beside_one_that_wants_no_replies() {
    let first = b"CLIENT REPLY OFF\r\n";
    measure("no replies", &[Kind { first, reads: false, ..STREAM }], AT_ONCE);
}

#[test]
fn beside_one_that_does_not_read() {
    measure("not reading", &[Kind { reads: false, ..STREAM }], AT_ONCE);
}

#[test]
fn beside_one_that_writes() {
    let request = b"*2\r\n$4\r\nINCR\r\n$5\r\ncount\r\n";
    measure("writes", &[Kind { request, ..STREAM }], AT_ONCE);
}

#[test]
fn beside_requests_that_need_no_transaction() {
    measure("pings", &[Kind { request: b"PING\r\n", ..STREAM }], AT_ONCE);
    let first = b"CLIENT REPLY OFF\r\n";
    let slow = Kind { first, request: b"COMMAND DOCS\r\n", reads: false };
    measure("slow ones without replies", &[slow], AFTER_LONG_ONES);
}

#[test]
fn beside_requests_that_take_long() {
    measure("whole hashes", &[Kind { request: b"HGETALL hash\r\n", ..STREAM }; 2], AFTER_LONG_ONES);
}

/// Requests that a turn puts off, since its time is over, are done later and in order.
#[test]
fn replies_are_in_order_when_time_is_short() {
    let _alone = alone();
    let running = Running::start();
    let mut client = running.client();
    let mut set = vec![b"ZADD".to_vec(), b"set".to_vec()];
    set.extend((0..2000).map(|number| format!("{number}").into_bytes()));
    let set: Vec<&[u8]> = set.iter().map(Vec::as_slice).collect();
    assert_eq!(show(&client.call(&set)), "1000");
    let other = Kind { request: b"ZRANGE set 0 -1\r\n", ..STREAM };
    let _flood = Flood::start(running.address, other);
    let mut sender = client.again();
    let sending = std::thread::spawn(move || {
        for turn in 0..300 {
            let turn = turn.to_string();
            for request in [
                &[b"ZRANGE".as_slice(), b"set", b"0", b"-1"][..],
                &[b"INCR", b"count"],
                &[b"GET", b"count"],
                &[b"ECHO", turn.as_bytes()],
                &[b"MULTI"],
                &[b"INCR", b"count"],
                &[b"EXEC"],
            ] {
                sender.send(&encode(request));
            }
        }
    });
    for turn in 0..300 {
        let mut next = || show(&client.receive().expect("a reply"));
        assert!(next().starts_with("[1 3 5 "));
        let count = 2 * turn + 1;
        let replies = [count.to_string(), count.to_string(), turn.to_string()];
        assert_eq!([next(), next(), next()], replies);
        assert_eq!(
            [next(), next(), next()],
            ["OK".into(), "QUEUED".into(), format!("[{}]", count + 1)]
        );
    }
    sending.join().unwrap();
}

#[test]
fn a_stranger_holds_little() {
    let _alone = alone();
    let running = Running::with(|options| options.password("secret"), 64 << 20);
    let mut client = running.client();
    assert_eq!(client.ask("AUTH secret"), "OK");
    let silent = Kind { reads: false, ..STREAM };
    let (felt, _floods) = felt(running.address, &mut client, &[silent; 40], 20);
    println!("40 without the password: {} KiB", felt.bytes >> 10);
    assert!(felt.bytes < MOST_MEMORY, "{} bytes of memory", felt.bytes);
}

/// Sends a request and the bytes of the memory that the process took for it.
fn taken(client: &mut Client, request: &[u8], times: usize) -> u64 {
    let before = memory();
    for _ in 0..times {
        client.send(request);
        client.receive().expect("an answer");
    }
    memory().saturating_sub(before)
}

#[test]
fn a_key_that_is_watched_again_takes_nothing() {
    let _alone = alone();
    let running = Running::start();
    let mut client = running.client();
    let keys = vec![b"key".as_slice(); 100_000];
    let request = encode(&[&[b"WATCH".as_slice()], &keys[..]].concat());
    let bytes = taken(&mut client, &request, 40);
    assert!(bytes < MOST_MEMORY, "{bytes} bytes of memory");
    assert_eq!(running.client().ask("SET key value"), "OK");
    assert_eq!(["MULTI", "GET key", "EXEC"].map(|command| client.ask(command))[2], "nil");
}

#[test]
fn a_transaction_that_is_too_large_is_not_kept() {
    let _alone = alone();
    let running = Running::with(|options| options.max_request(1 << 20), 64 << 20);
    let mut client = running.client();
    assert_eq!(client.ask("MULTI"), "OK");
    let set = encode(&[b"SET", b"key", &vec![b'x'; 10_000]]);
    let refusal = "ERR the commands since MULTI take more than 1048576 bytes, see --max-request";
    let replies: Vec<String> = (0..200)
        .map(|_| {
            client.send(&set);
            show(&client.receive().expect("a reply"))
        })
        .collect();
    let queued = replies.iter().filter(|reply| *reply == "QUEUED").count();
    assert_eq!((queued, replies.iter().position(|reply| reply == refusal)), (199, Some(102)));
    let aborted = "EXECABORT Transaction discarded because of previous errors.";
    assert_eq!(client.ask("EXEC"), aborted);
    assert_eq!(client.ask("EXISTS key"), "0");
    // Small commands take memory as well.
    assert_eq!(client.ask("MULTI"), "OK");
    client.send(&b"PING\r\n".repeat(10_000));
    let replies: Vec<String> = (0..10_000).map(|_| show(&client.receive().unwrap())).collect();
    assert!(replies.iter().any(|reply| reply == refusal));
    assert_eq!(client.ask("EXEC"), aborted);
    client.send(&encode(&[b"SET", b"key", &vec![b'x'; 2 << 20]]));
    assert_eq!(client.rest(), "-ERR Protocol error: too big request\r\n");
}

#[test]
fn replies_to_a_transaction_are_bounded_as_they_are_made() {
    let _alone = alone();
    let running = Running::with(|options| options.max_reply(1 << 20), 64 << 20);
    let mut client = running.client();
    assert_eq!(client.ask("MULTI"), "OK");
    client.send(&b"COMMAND DOCS\r\n".repeat(6000));
    (0..6000).for_each(|_| assert_eq!(show(&client.receive().expect("a reply")), "QUEUED"));
    let before = restart_peak();
    let refusal = "ERR the reply is larger than 1048576 bytes, see --max-reply";
    assert_eq!(client.ask("EXEC"), refusal);
    let bytes = peak().saturating_sub(before);
    println!("a transaction with large replies: {} KiB", bytes >> 10);
    assert!(bytes < MOST_MEMORY, "{bytes} bytes of memory");
    assert_eq!(client.ask("PING"), "PONG");
}

#[test]
fn a_client_s_name_is_no_store() {
    let running = Running::start();
    let mut client = running.client();
    let name = vec![b'x'; 1 << 20];
    let refusal = "ERR Client names cannot be longer than 1024 bytes";
    assert_eq!(show(&client.call(&[b"CLIENT", b"SETNAME", &name])), refusal);
    assert_eq!(client.ask("CLIENT GETNAME"), "nil");
}
