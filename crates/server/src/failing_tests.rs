//! A medium that fails: nothing is acknowledged any more, also when it recovers.

use crate::options::Options;
use crate::serve::{Listener, Server};
use crate::store::{Body, Facts, Session, Store};
use perdura::{Error, Handle, Pool, Result, Ticket};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A pool of which nothing is durable while it fails.
#[derive(Clone)]
struct Failing {
    pool: Pool,
    fails: Arc<AtomicBool>,
}

struct FailingSession {
    handle: Handle,
    fails: Arc<AtomicBool>,
}

impl Store for Failing {
    type Session = FailingSession;

    fn session(&self) -> Result<FailingSession> {
        Ok(FailingSession { handle: self.pool.session()?, fails: Arc::clone(&self.fails) })
    }

    fn facts(&self) -> Facts {
        self.pool.facts()
    }
}

impl Session for FailingSession {
    type Ticket = Ticket;

    fn write(&mut self, body: &mut Body<'_>) -> Result<Ticket> {
        Session::write(&mut self.handle, body)
    }

    fn read(&mut self, body: &mut Body<'_>) -> Result<Ticket> {
        Session::read(&mut self.handle, body)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<()> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(Error::Io(io::Error::other("the sync failed")));
        }
        Session::wait(&mut self.handle, ticket)
    }
}

fn connect(address: SocketAddr) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    BufReader::new(stream)
}

fn ask(client: &mut BufReader<TcpStream>, command: &str) -> String {
    client.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let pool = perdura::Options::new().size(32 << 20).domain(Some(perdura::Domain::Process));
    let pool = pool.create(folder.path().join("pool")).unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let store = Failing { pool, fails: Arc::clone(&fails) };
    let listener = Listener::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let server = Server::on(store, listener, Options::new().threads(2)).unwrap();
    let (address, shutdown) = (server.local_addr(), server.shutdown());
    let thread = std::thread::spawn(move || server.run());

    let refusal = "-ERR persistence failed: nothing is acknowledged any more";
    // Clients go to the two threads in turn.
    let mut clients = [connect(address), connect(address), connect(address)];
    for client in &mut clients {
        assert_eq!(ask(client, "SET key value"), "+OK");
    }
    fails.store(true, Ordering::SeqCst);
    let [first, second, third] = &mut clients;
    assert_eq!(ask(first, "SET key other"), refusal);
    assert_eq!(first.read(&mut [0]).unwrap(), 0);
    fails.store(false, Ordering::SeqCst);
    assert_eq!(ask(second, "GET key"), refusal);
    assert_eq!(ask(third, "PING"), refusal);
    let mut line = String::new();
    connect(address).read_line(&mut line).unwrap();
    assert_eq!(line.trim_end(), refusal);

    shutdown.shutdown();
    thread.join().unwrap().unwrap();
}
