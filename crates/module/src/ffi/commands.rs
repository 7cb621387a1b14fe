//! The module's commands.

use super::api::{self, HostCommand, Key, RawContext, RawText, Text, bytes, host};
use super::filter::{self, PREFIX, REFUSED, own};
use super::{events, guarded, is_home, reply, rights, shield, values, with};
use crate::resp::{Item, Items};
use crate::work::{Contents, Job};
use perdura_server::{Commands, DataCommand, Performed, Request, Waiting};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::time::Duration;

/// The command that a master sends to its replicas: when, a number for chance, and a command.
const APPLY: &str = "perdura.apply";
const WRONG_TYPE: &str = "WRONGTYPE the key has a value of another module, which is not in the pool: delete it with that \
                          module's commands";

/// Makes the commands; each is like the host's of that name. Returns false if the host does not take one.
pub(super) fn register(context: RawContext, known: &[HostCommand]) -> bool {
    own().all(|command| {
        let of_host = known.iter().find(|known| known.name == command.name());
        let mut flags = if command.writes() { "write" } else { "readonly" }.to_owned();
        if command.has_moving_keys() {
            flags += " getkeys-api";
        }
        for (flag, name) in
            [("denyoom", " deny-oom"), ("fast", " fast"), ("noscript", " deny-script")]
        {
            if of_host.is_some_and(|known| known.is(flag)) {
                flags += name;
            }
        }
        let name = format!("{PREFIX}{}", command.name());
        create(context, &name, &flags, command.keys())
    }) && create(context, APPLY, "write no-mandatory-keys", (0, 0, 0))
        && create(context, REFUSED, "write no-mandatory-keys", (0, 0, 0))
}

fn create(context: RawContext, name: &str, flags: &str, keys: (c_int, c_int, c_int)) -> bool {
    let (name, flags) = (api::c_text(name), api::c_text(flags));
    let (first, last, step) = keys;
    let (name, flags) = (name.as_ptr(), flags.as_ptr());
    host!(RedisModule_CreateCommand(context, name, Some(command), flags, first, last, step))
        == api::OK
}

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// A number that differs from command to command.
fn seed(now: u64) -> u64 {
    let count = COUNT.get().wrapping_add(1);
    COUNT.set(count);
    (now ^ count << 42).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(std::process::id()) << 20
}

/// A client's command, or a master's.
unsafe extern "C" fn command(context: RawContext, argv: *mut RawText, argc: c_int) -> c_int {
    guarded(|| {
        let args = api::arguments(argv, argc);
        let Some(name) = args.first().map(|name| bytes(*name)) else { return api::ERR };
        if !is_home() {
            reply::error(
                context,
                "ERR commands on data are performed on the server's own thread, not on another module's",
            );
            return api::OK;
        }
        if name.eq_ignore_ascii_case(APPLY.as_bytes()) {
            return apply(context, args);
        }
        if name.eq_ignore_ascii_case(REFUSED.as_bytes()) {
            let name = args.get(1).map_or(&[][..], |name| bytes(*name));
            reply::error(context, &refusal(name));
            return api::OK;
        }
        let now = filter::now();
        let mut request = request(args).at(now, seed(now));
        if host!(RedisModule_IsKeysPositionRequest(context)) != 0 {
            for place in request.key_places() {
                host!(RedisModule_KeyAtPos(context, place as c_int));
            }
            return api::OK;
        }
        let flags = api::flags(context);
        let never = api::MULTI | api::LUA | api::REPLICATED | api::NO_BLOCKING;
        request.db = api::selected_db(context);
        request.resp3 = flags & api::RESP3 != 0;
        request.may_wait = flags & never == 0;
        if flags & api::LUA != 0 && blocks(&request) {
            let name = String::from_utf8_lossy(bytes(args[0])).to_ascii_lowercase();
            let name = name.trim_start_matches(PREFIX);
            reply::error(
                context,
                &format!("ERR {name} command is not allowed with BLOCK option from scripts"),
            );
            return api::OK;
        }
        let plain = name.get(PREFIX.len()..).unwrap_or_default();
        if flags & (api::REPLICATED | api::LUA) == 0 && !rights::permit(context, plain, args) {
            let plain = String::from_utf8_lossy(plain).to_ascii_lowercase();
            let text = format!(
                "NOPERM this user has no permissions to run the '{plain}' command, or to access its keys"
            );
            reply::error(context, &text);
            return api::OK;
        }
        if flags & api::REPLICATED == 0 {
            let caller = (flags & api::LUA == 0).then(|| api::client(context));
            shield::raise(context, caller, request.writes());
        }
        let done = execute(context, args, request);
        match done.wish {
            Some(wish) => wait(context, wish),
            None => {
                reply::send(context, &done.reply);
                api::OK
            }
        }
    })
}

/// The request of these arguments, the first of which is the name of a command of the module.
fn request(args: &[RawText]) -> Request {
    let name = args.first().map_or(&[][..], |name| bytes(*name));
    let name = name.get(PREFIX.len()..).unwrap_or_default();
    Request::new(std::iter::once(name).chain(args[1..].iter().map(|arg| bytes(*arg))))
        .with_known_version()
}

/// A command of a master's.
fn apply(context: RawContext, args: &[RawText]) -> c_int {
    if api::flags(context) & api::REPLICATED == 0 {
        reply::error(context, "ERR perdura.apply is what masters send to their replicas");
        return api::OK;
    }
    let stamp = args.get(1).map(|stamp| String::from_utf8_lossy(bytes(*stamp)));
    let stamp = stamp.as_deref().and_then(|stamp| {
        let (now, seed) = stamp.split_once(':')?;
        Some((now.parse().ok()?, seed.parse().ok()?))
    });
    let (Some((now, seed)), Some(args)) = (stamp, args.get(2..).filter(|args| !args.is_empty()))
    else {
        reply::error(context, "ERR perdura.apply takes a time, a number and a command");
        return api::OK;
    };
    if DataCommand::number(bytes(args[0]).get(PREFIX.len()..).unwrap_or_default()).is_none() {
        reply::error(
            context,
            "ERR this node's module does not know the command: use the master's version",
        );
        return api::OK;
    }
    let db = api::selected_db(context);
    let done = execute(context, args, request(args).at(now, seed).in_database(db));
    if done.reply.first() == Some(&b'-') {
        super::die(&format!(
            "the master has done what cannot be done here, so that this replica would differ from it from now on: {}: {}. \
             Give it a pool as large as the master's, and it takes a new copy",
            String::from_utf8_lossy(bytes(args[0])),
            String::from_utf8_lossy(&done.reply).trim()
        ));
    }
    reply::send(context, &done.reply);
    api::OK
}

fn refusal(name: &[u8]) -> String {
    match name.to_ascii_lowercase().as_slice() {
        b"debug" => "ERR DEBUG RELOAD, LOADAOF and POPULATE are not there with the module: the keys are in its pool",
        b"function" => "ERR with this server, FUNCTION does not follow a blocking command or WAIT in one packet: send it again",
        b"restore-asking" => "ERR the pool has no room for the value, or does not know its form",
        b"config" => {
            "ERR with the module, 'appendonly' stays 'no' and 'save' empty: the pool is the durable copy, and an old \
             file would be loaded beside it"
        }
        name => {
            let name = String::from_utf8_lossy(name).to_ascii_uppercase();
            return format!("ERR {name} is not there with the module: its pool cannot keep such values");
        }
    }
    .to_owned()
}

/// Whether a command that reads streams is to wait for entries.
fn blocks(request: &Request) -> bool {
    let mut args = request.args().map(<[u8]>::to_ascii_lowercase);
    let reads = args.next().is_some_and(|name| name.starts_with(b"xread"));
    reads && args.take_while(|arg| arg != b"streams").any(|arg| arg == b"block")
}

/// A key in another database that a command writes: the database, and the key's place.
fn elsewhere(request: &Request) -> Option<(u8, usize)> {
    let args: Vec<&[u8]> = request.args().collect();
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok();
    let (db, place) = match args[0] {
        name if name.eq_ignore_ascii_case(b"move") => (number(args.get(2)?)?, 1),
        name if name.eq_ignore_ascii_case(b"copy") => {
            let options = args.windows(2).skip(3);
            let mut targets = options.filter(|pair| pair[0].eq_ignore_ascii_case(b"db"));
            (number(targets.next_back()?[1])?, 2)
        }
        _ => return None,
    };
    (db != request.db && db < Commands::DATABASES).then_some((db, place))
}

/// Performs a command, and tells the host of the keys that it has changed. `args` are the request's, as the host has
/// them.
fn execute(context: RawContext, args: &[RawText], request: Request) -> Performed {
    let name = request.args().next().unwrap_or_default();
    let grouped = api::is_grouped();
    if !request.writes() {
        if api::flags(context) & api::EVICTS != 0 {
            request.key_places().iter().for_each(|place| Key::note_read(context, args[*place]));
        }
        return with(|node| node.run(Job::Command(request), grouped));
    }
    let is_spop = name.eq_ignore_ascii_case(b"spop");
    let is_sort = name.eq_ignore_ascii_case(b"sort");
    let is_trimming = is_about(&request);
    // Opened first: if one has expired, the host deletes it now, and not what is about to be written.
    let elsewhere = elsewhere(&request);
    let mut places = request.key_places();
    // COPY's second key is not one of this database.
    places.retain(|place| elsewhere.is_none_or(|(_, other)| *place != other || *place == 1));
    let other_key = elsewhere.map(|(db, place)| {
        (db, place, api::in_db(context, db, || Key::open(context, args[place])))
    });
    let mut keys: Vec<Option<Key>> = Vec::with_capacity(places.len());
    for (index, place) in places.iter().enumerate() {
        let is_again =
            places[..index].iter().any(|other| bytes(args[*other]) == bytes(args[*place]));
        keys.push((!is_again).then(|| Key::open(context, args[*place])));
    }
    let all = keys.iter().flatten().chain(other_key.iter().map(|(_, _, key)| key));
    if !all.into_iter().all(values::is_ours) {
        return Performed {
            reply: format!("-{WRONG_TYPE}\r\n").into_bytes(),
            ..Performed::default()
        };
    }
    let stamp = format!("{}:{}", request.now, request.seed);
    let tells = events::are_wanted();
    let done = with(|node| {
        node.tell_events(tells);
        node.run(Job::Command(request), grouped)
    });
    if done.changed {
        for ((place, key), state) in places.iter().zip(&keys).zip(&done.keys) {
            let Some(key) = key else { continue };
            values::adjust(key, *state);
            if state.is_written {
                host!(RedisModule_SignalModifiedKey(context, args[*place]));
            }
            if state.is_there {
                host!(RedisModule_SignalKeyAsReady(context, args[*place]));
            }
        }
        drop(keys);
        if let Some((db, place, key)) = other_key {
            let look = Job::Look { db, key: bytes(args[place]).to_vec() };
            let state = with(|node| node.run(look, grouped)).keys[0];
            api::in_db(context, db, || {
                values::adjust(&key, state);
                host!(RedisModule_SignalModifiedKey(context, args[place]));
                host!(RedisModule_SignalKeyAsReady(context, args[place]));
                drop(key);
            });
        }
        match () {
            () if is_spop => replicate_spop(context, args, &stamp, &done),
            () if is_sort => replicate_sorted(context, args, &stamp, grouped),
            () if is_trimming => replicate_trim(context, args, &stamp, grouped),
            () => replicate(context, args, &stamp),
        }
        events::tell(context, &done.events);
    }
    done
}

/// Has the replicas do the same, at the same time.
fn replicate(context: RawContext, args: &[RawText], stamp: &str) {
    if api::flags(context) & api::REPLICATED != 0 {
        return;
    }
    let name = api::c_text(APPLY);
    host!(RedisModule_Replicate(
        context,
        name.as_ptr(),
        c"bv".as_ptr(),
        stamp.as_ptr(),
        stamp.len(),
        args.as_ptr(),
        args.len()
    ));
}

/// Has the replicas delete keys that were refused after the host had told of them.
pub(super) fn tell_refused(context: RawContext) {
    for (db, key) in values::take_refused() {
        let (name, key) = (Text::new(format!("{PREFIX}del").as_bytes()), Text::new(&key));
        let stamp = format!("{}:0", api::now());
        api::in_db(context, db, || replicate(context, &[name.0, key.0], &stamp));
    }
}

/// A replica would choose other members: it removes those that were chosen here.
fn replicate_spop(context: RawContext, args: &[RawText], stamp: &str, done: &Performed) {
    let members: Vec<Text> = Items::new(&done.reply)
        .filter_map(|item| match item {
            Item::Bulk(member) => Some(Text::new(member)),
            _ => None,
        })
        .collect();
    let command = Text::new(format!("{PREFIX}srem").as_bytes());
    let mut all = vec![command.0, args[1]];
    all.extend(members.iter().map(|member| member.0));
    replicate(context, &all, stamp);
}

/// Elements of the same weight have no order that all nodes agree on: a replica gets the list that there is here.
fn replicate_sorted(context: RawContext, args: &[RawText], stamp: &str, grouped: bool) {
    let (mut target, mut at) = (None, 2);
    while at < args.len() {
        match bytes(args[at]).to_ascii_lowercase().as_slice() {
            b"store" => (target, at) = (args.get(at + 1), at + 2),
            b"limit" => at += 3,
            b"by" | b"get" => at += 2,
            _ => at += 1,
        }
    }
    let Some(target) = target else { return };
    let (db, key) = (api::selected_db(context), bytes(*target).to_vec());
    let done = with(|node| node.run(Job::Read { db, key }, grouped));
    let payload = Text::new(&Contents::of(&done).payload);
    let name = if bytes(payload.0).is_empty() { "del" } else { "restore" };
    let name = Text::new(format!("{PREFIX}{name}").as_bytes());
    let (zero, replace) = (Text::new(b"0"), Text::new(b"REPLACE"));
    match bytes(payload.0).is_empty() {
        true => replicate(context, &[name.0, *target], stamp),
        false => replicate(context, &[name.0, *target, zero.0, payload.0, replace.0], stamp),
    }
}

/// Whether a stream is trimmed to about a length, which is that of whole blocks.
fn is_about(request: &Request) -> bool {
    let name = request.args().next().unwrap_or_default();
    let trims = name.eq_ignore_ascii_case(b"xadd") || name.eq_ignore_ascii_case(b"xtrim");
    trims && request.args().skip(3).any(|arg| arg == b"~")
}

/// A replica may have other blocks: it trims to the length that there is here.
fn replicate_trim(context: RawContext, args: &[RawText], stamp: &str, grouped: bool) {
    let request = Request::new([b"xlen".as_slice(), bytes(args[1])]);
    let request = request.in_database(api::selected_db(context));
    let reply = with(|node| node.run(Job::Command(request), grouped)).reply;
    let Some(Item::Integer(len)) = Items::new(&reply).next() else { return };
    let (maxlen, exactly) = (Text::new(b"MAXLEN"), Text::new(b"="));
    let len = Text::new(len.to_string().as_bytes());
    let is = |at: usize, word: &str| {
        args.get(at).is_some_and(|arg| bytes(*arg).eq_ignore_ascii_case(word.as_bytes()))
    };
    let mut all: Vec<RawText> = args[..2].to_vec();
    let mut at = 2;
    // Options come before the new entry.
    while at < args.len() {
        if (is(at, "maxlen") || is(at, "minid")) && is(at + 1, "~") {
            all.extend([maxlen.0, exactly.0, len.0]);
            at += 3;
            if is(at, "limit") {
                at += 2;
            }
            break;
        }
        all.push(args[at]);
        at += 1;
    }
    all.extend_from_slice(args.get(at..).unwrap_or_default());
    replicate(context, &all, stamp);
}

/// Has the client wait until one of the keys is filled.
fn wait(context: RawContext, wish: Waiting) -> c_int {
    let keys: Vec<Text> = wish.keys.iter().map(|key| Text::new(key)).collect();
    let mut names: Vec<RawText> = keys.iter().map(|key| key.0).collect();
    // No time is for ever.
    let least = Duration::from_millis(1);
    let millis = wish.timeout.map_or(0, |timeout| timeout.max(least).as_millis());
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    let kept = Box::into_raw(Box::new(wish)).cast();
    let count = names.len() as c_int;
    host!(RedisModule_BlockClientOnKeys(
        context,
        Some(filled),
        Some(timed_out),
        Some(forget),
        millis,
        names.as_mut_ptr(),
        count,
        kept
    ));
    api::OK
}

/// Whether one of the keys that a client waits for holds what it waits for, or the client is a consumer of streams.
fn holds_awaited(context: RawContext, wish: &Waiting) -> bool {
    let kind: &[u8] = match wish.args[0].to_ascii_lowercase().as_slice() {
        name if name.starts_with(b"bz") => b"+zset\r\n",
        b"xread" => b"+stream\r\n",
        b"xreadgroup" => return true,
        _ => b"+list\r\n",
    };
    let (db, now) = (api::selected_db(context), api::now());
    wish.keys.iter().any(|key| {
        let request = Request::new([b"type".as_slice(), key]).at(now, 0).in_database(db);
        with(|node| node.run(Job::Command(request), api::is_grouped())).reply == kind
    })
}

/// Performs a waiting client's command again.
fn again(context: RawContext, may_wait: bool) -> c_int {
    let kept = host!(RedisModule_GetBlockedClientPrivateData(context)).cast::<Waiting>();
    // SAFETY: it was made by `wait`, and is freed by `forget`.
    let Some(wish) = (unsafe { kept.as_ref() }) else { return api::ERR };
    let mut args = wish.args.clone();
    args[0].splice(0..0, PREFIX.bytes());
    let texts: Vec<Text> = args.iter().map(|arg| Text::new(arg)).collect();
    let args: Vec<RawText> = texts.iter().map(|text| text.0).collect();
    let (now, db) = (api::now(), api::selected_db(context));
    let resp3 = api::flags(context) & api::RESP3 != 0;
    let mut request = request(&args).at(now, seed(now)).in_database(db);
    (request.resp3, request.may_wait) = (resp3, may_wait);
    shield::raise(context, Some(api::client(context)), request.writes());
    let done = execute(context, &args, request);
    // A key that holds something else now fills none that it waits for; a consumer of a stream is told.
    let is_other =
        may_wait && done.reply.starts_with(b"-WRONGTYPE") && !holds_awaited(context, wish);
    if done.wish.is_some() || is_other {
        return api::ERR;
    }
    reply::send(context, &done.reply);
    api::OK
}

unsafe extern "C" fn filled(context: RawContext, _argv: *mut RawText, _argc: c_int) -> c_int {
    guarded(|| again(context, true))
}

unsafe extern "C" fn timed_out(context: RawContext, _argv: *mut RawText, _argc: c_int) -> c_int {
    guarded(|| again(context, false))
}

unsafe extern "C" fn forget(_context: RawContext, kept: *mut c_void) {
    if !kept.is_null() {
        // SAFETY: see `again`; the host has given it up.
        drop(unsafe { Box::from_raw(kept.cast::<Waiting>()) });
    }
}
