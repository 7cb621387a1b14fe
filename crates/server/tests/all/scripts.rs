//! Scripts of clients on several threads.

use crate::common::{Client, Running, encode, show};
use std::time::{Duration, Instant};

fn start() -> Running {
    Running::with(|options| options.threads(2), 64 << 20)
}

fn eval(client: &mut Client, script: &str, arguments: &[&str]) -> String {
    let mut words: Vec<&[u8]> = vec![b"EVAL", script.as_bytes()];
    words.extend(arguments.iter().map(|argument| argument.as_bytes()));
    show(&client.call(&words))
}

/// A library that one thread has loaded is known to all; inside of MULTI it is loaded with the rest, or not at all.
#[test]
fn functions_are_known_to_all_threads() {
    let running = Running::with(|options| options.threads(2), 64 << 20);
    let (mut one, mut two) = (running.client(), running.client());
    let load = |client: &mut Client, value: usize| {
        let code =
            format!("#!lua name=lib\nredis.register_function('f', function() return {value} end)");
        show(&client.call(&[b"FUNCTION", b"LOAD", b"REPLACE", code.as_bytes()]))
    };
    for value in 0..10 {
        assert_eq!(load(&mut one, value), "lib");
        assert_eq!(two.ask("FCALL f 0"), value.to_string());
        assert!(one.ask("FCALL_RO f 0").contains("write flag"));
    }
    assert_eq!(two.ask("MULTI"), "OK");
    assert_eq!(load(&mut two, 77), "QUEUED");
    assert_eq!(two.ask("FCALL f 0"), "QUEUED");
    assert_eq!(one.ask("FCALL f 0"), "9");
    assert_eq!(two.ask("EXEC"), "[lib 77]");
    assert_eq!(one.ask("FCALL f 0"), "77");
    assert_eq!(one.ask("COMMAND GETKEYS FCALL f 2 a b c"), "[a b]");
    assert!(one.ask("INFO commandstats").contains("cmdstat_function|load:calls=11"));
    running.check();
}

#[test]
fn scripts_of_several_threads_are_transactions() {
    let server = start();
    let script = "local seen = redis.call('incr', KEYS[1]) \
                  redis.call('rpush', KEYS[2], seen) \
                  redis.call('hincrby', KEYS[3], 'sum', seen) \
                  return seen";
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = server.client();
                for _ in 0..100 {
                    let reply = eval(&mut client, script, &["3", "n", "l", "h"]);
                    assert!(reply.parse::<u64>().is_ok(), "{reply}");
                }
            });
        }
    });
    let mut client = server.client();
    assert_eq!(client.ask("GET n"), "400");
    let order: Vec<String> = (1..=400).map(|number| number.to_string()).collect();
    assert_eq!(client.ask("LRANGE l 0 -1"), format!("[{}]", order.join(" ")));
    assert_eq!(client.ask("HGET h sum"), "80200");
    server.check();
}

#[test]
fn a_script_is_killed_from_another_thread() {
    let server = start();
    // They are on different threads.
    let (mut runs, mut kills) = (server.client(), server.client());
    assert_eq!(kills.ask("CONFIG SET busy-reply-threshold 60000"), "OK");
    let scripts = [
        "redis.call('set','k','v') while true do end",
        "redis.call('set','k','v') while true do pcall(redis.call, 'set', 'k', 'w') end",
    ];
    for script in scripts {
        runs.send(&encode(&[b"EVAL", script.as_bytes(), b"0"]));
        let began = Instant::now();
        while kills.ask("SCRIPT KILL") != "OK" {
            assert!(began.elapsed() < Duration::from_secs(20), "it does not run");
        }
        let reply = show(&runs.receive().expect("an answer"));
        assert!(reply.contains("Script killed by user with SCRIPT KILL"), "{reply}");
        assert_eq!(runs.ask("EXISTS k"), "0");
        assert_eq!(kills.ask("SCRIPT KILL"), "NOTBUSY No scripts in execution right now.");
    }
    assert_eq!(kills.ask("CONFIG SET lua-time-limit 50"), "OK");
    assert_eq!(kills.ask("CONFIG GET busy-reply-threshold"), "[busy-reply-threshold 50]");
}

#[test]
fn scripts_are_a_part_of_transactions() {
    let server = start();
    let mut client = server.client();
    let digest = client.ask("SCRIPT LOAD return(redis.call('incr',KEYS[1]))");
    assert_eq!(client.ask(&format!("SCRIPT EXISTS {digest} x")), "[1 0]");
    client.ask("MULTI");
    assert_eq!(client.ask(&format!("EVALSHA {digest} 1 n")), "QUEUED");
    assert_eq!(client.ask("INCR n"), "QUEUED");
    assert_eq!(client.ask(&format!("EVALSHA {digest} 1 n")), "QUEUED");
    assert_eq!(client.ask("EXEC"), "[1 2 3]");
    // A key that a script has written is one that was written.
    let mut other = server.client();
    assert_eq!(client.ask("WATCH n"), "OK");
    assert_eq!(other.ask(&format!("EVALSHA {digest} 1 n")), "4");
    client.ask("MULTI");
    client.ask("GET n");
    assert_eq!(client.ask("EXEC"), "nil");
    // A client that waits is served by a script that fills its key.
    other.send(&encode(&[b"BLPOP", b"list", b"0"]));
    while !client.ask("INFO clients").contains("blocked_clients:1") {}
    assert_eq!(eval(&mut client, "return redis.call('rpush','list','a','b')", &["0"]), "2");
    assert_eq!(show(&other.receive().expect("an answer")), "[list a]");
    assert_eq!(client.ask("SCRIPT FLUSH"), "OK");
    let gone = client.ask(&format!("EVALSHA {digest} 1 n"));
    assert_eq!(gone, "NOSCRIPT No matching script. Please use EVAL.");
    let server = server.restarted();
    assert_eq!(server.client().ask("GET n"), "4");
    server.check();
}
