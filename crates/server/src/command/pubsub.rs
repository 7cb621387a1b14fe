//! Publishing and subscribing. PUBLISH is a command on data: its message goes on its way with its transaction.

use super::{Call, ClientCall, Command, Failure, Next, Outcome, Run};
use crate::client::Client;
use crate::protocol::{Protocol, Reply, glob};
use crate::pubsub::{Kind, PER_NAME, Post};

const NONE: (i32, i32, i32) = (0, 0, 0);
const FIRST: (i32, i32, i32) = (1, 1, 1);
const ALL: (i32, i32, i32) = (1, -1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::new("publish", 3, NONE, Run::Read(publish), "Sends a message to a channel."),
    Command::new("spublish", 3, FIRST, Run::Read(spublish), "Sends one to a shard's channel."),
    Command::new("subscribe", -2, NONE, Run::Client(subscribe), "Listens to channels."),
    Command::new("psubscribe", -2, NONE, Run::Client(psubscribe), "Listens to patterns."),
    Command::new("ssubscribe", -2, ALL, Run::Client(ssubscribe), "Listens to shards' channels."),
    Command::new("unsubscribe", -1, NONE, Run::Client(unsubscribe), "Ends SUBSCRIBE."),
    Command::new("punsubscribe", -1, NONE, Run::Client(punsubscribe), "Ends PSUBSCRIBE."),
    Command::new("sunsubscribe", -1, ALL, Run::Client(sunsubscribe), "Ends SSUBSCRIBE."),
    Command::new("pubsub", -2, NONE, Run::Client(pubsub), "Which channels are listened to."),
];

/// Whether a client that listens may send a command though its protocol has no other way for messages than replies.
pub(crate) fn goes_while_subscribed(command: &Command) -> bool {
    matches!(
        command.name,
        "ping"
            | "subscribe"
            | "psubscribe"
            | "ssubscribe"
            | "unsubscribe"
            | "punsubscribe"
            | "sunsubscribe"
            | "quit"
            | "reset"
    )
}

fn publish(call: &mut Call<'_>) -> Outcome {
    post(call, false)
}

fn spublish(call: &mut Call<'_>) -> Outcome {
    post(call, true)
}

fn post(call: &mut Call<'_>, shard: bool) -> Outcome {
    let (channel, message) = (call.args.at(1), call.args.at(2));
    let receivers = call.env.server.pubsub.receivers(shard, channel);
    if receivers > 0 {
        call.env.posts.check_room().map_err(Failure::say)?;
        let kind = if shard { Kind::Shard } else { Kind::Channel };
        let post = Post { kind, channel: channel.to_vec(), message: message.to_vec() };
        call.env.posts.add(post);
    }
    call.out.size(receivers as u64);
    Ok(())
}

/// The replies' word, and whether it begins something.
fn word(kind: Kind, begins: bool) -> &'static [u8] {
    match (kind, begins) {
        (Kind::Channel, true) => b"subscribe",
        (Kind::Channel, false) => b"unsubscribe",
        (Kind::Pattern, true) => b"psubscribe",
        (Kind::Pattern, false) => b"punsubscribe",
        (Kind::Shard, true) => b"ssubscribe",
        (Kind::Shard, false) => b"sunsubscribe",
        // No command ends it by itself.
        (Kind::Monitor, _) => b"monitor",
    }
}

/// Writes that a client listens to a name from now on, or no longer, and how many are left.
fn confirm(out: &mut Reply<'_>, word: &[u8], name: Option<&[u8]>, count: usize) {
    out.push(3);
    out.bulk(word);
    match name {
        Some(name) => out.bulk(name),
        None => out.null(),
    }
    out.size(count as u64);
}

fn subscribe(call: &mut ClientCall<'_>) -> Outcome<Next> {
    begin(call, Kind::Channel)
}

fn psubscribe(call: &mut ClientCall<'_>) -> Outcome<Next> {
    begin(call, Kind::Pattern)
}

fn ssubscribe(call: &mut ClientCall<'_>) -> Outcome<Next> {
    begin(call, Kind::Shard)
}

fn begin(call: &mut ClientCall<'_>, kind: Kind) -> Outcome<Next> {
    let names = call.args.from(1);
    let most = call.server.options.max_request;
    let known = call.client.subscriptions.as_ref().map_or(0, |own| own.bytes());
    if known + names.bytes() + names.len() * PER_NAME > most {
        return Err(Failure::say(format!(
            "ERR the channels that are listened to take more than {most} bytes, see --max-request"
        )));
    }
    for name in names.iter() {
        let Client { listing, home, subscriptions, .. } = &mut *call.client;
        let own = subscriptions.get_or_insert_default();
        call.server.pubsub.subscribe(own, &home.listener(listing), kind, name);
        let count = own.count(kind);
        confirm(&mut call.reply(), word(kind, true), Some(name), count);
    }
    call.client.restrict();
    Ok(Next::Go)
}

fn unsubscribe(call: &mut ClientCall<'_>) -> Outcome<Next> {
    end(call, Kind::Channel)
}

fn punsubscribe(call: &mut ClientCall<'_>) -> Outcome<Next> {
    end(call, Kind::Pattern)
}

fn sunsubscribe(call: &mut ClientCall<'_>) -> Outcome<Next> {
    end(call, Kind::Shard)
}

fn end(call: &mut ClientCall<'_>, kind: Kind) -> Outcome<Next> {
    let args = call.args;
    let given: Vec<Vec<u8>> = match (&call.client.subscriptions, args.len()) {
        (Some(own), 1) => own.of(kind).iter().map(|name| name.to_vec()).collect(),
        _ => args.from(1).iter().map(<[u8]>::to_vec).collect(),
    };
    let left = |client: &Client| client.subscriptions.as_ref().map_or(0, |own| own.count(kind));
    if given.is_empty() {
        let count = left(call.client);
        confirm(&mut call.reply(), word(kind, false), None, count);
    }
    for name in given {
        let Client { listing, subscriptions, .. } = &mut *call.client;
        if let Some(own) = subscriptions {
            call.server.pubsub.unsubscribe(own, listing, kind, &name);
        }
        let count = left(call.client);
        confirm(&mut call.reply(), word(kind, false), Some(&name), count);
    }
    call.client.restrict();
    Ok(Next::Go)
}

fn pubsub(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let (args, all) = (call.args, &call.server.pubsub);
    let channels = |kind: Kind, out: &mut Reply<'_>| {
        let takes = |name: &[u8]| args.get(2).is_none_or(|pattern| glob::matches(pattern, name));
        let names = all.listened(kind, takes);
        out.array(names.len());
        names.iter().for_each(|(name, _)| out.bulk(name));
    };
    let numbers = |kind: Kind, out: &mut Reply<'_>| {
        out.array(2 * (args.len() - 2));
        for name in args.from(2).iter() {
            out.bulk(name);
            out.size(all.listeners(kind, name) as u64);
        }
    };
    let mut out = Reply::new(call.out, call.client.protocol);
    match (args.at(1).to_ascii_lowercase().as_slice(), args.len()) {
        (b"channels", 2 | 3) => channels(Kind::Channel, &mut out),
        (b"shardchannels", 2 | 3) => channels(Kind::Shard, &mut out),
        (b"numsub", 2..) => numbers(Kind::Channel, &mut out),
        (b"shardnumsub", 2..) => numbers(Kind::Shard, &mut out),
        (b"numpat", 2) => out.size(all.name_count(Kind::Pattern) as u64),
        (b"help", 2) => out.help(
            "PUBSUB",
            &[
                "CHANNELS [<pattern>]",
                "    Return the currently active channels matching a <pattern> (default: '*').",
                "NUMPAT",
                "    Return number of subscriptions to patterns.",
                "NUMSUB [<channel> ...]",
                "    Return the number of subscribers for the specified channels, excluding",
                "    pattern subscriptions(default: no channels).",
                "SHARDCHANNELS [<pattern>]",
                "    Return the currently active shard level channels matching a <pattern> (default: '*').",
                "SHARDNUMSUB [<shardchannel> ...]",
                "    Return the number of subscribers for the specified shard level channel(s)",
            ],
        ),
        (b"channels" | b"shardchannels" | b"numpat" | b"help", _) => {
            return Err(Failure::subcommand_arity(args, "pubsub"));
        }
        _ => return Err(Failure::unknown_subcommand(args, "PUBSUB")),
    }
    Ok(Next::Go)
}

/// PING of a client whose replies may be messages is answered as if it were one.
pub(super) fn pong(out: &mut Reply<'_>, text: &[u8]) {
    out.array(2);
    out.bulk(b"pong");
    out.bulk(text);
}

impl Client {
    /// Whether it gets messages.
    pub(crate) fn listens(&self) -> bool {
        self.subscriptions.as_ref().is_some_and(|own| !own.is_empty())
    }

    /// Whether it is told of everything that is performed.
    pub(crate) fn monitors(&self) -> bool {
        self.subscriptions.as_ref().is_some_and(|own| own.count(Kind::Monitor) > 0)
    }

    /// Notes whether its commands are limited to those that it may send while it listens.
    pub(crate) fn restrict(&mut self) {
        self.restricted = self.monitors() || self.listens() && self.protocol == Protocol::Resp2;
    }
}
