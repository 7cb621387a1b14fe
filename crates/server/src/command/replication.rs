//! Commands of replicas, and about them: REPLCONF, PSYNC, SYNC, ROLE, REPLICAOF.

use super::{ClientCall, Command, Failure, Next, Outcome, Run};
use crate::keyspace::followed::HOST_MAX;
use crate::protocol::number;
use crate::replication::Ask;
use crate::replication::following::Link;

const NONE: (i32, i32, i32) = (0, 0, 0);

pub(super) const TABLE: &[Command] = &[
    Command::new("replconf", -1, NONE, Run::Client(replconf), "What a replica says about itself."),
    Command::new("psync", -3, NONE, Run::Client(psync), "Makes the client a replica."),
    Command::new("sync", 1, NONE, Run::Client(sync), "The same, as of old."),
    Command::new("role", 1, NONE, Run::Client(role), "Whether this is a master, and its replicas."),
    Command::new("replicaof", 3, NONE, Run::Client(replicaof), "Follows a master, or NO ONE."),
    Command::new("slaveof", 3, NONE, Run::Client(replicaof), "The same."),
];

/// Bytes of an address.
const ADDRESS_MAX: usize = 255;

fn replconf(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let args = call.args;
    if args.len().is_multiple_of(2) {
        return Err(Failure::SYNTAX);
    }
    let ask = call.client.announced.get_or_insert_default();
    for at in (1..args.len()).step_by(2) {
        let value = args.at(at + 1);
        match () {
            () if args.is(at, "listening-port") => {
                let port = number::parse_i64(value).and_then(|port| u16::try_from(port).ok());
                ask.port = port.ok_or(Failure::NOT_INTEGER)?;
            }
            () if args.is(at, "ip-address") => {
                if value.len() > ADDRESS_MAX {
                    let text = format!(
                        "ERR REPLCONF ip-address provided by replica instance is too long: {} bytes",
                        value.len()
                    );
                    return Err(Failure::Say(text.into()));
                }
                let is_plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b',';
                let address: String =
                    value.iter().filter(|byte| is_plain(byte)).map(|byte| *byte as char).collect();
                ask.address = (!address.is_empty()).then_some(address);
            }
            // All that replicas of Redis 2.8 and later can do is known, or not needed.
            () if args.is(at, "capa") => {}
            // Of one that is no replica yet.
            () if args.is(at, "ack") || args.is(at, "getack") => return Ok(Next::Go),
            () => {
                let option = super::shown(args.at(at), 128);
                return Err(Failure::say(format!("ERR Unrecognized REPLCONF option: {option}")));
            }
        }
    }
    call.ok()
}

/// The client becomes a replica, which asks for this.
fn become_replica(call: &mut ClientCall<'_>, known: Option<(Vec<u8>, i64)>) -> Outcome<Next> {
    if call.client.queue.is_some() {
        return Err(Failure::Say("ERR Command not allowed inside a transaction".into()));
    }
    if call.server.following.is_replica() {
        // Its data is another one's, which is to be followed.
        let text = "NOMASTERLINK Can't SYNC while not connected with my master";
        return Err(Failure::Say(text.into()));
    }
    if !call.client.home.is_plain {
        let text = "ERR a replica must be connected by TCP, without TLS";
        return Err(Failure::Say(text.into()));
    }
    let announced = call.client.announced.take().unwrap_or_default();
    call.client.ask = Some(Box::new(Ask { known, ..*announced }));
    Ok(Next::Leave)
}

fn psync(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let offset = number::parse_i64(call.args.at(2)).ok_or(Failure::NOT_INTEGER)?;
    let id = call.args.at(1).to_vec();
    become_replica(call, Some((id, offset)))
}

fn sync(call: &mut ClientCall<'_>) -> Outcome<Next> {
    become_replica(call, None)
}

fn role(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let following = call.server.following.facts();
    if let Some((host, port)) = following.master() {
        let mut out = call.reply();
        out.array(5);
        out.bulk(b"slave");
        out.bulk(host.as_bytes());
        out.integer(i64::from(*port));
        out.bulk(match following.link {
            Link::Pause => b"connect",
            Link::Connecting => b"connecting",
            Link::Loads => b"sync",
            Link::Follows => b"connected",
        });
        out.integer(if following.is_incomplete() { -1 } else { following.place as i64 });
        return Ok(Next::Go);
    }
    let (replicas, (_, end, _)) =
        (call.server.replication.facts(), call.server.replication.feed.facts());
    let mut out = call.reply();
    out.array(3);
    out.bulk(b"master");
    out.integer(end as i64);
    let online: Vec<_> = replicas.iter().filter(|replica| replica.state == "online").collect();
    out.array(online.len());
    for replica in online {
        out.array(3);
        out.bulk(replica.address.as_bytes());
        out.bulk(replica.port.to_string().as_bytes());
        out.bulk(replica.place.to_string().as_bytes());
    }
    Ok(Next::Go)
}

fn replicaof(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let master = if call.args.is(1, "no") && call.args.is(2, "one") {
        None
    } else {
        let wrong = || Failure::Say("ERR Invalid master port".into());
        let port = number::parse_i64(call.args.at(2)).and_then(|port| u16::try_from(port).ok());
        let host = std::str::from_utf8(call.args.at(1)).ok();
        let is_plain =
            |host: &&str| !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic());
        let host = host.filter(|host| host.len() <= HOST_MAX).filter(is_plain);
        let text = "ERR Invalid master host";
        let host = host.ok_or(Failure::Say(text.into()))?;
        Some((host.to_owned(), port.filter(|port| *port > 0).ok_or_else(wrong)?))
    };
    let follows = master.is_some();
    if !call.server.following.change(call.server, master)? && follows {
        call.reply().simple("OK Already connected to specified master");
        return Ok(Next::Go);
    }
    call.ok()
}
