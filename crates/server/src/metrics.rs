//! Metrics for Prometheus: the facts of INFO, as text in its exposition format.
//!
//! Counters grow from the server's start to its end, whatever CONFIG RESETSTAT does. The engine's counters are as of a
//! second ago at most.

use crate::command::all;
use crate::keyspace::{DATABASES, Database};
use crate::server::Server;
use crate::stats::{BOUNDS, CODES, Counter, Histogram, Stats};
use crate::store::Session;
use std::fmt::{Display, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The text of the metrics, made anew each time.
pub(crate) type Report = Box<dyn FnMut() -> String + Send>;

/// All metrics of a server, with the sizes of its databases as `session` reads them.
pub(crate) fn report<S: Session>(server: &Server, session: &mut S, keyspace: u64) -> String {
    let mut page = Page::default();
    of_server(server, &mut page);
    of_commands(server, &mut page);
    of_clients(server, &mut page);
    of_pool(server, &mut page);
    of_engine(server, &mut page, session);
    of_databases(&mut page, session, keyspace);
    page.text
}

/// Metrics as they are written down.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    /// Begins a metric.
    fn begin(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// A value of the metric, with labels such as `{db="0"}`.
    fn value(&mut self, name: &str, labels: impl Display, value: impl Display) {
        let _ = writeln!(self.text, "{name}{labels} {value}");
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.begin(name, "counter", help);
        self.value(name, "", value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.begin(name, "gauge", help);
        self.value(name, "", value);
    }

    fn histogram(
        &mut self,
        name: &str,
        help: &str,
        stats: &[Stats],
        pick: impl Fn(&Stats) -> &Histogram,
    ) {
        let (mut counts, mut nanos) = ([0; BOUNDS.len() + 1], 0);
        stats.iter().for_each(|one| pick(one).add_to(&mut counts, &mut nanos));
        self.begin(name, "histogram", help);
        let mut below = 0;
        for (count, bound) in counts.iter().zip(BOUNDS) {
            below += count;
            let le = format!("_bucket{{le=\"{}\"}}", seconds(bound));
            self.value(name, le, below);
        }
        below += counts[BOUNDS.len()];
        self.value(name, "_bucket{le=\"+Inf\"}", below);
        self.value(name, "_sum", seconds(nanos));
        self.value(name, "_count", below);
    }
}

/// Nanoseconds as seconds: `0.0025`.
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// The sum of a counter over all threads, since the server's start.
fn total(stats: &[Stats], pick: impl Fn(&Stats) -> &Counter) -> u64 {
    stats.iter().map(|one| pick(one).total()).sum()
}

fn of_server(server: &Server, page: &mut Page) {
    page.begin("perdura_build_info", "gauge", "The version that runs.");
    let version = format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    page.value("perdura_build_info", version, 1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let started = now.saturating_sub(server.started.elapsed()).as_secs();
    page.gauge("perdura_start_time_seconds", "When the server started, since 1970.", started);
    let help = "Whether the medium failed: 1 if every client is refused until a restart.";
    page.gauge("perdura_medium_failed", help, u8::from(server.failed()));
    let save = server.save.status();
    let help = "Whether an export (BGSAVE, SAVE) is under way.";
    page.gauge("perdura_export_in_progress", help, u8::from(save.since.is_some()));
    let help = "Whether the last export went well.";
    page.gauge("perdura_export_last_ok", help, u8::from(save.failed.is_none()));
    let help = "When an export last went well, since 1970; 0 if none has since the server started.";
    let last = if save.took.is_some() && save.failed.is_none() { save.last } else { 0 };
    page.gauge("perdura_export_last_success_seconds", help, last);
    let took = save.took.unwrap_or(Duration::ZERO).as_secs_f64();
    page.gauge("perdura_export_last_duration_seconds", "How long the last export took.", took);
}

fn of_commands(server: &Server, page: &mut Page) {
    let stats = &server.stats;
    let help = "Commands that were done, by all names.";
    page.counter("perdura_commands_processed_total", help, total(stats, |one| &one.commands));
    let called = |name: &'static str, help: &str, page: &mut Page, nanos: bool, pick: Pick| {
        page.begin(name, "counter", help);
        for (_, command) in all() {
            let of = |pick: Pick| total(stats, |one| pick(one.of(command)));
            if of(|one| &one.calls) + of(|one| &one.rejected) == 0 {
                continue;
            }
            let labels = format!("{{command=\"{}\"}}", command.name);
            match nanos {
                true => page.value(name, labels, seconds(of(pick))),
                false => page.value(name, labels, of(pick)),
            }
        }
    };
    called("perdura_commands_total", "Calls of a command.", page, false, |one| &one.calls);
    let help = "Calls of a command that answered with an error.";
    called("perdura_commands_failed_total", help, page, false, |one| &one.failed);
    let help = "Commands that were refused before they were called.";
    called("perdura_commands_rejected_total", help, page, false, |one| &one.rejected);
    let help = "Time that a command took, without the wait for durability.";
    called("perdura_commands_duration_seconds_total", help, page, true, |one| &one.nanos);
    let help = "Time of one command, without the wait for durability.";
    page.histogram("perdura_command_duration_seconds", help, stats, |one| &one.took);
    let help = "Time of one wait for durability, which all commands of a batch share.";
    page.histogram("perdura_durability_wait_seconds", help, stats, |one| &one.waited);
    let help = "Commands that were slow enough for the slow log.";
    page.counter("perdura_slow_commands_total", help, server.slow_log.total());
    page.begin("perdura_error_replies_total", "counter", "Error replies, by their first word.");
    for (index, code) in CODES.iter().enumerate() {
        let count = total(stats, |one| &one.codes[index]);
        page.value("perdura_error_replies_total", format!("{{code=\"{code}\"}}"), count);
    }
    let help = "Keys that were looked for and found.";
    page.counter("perdura_keyspace_hits_total", help, total(stats, |one| &one.hits));
    let help = "Keys that were looked for and not found.";
    page.counter("perdura_keyspace_misses_total", help, total(stats, |one| &one.misses));
    let help = "Keys that were deleted because they had expired.";
    page.counter("perdura_expired_keys_total", help, total(stats, |one| &one.expired));
    let help = "Keys that were deleted to make room.";
    page.counter("perdura_evicted_keys_total", help, total(stats, |one| &one.evicted));
}

/// One of a command's counters.
type Pick = fn(&crate::stats::CommandStats) -> &Counter;

fn of_clients(server: &Server, page: &mut Page) {
    let stats = &server.stats;
    page.gauge("perdura_connected_clients", "Clients that are connected.", server.connected());
    let help = "Clients that wait for a key to be filled.";
    page.gauge("perdura_blocked_clients", help, server.waiting.count());
    let help = "Clients that may be connected at once.";
    page.gauge("perdura_max_clients", help, server.max_clients());
    let help = "Connections that were accepted.";
    page.counter("perdura_connections_total", help, total(stats, |one| &one.connections));
    let help = "Connections that were refused: too many clients.";
    page.counter("perdura_connections_rejected_total", help, total(stats, |one| &one.rejected));
    let help = "Bytes that clients sent.";
    page.counter("perdura_network_receive_bytes_total", help, total(stats, |one| &one.input));
    let help = "Bytes that were sent to clients.";
    page.counter("perdura_network_transmit_bytes_total", help, total(stats, |one| &one.output));
}

fn of_pool(server: &Server, page: &mut Page) {
    let facts = server.facts();
    page.begin("perdura_pool_info", "gauge", "The pool's engine and persistence domain.");
    let labels = format!("{{engine=\"{}\",domain=\"{}\"}}", facts.engine, facts.domain);
    page.value("perdura_pool_info", labels, 1);
    page.gauge("perdura_pool_used_bytes", "Bytes that objects take.", facts.used);
    page.gauge("perdura_pool_file_bytes", "Bytes of the pool's file.", facts.bytes);
    page.gauge("perdura_pool_limit_bytes", "Bytes up to which the pool grows.", facts.limit);
    let help = "Bytes that are freed and held back for running transactions.";
    page.gauge("perdura_pool_pinned_bytes", help, facts.pinned_bytes);
    let help = "For how long, at least, the oldest of these transactions has been running.";
    let age = facts.oldest_transaction.unwrap_or_default().as_secs_f64();
    page.gauge("perdura_oldest_transaction_seconds", help, age);
    let help =
        "Whether the pool's file could not grow when that was tried last: 1 if the disk is full.";
    page.gauge("perdura_pool_cannot_grow", help, u8::from(facts.cannot_grow.is_some()));
    let name = "perdura_recovery_transactions";
    page.begin(name, "gauge", "What recovery did with transactions when the pool was opened.");
    let recovery = &facts.recovery;
    for (what, count) in [
        ("replayed", recovery.replayed),
        ("rolled_back", recovery.rolled_back),
        ("discarded", recovery.discarded),
    ] {
        page.value(name, format!("{{outcome=\"{what}\"}}"), count);
    }
    page.counter("perdura_syncs_total", "Syncs of the pool's file.", facts.syncs);
}

fn of_engine<S: Session>(server: &Server, page: &mut Page, session: &S) {
    let stats = &server.stats;
    let name = "perdura_transactions_total";
    page.begin(name, "counter", "Transactions for clients; one may serve many commands.");
    page.value(name, "{access=\"write\"}", total(stats, |one| &one.transactions));
    page.value(name, "{access=\"read\"}", total(stats, |one| &one.read_transactions));
    let help = "Runs of a transaction again, since it was in conflict with another one.";
    page.counter("perdura_conflicts_total", help, total(stats, |one| &one.conflicts));
    let mut counters = server.facts().counters;
    counters += server.published();
    counters += session.counters();
    let name = "perdura_write_backs_total";
    page.begin(name, "counter", "Cache lines that were written back.");
    for (what, count) in [
        ("log", counters.write_backs_log),
        ("data", counters.write_backs_data),
        ("checksum", counters.write_backs_checksum),
        ("metadata", counters.write_backs_metadata),
    ] {
        page.value(name, format!("{{of=\"{what}\"}}"), count);
    }
    page.counter("perdura_fences_total", "Fences.", counters.fences);
    page.counter("perdura_log_bytes_total", "Bytes of log records.", counters.log_bytes);
    page.counter("perdura_checkpoints_total", "Checkpoints of the log.", counters.checkpoints);
}

fn of_databases<S: Session>(page: &mut Page, session: &mut S, keyspace: u64) {
    let mut sizes = Vec::new();
    let read = session.read(&mut |tx| {
        sizes.clear();
        for index in 0..DATABASES {
            let db = Database::new(keyspace, index);
            let expiring = match db.expiries(tx)? {
                Some(expiries) => expiries.len(tx)?,
                None => 0,
            };
            sizes.push((index, db.len(tx)?, expiring));
        }
        Ok(())
    });
    // Other metrics show that a pool cannot be read.
    sizes.retain(|(_, keys, _)| read.is_ok() && *keys > 0);
    page.begin("perdura_database_keys", "gauge", "Keys of a database.");
    for (index, keys, _) in &sizes {
        page.value("perdura_database_keys", format!("{{db=\"{index}\"}}"), keys);
    }
    page.begin("perdura_database_expiring_keys", "gauge", "Of these, keys that expire.");
    for (index, _, expiring) in &sizes {
        page.value("perdura_database_expiring_keys", format!("{{db=\"{index}\"}}"), expiring);
    }
}
