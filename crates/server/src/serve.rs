//! A server's life: binding, threads, signals, its end.

use crate::acl::{Acl, DEFAULT};
use crate::descriptors;
use crate::error::ServeError;
use crate::keyspace;
use crate::metrics::{self, Report};
use crate::migrate;
use crate::net::{DOORS_MAX, Door, Inbox, UnixDoor, Worker, http};
use crate::notify::Notifier;
use crate::options::Options;
use crate::pubsub::Parcel;
use crate::replication::Replication;
use crate::replication::following::Own;
use crate::save::Save;
use crate::server::{self, Doors};
use crate::signals;
use crate::store::{Session, Store};
use crate::tls::Tls;
use crate::waiting::Delivery;
use mio::net::TcpListener;
use perdura::Pool;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, signal_name};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tracing::{error, info, warn};

/// A second signal sooner than this after the first is the same wish, sent twice: to a process and
/// to its group, for instance.
const SAME: Duration = Duration::from_secs(1);

/// Serves `pool` until SIGTERM, SIGINT, SIGHUP or a client's SHUTDOWN, then closes it; SIGHUP does nothing in a process
/// that was started to ignore it, by `nohup` for instance. A second signal, a second or more later,
/// ends the process at once, whatever it hangs in; acknowledged writes are durable all the same.
///
/// # Errors
/// When it cannot start, or the medium fails while the pool is closed.
pub fn run(pool: Pool, options: Options) -> Result<(), ServeError> {
    let server = Server::bind(&pool, options)?;
    serve(pool, server, || Ok(()))
}

/// As [`run`], with a server that listens already. Calls `ready` when signals end it cleanly, and
/// just before it answers.
///
/// # Errors
/// As [`run`], and the result of `ready`.
pub fn serve<E: From<ServeError>>(
    pool: Pool,
    server: Server,
    ready: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    // A file that is cut short ends the process in any case; it is to say why.
    perdura::report_sigbus().map_err(ServeError::from)?;
    let ends = [SIGTERM, SIGINT, SIGHUP];
    let ends = ends.into_iter().filter(|&signal| signal != SIGHUP || !signals::is_ignored(SIGHUP));
    let mut signals = Signals::new(ends).map_err(ServeError::from)?;
    let (handle, shutdown) = (signals.handle(), server.shutdown());
    let watcher = thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut first = None;
        for signal in signals.forever() {
            let since = *first.get_or_insert_with(Instant::now);
            shutdown.stop(signal_name(signal).unwrap_or("a signal"));
            if since.elapsed() >= SAME {
                // It does not return for a signal that ends processes.
                let _ = emulate_default_handler(signal);
            }
        }
    });
    let watcher = watcher.map_err(ServeError::from)?;
    let shared = Arc::clone(&server.shared);
    let notifier = shared.notifier.get_or_init(Notifier::from_environment);
    let ended = ready().and_then(|()| {
        notifier.ready();
        let ended = server.run();
        notifier.stopping();
        Ok(ended.and_then(|()| Ok(pool.close()?))?)
    });
    match &ended {
        Ok(()) => info!("pool closed"),
        Err(_) => error!("ended by an error"),
    }
    handle.close();
    // The watcher only waits for signals: it has nothing to tell.
    let _ = watcher.join();
    ended
}

/// Sockets that listen. One that is bound before its pool is opened, or created, fails
/// before anything is done with the pool.
pub struct Listener(Vec<Door>);

impl Listener {
    /// Listens at the first of `addresses` that can be listened at.
    ///
    /// # Errors
    /// When none can: the last one's.
    pub fn bind(addresses: &[SocketAddr]) -> Result<Self, ServeError> {
        Ok(Listener(vec![Door::Tcp(bind(addresses)?)]))
    }

    /// The same for clients that speak TLS: [`Options::tls`] says how.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_tls(addresses: &[SocketAddr]) -> Result<Self, ServeError> {
        Ok(Listener(vec![Door::Tls(bind(addresses)?)]))
    }

    /// Listens at a path, with these permissions of its file, if they are given. A socket that was left there is replaced.
    /// The file is gone when the server has ended.
    ///
    /// # Errors
    /// When somebody listens there, or the system refuses.
    pub fn bind_unix(path: &Path, mode: Option<u32>) -> Result<Self, ServeError> {
        let failed = |source| ServeError::ListenUnix { path: path.to_owned(), source };
        Ok(Listener(vec![Door::Unix(UnixDoor::bind(path, mode).map_err(failed)?)]))
    }

    /// These sockets, and others.
    ///
    /// # Errors
    /// When they are too many.
    pub fn and(mut self, mut other: Listener) -> Result<Self, ServeError> {
        self.0.append(&mut other.0);
        if self.0.len() > DOORS_MAX { Err(ServeError::TooMany(DOORS_MAX)) } else { Ok(self) }
    }

    /// The first address that it listens at.
    ///
    /// # Errors
    /// When there is none.
    pub fn local_addr(&self) -> Result<SocketAddr, ServeError> {
        self.0.iter().find_map(Door::address).ok_or(ServeError::NoAddress)
    }

    /// Where it listens, besides the first address.
    fn doors(&self) -> Doors {
        let mut doors = Doors::default();
        for door in &self.0 {
            match door {
                Door::Tcp(_) => doors.plain.extend(door.address()),
                Door::Tls(_) => doors.tls.extend(door.address()),
                Door::Unix(door) => doors.unix.push(door.name().to_owned()),
            }
        }
        doors
    }
}

fn bind(addresses: &[SocketAddr]) -> Result<TcpListener, ServeError> {
    let mut failure = ServeError::NoAddress;
    for &address in addresses {
        match TcpListener::bind(address) {
            Ok(socket) => return Ok(socket),
            Err(source) => failure = ServeError::Listen { address, source },
        }
    }
    Err(failure)
}

/// A server that listens, and is yet to be run.
pub struct Server {
    shared: Arc<server::Server>,
    /// Where metrics are served, and the function that makes a session's report of them.
    metrics: Option<TcpListener>,
    reporter: Reporter,
    workers: Vec<Box<dyn FnOnce() -> io::Result<()> + Send>>,
    inboxes: Arc<[Arc<Inbox>]>,
}

type Reporter = Box<dyn FnOnce(Arc<server::Server>) -> perdura::Result<Report> + Send>;

/// Ends a [`Server`], from any thread.
#[derive(Clone)]
pub struct Shutdown {
    shared: Arc<server::Server>,
    inboxes: Arc<[Arc<Inbox>]>,
}

impl Shutdown {
    /// The server ends its turn, answers it, and closes its connections.
    pub fn shutdown(&self) {
        self.stop("it was asked to");
    }

    fn stop(&self, reason: &str) {
        self.shared.stop(reason);
        self.inboxes.iter().for_each(|inbox| inbox.wake());
    }
}

impl Server {
    /// Listens, on a pool that may be new.
    ///
    /// # Errors
    /// When the address is taken, the pool holds something else, or the system refuses.
    pub fn bind(pool: &Pool, options: Options) -> Result<Self, ServeError> {
        let listener = Listener::bind(&[options.listen])?;
        Self::with(pool, listener, options)
    }

    /// On a pool that may be new, with a socket that listens already; the options' own address
    /// is not used.
    ///
    /// # Errors
    /// When the pool holds something else, or the system refuses.
    pub fn with(pool: &Pool, listener: Listener, options: Options) -> Result<Self, ServeError> {
        if !pool.engine().isolates() {
            return Err(ServeError::Engine(pool.engine()));
        }
        let server = Self::on(pool.clone(), listener, options)?;
        let (facts, recovery) = (server.shared.facts(), pool.recovery());
        info!(
            pool = %pool.path().display(),
            engine = facts.engine,
            domain = facts.domain,
            used_bytes = facts.used,
            limit_bytes = facts.limit,
            replayed = recovery.replayed,
            rolled_back = recovery.rolled_back,
            discarded = recovery.discarded,
            "pool opened"
        );
        if !pool.engine().is_crash_consistent() {
            warn!(
                engine = facts.engine,
                "this engine keeps no log: if the process dies, everything in the pool is lost, acknowledged or not"
            );
        }
        Ok(server)
    }

    pub(crate) fn on<S: Store + Sync>(
        store: S,
        listener: Listener,
        options: Options,
    ) -> Result<Self, ServeError> {
        let options =
            Options { max_clients: descriptors::room_for(options.max_clients), ..options };
        // A server that has no address in the network says that it has port 0.
        let address = listener.local_addr().unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
        let tls = read_certificates(&options)?;
        if tls.is_none() && !listener.doors().tls.is_empty() {
            return Err(ServeError::NoCertificate);
        }
        let acl = read_users(&options)?;
        let keyspace = open_keyspace(&store)?;
        let facts = store.clone();
        let mut shared = server::Server::new(options, address, Box::new(move || facts.facts()));
        (shared.acl, shared.tls, shared.doors) = (acl, tls, listener.doors());
        shared.save = Arc::new(Save::of(store.clone(), keyspace));
        shared.replication = Replication::of(shared.options.backlog, store.clone(), keyspace);
        shared.runs.set_exclusive(!store.has_snapshots());
        let shared = Arc::new(shared);
        let mut polls = Vec::new();
        let mut inboxes = Vec::new();
        for _ in 0..shared.stats.len() {
            let (poll, inbox) = Worker::<S::Session>::prepare()?;
            polls.push(poll);
            inboxes.push(inbox);
        }
        let inboxes: Arc<[Arc<Inbox>]> = inboxes.into();
        let all = Arc::clone(&inboxes);
        // The only one that sets it.
        let _ = shared.waker.set(Box::new(move || all.iter().for_each(|inbox| inbox.wake())));
        let deliver = |all: Arc<[Arc<Inbox>]>| {
            move |delivery: Delivery| all[delivery.to.worker].deliver(delivery)
        };
        let _ = shared.deliver.set(Box::new(deliver(Arc::clone(&inboxes))));
        let _ = shared.save.deliver.set(Box::new(deliver(Arc::clone(&inboxes))));
        let (all, of) = (Arc::clone(&inboxes), Arc::downgrade(&shared));
        let hand = move |parcels: BTreeMap<usize, Vec<Parcel>>| {
            let Some(server) = of.upgrade() else { return };
            for (worker, parcels) in parcels {
                for refused in all[worker].post(parcels) {
                    server.kill(&refused.to.client);
                }
            }
        };
        let _ = shared.hand.set(Box::new(hand));
        let of = Arc::downgrade(&shared);
        let post = move |posts| {
            if let Some(server) = of.upgrade()
                && let Some(hand) = server.hand.get()
            {
                hand(server.pubsub.address(posts));
            }
        };
        let _ = shared.post.set(Box::new(post));
        let (own, of) = (store.clone(), Arc::downgrade(&shared));
        shared.migration.open(Box::new(move |orders| {
            let gone = || io::Error::other("the server ends");
            let server = of.upgrade().ok_or_else(gone)?;
            let session = own.session().map_err(io::Error::other)?;
            migrate::start(&server, session, keyspace, orders)
        }));
        let hands = Box::new(Own { store: store.clone(), header: keyspace });
        let wanted = shared.options.replica_of.as_ref();
        shared.following.open(Arc::downgrade(&shared), hands, wanted)?;
        let mut workers: Vec<Box<dyn FnOnce() -> io::Result<()> + Send>> = Vec::new();
        let mut doors = Some(listener.0);
        for (index, poll) in polls.into_iter().enumerate() {
            let session = store.session()?;
            let (shared, inboxes) = (Arc::clone(&shared), Arc::clone(&inboxes));
            let mut worker = Worker::new(index, shared, session, keyspace, poll, inboxes);
            if let Some(doors) = doors.take() {
                worker.listen(doors)?;
            }
            workers.push(Box::new(move || worker.run()));
        }
        let reporter: Reporter = Box::new(move |shared| {
            let mut session = store.session()?;
            Ok(Box::new(move || metrics::report(&shared, &mut session, keyspace)))
        });
        Ok(Server { shared, metrics: None, reporter, workers, inboxes })
    }

    /// Serves metrics for Prometheus as well: over HTTP, at `/metrics` of this listener.
    pub fn metrics(mut self, listener: Listener) -> Self {
        self.metrics = listener.0.into_iter().find_map(|door| match door {
            Door::Tcp(listener) => Some(listener),
            Door::Tls(_) | Door::Unix(_) => None,
        });
        self
    }

    /// Lets no key expire: commands of the past are performed.
    pub(crate) fn loading(self) -> Self {
        self.shared.set_loading();
        self
    }

    /// Where it listens: the first address.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.address
    }

    /// Where it listens for clients that speak TLS.
    pub fn tls_addrs(&self) -> &[SocketAddr] {
        &self.shared.doors.tls
    }

    /// The handle that ends it.
    pub fn shutdown(&self) -> Shutdown {
        Shutdown { shared: Arc::clone(&self.shared), inboxes: Arc::clone(&self.inboxes) }
    }

    /// Serves until [`Shutdown`] or a client's SHUTDOWN ends it. When the medium fails, this is
    /// logged once, and from then on every client is refused.
    ///
    /// # Errors
    /// When a thread cannot be started, or the system fails it.
    pub fn run(self) -> Result<(), ServeError> {
        let shutdown = self.shutdown();
        let shared = Arc::clone(&self.shared);
        let mut metrics = match self.metrics {
            Some(listener) => Some((listener, (self.reporter)(Arc::clone(&shared))?)),
            None => None,
        };
        info!(address = %shared.address, threads = shared.stats.len(), "listening");
        let doors = &shared.doors;
        for address in doors.plain.iter().filter(|address| **address != shared.address) {
            info!(%address, "listening");
        }
        doors.tls.iter().for_each(|address| info!(%address, "listening with TLS"));
        doors.unix.iter().for_each(|path| info!(path, "listening"));
        if let Some((listener, _)) = &metrics {
            info!(address = %listener.local_addr()?, "serving metrics");
        }
        if shared.acl.user(DEFAULT).is_some_and(|user| user.is_free())
            && !shared.address.ip().is_loopback()
        {
            warn!("anyone who reaches this address can read and write; set a password");
        }
        let _save = StopSave(Arc::clone(&self.shared.save));
        let _replicas = StopReplicas(Arc::clone(&self.shared));
        shared.following.start();
        let mut workers = self.workers.into_iter();
        let Some(first) = workers.next() else { return Ok(()) };
        thread::scope(|scope| {
            let mut threads = Vec::new();
            let mut result = Ok(());
            for (index, worker) in workers.enumerate() {
                let stop = StopAll(shutdown.clone());
                let body = move || {
                    let _stop = stop;
                    worker()
                };
                let name = format!("worker-{}", index + 1);
                match thread::Builder::new().name(name).spawn_scoped(scope, body) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => result = Err(error),
                }
            }
            let stop = StopAll(shutdown);
            if let Some((listener, mut report)) = metrics.take() {
                let server = &shared;
                let body = move || {
                    if let Err(error) = http::serve(listener, server, &mut report) {
                        error!("metrics are not served any more: {error}");
                    }
                };
                let thread = thread::Builder::new().name("metrics".to_owned());
                result = result.and(thread.spawn_scoped(scope, body).map(drop));
            }
            if result.is_ok() {
                result = first();
            }
            drop(stop);
            for thread in threads {
                match thread.join() {
                    Ok(done) => result = result.and(done),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(result?)
        })
    }
}

/// Ends an export under way with the server: the export has a session of the pool.
struct StopSave(Arc<Save>);

impl Drop for StopSave {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Ends the threads of replicas and of MIGRATE with the server: they have sessions of the pool.
struct StopReplicas(Arc<server::Server>);

impl Drop for StopReplicas {
    fn drop(&mut self) {
        self.0.following.stop();
        self.0.replication.stop();
        self.0.migration.stop();
    }
}

/// One worker's end, even by panic, is the end of all.
struct StopAll(Shutdown);

impl Drop for StopAll {
    fn drop(&mut self) {
        self.0.stop("a thread has ended");
    }
}

/// The users that a server begins with.
fn read_users(options: &Options) -> Result<Acl, ServeError> {
    let acl = Acl::new(options.password.as_deref());
    match &options.acl_file {
        None => Ok(acl),
        Some(_) if options.password.is_some() => Err(ServeError::TwoPasswords),
        Some(path) => acl.with_file(path).map_err(ServeError::Users),
    }
}

/// Checks that a server with these options can read its users and certificates, before a pool is made for it.
///
/// # Errors
/// What is wrong with a file; or that there is a password besides a file of users.
pub fn check_files(options: &Options) -> Result<(), ServeError> {
    read_users(options)?;
    read_certificates(options).map(drop)
}

/// The certificates, if there are any.
fn read_certificates(options: &Options) -> Result<Option<Tls>, ServeError> {
    if options.tls_replication || options.tls_cluster {
        let files = options.tls.as_ref().ok_or(ServeError::NoCertificate)?;
        files.read_for_master().map_err(ServeError::Tls)?;
    }
    options.tls.as_ref().map(Tls::new).transpose().map_err(ServeError::Tls)
}

/// The keyspace's header, durable.
fn open_keyspace<S: Store>(store: &S) -> Result<u64, ServeError> {
    let mut session = store.session()?;
    let seed = keyspace::unguessable();
    let mut opened = Ok(0);
    let ticket = session.write(&mut |tx| {
        opened = keyspace::open(tx, seed)?;
        Ok(())
    })?;
    session.wait(ticket)?;
    opened.map_err(ServeError::Keyspace)
}
