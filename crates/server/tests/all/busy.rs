//! Clients while a script runs for long: on its own thread, and on others.

use crate::common::{Client, Running, encode, show};
use std::time::{Duration, Instant};

const BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
const BUSY_FUNCTION: &str =
    "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";
const ENDLESS: &[u8] = b"redis.call('set', KEYS[1], 'v') while true do end";

fn start(threads: usize, millis: usize) -> Running {
    let server = Running::with(|options| options.threads(threads), 64 << 20);
    let set = format!("CONFIG SET busy-reply-threshold {millis}");
    assert_eq!(server.client().ask(&set), "OK");
    server
}

/// Asks until the answer is the wanted one.
fn ask_until(client: &mut Client, request: &str, wanted: &str) {
    let began = Instant::now();
    loop {
        let reply = client.ask(request);
        if reply == wanted {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{request}: {reply}, not {wanted}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whatever thread they are on, and whenever they came, clients are told that the server is busy, and can end the script.
#[test]
fn clients_are_told_and_can_kill() {
    for threads in [1, 3] {
        let server = start(threads, 60);
        let mut runs = server.client();
        let mut others: Vec<Client> = (0..4).map(|_| server.client()).collect();
        let mut subscriber = server.client();
        assert_eq!(subscriber.ask("SUBSCRIBE news"), "[subscribe news 1]");
        runs.send(&encode(&[b"EVAL", ENDLESS, b"1", b"k"]));
        for client in &mut others {
            ask_until(client, "PING", BUSY);
            for request in ["GET k", "SET k w", "FUNCTION STATS", "FUNCTION KILL", "INFO"] {
                assert_eq!(client.ask(request), BUSY, "{request}");
            }
            assert!(client.ask("NOSUCH").starts_with("ERR unknown command"));
            assert!(client.ask("GET").starts_with("ERR wrong number"));
        }
        // Those that come now are let in, a few on each thread.
        others.extend((0..2 * threads).map(|_| server.client()));
        for client in &mut others {
            assert_eq!(client.ask("PING"), BUSY);
            assert_eq!(client.ask("WATCH k"), "OK");
            assert_eq!(client.ask("UNWATCH"), "OK");
        }
        // A client that goes.
        assert_eq!(others.pop().unwrap().ask("QUIT"), "OK");
        assert_eq!(others[1].ask("SCRIPT KILL"), "OK");
        let reply = show(&runs.receive().expect("an answer"));
        assert!(reply.contains("Script killed by user with SCRIPT KILL"), "{reply}");
        for client in &mut others {
            assert_eq!(client.ask("EXISTS k"), "0");
        }
        assert_eq!(others[0].ask("SCRIPT KILL"), "NOTBUSY No scripts in execution right now.");
        // Messages arrive as ever.
        assert_eq!(others[0].ask("PUBLISH news x"), "1");
        assert_eq!(show(&subscriber.receive().expect("a message")), "[message news x]");
        assert_eq!(runs.ask("SET k v"), "OK");
        server.check();
    }
}

#[test]
fn a_running_function_is_shown_and_killed() {
    for threads in [1, 2] {
        let server = start(threads, 60);
        let (mut runs, mut other) = (server.client(), server.client());
        let code =
            b"#!lua name=lib\nredis.register_function('forever', function() while true do end end)";
        assert_eq!(show(&runs.call(&[b"FUNCTION", b"LOAD", code])), "lib");
        runs.send(&encode(&[b"FCALL", b"forever", b"1", b"k", b"x"]));
        ask_until(&mut other, "PING", BUSY_FUNCTION);
        let stats = other.ask("FUNCTION STATS");
        let begins = "[running_script [name forever command [FCALL forever 1 k x] duration_ms ";
        assert!(stats.starts_with(begins), "{stats}");
        let ends = "] engines [LUA [libraries_count 1 functions_count 1]]]";
        assert!(stats.ends_with(ends), "{stats}");
        assert_eq!(other.ask("SCRIPT KILL"), BUSY_FUNCTION);
        assert_eq!(other.ask("FUNCTION KILL"), "OK");
        let reply = show(&runs.receive().expect("an answer"));
        assert!(reply.contains("Script killed by user with FUNCTION KILL"), "{reply}");
        let stats = other.ask("FUNCTION STATS");
        assert!(stats.starts_with("[running_script nil "), "{stats}");
    }
}

#[test]
fn transactions_are_discarded_while_it_is_busy() {
    for threads in [1, 2] {
        let server = start(threads, 40);
        let (mut runs, mut open, mut new) = (server.client(), server.client(), server.client());
        assert_eq!(open.ask("MULTI"), "OK");
        assert_eq!(open.ask("INCR n"), "QUEUED");
        runs.send(&encode(&[b"EVAL", ENDLESS, b"1", b"k"]));
        ask_until(&mut new, "PING", BUSY);
        assert_eq!(open.ask("EXEC"), format!("EXECABORT Transaction discarded because of: {BUSY}"));
        assert_eq!(new.ask("MULTI"), "OK");
        assert_eq!(new.ask("INCR n"), BUSY);
        assert_eq!(new.ask("SCRIPT KILL"), "OK");
        runs.receive().expect("an answer");
        assert_eq!(new.ask("INCR n"), "QUEUED");
        let reply = new.ask("EXEC");
        assert_eq!(reply, "EXECABORT Transaction discarded because of previous errors.");
        assert_eq!(open.ask("GET n"), "nil");
    }
}

/// Writers of other threads that wait for the lock when a script begins are not deaf until its end: its transaction begins
/// again. What they have written is there, and the script sees it.
#[test]
fn waiting_writers_are_let_in() {
    for threads in [1, 3] {
        let server = start(threads, 200);
        for round in 0..12 {
            let_writers_in(&server, round);
        }
        server.check();
    }
}

fn let_writers_in(server: &Running, round: usize) {
    let mut runs = server.client();
    let mut writers: Vec<Client> = (0..6).map(|_| server.client()).collect();
    let script =
        "local n = redis.call('incr', KEYS[1]) while redis.call('get', KEYS[2]) == false do end";
    let (n, never) = (format!("n{round}"), b"never");
    let eval = encode(&[b"EVAL", script.as_bytes(), b"2", n.as_bytes(), never]);
    let in_exec = round % 2 == 1;
    if in_exec {
        assert_eq!(runs.ask("MULTI"), "OK");
        runs.send(&eval);
        runs.receive().expect("QUEUED");
    }
    runs.send(&if in_exec { encode(&[b"EXEC"]) } else { eval });
    for (index, writer) in writers.iter_mut().enumerate() {
        writer.send(&encode(&[b"SET", format!("w{round}:{index}").as_bytes(), b"x"]));
    }
    let replies: Vec<String> =
        writers.iter_mut().map(|writer| show(&writer.receive().expect("an answer"))).collect();
    assert!(replies.iter().all(|reply| reply == "OK" || reply == BUSY), "{replies:?}");
    ask_until(&mut writers[0], "PING", BUSY);
    assert_eq!(writers[round % 6].ask("SCRIPT KILL"), "OK");
    let reply = show(&runs.receive().expect("an answer"));
    assert!(reply.contains("killed"), "{reply}");
    assert_eq!(runs.ask(&format!("EXISTS {n}")), "0", "nothing of it is there");
    for (index, reply) in replies.iter().enumerate() {
        let there = runs.ask(&format!("EXISTS w{round}:{index}"));
        assert_eq!(there == "1", reply == "OK", "{reply}, and {there} keys");
    }
}

#[test]
fn a_script_that_ends_by_itself_after_a_while_is_done() {
    for threads in [1, 2] {
        let server = start(threads, 50);
        let (mut runs, mut other) = (server.client(), server.client());
        let script = b"redis.call('incr', 'n') local t = redis.call('time') \
                       local function ms() local t = redis.call('time') return t[1] * 1000 + t[2] / 1000 end \
                       local began = ms() while ms() < began + 400 do end return redis.call('incr', 'n')";
        runs.send(&encode(&[b"EVAL", script, b"0"]));
        ask_until(&mut other, "PING", BUSY);
        ask_until(&mut other, "PING", "PONG");
        assert_eq!(show(&runs.receive().expect("an answer")), "2");
        assert_eq!(other.ask("GET n"), "2");
    }
}

#[test]
fn shutdown_ends_a_busy_server() {
    for threads in [1, 2] {
        let mut server = start(threads, 50);
        let (mut runs, mut other) = (server.client(), server.client());
        runs.send(&encode(&[b"EVAL", ENDLESS, b"1", b"k"]));
        ask_until(&mut other, "PING", BUSY);
        other.send(&encode(&[b"SHUTDOWN", b"NOSAVE"]));
        let began = Instant::now();
        server.join();
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}
