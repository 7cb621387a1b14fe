//! CONFIG: the server's options under Redis's names.
//!
//! The number of clients, the policy of eviction, the classes of events and the [`NUMBERS`] can be changed while the server runs. Of these, where Redis's
//! small hashes, sets and lists end is stored and answered, and changes nothing: tools and tests set it.

use super::{Classes, ClientCall, Command, Failure, Next, Outcome, Run, shown};
use crate::descriptors;
use crate::eviction::EvictionPolicy;
use crate::keyspace::followed::HOST_MAX;
use crate::options::Options;
use crate::percentiles::{self, Percentiles};
use crate::protocol::{Args, glob, number};
use crate::pubsub::{UNSENT_MAX, UNSENT_SECONDS, UNSENT_SOFT};
use crate::rdb;
use crate::server::Server;
use crate::stats::Stats;
use crate::tls::{ClientCertificates, Tls, TlsFiles};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tracing::warn;

pub(super) const TABLE: &[Command] =
    &[Command::new("config", -2, (0, 0, 0), Run::Client(config), "The server's options.")];

/// An option that is a number, and can be set while the server runs.
struct NumberOption {
    name: &'static str,
    /// Its name before Redis 7.
    old_name: &'static str,
    least: i64,
    most: i64,
    default: i64,
    /// It is a number of bytes: `1kb` will do.
    bytes: bool,
}

static NUMBERS: [NumberOption; 20] = [
    NumberOption::new("hash-max-listpack-entries", "hash-max-ziplist-entries", 512, false),
    NumberOption::new("hash-max-listpack-value", "hash-max-ziplist-value", 64, true),
    NumberOption::new("zset-max-listpack-entries", "zset-max-ziplist-entries", 128, false),
    NumberOption::new("zset-max-listpack-value", "zset-max-ziplist-value", 64, true),
    NumberOption {
        name: "list-max-listpack-size",
        old_name: "list-max-ziplist-size",
        least: i32::MIN as i64,
        most: i32::MAX as i64,
        default: -2,
        bytes: false,
    },
    NumberOption {
        name: "slowlog-log-slower-than",
        old_name: "slowlog-log-slower-than",
        least: -1,
        most: i64::MAX,
        default: crate::options::SLOWER_THAN,
        bytes: false,
    },
    NumberOption {
        name: "slowlog-max-len",
        old_name: "slowlog-max-len",
        least: 0,
        most: i64::MAX,
        default: crate::options::SLOW_LOG_LEN as i64,
        bytes: false,
    },
    NumberOption::seconds("timeout", 0),
    NumberOption::seconds("tcp-keepalive", crate::options::KEEPALIVE as i64),
    NumberOption::new("set-max-intset-entries", "set-max-intset-entries", 512, false),
    NumberOption::new("list-compress-depth", "list-compress-depth", 0, false),
    NumberOption::new("busy-reply-threshold", "lua-time-limit", SCRIPT_MILLIS, false),
    NumberOption {
        name: "maxmemory-samples",
        old_name: "maxmemory-samples",
        least: 1,
        most: 64,
        default: 5,
        bytes: false,
    },
    NumberOption::new("hll-sparse-max-bytes", "hll-sparse-max-bytes", 3000, true),
    NumberOption::new("stream-node-max-entries", "stream-node-max-entries", 100, false),
    NumberOption::new("stream-node-max-bytes", "stream-node-max-bytes", 4096, true),
    // Not one of Redis's: the version of snapshots that DUMP's readers know.
    NumberOption {
        name: "dump-version",
        old_name: "dump-version",
        least: rdb::VERSION as i64,
        most: rdb::VERSION_MAX as i64,
        default: rdb::VERSION_MAX as i64,
        bytes: false,
    },
    NumberOption::new("acllog-max-len", "acllog-max-len", 128, false),
    NumberOption::new("tracking-table-max-keys", "tracking-table-max-keys", 1_000_000, false),
    NumberOption::new("latency-monitor-threshold", "latency-monitor-threshold", 0, false),
];

/// Places in [`NUMBERS`].
const SLOWER_THAN: usize = 5;
const SLOW_LOG_LEN: usize = 6;
const TIMEOUT: usize = 7;
const KEEPALIVE: usize = 8;
const SCRIPT_TIME: usize = 11;
const SAMPLES: usize = 12;
const SPARSE_MAX: usize = 13;
const STREAM_CHUNK: usize = 14;
const DUMP_VERSION: usize = 16;
const ACL_LOG_LEN: usize = 17;
const TRACKED_KEYS: usize = 18;
const LATENCY: usize = 19;

/// Milliseconds that a script may run, unless that is set.
const SCRIPT_MILLIS: i64 = 5000;

/// The values of the [`NUMBERS`].
pub(crate) struct Tuning {
    numbers: [AtomicI64; NUMBERS.len()],
    /// Microseconds after which a command is for the slow log or for the latency monitor.
    notable: AtomicI64,
}

impl Tuning {
    /// The defaults, overridden by `options`.
    pub(crate) fn new(options: &Options) -> Self {
        let numbers = std::array::from_fn(|index| AtomicI64::new(NUMBERS[index].default));
        let tuning = Tuning { numbers, notable: AtomicI64::new(i64::MAX) };
        tuning.numbers[SLOWER_THAN].store(options.slower_than, Ordering::Relaxed);
        let most = i64::try_from(options.slow_log_len).unwrap_or(i64::MAX);
        tuning.numbers[SLOW_LOG_LEN].store(most, Ordering::Relaxed);
        for (index, seconds) in [(TIMEOUT, options.timeout), (KEEPALIVE, options.tcp_keepalive)] {
            tuning.set_number(index, i64::from(seconds.min(i32::MAX as u32)));
        }
        tuning
    }

    fn set_number(&self, index: usize, value: i64) {
        self.numbers[index].store(value, Ordering::Relaxed);
        let micros = |time: Option<Duration>| {
            time.map_or(i64::MAX, |time| i64::try_from(time.as_micros()).unwrap_or(i64::MAX))
        };
        let notable = micros(self.slower_than()).min(micros(self.latency_threshold()));
        self.notable.store(notable, Ordering::Relaxed);
    }

    /// Sets the option of this name, as CONFIG SET does. Returns whether there is one, and it may have this value.
    pub(crate) fn set(&self, name: &str, value: &[u8]) -> bool {
        let Some(index) = NUMBERS.iter().position(|option| option.is(name)) else { return false };
        let Ok(value) = NUMBERS[index].parse(value) else { return false };
        self.set_number(index, value);
        true
    }

    /// After how long a command is for the slow log, if any is.
    pub(crate) fn slower_than(&self) -> Option<Duration> {
        let micros = self.numbers[SLOWER_THAN].load(Ordering::Relaxed);
        u64::try_from(micros).ok().map(Duration::from_micros)
    }

    /// After how long something is for the latency monitor, if anything is.
    pub(crate) fn latency_threshold(&self) -> Option<Duration> {
        let millis = u64::try_from(self.numbers[LATENCY].load(Ordering::Relaxed)).unwrap_or(0);
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    /// Whether a command that took this long is for the slow log, or for the latency monitor.
    #[inline]
    pub(crate) fn is_notable(&self, took: Duration) -> bool {
        let micros = self.notable.load(Ordering::Relaxed);
        micros != i64::MAX && took >= Duration::from_micros(micros as u64)
    }

    /// Whether commands that take some microseconds together may be timed together: none of them is for the slow log.
    pub(crate) fn allows_shared_times(&self) -> bool {
        !self.is_notable(Duration::from_millis(1))
    }

    /// Keys that are drawn for each one that is evicted.
    pub(crate) fn samples(&self) -> usize {
        self.numbers[SAMPLES].load(Ordering::Relaxed).clamp(1, 64) as usize
    }

    /// How long a client may send and read nothing, if that has an end.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.seconds(TIMEOUT)
    }

    /// How long a connection is idle before its peer is asked whether it is there, if it is asked.
    pub(crate) fn keepalive(&self) -> Option<Duration> {
        self.seconds(KEEPALIVE)
    }

    /// Bytes of the longest HyperLogLog that is sparse.
    pub(crate) fn sparse_max(&self) -> usize {
        usize::try_from(self.numbers[SPARSE_MAX].load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// Entries of a stream in one chunk.
    pub(crate) fn stream_chunk(&self) -> u64 {
        match self.numbers[STREAM_CHUNK].load(Ordering::Relaxed) {
            most @ 1.. => most as u64,
            _ => u64::MAX,
        }
    }

    /// Sets that.
    #[cfg(test)]
    pub(crate) fn set_dump_version(&self, version: u16) {
        self.numbers[DUMP_VERSION].store(version.into(), Ordering::Relaxed);
    }

    /// The version of Redis's snapshots in which DUMP answers: what its readers know.
    pub(crate) fn dump_version(&self) -> u16 {
        u16::try_from(self.numbers[DUMP_VERSION].load(Ordering::Relaxed))
            .unwrap_or(rdb::VERSION_MAX)
    }

    /// How long a script may keep others waiting before they are told, if they are.
    pub(crate) fn script_time(&self) -> Option<Duration> {
        let millis = u64::try_from(self.numbers[SCRIPT_TIME].load(Ordering::Relaxed)).unwrap_or(0);
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    /// Entries that ACL LOG keeps.
    pub(crate) fn acl_log_len(&self) -> usize {
        usize::try_from(self.numbers[ACL_LOG_LEN].load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// Keys that are remembered for clients that track them; 0 is any number.
    pub(crate) fn tracked_keys_max(&self) -> usize {
        usize::try_from(self.numbers[TRACKED_KEYS].load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    fn seconds(&self, index: usize) -> Option<Duration> {
        let seconds = u64::try_from(self.numbers[index].load(Ordering::Relaxed)).unwrap_or(0);
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    /// Commands that the slow log keeps.
    pub(crate) fn slow_log_len(&self) -> usize {
        usize::try_from(self.numbers[SLOW_LOG_LEN].load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }
}

impl NumberOption {
    const fn new(name: &'static str, old_name: &'static str, default: i64, bytes: bool) -> Self {
        NumberOption { name, old_name, least: 0, most: i64::MAX, default, bytes }
    }

    const fn seconds(name: &'static str, default: i64) -> Self {
        let most = i32::MAX as i64;
        NumberOption { name, old_name: name, least: 0, most, default, bytes: false }
    }

    fn is(&self, name: &str) -> bool {
        [self.name, self.old_name].contains(&name)
    }

    fn parse(&self, text: &[u8]) -> Result<i64, String> {
        let value = if self.bytes {
            bytes(text).ok_or("argument must be a memory value")?
        } else {
            number::parse_i64(text).ok_or("argument couldn't be parsed into an integer")?
        };
        let NumberOption { least, most, .. } = *self;
        if (least..=most).contains(&value) {
            Ok(value)
        } else {
            Err(format!("argument must be between {least} and {most} inclusive"))
        }
    }
}

/// A number of bytes, perhaps with a unit; no digits are zero, as in Redis.
fn bytes(text: &[u8]) -> Option<i64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    let number =
        if digits.is_empty() { 0 } else { std::str::from_utf8(digits).ok()?.parse().ok()? };
    i64::checked_mul(number, factor)
}

/// The options that CONFIG GET shows, under Redis's names.
fn options(server: &Server) -> Vec<(&'static str, String)> {
    let facts = server.facts();
    let (following, credentials) = (server.following.facts(), server.following.credentials());
    let announced = server.following.announcement();
    let followed =
        following.master().map_or(String::new(), |(host, port)| format!("{host} {port}"));
    let mut options = vec![
        ("aof-use-rdb-preamble", "no".to_owned()),
        ("appendfsync", "always".to_owned()),
        ("appendonly", if facts.keeps_log() { "yes" } else { "no" }.to_owned()),
        ("bind", bound(server)),
        ("databases", crate::keyspace::DATABASES.to_string()),
        ("io-threads", server.stats.len().to_string()),
        ("client-output-buffer-limit", output_limit()),
        ("maxclients", server.max_clients().to_string()),
        ("maxmemory", facts.limit.to_string()),
        ("maxmemory-policy", server.eviction.policy().to_string()),
        ("notify-keyspace-events", server.events.shown()),
        ("port", server.address.port().to_string()),
        ("repl-backlog-size", server.options.backlog.to_string()),
        ("replicaof", followed.clone()),
        ("slaveof", followed),
        ("masteruser", credentials.user),
        ("masterauth", credentials.password),
        (READ_ONLY[0], yes_no(server.following.is_read_only()).to_owned()),
        (READ_ONLY[1], yes_no(server.following.is_read_only()).to_owned()),
        (PRIORITY[0], server.following.priority().to_string()),
        (PRIORITY[1], server.following.priority().to_string()),
        (ANNOUNCED, yes_no(server.following.is_announced()).to_owned()),
        (ANNOUNCED_IP[0], announced.address.clone()),
        (ANNOUNCED_IP[1], announced.address),
        (ANNOUNCED_PORT[0], announced.port.to_string()),
        (ANNOUNCED_PORT[1], announced.port.to_string()),
        (BY_TLS, yes_no(server.following.speaks_tls()).to_owned()),
        (TRACKS_TIMES, yes_no(tracks_times(server)).to_owned()),
        (
            PERCENTILES,
            server
                .percentiles
                .get()
                .into_iter()
                .map(percentiles::shown)
                .collect::<Vec<_>>()
                .join(" "),
        ),
        (MOVES_BY_TLS, yes_no(server.migration.speaks_tls()).to_owned()),
        ("replica-serve-stale-data", "yes".to_owned()),
        ("proto-max-bulk-len", (512u64 << 20).to_string()),
        ("save", String::new()),
        ("requirepass", server.acl.password()),
        ("aclfile", server.acl.file().map(|path| path.display().to_string()).unwrap_or_default()),
        (PROTECTED, yes_no(server.is_protected()).to_owned()),
        ("unixsocket", server.doors.unix.join(" ")),
        ("tls-port", server.doors.tls.first().map_or(0, SocketAddr::port).to_string()),
        (CHANNELS, open_channels(server.acl.opens_channels()).to_owned()),
    ];
    options.extend(tls_options(&server.tls.as_ref().map(Tls::files).unwrap_or_default()));
    for (option, value) in NUMBERS.iter().zip(&server.tuning.numbers) {
        let value = value.load(Ordering::Relaxed).to_string();
        if option.old_name != option.name {
            options.push((option.old_name, value.clone()));
        }
        options.push((option.name, value));
    }
    options
}

/// Whether clients of other machines are refused while nobody needs a password.
const PROTECTED: &str = "protected-mode";
/// Whether clients may not write while a master is followed, by both of its names.
const READ_ONLY: [&str; 2] = ["replica-read-only", "slave-read-only"];
/// Sentinel's preference for this replica, and whether it is to know of it.
const PRIORITY: [&str; 2] = ["replica-priority", "slave-priority"];
const ANNOUNCED: &str = "replica-announced";
/// Where a master, and Sentinel, can reach this server.
const ANNOUNCED_IP: [&str; 2] = ["replica-announce-ip", "slave-announce-ip"];
const ANNOUNCED_PORT: [&str; 2] = ["replica-announce-port", "slave-announce-port"];
/// Whether masters are spoken to by TLS.
const BY_TLS: &str = "tls-replication";
/// Whether LATENCY HISTOGRAM and INFO know how long commands took, and which percentiles of it INFO shows.
const TRACKS_TIMES: &str = "latency-tracking";
const PERCENTILES: &str = "latency-tracking-info-percentiles";

fn tracks_times(server: &Server) -> bool {
    server.stats.iter().all(Stats::tracks_times)
}

/// Whether MIGRATE speaks TLS.
const MOVES_BY_TLS: &str = "tls-cluster";

fn yes_no(on: bool) -> &'static str {
    if on { "yes" } else { "no" }
}

/// The addresses in the network that it listens at, each once.
fn bound(server: &Server) -> String {
    let doors = &server.doors;
    let mut all: Vec<String> = Vec::new();
    for address in std::iter::once(&server.address).chain(&doors.plain).chain(&doors.tls) {
        let ip = address.ip().to_string();
        if !all.contains(&ip) {
            all.push(ip);
        }
    }
    all.join(" ")
}

/// The options of TLS that can be set.
fn tls_options(files: &TlsFiles) -> [(&'static str, String); 4] {
    let shown = |path: &Path| path.display().to_string();
    [
        ("tls-cert-file", shown(&files.cert_file)),
        ("tls-key-file", shown(&files.key_file)),
        ("tls-ca-cert-file", files.ca_file.as_deref().map(shown).unwrap_or_default()),
        ("tls-auth-clients", files.clients.name().to_owned()),
    ]
}

/// Sets an option of TLS.
fn set_tls(files: &mut TlsFiles, name: &str, value: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(value).map_err(|_| "argument must be text in UTF-8")?;
    match name {
        "tls-cert-file" => files.cert_file = text.into(),
        "tls-key-file" => files.key_file = text.into(),
        "tls-ca-cert-file" => files.ca_file = Some(text).filter(|t| !t.is_empty()).map(Into::into),
        _ => {
            let names = ClientCertificates::NAMES.join(", ");
            let wrong = |_| format!("argument(s) must be one of the following: {names}");
            files.clients = text.parse().map_err(wrong)?;
        }
    }
    Ok(())
}

/// Whether new users may use all channels.
const CHANNELS: &str = "acl-pubsub-default";

fn open_channels(opens: bool) -> &'static str {
    if opens { "allchannels" } else { "resetchannels" }
}

/// The limits of unsent bytes, of which those of clients that listen are this server's.
fn output_limit() -> String {
    format!("normal 0 0 0 slave 0 0 0 pubsub {UNSENT_MAX} {UNSENT_SOFT} {UNSENT_SECONDS}")
}

fn config(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let args = call.args;
    match (args.at(1).to_ascii_lowercase().as_slice(), args.len()) {
        (b"get", 3..) => {
            let asked = |name: &str| {
                let name = name.as_bytes();
                args.from(2).iter().any(|p| glob::matches(&p.to_ascii_lowercase(), name))
            };
            let mut found = options(call.server);
            found.retain(|(name, _)| asked(name));
            let mut out = call.reply();
            out.map(found.len());
            for (name, value) in found {
                out.bulk(name.as_bytes());
                out.bulk(value.as_bytes());
            }
            Ok(Next::Go)
        }
        (b"resetstat", 2) => {
            call.server.stats.iter().for_each(Stats::restart);
            call.server.acl.reset_counts();
            call.ok()
        }
        (b"set", 4..) => {
            set_options(call.server, args.from(2))?;
            call.client.renew();
            call.ok()
        }
        (b"rewrite", 2) => {
            // Who is followed is in the pool.
            Err(Failure::Say("ERR The server is running without a config file".into()))
        }
        (b"get" | b"set" | b"resetstat" | b"rewrite", _) => {
            Err(Failure::subcommand_arity(args, "config"))
        }
        _ => Err(Failure::unknown_subcommand(args, "CONFIG")),
    }
}

/// Sets options: all that are given, or none. Only the number of clients and the [`NUMBERS`] can be
/// changed while the server runs; of all others the value that they have is accepted.
fn set_options(server: &Server, pairs: Args<'_>) -> Outcome {
    if !pairs.len().is_multiple_of(2) {
        return Err(Failure::SYNTAX);
    }
    let known = options(server);
    let given = names(&known, pairs)?;
    let (mut clients, mut events, mut numbers) = (None, None, Vec::new());
    let mut policy = None;
    let (mut password, mut opens) = (None, None);
    let (mut protected, mut tls, mut tls_name) = (None, None, "");
    let (mut read_only, mut announced, mut priority) = (None, None, None);
    let (mut by_tls, mut moves_by_tls) = (None, None);
    let (mut times, mut percentiles) = (None, None);
    let (mut announced_ip, mut announced_port) = (None, None);
    let (mut master_user, mut master_password) = (None, None);
    for (at, (name, current)) in given.into_iter().enumerate() {
        let value = 2 * at + 1;
        if name == "maxclients" {
            clients = Some(client_count(pairs.at(value)).map_err(|why| refused(name, &why))?);
        } else if name == "notify-keyspace-events" {
            let why = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
            events = Some(Classes::parse(pairs.at(value)).ok_or_else(|| refused(name, why))?);
        } else if name == "maxmemory-policy" {
            policy = Some(policy_of(pairs.at(value)).map_err(|why| refused(name, &why))?);
        } else if name == "requirepass" {
            let why = "argument must be text in UTF-8";
            let text = std::str::from_utf8(pairs.at(value)).map_err(|_| refused(name, why))?;
            password = Some(text);
        } else if name == PROTECTED
            || READ_ONLY.contains(&name)
            || name == ANNOUNCED
            || [BY_TLS, MOVES_BY_TLS, TRACKS_TIMES].contains(&name)
        {
            let why = "argument must be 'yes' or 'no'";
            let is = |on: &bool| pairs.is(value, yes_no(*on));
            let on = Some([true, false].into_iter().find(is).ok_or_else(|| refused(name, why))?);
            match name {
                PROTECTED => protected = on,
                ANNOUNCED => announced = on,
                BY_TLS | MOVES_BY_TLS => {
                    if on == Some(true) {
                        server.client_config().map_err(|why| refused(name, &why))?;
                    }
                    *(if name == BY_TLS { &mut by_tls } else { &mut moves_by_tls }) = on;
                }
                TRACKS_TIMES => times = on,
                _ => read_only = on,
            }
        } else if name == "masterauth" || name == "masteruser" {
            let why = "argument must be text in UTF-8";
            let text = std::str::from_utf8(pairs.at(value)).map_err(|_| refused(name, why))?;
            *(if name == "masterauth" { &mut master_password } else { &mut master_user }) =
                Some(text);
        } else if ANNOUNCED_IP.contains(&name) {
            let why = "argument must be an address or a name";
            let text = std::str::from_utf8(pairs.at(value)).ok();
            let is_plain = |text: &&str| {
                text.len() <= HOST_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
            };
            announced_ip = Some(text.filter(is_plain).ok_or_else(|| refused(name, why))?);
        } else if ANNOUNCED_PORT.contains(&name) {
            let why = "argument must be between 0 and 65535 inclusive";
            let port = number::parse_i64(pairs.at(value)).and_then(|port| u16::try_from(port).ok());
            announced_port = Some(port.ok_or_else(|| refused(name, why))?);
        } else if name == PERCENTILES {
            let parsed = Percentiles::parse(pairs.at(value));
            percentiles = Some(parsed.map_err(|why| refused(name, why))?);
        } else if PRIORITY.contains(&name) {
            let why = "argument must be between 0 and 2147483647 inclusive";
            let number =
                number::parse_i64(pairs.at(value)).filter(|n| (0..=i32::MAX.into()).contains(n));
            priority = Some(number.ok_or_else(|| refused(name, why))?);
        } else if name.starts_with("tls-") && name != "tls-port" && server.tls.is_some() {
            let now = || server.tls.as_ref().map(Tls::files).unwrap_or_default();
            set_tls(tls.get_or_insert_with(now), name, pairs.at(value))
                .map_err(|why| refused(name, &why))?;
            tls_name = name;
        } else if name == CHANNELS {
            let why = "argument(s) must be one of the following: allchannels, resetchannels";
            let is = |opens: &bool| pairs.is(value, open_channels(*opens));
            opens = Some([true, false].into_iter().find(is).ok_or_else(|| refused(name, why))?);
        } else if let Some(index) = NUMBERS.iter().position(|option| option.is(name)) {
            let value = NUMBERS[index].parse(pairs.at(value)).map_err(|why| refused(name, &why))?;
            numbers.push((index, value));
        } else if !pairs.is(value, current) {
            return Err(refused(name, "can't set immutable config"));
        }
    }
    // The only ones that may fail, before anything is set.
    if let (Some(files), Some(own)) = (tls, &server.tls)
        && let Err(why) = own.set(files)
    {
        warn!("TLS: {why}");
        let text = "Unable to update TLS configuration. Check server logs.";
        return Err(refused(tls_name, text));
    }
    if let Some(protected) = protected {
        server.set_protected(protected);
    }
    if let Some(on) = read_only {
        server.following.set_read_only(on);
    }
    if let Some(on) = announced {
        server.following.set_announced(on);
    }
    if let Some(on) = by_tls {
        server.following.set_speaks_tls(on);
    }
    if let Some(on) = times {
        server.stats.iter().for_each(|stats| stats.set_tracks_times(on));
    }
    if let Some(percentiles) = percentiles {
        server.percentiles.set(percentiles);
    }
    if let Some(on) = moves_by_tls {
        server.migration.set_speaks_tls(on);
    }
    server.following.set_announcement(|known| {
        known.address = announced_ip.map_or(std::mem::take(&mut known.address), str::to_owned);
        known.port = announced_port.unwrap_or(known.port);
    });
    if let Some(priority) = priority {
        server.following.set_priority(priority.unsigned_abs());
    }
    server.following.set_credentials(|known| {
        known.user = master_user.map_or(std::mem::take(&mut known.user), str::to_owned);
        known.password = master_password.map_or(std::mem::take(&mut known.password), str::to_owned);
    });
    if let Some(clients) = clients {
        server.set_max_clients(clients);
    }
    if let Some(events) = events {
        server.events.set(events);
    }
    if let Some(policy) = policy {
        server.eviction.set(policy, server.facts().limit);
    }
    if let Some(password) = password {
        server.set_password(password);
    }
    if let Some(opens) = opens {
        server.acl.set_opens_channels(opens);
    }
    for (index, value) in numbers {
        server.tuning.set_number(index, value);
    }
    Ok(())
}

/// The options that are to be set, each once, with the values that they have. As in Redis, names
/// are looked at before any value is.
fn names<'k>(
    known: &'k [(&'static str, String)],
    pairs: Args<'_>,
) -> Outcome<Vec<(&'static str, &'k str)>> {
    let mut given: Vec<(&str, &str)> = Vec::new();
    for at in (0..pairs.len()).step_by(2) {
        let Some((name, current)) = known.iter().find(|(name, _)| pairs.is(at, name)) else {
            let name = shown(pairs.at(at), usize::MAX);
            return Err(Failure::say(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
            )));
        };
        if given.iter().any(|(other, _)| other == name) {
            return Err(refused(name, "duplicate parameter"));
        }
        given.push((name, current));
    }
    Ok(given)
}

fn refused(name: &str, why: &str) -> Failure {
    Failure::say(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"))
}

/// A policy, by its name in any case of letters.
fn policy_of(text: &[u8]) -> Result<EvictionPolicy, String> {
    let name = String::from_utf8_lossy(text).to_ascii_lowercase();
    name.parse().map_err(|_| {
        let names = EvictionPolicy::NAMES.join(", ");
        format!("argument(s) must be one of the following: {names}")
    })
}

/// A number of clients that there is room for.
fn client_count(text: &[u8]) -> Result<usize, String> {
    let count = number::parse_i64(text);
    let count = count.ok_or("argument couldn't be parsed into an integer")?;
    let count = u32::try_from(count).ok().filter(|&count| count > 0);
    let count = count.ok_or("argument must be between 1 and 4294967295 inclusive")? as usize;
    match descriptors::room_for(count) {
        room if room < count => Err(format!(
            "The operating system is not able to handle the specified number of clients, try \
             with {room}"
        )),
        _ => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bytes() {
        for (text, value) in [
            ("", Some(0)),
            ("64", Some(64)),
            ("1kb", Some(1024)),
            ("2K", Some(2000)),
            ("3Gb", Some(3 << 30)),
            ("-1", None),
            ("1.5", None),
            ("x", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("9223372036854775807kb", None),
        ] {
            assert_eq!(bytes(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn places_are_right() {
        assert_eq!(NUMBERS[SLOWER_THAN].name, "slowlog-log-slower-than");
        assert_eq!(NUMBERS[SLOW_LOG_LEN].name, "slowlog-max-len");
        assert_eq!(NUMBERS[TIMEOUT].name, "timeout");
        assert_eq!(NUMBERS[KEEPALIVE].name, "tcp-keepalive");
        assert_eq!(NUMBERS[SAMPLES].name, "maxmemory-samples");
        assert_eq!(NUMBERS[SCRIPT_TIME].name, "busy-reply-threshold");
        assert_eq!(NUMBERS[SPARSE_MAX].name, "hll-sparse-max-bytes");
        assert_eq!(NUMBERS[DUMP_VERSION].name, "dump-version");
        assert_eq!(NUMBERS[ACL_LOG_LEN].name, "acllog-max-len");
        assert_eq!(NUMBERS[TRACKED_KEYS].name, "tracking-table-max-keys");
        assert_eq!(NUMBERS[LATENCY].name, "latency-monitor-threshold");
        let usual = Tuning::new(&Options::new());
        assert_eq!((usual.timeout(), usual.keepalive()), (None, Some(Duration::from_secs(300))));
        let slow = |micros| Tuning::new(&Options::new().slower_than(micros));
        let took = Duration::from_micros(10);
        assert!(slow(0).is_notable(Duration::ZERO) && slow(10).is_notable(took));
        assert!(!slow(11).is_notable(took) && !slow(-1).is_notable(Duration::MAX));
        let both = slow(20_000);
        assert!(both.set("latency-monitor-threshold", b"10"));
        assert!(both.is_notable(Duration::from_millis(10)));
        assert!(!both.is_notable(Duration::from_millis(9)));
        assert!(both.set("latency-monitor-threshold", b"0"));
        assert!(!both.is_notable(Duration::from_millis(19)));
        assert!(!slow(1_000).allows_shared_times() && slow(1_001).allows_shared_times());
        assert!(slow(-1).allows_shared_times());
    }

    #[test]
    fn numbers_have_bounds() {
        let list = NUMBERS.iter().find(|option| option.is("list-max-ziplist-size")).unwrap();
        assert_eq!(list.parse(b"-6"), Ok(-6));
        let text = "argument must be between -2147483648 and 2147483647 inclusive";
        assert_eq!(list.parse(b"99999999999"), Err(text.to_owned()));
        assert!(NUMBERS[0].parse(b"1kb").is_err() && NUMBERS[1].parse(b"1kb") == Ok(1024));
    }
}
