//! The connection to a master: greeting it, and asking for its stream.

use super::control::{Ended, TICK};
use super::{TakeOver, reach};
use crate::keyspace::followed::{NAME_LEN, Place};
use crate::replication::wire::{Wire, WireReader, WireWriter};
use crate::server::Server;
use crate::transfer::resp;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A master that takes nothing for so long, or does not end its handshake of TLS, is gone.
const CONNECT: Duration = Duration::from_secs(5);
/// A master that says nothing for so long is gone, as Redis's `repl-timeout`.
const SILENCE: Duration = Duration::from_secs(60);
/// How often the master is told that this server is there.
pub(super) const BEAT: Duration = Duration::from_secs(1);
/// Bytes of a line.
const LINE_MAX: usize = 8192;

type Result<T> = std::result::Result<T, Ended>;

/// The master's answer to PSYNC.
pub(super) enum Answer {
    /// The stream goes on, perhaps by another name.
    Continue(Option<[u8; NAME_LEN]>),
    /// All of its data comes, and then the stream from this place on.
    Whole(Place),
}

/// A connected master.
pub(super) struct Master<'a> {
    reader: WireReader,
    writer: WireWriter,
    server: &'a Server,
    pub(super) life: u64,
    /// Bytes that were read, and not taken; those up to `taken` were.
    ahead: Vec<u8>,
    taken: usize,
    heard: Instant,
    /// When an empty line was last sent, if these are to be sent: the master hears nothing else while its snapshot is read.
    beats: Option<Instant>,
}

/// Connects, and says who this is.
pub(super) fn connect<'a>(
    server: &'a Server,
    life: u64,
    host: &str,
    port: u16,
) -> Result<Master<'a>> {
    let named = |error: io::Error| Ended::Broken(format!("{host}:{port}: {error}"));
    let wanted = || server.following.is_current(life) && !server.stopping();
    let name = host.to_owned();
    let connected = reach::elsewhere(&wanted, move || reach::connect(&name, port));
    let stream = connected.ok_or(Ended::Over)?.map_err(named)?;
    stream.set_nodelay(true).map_err(named)?;
    stream.set_read_timeout(Some(TICK)).map_err(named)?;
    stream.set_write_timeout(Some(CONNECT)).map_err(named)?;
    let again = stream.try_clone().map_err(named)?;
    if !server.following.keep_link(life, again) {
        return Err(Ended::Over);
    }
    let wire = match server.following.speaks_tls() {
        false => Wire::plain(stream),
        true => {
            let wrong = |text: String| Ended::Broken(format!("tls-replication: {text}"));
            let config = server.client_config().map_err(wrong)?;
            let until = Instant::now() + CONNECT;
            let secured = Wire::secure(stream, config, host, until, &wanted);
            secured.map_err(|error| wrong(format!("{host}:{port}: {error}")))?
        }
    };
    let (reader, writer) = wire.split().map_err(named)?;
    let (ahead, heard) = (Vec::new(), Instant::now());
    let mut master = Master { reader, writer, server, life, ahead, taken: 0, heard, beats: None };
    master.greet()?;
    Ok(master)
}

impl Read for Master<'_> {
    /// Reads what has come; `TimedOut` if nothing comes for a moment.
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.taken < self.ahead.len() {
            let rest = &self.ahead[self.taken..];
            let len = rest.len().min(to.len());
            to[..len].copy_from_slice(&rest[..len]);
            self.taken += len;
            return Ok(len);
        }
        self.look()?;
        match self.reader.read(to) {
            Ok(0) => Err(io::Error::new(ErrorKind::ConnectionAborted, "the master has hung up")),
            Ok(read) => {
                self.heard = Instant::now();
                Ok(read)
            }
            Err(error) => match error.kind() {
                // Only now: it may be this server that has been busy.
                ErrorKind::WouldBlock | ErrorKind::TimedOut if self.heard.elapsed() > SILENCE => {
                    let text = "the master has said nothing for a minute";
                    Err(io::Error::new(ErrorKind::ConnectionAborted, text))
                }
                ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(ErrorKind::TimedOut.into()),
                _ => Err(error),
            },
        }
    }
}

impl Master<'_> {
    /// Looks whether this is to go on.
    fn look(&mut self) -> io::Result<()> {
        let ended = |text: &str| Err(io::Error::new(ErrorKind::ConnectionAborted, text));
        if !self.server.following.is_current(self.life) || self.server.stopping() {
            return ended("it is to end");
        }
        if self.beats.is_some_and(|last| last.elapsed() >= BEAT) {
            self.beats = Some(Instant::now());
            self.write(b"\n")?;
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes)?;
        self.writer.flush()
    }

    /// Has the master hear, from now on or no longer, that this server is there while it reads.
    pub(super) fn set_beats(&mut self, on: bool) {
        self.beats = on.then(Instant::now);
    }

    /// Takes bytes back: they are read again.
    pub(super) fn put_back(&mut self, bytes: Vec<u8>) {
        let rest = self.ahead.split_off(self.taken);
        self.ahead = bytes;
        self.ahead.extend(rest);
        self.taken = 0;
    }

    /// When it was heard of last.
    pub(super) fn heard(&self) -> Instant {
        self.heard
    }

    pub(super) fn send(&mut self, args: &[&[u8]]) -> Result<()> {
        let mut bytes = Vec::new();
        resp::command(&mut bytes, args);
        self.write(&bytes).map_err(Ended::broken)
    }

    /// The next line that is not empty.
    pub(super) fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            match self.read_ahead(&mut byte) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::TimedOut => continue,
                Err(error) => return Err(Ended::broken(error)),
            }
            match byte[0] {
                b'\n' if line.iter().all(|byte| *byte == b'\r') => line.clear(),
                b'\n' => break,
                byte => line.push(byte),
            }
            if line.len() > LINE_MAX {
                return Err(Ended::broken("the master says what no master says"));
            }
        }
        let text = String::from_utf8_lossy(&line);
        Ok(text.trim_end_matches('\r').to_owned())
    }

    /// Takes one byte.
    fn read_ahead(&mut self, byte: &mut [u8; 1]) -> io::Result<()> {
        if self.taken == self.ahead.len() {
            let mut bytes = vec![0; LINE_MAX];
            let read = self.read(&mut bytes)?;
            bytes.truncate(read);
            (self.ahead, self.taken) = (bytes, 0);
        }
        byte[0] = self.ahead[self.taken];
        self.taken += 1;
        Ok(())
    }

    fn call(&mut self, args: &[&[u8]]) -> Result<String> {
        self.send(args)?;
        self.line()
    }

    fn greet(&mut self) -> Result<()> {
        let credentials = self.server.following.credentials();
        let answer = self.call(&[b"PING"])?;
        let wants_password = ["-NOAUTH", "-NOPERM", "-ERR operation not permitted"];
        if !answer.starts_with('+') && !wants_password.iter().any(|it| answer.starts_with(it)) {
            return Err(Ended::Broken(format!("the master answers PING with {answer:?}")));
        }
        if !credentials.password.is_empty() {
            let (user, password) = (credentials.user.as_bytes(), credentials.password.as_bytes());
            let answer = match user.is_empty() {
                true => self.call(&[b"AUTH", password])?,
                false => self.call(&[b"AUTH", user, password])?,
            };
            if !answer.starts_with('+') {
                return Err(Ended::Broken(format!("the master refuses masterauth: {answer}")));
            }
        }
        let announced = self.server.following.announcement();
        let secure = self.server.doors.tls.first().filter(|_| self.server.following.speaks_tls());
        let port = match announced.port {
            0 => secure.map_or(self.server.address.port(), SocketAddr::port),
            port => port,
        };
        // What is refused here is not needed.
        self.call(&[b"REPLCONF", b"listening-port", port.to_string().as_bytes()])?;
        if !announced.address.is_empty() {
            self.call(&[b"REPLCONF", b"ip-address", announced.address.as_bytes()])?;
        }
        self.call(&[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"])?;
        Ok(())
    }

    /// Asks for the stream, from the place that is known on, and whether the server at the other end becomes the master, if it
    /// is to.
    pub(super) fn ask(&mut self, known: Option<&Place>) -> Result<Answer> {
        let following = &self.server.following;
        let takes_over = following.move_take_over(TakeOver::Wanted, TakeOver::Asked)
            || following.take_over() == TakeOver::Asked;
        let answer = match known {
            Some(place) => {
                let next = place.at.wrapping_add(1).to_string();
                let words: [&[u8]; 4] = [b"PSYNC", &place.id, next.as_bytes(), b"FAILOVER"];
                self.call(&words[..if takes_over { 4 } else { 3 }])?
            }
            None => self.call(&[b"PSYNC", b"?", b"-1"])?,
        };
        if takes_over {
            // One that is a master already has been asked before.
            let is_refused =
                answer.starts_with('-') && !answer.contains("can't be sent to a master");
            let now = if is_refused { TakeOver::Refused } else { TakeOver::No };
            self.server.following.move_take_over(TakeOver::Asked, now);
        }
        let words: Vec<&str> = answer.split(' ').collect();
        let name = |text: &str| -> Option<[u8; NAME_LEN]> { text.as_bytes().try_into().ok() };
        let answer = match words.as_slice() {
            ["+CONTINUE"] => Some(Answer::Continue(None)),
            ["+CONTINUE", id, ..] => name(id).map(|id| Answer::Continue(Some(id))),
            ["+FULLRESYNC", id, at] => name(id)
                .zip(at.parse::<u64>().ok().filter(|at| *at <= i64::MAX as u64))
                .map(|(id, at)| Answer::Whole(Place { id, at, db: 0 })),
            _ => None,
        };
        answer.ok_or_else(|| {
            Ended::Broken(format!("the master answers PSYNC with {:?}", words.join(" ")))
        })
    }
}
