//! CLIENT PAUSE, on servers of two threads, to which clients go in turn.

use crate::common::{Client, Running, await_text, encode, show};
use std::time::{Duration, Instant};

fn start() -> Running {
    Running::with(|options| options.threads(2), 64 << 20)
}

fn send(client: &mut Client, command: &str) {
    client.send(&encode(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
}

fn received(client: &mut Client) -> String {
    show(&client.receive().expect("an answer"))
}

#[test]
fn writes_wait_and_reads_do_not() {
    let server = start();
    let mut control = server.client();
    control.ask("SET a 1");
    let library = "#!lua name=lib\nredis.register_function{function_name='reads',callback=function() return 1 end,\
                   flags={'no-writes'}}\nredis.register_function('writes',function() return 2 end)";
    assert_eq!(show(&control.call(&[b"FUNCTION", b"LOAD", library.as_bytes()])), "lib");
    assert_eq!(control.ask("CLIENT PAUSE 100000 WRITE"), "OK");
    let mut reader = server.client();
    for (command, answer) in [
        ("GET a", "1"),
        ("EVAL_RO return(1) 0", "1"),
        ("FCALL reads 0", "1"),
        ("FCALL_RO reads 0", "1"),
        ("SET a", "ERR wrong number of arguments for 'set' command"),
        ("MULTI", "OK"),
        ("GET a", "QUEUED"),
        ("EXEC", "[1]"),
        ("CLIENT GETNAME", "nil"),
    ] {
        assert_eq!(reader.ask(command), answer, "{command}");
    }
    let commands = [
        ("SET a 2", "OK"),
        ("PUBLISH c m", "0"),
        ("PFCOUNT p", "0"),
        ("EVAL return(3) 0", "3"),
        ("FCALL writes 0", "2"),
        ("MULTI", "OK"),
    ];
    let mut waiting: Vec<Client> = commands.iter().map(|_| server.client()).collect();
    for ((command, _), client) in commands.iter().zip(&mut waiting) {
        // What comes after a command that waits waits, too; what comes before it does not.
        send(client, "GET a");
        send(client, command);
        send(client, if *command == "MULTI" { "INCR a" } else { "GET x" });
        assert_eq!(received(client), "1");
    }
    await_text(&mut control, "INFO clients", "blocked_clients:6\r");
    assert_eq!(received(&mut waiting[5]), "OK");
    assert!(
        control.ask("CLIENT LIST").lines().filter(|line| line.contains(" flags=b ")).count() == 6
    );
    // One of them goes.
    drop(waiting.remove(1));
    await_text(&mut control, "INFO clients", "blocked_clients:5\r");
    assert_eq!(control.ask("GET a"), "1");
    assert_eq!(control.ask("CLIENT UNPAUSE"), "OK");
    for ((command, answer), client) in
        commands.iter().filter(|(c, _)| !c.starts_with("PUBLISH")).zip(&mut waiting)
    {
        if *command == "MULTI" {
            assert_eq!(received(client), "QUEUED");
            assert!(["[2]", "[3]"].contains(&client.ask("EXEC").as_str()));
            continue;
        }
        assert_eq!([received(client), received(client)], [*answer, "nil"], "{command}");
    }
    await_text(&mut control, "INFO clients", "blocked_clients:0\r");
    assert_eq!(control.ask("GET a"), "3");
}

#[test]
fn a_pause_of_all_ends_by_itself() {
    let server = start();
    let (mut control, mut other) = (server.client(), server.client());
    let began = Instant::now();
    assert_eq!(control.ask("CLIENT PAUSE 300"), "OK");
    assert_eq!(other.ask("PING"), "PONG");
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(290), "{took:?}");
    for (command, error) in [
        ("CLIENT PAUSE x", "ERR timeout is not an integer or out of range"),
        ("CLIENT PAUSE -1", "ERR timeout is negative"),
        ("CLIENT PAUSE 9223372036854775807", "ERR timeout is out of range"),
        ("CLIENT PAUSE 1 SOME", "ERR CLIENT PAUSE mode must be WRITE or ALL"),
        ("CLIENT PAUSE 0", "OK"),
        ("PING", "PONG"),
    ] {
        assert_eq!(control.ask(command), error);
    }
}

/// What was under way when the pause began is done before it is answered, or after its end.
#[test]
fn nothing_is_written_once_it_is_answered() {
    let server = Running::with(|options| options.threads(3), 64 << 20);
    let (mut control, mut runner, mut adder) = (server.client(), server.client(), server.client());
    for rounds in [100_000, 300_000, 1_000_000, 3_000_000] {
        assert_eq!(control.ask("MSET k old n 0"), "OK");
        let script =
            format!("redis.call('set','k','new') local n=0 while n<{rounds} do n=n+1 end return n");
        runner.send(&encode(&[b"EVAL", script.as_bytes(), b"0"]));
        std::thread::sleep(Duration::from_millis(2));
        // This one waits for the script's transaction.
        send(&mut adder, "INCR n");
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(control.ask("CLIENT PAUSE 100000 WRITE"), "OK");
        let values = control.ask("MGET k n");
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(control.ask("MGET k n"), values, "{rounds}");
        assert_eq!(control.ask("CLIENT UNPAUSE"), "OK");
        assert_eq!(
            [received(&mut runner), received(&mut adder)],
            [rounds.to_string().as_str(), "1"]
        );
        assert_eq!(control.ask("MGET k n"), "[new 1]");
    }
}

#[test]
fn nothing_expires_meanwhile() {
    let server = start();
    let mut client = server.client();
    client.ask("SET a 1 PX 20");
    assert_eq!(client.ask("CLIENT PAUSE 100000 WRITE"), "OK");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!([client.ask("GET a"), client.ask("DBSIZE")], ["nil", "1"]);
    client.ask("CLIENT UNPAUSE");
    let began = Instant::now();
    while client.ask("DBSIZE") != "0" {
        assert!(began.elapsed() < Duration::from_secs(20), "it expires");
    }
}

/// A pause that an EXEC begins keeps its own commands from nothing, also if it is begun twice; it does others.
/// Of an EXEC that may go on under a pause, its own one keeps only others.
#[test]
fn an_exec_that_lengthens_a_pause_does_not_wait_for_it() {
    let server = start();
    let (mut first, mut second) = (server.client(), server.client());
    first.ask("SET a 1");
    assert_eq!(first.ask("CLIENT PAUSE 100000 WRITE"), "OK");
    for command in ["MULTI", "GET a", "CLIENT PAUSE 100000 ALL", "GET a"] {
        second.ask(command);
    }
    let began = Instant::now();
    assert_eq!(second.ask("EXEC"), "[1 OK 1]");
    assert!(began.elapsed() < Duration::from_secs(50), "{:?}", began.elapsed());
}

#[test]
fn an_exec_does_not_wait_for_its_own_pause() {
    let server = start();
    let (mut control, mut other) = (server.client(), server.client());
    for mode in ["WRITE", "ALL"] {
        let pause = format!("CLIENT PAUSE 100000 {mode}");
        for command in ["SET a 1", "MULTI", "INCR a", &pause, &pause, "INCR a"] {
            control.ask(command);
        }
        let mut third = server.client();
        ["MULTI", "INCR a"].iter().for_each(|command| drop(third.ask(command)));
        let began = Instant::now();
        assert_eq!(control.ask("EXEC"), "[2 OK OK 3]");
        assert!(began.elapsed() < Duration::from_secs(50), "{:?}", began.elapsed());
        send(&mut other, "INCR a");
        if mode == "WRITE" {
            await_text(&mut control, "INFO clients", "blocked_clients:1\r");
            // Another EXEC waits.
            send(&mut third, "EXEC");
            await_text(&mut control, "INFO clients", "blocked_clients:2\r");
            assert_eq!(control.ask("GET a"), "3");
            assert_eq!(control.ask("CLIENT UNPAUSE"), "OK");
            received(&mut third);
            received(&mut other);
            assert_eq!(control.ask("GET a"), "5");
        }
    }
}
