//! Fault injection: a pool whose transactions wait, or fail, where a test wants them to.

use crate::options::Options;
use crate::serve::{Listener, Server, Shutdown};
use crate::store::{Body, Facts, Session, Store};
use perdura::{Compaction, Counters, EngineKind, Handle, Pool, Result, Ticket};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// A fault at a point of a session's work.
type Fault = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// The pool.
#[derive(Clone)]
struct FaultyPool {
    pool: Pool,
    faults: Faults,
}

/// The functions called at the points where transactions can be held, or made to fail.
#[derive(Clone)]
pub(crate) struct Faults {
    /// After the body of a transaction that writes.
    pub(crate) written: Fault,
    /// Before durability is waited for.
    pub(crate) waits: Fault,
}

impl Default for Faults {
    fn default() -> Self {
        Faults { written: Arc::new(|| Ok(())), waits: Arc::new(|| Ok(())) }
    }
}

struct FaultySession {
    handle: Handle,
    faults: Faults,
}

impl Store for FaultyPool {
    type Session = FaultySession;

    fn session(&self) -> Result<FaultySession> {
        Ok(FaultySession { handle: self.pool.session()?, faults: self.faults.clone() })
    }

    fn facts(&self) -> Facts {
        self.pool.facts()
    }

    fn export_path(&self) -> Option<PathBuf> {
        self.pool.export_path()
    }

    fn has_snapshots(&self) -> bool {
        self.pool.has_snapshots()
    }
}

impl Session for FaultySession {
    type Ticket = Ticket;

    fn write(&mut self, body: &mut Body<'_>) -> Result<Ticket> {
        let FaultySession { handle, faults } = self;
        Session::write(handle, &mut |tx| {
            body(tx)?;
            (faults.written)()
        })
    }

    fn read(&mut self, body: &mut Body<'_>) -> Result<Ticket> {
        Session::read(&mut self.handle, body)
    }

    fn compact(&mut self) -> Option<Compaction> {
        Session::compact(&mut self.handle)
    }

    fn release(&mut self) -> Result<bool> {
        Session::release(&mut self.handle)
    }

    fn counters(&self) -> Counters {
        Session::counters(&self.handle)
    }

    fn is_durable(&self, ticket: Ticket) -> bool {
        Session::is_durable(&self.handle, ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<()> {
        (self.faults.waits)()?;
        Session::wait(&mut self.handle, ticket)
    }
}

/// A server on a new pool of its own. Clients go to its two threads in turn.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    shutdown: Shutdown,
    thread: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Running {
    pub(crate) fn new(engine: EngineKind, faults: Faults) -> Self {
        Running::with(engine, faults, |options| options)
    }

    /// The same, with options of its own.
    pub(crate) fn with(
        engine: EngineKind,
        faults: Faults,
        change: impl FnOnce(Options) -> Options,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pool = perdura::Options::new().size(32 << 20).engine(engine);
        let pool = pool.domain(Some(perdura::Domain::Process));
        let pool = pool.create(folder.path().join("pool")).unwrap();
        let listener = Listener::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let store = FaultyPool { pool, faults };
        let options = change(Options::new().threads(2));
        let server = Server::on(store, listener, options).unwrap();
        let (address, shutdown) = (server.local_addr(), server.shutdown());
        // It is the first of the threads that serve clients.
        let thread = std::thread::Builder::new().name("worker-0".to_owned());
        let thread = thread.spawn(move || server.run().unwrap()).unwrap();
        Running { address, shutdown, thread: Some(thread), _folder: folder }
    }

    pub(crate) fn client(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client(BufReader::new(stream))
    }

    /// Ends it, and checks that it ended without an error.
    pub(crate) fn stop(mut self) {
        self.shutdown.shutdown();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A connection, by inline requests.
pub(crate) struct Client(pub(crate) BufReader<TcpStream>);

impl Client {
    pub(crate) fn send(&mut self, command: &str) {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The reply's first line.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.line()
    }
}

/// Holds a transaction between the end of its body and its commit.
pub(crate) struct Held {
    armed: Arc<AtomicBool>,
    hears: mpsc::Receiver<()>,
    go_on: mpsc::Sender<()>,
}

impl Held {
    /// A server, and the fault that holds one of its transactions.
    pub(crate) fn new(engine: EngineKind) -> (Running, Held) {
        let armed = Arc::new(AtomicBool::new(false));
        let (said, hears) = mpsc::channel();
        let (go_on, waits) = mpsc::channel();
        let (holds, waits) = (Arc::clone(&armed), Mutex::new(waits));
        let written = move || {
            if holds.swap(false, Ordering::SeqCst) {
                said.send(()).unwrap();
                waits.lock().unwrap().recv().unwrap();
            }
            Ok(())
        };
        let faults = Faults { written: Arc::new(written), ..Faults::default() };
        (Running::new(engine, faults), Held { armed, hears, go_on })
    }

    /// Does `send`, and returns when the transaction that this leads to is held.
    pub(crate) fn hold(&self, send: impl FnOnce()) {
        self.armed.store(true, Ordering::SeqCst);
        send();
        self.hears.recv().unwrap();
    }

    /// Lets it commit.
    pub(crate) fn let_go(&self) {
        self.go_on.send(()).unwrap();
    }
}
