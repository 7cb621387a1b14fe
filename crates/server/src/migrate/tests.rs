use super::Move;
use super::request::Login;
use crate::command::Failure;
use crate::protocol::Protocol;
use crate::protocol::args::OwnedArgs;
use crate::waiting::Address;
use std::time::Duration;

fn parse(request: &str) -> Result<Move, String> {
    let args: OwnedArgs = request.split(' ').map(|arg| arg.trim_matches('"').as_bytes()).collect();
    let to = Address { worker: 0, slot: 0, id: 1 };
    Move::parse(args.as_args(), to, Protocol::Resp2, 3).map_err(|failure| match failure {
        Failure::Say(text) => text.into_owned(),
        Failure::NoRoom(text) => text,
        Failure::Pool(error) => error.to_string(),
    })
}

#[test]
fn options_are_those_of_redis() {
    let request = parse("migrate host 6379 key 9 5000").unwrap();
    assert_eq!(request.keys(), [b"key"]);
    assert_eq!((request.db, request.target_db), (3, 9));
    assert_eq!(request.timeout, Duration::from_secs(5));
    assert!(!request.copies && !request.replaces && request.login.is_none());
    let request =
        parse("migrate host 6379 \"\" 0 0 copy auth x replace auth2 u p keys a b a c").unwrap();
    assert_eq!(request.keys(), [b"a", b"b", b"c"]);
    assert!(request.copies && request.replaces && request.timeout == Duration::from_secs(1));
    let login = Login { user: Some(b"u".to_vec()), password: b"p".to_vec() };
    assert_eq!(request.login, Some(login));
    assert!(parse("migrate host 6379 \"\" 0 -5 keys").unwrap().keys().is_empty());
}

#[test]
fn errors_are_those_of_redis() {
    let syntax = "ERR syntax error";
    let number = "ERR value is not an integer or out of range";
    for (request, expected) in [
        ("migrate h 1 k 0 1 auth", syntax),
        ("migrate h 1 k 0 1 auth2 u", syntax),
        ("migrate h 1 k 0 1 other", syntax),
        ("migrate h 1 k 0 x", number),
        ("migrate h 1 k x 1", number),
        (
            "migrate h 1 k 0 1 keys a",
            "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
        ),
    ] {
        assert_eq!(parse(request).unwrap_err(), expected, "{request}");
    }
}
