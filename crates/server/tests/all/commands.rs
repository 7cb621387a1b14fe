//! Commands about the server itself, and those that tools and Redis's own tests begin with.

use crate::common::{Client, Running, encode, show, without_times};

/// Asks, and compares the answer.
fn play(client: &mut Client, script: &[(&str, &str)]) {
    for (command, reply) in script {
        assert_eq!(client.ask(command), *reply, "{command}");
    }
}

#[test]
fn a_server_without_functions_says_so() {
    let running = Running::start();
    play(
        &mut running.client(),
        &[
            ("FUNCTION FLUSH", "OK"),
            ("FUNCTION FLUSH ASYNC", "OK"),
            ("function flush now", "ERR FUNCTION FLUSH only supports SYNC|ASYNC option"),
            ("FUNCTION LIST", "[]"),
            ("FUNCTION LIST LIBRARYNAME lib WITHCODE", "[]"),
            ("FUNCTION LIST LIBRARYNAME", "ERR library name argument was not given"),
            ("FUNCTION LIST lib", "ERR Unknown argument lib"),
            (
                "FUNCTION STATS",
                "[running_script nil engines [LUA [libraries_count 0 functions_count 0]]]",
            ),
            ("FUNCTION KILL", "NOTBUSY No scripts in execution right now."),
            ("FUNCTION DELETE lib", "ERR Library not found"),
            ("FUNCTION LOAD code", "ERR Missing library metadata"),
            ("FUNCTION LOAD", "ERR wrong number of arguments for 'function|load' command"),
            ("FUNCTION NONE", "ERR unknown subcommand 'NONE'. Try FUNCTION HELP."),
            ("FUNCTION|STATS", "ERR unknown command 'FUNCTION|STATS', with args beginning with: "),
            ("FCALL f 0", "ERR Function not found"),
            ("FUNCTION", "ERR wrong number of arguments for 'function' command"),
        ],
    );
}

#[test]
fn limits_of_redis_are_kept_and_told() {
    let running = Running::start();
    let (mut client, mut other) = (running.client(), running.client());
    let refused = |why: &str| {
        format!(
            "ERR CONFIG SET failed (possibly related to argument 'hash-max-ziplist-entries') - {why}"
        )
    };
    play(
        &mut client,
        &[
            ("CONFIG GET zset-max-ziplist-entries", "[zset-max-ziplist-entries 128]"),
            ("CONFIG SET hash-max-ziplist-entries 7", "OK"),
            ("CONFIG GET hash-max-listpack-entries", "[hash-max-listpack-entries 7]"),
            ("CONFIG SET hash-max-listpack-value 1kb list-max-listpack-size -5", "OK"),
            ("CONFIG GET hash-max-ziplist-value", "[hash-max-ziplist-value 1024]"),
            (
                "CONFIG SET hash-max-ziplist-entries x",
                &refused("argument couldn't be parsed into an integer"),
            ),
            (
                "CONFIG SET hash-max-ziplist-entries -1",
                &refused("argument must be between 0 and 9223372036854775807 inclusive"),
            ),
            (
                "CONFIG SET port 1 port 2",
                "ERR CONFIG SET failed (possibly related to argument 'port') - duplicate parameter",
            ),
            // All of it or nothing.
            (
                "CONFIG SET hash-max-ziplist-entries 8 nonsense 1",
                "ERR Unknown option or number of arguments for CONFIG SET - 'nonsense'",
            ),
        ],
    );
    play(
        &mut other,
        &[
            ("CONFIG GET hash-max-ziplist-entries", "[hash-max-ziplist-entries 7]"),
            ("CONFIG GET list-max-ziplist-size", "[list-max-ziplist-size -5]"),
        ],
    );
}

#[test]
fn debug_is_allowed_where_it_is_asked_for() {
    let running = Running::start();
    let denied = "ERR DEBUG command not allowed. Start the server with --debug-command to allow it";
    play(&mut running.client(), &[("DEBUG SLEEP 0", denied), ("DEBUG nonsense", denied)]);
    let running = Running::with(|options| options.debug_command(true), 64 << 20);
    play(
        &mut running.client(),
        &[
            ("DEBUG SLEEP 0.01", "OK"),
            ("DEBUG SLEEP -1", "OK"),
            ("DEBUG SLEEP long", "ERR value is not a valid float"),
            ("DEBUG SLEEP", "ERR wrong number of arguments for 'debug|sleep' command"),
            ("DEBUG RELOAD", "OK"),
            ("DEBUG LOG a-test-says-this", "OK"),
            ("DEBUG SEGFAULT", "ERR unknown subcommand 'SEGFAULT'. Try DEBUG HELP."),
            ("DEBUG SET-ACTIVE-EXPIRE 2", "ERR value is not an integer or out of range"),
            ("DEBUG SET-ACTIVE-EXPIRE 0", "OK"),
            ("SET key value PX 1", "OK"),
        ],
    );
    std::thread::sleep(std::time::Duration::from_millis(400));
    let mut client = running.client();
    play(&mut client, &[("GET key", "nil"), ("DBSIZE", "1"), ("DEBUG SET-ACTIVE-EXPIRE 1", "OK")]);
    let start = std::time::Instant::now();
    while client.ask("DBSIZE") != "0" {
        assert!(start.elapsed().as_secs() < 20, "the key is not deleted");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn calls_are_counted_by_command() {
    let running = Running::start();
    let mut client = running.client();
    for command in [
        "SET key x",
        "INCR key",
        "GET",
        "GET key",
        "MULTI",
        "SET a 1",
        "PING",
        "EXEC",
        "PING a b c",
    ] {
        client.ask(command);
    }
    let info = without_times(&client.ask("INFO commandstats"));
    for line in [
        "cmdstat_set:calls=2,rejected_calls=0,failed_calls=0",
        "cmdstat_incr:calls=1,rejected_calls=0,failed_calls=1",
        "cmdstat_get:calls=1,rejected_calls=1,failed_calls=0",
        "cmdstat_multi:calls=1,rejected_calls=0,failed_calls=0",
        "cmdstat_exec:calls=1,rejected_calls=0,failed_calls=0",
        "cmdstat_ping:calls=2,rejected_calls=0,failed_calls=1",
    ] {
        assert!(info.lines().any(|one| one == line), "{line} in {info}");
    }
    assert!(!info.contains("cmdstat_del") && !client.ask("INFO").contains("cmdstat_"));
    assert!(client.ask("INFO all").contains("cmdstat_set:"));
    client.ask("CONFIG RESETSTAT");
    assert!(!client.ask("INFO everything").contains("cmdstat_set:"));
}

#[test]
fn clients_and_commands_are_listed_as_asked_for() {
    let running = Running::start();
    let (mut client, mut other) = (running.client(), running.client());
    let id = other.ask("CLIENT ID");
    let line = client.ask(&format!("CLIENT LIST ID {id} 12345"));
    assert!(line.starts_with(&format!("id={id} ")) && line.contains(" cmd=NULL "), "{line}");
    let own = client.ask("CLIENT ID");
    let line = client.ask(&format!("CLIENT LIST ID {own}"));
    assert!(
        line.starts_with(&format!("id={own} ")) && line.contains(" cmd=client|list "),
        "{line}"
    );
    assert_eq!(client.ask("CLIENT LIST TYPE normal").lines().count(), 2);
    let info = client.ask("INFO replication cpu");
    assert!(info.contains("role:master\r\n") && !info.contains("# Server"), "{info}");
    play(
        &mut client,
        &[
            ("CLIENT LIST TYPE replica", ""),
            ("CLIENT LIST TYPE strange", "ERR Unknown client type 'strange'"),
            ("CLIENT LIST ID x", "ERR Invalid client ID"),
            ("CLIENT LIST ID", "ERR syntax error"),
            ("COMMAND LIST FILTERBY PATTERN HG*L", "[hgetall]"),
            ("COMMAND LIST FILTERBY MODULE json", "[]"),
            ("COMMAND LIST FILTERBY nonsense x", "ERR syntax error"),
            ("COMMAND GETKEYS MEMORY USAGE key", "[key]"),
            ("COMMAND GETKEYS ZUNIONSTORE d 2 a b", "[d a b]"),
            ("COMMAND GETKEYS EVAL return 0", "[]"),
            ("COMMAND GETKEYS SORT list STORE d", "[list d]"),
            ("COMMAND GETKEYS ZINTER 2 a", "ERR Invalid arguments specified for command"),
        ],
    );
}

/// The members of a set have no order that a client could rely on, but LIMIT counts them all the same.
#[test]
fn sets_are_sorted_by_nothing_in_parts() {
    let running = Running::start();
    let mut client = running.client();
    client.ask("SADD s a b c");
    let one = |client: &mut Client, index| client.ask(&format!("SORT s BY nosort LIMIT {index} 1"));
    let mut all: Vec<String> = (0..3).map(|index| one(&mut client, index)).collect();
    all.sort();
    assert_eq!(all, ["[a]", "[b]", "[c]"]);
    play(
        &mut client,
        &[("SORT s BY nosort LIMIT 3 1", "[]"), ("SORT s BY nosort LIMIT 0 0", "[]")],
    );
}

#[test]
fn an_exec_has_an_answer_for_each_command_though_one_is_cut() {
    let running = Running::with(|options| options.max_reply(100), 64 << 20);
    let mut client = running.client();
    client.ask("MULTI");
    let value = "v".repeat(81);
    client.ask(&format!("SET k {value}"));
    client.ask("GET k");
    client.ask("GEOADD g 1 2 here");
    let cut = "ERR the reply is larger than 100 bytes, see --max-reply";
    assert_eq!(client.ask("EXEC"), format!("[OK {value} {cut}]"));
    assert_eq!(client.ask("EXISTS g"), "0");
}

/// Commands of a pipeline share a transaction, without savepoints, until one fails after it has written.
#[test]
fn a_command_that_fails_after_it_has_written_leaves_nothing_and_takes_nothing_with_it() {
    let running = Running::with(|options| options.max_reply(4000), 64 << 20);
    let mut client = running.client();
    let long = "v".repeat(3900);
    client.ask(&format!("RPUSH list {long} {long} {long}"));
    client.ask("SET text x");
    let requests =
        ["SET a 1", "LPOP list 2", "INCR a", "LPUSH text y", "GETSET a 5", "LPOP list 2"];
    let all: Vec<u8> = requests
        .iter()
        .flat_map(|request| encode(&request.split(' ').map(str::as_bytes).collect::<Vec<_>>()))
        .collect();
    let cut = "ERR the reply is larger than 4000 bytes, see --max-reply";
    // Alone, with nothing told before it.
    assert_eq!(running.client().ask("LPOP list 2"), cut);
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    for _ in 0..3 {
        client.send(&all);
        for expected in ["OK", cut, "2", wrong, "2", cut] {
            assert_eq!(show(&client.receive().expect("an answer")), expected);
        }
        play(&mut client, &[("LLEN list", "3"), ("GET a", "5"), ("GET text", "x")]);
    }
    // What was run again is counted once.
    let stats = client.ask("INFO commandstats");
    for calls in ["cmdstat_lpop:calls=7,", "cmdstat_incr:calls=3,", "cmdstat_set:calls=4,"] {
        assert!(stats.lines().any(|line| line.starts_with(calls)), "{calls} {stats}");
    }
    drop(client);
    drop(running.restarted());
}
