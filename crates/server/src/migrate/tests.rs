use super::request::Login;
use super::{Move, Orders};
use crate::command::Failure;
use crate::options::Options;
use crate::protocol::Protocol;
use crate::protocol::args::OwnedArgs;
use crate::server::Server;
use crate::store::Facts;
use crate::waiting::{Address, Delivery};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
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

#[test]
fn a_panic_leaves_no_client_without_an_answer() {
    let address = ([127, 0, 0, 1], 0).into();
    let server = &Server::new(Options::new().threads(1), address, Box::new(Facts::default));
    let (replies, (moves, orders)) = (Arc::new(Mutex::new(Vec::new())), channel());
    let told = Arc::clone(&replies);
    let deliver = move |delivery: Delivery| told.lock().unwrap().push(delivery.reply);
    assert!(server.deliver.set(Box::new(deliver)).is_ok());
    for _ in 0..3 {
        let request = parse("migrate h 1 k 0 1").unwrap();
        server.migration.bytes.fetch_add(request.bytes(), Ordering::Relaxed);
        moves.send(request).unwrap();
    }
    let done = catch_unwind(AssertUnwindSafe(|| {
        let mut orders = Orders::new(server, orders);
        orders.next(Duration::ZERO).unwrap();
        orders.end(Some(b"+OK\r\n".to_vec()));
        orders.next(Duration::ZERO).unwrap();
        panic!("as if a key could not be read");
    }));
    assert!(done.is_err() && server.migration.bytes.load(Ordering::Relaxed) == 0);
    let replies = replies.lock().unwrap();
    assert!(replies.len() == 3 && replies[0].starts_with(b"+OK"));
    assert!(replies[1..].iter().all(|reply| reply.starts_with(b"-ERR the thread")));
}
