//! What operators forbid.

use crate::client::{Client, Value};
use crate::server::{Server, module};
use std::process::Command;

fn denied(client: &mut Client, command: &str) {
    let reply = client.run(command);
    let is_denied = matches!(&reply, Value::Error(text) if text.starts_with("NOPERM"));
    assert!(is_denied, "{command}: {reply:?}");
}

/// A command that a user may not use by its own name is not there by the module's, either.
#[test]
fn denials_of_commands_hold() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = ["--user", "reader", "on", "nopass", "~*", "+@all", "-@write"];
    let mut server = Server::with_module(folder.path(), &rules);
    let mut admin = server.client();
    assert_eq!(admin.run("set a 1").text(), "OK");
    let rules = "acl setuser some on nopass ~read* ~own* +@all -set -@dangerous";
    assert_eq!(admin.run(rules).text(), "OK");
    let mut reader = server.client();
    reader.run("auth reader any");
    assert_eq!(reader.run("get a").number(), 1);
    for command in ["set a 2", "del a", "perdura.set a 2"] {
        denied(&mut reader, command);
    }
    let mut some = server.client();
    some.run("auth some any");
    assert_eq!(some.run("append own 1").number(), 1);
    assert_eq!(some.run("get read"), Value::Nil);
    for command in ["set own 2", "SET own 2", "get a", "keys *"] {
        denied(&mut some, command);
    }
    // In an EXEC, too.
    some.run("multi");
    some.run("set own 2");
    some.run("incr own");
    let replies = format!("{:?}", some.run("exec"));
    assert!(replies.contains("NOPERM") && replies.contains("Number(2)"), "{replies}");
    // A user's rules that change while it is connected.
    admin.run("acl setuser some +set");
    assert_eq!(some.run("set own 3").text(), "OK");
    admin.run("acl setuser default -flushall -incr");
    denied(&mut admin, "incr a");
    admin.run("acl setuser default +@all");
    assert_eq!(admin.run("incr a").number(), 2);
    server.kill();
}

/// A command that the operator has taken away stays away; one with another name is refused at the start.
#[test]
fn renamed_commands_are_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::with_module(folder.path(), &["--rename-command", "SET", ""]);
    let mut client = server.client();
    let reply = format!("{:?}", client.run("set a 1"));
    assert!(reply.contains("unknown command"), "{reply}");
    assert_eq!(client.run("append a 1").number(), 1);
    let library = module().display().to_string();
    let load = ["--loadmodule", &library, "pool", "own.pool", "--rename-command"];
    for (name, new_name) in [("set", "put"), ("debug", "look"), ("flushall", "clear")] {
        let log = Server::refused(folder.path(), &[&load[..], &[name, new_name]].concat());
        assert!(log.contains(&format!("'rename-command {name}'")), "{log}");
    }
}

/// Another module that calls commands on data: on the server's thread they are performed, on its own they are refused.
#[test]
fn other_modules_end_no_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("other.so").display().to_string();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/modules/other.c");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let made = Command::new(compiler)
        .args(["-shared", "-fPIC", "-pthread", "-o", &library, source])
        .status();
    assert!(made.expect("a C compiler").success());
    let mut server = Server::with_module(folder.path(), &["--loadmodule", &library]);
    let mut client = server.client();
    let mut ask = |words: &str| client.run(words).text();
    assert!(ask("other.call set a 1").ends_with(" OK"));
    let reply = ask("other.call get a");
    assert!(reply.ends_with(" 1"), "{reply}");
    for command in ["set a 2", "get a", "flushall", "dump a", "dbsize", "perdura.set a 2"] {
        let reply = ask(&format!("other.thread {command}"));
        assert!(reply.contains("not on another module's"), "{command}: {reply}");
    }
    let reply = ask("other.thread ping");
    assert!(reply.ends_with(" PONG"), "{reply}");
    server.kill();
    server.restart();
    assert_eq!(server.client().run("get a").number(), 1);
}
