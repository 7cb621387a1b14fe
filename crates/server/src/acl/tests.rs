//! Rules, and which requests they permit.

use super::catalog::catalog;
use super::check::{check, reads_all_keys};
use super::user::User;
use crate::command::find_whole;
use crate::protocol::args::OwnedArgs;

fn user(rules: &str) -> User {
    let mut user = User::new(b"u", false);
    let rules = super::merged(rules.split(' ').map(str::as_bytes)).unwrap();
    for rule in &rules {
        let rule_text = String::from_utf8_lossy(rule);
        user.apply(rule, false).unwrap_or_else(|why| panic!("{rule_text}: {}", why.text()));
    }
    user
}

/// `OK`, or what is denied.
fn judged(user: &User, request: &str) -> String {
    let args: OwnedArgs = request.split(' ').map(str::as_bytes).collect();
    let command = find_whole(args.as_args()).unwrap_or_else(|| panic!("{request}"));
    assert!(command.takes(args.as_args().len()), "{request}");
    match check(user, command, args.as_args()) {
        Ok(()) => "OK".to_owned(),
        Err(denied) => {
            format!("{} {}", denied.reason.name(), String::from_utf8_lossy(&denied.object))
        }
    }
}

#[test]
fn rules_permit_commands() {
    for (rules, request, expected) in [
        ("allkeys", "get a", "command get"),
        ("allkeys +get", "GET a", "OK"),
        ("allkeys +@read -get", "get a", "command get"),
        ("allkeys +@read -get", "mget a", "OK"),
        ("allkeys +@all -@string +incr", "incr a", "OK"),
        ("allkeys +@all -@string +incr", "set a 1", "command set"),
        ("+client|id", "client id", "OK"),
        ("+client|id", "client kill x", "command client|kill"),
        ("+client -client|kill", "client kill x", "command client|kill"),
        ("+client -client|kill", "client id", "OK"),
        ("+@all -client|kill", "client list", "OK"),
        ("+select|0", "select 0", "OK"),
        ("+select|0", "select 1", "command select"),
        ("+debug|sleep", "debug SLEEP 0", "OK"),
        ("+select|0 -select", "select 0", "command select"),
        ("allkeys +object|encoding", "object encoding a", "OK"),
        ("allkeys +object|encoding", "object freq a", "command object|freq"),
        // Everybody may do these.
        ("-@all", "auth a", "OK"),
        ("-@all", "hello", "OK"),
        ("-@all", "reset", "OK"),
        ("-@all", "quit", "OK"),
        ("+@all -auth", "auth a", "OK"),
    ] {
        assert_eq!(judged(&user(rules), request), expected, "{rules}: {request}");
    }
}

#[test]
fn rules_permit_keys() {
    let own = user("+@all resetchannels %R~read* %W~write* %RW~rw*");
    for (request, expected) in [
        ("get read", "OK"),
        ("get write", "key write"),
        ("set write 1", "OK"),
        ("set write 1 get", "key write"),
        ("set rw 1 get", "OK"),
        ("set read 1", "key read"),
        ("copy read write", "OK"),
        ("copy write read", "key write"),
        ("rename rw write", "OK"),
        ("rename write write", "key write"),
        ("mset write1 1 write2 2 read 3", "key read"),
        ("bitfield read get u4 0", "OK"),
        ("bitfield read get u4 0 set u4 0 1", "key read"),
        ("bitfield write get u4 0", "key write"),
        ("bitfield rw set u4 0 1", "OK"),
        ("bitop and write read read", "OK"),
        ("bitop and read read read", "key read"),
        ("sort read store write", "OK"),
        ("sort read store write store read", "key read"),
        ("sort write store write", "key write"),
        ("sort_ro read", "OK"),
        ("eval x 1 rw1", "OK"),
        ("eval x 1 read", "key read"),
        ("eval_ro x 1 read", "OK"),
        ("eval x 0 nothing", "OK"),
        ("eval x 3 rw nothing", "OK"),
        ("georadius read 1 2 3 m store write", "OK"),
        ("georadius read 1 2 3 m store storedist storedist read", "key read"),
        ("georadius write 1 2 3 m store write", "key write"),
        ("zunionstore write 2 read read", "OK"),
        ("zunionstore read 1 read", "key read"),
        ("zunionstore write 2 read write", "key write"),
        ("xread count 1 streams read read 0 0", "OK"),
        ("xread count 1 streams read write 0 0", "key write"),
        ("xreadgroup count 1 group streams c streams rw >", "OK"),
        ("xreadgroup count 1 group streams c streams nothing >", "key nothing"),
        ("blpop rw rw nothing 0", "key nothing"),
        ("lmpop 2 rw nothing left", "key nothing"),
        ("hexists read f", "OK"),
        ("hexists write f", "OK"),
        ("hexists nothing f", "key nothing"),
        ("exists read write nothing", "key nothing"),
        ("memory usage write", "OK"),
        ("memory usage nothing", "key nothing"),
        ("xinfo stream read", "OK"),
        ("xinfo stream nothing", "key nothing"),
        ("watch nothing", "key nothing"),
        ("pfcount read write", "key write"),
        ("ping", "OK"),
    ] {
        assert_eq!(judged(&own, request), expected, "{request}");
    }
    // Of several rules for one pattern all count.
    assert_eq!(user("%R~foo %W~foo %rw~bar").root().key_rules(), b"~foo ~bar");
}

#[test]
fn rules_permit_channels() {
    let own = user("+@all allkeys &a* &b");
    for (request, expected) in [
        ("publish abc x", "OK"),
        ("publish bc x", "channel bc"),
        ("spublish b x", "OK"),
        ("subscribe ab b c", "channel c"),
        ("ssubscribe ab", "OK"),
        ("psubscribe a*", "OK"),
        ("psubscribe ab", "channel ab"),
        ("unsubscribe c", "OK"),
        ("punsubscribe c*", "OK"),
    ] {
        assert_eq!(judged(&own, request), expected, "{request}");
    }
}

#[test]
fn one_selector_permits_all_of_a_request_or_none() {
    let own = user("+mget ~key (+mget ~key ~other) (+set ~w*)");
    for (request, expected) in [
        ("mget key", "OK"),
        ("mget key other", "OK"),
        ("mget other third", "key third"),
        ("mget key other third", "key third"),
        ("set w 1", "OK"),
        ("set key 1", "key key"),
        ("get key", "command get"),
    ] {
        assert_eq!(judged(&own, request), expected, "{request}");
    }
}

#[test]
fn sorting_by_other_keys_takes_all_of_them() {
    let args: OwnedArgs = "sort list by v*".split(' ').map(str::as_bytes).collect();
    let command = find_whole(args.as_args()).unwrap();
    for (rules, expected) in [
        ("+sort ~list", false),
        ("+sort ~list %W~*", false),
        ("+sort ~list %R~*", true),
        ("+sort allkeys", true),
        ("+sort ~list (%R~* +get)", false),
    ] {
        assert_eq!(reads_all_keys(&user(rules), command, args.as_args()), expected, "{rules}");
    }
}

#[test]
fn who_may_do_everything_is_not_checked() {
    assert!(User::anybody().is_unlimited());
    for (rules, expected) in [
        ("+@all allkeys allchannels", true),
        ("+@all allkeys", false),
        ("+@all -debug +debug allkeys allchannels", false),
        ("+@all allkeys allchannels -@admin", false),
        ("(+@all ~* &*)", true),
        ("(+@all ~* &*) clearselectors", false),
        ("+@all ~* &* reset", false),
    ] {
        assert_eq!(user(rules).is_unlimited(), expected, "{rules}");
    }
}

#[test]
fn commands_are_described_by_the_rules_that_count() {
    for (rules, expected) in [
        ("-@all", "-@all"),
        ("+@all", "+@all"),
        ("+memory|doctor", "-@all +memory|doctor"),
        ("+memory|doctor +MEMORY", "-@all +memory"),
        ("+memory|doctor +memory|usage -memory|doctor", "-@all +memory|usage -memory|doctor"),
        ("+@all +client|id", "+@all +client|id"),
        ("+@string -get +@String", "-@all -get +@string"),
        ("+get -get +get", "-@all +get"),
        ("+get +getex", "-@all +get +getex"),
        ("+get +@all", "+@all"),
        ("-@all +select|0 +select|1", "-@all +select|0 +select|1"),
        ("+select|0 +select", "-@all +select"),
    ] {
        let text = String::from_utf8(user(rules).root().command_rules()).unwrap();
        assert_eq!(text, expected, "{rules}");
    }
}

/// Whatever rules made a user, the line that describes it makes the same one.
#[test]
fn descriptions_make_the_same_users() {
    let mut rules: Vec<String> = catalog().all.iter().map(|one| format!("+{}", one.name)).collect();
    rules.extend(catalog().all.iter().map(|one| format!("-{}", one.name)));
    for category in super::CATEGORIES {
        rules.extend([format!("+@{category}"), format!("-@{category}")]);
    }
    let others = [
        "+@all",
        "-@all",
        "+select|1",
        "+GET|x",
        "on",
        "off",
        "nopass",
        ">a",
        ">b",
        "resetpass",
        "~a*",
        "%R~b",
        "%W~b",
        "%W~c",
        "allkeys",
        "resetkeys",
        "&c",
        "&d*",
        "allchannels",
        "resetchannels",
        "(+get ~x)",
        "(-@all +@read %R~* &x allchannels)",
        "clearselectors",
        "reset",
        "skip-sanitize-payload",
    ];
    for seed in perdura_testing::seeds(0, 300) {
        let mut random = perdura_memory::random::SplitMix64::new(seed);
        let mut user = User::new(b"u", false);
        for _ in 0..random.below(30) {
            let rule = match random.below(2) {
                0 => rules[random.below(rules.len() as u64) as usize].as_str(),
                _ => others[random.below(others.len() as u64) as usize],
            };
            // Some rules are errors after others, and change nothing.
            let before = user.clone();
            if user.apply(rule.as_bytes(), false).is_err() {
                assert_eq!(user, before, "seed {seed}: {rule}");
            }
        }
        let line = user.describe();
        let words = line.split(|&byte| byte == b' ').skip(2);
        let mut again = User::new(b"u", false);
        for rule in super::merged(words).unwrap() {
            again.apply(&rule, false).unwrap();
        }
        assert_eq!(again.describe(), line, "seed {seed}");
        assert_eq!(again, user, "seed {seed}: {}", String::from_utf8_lossy(&line));
    }
}

#[test]
fn wrong_rules_say_what_is_wrong() {
    for (rule, expected) in [
        ("nothing", "Syntax error"),
        (")", "Syntax error"),
        (" () ", "Syntax error"),
        ("%X~a", "Syntax error"),
        ("%~a", "Syntax error"),
        ("%R", "Syntax error"),
        ("~a b", "Syntax error"),
        ("&a\0b", "Syntax error"),
        ("+select|", "Syntax error"),
        ("+nothing", "Unknown command or category name in ACL"),
        ("-nothing", "Unknown command or category name in ACL"),
        ("+@nothing", "Unknown command or category name in ACL"),
        ("+config|nothing", "Unknown command or category name in ACL"),
        ("-config|nothing", "Unknown command or category name in ACL"),
        ("+get|a|b", "Unknown command or category name in ACL"),
        ("-select|0", "Unknown command or category name in ACL"),
        ("+config|get|x", "Allowing first-arg of a subcommand is not supported"),
        ("<x", "The password you are trying to remove from the user does not exist"),
        ("(+nothing)", "Unknown command or category name in ACL"),
        ("(on)", "Syntax error"),
    ] {
        let wrong = User::new(b"u", false).apply(rule.as_bytes(), false).unwrap_err();
        assert_eq!(wrong.text(), expected, "{rule}");
    }
    for (rules, begin) in [
        (["allkeys", "~a"], "Adding a pattern after the * pattern (or the 'allkeys' flag)"),
        (["allchannels", "&a"], "Adding a pattern after the * pattern (or the 'allchannels' flag)"),
        (["on", "#12"], "The password hash must be exactly 64 characters"),
    ] {
        let mut user = User::new(b"u", false);
        user.apply(rules[0].as_bytes(), false).unwrap();
        let wrong = user.apply(rules[1].as_bytes(), false).unwrap_err();
        assert!(wrong.text().starts_with(begin), "{rules:?}");
    }
}

#[test]
fn hashes_are_those_of_the_standard() {
    // `printf foo | sha256sum`
    let digits = b"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
    assert_eq!(&super::hash(b"foo"), digits);
}
