//! Commands about the client's own connection.

use super::{
    ClientCall, Command, Failure, Next, Outcome, Run, client_tracking, keys, pubsub, shown,
};
use crate::acl::{Context, DEFAULT, Denied, Reason};
use crate::client::Replies;
use crate::keyspace::now;
use crate::listing::{Label, Listing, Peer};
use crate::pause::Paused;
use crate::protocol::{Args, Protocol, number};
use crate::server::Server;
use crate::waiting::{Delivery, Doom};

const NONE: (i32, i32, i32) = (0, 0, 0);

pub(super) const TABLE: &[Command] = &[
    Command::new("ping", -1, NONE, Run::Client(ping), "Answers PONG."),
    Command::new("echo", 2, NONE, Run::Client(echo), "Answers its argument."),
    Command::new("select", 2, NONE, Run::Client(select), "Chooses a database."),
    Command::new("auth", -2, NONE, Run::Client(auth), "Gives the password."),
    Command::new("hello", -1, NONE, Run::Client(hello), "Chooses the protocol's version."),
    Command::new("quit", -1, NONE, Run::Client(quit), "Closes the connection."),
    // Sent by a browser, not by a Redis client: commands that follow in the body must not be done.
    Command::new("post", -1, NONE, Run::Client(refuse), "Closes the connection of an HTTP client."),
    Command::new(
        "host:",
        -1,
        NONE,
        Run::Client(refuse),
        "Closes the connection of an HTTP client.",
    ),
    Command::new("reset", 1, NONE, Run::Client(reset), "Makes the connection as good as new."),
    Command::new("client", -2, NONE, Run::Client(client), "About this and other connections."),
];

fn ping(call: &mut ClientCall<'_>) -> Outcome<Next> {
    match call.args.get(1) {
        _ if call.args.len() > 2 => return Err(Failure::arity("ping")),
        text if call.client.restricted && !call.client.monitors() => {
            pubsub::pong(&mut call.reply(), text.unwrap_or_default())
        }
        Some(text) => call.reply().bulk(text),
        None => call.reply().simple("PONG"),
    }
    Ok(Next::Go)
}

fn echo(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let text = call.args.at(1);
    call.reply().bulk(text);
    Ok(Next::Go)
}

fn select(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let index = keys::database(call.args.at(1))?;
    call.client.select(index);
    call.ok()
}

/// Makes the client this user, if the password is right.
fn check_password(call: &mut ClientCall<'_>, user: &[u8], password: &[u8]) -> Outcome {
    if !call.server.acl.log_in(&call.client.listing, user, password) {
        call.server.note_wrong_password(&call.client.listing);
        let in_multi = call.client.queue.is_some();
        let context = if in_multi { Context::Multi } else { Context::TopLevel };
        let denied = Denied { reason: Reason::Password, object: call.args.at(0).to_vec() };
        let len = call.server.tuning.acl_log_len();
        call.server.acl.note(&call.client.listing, &denied, context, Some(user), len);
        let text = "WRONGPASS invalid username-password pair or user is disabled.";
        return Err(Failure::Say(text.into()));
    }
    call.client.authenticated = true;
    call.client.renew();
    Ok(())
}

fn auth(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let args = call.args;
    match args.len() {
        2 if call.server.acl.user(DEFAULT).is_some_and(|user| user.needs_no_password) => {
            let text = "ERR AUTH <password> called without any password configured for the \
                        default user. Are you sure your configuration is correct?";
            return Err(Failure::Say(text.into()));
        }
        2 => check_password(call, DEFAULT, args.at(1))?,
        3 => check_password(call, args.at(1), args.at(2))?,
        _ => return Err(Failure::SYNTAX),
    }
    call.ok()
}

fn hello(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let args = call.args;
    let protocol = match args.get(1).map(number::parse_i64) {
        None => None,
        Some(Some(2)) => Some(Protocol::Resp2),
        Some(Some(3)) => Some(Protocol::Resp3),
        Some(Some(_)) => {
            return Err(Failure::Say("NOPROTO unsupported protocol version".into()));
        }
        Some(None) => {
            let text = "ERR Protocol version is not an integer or out of range";
            return Err(Failure::Say(text.into()));
        }
    };
    hello_options(call, args.from(2))?;
    if !call.client.authenticated {
        let text = "NOAUTH HELLO must be called with the client already authenticated, \
                    otherwise the HELLO <proto> AUTH <user> <pass> option can be used to \
                    authenticate the client and select the RESP protocol version at the same \
                    time";
        return Err(Failure::Say(text.into()));
    }
    if let Some(protocol) = protocol {
        call.client.protocol = protocol;
        call.client.listing.set_protocol(protocol);
        call.client.restrict();
    }
    introduce(call);
    Ok(Next::Go)
}

fn hello_options(call: &mut ClientCall<'_>, args: Args<'_>) -> Outcome {
    let mut at = 0;
    let mut name = None;
    while at < args.len() {
        if args.is(at, "auth") && at + 2 < args.len() {
            check_password(call, args.at(at + 1), args.at(at + 2))?;
            at += 3;
        } else if args.is(at, "setname") && at + 1 < args.len() {
            name = Some(label(args.at(at + 1))?);
            at += 2;
        } else {
            let option = shown(args.at(at), usize::MAX);
            return Err(Failure::say(format!("ERR Syntax error in HELLO option '{option}'")));
        }
    }
    if let Some(name) = name {
        call.client.listing.set_label(Label::Name, name);
    }
    Ok(())
}

/// HELLO's reply.
fn introduce(call: &mut ClientCall<'_>) {
    let id = call.client.listing.id;
    let three = call.client.protocol == Protocol::Resp3;
    let role = if call.server.following.is_replica() { "replica" } else { "master" };
    let mut out = call.reply();
    out.map(7);
    for (name, value) in [("server", "redis"), ("version", super::VERSION)] {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"proto");
    out.integer(if three { 3 } else { 2 });
    out.bulk(b"id");
    out.size(id);
    for (name, value) in [("mode", "standalone"), ("role", role)] {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"modules");
    out.array(0);
}

fn refuse(_: &mut ClientCall<'_>) -> Outcome<Next> {
    Ok(Next::Close)
}

fn quit(call: &mut ClientCall<'_>) -> Outcome<Next> {
    call.reply().ok();
    Ok(Next::Close)
}

fn reset(call: &mut ClientCall<'_>) -> Outcome<Next> {
    call.client.reset(call.server);
    call.reply().simple("RESET");
    Ok(Next::Go)
}

/// The characters of a client's name: none that could break a line of CLIENT LIST.
fn label(text: &[u8]) -> Outcome<&str> {
    /// Every client may keep three of them.
    const MOST: usize = 1024;
    if text.len() > MOST {
        return Err(Failure::say(format!("ERR Client names cannot be longer than {MOST} bytes")));
    }
    match std::str::from_utf8(text) {
        Ok(text) if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(text),
        _ => {
            let text = "ERR Client names cannot contain spaces, newlines or special characters.";
            Err(Failure::Say(text.into()))
        }
    }
}

fn client(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let args = call.args;
    let server = call.server;
    match (args.at(1).to_ascii_lowercase().as_slice(), args.len()) {
        (b"setname", 3) => {
            let name = label(args.at(2))?;
            call.client.listing.set_label(Label::Name, name);
            return call.ok();
        }
        (b"setinfo", 4) => return set_info(call),
        (b"getname", 2) => match call.client.listing.name() {
            name if name.is_empty() => call.reply().null(),
            name => call.reply().bulk(name.as_bytes()),
        },
        (b"id", 2) => {
            let id = call.client.listing.id;
            call.reply().size(id);
        }
        (b"info", 2) => {
            let line = call.client.listing.line("client|info");
            call.reply().verbatim(&line);
        }
        (b"list", _) => {
            let (listed, own) = (listed(args.from(2))?, call.client.listing.id);
            let clients = server.clients();
            let lines = clients.values().filter(|one| listed.takes(server, one));
            let of = |id| if id == own { "client|list" } else { "NULL" };
            let lines: String = lines.map(|one| one.line(of(one.id))).collect();
            drop(clients);
            call.reply().verbatim(&lines);
        }
        (b"kill", 3..) => return kill(call),
        (b"unblock", 3 | 4) => return unblock(call),
        (what @ (b"no-evict" | b"no-touch"), 3) => {
            let on = match args.at(2).to_ascii_lowercase().as_slice() {
                b"on" => true,
                b"off" => false,
                _ => return Err(Failure::SYNTAX),
            };
            if what == b"no-touch" {
                call.client.listing.set_no_touch(on);
            }
            return call.ok();
        }
        (b"reply", 3) => return reply(call),
        (b"pause", 3 | 4) => return pause(call),
        (b"unpause", 2) => {
            server.pause.end();
            server.wake();
            return call.ok();
        }
        (b"tracking", 3..) => return client_tracking::tracking(call),
        (b"caching", 3) => return client_tracking::caching(call),
        (b"getredir", 2) => return client_tracking::get_redirect(call),
        (b"trackinginfo", 2) => return client_tracking::info(call),
        (
            b"pause" | b"unpause" | b"tracking" | b"caching" | b"getredir" | b"trackinginfo"
            | b"kill" | b"unblock" | b"reply" | b"setname" | b"setinfo" | b"getname" | b"id"
            | b"info" | b"no-evict" | b"no-touch",
            _,
        ) => {
            return Err(Failure::subcommand_arity(args, "client"));
        }
        _ => return Err(Failure::unknown_subcommand(args, "CLIENT")),
    }
    Ok(Next::Go)
}

/// The clients that CLIENT LIST is asked for.
enum Listed {
    All,
    Type(ClientType),
    Ids(Vec<i64>),
}

impl Listed {
    fn takes(&self, server: &Server, client: &Listing) -> bool {
        match self {
            Listed::All => true,
            Listed::Type(kind) => kind.has(server, client),
            Listed::Ids(ids) => ids.iter().any(|&one| u64::try_from(one) == Ok(client.id)),
        }
    }
}

/// Reads `TYPE type` or `ID id ...`.
fn listed(args: Args<'_>) -> Outcome<Listed> {
    if args.len() == 0 {
        return Ok(Listed::All);
    }
    if args.len() == 2 && args.is(0, "type") {
        return Ok(Listed::Type(ClientType::of(args, 1)?));
    }
    if args.len() > 1 && args.is(0, "id") {
        let ids = args.from(1).iter().map(number::parse_i64).collect::<Option<Vec<_>>>();
        return match ids {
            Some(ids) => Ok(Listed::Ids(ids)),
            None => Err(Failure::Say("ERR Invalid client ID".into())),
        };
    }
    Err(Failure::SYNTAX)
}

/// A type of clients.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClientType {
    Normal,
    /// It listens to channels.
    Listening,
    Replica,
    Master,
}

impl ClientType {
    /// The type that the argument names.
    fn of(args: Args<'_>, at: usize) -> Outcome<Self> {
        match () {
            () if args.is(at, "normal") => Ok(ClientType::Normal),
            () if args.is(at, "pubsub") => Ok(ClientType::Listening),
            () if ["replica", "slave"].iter().any(|name| args.is(at, name)) => {
                Ok(ClientType::Replica)
            }
            () if args.is(at, "master") => Ok(ClientType::Master),
            () => {
                let name = shown(args.at(at), usize::MAX);
                Err(Failure::say(format!("ERR Unknown client type '{name}'")))
            }
        }
    }

    fn has(self, server: &Server, client: &Listing) -> bool {
        match self {
            ClientType::Normal => !client.listens() && !server.replication.has(client.id),
            ClientType::Listening => client.listens(),
            ClientType::Replica => server.replication.has(client.id),
            // The connection to it is on no list of clients.
            ClientType::Master => false,
        }
    }
}

/// The clients that CLIENT KILL is to end: those that pass all of its filters.
struct Doomed<'a> {
    id: Option<u64>,
    address: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    kind: Option<ClientType>,
    user: Option<&'a [u8]>,
    /// Whether it spares the client that asks.
    skip_me: bool,
}

impl<'a> Doomed<'a> {
    /// Reads `ADDRESS`, or pairs of a filter's name and its value.
    fn parse(args: Args<'a>) -> Outcome<Self> {
        let mut doomed =
            Doomed { id: None, address: None, local: None, kind: None, user: None, skip_me: true };
        if args.len() == 1 {
            return Ok(Doomed { address: Some(args.at(0)), skip_me: false, ..doomed });
        }
        for at in (0..args.len()).step_by(2) {
            let Some(value) = args.get(at + 1) else { return Err(Failure::SYNTAX) };
            match args.at(at).to_ascii_lowercase().as_slice() {
                b"id" => {
                    let id = number::parse_i64(value).filter(|&id| id > 0);
                    let wrong = Failure::Say("ERR client-id should be greater than 0".into());
                    doomed.id = Some(id.ok_or(wrong)?.unsigned_abs());
                }
                b"type" => doomed.kind = Some(ClientType::of(args, at + 1)?),
                b"addr" => doomed.address = Some(value),
                b"laddr" => doomed.local = Some(value),
                b"user" => doomed.user = Some(value),
                b"skipme" if args.is(at + 1, "yes") => doomed.skip_me = true,
                b"skipme" if args.is(at + 1, "no") => doomed.skip_me = false,
                _ => return Err(Failure::SYNTAX),
            }
        }
        Ok(doomed)
    }

    fn takes(&self, server: &Server, client: &Listing, own: u64) -> bool {
        let is = |wanted: Option<&[u8]>, address: &Peer| {
            wanted.is_none_or(|wanted| wanted == address.to_string().as_bytes())
        };
        self.kind.is_none_or(|kind| kind.has(server, client))
            && self.id.is_none_or(|id| id == client.id)
            && self.user.is_none_or(|name| client.user().name == name)
            && is(self.address, &client.address)
            && is(self.local, &client.local)
            && !(self.skip_me && client.id == own)
    }
}

/// Ends clients. The one that asks, if it is among them, is answered first.
fn kill(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let (args, own) = (call.args.from(2), call.client.listing.id);
    let doomed = Doomed::parse(args)?;
    if let Some(name) = doomed.user.filter(|name| call.server.acl.user(name).is_none()) {
        let name = shown(name, usize::MAX);
        return Err(Failure::say(format!("ERR No such user '{name}'")));
    }
    let all: Vec<_> = call.server.clients().values().cloned().collect();
    let breaks = doomed.kind == Some(ClientType::Master) && call.server.following.break_link();
    let mut killed = u64::from(breaks);
    for client in all.iter().filter(|client| doomed.takes(call.server, client, own)) {
        call.server.replication.break_off(client.id);
        killed += u64::from(client.id == own || call.server.kill(client));
    }
    if args.len() > 1 {
        call.reply().size(killed);
    } else if killed > 0 {
        call.reply().ok();
    } else {
        return Err(Failure::Say("ERR No such client".into()));
    }
    if all.iter().any(|client| client.id == own && doomed.takes(call.server, client, own)) {
        call.client.listing.kill();
        return Ok(Next::Close);
    }
    Ok(Next::Go)
}

/// Ends a client's wait for a key to be filled.
fn unblock(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let doom = match () {
        () if call.args.len() == 3 || call.args.is(3, "timeout") => Doom::TimedOut,
        () if call.args.is(3, "error") => Doom::Unblocked,
        () => {
            let text = "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR";
            return Err(Failure::Say(text.into()));
        }
    };
    let id = number::parse_i64(call.args.at(2)).ok_or(Failure::NOT_INTEGER)?;
    let found = u64::try_from(id).ok().and_then(|id| call.server.waiting.unblock(id));
    let delivery = found.as_ref().and_then(|waiter| Delivery::of(waiter, doom));
    if let (Some(delivery), Some(deliver)) = (delivery, call.server.deliver.get()) {
        deliver(delivery);
    }
    call.reply().flag(found.is_some());
    Ok(Next::Go)
}

/// Has commands of clients wait for some milliseconds: all of them, or those that write.
fn pause(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let kind = match () {
        () if call.args.len() == 3 || call.args.is(3, "all") => Paused::All,
        () if call.args.is(3, "write") => Paused::Writes,
        () => return Err(Failure::Say("ERR CLIENT PAUSE mode must be WRITE or ALL".into())),
    };
    let wrong = Failure::Say("ERR timeout is not an integer or out of range".into());
    let millis = number::parse_i64(call.args.at(2)).ok_or(wrong)?;
    let millis =
        u64::try_from(millis).map_err(|_| Failure::Say("ERR timeout is negative".into()))?;
    let end = if millis > 0 { millis.saturating_add(now()) } else { 0 };
    if i64::try_from(end).is_err() {
        return Err(Failure::Say("ERR timeout is out of range".into()));
    }
    let server = call.server;
    let before = server.pause.now();
    call.client.own_pause = server.pause.begin(kind, end, call.client.own_pause);
    // All but the thread of a master's commands, which go on.
    let waits_for = |thread| thread != server.stats.len();
    let done = server.runs.await_writers(call.client.home.worker, waits_for);
    if let Err(busy) = done {
        if before == Paused::None {
            server.pause.end();
        }
        return Err(Failure::Say(busy.text().into()));
    }
    call.ok()
}

/// Whether this client is answered from now on. Only ON is itself answered.
fn reply(call: &mut ClientCall<'_>) -> Outcome<Next> {
    match () {
        () if call.args.is(2, "on") => {
            call.client.replies = Replies::On;
            return call.ok();
        }
        () if call.args.is(2, "off") => call.client.replies = Replies::Off,
        () if call.args.is(2, "skip") => {
            if call.client.replies == Replies::On {
                call.client.replies = Replies::Skip;
            }
        }
        () => return Err(Failure::SYNTAX),
    }
    Ok(Next::Go)
}

fn set_info(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let args = call.args;
    let which = match args.at(2).to_ascii_lowercase().as_slice() {
        b"lib-name" => Label::Library,
        b"lib-ver" => Label::Version,
        _ => {
            let option = shown(args.at(2), usize::MAX);
            return Err(Failure::say(format!("ERR Unrecognized option '{option}'")));
        }
    };
    let text = label(args.at(3))?;
    call.client.listing.set_label(which, text);
    call.ok()
}
