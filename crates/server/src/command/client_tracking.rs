//! CLIENT TRACKING, and the subcommands that belong to it.

use super::{ClientCall, Failure, Next, Outcome, shown};
use crate::protocol::{Args, Reply, number};
use crate::tracking::{Collision, Modes};
use std::sync::Arc;

/// The options of CLIENT TRACKING.
struct Options {
    modes: Modes,
    /// The client that is to get the messages, or 0.
    redirect: u64,
    prefixes: Vec<Arc<[u8]>>,
}

fn say<T>(text: &'static str) -> Outcome<T> {
    Err(Failure::Say(text.into()))
}

impl Options {
    fn parse(call: &ClientCall<'_>, args: Args<'_>) -> Outcome<Self> {
        let mut options = Options { modes: Modes::default(), redirect: 0, prefixes: Vec::new() };
        let mut at = 0;
        while at < args.len() {
            let more = at + 1 < args.len();
            let mode = match () {
                () if args.is(at, "redirect") && more => {
                    at += 1;
                    options.redirect = redirect(call, args.at(at), options.redirect)?;
                    Modes::default()
                }
                () if args.is(at, "prefix") && more => {
                    at += 1;
                    options.prefixes.push(args.at(at).into());
                    Modes::default()
                }
                () if args.is(at, "bcast") => Modes::BROADCAST,
                () if args.is(at, "optin") => Modes::OPT_IN,
                () if args.is(at, "optout") => Modes::OPT_OUT,
                () if args.is(at, "noloop") => Modes::NO_LOOP,
                () => return Err(Failure::SYNTAX),
            };
            options.modes = options.modes.and(mode);
            at += 1;
        }
        Ok(options)
    }

    /// Checks that they go together, and with how the client tracks now.
    fn check(&self, now: Modes) -> Outcome {
        let has = |mode| self.modes.has(mode);
        let (in_now, out_now) = (now.has(Modes::OPT_IN), now.has(Modes::OPT_OUT));
        match () {
            () if !has(Modes::BROADCAST) && !self.prefixes.is_empty() => {
                say("ERR PREFIX option requires BCAST mode to be enabled")
            }
            () if now.has(Modes::ON) && now.has(Modes::BROADCAST) != has(Modes::BROADCAST) => say(
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                 re-enabling it with a different mode.",
            ),
            () if has(Modes::BROADCAST) && (has(Modes::OPT_IN) || has(Modes::OPT_OUT)) => {
                say("ERR OPTIN and OPTOUT are not compatible with BCAST")
            }
            () if has(Modes::OPT_IN) && has(Modes::OPT_OUT) => {
                say("ERR You can't specify both OPTIN mode and OPTOUT mode")
            }
            () if has(Modes::OPT_IN) && out_now || has(Modes::OPT_OUT) && in_now => say(
                "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
                 re-enabling it with a different mode.",
            ),
            () => Ok(()),
        }
    }
}

/// The number of the client that REDIRECT names.
fn redirect(call: &ClientCall<'_>, id: &[u8], known: u64) -> Outcome<u64> {
    if known != 0 {
        return say("ERR A client can only redirect to a single other client");
    }
    let id = number::parse_i64(id).ok_or(Failure::NOT_INTEGER)?;
    match u64::try_from(id).ok().filter(|id| call.server.clients().contains_key(id)) {
        Some(id) => Ok(id),
        None => say("ERR The client ID you want redirect to does not exist"),
    }
}

pub(super) fn tracking(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let options = Options::parse(call, call.args.from(3))?;
    match () {
        () if call.args.is(2, "on") => begin(call, options)?,
        () if call.args.is(2, "off") => call.client.stop_tracking(call.server),
        () => return Err(Failure::SYNTAX),
    }
    call.ok()
}

fn begin(call: &mut ClientCall<'_>, options: Options) -> Outcome {
    options.check(call.client.listing.tracking())?;
    let Options { modes, redirect, mut prefixes } = options;
    if modes.has(Modes::BROADCAST) {
        let own = call.client.prefixes.get_or_insert_default();
        own.check(&prefixes).map_err(|collision| {
            let name = |prefix: &[u8]| shown(prefix, usize::MAX);
            let (prefix, what, other) = match &collision {
                Collision::Earlier(at, other) => (*at, "an existing prefix", &**other),
                Collision::Given(at, other) => (*at, "another provided prefix", &*prefixes[*other]),
            };
            let (prefix, other) = (name(&prefixes[prefix]), name(other));
            Failure::say(format!(
                "ERR Prefix '{prefix}' overlaps with {what} '{other}'. Prefixes for a single client must not overlap."
            ))
        })?;
        if prefixes.is_empty() {
            prefixes.push(Arc::from(&b""[..]));
        }
        let most = call.server.options.max_request;
        if own.bytes_with(&prefixes) > most {
            return Err(Failure::say(format!(
                "ERR the prefixes that are tracked take more than {most} bytes, see --max-request"
            )));
        }
        prefixes.iter().for_each(|prefix| own.add(Arc::clone(prefix)));
    }
    call.client.tracks_keys = !modes.has(Modes::BROADCAST);
    call.server.tracking.begin(&call.client.listing, modes, redirect, &prefixes);
    Ok(())
}

pub(super) fn caching(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let modes = call.client.listing.tracking();
    if !modes.has(Modes::ON) {
        return say(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode \
             enabled",
        );
    }
    match () {
        () if call.args.is(2, "yes") && !modes.has(Modes::OPT_IN) => {
            say("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
        }
        () if call.args.is(2, "no") && !modes.has(Modes::OPT_OUT) => {
            say("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
        }
        () if call.args.is(2, "yes") || call.args.is(2, "no") => {
            call.client.caching = true;
            call.ok()
        }
        () => Err(Failure::SYNTAX),
    }
}

fn write_redirect(out: &mut Reply<'_>, redirect: Option<u64>) {
    out.integer(redirect.and_then(|id| i64::try_from(id).ok()).unwrap_or(-1));
}

pub(super) fn get_redirect(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let redirect = call.client.listing.tracking_redirect();
    write_redirect(&mut call.reply(), redirect);
    Ok(Next::Go)
}

pub(super) fn info(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let client = &*call.client;
    let (modes, redirect) = (client.listing.tracking(), client.listing.tracking_redirect());
    let (opt_in, opt_out) = (modes.has(Modes::OPT_IN), modes.has(Modes::OPT_OUT));
    let flags = [
        ("on", modes.has(Modes::ON)),
        ("off", !modes.has(Modes::ON)),
        ("bcast", modes.has(Modes::BROADCAST)),
        ("optin", opt_in),
        ("caching-yes", opt_in && client.caching),
        ("optout", opt_out),
        ("caching-no", opt_out && client.caching),
        ("noloop", modes.has(Modes::NO_LOOP)),
        ("broken_redirect", modes.has(Modes::BROKEN)),
    ];
    let flags: Vec<&str> = flags.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect();
    let mut out = Reply::new(call.out, client.protocol);
    out.map(3);
    out.bulk(b"flags");
    out.set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag.as_bytes()));
    out.bulk(b"redirect");
    write_redirect(&mut out, redirect);
    out.bulk(b"prefixes");
    let prefixes = client.prefixes.iter().flat_map(|own| own.iter());
    let count = client.prefixes.as_ref().map_or(0, |own| own.iter().len());
    out.array(count);
    prefixes.for_each(|prefix| out.bulk(prefix));
    Ok(Next::Go)
}
