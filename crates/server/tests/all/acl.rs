//! Users: what their clients may do, and what becomes of the clients when users change.

use crate::common::{Client, Running};
use perdura_server::{Options, check_files};

/// As many threads as make it likely that two clients are not served by the same one.
fn start() -> Running {
    Running::with(|options| options.threads(2), 64 << 20)
}

fn expect(client: &mut Client, exchange: &[(&str, &str)]) {
    for (request, expected) in exchange {
        let answer = client.ask(request);
        match expected.strip_suffix('*') {
            Some(begin) => assert!(answer.starts_with(begin), "{request}: {answer}"),
            None => assert_eq!(answer, *expected, "{request}"),
        }
    }
}

#[test]
fn a_client_may_do_what_its_user_may() {
    let server = start();
    let (mut admin, mut bob) = (server.client(), server.client());
    expect(
        &mut admin,
        &[
            ("ACL WHOAMI", "default"),
            ("ACL LIST", "[user default on nopass sanitize-payload ~* &* +@all]"),
            ("ACL SETUSER bob on >secret ~b:* &news +@all -@dangerous", "OK"),
            ("ACL USERS", "[bob default]"),
        ],
    );
    let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
    expect(
        &mut bob,
        &[
            ("AUTH bob wrong", wrong),
            ("AUTH nobody x", wrong),
            ("AUTH bob secret", "OK"),
            ("ACL WHOAMI", "bob"),
            ("SET b:1 x", "OK"),
            ("GET b:1", "x"),
            ("GET a", "NOPERM No permissions to access a key"),
            ("MGET b:1 a", "NOPERM No permissions to access a key"),
            ("KEYS *", "NOPERM User bob has no permissions to run the 'keys' command"),
            ("CONFIG GET *", "NOPERM User bob has no permissions to run the 'config|get' command"),
            ("CLIENT ID", "2"),
            ("PUBLISH news x", "0"),
            ("PUBLISH other x", "NOPERM No permissions to access a channel"),
            ("SUBSCRIBE other", "NOPERM No permissions to access a channel"),
            ("EVAL return{redis.call('get',KEYS[1])} 1 b:1", "[x]"),
            ("EVAL return{redis.call('get',KEYS[1])} 1 a", "NOPERM No permissions to access a key"),
            (
                "EVAL return{redis.pcall('get','a').err} 0",
                "[NOPERM ACL failure in script: No permissions to access a key]",
            ),
            (
                "EVAL redis.call('keys','*') 0",
                "NOPERM ACL failure in script: User bob has no permissions to run the 'keys' command*",
            ),
            ("EVAL return{redis.acl_check_cmd('get','b:1')} 0", "[1]"),
            ("EVAL return{redis.acl_check_cmd('get','a')} 0", "[nil]"),
            ("EVAL return{redis.acl_check_cmd('keys','*')} 0", "[nil]"),
            ("EVAL return{redis.acl_check_cmd('config','get','x')} 0", "[nil]"),
            (
                "EVAL return{redis.acl_check_cmd('no','a')} 0",
                "ERR Invalid command passed to redis.acl_check_cmd()*",
            ),
            ("SORT b:list BY a:*", "NOPERM User bob has no permissions to run the 'sort' command"),
            ("MULTI", "OK"),
            ("SET b:2 y", "QUEUED"),
            ("GET a", "NOPERM No permissions to access a key"),
            ("EXEC", "EXECABORT Transaction discarded because of previous errors."),
            ("EXISTS b:2", "0"),
            ("RESET", "RESET"),
            ("ACL WHOAMI", "default"),
            ("GET a", "nil"),
            ("HELLO 2 AUTH bob secret", "[server redis*"),
            ("GET a", "NOPERM No permissions to access a key"),
        ],
    );
    let counts = "acl_access_denied_auth:2\r\nacl_access_denied_cmd:4\r\nacl_access_denied_key:6\r\n\
                  acl_access_denied_channel:2\r\n";
    let info = admin.ask("INFO stats");
    assert!(info.contains(counts), "{info}");
    assert!(admin.ask("INFO errorstats").contains("errorstat_NOPERM:count="));
    expect(&mut admin, &[("CONFIG RESETSTAT", "OK")]);
    assert!(admin.ask("INFO stats").contains("acl_access_denied_key:0\r\n"));
    let log = admin.ask("ACL LOG");
    let newest = "[[count 4 reason key context toplevel object a username bob age-seconds ";
    assert!(log.starts_with(newest), "{log}");
    assert!(log.contains("reason key context lua object a username bob"), "{log}");
    assert!(log.contains("reason key context multi object a username bob"), "{log}");
    assert!(log.contains("reason auth context toplevel object AUTH username nobody"), "{log}");
    assert!(log.contains("cmd=NULL user=bob"), "{log}");
    expect(&mut admin, &[("ACL LOG RESET", "OK"), ("ACL LOG", "[]")]);
    let sorts = "ERR BY option of SORT denied due to insufficient ACL permissions.";
    expect(&mut admin, &[("ACL SETUSER bob +sort", "OK")]);
    expect(&mut bob, &[("SORT b:list BY a:*", sorts), ("SORT b:list", "[]")]);
}

/// A change is felt by the next request of every client, on whichever thread it is.
#[test]
fn changes_are_felt_at_once() {
    let server = start();
    let mut admin = server.client();
    expect(&mut admin, &[("ACL SETUSER bob on nopass ~* &* +@all", "OK")]);
    let mut clients: Vec<_> = (0..4).map(|_| server.client()).collect();
    for client in &mut clients {
        expect(client, &[("AUTH bob x", "OK")]);
    }
    let denied = "NOPERM User bob has no permissions to run the 'get' command";
    for _ in 0..50 {
        for (rule, expected) in [("-get", denied), ("+get", "nil")] {
            assert_eq!(admin.ask(&format!("ACL SETUSER bob {rule}")), "OK");
            for client in &mut clients {
                assert_eq!(client.ask("GET a"), expected);
            }
        }
    }
    // Also by the one that makes it, and by what was queued.
    let (first, rest) = clients.split_at_mut(1);
    expect(
        &mut first[0],
        &[
            ("MULTI", "OK"),
            ("SET a 1", "QUEUED"),
            ("GET a", "QUEUED"),
            ("ACL SETUSER bob -ping", "QUEUED"),
            ("PING", "QUEUED"),
        ],
    );
    expect(&mut rest[0], &[("ACL SETUSER bob -get", "OK"), ("GET a", denied)]);
    let why = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC \
               call. This command is no longer allowed for the following reason: no permission to execute \
               the command or subcommand";
    expect(
        &mut first[0],
        &[
            ("EXEC", &format!("[OK {why} OK {why}]")),
            ("PING", "NOPERM User bob has no permissions*"),
        ],
    );
    expect(
        &mut rest[1],
        &[("PING", "NOPERM User bob has no permissions to run the 'ping' command")],
    );
}

#[test]
fn clients_end_with_their_user() {
    let server = start();
    let mut admin = server.client();
    expect(&mut admin, &[("ACL SETUSER bob on nopass ~* &* +@all", "OK")]);
    let mut bobs: Vec<_> = (0..4).map(|_| server.client()).collect();
    for bob in &mut bobs {
        expect(bob, &[("AUTH bob x", "OK")]);
    }
    let list = admin.ask("CLIENT LIST");
    assert_eq!(list.matches("user=bob").count(), 4, "{list}");
    expect(
        &mut admin,
        &[
            ("CLIENT KILL USER nobody", "ERR No such user 'nobody'"),
            ("CLIENT KILL USER bob ID 2", "1"),
            ("ACL DELUSER default", "ERR The 'default' user cannot be removed"),
        ],
    );
    assert_eq!(bobs[0].receive(), None);
    // The one that removes its own user is answered.
    expect(&mut bobs[1], &[("ACL DELUSER bob nobody", "1")]);
    for bob in &mut bobs[1..] {
        assert_eq!(bob.receive(), None);
    }
    expect(&mut admin, &[("PING", "PONG"), ("ACL GETUSER bob", "nil")]);
    assert_eq!(admin.ask("CLIENT LIST").lines().count(), 1);
}

#[test]
fn listeners_end_when_their_channels_are_taken() {
    let server = start();
    let mut admin = server.client();
    expect(&mut admin, &[("ACL SETUSER bob on nopass ~* &a &b* +@all", "OK")]);
    let listen = |request: &str| {
        let mut bob = server.client();
        expect(&mut bob, &[("AUTH bob x", "OK"), (request, "[*")]);
        bob
    };
    let (mut by_name, mut by_pattern) = (listen("SUBSCRIBE a"), listen("PSUBSCRIBE b*"));
    let mut by_shard = listen("SSUBSCRIBE b1");
    // More, or the same: nobody ends.
    expect(&mut admin, &[("ACL SETUSER bob &c", "OK"), ("PUBLISH a x", "1")]);
    assert!(by_name.receive().is_some());
    expect(&mut admin, &[("ACL SETUSER bob resetchannels &a &b1", "OK"), ("PUBLISH a y", "1")]);
    assert!(by_name.receive().is_some());
    assert_eq!(by_pattern.receive(), None);
    expect(&mut admin, &[("ACL SETUSER bob resetchannels &a", "OK")]);
    assert_eq!(by_shard.receive(), None);
    expect(&mut admin, &[("ACL SETUSER bob resetchannels", "OK")]);
    assert_eq!(by_name.receive(), None);
}

/// A client that waits for a key that it may not have any more does not get it.
#[test]
fn waiters_are_judged_again() {
    let server = start();
    let mut admin = server.client();
    expect(&mut admin, &[("ACL SETUSER bob on nopass ~a ~b +@all", "OK")]);
    let mut waiters: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|key| {
            let mut bob = server.client();
            expect(&mut bob, &[("AUTH bob x", "OK")]);
            bob.send(&crate::common::encode(&[b"BLPOP", key.as_bytes(), b"0"]));
            bob
        })
        .collect();
    while !admin.ask("INFO clients").contains("blocked_clients:2") {}
    expect(
        &mut admin,
        &[
            ("ACL SETUSER bob resetkeys ~b", "OK"),
            ("RPUSH a 1", "1"),
            ("RPUSH b 2", "1"),
            ("LLEN a", "1"),
        ],
    );
    let show = |client: &mut Client| crate::common::show(&client.receive().unwrap());
    assert_eq!(show(&mut waiters[0]), "NOPERM No permissions to access a key");
    assert_eq!(show(&mut waiters[1]), "[b 2]");
}

#[test]
fn the_password_is_the_default_users() {
    let server = Running::with(|options| options.password("one"), 64 << 20);
    let mut client = server.client();
    let none = "NOAUTH Authentication required.";
    expect(
        &mut client,
        &[
            ("GET a", none),
            ("AUTH one", "OK"),
            ("CONFIG GET requirepass", "[requirepass one]"),
            ("CONFIG SET requirepass two", "OK"),
            ("GET a", "nil"),
        ],
    );
    let mut other = server.client();
    expect(&mut other, &[("GET a", none), ("AUTH one", "WRONGPASS*"), ("AUTH two", "OK")]);
    let mut third = server.client();
    expect(&mut third, &[("GET a", none)]);
    // Who has no password yet needs none any more.
    expect(&mut client, &[("CONFIG SET requirepass", "ERR wrong number of arguments*")]);
    assert_eq!(crate::common::show(&client.call(&[b"CONFIG", b"SET", b"requirepass", b""])), "OK");
    expect(&mut third, &[("GET a", "nil")]);
    expect(
        &mut client,
        &[
            (
                "AUTH x",
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
            ),
            ("ACL SETUSER default off", "OK"),
            ("GET a", "nil"),
        ],
    );
    let mut fourth = server.client();
    expect(&mut fourth, &[("GET a", none), ("AUTH default x", "WRONGPASS*")]);
}

#[test]
fn users_are_kept_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.acl");
    let options = |options: Options| options.acl_file(&path);
    assert!(check_files(&options(Options::new())).is_err(), "there is none");
    std::fs::write(
        &path,
        "user alice on nopass ~* &* +@all\n\nuser bob on >b ~b* -@all +get (+set ~w)\n",
    )
    .unwrap();
    let both = check_files(&options(Options::new()).password("x")).unwrap_err();
    assert!(both.to_string().contains("user default on >PASSWORD"), "{both}");
    let server = Running::with(options, 64 << 20);
    let mut client = server.client();
    expect(
        &mut client,
        &[
            ("ACL USERS", "[alice bob default]"),
            ("ACL SETUSER carol on >c %R~c +@read &x", "OK"),
            ("ACL DELUSER alice", "1"),
            ("ACL SAVE", "OK"),
        ],
    );
    let saved = std::fs::read_to_string(&path).unwrap();
    assert_eq!(saved.lines().count(), 3, "{saved}");
    assert!(!saved.contains(">c"), "{saved}");
    drop(server);
    let server = Running::with(options, 64 << 20);
    let (mut client, mut carol) = (server.client(), server.client());
    let carols = "[flags [on sanitize-payload] passwords [2e7d2c03a9507ae265ecf5b5356885a53393a2029d241394997265a1a25aefc6] \
                  commands -@all +@read keys %R~c channels &x selectors []]";
    expect(&mut client, &[("ACL USERS", "[bob carol default]"), ("ACL GETUSER carol", carols)]);
    expect(&mut carol, &[("AUTH carol c", "OK"), ("GET c", "nil")]);
    // A bad file changes nothing, and is told of by its line.
    std::fs::write(&path, format!("{saved}user dave +nothing\nuser bob\n")).unwrap();
    let name = path.display();
    let wrong = format!(
        "ERR {name}:4: Error in applying operation '+nothing': Unknown command or category name in ACL. \
         WARNING: Duplicate user 'bob' found on line 5. WARNING: ACL errors detected, no change to the \
         previously active ACL rules was performed"
    );
    expect(&mut client, &[("ACL LOAD", &wrong), ("ACL USERS", "[bob carol default]")]);
    expect(&mut carol, &[("GET c", "nil")]);
    // A good one ends the clients of all but the default user.
    std::fs::write(&path, "user carol on >c ~* +@all").unwrap();
    expect(&mut client, &[("ACL LOAD", "OK"), ("ACL USERS", "[carol default]"), ("PING", "PONG")]);
    assert_eq!(carol.receive(), None);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    expect(
        &mut client,
        &[(
            "ACL SAVE",
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        )],
    );
}

#[test]
fn other_answers_are_redis_s() {
    let server = start();
    let mut client = server.client();
    expect(
        &mut client,
        &[
            ("ACL", "ERR wrong number of arguments for 'acl' command"),
            ("ACL NOTHING", "ERR unknown subcommand 'NOTHING'. Try ACL HELP."),
            ("ACL WHOAMI x", "ERR wrong number of arguments for 'acl|whoami' command"),
            ("ACL CAT nothing", "ERR Unknown category 'nothing'"),
            (
                "ACL CAT a b",
                "ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.",
            ),
            ("ACL CAT transaction", "[discard exec multi unwatch watch]"),
            ("ACL LOAD", "ERR This Redis instance is not configured to use an ACL file.*"),
            (
                "ACL GENPASS 5000",
                "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
            ),
            ("ACL GENPASS x", "ERR value is not an integer or out of range"),
            ("ACL GETUSER nobody", "nil"),
            ("ACL SETUSER a (", "ERR Unmatched parenthesis in acl selector starting at '('."),
            ("ACL SETUSER a x", "ERR Error in ACL SETUSER modifier 'x': Syntax error"),
            ("ACL SETUSER a on ( +get ~a )", "OK"),
            ("ACL DRYRUN a GET a", "OK"),
            ("ACL DRYRUN a GET b", "User a has no permissions to access the 'b' key"),
            ("ACL DRYRUN a SET a 1", "User a has no permissions to run the 'set' command"),
            ("ACL DRYRUN a SET a", "ERR wrong number of arguments for 'set' command"),
            ("ACL DRYRUN b GET a", "ERR User 'b' not found"),
            ("ACL DRYRUN a NOTHING", "ERR Command 'NOTHING' not found"),
            ("COMMAND LIST FILTERBY ACLCAT transaction", "[multi exec discard watch unwatch]"),
            ("CONFIG SET acl-pubsub-default allchannels", "OK"),
            ("ACL SETUSER c reset", "OK"),
            (
                "ACL LIST",
                "[user a on sanitize-payload resetchannels -@all (~a resetchannels -@all +get) user c off sanitize-payload &* -@all user default*",
            ),
        ],
    );
    let (one, other) = (client.ask("ACL GENPASS"), client.ask("ACL GENPASS 5"));
    assert!(one.len() == 64 && one.bytes().all(|byte| byte.is_ascii_hexdigit()), "{one}");
    assert_eq!(other.len(), 2);
    assert_eq!(client.ask("ACL CAT").split(' ').count(), 21);
    let spaces = client.call(&[b"ACL", b"SETUSER", b"a a"]);
    let expected = "ERR Usernames can't contain spaces or null characters";
    assert_eq!(crate::common::show(&spaces), expected);
    // Nothing of a user is in the slow log.
    expect(
        &mut client,
        &[("CONFIG SET slowlog-log-slower-than 0", "OK"), ("ACL SETUSER z >hidden", "OK")],
    );
    let slow = client.ask("SLOWLOG GET");
    assert!(slow.contains("[ACL SETUSER (redacted)]") && !slow.contains("hidden"), "{slow}");
}
