//! Commands of replicas, and about them: REPLCONF, PSYNC, SYNC, ROLE, REPLICAOF, FAILOVER.

use super::{ClientCall, Command, Failure, Next, Outcome, Run};
use crate::keyspace::followed::HOST_MAX;
use crate::protocol::number;
use crate::replication::Ask;
use crate::replication::following::{Link, Phase, Plan};
use crate::walk::Contents;
use std::time::Duration;

const NONE: (i32, i32, i32) = (0, 0, 0);

pub(super) const TABLE: &[Command] = &[
    Command::new("replconf", -1, NONE, Run::Client(replconf), "What a replica says about itself."),
    Command::new("psync", -3, NONE, Run::Client(psync), "Makes the client a replica."),
    Command::new("sync", 1, NONE, Run::Client(sync), "The same, as of old."),
    Command::new("role", 1, NONE, Run::Client(role), "Whether this is a master, and its replicas."),
    Command::new("replicaof", 3, NONE, Run::Client(replicaof), "Follows a master, or NO ONE."),
    Command::new(
        "failover",
        -1,
        NONE,
        Run::Client(failover),
        "Has a replica take the server's place.",
    ),
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
            () if args.is(at, "rdb-only") => {
                ask.snapshot_only = match number::parse_i64(value).ok_or(Failure::NOT_INTEGER)? {
                    only @ (0 | 1) => only == 1,
                    _ => {
                        let text = "ERR value is out of range, value must between 0 and 1";
                        return Err(Failure::Say(text.into()));
                    }
                };
            }
            () if args.is(at, "rdb-filter-only") => ask.contents = contents(value)?,
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

/// What a list of the parts of a snapshot names.
fn contents(list: &[u8]) -> Outcome<Contents> {
    let mut contents = Contents::Nothing;
    for part in list.split(u8::is_ascii_whitespace).filter(|part| !part.is_empty()) {
        if !part.eq_ignore_ascii_case(b"functions") {
            let part = super::shown(part, 128);
            let text = format!("ERR Unsupported rdb-filter-only option: {part}");
            return Err(Failure::say(text));
        }
        contents = Contents::Functions;
    }
    Ok(contents)
}

/// Whether the client may become a replica, of this server as it is or as the master.
fn admit_replica(call: &ClientCall<'_>) -> Outcome {
    let text = match () {
        () if call.client.queue.is_some() => "ERR Command not allowed inside a transaction",
        () if call.server.following.failover.phase() == Phase::Asks => {
            "NOMASTERLINK Can't SYNC while failing over"
        }
        () if !call.client.home.is_remote => "ERR a replica must be connected by TCP",
        () => return Ok(()),
    };
    Err(Failure::Say(text.into()))
}

/// The client becomes a replica, which asks for this.
fn become_replica(call: &mut ClientCall<'_>, known: Option<(Vec<u8>, i64)>) -> Outcome<Next> {
    admit_replica(call)?;
    let following = &call.server.following;
    if following.is_replica() && following.facts().link != Link::Follows {
        // Its data is another one's, whose stream does not come.
        let text = "NOMASTERLINK Can't SYNC while not connected with my master";
        return Err(Failure::Say(text.into()));
    }
    let announced = call.client.announced.take().unwrap_or_default();
    call.client.ask = Some(Box::new(Ask { known, ..*announced }));
    Ok(Next::Leave)
}

fn psync(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let offset = number::parse_i64(call.args.at(2)).ok_or(Failure::NOT_INTEGER)?;
    let id = call.args.at(1).to_vec();
    if call.args.is(3, "failover") {
        // Its master follows from here on: not if it cannot.
        admit_replica(call)?;
        let following = &call.server.following;
        let text = match () {
            () if !following.is_replica() => "ERR PSYNC FAILOVER can't be sent to a master.",
            () if following.facts().id().is_none_or(|own| own.as_bytes() != id) => {
                "ERR PSYNC FAILOVER replid must match my replid."
            }
            () => "",
        };
        if !text.is_empty() {
            return Err(Failure::Say(text.into()));
        }
        following.change(call.server, None, None)?;
    }
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
    let replicas = call.server.replication.facts();
    let end = call.server.replication.feed.facts().end;
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

fn failover(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let (args, following) = (call.args, &call.server.following);
    let said = |text: &'static str| Err(Failure::Say(text.into()));
    if args.len() == 2 && args.is(1, "abort") {
        if !following.failover.abort() {
            return said("ERR No failover in progress.");
        }
        return call.ok();
    }
    let (mut plan, mut at) = (Plan::default(), 1);
    while at < args.len() {
        if args.is(at, "timeout") && at + 1 < args.len() && plan.timeout.is_none() {
            let millis = number::parse_i64(args.at(at + 1)).ok_or(Failure::NOT_INTEGER)?;
            if millis <= 0 {
                return said("ERR FAILOVER timeout must be greater than 0");
            }
            // No one waits for longer.
            const LONGEST: u64 = 100 * 365 * 86_400_000;
            plan.timeout = Some(Duration::from_millis(millis.unsigned_abs().min(LONGEST)));
            at += 2;
        } else if args.is(at, "to") && at + 2 < args.len() && plan.target.is_none() {
            let port = number::parse_i64(args.at(at + 2)).ok_or(Failure::NOT_INTEGER)?;
            let host = String::from_utf8_lossy(args.at(at + 1)).into_owned();
            plan.target = Some((host, u16::try_from(port).unwrap_or(0)));
            at += 3;
        } else if args.is(at, "force") && !plan.force {
            plan.force = true;
            at += 1;
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    let replicas = call.server.replication.facts();
    match () {
        () if following.failover.phase() != Phase::No => {
            return said("ERR FAILOVER already in progress.");
        }
        () if following.is_replica() => {
            return said("ERR FAILOVER is not valid when server is a replica.");
        }
        () if replicas.is_empty() => return said("ERR FAILOVER requires connected replicas."),
        () if plan.force && (plan.timeout.is_none() || plan.target.is_none()) => {
            return said(
                "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
            );
        }
        () => {}
    }
    if let Some((host, port)) = &plan.target {
        let found = replicas.iter().find(|one| one.address == *host && one.port == *port);
        match found.map(|one| one.state) {
            None => return said("ERR FAILOVER target HOST and PORT is not a replica."),
            Some("online") => {}
            Some(_) => return said("ERR FAILOVER target replica is not online."),
        }
    }
    if !following.fail_over(plan) {
        return said("ERR FAILOVER already in progress.");
    }
    call.ok()
}

fn replicaof(call: &mut ClientCall<'_>) -> Outcome<Next> {
    if call.server.following.failover.phase() != Phase::No {
        let text = "ERR REPLICAOF not allowed while failing over.";
        return Err(Failure::Say(text.into()));
    }
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
    if !call.server.following.change(call.server, master, None)? && follows {
        call.reply().simple("OK Already connected to specified master");
        return Ok(Next::Go);
    }
    call.ok()
}
