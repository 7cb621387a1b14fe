//! Connections to the servers that keys go to.

use super::channel::Channel;
use super::request::{Login, Move};
use rustls::ClientConfig;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often a thread that waits for a target looks whether the server is to end.
const SLICE: Duration = Duration::from_millis(100);
/// Bytes that have to be sent within the time-out.
const PIECE: usize = 64 << 10;
/// Bytes of the longest reply: it is a line, and mostly OK.
const LINE_MAX: usize = 64 << 10;
/// How long a connection is kept that is not used, and how many are.
const KEPT: Duration = Duration::from_secs(10);
const KEPT_MAX: usize = 64;
/// Threads that connect to targets, at most.
const DIALS_MAX: usize = 64;

/// A connection to a target, on which nothing is owed.
pub(super) struct Target {
    channel: Channel,
    /// Bytes of replies that are yet to be read.
    received: Vec<u8>,
    /// The database that is chosen there.
    pub(super) db: Option<i64>,
    used: Instant,
}

/// How a target is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Manner {
    Plain,
    /// By TLS, with the files of this [edition](crate::tls::Tls::edition).
    Secure(u64),
}

/// Whose connection it is: one that is logged in serves nobody else, and one that was made in one manner serves no other.
pub(super) type Name = (Vec<u8>, Vec<u8>, Option<Login>, Manner);

/// Why a step takes no longer.
pub(super) struct Patience<'a> {
    pub(super) timeout: Duration,
    pub(super) is_over: &'a dyn Fn() -> bool,
}

impl Target {
    /// Connects, by TLS if there is a configuration of it.
    pub(super) fn connect(
        request: &Move,
        tls: Option<Arc<ClientConfig>>,
        patience: &Patience<'_>,
    ) -> io::Result<Self> {
        let wrong = |_| io::Error::from(ErrorKind::InvalidInput);
        let host = std::str::from_utf8(&request.host).map_err(wrong)?;
        let port = std::str::from_utf8(&request.port).map_err(wrong)?;
        // Nobody listens there, as Redis finds out by trying.
        let port: u16 = port.parse().map_err(|_| io::Error::from(ErrorKind::ConnectionRefused))?;
        let began = Instant::now();
        let stream = open(host.to_owned(), port, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SLICE))?;
        stream.set_write_timeout(Some(SLICE))?;
        let mut channel = match tls {
            None => Channel::Plain(stream),
            Some(config) => Channel::secure(stream, config, host)?,
        };
        while !patience.try_once(began, || channel.settle())?.unwrap_or(false) {}
        let used = Instant::now();
        Ok(Target { channel, received: Vec::new(), db: None, used })
    }

    /// Sends all of it.
    pub(super) fn send(&mut self, bytes: &[u8], patience: &Patience<'_>) -> io::Result<()> {
        for piece in bytes.chunks(PIECE) {
            let mut left = piece;
            let began = Instant::now();
            while !left.is_empty() {
                match patience.try_once(began, || self.channel.write_some(left))? {
                    Some(0) => return Err(ErrorKind::WriteZero.into()),
                    Some(written) => left = &left[written..],
                    None => {}
                }
            }
            while !patience.try_once(began, || self.channel.flush_some())?.unwrap_or(false) {}
        }
        Ok(())
    }

    /// The next reply, which is a line, without its end.
    pub(super) fn line(&mut self, patience: &Patience<'_>) -> io::Result<Vec<u8>> {
        let began = Instant::now();
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.received.drain(..=end).collect();
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(line);
            }
            if self.received.len() > LINE_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            let mut room = [0; 4096];
            match patience.try_once(began, || self.channel.read_some(&mut room))? {
                Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Some(read) => self.received.extend_from_slice(&room[..read]),
                None => {}
            }
        }
    }
}

/// A thread that connects.
struct Dial;

static DIALS: AtomicUsize = AtomicUsize::new(0);

impl Dial {
    fn begin() -> io::Result<Self> {
        let dial = match DIALS.fetch_add(1, Ordering::Relaxed) {
            0..DIALS_MAX => Ok(Dial),
            _ => Err(io::Error::other("too many connections are being made")),
        };
        if dial.is_err() {
            DIALS.fetch_sub(1, Ordering::Relaxed);
        }
        dial
    }
}

impl Drop for Dial {
    fn drop(&mut self) {
        DIALS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connects. Another thread does so, which nobody waits for in the end: neither looking for a name nor connecting ends before
/// its time.
fn open(host: String, port: u16, patience: &Patience<'_>) -> io::Result<TcpStream> {
    let (began, timeout) = (Instant::now(), patience.timeout);
    let (dial, (done, opened)) = (Dial::begin()?, sync_channel(1));
    let body = move || {
        // It is not wanted any longer if nobody waits.
        let _ = done.send(connect_to_any(&host, port, began, timeout));
        drop(dial);
    };
    thread::Builder::new().name("migrate-dial".to_owned()).spawn(body)?;
    loop {
        match opened.recv_timeout(SLICE) {
            Ok(stream) => return stream,
            Err(RecvTimeoutError::Timeout) => patience.go_on(began)?,
            Err(RecvTimeoutError::Disconnected) => return Err(ErrorKind::Other.into()),
        }
    }
}

/// Connects to the first of a name's addresses that answers.
fn connect_to_any(
    host: &str,
    port: u16,
    began: Instant,
    timeout: Duration,
) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        let left = timeout.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

impl Patience<'_> {
    /// Whether to go on with a step that began then.
    fn go_on(&self, began: Instant) -> io::Result<()> {
        match began.elapsed() >= self.timeout || (self.is_over)() {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(()),
        }
    }

    /// Does a part of a step that began then, if the step may go on. Nothing is returned if nothing has happened for a
    /// moment.
    fn try_once<T>(
        &self,
        began: Instant,
        part: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        self.go_on(began)?;
        match part() {
            Ok(done) => Ok(Some(done)),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            },
        }
    }
}

/// Connections that are kept for the next request to the same target.
#[derive(Default)]
pub(super) struct Kept(HashMap<Name, Target>);

impl Kept {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn name(request: &Move, manner: Manner) -> Name {
        (request.host.clone(), request.port.clone(), request.login.clone(), manner)
    }

    pub(super) fn take(&mut self, name: &Name) -> Option<Target> {
        self.0.remove(name)
    }

    /// Keeps one more, if need be instead of the one that was not used for longest. Not one that has sent more than it
    /// was asked for: that would be taken for later answers.
    pub(super) fn put(&mut self, name: Name, target: Target) {
        if !target.received.is_empty() {
            return;
        }
        if self.0.len() >= KEPT_MAX
            && let Some(oldest) = self.0.iter().min_by_key(|(_, one)| one.used)
        {
            let oldest = oldest.0.clone();
            self.0.remove(&oldest);
        }
        self.0.insert(name, Target { used: Instant::now(), ..target });
    }

    /// Closes those that were not used for long, and those that were made in another manner: with the files that hold now
    /// their targets might not be spoken to.
    pub(super) fn tidy(&mut self, manner: Manner) {
        self.0.retain(|name, target| name.3 == manner && target.used.elapsed() <= KEPT);
    }
}
