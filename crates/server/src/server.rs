//! The state that all threads of a server share.

use crate::acl::{self, Acl, DEFAULT};
use crate::command::{Events, Tuning};
use crate::eviction::Eviction;
use crate::keyspace::now;
use crate::latency::{Latency, Sample};
use crate::listing::{Listing, Peer};
use crate::logging::Quota;
use crate::migrate::Migration;
use crate::notify::Notifier;
use crate::options::Options;
use crate::pause::Pause;
use crate::percentiles::Percentiles;
use crate::pubsub::{Parcel, Post, PubSub};
use crate::rates::Rates;
use crate::replication::following::Following;
use crate::replication::{Replication, fresh_id};
use crate::save::Save;
use crate::script::{Runs, Scripts};
use crate::slow_log::{SlowCommand, SlowLog};
use crate::stats::Stats;
use crate::store::Facts;
use crate::tls::Tls;
use crate::tracking::Tracking;
use crate::waiting::{Delivery, Waiting};
use crate::watch::Watch;
use perdura::{Counters, Error};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tracing::{debug, error, info, warn};

/// Time from one line of the log that says that the pool is full to the next.
const FULL: Duration = Duration::from_secs(60);

/// Where a server listens, besides its first address.
#[derive(Debug, Default)]
pub(crate) struct Doors {
    /// Addresses without TLS, and with it.
    pub(crate) plain: Vec<SocketAddr>,
    pub(crate) tls: Vec<SocketAddr>,
    /// Paths of sockets of the Unix domain.
    pub(crate) unix: Vec<String>,
}

/// A function that hands messages to threads, by their numbers.
type Hand = dyn Fn(BTreeMap<usize, Vec<Parcel>>) + Send + Sync;

/// The state that all threads of a server share.
pub(crate) struct Server {
    pub(crate) options: Options,
    /// Where it really listens: the first of these addresses.
    pub(crate) address: SocketAddr,
    /// Where else.
    pub(crate) doors: Doors,
    /// What its connections with TLS share, if there are any.
    pub(crate) tls: Option<Tls>,
    /// Whether clients of other machines are refused while nobody needs a password.
    protected: AtomicBool,
    pub(crate) started: Instant,
    pub(crate) watch: Watch,
    /// Clients that wait for keys to be filled, and the function that sends them replies.
    pub(crate) waiting: Waiting,
    pub(crate) deliver: OnceLock<Box<dyn Fn(Delivery) + Send + Sync>>,
    /// The function that sends clients messages.
    pub(crate) post: OnceLock<Box<dyn Fn(Vec<Post>) + Send + Sync>>,
    pub(crate) stats: Box<[Stats]>,
    facts: Box<dyn Fn() -> Facts + Send + Sync>,
    clients: Mutex<BTreeMap<u64, Arc<Listing>>>,
    next_client: AtomicU64,
    connected: AtomicUsize,
    /// Clients that may be connected at once.
    max_clients: AtomicUsize,
    /// The numbers that CONFIG SET can set.
    pub(crate) tuning: Tuning,
    pub(crate) eviction: Eviction,
    /// Expired keys are deleted before a command meets them.
    expires_actively: AtomicBool,
    stopping: AtomicBool,
    /// It performs commands of the past, and no key expires.
    loading: AtomicBool,
    failed: AtomicBool,
    /// Exports of the keyspace.
    pub(crate) save: Arc<Save>,
    pub(crate) replication: Replication,
    pub(crate) following: Following,
    /// A name of 40 digits that this server has until it ends.
    pub(crate) run_id: String,
    /// Held by the thread that makes room for a write.
    pub(crate) room: Mutex<()>,
    /// The counters of each worker's session of the pool, as of a moment ago.
    engine: Box<[Mutex<Counters>]>,
    pub(crate) slow_log: SlowLog,
    pub(crate) latency: Latency,
    pub(crate) percentiles: Percentiles,
    /// The most bytes of the pool that were taken at once, as far as they were looked at.
    memory_peak: AtomicU64,
    pub(crate) rates: Rates,
    pub(crate) acl: Acl,
    pub(crate) pubsub: PubSub,
    pub(crate) pause: Pause,
    pub(crate) migration: Migration,
    /// Clients that track keys, and the function that hands messages to threads.
    pub(crate) tracking: Tracking,
    pub(crate) hand: OnceLock<Box<Hand>>,
    /// The events of keys that are published.
    pub(crate) events: Events,
    pub(crate) scripts: Scripts,
    /// The scripts that are running.
    pub(crate) runs: Arc<Runs>,
    /// The service manager, if this process is a service.
    pub(crate) notifier: OnceLock<Notifier>,
    wrong_passwords: Quota,
    refused_clients: Quota,
    slow_commands: Quota,
    full: Quota,
    /// Clients that CLIENT KILL has ended, and the function that makes all workers look for theirs.
    kills: AtomicU64,
    pub(crate) waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// It was logged that the file cannot grow, and not yet that it can again.
    told_of_disk: AtomicBool,
}

impl Server {
    /// How other servers are spoken to by TLS: with the server's own certificate. Its files are read.
    ///
    /// # Errors
    /// What is wrong with one of them, or that there are none.
    pub(crate) fn client_config(&self) -> Result<Arc<rustls::ClientConfig>, String> {
        let tls = self.tls.as_ref().ok_or("a certificate is needed, see tls-cert-file")?;
        tls.files().read_for_master()
    }

    pub(crate) fn new(
        options: Options,
        address: SocketAddr,
        facts: Box<dyn Fn() -> Facts + Send + Sync>,
    ) -> Self {
        let (workers, backlog) = (options.worker_count(), options.backlog);
        let following = Following::none(&options);
        let eviction = Eviction::new();
        eviction.set(options.eviction, facts().limit);
        Server {
            acl: Acl::new(options.password.as_deref()),
            max_clients: AtomicUsize::new(options.max_clients),
            tuning: Tuning::new(&options),
            eviction,
            expires_actively: AtomicBool::new(true),
            protected: AtomicBool::new(options.protected_mode),
            migration: Migration::new(options.tls_cluster),
            options,
            address,
            doors: Doors::default(),
            tls: None,
            started: Instant::now(),
            watch: Watch::new(workers),
            waiting: Waiting::default(),
            deliver: OnceLock::new(),
            post: OnceLock::new(),
            stats: (0..workers).map(|_| Stats::default()).collect(),
            facts,
            clients: Mutex::default(),
            next_client: AtomicU64::new(1),
            connected: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            loading: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            save: Arc::new(Save::none()),
            replication: Replication::none(backlog),
            following,
            run_id: fresh_id(),
            room: Mutex::default(),
            engine: (0..workers).map(|_| Mutex::default()).collect(),
            slow_log: SlowLog::default(),
            latency: Latency::default(),
            percentiles: Percentiles::default(),
            memory_peak: AtomicU64::new(0),
            rates: Rates::default(),
            pubsub: PubSub::default(),
            pause: Pause::default(),
            tracking: Tracking::default(),
            hand: OnceLock::new(),
            events: Events::default(),
            scripts: Scripts::default(),
            // One more for a master's commands, and one for MIGRATE's.
            runs: Arc::new(Runs::new(workers + 2)),
            notifier: OnceLock::new(),
            wrong_passwords: Quota::default(),
            refused_clients: Quota::default(),
            slow_commands: Quota::default(),
            full: Quota::one_in(FULL),
            kills: AtomicU64::new(0),
            waker: OnceLock::new(),
            told_of_disk: AtomicBool::new(false),
        }
    }

    pub(crate) fn facts(&self) -> Facts {
        (self.facts)()
    }

    /// The counters of a worker's session of the pool so far.
    pub(crate) fn publish(&self, worker: usize, counters: Counters) {
        let mut published = self.engine[worker].lock().unwrap_or_else(PoisonError::into_inner);
        let checkpoints = counters.checkpoints.saturating_sub(published.checkpoints);
        if checkpoints > 0 {
            debug!(worker, checkpoints, "checkpoints of the pool's log");
        }
        *published = counters;
    }

    /// The sum of the published counters.
    pub(crate) fn published(&self) -> Counters {
        let mut sum = Counters::default();
        for one in &self.engine {
            sum += *one.lock().unwrap_or_else(PoisonError::into_inner);
        }
        sum
    }

    /// Hands messages to clients that track, from a thread that is no worker or between two batches.
    pub(crate) fn tell_trackers(&self, messages: Vec<crate::tracking::Message>) {
        if !messages.is_empty()
            && let Some(hand) = self.hand.get()
        {
            hand(Tracking::address(self, messages));
        }
    }

    /// Something of a kind took so long: it may be for the latency monitor.
    pub(crate) fn note_latency(&self, kind: &'static str, took: Duration) {
        if self.tuning.latency_threshold().is_some_and(|least| took >= least) {
            let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            self.latency.add(kind, Sample { time: now() / 1000, millis });
        }
    }

    /// A command took long.
    pub(crate) fn note_slow(&self, command: SlowCommand) {
        let is_fast = acl::is_in(command.command, "fast");
        self.note_latency(if is_fast { "fast-command" } else { "command" }, command.took);
        if self.tuning.slower_than().is_none_or(|least| command.took < least) {
            return;
        }
        if let Some(suppressed) = self.slow_commands.take() {
            let micros = u64::try_from(command.took.as_micros()).unwrap_or(u64::MAX);
            let SlowCommand { command: name, client, .. } = command;
            info!(command = name, micros, client, suppressed, "slow command");
        }
        self.slow_log.push(command, self.tuning.slow_log_len());
    }

    /// A client gave a wrong password.
    pub(crate) fn note_wrong_password(&self, client: &Listing) {
        if let Some(suppressed) = self.wrong_passwords.take() {
            warn!(client = client.id, address = %client.address, suppressed, "wrong password");
        }
    }

    /// There was no place for a client.
    pub(crate) fn note_refused(&self, address: &Peer) {
        if let Some(suppressed) = self.refused_clients.take() {
            let most = self.max_clients();
            warn!(%address, max_clients = most, suppressed, "client refused: too many are connected");
        }
    }

    pub(crate) fn is_protected(&self) -> bool {
        self.protected.load(Ordering::Relaxed)
    }

    pub(crate) fn set_protected(&self, on: bool) {
        self.protected.store(on, Ordering::Relaxed);
    }

    /// Whether a client from there is refused, since it would need no password.
    pub(crate) fn protects_from(&self, peer: &Peer) -> bool {
        self.is_protected()
            && !peer.is_local()
            && self.acl.user(DEFAULT).is_some_and(|user| user.needs_no_password)
    }

    /// No key expires from now on.
    pub(crate) fn set_loading(&self) {
        self.loading.store(true, Ordering::Relaxed);
    }

    /// The time up to which keys have expired at `now`.
    #[inline]
    pub(crate) fn cutoff(&self, now: u64) -> u64 {
        if self.loading.load(Ordering::Relaxed) { 0 } else { now }
    }

    /// Takes a place for a client, if there is one.
    pub(crate) fn admit(&self) -> bool {
        let most = self.max_clients();
        let more = |count| (count < most).then_some(count + 1);
        self.connected.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub(crate) fn max_clients(&self) -> usize {
        self.max_clients.load(Ordering::Relaxed)
    }

    /// Lets this many clients in from now on; clients that are connected stay.
    pub(crate) fn set_max_clients(&self, most: usize) {
        self.max_clients.store(most, Ordering::Relaxed);
    }

    pub(crate) fn expires_actively(&self) -> bool {
        self.expires_actively.load(Ordering::Relaxed)
    }

    /// Whether expired keys are deleted from now on though no command meets them.
    pub(crate) fn set_expires_actively(&self, on: bool) {
        self.expires_actively.store(on, Ordering::Relaxed);
    }

    pub(crate) fn connected(&self) -> usize {
        self.connected.load(Ordering::Relaxed)
    }

    /// Puts an admitted client on the list.
    pub(crate) fn enlist(&self, address: Peer, local: Peer) -> Arc<Listing> {
        let id = self.next_client.fetch_add(1, Ordering::Relaxed);
        debug!(client = id, %address, "client connected");
        let listing = Arc::new(Listing::new(id, address, local));
        {
            // On the list with its user: whoever changes that finds the client.
            let users = self.acl.users();
            users.get(DEFAULT).into_iter().for_each(|user| listing.set_user(Arc::clone(user)));
            self.clients().insert(id, Arc::clone(&listing));
        }
        listing
    }

    /// Makes a client the default user again.
    pub(crate) fn make_default(&self, client: &Listing) {
        let users = self.acl.users();
        users.get(DEFAULT).into_iter().for_each(|user| client.set_user(Arc::clone(user)));
    }

    /// Takes a client from the list, and gives its place to another.
    pub(crate) fn dismiss(&self, id: u64, reason: &str) {
        self.clients().remove(&id);
        self.connected.fetch_sub(1, Ordering::Relaxed);
        debug!(client = id, reason, "client disconnected");
    }

    /// Ends a client: it is not on the list any more, and its thread closes the connection. Whether it was there.
    pub(crate) fn kill(&self, client: &Listing) -> bool {
        let killed = client.kill();
        if killed {
            self.clients().remove(&client.id);
            self.kills.fetch_add(1, Ordering::Release);
            self.wake();
        }
        killed
    }

    /// Makes all workers look around.
    pub(crate) fn wake(&self) {
        self.waker.get().into_iter().for_each(|wake| wake());
    }

    /// How many clients were ended so far.
    pub(crate) fn kills(&self) -> u64 {
        self.kills.load(Ordering::Acquire)
    }

    /// The list of clients, by their numbers.
    pub(crate) fn clients(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Listing>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks all threads to end.
    pub(crate) fn stop(&self, reason: &str) {
        self.runs.stop();
        if !self.stopping.swap(true, Ordering::AcqRel) {
            info!(reason, "shutting down");
        }
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The medium failed: nothing is acknowledged from here on. Logged once.
    pub(crate) fn fail(&self, error: &Error) {
        if !self.failed.swap(true, Ordering::AcqRel) {
            error!("{error}. Every client is refused until the server is restarted");
        }
    }

    /// The pool's file could not grow: logged once until it can again.
    pub(crate) fn warn_of_disk(&self, error: &Error) {
        if !self.told_of_disk.swap(true, Ordering::AcqRel) {
            warn!("{error}. Until then clients that write are told MISCONF");
        }
    }

    /// Looks at how many bytes of the pool are taken, if so many were never before. Returns the most of all looks. To be
    /// called now and then.
    pub(crate) fn look_at_memory(&self) -> u64 {
        let taken = self.facts().taken();
        self.memory_peak.fetch_max(taken, Ordering::Relaxed).max(taken)
    }

    /// Logs that a write was refused since the pool is full, and what takes its space.
    pub(crate) fn warn_of_full(&self, needed: u64) {
        let Some(suppressed) = self.full.take() else { return };
        let facts = self.facts();
        warn!(
            needed_bytes = needed,
            limit_bytes = facts.limit,
            dataset_bytes = facts.used,
            overhead_bytes = facts.overhead,
            free_slot_bytes = facts.usage.free_slot_bytes,
            largest_free_bytes = facts.largest_free(),
            limbo_bytes = facts.usage.limbo_bytes,
            pinned_bytes = facts.pinned_bytes,
            oldest_transaction = ?facts.oldest_transaction,
            suppressed,
            "the pool is full: clients that write are told OOM; delete keys, or start with a larger --size"
        );
    }

    /// Logs that the file has grown after all. To be called now and then.
    pub(crate) fn look_at_disk(&self) {
        if self.told_of_disk.load(Ordering::Relaxed) && self.facts().cannot_grow.is_none() {
            self.told_of_disk.store(false, Ordering::Release);
            info!("the pool's file has grown again");
        }
    }

    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }
}
