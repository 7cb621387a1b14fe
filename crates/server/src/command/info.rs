//! INFO: facts about the server, for people and monitors; and TIME.

use super::{Call, ClientCall, Command, Next, Outcome, Run};
use crate::acl::Reason;
use crate::keyspace::functions::Functions;
use crate::keyspace::{DATABASES, Database, garbage, now};
use crate::percentiles;
use crate::pubsub::Kind;
use crate::replication::following::{FollowFacts, Gate, Link};
use crate::replication::{FeedFacts, ReplicaFacts};
use crate::server::Server;
use crate::stats::{CODES, CommandStats, Counter, LOG_BUCKETS, Stats, bucket_end_nanos, sum};
use perdura::Result;
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(super) const TABLE: &[Command] = &[
    Command::new("info", -1, (0, 0, 0), Run::Read(info), "Facts about the server."),
    Command::new("time", 1, (0, 0, 0), Run::Client(time), "The server's clock."),
];

/// Appends `name:value` lines, which cannot fail on a `String`.
macro_rules! lines {
    ($to:expr, $($name:literal: $value:expr),+ $(,)?) => {
        $(let _ = write!($to, concat!($name, ":{}\r\n"), $value);)+
    };
}

/// Sections of INFO, and sections that are shown only if they are asked for.
const SECTIONS: [&str; 10] = [
    "server",
    "clients",
    "memory",
    "persistence",
    "stats",
    "replication",
    "cpu",
    "errorstats",
    "cluster",
    "keyspace",
];
const MORE: [&str; 2] = ["commandstats", "latencystats"];

fn info(call: &mut Call<'_>) -> Outcome {
    let args = call.args.from(1);
    let asked = |names: &[&str]| (0..args.len()).any(|at| names.iter().any(|n| args.is(at, n)));
    let everything = asked(&["all", "everything"]);
    let usual = args.len() == 0 || everything || asked(&["default"]);
    let mut text = String::new();
    let sections = SECTIONS.into_iter().filter(|name| usual || asked(&[*name]));
    for section in sections.chain(MORE.into_iter().filter(|name| everything || asked(&[*name]))) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        write_section(call, section, &mut text)?;
    }
    call.out.verbatim(&text);
    Ok(())
}

fn write_section(call: &mut Call<'_>, section: &str, to: &mut String) -> Outcome {
    let server = call.env.server;
    match section {
        "server" => write_server(server, to),
        "clients" => write_clients(server, to),
        "memory" => write_memory(call, to)?,
        "persistence" => write_persistence(server, to),
        "stats" => write_stats(server, to),
        "replication" => write_replication(server, to),
        "cpu" => write_cpu(to),
        "commandstats" => write_commands(server, to),
        "latencystats" => write_latency(server, to),
        "errorstats" => write_errors(server, to),
        "cluster" => to.push_str("# Cluster\r\ncluster_enabled:0\r\n"),
        _ => write_keyspace(call, to)?,
    }
    Ok(())
}

fn write_server(server: &Server, to: &mut String) {
    let uptime = server.started.elapsed().as_secs();
    let executable = std::env::current_exe().unwrap_or_default();
    to.push_str("# Server\r\n");
    lines!(to,
        "redis_version": super::VERSION,
        "redis_git_sha1": "00000000",
        "redis_git_dirty": 0,
        "perdura_version": env!("CARGO_PKG_VERSION"),
        "redis_mode": "standalone",
        "os": std::env::consts::OS,
        "arch_bits": usize::BITS,
        "multiplexing_api": "epoll",
        "process_id": std::process::id(),
        "run_id": server.run_id,
        "process_supervised": if server.notifier.get().is_some() { "systemd" } else { "no" },
        "tcp_port": server.address.port(),
        "server_time_usec": now() * 1000,
        "uptime_in_seconds": uptime,
        "uptime_in_days": uptime / 86_400,
        "hz": 10,
        "configured_hz": 10,
        "executable": executable.display(),
        "config_file": "",
        "io_threads": server.stats.len(),
        "io_threads_active": u8::from(server.stats.len() > 1),
    );
}

fn write_clients(server: &Server, to: &mut String) {
    to.push_str("# Clients\r\n");
    lines!(to,
        "connected_clients": server.connected(),
        "cluster_connections": 0,
        "maxclients": server.max_clients(),
        "blocked_clients": server.waiting.count() + server.pause.held(),
        "tracking_clients": server.tracking.facts().clients,
    );
}

fn write_memory(call: &mut Call<'_>, to: &mut String) -> Result<()> {
    let server = call.env.server;
    let is_freeing = garbage::first(call.tx, call.env.keyspace)?.is_some();
    let facts = server.facts();
    // Free slots take objects of their own size only.
    let slots = facts.usage.free_slot_bytes;
    let ratio = (facts.taken() + slots) as f64 / facts.taken().max(1) as f64;
    let pages = facts.usage.free_page_bytes + facts.limit.saturating_sub(facts.bytes);
    let (resident, installed) = (resident_bytes().unwrap_or(0), installed_bytes().unwrap_or(0));
    let peak = server.look_at_memory().max(facts.taken());
    let (libraries, functions) = match Functions::find(call.tx, call.env.keyspace)? {
        Some(functions) => functions.counts(call.tx)?,
        None => (0, 0),
    };
    let FeedFacts { start, end, is_kept, .. } = server.replication.feed.facts();
    let backlog = if is_kept { end - start } else { 0 };
    to.push_str("# Memory\r\n");
    lines!(to,
        "used_memory": facts.taken(),
        "used_memory_human": human(facts.taken()),
        "used_memory_rss": resident,
        "used_memory_rss_human": human(resident),
        "used_memory_peak": peak,
        "used_memory_peak_human": human(peak),
        "used_memory_peak_perc": percent(facts.taken(), peak),
        "used_memory_overhead": facts.overhead,
        "used_memory_dataset": facts.used,
        "used_memory_dataset_perc": percent(facts.used, facts.taken()),
        "total_system_memory": installed,
        "total_system_memory_human": human(installed),
        "number_of_cached_scripts": server.scripts.size().0,
        "used_memory_scripts": server.scripts.size().1,
        "used_memory_scripts_human": human(server.scripts.size().1 as u64),
        "number_of_functions": functions,
        "number_of_libraries": libraries,
        "maxmemory": facts.limit,
        "maxmemory_human": human(facts.limit),
        "maxmemory_policy": server.eviction.policy(),
        "mem_fragmentation_ratio": format!("{ratio:.2}"),
        "mem_fragmentation_bytes": slots,
        "pool_free_page_bytes": pages,
        "pool_largest_free_bytes": facts.largest_free(),
        "pool_limbo_bytes": facts.usage.limbo_bytes,
        "pinned_bytes": facts.pinned_bytes,
        "oldest_transaction_seconds": facts.oldest_transaction.map_or(0, |age| age.as_secs()),
        "pool_file_bytes": facts.bytes,
        "mem_replication_backlog": backlog,
        "mem_allocator": "libc",
        "active_defrag_running": 0,
        "lazyfree_pending_objects": u8::from(is_freeing),
        "lazyfreed_objects": sum(&server.stats, |one| &one.freed),
    );
    Ok(())
}

/// Bytes of memory in which the process is, as Linux counts them, with the pages of the pool's file; none elsewhere.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Bytes of memory that the machine has, as Linux counts them; none elsewhere.
fn installed_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

/// A part of a whole as Redis shows it.
fn percent(part: u64, whole: u64) -> String {
    format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64)
}

fn human(bytes: u64) -> String {
    let units = [(1u64 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.2}{name}", bytes as f64 / unit as f64),
        None => format!("{bytes}B"),
    }
}

fn write_persistence(server: &Server, to: &mut String) {
    let facts = server.facts();
    let save = server.save.status();
    let seconds = |time: Option<Duration>| time.map_or(-1, |time| time.as_secs() as i64);
    let status = if server.failed() || facts.cannot_grow.is_some() { "err" } else { "ok" };
    to.push_str("# Persistence\r\n");
    lines!(to,
        "loading": u8::from(server.following.gate() == Gate::Loading),
        "pool_path": facts.path,
        "pool_engine": facts.engine,
        "pool_domain": facts.domain,
        "acknowledged_writes_survive": facts.survives,
        "last_write_status": status,
        "last_write_error": facts.cannot_grow.as_deref().unwrap_or_default(),
        "aof_enabled": u8::from(facts.keeps_log()),
        "async_loading": 0,
        "aof_rewrite_in_progress": 0,
        "aof_rewrite_scheduled": 0,
        "aof_rewrites": 0,
        "aof_last_rewrite_time_sec": -1,
        "aof_current_rewrite_time_sec": -1,
        "aof_last_bgrewrite_status": "ok",
        "aof_last_write_status": status,
        "rdb_bgsave_in_progress": u8::from(save.since.is_some()),
        "rdb_last_save_time": save.last,
        "rdb_last_bgsave_status": if save.failed.is_none() { status } else { "err" },
        "rdb_last_bgsave_error": save.failed.unwrap_or_default(),
        "rdb_last_bgsave_time_sec": seconds(save.took),
        "rdb_current_bgsave_time_sec": seconds(save.since.map(|since| since.elapsed())),
    );
}

fn write_stats(server: &Server, to: &mut String) {
    let (stats, counts) = (&server.stats, &server.replication.counts);
    let tracking = server.tracking.facts();
    let [commands, input, output] = server.rates.each_second();
    to.push_str("# Stats\r\n");
    lines!(to,
        "total_connections_received": sum(stats, |one| &one.connections),
        "rejected_connections": sum(stats, |one| &one.rejected),
        "total_commands_processed": sum(stats, |one| &one.commands),
        "instantaneous_ops_per_sec": commands as u64,
        "instantaneous_input_kbps": format!("{:.2}", input / 1024.0),
        "instantaneous_output_kbps": format!("{:.2}", output / 1024.0),
        "total_error_replies": sum(stats, |one| &one.errors),
        "total_net_input_bytes": sum(stats, |one| &one.input),
        "total_net_output_bytes": sum(stats, |one| &one.output),
        "total_reads_processed": sum(stats, |one| &one.reads),
        "total_writes_processed": sum(stats, |one| &one.writes),
        "eventloop_cycles": sum(stats, |one| &one.looks),
        "write_transactions": sum(stats, |one| &one.transactions),
        "conflicts": sum(stats, |one| &one.conflicts),
        "read_transactions": sum(stats, |one| &one.read_transactions),
        "durability_waits": sum(stats, |one| &one.waits),
        "expired_keys": sum(stats, |one| &one.expired),
        "evicted_keys": sum(stats, |one| &one.evicted),
        "evicted_clients": 0,
        "latest_fork_usec": 0,
        "total_forks": 0,
        "keyspace_hits": sum(stats, |one| &one.hits),
        "keyspace_misses": sum(stats, |one| &one.misses),
        "sync_full": counts.whole.load(Ordering::Relaxed),
        "sync_partial_ok": counts.part.load(Ordering::Relaxed),
        "sync_partial_err": counts.failed.load(Ordering::Relaxed),
        "pubsub_channels": server.pubsub.name_count(Kind::Channel),
        "pubsub_patterns": server.pubsub.name_count(Kind::Pattern),
        "pubsubshard_channels": server.pubsub.name_count(Kind::Shard),
        "migrate_cached_sockets": server.migration.sockets(),
        "tracking_total_keys": tracking.keys,
        "tracking_total_items": tracking.items,
        "tracking_total_prefixes": tracking.prefixes,
        "acl_access_denied_auth": server.acl.denied(Reason::Password),
        "acl_access_denied_cmd": server.acl.denied(Reason::Command),
        "acl_access_denied_key": server.acl.denied(Reason::Key),
        "acl_access_denied_channel": server.acl.denied(Reason::Channel),
    );
}

fn write_replication(server: &Server, to: &mut String) {
    let feed = &server.replication.feed;
    let (replicas, FeedFacts { mut id, before, start, end, is_kept }) =
        (server.replication.facts(), feed.facts());
    let mut place = end;
    to.push_str("# Replication\r\n");
    let following = server.following.facts();
    match following.master() {
        None => {
            lines!(to, "role": "master");
        }
        Some(master) => {
            write_master(server, &following, master, to);
            (id, place) = (following.id().unwrap_or_else(|| "0".repeat(40)), following.place);
        }
    }
    lines!(to, "connected_slaves": replicas.len());
    for (index, replica) in replicas.iter().enumerate() {
        let ReplicaFacts { address, port, state, place: offset, lag, id: _ } = replica;
        let facts = format!("ip={address},port={port},state={state},offset={offset},lag={lag}");
        let _ = write!(to, "slave{index}:{facts}\r\n");
    }
    lines!(to,
        "master_failover_state": server.following.failover.phase().name(),
        "master_replid": id,
        "master_replid2": before.as_ref().map_or("0".repeat(40), |(id, _)| id.clone()),
        "master_repl_offset": place,
        "second_repl_offset": before.map_or(-1, |(_, end)| (end as i64).wrapping_add(1)),
        "repl_backlog_active": u8::from(is_kept),
        "repl_backlog_size": feed.most(),
        "repl_backlog_first_byte_offset": if is_kept && end > start { start + 1 } else { 0 },
        "repl_backlog_histlen": if is_kept { end - start } else { 0 },
    );
}

/// The facts about the master that is followed.
fn write_master(
    server: &Server,
    facts: &FollowFacts,
    (host, port): &(String, u16),
    to: &mut String,
) {
    let seconds =
        |since: Option<Instant>| since.map_or(-1, |since| since.elapsed().as_secs() as i64);
    let (is_up, loads) = (facts.link == Link::Follows, facts.link == Link::Loads);
    // Sentinel is to promote none whose data is not whole.
    let is_whole = !facts.is_incomplete();
    let (place, priority) = match is_whole {
        true => (facts.place, server.following.priority()),
        false => (0, 0),
    };
    lines!(to,
        "role": "slave",
        "master_host": host,
        "master_port": port,
        "master_link_status": if is_up { "up" } else { "down" },
        "master_last_io_seconds_ago": if is_up { seconds(facts.heard).max(0) } else { -1 },
        "master_sync_in_progress": u8::from(loads),
        "slave_read_repl_offset": place,
        "slave_repl_offset": place,
    );
    if loads {
        let (total, read) = facts.sync;
        let left = total.map_or(-1, |total| total.saturating_sub(read) as i64);
        let part = total.map_or(0.0, |total| 100.0 * read as f64 / total.max(1) as f64);
        lines!(to,
            "master_sync_total_bytes": total.unwrap_or(0),
            "master_sync_read_bytes": read,
            "master_sync_left_bytes": left,
            "master_sync_perc": format!("{part:.2}"),
            "master_sync_last_io_seconds_ago": 0,
        );
    }
    if !is_up {
        lines!(to, "master_link_down_since_seconds": seconds(facts.down_since));
    }
    if let Some((text, is_for_good)) = &facts.failure {
        lines!(to,
            "master_link_error": text.replace(['\r', '\n'], " "),
            "master_link_given_up": u8::from(*is_for_good),
        );
    }
    lines!(to,
        "slave_priority": priority,
        "slave_read_only": u8::from(server.following.is_read_only()),
        "replica_announced": u8::from(server.following.is_announced()),
    );
}

/// Seconds that the process has used, in itself and for it.
fn write_cpu(to: &mut String) {
    to.push_str("# CPU\r\n");
    if let Some((user, system)) = processor_time() {
        lines!(to,
            "used_cpu_sys": format!("{system:.6}"),
            "used_cpu_user": format!("{user:.6}"),
            "used_cpu_sys_children": "0.000000",
            "used_cpu_user_children": "0.000000",
        );
    }
}

/// Seconds in user and system mode, as Linux counts them; none elsewhere.
fn processor_time() -> Option<(f64, f64)> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name, in parentheses, may have spaces. After it, fields 12 and 13 are ticks.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let mut next = || Some(fields.next()?.parse::<f64>().ok()? / ticks);
    Some((next()?, next()?))
}

/// Of each command that was called, or refused, how often, and how long the calls took.
fn write_commands(server: &Server, to: &mut String) {
    to.push_str("# Commandstats\r\n");
    for (_, command) in super::all() {
        let count = |pick: fn(&CommandStats) -> &Counter| -> u64 {
            server.stats.iter().map(|one| pick(one.of(command)).get()).sum()
        };
        let (calls, rejected) = (count(|one| &one.calls), count(|one| &one.rejected));
        let (failed, usec) = (count(|one| &one.failed), count(|one| &one.nanos) / 1000);
        if calls + rejected > 0 {
            let name = command.name;
            let each = usec as f64 / calls.max(1) as f64;
            let _ = write!(
                to,
                "cmdstat_{name}:calls={calls},usec={usec},usec_per_call={each:.2},\
                 rejected_calls={rejected},failed_calls={failed}\r\n"
            );
        }
    }
}

/// Of each command that was called, the percentiles of how long that took, in microseconds.
fn write_latency(server: &Server, to: &mut String) {
    to.push_str("# Latencystats\r\n");
    if !server.stats.iter().all(Stats::tracks_times) {
        return;
    }
    let percentiles = server.percentiles.get();
    for (_, command) in super::all() {
        let mut calls = [0; LOG_BUCKETS];
        server.stats.iter().for_each(|stats| stats.of(command).add_to(&mut calls));
        let value = |percent: &f64| {
            let micros = bucket_end_nanos(percentiles::bucket_of(&calls, *percent)?) as f64 / 1e3;
            Some(format!("p{}={micros:.3}", percentiles::shown(*percent)))
        };
        if calls.iter().any(|calls| *calls > 0) {
            let values: Vec<_> = percentiles.iter().filter_map(value).collect();
            let _ =
                write!(to, "latency_percentiles_usec_{}:{}\r\n", command.name, values.join(","));
        }
    }
}

fn write_errors(server: &Server, to: &mut String) {
    to.push_str("# Errorstats\r\n");
    for (index, code) in CODES.iter().enumerate() {
        let count = sum(&server.stats, |one| &one.codes[index]);
        if count > 0 {
            let _ = write!(to, "errorstat_{code}:count={count}\r\n");
        }
    }
}

fn write_keyspace(call: &mut Call<'_>, to: &mut String) -> Result<()> {
    to.push_str("# Keyspace\r\n");
    for index in 0..DATABASES {
        let db = Database::new(call.env.keyspace, index);
        let keys = db.len(call.tx)?;
        if keys > 0 {
            let expiring = match db.expiries(call.tx)? {
                Some(expiries) => expiries.len(call.tx)?,
                None => 0,
            };
            let _ = write!(to, "db{index}:keys={keys},expires={expiring},avg_ttl=0\r\n");
        }
    }
    Ok(())
}

fn time(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let micros = now() * 1000;
    let mut out = call.reply();
    out.array(2);
    out.bulk((micros / 1_000_000).to_string().as_bytes());
    out.bulk((micros % 1_000_000).to_string().as_bytes());
    Ok(Next::Go)
}

#[cfg(test)]
mod tests {
    use super::processor_time;
    use std::time::{Duration, Instant};

    #[test]
    #[cfg(target_os = "linux")]
    fn work_is_time_of_the_processor() {
        let before = processor_time().unwrap();
        let start = Instant::now();
        // Ticks are 10 ms; other tests take the processor's time too.
        while processor_time().unwrap().0 + processor_time().unwrap().1 < before.0 + before.1 + 0.03
        {
            assert!(start.elapsed() < Duration::from_secs(20), "no time passes");
        }
    }
}
