//! One client's connection: what it has sent, and what is still to be sent to it.

use crate::client::{Client, Replies};
use crate::protocol::{Args, ProtocolError, Reply, Request, RequestReader};
use crate::server::Server;
use crate::stats::Stats;
use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::time::Instant;

/// While more than this is unsent, nothing more is done for a client.
const MOST_UNSENT: usize = 4 << 20;
/// What is read in one turn, so that one client does not keep others waiting.
const MOST_READ: usize = 1 << 20;
/// An output buffer beyond this is given back once it is sent.
const KEEP: usize = 1 << 20;

/// What comes next from a client.
pub(crate) enum Next {
    Request(Request),
    /// Nothing, for now or for ever.
    Nothing,
    /// Something that is no request.
    Broken,
}

/// One client's connection.
pub(crate) struct Connection {
    stream: TcpStream,
    reader: RequestReader,
    /// Requests that were read and then put off.
    put_off: VecDeque<Request>,
    pub(crate) client: Client,
    pub(crate) out: Vec<u8>,
    /// Bytes of `out` that were sent.
    sent: usize,
    /// The length of `out` when the turn began: what follows is not acknowledged yet.
    acknowledged: usize,
    readable: bool,
    /// The end of what is to be read was announced, and will not be again.
    to_end: bool,
    ended: bool,
    /// Nothing more is read; it is closed when all is sent.
    closing: bool,
    broken: bool,
    /// What ends the stream of requests, once those before it are answered.
    refusal: Option<ProtocolError>,
    /// Requests wait that nothing keeps from being done.
    pub(crate) stalled: bool,
    /// Whether it is in the worker's list of connections with work.
    pub(crate) listed: bool,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, client: Client) -> Self {
        Connection {
            stream,
            reader: RequestReader::default(),
            put_off: VecDeque::new(),
            client,
            out: Vec::new(),
            sent: 0,
            acknowledged: 0,
            readable: true,
            to_end: false,
            ended: false,
            closing: false,
            broken: false,
            refusal: None,
            stalled: false,
            listed: false,
        }
    }

    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// The poll says that there is something to read; `to_end`, that the client's end is.
    pub(crate) fn set_readable(&mut self, to_end: bool) {
        self.readable = true;
        self.to_end |= to_end;
    }

    pub(crate) fn set_closing(&mut self) {
        self.closing = true;
    }

    /// Whether so much is unsent that nothing more is done for it.
    pub(crate) fn is_full(&self) -> bool {
        self.out.len() - self.sent > MOST_UNSENT
    }

    /// Whether it can be dropped.
    pub(crate) fn is_over(&self) -> bool {
        self.broken || (self.closing && self.sent == self.out.len())
    }

    /// Whether there is something to do that no event will announce.
    pub(crate) fn has_work(&self) -> bool {
        !self.closing
            && !self.broken
            && !self.is_full()
            && (self.readable || self.ended || self.stalled)
    }

    /// Reads what has come.
    pub(crate) fn receive(&mut self, now: Instant, stats: &Stats) {
        self.acknowledged = self.out.len();
        if self.closing || self.is_full() || !self.put_off.is_empty() {
            return;
        }
        let mut received = 0;
        while self.readable && received < MOST_READ {
            let room = self.reader.prepare();
            match self.reader.fill(&mut self.stream) {
                Ok(0) => (self.readable, self.ended) = (false, true),
                Ok(read) => {
                    received += read;
                    // Less than there was room for: an edge will announce more.
                    self.readable = read == room || self.to_end;
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => self.readable = false,
                    ErrorKind::Interrupted => {}
                    _ => (self.readable, self.broken) = (false, true),
                },
            }
        }
        if received > 0 {
            stats.input.add(received as u64);
            self.client.listing.set_active(now);
        }
    }

    /// The next complete request. `None` when there is none, for now or for ever.
    pub(crate) fn next_request(&mut self) -> Next {
        self.stalled = self.is_full();
        if self.closing || self.stalled {
            return Next::Nothing;
        }
        if let Some(request) = self.put_off.pop_front() {
            return Next::Request(request);
        }
        if self.refusal.is_some() {
            return Next::Broken;
        }
        match self.reader.next(self.client.limits()) {
            Ok(Some(request)) => Next::Request(request),
            Ok(None) => {
                self.closing = self.ended;
                Next::Nothing
            }
            Err(error) => {
                self.refusal = Some(error);
                Next::Broken
            }
        }
    }

    /// Takes back the request that was taken last (or, of several, the last one first).
    pub(crate) fn put_back(&mut self, request: Request) {
        self.put_off.push_front(request);
        self.stalled = true;
    }

    pub(crate) fn args(&self, request: Request) -> Args<'_> {
        self.reader.args(request)
    }

    /// A request's arguments, and where its reply goes.
    pub(crate) fn split(&mut self, request: Request) -> (Args<'_>, Reply<'_>) {
        let reply = Reply::new(&mut self.out, self.client.protocol);
        (self.reader.args(request), reply)
    }

    /// A request's arguments, the client, and its output.
    pub(crate) fn split_client(
        &mut self,
        request: Request,
    ) -> (Args<'_>, &mut Client, &mut Vec<u8>) {
        (self.reader.args(request), &mut self.client, &mut self.out)
    }

    /// Gives up on a client that breaks the protocol.
    pub(crate) fn refuse(&mut self) {
        if let Some(error) = self.refusal.take() {
            Reply::new(&mut self.out, self.client.protocol).error(&format!("ERR {}", error.0));
        }
        self.closing = true;
    }

    /// Takes back the reply that was written since `start`, if the client does not want it.
    pub(crate) fn hush(&mut self, start: usize) {
        let wanted = self.client.replies == Replies::On;
        if !wanted && self.out.len() > start {
            self.out.truncate(start);
            if self.client.replies == Replies::Skip {
                self.client.replies = Replies::On;
            }
        }
    }

    /// Takes back what this turn has answered: it may not be durable. The client is told once.
    pub(crate) fn retract(&mut self) {
        let told = self.closing && self.out.len() <= self.acknowledged;
        self.out.truncate(self.acknowledged);
        if !told {
            let text = "ERR persistence failed: nothing is acknowledged any more";
            Reply::new(&mut self.out, self.client.protocol).error(text);
        }
        self.closing = true;
    }

    /// Sends what can be sent now, and makes room.
    pub(crate) fn send(&mut self, stats: &Stats) {
        if self.put_off.is_empty() {
            self.reader.release();
        }
        while self.sent < self.out.len() && !self.broken {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => self.broken = true,
                Ok(written) => {
                    self.sent += written;
                    stats.output.add(written as u64);
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => break,
                    ErrorKind::Interrupted => {}
                    _ => self.broken = true,
                },
            }
        }
        if self.sent == self.out.len() {
            (self.sent, self.acknowledged) = (0, 0);
            self.out.clear();
            self.out.shrink_to(KEEP);
        } else if self.sent > KEEP {
            self.out.drain(..self.sent);
            self.acknowledged = self.out.len();
            self.sent = 0;
        }
    }

    /// Forgets the client.
    pub(crate) fn close(self, server: &Server) {
        server.dismiss(self.client.listing.id);
    }
}
